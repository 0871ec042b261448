package millrace

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// JoinStreams joins each record of a stream with the records of another one that have the same key and lie within its window:
// a right record joins a left one at t if its timestamp is in [t-before, t+after]. Every pair leads to one result, when the
// second of the two arrives, whichever side that is.
//
//	pairs, late := millrace.JoinStreams(orders, payments, window.Within(time.Hour).Grace(time.Minute), settle, millrace.As("settled"))
//
// Time: a result carries the higher of the two timestamps, and the headers of the record that arrived last. The join's time is
// the highest timestamp that it has seen on either side, of any key. A left record is late once that time is beyond its own
// plus after plus grace, a right one beyond its own plus before plus grace: late records are not joined, they are counted, and
// leave by the second stream. Not using that stream is the choice to drop them.
//
// Null: records with a null key or value are dropped and counted; they move the time all the same.
//
// Order: a record is joined with the rows that are there by their timestamps, and by their arrival where those are equal. It
// meets itself if both sides are one stream.
//
// Cost: each side has a store, with a changelog topic, that keeps its records for before plus after plus grace (Retain keeps
// them longer). A side whose key may have changed goes through a repartition topic first. Both sides must have the same number
// of partitions, which is checked at start.
//
// Options: As, or StoreName, or AutoName; NodeName, RepartitionName, InMemory, Retain, LogConfig, WithoutLog, WithKey,
// WithValue (of the left stream), WithOtherValue (of the right one). As, NodeName and RepartitionName are beginnings: the parts
// of a join are called <name>-this-windowed, <name>-other-join and so on, its stores <name>-this-join-store and
// <name>-other-join-store, its repartition topics <name>-left-repartition and <name>-right-repartition. Late records are counted
// (DroppedLate) by <name>-this-windowed for the left side and <name>-other-windowed for the right one.
//
// In Kafka Streams: KStream#join(KStream). It has no stream of late records.
func JoinStreams[K, VL, VR, R any](l Stream[K, VL], r Stream[K, VR], w window.JoinWindows, join func(l VL, r VR) R, opts ...StepOption) (Stream[K, R], Stream[K, window.LateJoin[VL, VR]]) {
	j := streamJoin[K, VL, VR, R]{verb: "JoinStreams", join: func(_ context.Context, l VL, _ bool, r VR, _ bool) (R, error) { return join(l, r), nil }}
	return j.add(l, r, w, given(opts, join != nil))
}

// TryJoinStreams is JoinStreams with a function that can fail; its error goes to the processing handler, and costs this one
// pair. ctx ends with the application.
func TryJoinStreams[K, VL, VR, R any](l Stream[K, VL], r Stream[K, VR], w window.JoinWindows, join func(ctx context.Context, l VL, r VR) (R, error), opts ...StepOption) (Stream[K, R], Stream[K, window.LateJoin[VL, VR]]) {
	j := streamJoin[K, VL, VR, R]{verb: "TryJoinStreams", join: func(ctx context.Context, l VL, _ bool, r VR, _ bool) (R, error) { return join(ctx, l, r) }}
	return j.add(l, r, w, given(opts, join != nil))
}

// LeftJoinStreams is JoinStreams that keeps left records without a match: they come out once their windows have closed, with
// okR false.
//
// Time: a left record that has met no right one waits until the join's time is beyond its timestamp plus after plus grace. It
// comes out with the first record that moves the time so far, whatever its key or side, before that record is joined; or when
// time alone passes (see IdleTimeout). Its result carries its own timestamp, and the headers of the record that moved the time.
// What is due together comes out by timestamp and key. A left record whose window has closed takes no more matches, so nothing
// follows its final result; each match that is refused so is counted as join-closed.
//
// Null: left records with a null key and a value are sent on at once without a match; all others with a null key or value are
// dropped and counted.
//
// Options and cost: as JoinStreams, and one store more, of the records that wait: <name>-left-shared-join-store. The right
// side's store is called <name>-outer-other-join-store.
//
// In Kafka Streams: KStream#leftJoin(KStream).
func LeftJoinStreams[K, VL, VR, R any](l Stream[K, VL], r Stream[K, VR], w window.JoinWindows, join func(l VL, r VR, okR bool) R, opts ...StepOption) (Stream[K, R], Stream[K, window.LateJoin[VL, VR]]) {
	j := streamJoin[K, VL, VR, R]{verb: "LeftJoinStreams", left: true, join: func(_ context.Context, l VL, _ bool, r VR, okR bool) (R, error) { return join(l, r, okR), nil }}
	return j.add(l, r, w, given(opts, join != nil))
}

// TryLeftJoinStreams is LeftJoinStreams with a function that can fail; its error goes to the processing handler, and costs this
// one result. ctx ends with the application.
func TryLeftJoinStreams[K, VL, VR, R any](l Stream[K, VL], r Stream[K, VR], w window.JoinWindows, join func(ctx context.Context, l VL, r VR, okR bool) (R, error), opts ...StepOption) (Stream[K, R], Stream[K, window.LateJoin[VL, VR]]) {
	j := streamJoin[K, VL, VR, R]{verb: "TryLeftJoinStreams", left: true, join: func(ctx context.Context, l VL, _ bool, r VR, okR bool) (R, error) { return join(ctx, l, r, okR) }}
	return j.add(l, r, w, given(opts, join != nil))
}

// OuterJoinStreams is JoinStreams that keeps the records of both sides without a match: they come out once their windows have
// closed, with okL or okR false.
//
// Time, order, null: as LeftJoinStreams for both sides. A right record waits until the join's time is beyond its timestamp plus
// before plus grace. Of rows with equal timestamps the right ones come out first.
//
// Options and cost: as LeftJoinStreams; the stores are called <name>-outer-this-join-store, <name>-outer-other-join-store and
// <name>-outer-shared-join-store.
//
// In Kafka Streams: KStream#outerJoin(KStream).
func OuterJoinStreams[K, VL, VR, R any](l Stream[K, VL], r Stream[K, VR], w window.JoinWindows, join func(l VL, okL bool, r VR, okR bool) R, opts ...StepOption) (Stream[K, R], Stream[K, window.LateJoin[VL, VR]]) {
	j := streamJoin[K, VL, VR, R]{verb: "OuterJoinStreams", left: true, right: true, join: func(_ context.Context, l VL, okL bool, r VR, okR bool) (R, error) { return join(l, okL, r, okR), nil }}
	return j.add(l, r, w, given(opts, join != nil))
}

// TryOuterJoinStreams is OuterJoinStreams with a function that can fail; its error goes to the processing handler, and costs
// this one result. ctx ends with the application.
func TryOuterJoinStreams[K, VL, VR, R any](l Stream[K, VL], r Stream[K, VR], w window.JoinWindows, join func(ctx context.Context, l VL, okL bool, r VR, okR bool) (R, error), opts ...StepOption) (Stream[K, R], Stream[K, window.LateJoin[VL, VR]]) {
	j := streamJoin[K, VL, VR, R]{verb: "TryOuterJoinStreams", left: true, right: true, join: join}
	return j.add(l, r, w, given(opts, join != nil))
}

var streamJoinOptions = []string{optAs, optNode, optStore, optRepartition, optAuto, optMemory, optRetain, optLogConfig, optNoLog, optKey, optValue, optOtherValue}

// streamJoin is a join of two streams in the making.
type streamJoin[K, VL, VR, R any] struct {
	verb        string
	left, right bool // keep records of that side without a match
	join        func(ctx context.Context, l VL, okL bool, r VR, okR bool) (R, error)

	*step
	nodes  streamJoinNodes
	stores streamJoinStores
	key    serde.Serde[K]
	lvalue serde.Serde[VL]
	rvalue serde.Serde[VR]
}

// streamJoinNodes are the names of a join's steps.
type streamJoinNodes struct{ thisWindow, otherWindow, this, other, merge string }

// streamJoinStores are the names of a join's stores; shared is empty for an inner join.
type streamJoinStores struct {
	this, other, shared string
	auto                bool
}

func (j *streamJoin[K, VL, VR, R]) add(l Stream[K, VL], r Stream[K, VR], w window.JoinWindows, opts []StepOption) (Stream[K, R], Stream[K, window.LateJoin[VL, VR]]) {
	j.step = l.b.begin(j.verb, opts, streamJoinOptions...)
	retention, ok := j.check(l, r, w)
	if !ok {
		return Stream[K, R]{b: l.b, node: l.parent(), sources: l.sources}, Stream[K, window.LateJoin[VL, VR]]{b: l.b, node: l.parent(), sources: l.sources}
	}
	self := l.parent() == r.parent()
	known := l.key
	if known == nil {
		known = r.key
	}
	j.key, j.lvalue, j.rvalue = keySerde(j.step, known), valueSerde(j.step, l.value), otherValueSerde(j.step, r.value)
	if l.flagged {
		l = repartitionSide(j.step, l, j.sideName("-left"), j.key, j.lvalue)
	}
	if r.flagged {
		r = repartitionSide(j.step, r, j.sideName("-right"), j.key, j.rvalue)
	}
	j.b.t.CopartitionSources(j.verb, j.pos, union(l.sources, r.sources)...)
	j.name()
	late := new(string)
	spec := j.addNodes(l, r, w, self, late)
	j.addStores(spec, w, retention)
	if !j.left {
		j.b.selfJoins = append(j.b.selfJoins, j.selfJoin(*spec))
	}
	sources := union(l.sources, r.sources)
	out := Stream[K, R]{b: j.b, node: j.nodes.merge, sources: sources, key: j.key, origin: j.verb}
	return out, j.lateStream(sources, late, j.nodes.thisWindow, j.nodes.otherWindow)
}

// check refuses what cannot be joined, and returns how long the stores keep their records.
func (j *streamJoin[K, VL, VR, R]) check(l Stream[K, VL], r Stream[K, VR], w window.JoinWindows) (retentionMs int64, ok bool) {
	if r.b != l.b {
		j.errorf("%s: the streams come from different builders", j.verb)
		return 0, false
	}
	if err := w.Validate(); err != nil {
		j.errorf("%s: %w", j.verb, err)
		return 0, false
	}
	retentionMs = w.RetentionMs()
	if j.retention > 0 {
		retentionMs = j.retention.Milliseconds()
		if err := w.CheckRetentionMs(retentionMs); err != nil {
			j.errorf("%s: %w", j.verb, err)
			return 0, false
		}
	}
	return retentionMs, true
}

// sideName returns the name of the repartition topic of a side, empty if it has none.
func (j *streamJoin[K, VL, VR, R]) sideName(suffix string) string {
	if name := j.repartitionName(); name != "" {
		return name + suffix
	}
	return ""
}

// name finds all names of the join. Five numbers are used up in any case.
func (j *streamJoin[K, VL, VR, R]) name() {
	thisSuffix, otherSuffix, sharedSuffix := "-this-join", "-other-join", "-left-shared-join"
	thisPrefix, otherPrefix := "KSTREAM-JOINTHIS-", "KSTREAM-JOINOTHER-"
	if j.left {
		otherSuffix, otherPrefix = "-outer-other-join", "KSTREAM-OUTEROTHER-"
	}
	if j.right {
		thisSuffix, thisPrefix, sharedSuffix = "-outer-this-join", "KSTREAM-OUTERTHIS-", "-outer-shared-join"
	}
	t := j.b.t
	n := streamJoinNodes{
		thisWindow: t.NextName("KSTREAM-WINDOWED-"), otherWindow: t.NextName("KSTREAM-WINDOWED-"),
		this: t.NextName(thisPrefix), other: t.NextName(otherPrefix), merge: t.NextName("KSTREAM-MERGE-"),
	}
	st := streamJoinStores{this: n.this, other: n.other, shared: "KSTREAM-OUTERSHARED-" + strings.TrimPrefix(n.this, thisPrefix), auto: true}
	if base := firstNonEmpty(j.store, j.as); base != "" {
		st = streamJoinStores{this: base + thisSuffix, other: base + otherSuffix, shared: base + sharedSuffix}
	}
	j.stores = streamJoinStores{this: st.this + "-store", other: st.other + "-store", shared: st.shared + "-store", auto: st.auto}
	if !j.left {
		j.stores.shared = ""
	}
	if base := firstNonEmpty(j.node, j.as); base != "" {
		n = streamJoinNodes{
			thisWindow: base + "-this-windowed", otherWindow: base + "-other-windowed",
			this: base + thisSuffix, other: base + otherSuffix, merge: base + "-merge",
		}
	}
	j.nodes = n
	j.requireName(!st.auto, "stores")
}

func firstNonEmpty(names ...string) string {
	for _, n := range names {
		if n != "" {
			return n
		}
	}
	return ""
}

// withJoin makes the operator of one of a join's steps, whose user function takes the application's context.
func (j *streamJoin[K, VL, VR, R]) withJoin(spec op.StreamJoinSpec[K, VL, VR, R], make func(*op.StreamJoinSpec[K, VL, VR, R]) op.Factory) op.Factory {
	join := j.join
	return withCtx(func(ctx context.Context) op.Factory {
		spec := spec
		spec.Join = func(l VL, okL bool, r VR, okR bool) (R, error) { return join(ctx, l, okL, r, okR) }
		return make(&spec)
	})
}

func (j *streamJoin[K, VL, VR, R]) addNodes(l Stream[K, VL], r Stream[K, VR], w window.JoinWindows, self bool, late *string) *op.StreamJoinSpec[K, VL, VR, R] {
	spec := op.StreamJoinSpec[K, VL, VR, R]{
		BeforeMs: w.BeforeMs(), AfterMs: w.AfterMs(), GraceMs: w.GraceMs(), KeepLeft: j.left, KeepRight: j.right,
		LeftStore: j.stores.this, RightStore: j.stores.other, Unmatched: j.stores.shared,
		Self: self, Merge: j.nodes.merge, Late: late,
	}
	n := j.nodes
	add := func(name, parent string, make func(*op.StreamJoinSpec[K, VL, VR, R]) op.Factory) {
		j.b.t.AddProcessor(topology.Processor{Name: name, Parents: []string{parent}, Op: j.withJoin(spec, make), Pos: j.pos})
	}
	add(n.thisWindow, l.parent(), op.NewJoinWindowLeft[K, VL, VR, R])
	add(n.otherWindow, r.parent(), op.NewJoinWindowRight[K, VL, VR, R])
	add(n.this, n.thisWindow, op.NewStreamJoinLeft[K, VL, VR, R])
	add(n.other, n.otherWindow, op.NewStreamJoinRight[K, VL, VR, R])
	j.b.t.AddProcessor(topology.Processor{Name: n.merge, Parents: []string{n.this, n.other}, Op: op.NewPass[K, R](), Pos: j.pos})
	if j.left {
		j.b.relaxed = append(j.b.relaxed, n.merge)
	}
	return &spec
}

// selfJoin returns what makes of an inner join whose sides are one stream the join with one store: the step that keeps the left
// records, and the one that brought the results together and now finds them.
func (j *streamJoin[K, VL, VR, R]) selfJoin(spec op.StreamJoinSpec[K, VL, VR, R]) func(*topology.Builder) {
	n, stores := j.nodes, j.stores
	spec.RightStore, spec.Self = spec.LeftStore, true
	keep := op.NewSelfJoinWindow(&spec)
	find := j.withJoin(spec, op.NewSelfJoin[K, VL, VR, R])
	return func(t *topology.Builder) {
		from := t.Parents(n.thisWindow)
		if !slices.Equal(from, t.Parents(n.otherWindow)) {
			return
		}
		t.Remove(n.otherWindow, n.this, n.other)
		t.RemoveStore(stores.other)
		t.Rewire(n.thisWindow, keep, from...)
		t.Rewire(n.merge, find, n.thisWindow)
		t.Connect(n.merge, stores.this)
		if *spec.Late != "" {
			t.Rewire(*spec.Late, nil, n.thisWindow)
		}
	}
}

// addStores adds the stores of both sides, and that of the rows that wait.
func (j *streamJoin[K, VL, VR, R]) addStores(spec *op.StreamJoinSpec[K, VL, VR, R], w window.JoinWindows, retentionMs int64) {
	if j.key == nil || j.lvalue == nil || j.rvalue == nil {
		j.errorf("%s: the stores %s and %s need serdes for keys and values; give them with WithKey, WithValue (of the left stream) and WithOtherValue (of the right one)", j.verb, j.stores.this, j.stores.other)
		return
	}
	j.checkSerde("store "+j.stores.this, j.key, j.lvalue)
	j.checkSerde("store "+j.stores.other, j.rvalue)
	n := j.nodes
	windowed := func(name string, factory op.StoreFactory, users ...string) {
		j.b.t.AddStore(topology.Store{
			Name: name, Kind: topology.Window, Persistent: !j.inMemory, Logged: !j.noLog, TopicConfigs: maps.Clone(j.topicConfig),
			RetentionMs: retentionMs, WindowSizeMs: w.SizeMs(), GraceMs: w.GraceMs(), JoinWindow: true,
			Auto: j.stores.auto, Pos: j.pos, Def: spec, Op: factory,
		}, users...)
	}
	windowed(j.stores.this, &op.JoinStoreFactory[K, VL]{Spec: op.StoreSpec{Name: j.stores.this, Logged: !j.noLog}, Key: j.key, Value: j.lvalue}, n.thisWindow, n.other)
	windowed(j.stores.other, &op.JoinStoreFactory[K, VR]{Spec: op.StoreSpec{Name: j.stores.other, Logged: !j.noLog}, Key: j.key, Value: j.rvalue}, n.otherWindow, n.this)
	if j.stores.shared == "" {
		return
	}
	j.b.t.AddStore(topology.Store{
		Name: j.stores.shared, Kind: topology.KeyValue, Persistent: !j.inMemory, Logged: !j.noLog, TopicConfigs: maps.Clone(j.topicConfig),
		Auto: j.stores.auto, Pos: j.pos, Def: spec, HoldsBack: true,
		Op: &op.UnmatchedFactory{Spec: op.StoreSpec{Name: j.stores.shared, Logged: !j.noLog}, Left: j.left, Right: j.right},
	}, n.this, n.other)
}

// lateStream returns the stream of the records that both sides have found late. Its step exists only if something follows it.
func (j *streamJoin[K, VL, VR, R]) lateStream(sources []string, late *string, parents ...string) Stream[K, window.LateJoin[VL, VR]] {
	b, pos := j.b, j.pos
	name := strings.TrimSuffix(j.nodes.merge, "-merge") + "-late"
	return Stream[K, window.LateJoin[VL, VR]]{b: b, sources: sources, key: j.key, origin: j.verb, branch: func() string {
		if *late == "" {
			*late = name
			b.t.AddProcessor(topology.Processor{Name: name, Parents: parents, Op: op.NewPass[K, window.LateJoin[VL, VR]](), Pos: pos})
		}
		return *late
	}}
}
