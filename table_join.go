package millrace

import (
	"context"
	"slices"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
)

// JoinTables joins two tables by key: a row of the result for each key that both have. An update of either side looks up
// the current row of the other; its result has the higher timestamp of the two rows, which may be lower than that of the
// result before it. When a row of one side is deleted, a deletion is sent if the other side has a row.
//
// Both tables must have the same number of partitions, which is checked at start, and keep their rows. The result has a
// store of its own only if it is named, and is otherwise computed again for each reader, so join must give equal results
// for equal input; a nil result of a type that has a nil is no row.
//
// One table may be derived from the other, or both from a third: then one update changes both sides, leads to a result for
// each, and the deletion of the joined row is sent once.
//
// A result carries the headers of the update that led to it. Updates that a versioned table took out of order are dropped and
// counted (DroppedStale).
//
// Options: As or NodeName and StoreName, AutoName, InMemory, LogConfig, WithoutLog, WithoutCache, Versioned, KeepHeaders,
// WithKey, WithValue.
//
// In Kafka Streams: KTable#join.
func JoinTables[K, VL, VR, R any](l Table[K, VL], r Table[K, VR], join func(l VL, r VR) R, opts ...StepOption) Table[K, R] {
	return joinTables(l, r, "JoinTables", true, true, given(opts, join != nil), func(_ context.Context, l VL, _ bool, r VR, _ bool) (R, error) { return join(l, r), nil })
}

// LeftJoinTables is JoinTables with a row for each key of the left table: okR tells whether the right one has the key. An
// update of the right side changes nothing where the left one has no row.
//
// Options and cost: as JoinTables.
//
// In Kafka Streams: KTable#leftJoin.
func LeftJoinTables[K, VL, VR, R any](l Table[K, VL], r Table[K, VR], join func(l VL, r VR, okR bool) R, opts ...StepOption) Table[K, R] {
	return joinTables(l, r, "LeftJoinTables", true, false, given(opts, join != nil), func(_ context.Context, l VL, _ bool, r VR, okR bool) (R, error) { return join(l, r, okR), nil })
}

// OuterJoinTables is JoinTables with a row for each key that either table has: okL and okR tell which.
//
// Options and cost: as JoinTables.
//
// In Kafka Streams: KTable#outerJoin.
func OuterJoinTables[K, VL, VR, R any](l Table[K, VL], r Table[K, VR], join func(l VL, okL bool, r VR, okR bool) R, opts ...StepOption) Table[K, R] {
	return joinTables(l, r, "OuterJoinTables", false, false, given(opts, join != nil), func(_ context.Context, l VL, okL bool, r VR, okR bool) (R, error) { return join(l, okL, r, okR), nil })
}

// TryJoinTables is JoinTables with a function that can fail; its error goes to the processing handler. ctx ends with the
// application.
func TryJoinTables[K, VL, VR, R any](l Table[K, VL], r Table[K, VR], join func(ctx context.Context, l VL, r VR) (R, error), opts ...StepOption) Table[K, R] {
	return joinTables(l, r, "TryJoinTables", true, true, given(opts, join != nil), func(ctx context.Context, l VL, _ bool, r VR, _ bool) (R, error) { return join(ctx, l, r) })
}

// TryLeftJoinTables is LeftJoinTables with a function that can fail; its error goes to the processing handler. ctx ends
// with the application.
func TryLeftJoinTables[K, VL, VR, R any](l Table[K, VL], r Table[K, VR], join func(ctx context.Context, l VL, r VR, okR bool) (R, error), opts ...StepOption) Table[K, R] {
	return joinTables(l, r, "TryLeftJoinTables", true, false, given(opts, join != nil), func(ctx context.Context, l VL, _ bool, r VR, okR bool) (R, error) { return join(ctx, l, r, okR) })
}

// TryOuterJoinTables is OuterJoinTables with a function that can fail; its error goes to the processing handler. ctx ends
// with the application.
func TryOuterJoinTables[K, VL, VR, R any](l Table[K, VL], r Table[K, VR], join func(ctx context.Context, l VL, okL bool, r VR, okR bool) (R, error), opts ...StepOption) Table[K, R] {
	return joinTables(l, r, "TryOuterJoinTables", false, false, given(opts, join != nil), join)
}

func joinTables[K, VL, VR, R any](l Table[K, VL], r Table[K, VR], verb string, needLeft, needRight bool, opts []StepOption, join func(context.Context, VL, bool, VR, bool) (R, error)) Table[K, R] {
	s := l.t.b.begin(verb, opts, tableOptions...)
	if r.t == nil || r.t.b != l.t.b {
		s.errorf("%s: the tables come from different builders", verb)
		return newTable[K, R](s, l.t.node, l.t.sources, l.t.key, nil, new(op.TableSpec), "", false)
	}
	store, named := s.store, true
	if store == "" {
		store = s.as
	}
	if s.materialized() {
		store, named = s.b.t.NextStoreName("KTABLE-MERGE-"), false
	}
	merge := s.nodeName("KTABLE-MERGE-")
	this, other := s.b.t.NextName("KTABLE-JOINTHIS-"), s.b.t.NextName("KTABLE-JOINOTHER-")
	if name := s.nodeGiven(); name != "" {
		this, other = name+"-join-this", name+"-join-other"
	}
	if needLeft != needRight || !needLeft {
		l.t.oldValues(s)
	}
	if !needLeft {
		r.t.oldValues(s)
	}
	if lw, rw := windowsOf(l.t.key), windowsOf(r.t.key); !lw.fits(rw) {
		s.errorf("%s: the keys of the left table have %s, those of the right one %s: no row of one can meet one of the other; aggregate both by the same windows",
			verb, lw, rw)
	}
	related := l.t.related(r.t.lineage())
	if related {
		l.t.needBefore()
		r.t.needBefore()
	}
	left, leftStores := l.t.lookup(s)
	right, rightStores := r.t.lookup(s)
	spec, keep := new(op.TableSpec), notNil[R]()
	specOf := func(ctx context.Context) *op.TableJoinSpec[K, VL, VR, R] {
		return &op.TableJoinSpec[K, VL, VR, R]{
			NeedLeft: needLeft, NeedRight: needRight, Left: left, Right: right, Table: spec, Related: related,
			Join: func(_ K, l VL, okL bool, r VR, okR bool) (R, bool, error) {
				out, err := join(ctx, l, okL, r, okR)
				return out, err == nil && keep(&out), err
			},
		}
	}
	s.b.t.AddProcessor(topology.Processor{Name: this, Parents: []string{l.t.node}, Stores: rightStores, Pos: s.pos,
		Op: withCtx(func(ctx context.Context) op.Factory { return op.NewTableJoinThis(specOf(ctx)) })})
	s.b.t.AddProcessor(topology.Processor{Name: other, Parents: []string{r.t.node}, Stores: leftStores, Pos: s.pos,
		Op: withCtx(func(ctx context.Context) op.Factory { return op.NewTableJoinOther(specOf(ctx)) })})
	s.b.t.AddProcessor(topology.Processor{Name: merge, Parents: []string{this, other}, Pos: s.pos, Op: op.NewTableJoinMerge[K, R](spec)})
	sources := union(l.t.sources, r.t.sources)
	s.b.t.CopartitionSources(s.verb, s.pos, sources...)
	key, value := l.t.key, valueSerde[R](s, nil)
	if key == nil {
		key = r.t.key
	}
	out := &table[K, R]{b: s.b, node: merge, sources: sources, key: key, value: value, spec: spec}
	out.upstream = union(l.t.lineage(), r.t.lineage())
	if store != "" {
		s.requireName(named, "a store")
		addTableStore(s, merge, store, !named, keySerde(s, key), value, spec)
		out.versions, out.history = s.versioned, s.history
	} else if s.versioned {
		s.needsVersionedName()
	} else if s.keepHeaders {
		s.needsHeaderName()
	}
	out.sendOld = func() bool {
		l.t.oldValues(s)
		r.t.oldValues(s)
		spec.SendOld = true
		return true
	}
	out.before = func() {
		spec.Before = true
		l.t.needBefore()
		r.t.needBefore()
	}
	out.lookup = func(*step) (op.GetterFactory[K, R], []string) {
		if spec.Store != "" {
			return op.StoreGetter[K, R](spec.Store), []string{spec.Store}
		}
		return func(env *op.Env, step string) (op.Getter[K, R], error) {
			return op.TableJoinGetter(specOf(env.Ctx))(env, step)
		}, union(leftStores, rightStores)
	}
	return Table[K, R]{t: out}
}

// oldValues makes a table send the values that stood before along with its updates, and keep its rows if it must for that.
func (t *table[K, V]) oldValues(asking *step) {
	t.lookup(asking)
	t.sendOld()
}

// lineage names a table's node and those of the tables that it is derived from without a topic between.
func (t *table[K, V]) lineage() []string { return append(slices.Clone(t.upstream), t.node) }

// related tells whether a table has a table in common with the lineage of another.
func (t *table[K, V]) related(lineage []string) bool {
	return slices.ContainsFunc(t.lineage(), func(name string) bool { return slices.Contains(lineage, name) })
}

// needBefore makes a table, and those that it is derived from, answer what a row was before an update that is under way.
func (t *table[K, V]) needBefore() {
	if t.before != nil {
		t.before()
		return
	}
	if t.spec != nil {
		t.spec.Before = true
	}
}
