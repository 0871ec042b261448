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

// Windowed is a stream grouped by its key and by windows, ready to be aggregated. Windows follow event time: the
// records' timestamps, never the time of their arrival. Each aggregation returns the table of results, and the stream of
// the records that came too late for at least one window.
//
// A window is closed once the aggregation has seen a timestamp of at least the window's end plus the grace period. Late
// records are always counted; leaving the stream unused is the choice to drop them:
//
//	counts, _ := millrace.CountWindows(perMinute, millrace.As("clicks-per-minute"))
//
// In Kafka Streams: TimeWindowedKStream. It has no stream of late records.
type Windowed[K, V any] struct {
	g *grouped[K, V]
	w window.Windows
}

// WindowBy groups by windows as well as by key: tumbling and hopping windows (window.Tumbling, window.Hopping), sliding
// windows (window.Sliding), days, weeks and months of a time zone (window.Days and its kin), one window without an end
// (window.Unlimited), or windows of your own, any window.Enumerable. What is wrong with them is reported when the topology
// is built. Session windows are for SessionBy.
//
// In Kafka Streams: KGroupedStream#windowedBy.
func (g Grouped[K, V]) WindowBy(w window.Windows) Windowed[K, V] { return Windowed[K, V]{g: g.g, w: w} }

func windowAggregation[K, V, A any](w Windowed[K, V], verb, prefix string, value serde.Serde[A], init func() A, fold op.Fold[K, V, A], opts []StepOption) (Table[window.Key[K], A], Stream[K, window.Late[V]]) {
	g := w.g
	s := g.in.b.begin(verb, opts, windowOptions...)
	if verb == "CountWindows" && s.materialized() {
		s.b.t.NextStoreName(prefix) // as Kafka Streams counts
	}
	storeName, named := s.storeName(prefix)
	node := s.nodeName(prefix)
	s.requireName(named, "a store")
	in := g.ready(s, storeName, named)
	key, val := keySerde(s, g.key), valueSerde(s, value)
	spec := &op.TableSpec{Store: storeName}
	late := new(string)
	s.b.t.AddProcessor(topology.Processor{Name: node, Parents: []string{in.parent()}, Pos: s.pos,
		Op: windowOp(s, w.w, op.WindowAggregateSpec[K, V, A]{Table: spec, Fold: fold, Init: init, Late: late, EmitOnClose: s.emitOnClose})})
	t := windowTable(s, w.w, node, in.sources, storeName, named, key, val, spec, node)
	return t, lateStream[K, V](s, in.sources, key, node, late)
}

// windowOp makes the step that aggregates by windows of some kind, and reports what is wrong with them.
func windowOp[K, V, A any](s *step, w window.Windows, spec op.WindowAggregateSpec[K, V, A]) op.Factory {
	if w == nil {
		s.errorf("%s: WindowBy is given no windows", s.verb)
		return nil
	}
	if err := w.Validate(); err != nil {
		s.errorf("%s: %w", s.verb, err)
	}
	switch w := w.(type) {
	case window.Enumerable:
		if _, unlimited := w.(window.UnlimitedWindows); unlimited && spec.EmitOnClose {
			s.errorf("%s: an unlimited window never closes, so EmitOnClose would emit nothing; leave the option out", s.verb)
		}
		return op.NewWindowAggregate(w, spec)
	case window.SlidingWindows:
		return op.NewSlidingAggregate(w, spec)
	}
	s.errorf("%s: windows of the type %T can be neither listed (window.Enumerable) nor slid (window.Sliding); give them the method AppendWindows", s.verb, w)
	return nil
}

// windowTable gives the users of an aggregation by windows their store, and returns the table of its results.
func windowTable[K, A any](s *step, w window.Windows, node string, sources []string, storeName string, named bool, key serde.Serde[K], value serde.Serde[A], spec *op.TableSpec, users ...string) Table[window.Key[K], A] {
	t := &table[window.Key[K], A]{b: s.b, node: node, sources: sources, value: value, spec: spec}
	t.lookup = func(*step) (op.GetterFactory[window.Key[K], A], []string) {
		return op.WindowGetter[K, A](storeName), []string{storeName}
	}
	t.sendOld = func() bool {
		spec.SendOld = true
		return true
	}
	if w == nil {
		return Table[window.Key[K], A]{t: t}
	}
	s.b.closeMs[node] = w.GraceMs()
	switch w.(type) {
	case window.UnlimitedWindows:
		s.b.closeMs[node] = neverCloses
	case window.SlidingWindows:
		s.b.closeMs[node] = millis.Add(w.GraceMs(), 1) // the end belongs to a window
	}
	st := topology.Store{
		Name: storeName, Kind: topology.Window, Persistent: !s.inMemory, Logged: !s.noLog, TopicConfigs: maps.Clone(s.topicConfig),
		Auto: !named, Pos: s.pos, Def: spec,
	}
	factory := &op.WindowFactory[K, A]{
		Spec: op.StoreSpec{Name: storeName, Logged: !s.noLog, Cached: !s.noCache && !s.emitOnClose, KeepHeaders: s.keepHeaders}, Key: key, Value: value,
	}
	if key != nil {
		t.key = serde.WindowedBy(key, w)
	}
	switch w := w.(type) {
	case window.Time:
		st.WindowSizeMs, factory.SizeMs = w.SizeMs(), w.SizeMs()
		if key != nil {
			t.key = serde.Windowed(key, w.Size())
		}
	case window.SlidingWindows:
		st.WindowSizeMs, factory.SizeMs = w.DifferenceMs(), w.DifferenceMs()
		if key != nil && w.DifferenceMs() > 0 {
			t.key = serde.Windowed(key, w.Difference())
		}
	default:
		factory.Windows = w
	}
	if w.Validate() == nil {
		st.GraceMs, st.RetentionMs = w.GraceMs(), s.windowRetention(w, storeName)
	} else {
		st.RetentionMs = st.WindowSizeMs // what is wrong with the windows has been told
	}
	if s.emitOnClose {
		factory.SegmentMs = op.CloseSegmentMs(w)
	}
	if key == nil || value == nil {
		s.storeSerdes(storeName, key == nil, value == nil)
	} else {
		st.Op = factory
		s.b.t.AddStore(st, users...)
	}
	return Table[window.Key[K], A]{t: t}
}

// windowRetention is how long a store keeps windows: as long as they take records, or longer if the user says so.
func (s *step) windowRetention(w window.Windows, storeName string) int64 {
	ms := s.retention.Milliseconds()
	if s.retention == 0 || ms < w.RetentionMs() {
		if c, ok := w.(interface{ CheckRetentionMs(int64) error }); ok && s.retention != 0 {
			s.errorf("%s: store %s: %w", s.verb, storeName, c.CheckRetentionMs(ms))
		} else if s.retention != 0 {
			s.errorf("%s: store %s: retention %v is too short for its windows (%v), which are kept for at least %dms: the longest of them plus grace",
				s.verb, storeName, s.retention, w, w.RetentionMs())
		}
		return w.RetentionMs()
	}
	return ms
}

// lateStream is the stream of the records that missed a window. Its step exists only if something follows it, so that unused
// late streams leave no trace.
func lateStream[K, V any](s *step, sources []string, key serde.Serde[K], node string, late *string) Stream[K, window.Late[V]] {
	return Stream[K, window.Late[V]]{b: s.b, sources: sources, key: key, origin: s.verb, branch: func() string {
		if *late == "" {
			*late = node + "-late"
			s.b.t.AddProcessor(topology.Processor{Name: *late, Parents: []string{node}, Op: op.NewPass[K, window.Late[V]](), Pos: s.pos})
		}
		return *late
	}}
}

// CountWindows counts the records of each key and window. Records with a null key are dropped and counted; null values
// count, as in Kafka Streams, but sliding windows drop and count them. A result carries the highest timestamp of the window's
// records, and the headers of the last that came. Without a cache the windows of a record are sent in the order of their
// starts, those of sliding windows in the order of Kafka Streams.
//
// Options: As, or StoreName, or AutoName; NodeName, RepartitionName, InMemory, Retain, LogConfig, WithoutLog, WithoutCache,
// KeepHeaders, WithKey, EmitOnClose. It makes a store and a changelog topic, and a repartition topic if the key may have
// changed. Each record costs a read and a write of the store for each window that holds it.
//
// In Kafka Streams: TimeWindowedKStream#count.
func CountWindows[K, V any](w Windowed[K, V], opts ...StepOption) (Table[window.Key[K], int64], Stream[K, window.Late[V]]) {
	return windowAggregation(w, "CountWindows", "KSTREAM-AGGREGATE-", serde.Serde[int64](serde.Int64), zero[int64], countFold[K, V], opts)
}

// SumWindows adds up a number of each record by key and window.
//
// Options and cost: as CountWindows.
//
// In Kafka Streams: TimeWindowedKStream#aggregate with an adder.
func SumWindows[K, V any, N Number](w Windowed[K, V], f func(V) N, s serde.Serde[N], opts ...StepOption) (Table[window.Key[K], N], Stream[K, window.Late[V]]) {
	return windowAggregation(w, "SumWindows", "KSTREAM-AGGREGATE-", s, zero[N], sumFold[K](f), given(opts, f != nil))
}

// ReduceWindows combines the values of each key and window, see Grouped.Reduce.
//
// Options and cost: as CountWindows, and WithValue.
//
// In Kafka Streams: TimeWindowedKStream#reduce.
func ReduceWindows[K, V any](w Windowed[K, V], f func(agg, v V) V, opts ...StepOption) (Table[window.Key[K], V], Stream[K, window.Late[V]]) {
	return windowAggregation(w, "ReduceWindows", "KSTREAM-REDUCE-", w.g.value, nil, windowReduceFold[K](func(a, v V) (V, error) { return f(a, v), nil }), given(opts, f != nil))
}

// TryReduceWindows is ReduceWindows with a function that can fail; its error goes to the processing handler.
func TryReduceWindows[K, V any](w Windowed[K, V], f func(agg, v V) (V, error), opts ...StepOption) (Table[window.Key[K], V], Stream[K, window.Late[V]]) {
	return windowAggregation(w, "TryReduceWindows", "KSTREAM-REDUCE-", w.g.value, nil, windowReduceFold[K](f), given(opts, f != nil))
}

// windowReduceFold is reduceFold where null values come through. A type that has a nil gets it. One that has none cannot:
// a null adds nothing to a result, and where there is none it makes none, which is sent on as a null.
func windowReduceFold[K, V any](f func(agg, v V) (V, error)) op.Fold[K, V, V] {
	fold := reduceFold[K](f)
	nilable := hasNil[V]()
	return func(r *processor.Record[K, V], agg V, has bool) (V, bool, error) {
		if r.NullValue && !nilable {
			return agg, has, nil
		}
		return fold(r, agg, has)
	}
}

// AggregateWindows combines the records of each key and window, see Aggregate. Null values are passed to add, as in Kafka
// Streams.
//
// Options and cost: as CountWindows.
//
// In Kafka Streams: TimeWindowedKStream#aggregate.
func AggregateWindows[K, V, A any](w Windowed[K, V], init func() A, add func(k K, v V, agg A) A, s serde.Serde[A], opts ...StepOption) (Table[window.Key[K], A], Stream[K, window.Late[V]]) {
	return windowAggregation(w, "AggregateWindows", "KSTREAM-AGGREGATE-", s, init, aggregateFold(init, func(k K, v V, a A) (A, error) { return add(k, v, a), nil }), given(opts, init != nil, add != nil))
}

// TryAggregateWindows is AggregateWindows with a function that can fail; its error goes to the processing handler.
func TryAggregateWindows[K, V, A any](w Windowed[K, V], init func() A, add func(k K, v V, agg A) (A, error), s serde.Serde[A], opts ...StepOption) (Table[window.Key[K], A], Stream[K, window.Late[V]]) {
	return windowAggregation(w, "TryAggregateWindows", "KSTREAM-AGGREGATE-", s, init, aggregateFold(init, add), given(opts, init != nil, add != nil))
}
