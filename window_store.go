package millrace

import (
	"time"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// WindowStore defines a store of one value for each key and window, for user-written steps. The same definition may be
// connected to several steps, which then share the store of their task.
//
// In Kafka Streams: Stores.windowStoreBuilder.
type WindowStore[K, V any] struct {
	definition[K, V]
	size, retention time.Duration
}

// NewWindowStore defines a window store for windows of one size. A window is kept until one has been put that starts
// retention later, so retention is at least size; both are whole milliseconds. The store is logged in the changelog topic
// <application.id>-<name>-changelog. What is wrong with it is reported by the step that uses it.
//
// Options: InMemory, LogConfig, WithoutLog, KeepHeaders.
//
// In Kafka Streams: Stores.persistentWindowStore, Stores.inMemoryWindowStore.
func NewWindowStore[K, V any](name string, size, retention time.Duration, key serde.Serde[K], value serde.Serde[V], opts ...StepOption) *WindowStore[K, V] {
	return &WindowStore[K, V]{definition: define(name, key, value, opts), size: size, retention: retention}
}

// From takes the store from the context of a step that it is connected to.
//
// In Kafka Streams: ProcessorContext#getStateStore.
func (d *WindowStore[K, V]) From(ctx processor.StoreContext) (store.Window[K, V], error) {
	return storeFrom[store.Window[K, V]](ctx, d.name)
}

func (d *WindowStore[K, V]) check(s *step) {
	d.checkOptions(s, "window", definitionOptions...)
	d.checkTime(s, "size of windows", d.size)
	d.checkTime(s, "retention", d.retention)
}

func (d *WindowStore[K, V]) declare() topology.Store {
	t := d.base(topology.Window)
	t.Def, t.RetentionMs, t.WindowSizeMs = d, d.retention.Milliseconds(), d.size.Milliseconds()
	t.Op = &op.WindowFactory[K, V]{Spec: d.spec(), SizeMs: t.WindowSizeMs, Key: d.key, Value: d.value}
	return t
}
