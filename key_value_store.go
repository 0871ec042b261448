package millrace

import (
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// KeyValueStore defines a store of one value for each key, for user-written steps. The same definition may be connected to
// several steps, which then share the store of their task.
//
// In Kafka Streams: Stores.keyValueStoreBuilder.
type KeyValueStore[K, V any] struct {
	definition[K, V]
	// sourceTopic fills the store, which steps cannot write then: see AddReadOnlyStore.
	sourceTopic string
	// global says that it is one store for all steps, which need not be connected with it: see AddGlobalStore.
	global bool
}

// NewKeyValueStore defines a key-value store. It is logged in the changelog topic <application.id>-<name>-changelog. What is
// wrong with it is reported by the step that uses it.
//
// Options: InMemory, LogConfig, WithoutLog, KeepHeaders.
//
// In Kafka Streams: Stores.persistentKeyValueStore, Stores.inMemoryKeyValueStore.
func NewKeyValueStore[K, V any](name string, key serde.Serde[K], value serde.Serde[V], opts ...StepOption) *KeyValueStore[K, V] {
	return &KeyValueStore[K, V]{definition: define(name, key, value, opts)}
}

// From takes the store from the context of a step that it is connected to.
//
// In Kafka Streams: ProcessorContext#getStateStore.
func (d *KeyValueStore[K, V]) From(ctx processor.StoreContext) (store.KeyValue[K, V], error) {
	return storeFrom[store.KeyValue[K, V]](ctx, d.name)
}

func (d *KeyValueStore[K, V]) isGlobal() bool { return d.global }

func (d *KeyValueStore[K, V]) check(s *step) {
	d.checkOptions(s, "key-value", definitionOptions...)
}

func (d *KeyValueStore[K, V]) declare() topology.Store {
	t, spec := d.base(topology.KeyValue), d.spec()
	t.Def, t.SourceTopic, t.Logged = d, d.sourceTopic, t.Logged && d.sourceTopic == ""
	spec.Logged, spec.Scanned, spec.FilledFrom = t.Logged, true, d.sourceTopic
	t.Op = &op.KVFactory[K, V]{Spec: spec, Key: d.key, Value: d.value}
	return t
}
