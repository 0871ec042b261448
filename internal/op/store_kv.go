package op

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/cache"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// StoreSpec describes a store without its types.
type StoreSpec struct {
	Name   string
	Logged bool
	// Cached puts a deduplicating cache in front, so that updates of one key within a commit interval collapse.
	Cached bool
	// Scanned says that user code walks ranges of keys.
	Scanned bool
	// KeepHeaders keeps the headers of the record that set a value beside it.
	KeepHeaders bool
	// FilledFrom is the topic that fills a read-only store: user code cannot write it.
	FilledFrom string
}

// Ranged is implemented by a StoreFactory whose store is walked in key order.
type Ranged interface {
	Ranged() bool
}

// HeaderKeeper is implemented by a StoreFactory whose store may keep headers.
type HeaderKeeper interface {
	KeepsHeaders() bool
}

// StoreFactory makes a task's typed store over the bytes that the task's Set holds.
type StoreFactory interface {
	Open(env *Env) (any, error)
}

// changelog writes a store's changelog records.
type changelog struct {
	env       *Env
	store     string
	topic     string
	partition int32
	logged    bool
}

func newChangelog(env *Env, spec StoreSpec) changelog {
	c := changelog{env: env, store: spec.Name, partition: env.Task.Partition, logged: spec.Logged}
	if spec.Logged {
		c.topic = env.TopicName(spec.Name + "-changelog")
	}
	return c
}

// log writes one record. Changelog records carry no headers where the store keeps none, and no timestamp in the value: it is the record's own.
func (c *changelog) log(key, value []byte, tsMs int64) { c.logWith(key, value, nil, tsMs) }

// logWith is log for the stores whose changelog records carry headers.
func (c *changelog) logWith(key, value []byte, headers serde.Headers, tsMs int64) {
	if !c.logged {
		return
	}
	c.env.Emit(Output{
		ProduceRecord: broker.ProduceRecord{
			Topic: c.topic, Partition: c.partition, Key: key, Value: value, Headers: headers, TimestampMs: tsMs,
		},
		Step: c.store, Store: c.store,
	})
}

// kvBacking is the byte store below a KVStore.
type kvBacking struct {
	env *Env
	kv  *state.KV
	log changelog
}

func (b *kvBacking) Load(key []byte) ([]byte, bool, error) {
	v, ok, err := b.kv.Get(key)
	return v, ok, b.env.fault(b.log.store, err)
}

func (b *kvBacking) Write(key, local, value []byte, headers serde.Headers, tsMs int64) error {
	var err error
	if local == nil {
		err = b.kv.Delete(key)
	} else {
		err = b.kv.Put(key, local)
	}
	if err != nil {
		return b.env.fault(b.log.store, err)
	}
	b.log.logWith(key, value, headers, tsMs)
	return b.env.overflow(b.log.store)
}

func (b *kvBacking) Alloc(n int) []byte   { return b.env.alloc(n) }
func (b *kvBacking) Keep(x []byte) []byte { return b.env.keep(x) }

// KVFactory makes KVStores.
type KVFactory[K, V any] struct {
	Spec  StoreSpec
	Key   serde.Serde[K]
	Value serde.Serde[V]
}

// Ranged tells whether user code walks ranges of keys.
func (f *KVFactory[K, V]) Ranged() bool { return f.Spec.Scanned }

// KeepsHeaders tells whether the store keeps headers.
func (f *KVFactory[K, V]) KeepsHeaders() bool { return f.Spec.KeepHeaders }

// Open makes the store of one task.
func (f *KVFactory[K, V]) Open(env *Env) (any, error) {
	kv, err := env.Set.KeyValue(f.Spec.Name)
	if err != nil {
		return nil, err
	}
	name := f.Spec.Name
	b := &kvBacking{env: env, kv: kv, log: newChangelog(env, f.Spec)}
	cfg := cacheConfig[K](env, f.Spec, b, f.Value, env.ReadCacheBytes)
	return &KVStore[K, V]{env: env, name: name, key: guarded(f.Key), kv: kv, cache: cache.New(cfg), there: NotNil[V](), filledFrom: f.Spec.FilledFrom}, nil
}

// KVStore is a task's key-value store.
type KVStore[K, V any] struct {
	env   *Env
	name  string
	key   serde.Serde[K]
	kv    *state.KV
	cache *cache.Store[K, V, current]
	there func(*V) bool
	// filledFrom is the topic that alone writes the store; empty: user code may.
	filledFrom string
	buf        []byte
	row        sentRow[V] // whose update is being sent; see BeforeGetter
}

var _ store.KeyValue[string, string] = (*KVStore[string, string])(nil)

// encode encodes a key into the store's scratch buffer, which every read and write by user code and by joins uses. A step
// that must keep an encoded key across such a call has a buffer of its own.
func (s *KVStore[K, V]) encode(k K) ([]byte, error) {
	b, err := s.appendKey(s.buf[:0], k)
	if err != nil {
		return nil, err
	}
	s.buf = b
	return b, nil
}

func (s *KVStore[K, V]) appendKey(dst []byte, k K) ([]byte, error) {
	b, err := s.key.Append(dst, k)
	if err != nil {
		return dst, fmt.Errorf("millrace: store %s: key does not encode: %w", s.name, err)
	}
	return b, nil
}

// FlushCache writes what waits in the cache.
func (s *KVStore[K, V]) FlushCache() error { return s.cache.Flush() }

// Get returns the value of a key.
func (s *KVStore[K, V]) Get(k K) (v V, ok bool, err error) {
	v, _, ok, err = s.get(k)
	return v, ok, err
}

// GetStamped returns the value of a key with its timestamp.
func (s *KVStore[K, V]) GetStamped(k K) (store.Stamped[V], bool, error) {
	v, ts, ok, err := s.get(k)
	out := store.Stamped[V]{Value: v, TimestampMs: ts}
	if ok && s.cache.KeepsHeaders() {
		out.Headers, err = s.cache.Headers(s.buf) // of the key that get has just encoded
	}
	return out, ok && err == nil, err
}

func (s *KVStore[K, V]) get(k K) (v V, tsMs int64, ok bool, err error) {
	b, err := s.encode(k)
	if err != nil {
		return v, 0, false, err
	}
	return s.cache.Get(b)
}

// Put sets a value under the timestamp of the record in process, and with its headers if the store keeps them.
func (s *KVStore[K, V]) Put(k K, v V) error { return s.put(k, v, s.env.cur.tsMs, s.context()) }

// PutStamped sets a value under a timestamp, and with headers if the store keeps them. A nil of a type that has one deletes
// the key.
func (s *KVStore[K, V]) PutStamped(k K, v V, tsMs int64, headers ...serde.Header) error {
	c, err := s.env.withHeaders(s.name, s.cache.KeepsHeaders(), headers)
	if err != nil {
		return err
	}
	return s.put(k, v, tsMs, c)
}

func (s *KVStore[K, V]) put(k K, v V, tsMs int64, c current) error {
	if tsMs < 0 {
		return fmt.Errorf("millrace: store %s: negative timestamp %d", s.name, tsMs)
	}
	if err := s.writable(); err != nil {
		return err
	}
	b, err := s.encode(k)
	if err != nil {
		return err
	}
	return s.cache.Put(b, k, v, s.there(&v), tsMs, c)
}

// writable refuses writes of user code to a read-only store: they would be in no changelog.
func (s *KVStore[K, V]) writable() error {
	if s.filledFrom != "" {
		return fmt.Errorf("millrace: store %s is read-only: topic %s alone fills it; write to the topic instead", s.name, s.filledFrom)
	}
	return nil
}

// Delete removes a key.
func (s *KVStore[K, V]) Delete(k K) error {
	if err := s.writable(); err != nil {
		return err
	}
	b, err := s.encode(k)
	if err != nil {
		return err
	}
	var zero V
	return s.cache.Put(b, k, zero, false, s.env.cur.tsMs, s.context())
}

// context is what a cached write keeps of the record in process: not its bytes, which would pin whole fetches.
func (s *KVStore[K, V]) context() current {
	c := s.env.cur
	c.raw = nil
	return c
}

// Range walks the keys between two keys, both included, in the order of their bytes.
func (s *KVStore[K, V]) Range(from, to K) (store.Iterator[K, V], error) {
	lo, err := s.appendKey([]byte{}, from)
	if err != nil {
		return nil, err
	}
	hi, err := s.appendKey(nil, to)
	if err != nil {
		return nil, err
	}
	// The byte store's upper bound is exclusive: the key after hi is hi and a zero byte.
	return s.iterate(lo, append(hi, 0))
}

// All walks all keys in the order of their bytes.
func (s *KVStore[K, V]) All() (store.Iterator[K, V], error) { return s.iterate(nil, nil) }

func (s *KVStore[K, V]) iterate(lo, hi []byte) (store.Iterator[K, V], error) {
	var waiting []waitingEntry[K, V]
	err := s.cache.Waiting(func(key string, k K, v V, has bool, tsMs int64) error {
		b := []byte(key)
		if (lo == nil || bytes.Compare(b, lo) >= 0) && (hi == nil || bytes.Compare(b, hi) < 0) {
			w := waitingEntry[K, V]{enc: b, k: k, v: v, has: has, tsMs: tsMs}
			var err error
			w.headers, err = s.cache.Headers(b)
			waiting = append(waiting, w)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(waiting, func(a, b waitingEntry[K, V]) int { return bytes.Compare(a.enc, b.enc) })
	it, err := s.kv.Range(lo, hi, false)
	if err != nil {
		return nil, s.env.fault(s.name, err)
	}
	return &iterator[K, V]{
		s: s, base: it, waiting: waiting,
	}, nil
}

// waitingEntry is a write that still waits in a cache.
type waitingEntry[K, V any] struct {
	enc  []byte
	k    K
	v    V
	has  bool
	tsMs int64

	headers serde.Headers
}

// iterator walks a byte store and the writes that wait above it, in the order of encoded keys.
type iterator[K, V any] struct {
	shown[K, V]
	s       *KVStore[K, V]
	base    *state.Iterator
	waiting []waitingEntry[K, V]

	baseOK bool // base stands on an entry not yet returned
	begun  bool
	closed bool
}

func (it *iterator[K, V]) Next() bool {
	if it.closed || it.err != nil {
		if it.closed && it.err == nil {
			it.err = fmt.Errorf("millrace: the iterator is closed")
		}
		return false
	}
	if !it.begun {
		it.begun = true
		it.baseOK = it.base.Next()
	}
	for {
		if len(it.waiting) > 0 {
			order := -1
			if it.baseOK {
				order = bytes.Compare(it.waiting[0].enc, it.base.Key())
			}
			if order <= 0 {
				w := it.waiting[0]
				it.waiting = it.waiting[1:]
				if order == 0 {
					it.baseOK = it.base.Next()
				}
				if !w.has {
					continue
				}
				it.k, it.v, it.tsMs, it.headers = w.k, w.v, w.tsMs, w.headers
				return true
			}
		}
		if !it.baseOK {
			it.err = it.s.env.fault(it.s.name, it.base.Err())
			return false
		}
		if it.k, it.err = it.s.key.Decode(it.base.Key()); it.err != nil {
			it.err = fmt.Errorf("millrace: store %s: a stored key does not decode: %w; has the serde of the store changed?", it.s.name, it.err)
			return false
		}
		if it.v, it.tsMs, it.err = it.s.cache.Decode(it.base.Value()); it.err != nil {
			return false
		}
		if it.headers, it.err = it.s.cache.DecodeHeaders(it.base.Value()); it.err != nil {
			return false
		}
		it.baseOK = it.base.Next()
		return true
	}
}

func (it *iterator[K, V]) Close() error {
	if it.closed {
		return nil
	}
	it.closed = true
	return it.base.Close()
}
