package milltest

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/store"
)

// KeyValue returns the key-value store of that name in a task's partition, to be read and written between records.
//
// In Kafka Streams: TopologyTestDriver#getKeyValueStore.
func KeyValue[K, V any](d *Driver, name string, partition int32) store.KeyValue[K, V] {
	d.tb.Helper()
	return find[store.KeyValue[K, V]](d, name, partition, topology.KeyValue)
}

// Window returns the window store of that name in a task's partition.
//
// In Kafka Streams: TopologyTestDriver#getWindowStore.
func Window[K, V any](d *Driver, name string, partition int32) store.Window[K, V] {
	d.tb.Helper()
	return find[store.Window[K, V]](d, name, partition, topology.Window)
}

// Versioned returns the versioned store of that name in a task's partition, to be read and written between records.
//
// In Kafka Streams: TopologyTestDriver#getVersionedKeyValueStore.
func Versioned[K, V any](d *Driver, name string, partition int32) store.Versioned[K, V] {
	d.tb.Helper()
	return find[store.Versioned[K, V]](d, name, partition, topology.Versioned)
}

// Global returns the global table or store of that name.
func Global[K, V any](d *Driver, name string) interface {
	Get(K) (V, bool, error)
	Len() int
} {
	d.tb.Helper()
	g, ok := d.globals.stores[name].(*op.GlobalTable[K, V])
	if !ok {
		d.must(fmt.Errorf("milltest: there is no global table or store %s of these types", name))
	}
	return g
}

func find[S any](d *Driver, name string, partition int32, kind topology.StoreKind) S {
	d.tb.Helper()
	for _, t := range d.tasks {
		if t.spec.Partition != partition {
			continue
		}
		if typed, ok := t.task.Store(name).(S); ok {
			return typed
		}
	}
	d.must(d.noStore(name, partition, kind))
	var none S
	return none
}

// Session returns the session store of that name in a task's partition.
//
// In Kafka Streams: TopologyTestDriver#getSessionStore.
func Session[K, V any](d *Driver, name string, partition int32) store.Session[K, V] {
	d.tb.Helper()
	return find[store.Session[K, V]](d, name, partition, topology.Session)
}
