package millrace

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// storeDefinition is a definition of a store for user-written steps: a pointer to a KeyValueStore, WindowStore, SessionStore or
// VersionedStore.
type storeDefinition interface {
	storeName() string
	declare() topology.Store
	// check reports what is wrong with the definition at the step that uses it.
	check(s *step)
}

// definition is what all definitions of stores have in common.
type definition[K, V any] struct {
	name  string
	key   serde.Serde[K]
	value serde.Serde[V]
	opts  stepOptions
}

func define[K, V any](name string, key serde.Serde[K], value serde.Serde[V], opts []StepOption) definition[K, V] {
	d := definition[K, V]{name: name, key: key, value: value}
	for _, o := range opts {
		if o != nil {
			o.applyStep(&d.opts)
		}
	}
	return d
}

func (d *definition[K, V]) storeName() string { return d.name }

var definitionOptions = []string{optMemory, optLogConfig, optNoLog, optHeaders}

// checkOptions refuses options that a store of that kind has no use for, and serdes that are not there or make no sense.
func (d *definition[K, V]) checkOptions(s *step, kind string, allowed ...string) {
	for _, name := range d.opts.set {
		if !slices.Contains(allowed, name) {
			s.errorf("%s: store %s: a %s store has no use for the option %s", s.verb, d.name, kind, name)
		}
	}
	d.opts.contradictions(func(what string) { s.errorf("%s: store %s: %s", s.verb, d.name, what) })
	if d.key == nil || d.value == nil {
		s.errorf("%s: the store %s needs serdes for keys and values", s.verb, d.name)
	}
	s.checkSerde("store "+d.name, d.key, d.value)
}

// checkTime refuses a time that a store cannot hold. The negative ones are refused with the store itself.
func (d *definition[K, V]) checkTime(s *step, what string, t time.Duration) {
	if t%time.Millisecond != 0 {
		s.errorf("%s: store %s: the %s takes whole milliseconds, not %s: timestamps have no finer parts", s.verb, d.name, what, t)
	}
}

// base returns what all kinds of stores declare.
func (d *definition[K, V]) base(kind topology.StoreKind) topology.Store {
	return topology.Store{
		Name: d.name, Kind: kind, Persistent: !d.opts.inMemory, Logged: !d.opts.noLog, TopicConfigs: maps.Clone(d.opts.topicConfig),
	}
}

func (d *definition[K, V]) spec() op.StoreSpec {
	return op.StoreSpec{Name: d.name, Logged: !d.opts.noLog, KeepHeaders: d.opts.keepHeaders}
}

// WithStores connects stores to a user-written step.
//
// In Kafka Streams: the store names of KStream#process, and ConnectedStoreProvider.
func WithStores(stores ...storeDefinition) StepOption {
	return stepOption(func(o *stepOptions) { o.stores = append(o.stores, stores...); o.given(optStores) })
}

// dropMissingStores refuses definitions that are nil.
func (s *step) dropMissingStores() {
	s.stores = slices.DeleteFunc(slices.Clone(s.stores), func(d storeDefinition) bool {
		missing := d == nil || reflect.ValueOf(d).IsNil()
		if missing {
			s.errorf("%s: WithStores is given a nil store: define it before, as with NewKeyValueStore", s.verb)
		}
		return missing
	})
}

func (s *step) storeNames() []string {
	names := make([]string, 0, len(s.stores))
	for _, d := range s.stores {
		names = append(names, d.storeName())
	}
	return names
}

func (s *step) connectStores(node string) {
	for _, d := range s.stores {
		if g, ok := d.(interface{ isGlobal() bool }); ok && g.isGlobal() {
			s.errorf("%s: the global store %s is there for every step: leave it out of WithStores", s.verb, d.storeName())
			continue
		}
		d.check(s)
		t := d.declare()
		t.Pos = s.pos
		s.b.t.AddStore(t, node)
	}
}

// storeFrom takes a store of the definition's types from the context of a step.
func storeFrom[S any](ctx processor.StoreContext, name string) (S, error) {
	var none S
	s, err := ctx.StateStore(name)
	if err != nil {
		return none, err
	}
	typed, ok := s.(S)
	if !ok {
		return none, fmt.Errorf("millrace: store %s has other types than its definition; two definitions share the name", name)
	}
	return typed, nil
}
