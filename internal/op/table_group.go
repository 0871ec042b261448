package op

import (
	"bytes"

	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// NewTableSelect gives each row of a table another key and value, on the way to an aggregation of the groups: an update
// takes the row out of the group that it was in and puts it into the one that it is in now. f is called for both; a nil
// key or value means that the row is in no group. Where the encoded keys are equal one record goes out with both values,
// otherwise one for the old group and then one for the new group.
//
// In Kafka Streams: KTableRepartitionMap.
func NewTableSelect[K, V, K2, V2 any](key serde.Serde[K2], f func(K, V) (K2, V2, error)) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[K2, Change[V2]](step, children)
		return &tableSelect[K, V, K2, V2]{
			guard: newGuard(env, step), f: f, key: key, next: next, nilKey: nilness.Checker[K2](), nilValue: nilness.Checker[V2](),
			nullKey: env.counter(step, metrics.NullKey), nullValue: env.counter(step, metrics.NullValue), stale: env.counter(step, metrics.Stale),
		}, err
	})
}

type tableSelect[K, V, K2, V2 any] struct {
	guard
	f                         func(K, V) (K2, V2, error)
	key                       serde.Serde[K2] // of the group, to compare by
	next                      Sink[K2, Change[V2]]
	nilKey                    func(*K2) bool
	nilValue                  func(*V2) bool
	nullKey, nullValue, stale *metrics.Counter

	old, now           selected[K2, V2]
	oldBytes, nowBytes []byte
	out                processor.Record[K2, Change[V2]]
}

// selected is a row as it goes into its group; ok is false if it is in none.
type selected[K, V any] struct {
	key   K
	value V
	ok    bool
}

func (t *tableSelect[K, V, K2, V2]) Process(r *processor.Record[K, Change[V]]) error {
	if r.Value.Stale {
		t.stale.Inc()
		return nil
	}
	for attempt := 1; ; attempt++ {
		same, err := t.call(r)
		if err == nil {
			return t.send(r, same)
		}
		if retry, err := t.failed(err, attempt); !retry {
			return err
		}
	}
}

func (t *tableSelect[K, V, K2, V2]) send(r *processor.Record[K, Change[V]], same bool) error {
	if r.Value.HasNew && !t.now.ok {
		// The row that stood before has been counted when it came.
		if t.nilKey != nil && t.nilKey(&t.now.key) {
			t.nullKey.Inc()
		} else {
			t.nullValue.Inc()
		}
	}
	if same {
		return t.forward(r, t.now.key, Change[V2]{New: t.now.value, Old: t.old.value, HasNew: true, HasOld: true})
	}
	// Copies: the steps that follow may lead back here.
	old, now := t.old, t.now
	if old.ok {
		if err := t.forward(r, old.key, Change[V2]{Old: old.value, HasOld: true}); err != nil {
			return err
		}
	}
	if now.ok {
		return t.forward(r, now.key, Change[V2]{New: now.value, HasNew: true})
	}
	return nil
}

func (t *tableSelect[K, V, K2, V2]) forward(r *processor.Record[K, Change[V]], k K2, c Change[V2]) error {
	t.out = processor.Record[K2, Change[V2]]{Key: k, Value: c, TimestampMs: r.TimestampMs, Headers: r.Headers}
	return t.next.Process(&t.out)
}

// call finds the old and the new group of a row. same tells whether it is one.
func (t *tableSelect[K, V, K2, V2]) call(r *processor.Record[K, Change[V]]) (same bool, err error) {
	defer recovered(&err)
	t.old, t.now = selected[K2, V2]{}, selected[K2, V2]{}
	if r.Value.HasNew {
		if t.now, err = t.selects(r.Key, r.Value.New); err != nil {
			return false, err
		}
	}
	if r.Value.HasOld {
		if t.old, err = t.selects(r.Key, r.Value.Old); err != nil {
			return false, err
		}
	}
	if !t.old.ok || !t.now.ok {
		return false, nil
	}
	if t.oldBytes, err = t.key.Append(t.oldBytes[:0], t.old.key); err != nil {
		return false, err
	}
	if t.nowBytes, err = t.key.Append(t.nowBytes[:0], t.now.key); err != nil {
		return false, err
	}
	return bytes.Equal(t.oldBytes, t.nowBytes), nil
}

func (t *tableSelect[K, V, K2, V2]) selects(k K, v V) (s selected[K2, V2], err error) {
	if s.key, s.value, err = t.f(k, v); err != nil {
		return s, err
	}
	s.ok = (t.nilKey == nil || !t.nilKey(&s.key)) && (t.nilValue == nil || !t.nilValue(&s.value))
	return s, nil
}

// TableFold takes a row into the aggregate of its group, or out of it. has says whether there is an aggregate; one that is
// given belongs to the function. With keep false there is none afterwards.
type TableFold[K, V, A any] func(k K, v V, agg A, has bool) (out A, keep bool, err error)

// TableAggregateSpec describes an aggregation of a grouped table.
type TableAggregateSpec[K, V, A any] struct {
	Table *TableSpec
	// Add is called with has false for the first row of a group. Subtract is only called where there is an aggregate.
	Add, Subtract TableFold[K, V, A]
}

// NewTableAggregate makes a table of one aggregate for each group. A row that has changed is taken out as it was before it
// is put in as it is.
//
// In Kafka Streams: KTableAggregate, KTableReduce.
func NewTableAggregate[K, V, A any](spec TableAggregateSpec[K, V, A]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		out, err := newTableOut[K, A](env, step, spec.Table, children)
		if err != nil {
			return nil, err
		}
		return &tableAggregate[K, V, A]{guard: newGuard(env, step), spec: spec, out: out, there: NotNil[A]()}, nil
	})
}

type tableAggregate[K, V, A any] struct {
	guard
	spec  TableAggregateSpec[K, V, A]
	out   *tableOut[K, A]
	there func(*A) bool
}

func (a *tableAggregate[K, V, A]) Process(r *processor.Record[K, Change[V]]) error {
	for attempt := 1; ; attempt++ {
		c, tsMs, err := a.update(r)
		if err == nil {
			return a.out.sent(r.Key, r.Headers, c, tsMs)
		}
		if retry, err := a.failed(err, attempt); !retry {
			return err
		}
	}
}

func (a *tableAggregate[K, V, A]) update(r *processor.Record[K, Change[V]]) (c Change[A], tsMs int64, err error) {
	key, err := a.out.encode(r.Key)
	if err != nil {
		return c, 0, err
	}
	agg, storedAt, has, err := a.out.Get(key)
	if err != nil {
		return c, 0, err
	}
	if c.New, c.HasNew, err = a.fold(r, agg, has); err != nil {
		return c, 0, err
	}
	tsMs = r.TimestampMs
	if has {
		tsMs = max(tsMs, storedAt)
	}
	if has && a.out.spec.old() && !a.out.cached {
		// Read again, because the functions may have changed in place what they were given.
		if c.Old, _, c.HasOld, err = a.out.Get(key); err != nil {
			return c, 0, err
		}
	}
	return c, tsMs, a.out.put(key, r.Key, r.Headers, &c, tsMs, r.TimestampMs)
}

func (a *tableAggregate[K, V, A]) fold(r *processor.Record[K, Change[V]], agg A, has bool) (out A, keep bool, err error) {
	defer recovered(&err)
	out, keep = agg, has
	if r.Value.HasOld && has {
		if out, keep, err = a.spec.Subtract(r.Key, r.Value.Old, out, true); err != nil {
			return out, false, err
		}
		out, keep, _ = row(out, keep && a.there(&out), nil)
	}
	if r.Value.HasNew {
		if out, keep, err = a.spec.Add(r.Key, r.Value.New, out, keep); err != nil {
			return out, false, err
		}
	}
	return row(out, keep && a.there(&out), nil)
}
