package op

import (
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
)

// Fold takes one record into an aggregate. has says whether there is one; with keep false, or a nil result of a type that
// has a nil, it is deleted. The aggregate belongs to the function, which may change it in place and return it.
type Fold[K, V, A any] func(r *processor.Record[K, V], agg A, has bool) (out A, keep bool, err error)

// AggregateSpec describes an aggregation of a stream by key.
type AggregateSpec[K, V, A any] struct {
	Table *TableSpec
	Fold  Fold[K, V, A]
	// Init makes the aggregate that a first record is added to; nil if the first record is one itself.
	Init func() A
}

// NewAggregate makes a table of one aggregate for each key. Records with a null key or value are dropped and counted.
func NewAggregate[K, V, A any](spec AggregateSpec[K, V, A]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		out, err := newTableOut[K, A](env, step, spec.Table, children)
		if err != nil {
			return nil, err
		}
		return &aggregate[K, V, A]{
			folder: newFolder(env, step, spec.Fold, spec.Init), out: out,
			nullKey: env.counter(step, metrics.NullKey), nullValue: env.counter(step, metrics.NullValue),
		}, nil
	})
}

type aggregate[K, V, A any] struct {
	folder[K, V, A]
	out                *tableOut[K, A]
	nullKey, nullValue *metrics.Counter
}

func (a *aggregate[K, V, A]) Process(r *processor.Record[K, V]) error {
	if r.NullKey {
		a.nullKey.Inc()
		return nil
	}
	if r.NullValue {
		a.nullValue.Inc()
		return nil
	}
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

func (a *aggregate[K, V, A]) update(r *processor.Record[K, V]) (c Change[A], tsMs int64, err error) {
	key, err := a.out.encode(r.Key)
	if err != nil {
		return c, 0, err
	}
	agg, tsMs, has, err := a.out.Get(key)
	if err != nil {
		return c, 0, err
	}
	if c.New, c.HasNew, err = a.fold(r, agg, has); err != nil {
		return c, 0, err
	}
	if !has || r.TimestampMs > tsMs {
		tsMs = r.TimestampMs
	}
	if a.out.spec.old() && !a.out.cached {
		if c.Old, c.HasOld, err = old(&a.folder, a.out, key, has); err != nil {
			return c, 0, err
		}
	}
	return c, tsMs, a.out.put(key, r.Key, r.Headers, &c, tsMs, r.TimestampMs)
}

// folder calls a Fold.
type folder[K, V, A any] struct {
	guard
	f     Fold[K, V, A]
	init  func() A
	there func(*A) bool
}

func newFolder[K, V, A any](env *Env, step string, f Fold[K, V, A], init func() A) folder[K, V, A] {
	return folder[K, V, A]{guard: newGuard(env, step), f: f, init: init, there: NotNil[A]()}
}

// rowReader reads rows by their encoded keys.
type rowReader[A any] interface {
	Get(key []byte) (v A, tsMs int64, ok bool, err error)
}

// old is the value that stood before an update that has not been put yet. It is read again, or made again, because the Fold
// may have changed in place what it was given. As in Kafka Streams the first update has the initial aggregate before it.
func old[K, V, A any](f *folder[K, V, A], s rowReader[A], key []byte, has bool) (v A, ok bool, err error) {
	if has {
		v, _, ok, err = s.Get(key)
		return v, ok, err
	}
	if f.init == nil {
		return v, false, nil
	}
	defer recovered(&err)
	v = f.init()
	return v, f.there(&v), nil
}

func (f *folder[K, V, A]) fold(r *processor.Record[K, V], agg A, has bool) (out A, keep bool, err error) {
	defer recovered(&err)
	out, keep, err = f.f(r, agg, has)
	return row(out, keep && f.there(&out), err)
}
