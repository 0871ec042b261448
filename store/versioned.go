package store

import "math"

// Version is one version of a value in a versioned store: the value of its key from FromMs until ToMs, which is not
// included.
//
// In Kafka Streams: VersionedRecord.
type Version[V any] struct {
	Value V
	// FromMs is the version's timestamp in milliseconds since the Unix epoch.
	FromMs int64
	// ToMs is the timestamp of the version that follows it, Forever if none does.
	ToMs int64
}

// Latest tells whether no other version follows.
func (v Version[V]) Latest() bool { return v.ToMs == Forever }

// Forever is the end of the latest version.
const Forever int64 = math.MaxInt64

// Placed tells where a versioned store has put a version.
//
// In Kafka Streams: what VersionedKeyValueStore#put returns.
type Placed uint8

const (
	// Newest: the version is the latest of its key.
	Newest Placed = iota
	// Behind: a newer version of the key was there; the put has changed the past.
	Behind
	// TooOld: the timestamp lies before the history; nothing was put, and that is counted.
	TooOld
)

// ReadOnlyVersioned is the reading half of a Versioned store. Times are in milliseconds since the Unix epoch.
//
// The history ends a fixed time, its length, before the highest timestamp that was put. Of what lies before it only the
// latest version of each key is known, which never expires.
//
// In Kafka Streams: the queries VersionedKeyQuery and MultiVersionedKeyQuery.
type ReadOnlyVersioned[K, V any] interface {
	// Get returns the latest version of a key; ok is false where there is none or it is a deletion.
	Get(key K) (version Version[V], ok bool, err error)
	// GetAsOf returns the version that a key had at a time; ok is false where there was none, where the key was deleted
	// then, and where the time lies before the history, unless the version is the latest one.
	GetAsOf(key K, timestampMs int64) (version Version[V], ok bool, err error)
	// History returns the versions that a key had from one time to another, both included, the newest first. Deletions show
	// as gaps between them. Only versions that held within the history, and the latest one, are known.
	History(key K, fromMs, toMs int64) ([]Version[V], error)
}

// Versioned is a store of several versions of a value for each key, found by time.
//
// In Kafka Streams: VersionedKeyValueStore.
type Versioned[K, V any] interface {
	ReadOnlyVersioned[K, V]
	// Put sets the value that holds from a time on, until the next version of the key. It may come out of order. A nil of a
	// type that has one is a deletion.
	Put(key K, value V, timestampMs int64) (Placed, error)
	// Delete says that the key was deleted at a time: versions before it stay.
	Delete(key K, timestampMs int64) (Placed, error)
}
