package op

import (
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/window"
)

// NewJoinWindowLeft makes the step that keeps the left records of a join: it judges each record, hands it to the step that
// looks for its matches, and then puts it into the store of its side.
//
// In Kafka Streams: KStreamJoinWindow, which does not judge.
func NewJoinWindowLeft[K, L, R, O any](spec *StreamJoinSpec[K, L, R, O]) Factory {
	late := func(v L) window.LateJoin[L, R] { return window.LateJoin[L, R]{Left: v} }
	return newJoinWindow(spec, leftSide, spec.LeftStore, spec.KeepLeft, late)
}

// NewJoinWindowRight makes the same step for the right records.
func NewJoinWindowRight[K, L, R, O any](spec *StreamJoinSpec[K, L, R, O]) Factory {
	late := func(v R) window.LateJoin[L, R] { return window.LateJoin[L, R]{OfRight: true, Right: v} }
	return newJoinWindow(spec, rightSide, spec.RightStore, spec.KeepRight, late)
}

func newJoinWindow[K, L, R, O, V any](spec *StreamJoinSpec[K, L, R, O], side byte, store string, keep bool, late func(V) window.LateJoin[L, R]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		return buildJoinWindow(spec, side, store, keep, late, env, step, children)
	})
}

func buildJoinWindow[K, L, R, O, V any](spec *StreamJoinSpec[K, L, R, O], side byte, store string, keep bool, late func(V) window.LateJoin[L, R],
	env *Env, step string, children []Child) (*joinWindow[K, V, window.LateJoin[L, R]], error) {
	lateStep := *spec.Late
	var toLate, toJoin []Child
	for _, c := range children {
		if lateStep != "" && c.Step == lateStep {
			toLate = append(toLate, c)
		} else {
			toJoin = append(toJoin, c)
		}
	}
	s, err := typedStore[*JoinStore[K, V]](env, step, store)
	if err != nil {
		return nil, err
	}
	next, err := Downstream[K, V](step, toJoin)
	if err != nil {
		return nil, err
	}
	w := &joinWindow[K, V, window.LateJoin[L, R]]{
		joinPut: joinPut[K, V]{guard: newGuard(env, step), store: s}, side: side, keep: keep, next: next, mark: late,
		nullKey: env.counter(step, metrics.NullKey), nullValue: env.counter(step, metrics.NullValue), lateCount: env.counter(step, metrics.Late),
	}
	if lateStep != "" {
		if w.late, err = Downstream[K, window.LateJoin[L, R]](step, toLate); err != nil {
			return nil, err
		}
		w.observe = func(v *window.LateJoin[L, R], side byte, tsMs int64) {
			v.ObservedTimeMs = w.time.nowMs
			v.Missed.StartMs, v.Missed.EndMs = w.time.reach(side, tsMs)
		}
	}
	w.time, err = spec.time(env, step)
	return w, err
}

// joinWindow keeps the records of one side. M is the value of a late record.
type joinWindow[K, V, M any] struct {
	joinPut[K, V]
	side      byte
	keep      bool
	putNext   bool      // the next step keeps the record itself
	markOther func(V) M // a record is late for the other side too; nil unless that has no step
	time      *joinTime
	next      Sink[K, V]
	late      Sink[K, M] // nil if late records are only counted
	mark      func(V) M
	observe   func(m *M, side byte, tsMs int64)
	nullKey   *metrics.Counter
	nullValue *metrics.Counter
	lateCount *metrics.Counter
	lateR     processor.Record[K, M]
}

func (w *joinWindow[K, V, M]) Process(r *processor.Record[K, V]) error {
	if w.time.observe(w.side, r.TimestampMs) && w.time.release != nil {
		if err := w.time.release(r.Headers, r.TimestampMs); err != nil {
			return err
		}
	}
	switch {
	case r.NullValue:
		w.nullValue.Inc()
		if r.NullKey {
			return nil
		}
		return w.put(r)
	case r.NullKey:
		if w.keep {
			return w.next.Process(r)
		}
		w.nullKey.Inc()
		return nil
	case w.time.late(w.side, r.TimestampMs):
		return w.sendLate(r)
	}
	if err := w.next.Process(r); err != nil || w.putNext {
		return err
	}
	return w.put(r)
}

func (w *joinWindow[K, V, M]) sendLate(r *processor.Record[K, V]) error {
	w.lateCount.Inc()
	if w.late == nil {
		return nil
	}
	if err := w.sendMark(r, w.mark, w.side); err != nil || w.markOther == nil {
		return err
	}
	return w.sendMark(r, w.markOther, 1-w.side)
}

func (w *joinWindow[K, V, M]) sendMark(r *processor.Record[K, V], mark func(V) M, side byte) error {
	w.lateR = processor.Record[K, M]{Key: r.Key, TimestampMs: r.TimestampMs, Headers: r.Headers, Value: mark(r.Value)}
	w.observe(&w.lateR.Value, side, r.TimestampMs)
	return w.late.Process(&w.lateR)
}

// joinPut puts records into the store of a side.
type joinPut[K, V any] struct {
	guard
	store *JoinStore[K, V]
}

// put keeps a record; of one with a null value only the changelog hears.
func (w *joinPut[K, V]) put(r *processor.Record[K, V]) error {
	for attempt := 1; ; attempt++ {
		var err error
		if r.NullValue {
			err = w.store.PutNull(r.Key, r.TimestampMs, r.Headers)
		} else {
			err = w.store.Put(r.Key, r.Value, r.TimestampMs, r.Headers)
		}
		if err == nil {
			return nil
		}
		if retry, err := w.failed(err, attempt); !retry {
			return err
		}
	}
}
