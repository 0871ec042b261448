// Package metrics counts what the engine does and what it drops.
package metrics

import (
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/processor"
)

// Reason says why a record was dropped, skipped or noted at a step.
type Reason string

const (
	NullKey           Reason = "null-key"
	NullValue         Reason = "null-value"
	NegativeTimestamp Reason = "negative-timestamp"
	Deserialization   Reason = "deserialization"
	Processing        Reason = "processing"
	Production        Reason = "production"
	Late              Reason = "late"
	ExpiredOnPut      Reason = "expired-on-put"
	DeadLetter        Reason = "dead-letter"
)

// Name names a counter of a task.
type Name string

const (
	RecordsProcessed   Name = "records-processed"
	EnforcedProcessing Name = "enforced-processing"
	MetadataLeftOut    Name = "metadata-left-out"
)

// Counter counts up.
type Counter struct{ n atomic.Int64 }

// Inc adds one.
func (c *Counter) Inc() { c.n.Add(1) }

// Value reads it.
func (c *Counter) Value() int64 { return c.n.Load() }

type dropKey struct {
	step   string
	reason Reason
}

type taskKey struct {
	name Name
	task processor.TaskID
}

// Registry holds the counters of an application.
type Registry struct {
	mu    sync.Mutex
	drops map[dropKey]*Counter
	tasks map[taskKey]*Counter
}

// New returns an empty Registry.
func New() *Registry {
	return &Registry{drops: make(map[dropKey]*Counter), tasks: make(map[taskKey]*Counter)}
}

// Dropped returns the counter of a step and reason.
func (r *Registry) Dropped(step string, reason Reason) *Counter {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := dropKey{step, reason}
	c := r.drops[k]
	if c == nil {
		c = new(Counter)
		r.drops[k] = c
	}
	return c
}

// Counter returns a counter of a task.
func (r *Registry) Counter(name Name, task processor.TaskID) *Counter {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := taskKey{name, task}
	c := r.tasks[k]
	if c == nil {
		c = new(Counter)
		r.tasks[k] = c
	}
	return c
}
