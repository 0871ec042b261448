package millrace

import (
	"time"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// VersionedStore defines a store of several versions of a value for each key, for user-written steps. The same definition
// may be connected to several steps, which then share the store of their task.
//
// In Kafka Streams: Stores.versionedKeyValueStoreBuilder.
type VersionedStore[K, V any] struct {
	definition[K, V]
	history time.Duration
}

// NewVersionedStore defines a versioned store. A version may be put, and is found, up to history behind the highest
// timestamp that was put, a time of whole milliseconds; the latest version of a key stays for ever. See Versioned for the
// rules. It is logged in the changelog topic <application.id>-<name>-changelog. What is wrong with it is reported by the step
// that uses it.
//
// Options: InMemory, LogConfig, WithoutLog.
//
// In Kafka Streams: Stores.persistentVersionedKeyValueStore.
func NewVersionedStore[K, V any](name string, history time.Duration, key serde.Serde[K], value serde.Serde[V], opts ...StepOption) *VersionedStore[K, V] {
	return &VersionedStore[K, V]{definition: define(name, key, value, opts), history: history}
}

// From takes the store from the context of a step that it is connected to.
//
// In Kafka Streams: ProcessorContext#getStateStore.
func (d *VersionedStore[K, V]) From(ctx processor.StoreContext) (store.Versioned[K, V], error) {
	return storeFrom[store.Versioned[K, V]](ctx, d.name)
}

func (d *VersionedStore[K, V]) check(s *step) {
	if d.opts.keepHeaders {
		s.errorf("%s: store %s: %s", s.verb, d.name, noVersionedHeaders)
	}
	d.checkOptions(s, "versioned", definitionOptions...)
	d.checkTime(s, "history", d.history)
}

func (d *VersionedStore[K, V]) declare() topology.Store {
	t := d.base(topology.Versioned)
	t.Def, t.HistoryMs = d, d.history.Milliseconds()
	t.Op = &op.VersionedFactory[K, V]{Spec: d.spec(), Key: d.key, Value: d.value}
	return t
}
