// Package op holds the typed operators: the steps that a task's records run through. An operator is called directly by
// the one before it, with a pointer to a typed record; nothing is boxed, no channel stands between two steps, and no step
// allocates for a record that it only passes on.
package op

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/processor"
)

// Sink takes records from the step before it. The record is valid until Process returns, and must not be changed.
type Sink[K, V any] interface {
	Process(r *processor.Record[K, V]) error
}

// Change is an update of a table: the value of a record between the steps of a table.
//
// In Kafka Streams: Change.
type Change[V any] struct {
	New, Old       V    // the zero value where there is no such row
	HasNew, HasOld bool // false: null (no such row)
	// Stale says that a newer version of the row was there already: a versioned table took an update out of order. In Kafka
	// Streams it is the opposite of isLatest.
	Stale bool
}

// Child is a step that follows another, as wired for one task.
type Child struct {
	Step string
	Sink any // a Sink of the parent's output types
}

// Factory makes the operator of a step for one task. It returns a Sink of the step's input types.
type Factory interface {
	Build(env *Env, step string, children []Child) (any, error)
}

// FactoryFunc is a Factory in one function.
type FactoryFunc func(env *Env, step string, children []Child) (any, error)

// Build calls f.
func (f FactoryFunc) Build(env *Env, step string, children []Child) (any, error) {
	return f(env, step, children)
}

// Downstream joins the steps that follow into one typed Sink. This is the only place where a record's types are checked
// while a task is built; from here on calls are direct.
func Downstream[K, V any](step string, children []Child) (Sink[K, V], error) {
	sinks := make([]Sink[K, V], 0, len(children))
	for _, c := range children {
		s, ok := c.Sink.(Sink[K, V])
		if !ok {
			return nil, fmt.Errorf("millrace: step %s sends %s, step %s takes something else", step, typeNames[K, V](), c.Step)
		}
		sinks = append(sinks, s)
	}
	switch len(sinks) {
	case 0:
		return discard[K, V]{}, nil
	case 1:
		return sinks[0], nil
	}
	return fan[K, V](sinks), nil
}

func typeNames[K, V any]() string {
	return fmt.Sprintf("(%T, %T)", *new(K), *new(V))
}

// fan hands a record to several steps in the order of their declaration.
type fan[K, V any] []Sink[K, V]

func (f fan[K, V]) Process(r *processor.Record[K, V]) error {
	for _, s := range f {
		if err := s.Process(r); err != nil {
			return err
		}
	}
	return nil
}

// discard ends a path that nothing follows.
type discard[K, V any] struct{}

func (discard[K, V]) Process(*processor.Record[K, V]) error { return nil }

// FatalError ends a task. It says where, and wraps the cause.
type FatalError struct {
	Stage  processor.Stage
	Step   string
	Task   processor.TaskID
	Origin processor.Metadata
	Hint   string
	Err    error
}

// Error tells what failed, where, and what to do next.
func (e *FatalError) Error() string {
	where := fmt.Sprintf("task %v, step %s", e.Task, e.Step)
	if e.Task.Subtopology < 0 {
		where = fmt.Sprintf("global store, step %s", e.Step)
	}
	if e.Origin.Topic != "" {
		where += fmt.Sprintf(", record %s-%d@%d", e.Origin.Topic, e.Origin.Partition, e.Origin.Offset)
	}
	text := fmt.Sprintf("millrace: %s: %s: %v", e.Stage, where, e.Err)
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *FatalError) Unwrap() error { return e.Err }

// isFatal tells whether an error was judged already further down, so that a step above must pass it on untouched.
func isFatal(err error) bool {
	var fatal *FatalError
	return errors.As(err, &fatal)
}
