package millrace

import (
	"context"
	"maps"
	"time"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// Table is a table that is continuously updated: the latest value of each key. Its updates can be taken as a stream, and
// other steps look its rows up.
//
// In Kafka Streams: KTable.
type Table[K, V any] struct {
	t *table[K, V]
}

// table is the shared part of a Table: later steps may ask it to keep its rows.
type table[K, V any] struct {
	b       *Builder
	node    string
	sources []string
	key     serde.Serde[K]
	value   serde.Serde[V]
	spec    *op.TableSpec
	// lookup returns how a step reads the table, and the stores that it must be connected to. It makes the table keep its
	// rows if it does not yet.
	lookup func(s *step) (op.GetterFactory[K, V], []string)
	// sendOld makes the table send the values that stood before along with its updates, and tells whether it does. It does
	// not make it keep its rows for that.
	sendOld func() bool
	// upstream are the nodes of the tables that it is derived from: see lineage. before passes needBefore on to them; nil if
	// there are none.
	upstream []string
	before   func()
	// versions says that updates carry the time of what they say; history is how far back they can be asked for. See Versioned.
	versions bool
	history  time.Duration
}

// TableFrom reads a topic as a table: a record sets the value of its key, a null value deletes it. The last record that
// arrives wins. Records with a null key are dropped and counted. The table has a store if it is named, or if a later step
// needs one.
//
// Options: As or NodeName and StoreName, AutoName, InMemory, LogConfig, WithoutLog, WithoutCache, Versioned, KeepHeaders,
// Timestamps, IdleTimeout, StartEarliest and its kin.
//
// In Kafka Streams: StreamsBuilder#table.
func TableFrom[K, V any](b *Builder, t Topic[K, V], opts ...StepOption) Table[K, V] {
	s := b.begin("TableFrom", opts, tableSourceOptions...)
	storeName, named := s.store, true
	if storeName == "" {
		storeName = s.as
	}
	if storeName == "" {
		storeName, named = b.t.NextStoreName(t.Name()+"-"), false
	}
	source, node := b.t.NextName("KSTREAM-SOURCE-"), b.t.NextName("KTABLE-SOURCE-")
	if name := s.nodeGiven(); name != "" {
		source, node = name+"-source", name
	}
	if len(t.names) != 1 {
		s.errorf("TableFrom: a table is read from one topic; %q stands for several", t.Name())
	}
	if t.key == nil || t.value == nil {
		s.errorf("TableFrom: topic %s has no serde for its key or value", t.Name())
	}
	s.checkSerde("topic "+t.Name(), t.key, t.value)
	src := topology.Source{Name: source, Topics: t.names, Pattern: t.pattern, Pos: s.pos, Op: newSource(s, t)}
	s.setReset(&src)
	s.setIdle(&src)
	if old, ok := b.t.FindSource(t.names, t.pattern); ok {
		s.errorf("TableFrom: topic %s is read at %s already; use that stream or table again", t.Name(), old.Pos)
		return newTable(s, old.Name, []string{old.Name}, t.key, t.value, new(op.TableSpec), storeName, false)
	}
	b.sources[source] = declaredSource{verb: "TableFrom"}
	if b.optimized[ReuseSourceTopics] && len(t.names) == 1 {
		s.sourceTopic = t.names[0]
	}
	b.t.AddSource(src)
	spec := new(op.TableSpec)
	b.t.AddProcessor(topology.Processor{Name: node, Parents: []string{source}, Op: op.NewTableSource[K, V](spec), Pos: s.pos})
	return newTable(s, node, []string{source}, t.key, t.value, spec, storeName, named)
}

func (s *step) nodeGiven() string {
	if s.node != "" {
		return s.node
	}
	return s.as
}

// newTable makes a table that keeps its rows if it is named, and otherwise once a later step asks for them.
func newTable[K, V any](s *step, node string, sources []string, key serde.Serde[K], value serde.Serde[V], spec *op.TableSpec, storeName string, named bool) Table[K, V] {
	t := &table[K, V]{b: s.b, node: node, sources: sources, key: key, value: value, spec: spec}
	t.lookup = func(asking *step) (op.GetterFactory[K, V], []string) {
		if spec.Store == "" {
			if !s.auto {
				asking.errorf("%s needs the rows of the table of %s at %s, which must keep them under a name: give it millrace.As(\"…\"), or millrace.AutoName()", asking.verb, s.verb, s.pos)
			}
			addTableStore(s, node, storeName, !named, key, value, spec)
		}
		return op.StoreGetter[K, V](spec.Store), []string{spec.Store}
	}
	t.sendOld = func() bool {
		spec.SendOld = spec.SendOld || spec.Store != ""
		return spec.SendOld
	}
	if named || (s.versioned || s.keepHeaders) && spec.Store == "" {
		what := "a versioned store"
		if s.keepHeaders {
			what = "a store that keeps headers"
		}
		s.requireName(named, what)
		addTableStore(s, node, storeName, !named, key, value, spec)
	}
	t.versions, t.history = s.versioned, s.history
	return Table[K, V]{t: t}
}

// addTableStore gives a table step its key-value store.
func addTableStore[K, V any](s *step, node, name string, auto bool, key serde.Serde[K], value serde.Serde[V], spec *op.TableSpec) {
	spec.Store = name
	s.checkSerde("store "+name, key, value)
	if key == nil || value == nil {
		s.storeSerdes(name, key == nil, value == nil)
		return
	}
	if s.versioned {
		if s.keepHeaders {
			s.errorf("%s: %s", s.verb, noVersionedHeaders)
		}
		addVersionedStore(s, node, name, auto, key, value, spec)
		return
	}
	s.b.t.AddStore(topology.Store{
		Name: name, Kind: topology.KeyValue, Persistent: !s.inMemory, Logged: s.logged(), TopicConfigs: maps.Clone(s.topicConfig),
		SourceTopic: s.sourceTopic, Auto: auto, Pos: s.pos, Def: spec,
		Op: &op.KVFactory[K, V]{Spec: op.StoreSpec{Name: name, Logged: s.logged(), Cached: !s.noCache, KeepHeaders: s.keepHeaders}, Key: key, Value: value},
	}, node)
}

// logged tells whether the step's store has a changelog topic of its own.
func (s *step) logged() bool { return !s.noLog && s.sourceTopic == "" }

// ToStream takes the table's updates as a stream: a deletion is a record with a null value. Of a versioned table it shows the
// updates that came out of order too.
//
// Options: As or NodeName.
//
// In Kafka Streams: KTable#toStream.
func (t Table[K, V]) ToStream(opts ...StepOption) Stream[K, V] {
	s := t.t.b.begin("ToStream", opts, nodeOptions...)
	name := s.nodeName("KTABLE-TOSTREAM-")
	s.b.t.AddProcessor(topology.Processor{Name: name, Parents: []string{t.t.node}, Op: op.NewToStream[K, V](), Pos: s.pos})
	return Stream[K, V]{b: s.b, node: name, sources: t.t.sources, key: t.t.key, value: t.t.value}
}

// Filter derives the table of the rows for which keep returns true. A row that is changed so that it fails is deleted from
// it. Where the table before keeps its rows, nothing is sent for a row that was not in the derived table and is not now;
// otherwise that is not known, and a deletion is sent each time. It has a store of its own, with a changelog topic, only if it
// is named.
//
// Options: As or NodeName and StoreName, InMemory, LogConfig, WithoutLog, WithoutCache, Versioned, KeepHeaders, WithKey,
// WithValue.
//
// In Kafka Streams: KTable#filter.
func (t Table[K, V]) Filter(keep func(K, V) bool, opts ...StepOption) Table[K, V] {
	return deriveTable(t, "Filter", "KTABLE-FILTER-", true, t.t.value, given(opts, keep != nil), func(_ context.Context, k K, v V) (V, bool, error) {
		return v, keep(k, v), nil
	})
}

// FilterNot derives the table of the rows for which drop returns false, see Filter.
//
// In Kafka Streams: KTable#filterNot.
func (t Table[K, V]) FilterNot(drop func(K, V) bool, opts ...StepOption) Table[K, V] {
	return deriveTable(t, "FilterNot", "KTABLE-FILTER-", true, t.t.value, given(opts, drop != nil), func(_ context.Context, k K, v V) (V, bool, error) {
		return v, !drop(k, v), nil
	})
}

// MapTableValues derives a table with other values. A deletion stays one, f is not called for it; a nil result of a type that
// has a nil deletes the row. It has a store of its own only if it is named, and is otherwise computed again for each
// reader, so f must give equal results for equal input.
//
// Options: as Filter.
//
// In Kafka Streams: KTable#mapValues.
func MapTableValues[K, V, V2 any](t Table[K, V], f func(V) V2, opts ...StepOption) Table[K, V2] {
	keep := notNil[V2]()
	return deriveTable[K, V, V2](t, "MapTableValues", "KTABLE-MAPVALUES-", false, nil, given(opts, f != nil), func(_ context.Context, _ K, v V) (V2, bool, error) {
		out := f(v)
		return out, keep(&out), nil
	})
}

// TryMapTableValues is MapTableValues with a function that can fail; its error goes to the processing handler. ctx ends
// with the application.
func TryMapTableValues[K, V, V2 any](t Table[K, V], f func(ctx context.Context, v V) (V2, error), opts ...StepOption) Table[K, V2] {
	keep := notNil[V2]()
	return deriveTable[K, V, V2](t, "TryMapTableValues", "KTABLE-MAPVALUES-", false, nil, given(opts, f != nil), func(ctx context.Context, _ K, v V) (V2, bool, error) {
		out, err := f(ctx, v)
		return out, err == nil && keep(&out), err
	})
}

func deriveTable[K, V, V2 any](t Table[K, V], verb, prefix string, filter bool, value serde.Serde[V2], opts []StepOption, f func(context.Context, K, V) (V2, bool, error)) Table[K, V2] {
	s := t.t.b.begin(verb, opts, tableOptions...)
	store := s.store
	if store == "" {
		store = s.as
	}
	if s.materialized() {
		s.b.t.NextStoreName(prefix) // used up, though the table is not kept
	}
	name := s.nodeName(prefix)
	spec := &op.TableSpec{Versioned: t.t.versioned()}
	if filter {
		spec.SendOld = t.t.sendOld()
	}
	value = valueSerde(s, value)
	s.b.t.AddProcessor(topology.Processor{Name: name, Parents: []string{t.t.node}, Op: withCtx(func(ctx context.Context) op.Factory {
		return op.NewTableMap(spec, filter, func(k K, v V) (V2, bool, error) { return f(ctx, k, v) })
	}), Pos: s.pos})
	out := &table[K, V2]{
		b: s.b, node: name, sources: t.t.sources, key: t.t.key, value: value, spec: spec, versions: t.t.versions, history: t.t.history,
	}
	switch {
	case store != "":
		addTableStore(s, name, store, false, keySerde(s, t.t.key), value, spec)
		out.versions, out.history = s.versioned, s.history
	case s.versioned:
		s.needsVersionedName()
	case s.keepHeaders:
		s.needsHeaderName()
	}
	out.derivedFrom(t.t.lineage(), t.t.needBefore, t.t.sendOld)
	out.lookup = func(asking *step) (op.GetterFactory[K, V2], []string) {
		if spec.Store != "" {
			return op.StoreGetter[K, V2](spec.Store), []string{spec.Store}
		}
		parent, stores := t.t.lookup(asking)
		return func(env *op.Env, step string) (op.Getter[K, V2], error) {
			return op.MapGetter(parent, func(k K, v V) (V2, bool, error) { return f(env.Ctx, k, v) })(env, step)
		}, stores
	}
	return Table[K, V2]{t: out}
}

// ToTable turns a stream into a table: each record sets the value of its key, a null value deletes it. Records with a null
// key are dropped and counted. If the key may have changed, the stream goes through a repartition topic first. The table has a
// store, with a changelog topic, if it is named, or if a later step needs one.
//
// Options: As or NodeName and StoreName, RepartitionName, AutoName, InMemory, LogConfig, WithoutLog, WithoutCache, Versioned,
// KeepHeaders, WithKey, WithValue.
//
// In Kafka Streams: KStream#toTable.
func (s Stream[K, V]) ToTable(opts ...StepOption) Table[K, V] {
	st := s.b.begin("ToTable", opts, append([]string{optRepartition}, tableOptions...)...)
	name := st.nodeName("KSTREAM-TOTABLE-")
	storeName, named := st.storeName("KSTREAM-TOTABLE-")
	key, value := keySerde(st, s.key), valueSerde(st, s.value)
	in := s
	if s.flagged {
		prefix := st.repartitionName()
		st.requireName(prefix != "", "a repartition topic")
		if prefix == "" {
			prefix = name
		}
		in = repartition(st, s, prefix, key, value, st.repartitionName() == "")
	}
	spec := new(op.TableSpec)
	st.b.t.AddProcessor(topology.Processor{Name: name, Parents: []string{in.parent()}, Op: op.NewTableSource[K, V](spec), Pos: st.pos})
	return newTable(st, name, in.sources, key, value, spec, storeName, named)
}

// GlobalTable is a table that every instance holds whole, from all partitions of its topic, so that a stream can look up
// any key in it. It is filled before processing starts, and kept up afterwards without regard to the time of streams.
//
// In Kafka Streams: GlobalKTable.
type GlobalTable[K, V any] struct {
	b    *Builder
	name string
}

// GlobalTableFrom reads a topic as a global table: a record sets the value of its key, a null value deletes it, and records
// with a null key are dropped and counted. It is held in memory, and has no changelog: it is read anew from the topic at each start.
//
// Options: As or NodeName and StoreName; AutoName.
//
// In Kafka Streams: StreamsBuilder#globalTable.
func GlobalTableFrom[K, V any](b *Builder, t Topic[K, V], opts ...StepOption) GlobalTable[K, V] {
	s := b.begin("GlobalTableFrom", opts, optAs, optNode, optStore, optAuto)
	storeName := s.store
	if storeName == "" {
		storeName = s.as
	}
	auto := storeName == ""
	if auto {
		storeName = b.t.NextStoreName(t.Name() + "-")
	}
	s.requireName(!auto, "a store")
	source, node := b.t.NextName("KSTREAM-SOURCE-"), b.t.NextName("KTABLE-SOURCE-")
	if name := s.nodeGiven(); name != "" {
		source, node = name+"-source", name
	}
	switch {
	case len(t.names) != 1:
		s.errorf("GlobalTableFrom: a global table is read from one topic; %q stands for several", t.Name())
		return GlobalTable[K, V]{b: b, name: storeName}
	case t.key == nil || t.value == nil:
		s.errorf("GlobalTableFrom: topic %s has no serde for its key or value", t.Name())
		return GlobalTable[K, V]{b: b, name: storeName}
	}
	s.checkSerde("topic "+t.Name(), t.key, t.value)
	b.t.AddGlobal(topology.GlobalStore{
		Store: topology.Store{Name: storeName, Kind: topology.KeyValue, Auto: auto, Pos: s.pos,
			Op: &op.GlobalTableFactory[K, V]{Name: storeName, Key: t.key, Value: t.value}},
		Source:    topology.Source{Name: source, Topics: t.names, Pattern: t.pattern, Pos: s.pos},
		Processor: topology.Processor{Name: node, Pos: s.pos},
	})
	return GlobalTable[K, V]{b: b, name: storeName}
}

// From takes the table from the context of a user-written step, to look rows up in it. No step needs to be connected with it.
//
// In Kafka Streams: ProcessorContext#getStateStore with the name of the table's store.
func (t GlobalTable[K, V]) From(ctx processor.StoreContext) (store.ReadOnlyKeyValue[K, V], error) {
	return storeFrom[store.ReadOnlyKeyValue[K, V]](ctx, t.name)
}

// notNil tells whether a value is there: a nil of a type that has one is a null.
func notNil[V any]() func(*V) bool { return op.NotNil[V]() }
