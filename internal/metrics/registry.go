// Package metrics counts what the engine does and what it drops: every record that is skipped, late or dropped is counted
// by step and reason.
//
// Who counts takes a handle once, when it is wired, and counts on it without a look-up or an allocation. A task has a part
// of the registry of its own, so that tasks which run side by side do not fight for one counter's cache line; reading adds
// the parts up. What a closed task had counted stays in the sums.
//
// Counters tell what was done, not what is committed: records that are processed again after a failure are counted again.
package metrics

import (
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/processor"
)

// Counter counts up. Any number of goroutines may use it; Inc takes three to four nanoseconds while only one does. A loop to
// which that matters counts by itself and calls Add at its end.
type Counter struct {
	n atomic.Int64
	_ [56]byte // a cache line each: neighbours belong to other tasks
}

// Inc adds one.
func (c *Counter) Inc() { c.n.Add(1) }

// Add adds n.
func (c *Counter) Add(n int64) { c.n.Add(n) }

// Value reads it.
func (c *Counter) Value() int64 { return c.n.Load() }

// Gauge is a value that goes up and down.
type Gauge struct {
	n atomic.Int64
	_ [56]byte
}

// Set sets it.
func (g *Gauge) Set(n int64) { g.n.Store(n) }

// Add changes it by n.
func (g *Gauge) Add(n int64) { g.n.Add(n) }

// Value reads it.
func (g *Gauge) Value() int64 { return g.n.Load() }

type dropKey struct {
	step   string
	reason Reason
	topic  string
}

// part holds the counters of a task, or those of the application as a whole.
type part struct {
	mu       sync.Mutex
	drops    map[dropKey]*Counter
	counters map[Name]*Counter
	gauges   map[Name]*Gauge
}

func newPart() part {
	return part{drops: make(map[dropKey]*Counter), counters: make(map[Name]*Counter), gauges: make(map[Name]*Gauge)}
}

func handle[K comparable, V any](p *part, m map[K]*V, k K) *V {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := m[k]
	if v == nil {
		v = new(V)
		m[k] = v
	}
	return v
}

func (p *part) counter(n Name) *Counter    { return handle(p, p.counters, n) }
func (p *part) gauge(n Name) *Gauge        { return handle(p, p.gauges, n) }
func (p *part) dropped(k dropKey) *Counter { return handle(p, p.drops, k) }

// Registry holds the counters of an application. It is safe for concurrent use.
type Registry struct {
	mu     sync.Mutex
	app    part
	closed part // what closed tasks had counted
	tasks  map[processor.TaskID]*Task
}

// New returns an empty Registry.
func New() *Registry {
	return &Registry{app: newPart(), closed: newPart(), tasks: make(map[processor.TaskID]*Task)}
}

// Dropped returns the counter of a step and reason that all tasks share.
func (r *Registry) Dropped(step string, reason Reason) *Counter {
	return r.app.dropped(dropKey{step: step, reason: reason})
}

// Total returns a counter of the application.
func (r *Registry) Total(name Name) *Counter { return r.app.counter(name) }

// Gauge returns a gauge of the application.
func (r *Registry) Gauge(name Name) *Gauge { return r.app.gauge(name) }

// Counter returns a counter of a task.
func (r *Registry) Counter(name Name, task processor.TaskID) *Counter {
	return r.Task(task).Counter(name)
}

// Task returns the part of a task, which it makes at the first call.
func (r *Registry) Task(id processor.TaskID) *Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tasks[id]
	if t == nil {
		t = &Task{id: id, registry: r, part: newPart()}
		r.tasks[id] = t
	}
	return t
}

// Task is the part of one task. Its handles stay good after Close, but what is counted on them then is lost.
type Task struct {
	id       processor.TaskID
	registry *Registry
	part
}

// ID returns the task's id.
func (t *Task) ID() processor.TaskID { return t.id }

// Counter returns a counter of the task.
func (t *Task) Counter(name Name) *Counter { return t.counter(name) }

// Gauge returns a gauge of the task.
func (t *Task) Gauge(name Name) *Gauge { return t.gauge(name) }

// Dropped returns the task's counter of a step, reason and topic. The topic is that of the record where the step reads
// or writes several, and empty otherwise.
func (t *Task) Dropped(step string, reason Reason, topic string) *Counter {
	return t.dropped(dropKey{step: step, reason: reason, topic: topic})
}

// Close takes the task out: its gauges are gone, and its counts go into the sums. A task of the same id that is opened later
// begins at zero. Closing twice is no error.
func (t *Task) Close() {
	r := t.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tasks[t.id] != t {
		return
	}
	delete(r.tasks, t.id)
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, c := range t.drops {
		r.closed.dropped(k).Add(c.Value())
	}
	for n, c := range t.counters {
		r.closed.counter(n).Add(c.Value())
	}
}
