// Package store holds the typed handles of state stores, as steps of the low-level API and tests see them.
package store

import (
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Stamped is a value with the timestamp of the record that set it, and with its headers if the store keeps them.
//
// In Kafka Streams: ValueAndTimestamp, and ValueTimestampHeaders where there are headers.
type Stamped[V any] struct {
	Value       V
	TimestampMs int64
	// Headers are those of the record that set the value, in a store with millrace.KeepHeaders; otherwise there are none. They
	// must not be changed in place.
	Headers serde.Headers
}

// ReadOnlyKeyValue is the reading half of a KeyValue store.
//
// In Kafka Streams: ReadOnlyKeyValueStore.
type ReadOnlyKeyValue[K, V any] interface {
	// Get returns the value of a key; ok is false where there is none.
	Get(key K) (value V, ok bool, err error)
	// GetStamped is Get with the value's timestamp.
	GetStamped(key K) (value Stamped[V], ok bool, err error)
	// Range walks the keys from 'from' to 'to', both included, in the order of their encoded bytes. The iterator must
	// be closed; it shows the store as it was when it was made.
	Range(from, to K) (Iterator[K, V], error)
	// All walks all keys in the order of their encoded bytes.
	All() (Iterator[K, V], error)
}

// KeyValue is a store of one value for each key.
//
// In Kafka Streams: KeyValueStore (its timestamped form, as the DSL uses it).
type KeyValue[K, V any] interface {
	ReadOnlyKeyValue[K, V]
	// Put sets a value under the timestamp of the record in process (the wall-clock time inside a timer). A store that keeps
	// headers takes those of the record too (none inside a timer).
	Put(key K, value V) error
	// PutStamped sets a value under a timestamp of its own, in milliseconds since the Unix epoch. A store that keeps headers
	// takes the ones given, and none if none are; to any other store none can be given.
	PutStamped(key K, value V, timestampMs int64, headers ...serde.Header) error
	// Delete removes a key. Removing one that is not there is no error.
	Delete(key K) error
}

// ReadOnlyWindow is the reading half of a Window store. All bounds are window starts in milliseconds since the Unix
// epoch, both included; windows past the store's retention are not visible.
//
// In Kafka Streams: ReadOnlyWindowStore.
type ReadOnlyWindow[K, V any] interface {
	// Get returns the value of a key in the window that starts at startMs.
	Get(key K, startMs int64) (value V, ok bool, err error)
	// GetStamped is Get with the value's timestamp.
	GetStamped(key K, startMs int64) (value Stamped[V], ok bool, err error)
	// Fetch walks the windows of one key in ascending order of their start.
	Fetch(key K, fromMs, toMs int64) (Iterator[window.Key[K], V], error)
	// FetchAll walks the windows of all keys that start within the bounds. The order of keys depends on the engine.
	FetchAll(fromMs, toMs int64) (Iterator[window.Key[K], V], error)
}

// Window is a store of one value for each key and window.
//
// In Kafka Streams: WindowStore.
type Window[K, V any] interface {
	ReadOnlyWindow[K, V]
	// Put sets the value of a key in the window that starts at startMs, under the timestamp of the record in process, and
	// with its headers in a store that keeps them.
	Put(key K, value V, startMs int64) error
	// PutStamped sets it under a timestamp of its own. For headers see KeyValue.
	PutStamped(key K, value V, startMs, timestampMs int64, headers ...serde.Header) error
	// Delete removes the value of a key in a window.
	Delete(key K, startMs int64) error
}

// Iterator walks over entries. It must be closed, once or more often; after Close, Next returns false and Err an error
// that says so. Keys and values belong to the caller.
//
//	for it.Next() { use(it.Key(), it.Value()) }
//	err := it.Err()
type Iterator[K, V any] interface {
	Next() bool
	Key() K
	Value() V
	TimestampMs() int64
	// Headers are those kept beside the value, none if the store keeps none. They must not be changed in place.
	Headers() serde.Headers
	Err() error
	Close() error
}
