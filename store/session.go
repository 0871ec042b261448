package store

import "github.com/millrace-io/millrace/window"

// ReadOnlySession is the reading half of a Session store. All bounds are in milliseconds since the Unix epoch and included;
// sessions past the store's retention are not visible. An iterator's TimestampMs is the timestamp of the record that last
// changed the session.
//
// In Kafka Streams: ReadOnlySessionStore.
type ReadOnlySession[K, V any] interface {
	// Get returns the value of the session of a key that starts at startMs and ends at endMs.
	Get(key K, startMs, endMs int64) (value V, ok bool, err error)
	// Fetch walks all sessions of one key in ascending order of their end, then start.
	Fetch(key K) (Iterator[window.Key[K], V], error)
	// FindSessions walks the sessions of one key that end at earliestEndMs or later and start at latestStartMs or earlier,
	// in ascending order of their end, then start. To find what a record at time t belongs to, ask for t minus gap and t
	// plus gap.
	FindSessions(key K, earliestEndMs, latestStartMs int64) (Iterator[window.Key[K], V], error)
	// FindAll walks the sessions of all keys that end within the bounds. The order of keys depends on the engine.
	FindAll(fromEndMs, toEndMs int64) (Iterator[window.Key[K], V], error)
}

// Session is a store of one value for each key and session.
//
// In Kafka Streams: SessionStore.
type Session[K, V any] interface {
	ReadOnlySession[K, V]
	// Put sets the value of a session under the timestamp of the record in process, and with its headers in a store that keeps
	// them: iterators return them.
	Put(key K, value V, startMs, endMs int64) error
	// Delete removes a session. Removing one that is not there is no error.
	Delete(key K, startMs, endMs int64) error
}
