package millrace

import (
	"maps"

	"github.com/millrace-io/millrace/internal/millis"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Sessions is a stream grouped by its key and by sessions, ready to be aggregated: windows of activity that end when a key
// was silent for longer than a gap. Each aggregation returns the table of results, and the stream of the records that came
// too late for the session that they would have made.
//
// A record joins all sessions of its key that lie within the gap. The table then first loses those, oldest first, and gets
// the session that all of them make together. Its rows carry the end of their session as timestamp, and no headers. A
// session is closed once the aggregation has seen a timestamp above its end plus gap plus grace: it then takes no more
// records, and its result, held back by UntilWindowCloses or EmitOnClose, is final. A longer Retain keeps closed sessions
// within reach, and a record in time may still merge them. Late records are always counted; leaving the stream unused is the
// choice to drop them. Records with a null key are dropped and counted; null values count, as in Kafka Streams.
//
// In Kafka Streams: SessionWindowedKStream. It has no stream of late records, and its store loses sessions that end just
// when they close.
type Sessions[K, V any] struct {
	g *grouped[K, V]
	w window.SessionWindows
}

// SessionBy groups by sessions as well as by key.
//
// In Kafka Streams: KGroupedStream#windowedBy.
func (g Grouped[K, V]) SessionBy(w window.SessionWindows) Sessions[K, V] {
	return Sessions[K, V]{g: g.g, w: w}
}

// sessionFuncs is what an aggregation by session calls.
type sessionFuncs[K, V, A any] struct {
	init  func() A
	fold  op.Fold[K, V, A]
	merge op.Merge[K, A]
}

func sessionAggregation[K, V, A any](w Sessions[K, V], verb, prefix string, value serde.Serde[A], f sessionFuncs[K, V, A], opts []StepOption) (Table[window.Key[K], A], Stream[K, window.Late[V]]) {
	g := w.g
	s := g.in.b.begin(verb, opts, windowOptions...)
	if verb == "CountSessions" && s.materialized() {
		s.b.t.NextStoreName(prefix) // as Kafka Streams counts
	}
	storeName, named := s.storeName(prefix)
	node := s.nodeName(prefix)
	s.requireName(named, "a store")
	in := g.ready(s, storeName, named)
	spec := &op.TableSpec{Store: storeName}
	late := new(string)
	s.b.t.AddProcessor(topology.Processor{Name: node, Parents: []string{in.parent()}, Pos: s.pos,
		Op: op.NewSessionAggregate(op.SessionAggregateSpec[K, V, A]{
			Table: spec, Windows: w.w, Init: f.init, Fold: f.fold, Merge: f.merge, Late: late,
			EmitOnClose: s.emitOnClose,
		})})
	key, val := keySerde(s, g.key), valueSerde(s, value)
	addSessionStore(s, w.w, storeName, !named, key, val, spec, node)
	return newSessionTable(s, w.w, node, in.sources, key, val, spec), lateStream[K, V](s, in.sources, key, node, late)
}

// addSessionStore gives the steps of an aggregation their session store.
func addSessionStore[K, A any](s *step, w window.SessionWindows, name string, auto bool, key serde.Serde[K], value serde.Serde[A], spec *op.TableSpec, nodes ...string) {
	retention := int64(0)
	if err := w.Validate(); err != nil {
		s.errorf("%s: %w", s.verb, err)
	} else {
		retention = w.RetentionMs()
	}
	if s.retention > 0 {
		retention = s.retention.Milliseconds()
	}
	s.checkSerde("store "+name, key, value)
	if key == nil || value == nil {
		s.storeSerdes(name, key == nil, value == nil)
		return
	}
	s.b.t.AddStore(topology.Store{
		Name: name, Kind: topology.Session, Persistent: !s.inMemory, Logged: !s.noLog, TopicConfigs: maps.Clone(s.topicConfig),
		RetentionMs: retention, WindowSizeMs: w.GapMs(), GraceMs: w.GraceMs(), Auto: auto, Pos: s.pos, Def: spec,
		Op: &op.SessionFactory[K, A]{Spec: op.StoreSpec{Name: name, Logged: !s.noLog, Cached: !s.noCache && !s.emitOnClose, KeepHeaders: s.keepHeaders}, Key: key, Value: value,
			// A session that ends exactly when it closes is still open; a longer retention ends where it ends in Kafka Streams.
			KeptMs: max(retention, w.RetentionMs()+1)},
	}, nodes...)
}

// newSessionTable makes the table of an aggregation by session.
func newSessionTable[K, A any](s *step, w window.SessionWindows, node string, sources []string, key serde.Serde[K], value serde.Serde[A], spec *op.TableSpec) Table[window.Key[K], A] {
	s.b.closeMs[node] = millis.Add(w.RetentionMs(), 1) // the end belongs to a session
	t := &table[window.Key[K], A]{b: s.b, node: node, sources: sources, value: value, spec: spec}
	if key != nil {
		t.key = serde.SessionWindowed(key)
	}
	t.lookup = func(*step) (op.GetterFactory[window.Key[K], A], []string) {
		return op.SessionGetter[K, A](spec.Store), []string{spec.Store}
	}
	t.sendOld = func() bool {
		spec.SendOld = true
		return true
	}
	return Table[window.Key[K], A]{t: t}
}

// CountSessions counts the records of each key and session.
//
// Options: As, or StoreName, or AutoName; NodeName, RepartitionName, InMemory, Retain, LogConfig, WithoutLog, WithoutCache,
// KeepHeaders, WithKey, EmitOnClose. It makes a store and a changelog topic, and a repartition topic if the key may have
// changed. Each record costs a search in the store, a deletion for each session that it joins, and a write.
//
// In Kafka Streams: SessionWindowedKStream#count.
func CountSessions[K, V any](w Sessions[K, V], opts ...StepOption) (Table[window.Key[K], int64], Stream[K, window.Late[V]]) {
	return sessionAggregation(w, "CountSessions", "KSTREAM-AGGREGATE-", serde.Serde[int64](serde.Int64), sessionFuncs[K, V, int64]{
		init: zero[int64], fold: countFold[K, V], merge: sumMerge[K, int64],
	}, opts)
}

// SumSessions adds up a number of each record by key and session.
//
// Options and cost: as CountSessions.
//
// In Kafka Streams: SessionWindowedKStream#aggregate with an adder.
func SumSessions[K, V any, N Number](w Sessions[K, V], f func(V) N, s serde.Serde[N], opts ...StepOption) (Table[window.Key[K], N], Stream[K, window.Late[V]]) {
	return sessionAggregation(w, "SumSessions", "KSTREAM-AGGREGATE-", s, sessionFuncs[K, V, N]{
		init: zero[N], fold: sumFold[K](f), merge: sumMerge[K, N],
	}, given(opts, f != nil))
}

func sumMerge[K any, N Number](_ K, a N, _ bool, b N) (N, bool, error) { return a + b, true, nil }

// ReduceSessions combines the values of each key and session, see Grouped.Reduce. Where a record joins several sessions,
// their results are combined first, the oldest one being the first argument, and the record's value is the last.
//
// Options and cost: as CountSessions, and WithValue.
//
// In Kafka Streams: SessionWindowedKStream#reduce.
func ReduceSessions[K, V any](w Sessions[K, V], f func(agg, v V) V, opts ...StepOption) (Table[window.Key[K], V], Stream[K, window.Late[V]]) {
	return reduceSessions(w, "ReduceSessions", func(a, v V) (V, error) { return f(a, v), nil }, given(opts, f != nil))
}

// TryReduceSessions is ReduceSessions with a function that can fail; its error goes to the processing handler.
func TryReduceSessions[K, V any](w Sessions[K, V], f func(agg, v V) (V, error), opts ...StepOption) (Table[window.Key[K], V], Stream[K, window.Late[V]]) {
	return reduceSessions(w, "TryReduceSessions", f, given(opts, f != nil))
}

func reduceSessions[K, V any](w Sessions[K, V], verb string, f func(agg, v V) (V, error), opts []StepOption) (Table[window.Key[K], V], Stream[K, window.Late[V]]) {
	merge := func(_ K, a V, has bool, b V) (V, bool, error) {
		if !has {
			return b, true, nil
		}
		out, err := f(a, b)
		return out, true, err
	}
	return sessionAggregation(w, verb, "KSTREAM-REDUCE-", w.g.value, sessionFuncs[K, V, V]{fold: windowReduceFold[K](f), merge: merge}, opts)
}

// AggregateSessions combines the records of each key and session. init makes an empty aggregate, merge combines it with those
// of the sessions that a record joins, one after the other from the oldest on, and add takes the record into the result. So
// merge is called for each session that grows, with an empty aggregate first. All aggregates given to merge and add belong
// to them: they may be changed in place and returned. A nil result of a type that has a nil deletes the session; merge and
// add are given a nil then where an aggregate is missing.
//
// Options and cost: as CountSessions.
//
// In Kafka Streams: SessionWindowedKStream#aggregate.
func AggregateSessions[K, V, A any](w Sessions[K, V], init func() A, add func(k K, v V, agg A) A, merge func(k K, a, b A) A, s serde.Serde[A], opts ...StepOption) (Table[window.Key[K], A], Stream[K, window.Late[V]]) {
	return sessionAggregation(w, "AggregateSessions", "KSTREAM-AGGREGATE-", s, aggregateSessionFuncs(init,
		func(k K, v V, a A) (A, error) { return add(k, v, a), nil },
		func(k K, a, b A) (A, error) { return merge(k, a, b), nil }), given(opts, init != nil, add != nil, merge != nil))
}

// TryAggregateSessions is AggregateSessions with functions that can fail; their errors go to the processing handler.
func TryAggregateSessions[K, V, A any](w Sessions[K, V], init func() A, add func(k K, v V, agg A) (A, error), merge func(k K, a, b A) (A, error), s serde.Serde[A], opts ...StepOption) (Table[window.Key[K], A], Stream[K, window.Late[V]]) {
	return sessionAggregation(w, "TryAggregateSessions", "KSTREAM-AGGREGATE-", s, aggregateSessionFuncs(init, add, merge),
		given(opts, init != nil, add != nil, merge != nil))
}

func aggregateSessionFuncs[K, V, A any](init func() A, add func(k K, v V, agg A) (A, error), merge func(k K, a, b A) (A, error)) sessionFuncs[K, V, A] {
	return sessionFuncs[K, V, A]{
		init: init,
		fold: func(r *processor.Record[K, V], agg A, _ bool) (A, bool, error) {
			out, err := add(r.Key, r.Value, agg)
			return out, true, err
		},
		merge: func(k K, a A, _ bool, b A) (A, bool, error) {
			out, err := merge(k, a, b)
			return out, true, err
		},
	}
}
