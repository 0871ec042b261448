package millrace

import (
	"time"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// SessionStore defines a store of one value for each key and session, for user-written steps. The same definition may be
// connected to several steps, which then share the store of their task.
//
// In Kafka Streams: Stores.sessionStoreBuilder.
type SessionStore[K, V any] struct {
	definition[K, V]
	retention time.Duration
}

// NewSessionStore defines a session store. A session is kept until one has been put that ends retention later, a time of whole
// milliseconds. The store merges nothing by itself: a step finds the sessions that a record joins with FindSessions, and puts
// what it makes of them. It is logged in the changelog topic <application.id>-<name>-changelog. What is wrong with it is
// reported by the step that uses it.
//
// Options: InMemory, LogConfig, WithoutLog, KeepHeaders.
//
// In Kafka Streams: Stores.persistentSessionStore, Stores.inMemorySessionStore.
func NewSessionStore[K, V any](name string, retention time.Duration, key serde.Serde[K], value serde.Serde[V], opts ...StepOption) *SessionStore[K, V] {
	return &SessionStore[K, V]{definition: define(name, key, value, opts), retention: retention}
}

// From takes the store from the context of a step that it is connected to.
//
// In Kafka Streams: ProcessorContext#getStateStore.
func (d *SessionStore[K, V]) From(ctx processor.StoreContext) (store.Session[K, V], error) {
	return storeFrom[store.Session[K, V]](ctx, d.name)
}

func (d *SessionStore[K, V]) check(s *step) {
	d.checkOptions(s, "session", definitionOptions...)
	d.checkTime(s, "retention", d.retention)
}

func (d *SessionStore[K, V]) declare() topology.Store {
	t := d.base(topology.Session)
	t.Def, t.RetentionMs = d, d.retention.Milliseconds()
	t.Op = &op.SessionFactory[K, V]{Spec: d.spec(), Key: d.key, Value: d.value}
	return t
}
