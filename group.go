package millrace

import (
	"context"

	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// Grouped is a stream grouped by its key, ready to be aggregated.
//
// In Kafka Streams: KGroupedStream.
type Grouped[K, V any] struct {
	g *grouped[K, V]
}

type grouped[K, V any] struct {
	in    Stream[K, V]
	key   serde.Serde[K]
	value serde.Serde[V]
	name  string // of the repartition topic, if the user gave one
	// behind is the stream behind a named repartition topic, which several aggregations share.
	behind *Stream[K, V]
}

// GroupByKey groups a stream by the key that it has. If the key may have changed, each aggregation sends the stream through
// a repartition topic first, named after the aggregation unless RepartitionName names one here for all of them.
//
// Options: RepartitionName, WithKey, WithValue.
//
// In Kafka Streams: KStream#groupByKey.
func (s Stream[K, V]) GroupByKey(opts ...StepOption) Grouped[K, V] {
	st := s.b.begin("GroupByKey", opts, optRepartition, optKey, optValue)
	return Grouped[K, V]{g: &grouped[K, V]{in: s, key: keySerde(st, s.key), value: valueSerde(st, s.value), name: st.repartition}}
}

// GroupBy groups a stream by another key. Each aggregation sends it through a repartition topic first. The serde of the new
// keys must be given with WithKey.
//
// Options: NodeName, RepartitionName, WithKey, WithValue.
//
// In Kafka Streams: KStream#groupBy.
func GroupBy[K, V, K2 any](s Stream[K, V], f func(K, V) K2, opts ...StepOption) Grouped[K2, V] {
	return groupBy[K, V, K2](s, "GroupBy", given(opts, f != nil), selectKey(func(k K, v V) (K2, error) { return f(k, v), nil }))
}

// TryGroupBy is GroupBy with a function that can fail; its error goes to the processing handler. ctx ends with the application.
func TryGroupBy[K, V, K2 any](s Stream[K, V], f func(ctx context.Context, k K, v V) (K2, error), opts ...StepOption) Grouped[K2, V] {
	return groupBy[K, V, K2](s, "TryGroupBy", given(opts, f != nil), withCtx(func(ctx context.Context) op.Factory {
		return selectKey(func(k K, v V) (K2, error) { return f(ctx, k, v) })
	}))
}

func groupBy[K, V, K2 any](s Stream[K, V], verb string, opts []StepOption, selectKey op.Factory) Grouped[K2, V] {
	st := s.b.begin(verb, opts, optNode, optRepartition, optKey, optValue)
	if st.node == "" && st.repartition != "" {
		st.node = st.repartition // Grouped.as names both in Kafka Streams
	}
	in := then[K, V, K2, V](st, s, "KSTREAM-KEY-SELECT-", selectKey, true, nil, s.value)
	return Grouped[K2, V]{g: &grouped[K2, V]{in: in, key: keySerde[K2](st, nil), value: valueSerde(st, s.value), name: st.repartition}}
}

// ready returns the stream that an aggregation reads, behind a repartition topic if it needs one.
func (g *grouped[K, V]) ready(s *step, storeName string, named bool) Stream[K, V] {
	if !g.in.flagged {
		return g.in
	}
	prefix, auto := g.name, false
	if prefix == "" {
		prefix = s.repartition
	}
	if prefix == "" {
		prefix, auto = storeName, !named
	}
	if g.name != "" && g.behind != nil {
		// One topic for all aggregations of this group; the numbers are used up all the same.
		s.b.t.NextName("KSTREAM-SINK-")
		s.b.t.NextName("KSTREAM-FILTER-")
		s.b.t.NextName("KSTREAM-SOURCE-")
		return *g.behind
	}
	out := repartition(s, g.in, prefix, g.key, g.value, auto)
	if g.name != "" {
		g.behind = &out
	}
	return out
}

// aggregation is what all aggregations by key have in common: the repartition topic, the store and the node.
func aggregation[K, V, A any](g *grouped[K, V], verb, prefix string, value serde.Serde[A], init func() A, fold op.Fold[K, V, A], opts []StepOption) Table[K, A] {
	s := g.in.b.begin(verb, opts, keyedOptions...)
	if verb == "Count" && s.materialized() {
		s.b.t.NextStoreName(prefix) // as Kafka Streams counts
	}
	storeName, named := s.storeName(prefix)
	node := s.nodeName(prefix)
	s.requireName(named, "a store")
	in := g.ready(s, storeName, named)
	spec := new(op.TableSpec)
	value = valueSerde(s, value)
	key := keySerde(s, g.key)
	s.b.t.AddProcessor(topology.Processor{Name: node, Parents: []string{in.parent()}, Pos: s.pos,
		Op: op.NewAggregate(op.AggregateSpec[K, V, A]{Table: spec, Fold: fold, Init: init})})
	addTableStore(s, node, storeName, !named, key, value, spec)
	return newTable(s, node, in.sources, key, value, spec, storeName, false)
}

// Count counts the records of each key. Records with a null key or value are dropped and counted.
//
// Options: As, or StoreName, or AutoName; NodeName, RepartitionName, InMemory, LogConfig, WithoutLog, WithoutCache, Versioned,
// KeepHeaders, WithKey. It makes a store and a changelog topic, and a repartition topic if the key may have changed.
//
// In Kafka Streams: KGroupedStream#count.
func Count[K, V any](g Grouped[K, V], opts ...StepOption) Table[K, int64] {
	return aggregation(g.g, "Count", "KSTREAM-AGGREGATE-", serde.Serde[int64](serde.Int64), zero[int64], countFold[K, V], opts)
}

func zero[A any]() (a A) { return a }

func countFold[K, V any](_ *processor.Record[K, V], n int64, _ bool) (int64, bool, error) {
	return n + 1, true, nil
}

// Number is what can be summed.
type Number interface {
	~int32 | ~int64 | ~float32 | ~float64
}

// Sum adds up a number of each record by key. Records with a null key or value are dropped and counted.
//
// Options and cost: as Count.
//
// In Kafka Streams: KGroupedStream#aggregate with an adder.
func Sum[K, V any, N Number](g Grouped[K, V], f func(V) N, s serde.Serde[N], opts ...StepOption) Table[K, N] {
	return aggregation(g.g, "Sum", "KSTREAM-AGGREGATE-", s, zero[N], sumFold[K](f), given(opts, f != nil))
}

func sumFold[K, V any, N Number](f func(V) N) op.Fold[K, V, N] {
	return func(r *processor.Record[K, V], n N, _ bool) (N, bool, error) { return n + f(r.Value), true, nil }
}

// Reduce combines the values of each key: the first one is the result, then f combines the result with each that follows. A
// nil result of a type that has a nil deletes the row. Records with a null key or value are dropped and counted.
//
// Options and cost: as Count, and WithValue.
//
// In Kafka Streams: KGroupedStream#reduce.
func (g Grouped[K, V]) Reduce(f func(agg, v V) V, opts ...StepOption) Table[K, V] {
	return aggregation(g.g, "Reduce", "KSTREAM-REDUCE-", g.g.value, nil, reduceFold[K](func(a, v V) (V, error) { return f(a, v), nil }), given(opts, f != nil))
}

// TryReduce is Reduce with a function that can fail; its error goes to the processing handler.
func (g Grouped[K, V]) TryReduce(f func(agg, v V) (V, error), opts ...StepOption) Table[K, V] {
	return aggregation(g.g, "TryReduce", "KSTREAM-REDUCE-", g.g.value, nil, reduceFold[K](f), given(opts, f != nil))
}

func reduceFold[K, V any](f func(agg, v V) (V, error)) op.Fold[K, V, V] {
	return func(r *processor.Record[K, V], agg V, has bool) (V, bool, error) {
		if !has {
			return r.Value, true, nil
		}
		out, err := f(agg, r.Value)
		return out, true, err
	}
}

// Aggregate combines the records of each key: init makes the first aggregate, add takes each record into it. The aggregate
// given to add belongs to it: it may be changed in place and returned. A nil result of a type that has a nil deletes the
// row, and the next record starts from init again. Records with a null key or value are dropped and counted.
//
// Options and cost: as Count.
//
// In Kafka Streams: KGroupedStream#aggregate.
func Aggregate[K, V, A any](g Grouped[K, V], init func() A, add func(k K, v V, agg A) A, s serde.Serde[A], opts ...StepOption) Table[K, A] {
	return aggregation(g.g, "Aggregate", "KSTREAM-AGGREGATE-", s, init, aggregateFold(init, func(k K, v V, a A) (A, error) { return add(k, v, a), nil }), given(opts, init != nil, add != nil))
}

// TryAggregate is Aggregate with a function that can fail; its error goes to the processing handler.
func TryAggregate[K, V, A any](g Grouped[K, V], init func() A, add func(k K, v V, agg A) (A, error), s serde.Serde[A], opts ...StepOption) Table[K, A] {
	return aggregation(g.g, "TryAggregate", "KSTREAM-AGGREGATE-", s, init, aggregateFold(init, add), given(opts, init != nil, add != nil))
}

func aggregateFold[K, V, A any](init func() A, add func(k K, v V, agg A) (A, error)) op.Fold[K, V, A] {
	return func(r *processor.Record[K, V], agg A, has bool) (A, bool, error) {
		if !has {
			agg = init()
		}
		out, err := add(r.Key, r.Value, agg)
		return out, true, err
	}
}

// hasNil tells whether a type can hold a null by itself.
func hasNil[T any]() bool { return nilness.Checker[T]() != nil }
