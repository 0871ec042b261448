package millrace

import (
	"context"

	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
)

// JoinTable joins each record of a stream with the row that the table has for its key at that moment; records without a
// row end there. Only stream records lead to results, which carry their timestamp and headers; a later update of the table
// changes nothing. Records with a null key or value are dropped and counted.
//
// Both sides must have the same number of partitions, which is checked at start. If the stream's key may have changed, it
// goes through a repartition topic first, which then needs As, RepartitionName or AutoName, and the stream's serdes.
//
// With JoinGrace the records wait in a store until time has passed them by the grace period, and are then joined with what a
// versioned table was at their timestamps, in the order of timestamps, then of the bytes of their keys, then as they came.
// Time is the highest timestamp of the records that came to wait. A record that is late by more than the grace period is
// joined at once. The store, which is named after the step, has a changelog topic; it needs As, NodeName or AutoName, and the
// stream's serdes. The table must keep a history of at least the grace period.
//
// Options: As, NodeName, RepartitionName, AutoName, WithKey, WithValue, JoinGrace; with that, InMemory, LogConfig, WithoutLog.
//
// In Kafka Streams: KStream#join(KTable).
func JoinTable[K, V, VT, R any](s Stream[K, V], t Table[K, VT], join func(v V, row VT) R, opts ...StepOption) Stream[K, R] {
	return joinTable(s, t, "JoinTable", false, given(opts, join != nil), func(_ context.Context, v V, row VT, _ bool) (R, error) { return join(v, row), nil })
}

// LeftJoinTable is JoinTable that keeps records without a row: ok is false then. Records with a null key are kept too,
// those with a null value are dropped and counted. With JoinGrace a record with a null key does not wait, since no row can
// meet it; Kafka Streams fails on it.
//
// Options and cost: as JoinTable.
//
// In Kafka Streams: KStream#leftJoin(KTable).
func LeftJoinTable[K, V, VT, R any](s Stream[K, V], t Table[K, VT], join func(v V, row VT, ok bool) R, opts ...StepOption) Stream[K, R] {
	return joinTable(s, t, "LeftJoinTable", true, given(opts, join != nil), func(_ context.Context, v V, row VT, ok bool) (R, error) { return join(v, row, ok), nil })
}

// TryJoinTable is JoinTable with a function that can fail; its error goes to the processing handler. ctx ends with the
// application.
func TryJoinTable[K, V, VT, R any](s Stream[K, V], t Table[K, VT], join func(ctx context.Context, v V, row VT) (R, error), opts ...StepOption) Stream[K, R] {
	return joinTable(s, t, "TryJoinTable", false, given(opts, join != nil), func(ctx context.Context, v V, row VT, _ bool) (R, error) { return join(ctx, v, row) })
}

// TryLeftJoinTable is LeftJoinTable with a function that can fail; its error goes to the processing handler. ctx ends with
// the application.
func TryLeftJoinTable[K, V, VT, R any](s Stream[K, V], t Table[K, VT], join func(ctx context.Context, v V, row VT, ok bool) (R, error), opts ...StepOption) Stream[K, R] {
	return joinTable(s, t, "TryLeftJoinTable", true, given(opts, join != nil), join)
}

func joinTable[K, V, VT, R any](s Stream[K, V], t Table[K, VT], verb string, left bool, opts []StepOption, join func(ctx context.Context, v V, row VT, ok bool) (R, error)) Stream[K, R] {
	st := s.b.begin(verb, opts, append([]string{optJoinGrace, optMemory, optLogConfig, optNoLog}, joinOptions...)...)
	if t.t == nil || t.t.b != s.b {
		st.errorf("%s: the stream and the table come from different builders", verb)
		return Stream[K, R]{b: s.b, node: s.parent(), sources: s.sources}
	}
	in := s
	if s.flagged {
		in = repartitionForJoin(st, s)
	}
	prefix := "KSTREAM-JOIN-"
	if left {
		prefix = "KSTREAM-LEFTJOIN-"
	}
	name := st.nodeName(prefix)
	getter, stores := t.t.lookup(st)
	spec := func(ctx context.Context) op.LookupJoinSpec[K, V, K, VT, R] {
		return op.LookupJoinSpec[K, V, K, VT, R]{
			Left: left, Table: getter, OwnKey: func(k K) K { return k },
			Join: func(_ K, v V, row VT, ok bool) (R, error) { return join(ctx, v, row, ok) },
		}
	}
	f := withCtx(func(ctx context.Context) op.Factory { return op.NewLookupJoin(spec(ctx)) })
	if key, value, waits := graceBuffer(st, in, t, name); waits {
		f = withCtx(func(ctx context.Context) op.Factory {
			return op.NewGraceJoin(op.GraceJoinSpec[K, V, VT, R]{
				Join: spec(ctx), Store: name + bufferSuffix, GraceMs: st.joinGrace.Milliseconds(), Key: key, Value: value,
			})
		})
	}
	s.b.t.AddProcessor(topology.Processor{Name: name, Parents: []string{in.parent()}, Stores: stores, Op: f, Pos: st.pos})
	if left {
		s.b.relaxed = append(s.b.relaxed, name)
	}
	s.b.t.CopartitionSources(st.verb, st.pos, union(in.sources, t.t.sources)...)
	return Stream[K, R]{b: s.b, node: name, sources: union(in.sources, t.t.sources), key: in.key, origin: verb}
}

// repartitionForJoin puts a repartition topic behind a stream whose key may have changed. A join without a name of its own
// takes the topic that an earlier join of the same stream has made; the first one's is named after the stream's step. Null
// keys pass the topic if a left join is behind it (see relaxNullKeys); an inner join that shares it drops them by itself.
func repartitionForJoin[K, V any](s *step, in Stream[K, V]) Stream[K, V] {
	return repartitionSide(s, in, s.repartitionName(), keySerde(s, in.key), valueSerde(s, in.value))
}

// repartitionSide is repartitionForJoin for one side of a join, with its name, empty for none, and its serdes.
func repartitionSide[K, V any](s *step, in Stream[K, V], name string, key serde.Serde[K], value serde.Serde[V]) Stream[K, V] {
	node := in.parent()
	old, shared := s.b.shared[node]
	if name == "" && shared {
		s.b.t.NextName("KSTREAM-SINK-")
		s.b.t.NextName("KSTREAM-FILTER-")
		s.b.t.NextName("KSTREAM-SOURCE-")
		return Stream[K, V]{b: in.b, node: old.node, sources: []string{old.node}, key: key, value: value}
	}
	s.requireName(name != "", "a repartition topic")
	auto := name == ""
	if auto {
		name = node
	}
	out := repartition(s, in, name, key, value, auto)
	s.b.shared[node] = repartitioned{node: out.node}
	return out
}

// JoinGlobal joins each record of a stream with a row of a global table, under the key that it maps to; records without a
// row end there. Nothing needs to be repartitioned, and there is no order between the stream and updates of the table.
// Records with a null value are dropped and counted, as are those that map to a nil key.
//
// Options: As or NodeName.
//
// In Kafka Streams: KStream#join(GlobalKTable).
func JoinGlobal[K, V, KT, VT, R any](s Stream[K, V], t GlobalTable[KT, VT], key func(k K, v V) KT, join func(v V, row VT) R, opts ...StepOption) Stream[K, R] {
	return joinGlobal(s, t, "JoinGlobal", false, given(opts, key != nil, join != nil), key, func(_ context.Context, v V, row VT, _ bool) (R, error) { return join(v, row), nil })
}

// LeftJoinGlobal is JoinGlobal that keeps records without a row, and those that map to a nil key: ok is false then.
//
// Options: as JoinGlobal.
//
// In Kafka Streams: KStream#leftJoin(GlobalKTable).
func LeftJoinGlobal[K, V, KT, VT, R any](s Stream[K, V], t GlobalTable[KT, VT], key func(k K, v V) KT, join func(v V, row VT, ok bool) R, opts ...StepOption) Stream[K, R] {
	return joinGlobal(s, t, "LeftJoinGlobal", true, given(opts, key != nil, join != nil), key, func(_ context.Context, v V, row VT, ok bool) (R, error) { return join(v, row, ok), nil })
}

// TryJoinGlobal is JoinGlobal with a function that can fail; its error goes to the processing handler. ctx ends with the
// application.
func TryJoinGlobal[K, V, KT, VT, R any](s Stream[K, V], t GlobalTable[KT, VT], key func(k K, v V) KT, join func(ctx context.Context, v V, row VT) (R, error), opts ...StepOption) Stream[K, R] {
	return joinGlobal(s, t, "TryJoinGlobal", false, given(opts, key != nil, join != nil), key, func(ctx context.Context, v V, row VT, _ bool) (R, error) { return join(ctx, v, row) })
}

// TryLeftJoinGlobal is LeftJoinGlobal with a function that can fail; its error goes to the processing handler. ctx ends
// with the application.
func TryLeftJoinGlobal[K, V, KT, VT, R any](s Stream[K, V], t GlobalTable[KT, VT], key func(k K, v V) KT, join func(ctx context.Context, v V, row VT, ok bool) (R, error), opts ...StepOption) Stream[K, R] {
	return joinGlobal(s, t, "TryLeftJoinGlobal", true, given(opts, key != nil, join != nil), key, join)
}

func joinGlobal[K, V, KT, VT, R any](s Stream[K, V], t GlobalTable[KT, VT], verb string, left bool, opts []StepOption, key func(k K, v V) KT, join func(ctx context.Context, v V, row VT, ok bool) (R, error)) Stream[K, R] {
	st := s.b.begin(verb, opts, nodeOptions...)
	if t.b != s.b {
		st.errorf("%s: the stream and the table come from different builders", verb)
	}
	isNil := nilness.Checker[KT]()
	f := withCtx(func(ctx context.Context) op.Factory {
		return op.NewLookupJoin(op.LookupJoinSpec[K, V, KT, VT, R]{
			Left: left, Table: op.GlobalGetter[KT, VT](t.name),
			Key: func(k K, v V) (KT, bool, error) {
				mapped := key(k, v)
				return mapped, isNil == nil || !isNil(&mapped), nil
			},
			Join: func(_ K, v V, row VT, ok bool) (R, error) { return join(ctx, v, row, ok) },
		})
	})
	out := then[K, V, K, R](st, s, "KSTREAM-LEFTJOIN-", f, s.flagged, s.key, nil)
	out.origin = verb
	if left {
		s.b.relaxed = append(s.b.relaxed, out.node)
	}
	return out
}
