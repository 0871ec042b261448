package op

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/processor"
)

// The user functions of this file all return an error: the DSL wraps those that cannot fail. Each step calls its function
// in a method of its own that turns a panic into an error, then forwards outside of it, so that an error further down is
// never taken for one of this step.

// NewFilter keeps the records for which keep returns true.
func NewFilter[K, V any](keep func(K, V) (bool, error)) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[K, V](step, children)
		return &filter[K, V]{guard: newGuard(env, step), keep: keep, next: next}, err
	})
}

type filter[K, V any] struct {
	guard
	keep func(K, V) (bool, error)
	next Sink[K, V]
}

func (f *filter[K, V]) Process(r *processor.Record[K, V]) error {
	for attempt := 1; ; attempt++ {
		keep, err := f.call(r)
		if err == nil {
			if keep {
				return f.next.Process(r)
			}
			return nil
		}
		if retry, err := f.failed(err, attempt); !retry {
			return err
		}
	}
}

func (f *filter[K, V]) call(r *processor.Record[K, V]) (keep bool, err error) {
	defer recovered(&err)
	return f.keep(r.Key, r.Value)
}

// NewMap turns each record into one of other types, by a function that sees and makes whole records. Key mappers, value
// mappers and key selectors are built on it.
//
// The function sets key and value, and the null flags where its result type cannot hold a nil; everything else is copied
// from the input before it is called.
func NewMap[K, V, K2, V2 any](f func(in *processor.Record[K, V], out *processor.Record[K2, V2]) error) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[K2, V2](step, children)
		return &mapper[K, V, K2, V2]{
			guard: newGuard(env, step), f: f, next: next, nilKey: nilness.Checker[K2](), nilValue: nilness.Checker[V2](),
		}, err
	})
}

type mapper[K, V, K2, V2 any] struct {
	guard
	f        func(in *processor.Record[K, V], out *processor.Record[K2, V2]) error
	next     Sink[K2, V2]
	nilKey   func(*K2) bool
	nilValue func(*V2) bool
	out      processor.Record[K2, V2] // reused: a step is never entered twice at a time
}

func (m *mapper[K, V, K2, V2]) Process(r *processor.Record[K, V]) error {
	for attempt := 1; ; attempt++ {
		err := m.call(r)
		if err == nil {
			if m.nilKey != nil {
				m.out.NullKey = m.nilKey(&m.out.Key)
			}
			if m.nilValue != nil {
				m.out.NullValue = m.nilValue(&m.out.Value)
			}
			return m.next.Process(&m.out)
		}
		if retry, err := m.failed(err, attempt); !retry {
			return err
		}
	}
}

func (m *mapper[K, V, K2, V2]) call(r *processor.Record[K, V]) (err error) {
	defer recovered(&err)
	m.out.TimestampMs, m.out.Headers = r.TimestampMs, r.Headers
	m.out.NullKey, m.out.NullValue = false, false
	return m.f(r, &m.out)
}

// NewFlatMap turns each record into any number of records. The function appends them to out, which is reused; nil flags
// are set as by NewMap.
func NewFlatMap[K, V, K2, V2 any](
	f func(in *processor.Record[K, V], out []processor.Record[K2, V2]) ([]processor.Record[K2, V2], error)) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[K2, V2](step, children)
		return &flatMapper[K, V, K2, V2]{
			guard: newGuard(env, step), f: f, next: next, nilKey: nilness.Checker[K2](), nilValue: nilness.Checker[V2](),
		}, err
	})
}

type flatMapper[K, V, K2, V2 any] struct {
	guard
	f        func(in *processor.Record[K, V], out []processor.Record[K2, V2]) ([]processor.Record[K2, V2], error)
	next     Sink[K2, V2]
	nilKey   func(*K2) bool
	nilValue func(*V2) bool
	out      []processor.Record[K2, V2]
}

func (m *flatMapper[K, V, K2, V2]) Process(r *processor.Record[K, V]) error {
	for attempt := 1; ; attempt++ {
		err := m.call(r)
		if err == nil {
			break
		}
		if retry, err := m.failed(err, attempt); !retry {
			return err
		}
	}
	for i := range m.out {
		o := &m.out[i]
		o.TimestampMs, o.Headers = r.TimestampMs, r.Headers
		if m.nilKey != nil {
			o.NullKey = m.nilKey(&o.Key)
		}
		if m.nilValue != nil {
			o.NullValue = m.nilValue(&o.Value)
		}
		if err := m.next.Process(o); err != nil {
			return err
		}
	}
	clear(m.out)
	return nil
}

func (m *flatMapper[K, V, K2, V2]) call(r *processor.Record[K, V]) (err error) {
	defer recovered(&err)
	m.out, err = m.f(r, m.out[:0])
	return err
}

// NewPeek calls f for each record and passes it on.
func NewPeek[K, V any](f func(*processor.Record[K, V]) error) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[K, V](step, children)
		return &peek[K, V]{guard: newGuard(env, step), f: f, next: next}, err
	})
}

type peek[K, V any] struct {
	guard
	f    func(*processor.Record[K, V]) error
	next Sink[K, V]
}

func (p *peek[K, V]) Process(r *processor.Record[K, V]) error {
	for attempt := 1; ; attempt++ {
		err := p.call(r)
		if err == nil {
			return p.next.Process(r)
		}
		if retry, err := p.failed(err, attempt); !retry {
			return err
		}
	}
}

func (p *peek[K, V]) call(r *processor.Record[K, V]) (err error) {
	defer recovered(&err)
	return p.f(r)
}

// NewPass passes records on as they are: a merge, a branch's end, a value's change of name.
func NewPass[K, V any]() Factory {
	return FactoryFunc(func(_ *Env, step string, children []Child) (any, error) {
		return Downstream[K, V](step, children)
	})
}

// NewDropNullKeys is the step in front of a repartition topic: records without a key have no partition to go to. Kafka
// Streams drops them silently, here they are counted. Where keep is true when a task is built they pass: later steps of the
// declaration decide it.
func NewDropNullKeys[K, V any](keep *bool) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[K, V](step, children)
		if *keep {
			return next, err
		}
		return &dropNullKeys[K, V]{dropped: env.counter(step, metrics.NullKey), next: next}, err
	})
}

type dropNullKeys[K, V any] struct {
	dropped *metrics.Counter
	next    Sink[K, V]
}

func (d *dropNullKeys[K, V]) Process(r *processor.Record[K, V]) error {
	if r.NullKey {
		d.dropped.Inc()
		return nil
	}
	return d.next.Process(r)
}

// Branch is one way out of a split: the step that its records go to, and what they must meet; a nil predicate takes all.
type Branch[K, V any] struct {
	Step string
	When func(K, V) (bool, error)
}

// NewSplit hands each record to the first branch whose predicate it meets.
func NewSplit[K, V any](branches []Branch[K, V]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		s := &split[K, V]{guard: newGuard(env, step), next: make([]Sink[K, V], len(branches))}
		for i, b := range branches {
			s.when = append(s.when, b.When)
			var own []Child
			for _, c := range children {
				if c.Step == b.Step {
					own = append(own, c)
				}
			}
			if len(own) == 0 {
				return nil, fmt.Errorf("millrace: split %s: its branch %s is not wired", step, b.Step)
			}
			next, err := Downstream[K, V](step, own)
			if err != nil {
				return nil, err
			}
			s.next[i] = next
		}
		return s, nil
	})
}

type split[K, V any] struct {
	guard
	when []func(K, V) (bool, error)
	next []Sink[K, V]
}

func (s *split[K, V]) Process(r *processor.Record[K, V]) error {
	for attempt := 1; ; attempt++ {
		i, err := s.call(r)
		if err == nil {
			if i < 0 {
				return nil
			}
			return s.next[i].Process(r)
		}
		if retry, err := s.failed(err, attempt); !retry {
			return err
		}
	}
}

func (s *split[K, V]) call(r *processor.Record[K, V]) (branch int, err error) {
	defer recovered(&err)
	for i, when := range s.when {
		if when == nil {
			return i, nil
		}
		ok, err := when(r.Key, r.Value)
		if err != nil {
			return -1, err
		}
		if ok {
			return i, nil
		}
	}
	return -1, nil
}
