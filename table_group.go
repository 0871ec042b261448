package millrace

import (
	"context"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
)

// GroupedTable is a table whose rows are put into groups, ready to be aggregated. A row is in one group at a time: when it
// changes, it is taken out as it was and put in as it is.
//
// In Kafka Streams: KGroupedTable.
type GroupedTable[K, V any] struct {
	g *groupedTable[K, V]
}

type groupedTable[K, V any] struct {
	b     *Builder
	node  string // of the step that selects the groups
	key   serde.Serde[K]
	value serde.Serde[V]
	name  string // of the repartition topic, if the user gave one
	// behind is the source of a named repartition topic, which several aggregations share.
	behind string
}

// GroupTableBy puts the rows of a table into groups: f gives the group of each row, and the value that it brings to it. A
// nil key or value, of a type that has a nil, means that the row is in no group; such rows are counted as null-key or
// null-value. f is called for the old and the new value of a row and must give equal results for equal input. Updates of a
// versioned table that come out of order are dropped and counted.
//
// Each aggregation sends the rows through a repartition topic: for a row that changes within its group one record that holds
// both values, for one that moves a record for the old group and then one for the new group. The two groups may be
// aggregated by different tasks, so for a while the row is in neither. The table must keep its rows.
//
// Options: NodeName, RepartitionName, WithKey (the serde of the groups, which must be given) and WithValue (that of the values
// in them; must be given too).
//
// In Kafka Streams: KTable#groupBy.
func GroupTableBy[K, V, K2, V2 any](t Table[K, V], f func(k K, v V) (K2, V2), opts ...StepOption) GroupedTable[K2, V2] {
	return groupTable(t, "GroupTableBy", given(opts, f != nil), func(_ context.Context, k K, v V) (K2, V2, error) {
		key, value := f(k, v)
		return key, value, nil
	})
}

// TryGroupTableBy is GroupTableBy with a function that can fail; its error goes to the processing handler. ctx ends with the
// application.
func TryGroupTableBy[K, V, K2, V2 any](t Table[K, V], f func(ctx context.Context, k K, v V) (K2, V2, error), opts ...StepOption) GroupedTable[K2, V2] {
	return groupTable(t, "TryGroupTableBy", given(opts, f != nil), f)
}

func groupTable[K, V, K2, V2 any](t Table[K, V], verb string, opts []StepOption, f func(context.Context, K, V) (K2, V2, error)) GroupedTable[K2, V2] {
	s := t.t.b.begin(verb, opts, optNode, optRepartition, optKey, optValue)
	if s.node == "" {
		s.node = s.repartition // Grouped.as names both in Kafka Streams
	}
	name := s.nodeName("KTABLE-SELECT-")
	key, value := keySerde[K2](s, nil), valueSerde[V2](s, nil)
	if key == nil || value == nil {
		s.errorf("%s sends the rows through a repartition topic, and does not know the serde of %s: give it as an option", verb, missingSerdes(key == nil, value == nil))
	}
	s.checkSerde("the repartition topic", key, value)
	t.t.oldValues(s)
	s.b.t.AddProcessor(topology.Processor{Name: name, Parents: []string{t.t.node}, Pos: s.pos, Op: withCtx(func(ctx context.Context) op.Factory {
		return op.NewTableSelect(key, func(k K, v V) (K2, V2, error) { return f(ctx, k, v) })
	})})
	return GroupedTable[K2, V2]{g: &groupedTable[K2, V2]{b: s.b, node: name, key: key, value: value, name: s.repartition}}
}

// aggregateTable is what all aggregations of a grouped table have in common: the repartition topic, the store and the node.
func aggregateTable[K, V, A any](g *groupedTable[K, V], verb, prefix string, value serde.Serde[A], add, subtract op.TableFold[K, V, A], opts []StepOption) Table[K, A] {
	s := g.b.begin(verb, opts, keyedOptions...)
	storeName, named := s.storeName("KTABLE-AGGREGATE-")
	s.requireName(named, "a store")
	sink, source := g.b.t.NextName("KSTREAM-SINK-"), g.b.t.NextName("KSTREAM-SOURCE-")
	node := s.nodeName(prefix)
	if name := s.nodeGiven(); name != "" {
		sink, source = name+"-sink", name+"-source"
	}
	prefix, auto := g.name, false
	if prefix == "" {
		prefix = s.repartition
	}
	if prefix == "" {
		prefix, auto = storeName, !named
	}
	if g.name == "" || g.behind == "" {
		g.behind = source
		g.repartition(s, prefix+repartitionSuffix, auto, sink, source)
	}
	spec := new(op.TableSpec)
	key, value := keySerde(s, g.key), valueSerde(s, value)
	g.b.t.AddProcessor(topology.Processor{Name: node, Parents: []string{g.behind}, Pos: s.pos,
		Op: op.NewTableAggregate(op.TableAggregateSpec[K, V, A]{Table: spec, Add: add, Subtract: subtract})})
	addTableStore(s, node, storeName, !named, key, value, spec)
	return newTable(s, node, []string{g.behind}, key, value, spec, storeName, false)
}

// repartition puts the repartition topic behind the step that selects the groups. There are no null keys to drop.
func (g *groupedTable[K, V]) repartition(s *step, topic string, auto bool, sink, source string) {
	change := op.ChangeSerde[V]{Value: g.value}
	s.b.t.InternalTopic(topology.RepartitionTopic{Name: topic, Partitions: int32(s.partitions), Auto: auto, Pos: s.pos})
	s.b.t.AddSink(topology.Sink{Name: sink, Topic: topic, Parents: []string{g.node}, Pos: s.pos,
		Op: op.NewSink(op.SinkSpec[K, op.Change[V]]{Topic: topic, Internal: true, WholeKey: true, Key: g.key, Value: change})})
	s.b.t.AddSource(topology.Source{Name: source, Topics: []string{topic}, Pos: s.pos,
		Op: op.NewSource(op.SourceSpec[K, op.Change[V]]{Key: g.key, Value: change})})
}

// CountTable counts the rows of each group. A group that has lost its last row stays, with the count 0.
//
// Results carry the highest timestamp that the group has seen, and the headers of the update that led to them.
//
// Options: As, or StoreName, or AutoName; NodeName, RepartitionName, InMemory, LogConfig, WithoutLog, WithoutCache, Versioned,
// KeepHeaders, WithKey. It makes a store and a changelog topic, and a repartition topic.
//
// In Kafka Streams: KGroupedTable#count.
func CountTable[K, V any](g GroupedTable[K, V], opts ...StepOption) Table[K, int64] {
	return aggregateTable(g.g, "CountTable", "KTABLE-AGGREGATE-", serde.Serde[int64](serde.Int64),
		func(_ K, _ V, n int64, _ bool) (int64, bool, error) { return n + 1, true, nil },
		func(_ K, _ V, n int64, _ bool) (int64, bool, error) { return n - 1, true, nil }, opts)
}

// SumTable adds up a number of the rows of each group. A group that has lost its last row stays, with the sum 0.
//
// Options and cost: as CountTable.
//
// In Kafka Streams: KGroupedTable#aggregate with an adder and a subtractor.
func SumTable[K, V any, N Number](g GroupedTable[K, V], f func(V) N, s serde.Serde[N], opts ...StepOption) Table[K, N] {
	return aggregateTable(g.g, "SumTable", "KTABLE-AGGREGATE-", s,
		func(_ K, v V, n N, _ bool) (N, bool, error) { return n + f(v), true, nil },
		func(_ K, v V, n N, _ bool) (N, bool, error) { return n - f(v), true, nil }, given(opts, f != nil))
}

// Reduce combines the rows of each group: the first one is the result, add combines it with each row that comes, and
// subtract takes one out of it that goes. A nil result of either, of a type that has a nil, deletes the group's row.
//
// Options and cost: as CountTable, and WithValue.
//
// In Kafka Streams: KGroupedTable#reduce.
func (g GroupedTable[K, V]) Reduce(add, subtract func(agg, v V) V, opts ...StepOption) Table[K, V] {
	fold := func(f func(agg, v V) V) op.TableFold[K, V, V] {
		return tableReduceFold[K](func(agg, v V) (V, error) { return f(agg, v), nil })
	}
	return aggregateTable(g.g, "Reduce", "KTABLE-REDUCE-", g.g.value, fold(add), fold(subtract), given(opts, add != nil, subtract != nil))
}

// TryReduce is Reduce with functions that can fail; their errors go to the processing handler.
func (g GroupedTable[K, V]) TryReduce(add, subtract func(agg, v V) (V, error), opts ...StepOption) Table[K, V] {
	return aggregateTable(g.g, "TryReduce", "KTABLE-REDUCE-", g.g.value, tableReduceFold[K](add), tableReduceFold[K](subtract), given(opts, add != nil, subtract != nil))
}

func tableReduceFold[K, V any](f func(agg, v V) (V, error)) op.TableFold[K, V, V] {
	return func(_ K, v V, agg V, has bool) (V, bool, error) {
		if !has {
			return v, true, nil
		}
		out, err := f(agg, v)
		return out, true, err
	}
}

// AggregateTable combines the rows of each group: init makes the first aggregate, add takes a row into it that comes, and
// subtract takes one out of it that goes. The aggregate given to them belongs to them: it may be changed in place and
// returned. A nil result of a type that has a nil deletes the group's row, and the next one that comes starts from init.
//
// Options and cost: as CountTable.
//
// In Kafka Streams: KGroupedTable#aggregate.
func AggregateTable[K, V, A any](g GroupedTable[K, V], init func() A, add, subtract func(k K, v V, agg A) A, s serde.Serde[A], opts ...StepOption) Table[K, A] {
	fold := func(f func(k K, v V, agg A) A) func(k K, v V, agg A) (A, error) {
		return func(k K, v V, agg A) (A, error) { return f(k, v, agg), nil }
	}
	return aggregateTable(g.g, "AggregateTable", "KTABLE-AGGREGATE-", s, tableAggregateFold(init, fold(add)), tableAggregateFold(init, fold(subtract)), given(opts, init != nil, add != nil, subtract != nil))
}

// TryAggregateTable is AggregateTable with functions that can fail; their errors go to the processing handler.
func TryAggregateTable[K, V, A any](g GroupedTable[K, V], init func() A, add, subtract func(k K, v V, agg A) (A, error), s serde.Serde[A], opts ...StepOption) Table[K, A] {
	return aggregateTable(g.g, "TryAggregateTable", "KTABLE-AGGREGATE-", s, tableAggregateFold(init, add), tableAggregateFold(init, subtract), given(opts, init != nil, add != nil, subtract != nil))
}

func tableAggregateFold[K, V, A any](init func() A, f func(k K, v V, agg A) (A, error)) op.TableFold[K, V, A] {
	return func(k K, v V, agg A, has bool) (A, bool, error) {
		if !has {
			agg = init()
		}
		out, err := f(k, v, agg)
		return out, true, err
	}
}
