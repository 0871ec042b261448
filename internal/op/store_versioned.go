package op

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// VersionedFactory makes VersionedStores. They have no deduplicating cache: each version counts.
type VersionedFactory[K, V any] struct {
	Spec  StoreSpec
	Key   serde.Serde[K]
	Value serde.Serde[V]
}

// Open makes the store of one task.
func (f *VersionedFactory[K, V]) Open(env *Env) (any, error) {
	v, err := env.Set.Versioned(f.Spec.Name)
	if err != nil {
		return nil, err
	}
	s := &VersionedStore[K, V]{
		env: env, name: f.Spec.Name, key: guarded(f.Key), value: guarded(f.Value), v: v, log: newChangelog(env, f.Spec),
		expired: env.counter(f.Spec.Name, metrics.ExpiredOnPut), there: NotNil[V](),
	}
	// The time up to which puts are judged stands for the input's offset. It may be ahead of what is in the store: the record
	// that moved it has been compacted away, or there is no changelog.
	env.ObserveTime(s.name, &s.observedMs)
	if err := v.Observe(s.observedMs); err != nil {
		return nil, err
	}
	s.observedMs = v.ObservedMs()
	return s, nil
}

// VersionedStore is a task's versioned store.
//
// Its changelog gets each put as it is: key, value or null, and the version's timestamp as the record's, puts that come too
// late included. So does Kafka Streams.
type VersionedStore[K, V any] struct {
	env        *Env
	name       string
	key        serde.Serde[K]
	value      serde.Serde[V]
	v          *state.VersionedStore
	log        changelog
	expired    *metrics.Counter
	there      func(*V) bool
	observedMs int64
	buf        []byte
	scratch    []byte
	row        sentRow[V] // whose update is being sent; see BeforeGetter
}

var _ store.Versioned[string, string] = (*VersionedStore[string, string])(nil)

// encode encodes a key into the store's scratch buffer; see KVStore.encode.
func (s *VersionedStore[K, V]) encode(k K) ([]byte, error) {
	b, err := s.appendKey(s.buf[:0], k)
	if err != nil {
		return nil, err
	}
	s.buf = b
	return b, nil
}

func (s *VersionedStore[K, V]) appendKey(dst []byte, k K) ([]byte, error) {
	b, err := s.key.Append(dst, k)
	if err != nil {
		return dst, fmt.Errorf("millrace: store %s: key does not encode: %w", s.name, err)
	}
	return b, nil
}

func (s *VersionedStore[K, V]) decode(b []byte) (V, error) {
	v, err := s.value.Decode(b)
	if err != nil {
		return v, fmt.Errorf("millrace: store %s: a stored value does not decode: %w; has the serde of the store changed?", s.name, err)
	}
	return v, nil
}

// version decodes what the byte store has found.
func (s *VersionedStore[K, V]) version(b state.Version, ok bool, err error) (store.Version[V], bool, error) {
	if err != nil || !ok {
		return store.Version[V]{}, false, s.env.fault(s.name, err)
	}
	out := store.Version[V]{FromMs: b.FromMs, ToMs: b.ToMs}
	if out.Value, err = s.decode(b.Value); err != nil {
		return store.Version[V]{}, false, err
	}
	return out, true, nil
}

// Get returns the latest version of a key.
func (s *VersionedStore[K, V]) Get(k K) (store.Version[V], bool, error) {
	b, err := s.encode(k)
	if err != nil {
		return store.Version[V]{}, false, err
	}
	return s.version(s.v.Get(b))
}

// GetAsOf returns the version that a key had at a time.
func (s *VersionedStore[K, V]) GetAsOf(k K, tsMs int64) (store.Version[V], bool, error) {
	b, err := s.encode(k)
	if err != nil {
		return store.Version[V]{}, false, err
	}
	return s.version(s.v.GetAsOf(b, tsMs))
}

// History returns the versions that a key had from one time to another, the newest first.
func (s *VersionedStore[K, V]) History(k K, fromMs, toMs int64) ([]store.Version[V], error) {
	b, err := s.encode(k)
	if err != nil {
		return nil, err
	}
	var out []store.Version[V]
	var failed error
	err = s.v.History(b, fromMs, toMs, false, func(b state.Version) error {
		var v store.Version[V]
		if v, _, failed = s.version(b, true, nil); failed != nil {
			return failed
		}
		out = append(out, v)
		return nil
	})
	if failed != nil {
		return nil, failed
	}
	return out, s.env.fault(s.name, err)
}

// Put sets the value of a key from a time on.
func (s *VersionedStore[K, V]) Put(k K, v V, tsMs int64) (store.Placed, error) {
	b, err := s.encode(k)
	if err != nil {
		return 0, err
	}
	return s.put(b, v, s.there(&v), tsMs)
}

// Delete says that a key was deleted at a time.
func (s *VersionedStore[K, V]) Delete(k K, tsMs int64) (store.Placed, error) {
	b, err := s.encode(k)
	if err != nil {
		return 0, err
	}
	var zero V
	return s.put(b, zero, false, tsMs)
}

// put sets the value of an encoded key, or deletes it if there is none.
func (s *VersionedStore[K, V]) put(key []byte, v V, has bool, tsMs int64) (store.Placed, error) {
	if tsMs < 0 {
		return 0, fmt.Errorf("millrace: store %s: negative timestamp %d", s.name, tsMs)
	}
	var value []byte
	if has {
		var err error
		if value, err = s.value.Append(s.scratch[:0], v); err != nil {
			return 0, fmt.Errorf("millrace: store %s: value does not encode: %w", s.name, err)
		}
		if value == nil {
			value = []byte{}
		}
		s.scratch = value
	}
	done, err := s.v.Put(key, value, tsMs)
	if err != nil {
		return 0, s.env.fault(s.name, err)
	}
	s.observedMs = s.v.ObservedMs()
	if s.log.logged {
		k := s.env.keep(append(s.env.alloc(len(key)), key...))
		if value != nil {
			value = s.env.keep(append(s.env.alloc(len(value)), value...))
		}
		s.log.log(k, value, tsMs)
		if err := s.env.overflow(s.name); err != nil {
			return 0, err
		}
	}
	switch done {
	case state.PutStale:
		return store.Behind, nil
	case state.PutExpired:
		s.expired.Inc()
		return store.TooOld, nil
	}
	return store.Newest, nil
}

// latest reads the latest value of an encoded key.
func (s *VersionedStore[K, V]) latest(key []byte) (v V, tsMs int64, ok bool, err error) {
	out, ok, err := s.version(s.v.Get(key))
	return out.Value, out.FromMs, ok, err
}

// Lookup makes a VersionedStore a Getter of its latest values.
func (s *VersionedStore[K, V]) Lookup(k K) (v V, tsMs int64, ok bool, err error) {
	out, ok, err := s.Get(k)
	return out.Value, out.FromMs, ok, err
}

// LookupAsOf makes a VersionedStore a VersionedGetter.
func (s *VersionedStore[K, V]) LookupAsOf(k K, tsMs int64) (v V, fromMs int64, ok bool, err error) {
	out, ok, err := s.GetAsOf(k, tsMs)
	return out.Value, out.FromMs, ok, err
}
