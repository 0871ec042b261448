package millrace

import (
	"context"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// ProcessTableValues derives a table whose values a user-written processor makes, of which newP makes one for each task. It
// is asked for each update, deletions too, keeps state in the stores that WithStores connects, and sets timers.
//
// The table has a store of its own only if it is named. Without one a row is computed again for each reader, by a processor
// of that reader's own, and for what stood before; so a processor that keeps state, or that does not give equal results for
// equal input, needs a name.
//
// A row carries the timestamp and headers of the update that led to it.
//
// Options: As or NodeName and StoreName, InMemory, LogConfig, WithoutLog, WithoutCache, Versioned, KeepHeaders, WithKey,
// WithValue, WithStores.
//
// In Kafka Streams: KTable#transformValues.
func ProcessTableValues[K, V, V2 any, P processor.TableProcessor[K, V, V2]](t Table[K, V], newP func() P, opts ...StepOption) Table[K, V2] {
	s := t.t.b.begin("ProcessTableValues", opts, append([]string{optStores}, tableOptions...)...)
	s.needs(newP != nil)
	store := s.store
	if store == "" {
		store = s.as
	}
	name := s.nodeName("KTABLE-TRANSFORMVALUES-")
	spec := new(op.TableSpec)
	value := valueSerde[V2](s, nil)
	make := func() (processor.TableProcessor[K, V, V2], error) { return newP(), nil }
	s.b.t.AddProcessor(topology.Processor{Name: name, Parents: []string{t.t.node}, Pos: s.pos, Op: op.NewTableProcess(spec, make, s.storeNames())})
	s.connectStores(name)
	out := &table[K, V2]{b: s.b, node: name, sources: t.t.sources, key: t.t.key, value: value, spec: spec}
	out.derivedFrom(t.t.lineage(), t.t.needBefore, t.t.sendOld)
	if store != "" {
		addTableStore(s, name, store, false, keySerde(s, t.t.key), value, spec)
		out.versions, out.history = s.versioned, s.history
	} else if s.versioned {
		s.needsVersionedName()
	} else if s.keepHeaders {
		s.needsHeaderName()
	}
	out.lookup = func(asking *step) (op.GetterFactory[K, V2], []string) {
		if spec.Store != "" {
			return op.StoreGetter[K, V2](spec.Store), []string{spec.Store}
		}
		parent, stores := t.t.lookup(asking)
		return op.TableProcessGetter(parent, make, s.storeNames()), union(stores, s.storeNames())
	}
	return Table[K, V2]{t: out}
}

// derivedFrom makes a table one that is derived from another, as far as it can tell without a store of its own.
func (t *table[K, V]) derivedFrom(lineage []string, needBefore func(), sendOld func() bool) {
	t.upstream = lineage
	t.before = func() {
		t.spec.Before = true
		needBefore()
	}
	t.sendOld = func() bool {
		t.spec.SendOld = t.spec.SendOld || t.spec.Store != "" || sendOld()
		return t.spec.SendOld
	}
}

// MapTableValuesWithKey is MapTableValues with a function that sees the key too.
//
// Options: as Table.Filter.
//
// In Kafka Streams: KTable#mapValues(ValueMapperWithKey).
func MapTableValuesWithKey[K, V, V2 any](t Table[K, V], f func(K, V) V2, opts ...StepOption) Table[K, V2] {
	keep := notNil[V2]()
	return deriveTable[K, V, V2](t, "MapTableValuesWithKey", "KTABLE-MAPVALUES-", false, nil, given(opts, f != nil), func(_ context.Context, k K, v V) (V2, bool, error) {
		out := f(k, v)
		return out, keep(&out), nil
	})
}

// TryFilter is Filter with a function that can fail; its error goes to the processing handler. ctx ends with the
// application.
func (t Table[K, V]) TryFilter(keep func(ctx context.Context, k K, v V) (bool, error), opts ...StepOption) Table[K, V] {
	return deriveTable(t, "TryFilter", "KTABLE-FILTER-", true, t.t.value, given(opts, keep != nil), func(ctx context.Context, k K, v V) (V, bool, error) {
		ok, err := keep(ctx, k, v)
		return v, ok, err
	})
}

// ToStreamBy takes the table's updates as a stream under another key: a deletion is a record with a null value, for which f
// is given the zero value. A later step by key sends the stream through a repartition topic first.
//
// Options: As or NodeName.
//
// In Kafka Streams: KTable#toStream(KeyValueMapper).
func ToStreamBy[K, V, K2 any](t Table[K, V], f func(K, V) K2, opts ...StepOption) Stream[K2, V] {
	st := t.t.b.begin("ToStreamBy", opts, nodeOptions...)
	st.needs(f != nil)
	in := t.ToStream(opts...)
	m := selectKey(func(k K, v V) (K2, error) { return f(k, v), nil })
	return thenNamed[K, V, K2, V](st, in, st.b.t.NextName("KSTREAM-KEY-SELECT-"), m, true, serde.Serde[K2](nil), t.t.value)
}
