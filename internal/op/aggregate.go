package op

import (
	"encoding/binary"

	"github.com/millrace-io/millrace/internal/cache"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
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

// WindowAggregateSpec describes an aggregation of a stream by key and time window.
type WindowAggregateSpec[K, V, A any] struct {
	Table   *TableSpec
	Windows window.Time
	Fold    Fold[K, V, A]
	Init    func() A // see AggregateSpec
	// Late names the step that takes late records; empty: they are only counted. It is read when a task is built.
	Late *string
}

// NewWindowAggregate makes a table of one aggregate for each key and window. A window is closed once the operator has
// seen a timestamp of at least its end plus grace; the record itself moves that time first. Records with a null key are
// dropped and counted before they move it; null values are passed to the aggregation, as in Kafka Streams.
func NewWindowAggregate[K, V, A any](spec WindowAggregateSpec[K, V, A]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		lateStep := *spec.Late
		var late, table []Child
		for _, c := range children {
			if lateStep != "" && c.Step == lateStep {
				late = append(late, c)
			} else {
				table = append(table, c)
			}
		}
		next, err := Downstream[window.Key[K], Change[A]](step, table)
		if err != nil {
			return nil, err
		}
		s, err := typedStore[*WindowStore[K, A]](env, step, spec.Table.Store)
		if err != nil {
			return nil, err
		}
		w := &windowAggregate[K, V, A]{
			folder: newFolder(env, step, spec.Fold, spec.Init), windows: spec.Windows,
			store: s, next: next, sendOld: spec.Table.SendOld, cached: s.cache.Dedupes(),
			nullKey: env.counter(step, metrics.NullKey), expired: env.counter(step, metrics.Late),
		}
		if lateStep != "" {
			if w.late, err = Downstream[K, window.Late[V]](step, late); err != nil {
				return nil, err
			}
		}
		if w.cached {
			s.cache.OnFlush(w.flushed, spec.Table.SendOld)
			env.OnFlush(s.FlushCache)
		}
		env.ObserveTime(spec.Table.Store, &w.observedMs)
		return w, nil
	})
}

type windowAggregate[K, V, A any] struct {
	folder[K, V, A]
	windows    window.Time
	store      *WindowStore[K, A]
	next       Sink[window.Key[K], Change[A]]
	late       Sink[K, window.Late[V]]
	sendOld    bool
	cached     bool
	nullKey    *metrics.Counter
	expired    *metrics.Counter
	observedMs int64

	key    []byte          // the record's key and the start of the window in process
	in     []window.Window // the windows of the record in process
	missed []window.Window
	out    processor.Record[window.Key[K], Change[A]]
	lateR  processor.Record[K, window.Late[V]]
}

func (w *windowAggregate[K, V, A]) Process(r *processor.Record[K, V]) error {
	if r.NullKey {
		w.nullKey.Inc()
		return nil
	}
	w.observedMs = max(w.observedMs, r.TimestampMs)
	closeMs := w.windows.CloseTimeMs(w.observedMs)
	w.in = w.windows.AppendWindows(w.in[:0], r.TimestampMs)
	w.missed = w.missed[:0]
	for _, win := range w.in {
		if win.EndMs <= closeMs {
			w.missed = append(w.missed, win)
			w.expired.Inc()
			continue
		}
		if err := w.add(r, win); err != nil {
			return err
		}
	}
	if len(w.missed) == 0 || w.late == nil {
		return nil
	}
	w.lateR = processor.Record[K, window.Late[V]]{
		Key: r.Key, TimestampMs: r.TimestampMs, Headers: r.Headers,
		Value: window.Late[V]{
			Value: r.Value, NullValue: r.NullValue, ObservedTimeMs: w.observedMs,
			Missed: append([]window.Window(nil), w.missed...), Accepted: len(w.missed) < len(w.in),
		},
	}
	return w.late.Process(&w.lateR)
}

// add takes a record into one window. A failure that the policy passes over costs the record this window alone.
func (w *windowAggregate[K, V, A]) add(r *processor.Record[K, V], win window.Window) error {
	k := window.Key[K]{Key: r.Key, Window: win}
	for attempt := 1; ; attempt++ {
		c, tsMs, err := w.update(r, k)
		if err == nil {
			if w.cached {
				return nil
			}
			return w.forward(k, r.Headers, c, tsMs)
		}
		if retry, err := w.failed(err, attempt); !retry {
			return err
		}
	}
}

func (w *windowAggregate[K, V, A]) update(r *processor.Record[K, V], k window.Key[K]) (c Change[A], tsMs int64, err error) {
	key, err := w.store.appendKey(w.key[:0], r.Key)
	if err != nil {
		return c, 0, err
	}
	key = binary.BigEndian.AppendUint64(key, uint64(k.Window.StartMs))
	w.key = key
	agg, tsMs, has, err := w.store.cache.Get(key)
	if err != nil {
		return c, 0, err
	}
	if c.New, c.HasNew, err = w.fold(r, agg, has); err != nil {
		return c, 0, err
	}
	if !has || r.TimestampMs > tsMs {
		tsMs = r.TimestampMs
	}
	if w.sendOld && !w.cached {
		if c.Old, c.HasOld, err = old(&w.folder, w.store.cache, key, has); err != nil {
			return c, 0, err
		}
	}
	return c, tsMs, w.store.cache.Put(key, k, c.New, c.HasNew, storedMs(&c, tsMs, r.TimestampMs), w.env.waiting(r.Headers, r.TimestampMs))
}

func (w *windowAggregate[K, V, A]) forward(k window.Key[K], headers serde.Headers, c Change[A], tsMs int64) error {
	w.out = processor.Record[window.Key[K], Change[A]]{Key: k, Value: c, TimestampMs: tsMs, Headers: headers}
	return w.next.Process(&w.out)
}

func (w *windowAggregate[K, V, A]) flushed(u *cache.Update[window.Key[K], A, current]) error {
	c := Change[A]{New: u.New, Old: u.Old, HasNew: u.HasNew, HasOld: u.HasOld}
	return w.env.withContext(u.Context, func() error { return w.forward(u.Key, u.Context.headers, c, u.TimestampMs) })
}
