package millrace

import (
	"maps"
	"time"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// SessionStore defines a store of one value for each key and session, for user-written steps.
//
// In Kafka Streams: Stores.sessionStoreBuilder.
type SessionStore[K, V any] struct {
	name      string
	retention time.Duration
	key       serde.Serde[K]
	value     serde.Serde[V]
	opts      stepOptions
}

// NewSessionStore defines a session store. A session is kept until one has been put that ends retention later. The store
// merges nothing by itself: a step finds the sessions that a record joins with FindSessions, and puts what it makes of them.
//
// Options: InMemory, LogConfig, WithoutLog, KeepHeaders.
func NewSessionStore[K, V any](name string, retention time.Duration, key serde.Serde[K], value serde.Serde[V], opts ...StepOption) *SessionStore[K, V] {
	return &SessionStore[K, V]{name: name, retention: retention, key: key, value: value, opts: collected(opts)}
}

// From takes the store from the context of a step that it is connected to.
func (d *SessionStore[K, V]) From(ctx processor.StoreContext) (store.Session[K, V], error) {
	return storeFrom[store.Session[K, V]](ctx, d.name)
}

func (d *SessionStore[K, V]) storeName() string { return d.name }

func (d *SessionStore[K, V]) declare() topology.Store {
	return topology.Store{
		Name: d.name, Kind: topology.Session, Persistent: !d.opts.inMemory, Logged: !d.opts.noLog,
		TopicConfigs: maps.Clone(d.opts.topicConfig), Def: d, RetentionMs: d.retention.Milliseconds(),
		Op: &op.SessionFactory[K, V]{Spec: op.StoreSpec{Name: d.name, Logged: !d.opts.noLog, KeepHeaders: d.opts.keepHeaders}, Key: d.key, Value: d.value},
	}
}
