package millrace

import (
	"maps"
	"time"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
)

// Versioned makes a table remember what it was: its store keeps several versions of each row, each from its record's
// timestamp to that of the next one, and steps that look rows up by time find the one that held then.
//
// Time: history says how far back, behind the highest timestamp that the table has seen, a version may still come in and can
// still be found. An older update is dropped and counted (DroppedExpired), and as of an older time there is no row, except the
// latest one of each key, which never expires. Records may come out of order: one that is older than the latest version of
// its key changes the past alone. Steps that know the present only (joins of two tables, the grouping of a table) drop such
// an update and count it (DroppedStale); a stream taken from the table shows it.
//
// A stream that is joined with a versioned table, or with a table derived from one by Filter or MapTableValues without a store
// of its own, finds the row as of its own record's timestamp.
//
// Nulls: a null value is a version that says that there is no row from then on.
//
// Cost: each replaced version stays on disk for the history and up to half of it longer. The table has no cache, so each update
// is sent on at once; it cannot be suppressed. The changelog is compacted, but only what is older than history and a day.
// Compaction keeps the record of a key that was written last, which is not the latest version if it came out of order.
//
// In Kafka Streams: Materialized.as(Stores.persistentVersionedKeyValueStore(name, history)).
func Versioned(history time.Duration) StepOption {
	return stepOption(func(o *stepOptions) {
		o.versioned, o.history = true, history
		o.given(optVersioned)
	})
}

// addVersionedStore gives a table step a versioned store.
func addVersionedStore[K, V any](s *step, node, name string, auto bool, key serde.Serde[K], value serde.Serde[V], spec *op.TableSpec) {
	s.checkHistory(name)
	s.b.t.AddStore(topology.Store{
		Name: name, Kind: topology.Versioned, Persistent: !s.inMemory, Logged: s.logged(), TopicConfigs: maps.Clone(s.topicConfig),
		SourceTopic: s.sourceTopic, HistoryMs: s.history.Milliseconds(), Auto: auto, Pos: s.pos, Def: spec,
		Op: &op.VersionedFactory[K, V]{Spec: op.StoreSpec{Name: name, Logged: s.logged()}, Key: key, Value: value},
	}, node)
}

// checkHistory refuses a history that cannot be. A negative one is refused with the store itself.
func (s *step) checkHistory(store string) {
	if s.history%time.Millisecond != 0 {
		s.errorf("%s: the history of the versioned store %s takes whole milliseconds, not %s: timestamps have no finer parts", s.verb, store, s.history)
	}
}

// needsVersionedName refuses a versioned store that only a name would make.
func (s *step) needsVersionedName() {
	s.errorf("%s makes a versioned store, which needs a name that outlives changes of the topology: use millrace.As(\"…\")", s.verb)
}

// versioned tells whether a table's updates carry the time of what they say: it has a versioned store, or is derived from
// such a table without a store of its own.
func (t *table[K, V]) versioned() bool { return t.versions }
