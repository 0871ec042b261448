package millrace

import (
	"context"

	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/processor"
)

// Map turns each record into one with another key and value. Timestamp and headers stay. A later step by key sends the
// stream through a repartition topic first, because the key may have changed.
//
// In Kafka Streams: KStream#map.
func Map[K, V, K2, V2 any](s Stream[K, V], f func(K, V) (K2, V2), opts ...StepOption) Stream[K2, V2] {
	st := s.b.begin("Map", opts, nodeOptions...)
	st.needs(f != nil)
	m := op.NewMap(func(in *processor.Record[K, V], out *processor.Record[K2, V2]) error {
		out.Key, out.Value = f(in.Key, in.Value)
		return nil
	})
	return then[K, V, K2, V2](st, s, "KSTREAM-MAP-", m, true, nil, nil)
}

// TryMap is Map with a function that can fail; its error goes to the processing handler. ctx ends with the application.
func TryMap[K, V, K2, V2 any](s Stream[K, V], f func(ctx context.Context, k K, v V) (K2, V2, error), opts ...StepOption) Stream[K2, V2] {
	st := s.b.begin("TryMap", opts, nodeOptions...)
	st.needs(f != nil)
	m := withCtx(func(ctx context.Context) op.Factory {
		return op.NewMap(func(in *processor.Record[K, V], out *processor.Record[K2, V2]) (err error) {
			out.Key, out.Value, err = f(ctx, in.Key, in.Value)
			return err
		})
	})
	return then[K, V, K2, V2](st, s, "KSTREAM-MAP-", m, true, nil, nil)
}

// MapValues turns each value into another. The key stays, so nothing is repartitioned. A null value of a type that has no
// nil stays null, and f is not called for it.
//
// In Kafka Streams: KStream#mapValues.
func MapValues[K, V, V2 any](s Stream[K, V], f func(V) V2, opts ...StepOption) Stream[K, V2] {
	st := s.b.begin("MapValues", opts, nodeOptions...)
	st.needs(f != nil)
	m := mapValues(func(_ K, v V) (V2, error) { return f(v), nil })
	return then[K, V, K, V2](st, s, "KSTREAM-MAPVALUES-", m, s.flagged, s.key, nil)
}

// MapValuesWithKey is MapValues with a function that sees the key too. It must not change it.
//
// In Kafka Streams: KStream#mapValues(ValueMapperWithKey).
func MapValuesWithKey[K, V, V2 any](s Stream[K, V], f func(K, V) V2, opts ...StepOption) Stream[K, V2] {
	st := s.b.begin("MapValuesWithKey", opts, nodeOptions...)
	st.needs(f != nil)
	m := mapValues(func(k K, v V) (V2, error) { return f(k, v), nil })
	return then[K, V, K, V2](st, s, "KSTREAM-MAPVALUES-", m, s.flagged, s.key, nil)
}

// TryMapValues is MapValues with a function that can fail; its error goes to the processing handler. ctx ends with the
// application.
func TryMapValues[K, V, V2 any](s Stream[K, V], f func(ctx context.Context, v V) (V2, error), opts ...StepOption) Stream[K, V2] {
	st := s.b.begin("TryMapValues", opts, nodeOptions...)
	st.needs(f != nil)
	m := withCtx(func(ctx context.Context) op.Factory {
		return mapValues(func(_ K, v V) (V2, error) { return f(ctx, v) })
	})
	return then[K, V, K, V2](st, s, "KSTREAM-MAPVALUES-", m, s.flagged, s.key, nil)
}

func mapValues[K, V, V2 any](f func(K, V) (V2, error)) op.Factory {
	hasNil := nilness.Checker[V]() != nil
	return op.NewMap(func(in *processor.Record[K, V], out *processor.Record[K, V2]) (err error) {
		out.Key, out.NullKey = in.Key, in.NullKey
		if in.NullValue && !hasNil {
			var zero V2
			out.Value, out.NullValue = zero, true
			return nil
		}
		out.Value, err = f(in.Key, in.Value)
		return err
	})
}

// SelectKey gives each record another key. A later step by key sends the stream through a repartition topic first.
//
// In Kafka Streams: KStream#selectKey.
func SelectKey[K, V, K2 any](s Stream[K, V], f func(K, V) K2, opts ...StepOption) Stream[K2, V] {
	st := s.b.begin("SelectKey", opts, nodeOptions...)
	st.needs(f != nil)
	m := selectKey(func(k K, v V) (K2, error) { return f(k, v), nil })
	return then[K, V, K2, V](st, s, "KSTREAM-KEY-SELECT-", m, true, nil, s.value)
}

// TrySelectKey is SelectKey with a function that can fail; its error goes to the processing handler. ctx ends with the
// application.
func TrySelectKey[K, V, K2 any](s Stream[K, V], f func(ctx context.Context, k K, v V) (K2, error), opts ...StepOption) Stream[K2, V] {
	st := s.b.begin("TrySelectKey", opts, nodeOptions...)
	st.needs(f != nil)
	m := withCtx(func(ctx context.Context) op.Factory {
		return selectKey(func(k K, v V) (K2, error) { return f(ctx, k, v) })
	})
	return then[K, V, K2, V](st, s, "KSTREAM-KEY-SELECT-", m, true, nil, s.value)
}

func selectKey[K, V, K2 any](f func(K, V) (K2, error)) op.Factory {
	return op.NewMap(func(in *processor.Record[K, V], out *processor.Record[K2, V]) (err error) {
		out.Value, out.NullValue = in.Value, in.NullValue
		out.Key, err = f(in.Key, in.Value)
		return err
	})
}

// FlatMap turns each record into any number of records: those that f emits, in that order. They keep the timestamp and
// headers of the input. A later step by key sends the stream through a repartition topic first.
//
// In Kafka Streams: KStream#flatMap.
func FlatMap[K, V, K2, V2 any](s Stream[K, V], f func(k K, v V, emit func(K2, V2)), opts ...StepOption) Stream[K2, V2] {
	st := s.b.begin("FlatMap", opts, nodeOptions...)
	st.needs(f != nil)
	m := flatMap(func(k K, v V, emit func(K2, V2)) error {
		f(k, v, emit)
		return nil
	})
	return then[K, V, K2, V2](st, s, "KSTREAM-FLATMAP-", m, true, nil, nil)
}

// TryFlatMap is FlatMap with a function that can fail: then nothing that it emitted is sent, and its error goes to the
// processing handler. ctx ends with the application.
func TryFlatMap[K, V, K2, V2 any](s Stream[K, V], f func(ctx context.Context, k K, v V, emit func(K2, V2)) error, opts ...StepOption) Stream[K2, V2] {
	st := s.b.begin("TryFlatMap", opts, nodeOptions...)
	st.needs(f != nil)
	m := withCtx(func(ctx context.Context) op.Factory {
		return flatMap(func(k K, v V, emit func(K2, V2)) error { return f(ctx, k, v, emit) })
	})
	return then[K, V, K2, V2](st, s, "KSTREAM-FLATMAP-", m, true, nil, nil)
}

func flatMap[K, V, K2, V2 any](f func(k K, v V, emit func(K2, V2)) error) op.Factory {
	return op.FactoryFunc(func(env *op.Env, step string, children []op.Child) (any, error) {
		// One buffer and one closure for each task, so that emitting costs nothing.
		var buf []processor.Record[K2, V2]
		emit := func(k K2, v V2) { buf = append(buf, processor.Record[K2, V2]{Key: k, Value: v}) }
		return op.NewFlatMap(func(in *processor.Record[K, V], out []processor.Record[K2, V2]) ([]processor.Record[K2, V2], error) {
			buf = out
			err := f(in.Key, in.Value, emit)
			return buf, err
		}).Build(env, step, children)
	})
}

// FlatMapValues turns each value into any number of values: those that f emits, in that order, under the same key. A null
// value of a type that has no nil stays one null, and f is not called for it.
//
// In Kafka Streams: KStream#flatMapValues.
func FlatMapValues[K, V, V2 any](s Stream[K, V], f func(v V, emit func(V2)), opts ...StepOption) Stream[K, V2] {
	st := s.b.begin("FlatMapValues", opts, nodeOptions...)
	st.needs(f != nil)
	m := flatMapValues[K](func(v V, emit func(V2)) error {
		f(v, emit)
		return nil
	})
	return then[K, V, K, V2](st, s, "KSTREAM-FLATMAPVALUES-", m, s.flagged, s.key, nil)
}

// TryFlatMapValues is FlatMapValues with a function that can fail: then nothing that it emitted is sent, and its error goes
// to the processing handler. ctx ends with the application.
func TryFlatMapValues[K, V, V2 any](s Stream[K, V], f func(ctx context.Context, v V, emit func(V2)) error, opts ...StepOption) Stream[K, V2] {
	st := s.b.begin("TryFlatMapValues", opts, nodeOptions...)
	st.needs(f != nil)
	m := withCtx(func(ctx context.Context) op.Factory {
		return flatMapValues[K](func(v V, emit func(V2)) error { return f(ctx, v, emit) })
	})
	return then[K, V, K, V2](st, s, "KSTREAM-FLATMAPVALUES-", m, s.flagged, s.key, nil)
}

func flatMapValues[K, V, V2 any](f func(v V, emit func(V2)) error) op.Factory {
	hasNil := nilness.Checker[V]() != nil
	return op.FactoryFunc(func(env *op.Env, step string, children []op.Child) (any, error) {
		var buf []processor.Record[K, V2]
		var key K
		var nullKey bool
		emit := func(v V2) { buf = append(buf, processor.Record[K, V2]{Key: key, NullKey: nullKey, Value: v}) }
		return op.NewFlatMap(func(in *processor.Record[K, V], out []processor.Record[K, V2]) ([]processor.Record[K, V2], error) {
			if in.NullValue && !hasNil {
				return append(out, processor.Record[K, V2]{Key: in.Key, NullKey: in.NullKey, NullValue: true}), nil
			}
			buf, key, nullKey = out, in.Key, in.NullKey
			err := f(in.Value, emit)
			return buf, err
		}).Build(env, step, children)
	})
}
