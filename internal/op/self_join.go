package op

import (
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/window"
)

// NewSelfJoinWindow makes the first step of an inner join of a stream with itself that keeps its records once: it judges each
// record as the steps of both sides would, and hands on those that are joined. The spec's stores are the same.
func NewSelfJoinWindow[K, L, R, O any](spec *StreamJoinSpec[K, L, R, O]) Factory {
	left := func(v L) window.LateJoin[L, R] { return window.LateJoin[L, R]{Left: v} }
	right := func(v L) window.LateJoin[L, R] {
		same, _ := any(v).(R) // both sides are one stream
		return window.LateJoin[L, R]{OfRight: true, Right: same}
	}
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		w, err := buildJoinWindow(spec, leftSide, spec.LeftStore, false, left, env, step, children)
		if err != nil {
			return nil, err
		}
		w.putNext, w.markOther = true, right
		return w, nil
	})
}

// NewSelfJoin makes its second step: it joins each record with the rows to its right, keeps it, and joins it with the rows to
// its left, itself among them. So the results are those of a join with two stores, and come in the same order.
//
// In Kafka Streams: KStreamKStreamSelfJoin.
func NewSelfJoin[K, L, R, O any](spec *StreamJoinSpec[K, L, R, O]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		asRight, err := typedStore[*JoinStore[K, R]](env, step, spec.LeftStore)
		if err != nil {
			return nil, err
		}
		asLeft, err := typedStore[*JoinStore[K, L]](env, step, spec.LeftStore)
		if err != nil {
			return nil, err
		}
		left, err := newStreamJoin[K, L, R, O](env, step, leftSide, false, false, asRight, children, spec.Join)
		if err != nil {
			return nil, err
		}
		swapped := func(r R, okR bool, l L, okL bool) (O, error) { return spec.Join(l, okL, r, okR) }
		right, err := newStreamJoin[K, R, L, O](env, step, rightSide, false, false, asLeft, children, swapped)
		if err != nil {
			return nil, err
		}
		if left.time, err = spec.time(env, step); err != nil {
			return nil, err
		}
		right.time = left.time
		second, err := Downstream[K, L](step, []Child{{Step: step, Sink: right}})
		if err != nil {
			return nil, err
		}
		return &selfJoin[K, L]{left: left, right: second, put: joinPut[K, L]{guard: left.guard, store: asLeft}}, nil
	})
}

type selfJoin[K, V any] struct {
	left, right Sink[K, V]
	put         joinPut[K, V]
}

func (j *selfJoin[K, V]) Process(r *processor.Record[K, V]) error {
	if err := j.left.Process(r); err != nil {
		return err
	}
	if err := j.put.put(r); err != nil {
		return err
	}
	return j.right.Process(r)
}
