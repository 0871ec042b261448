package op

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace/internal/cache"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/window"
)

// startBytes is the length of the window start behind a key in the cache.
const startBytes = 8

// windowBacking is the byte store below a WindowStore. Its keys are the plain key and 8 bytes of window start.
type windowBacking struct {
	env     *Env
	w       *state.WindowStore
	log     changelog
	expired *metrics.Counter
}

func splitWindowKey(b []byte) (key []byte, startMs int64) {
	n := len(b) - startBytes
	return b[:n], int64(binary.BigEndian.Uint64(b[n:]))
}

func (b *windowBacking) Load(k []byte) ([]byte, bool, error) {
	key, start := splitWindowKey(k)
	return b.w.Get(key, start, 0)
}

func (b *windowBacking) Write(k, local []byte, tsMs int64) error {
	key, start := splitWindowKey(k)
	var accepted bool
	var err error
	if local == nil {
		accepted, err = b.w.Delete(key, start, 0)
	} else {
		accepted, err = b.w.Put(key, start, 0, local)
	}
	if err != nil {
		return err
	}
	if !accepted {
		// Past the retention. As in Kafka Streams the changelog still gets the record.
		b.expired.Inc()
	}
	if !b.log.logged {
		return nil
	}
	ck := b.env.keep(codec.AppendWindowKey(b.env.alloc(len(k)+4), key, start, 0))
	if local == nil {
		b.log.log(ck, nil, tsMs)
	} else {
		b.log.log(ck, local[8:], tsMs)
	}
	return nil
}

func (b *windowBacking) Alloc(n int) []byte   { return b.env.alloc(n) }
func (b *windowBacking) Keep(x []byte) []byte { return b.env.keep(x) }

// WindowFactory makes WindowStores.
type WindowFactory[K, V any] struct {
	Spec   StoreSpec
	SizeMs int64
	Key    serde.Serde[K]
	Value  serde.Serde[V]
}

// Open makes the store of one task.
func (f *WindowFactory[K, V]) Open(env *Env) (any, error) {
	w, err := env.Set.Window(f.Spec.Name)
	if err != nil {
		return nil, err
	}
	b := &windowBacking{env: env, w: w, log: newChangelog(env, f.Spec), expired: env.counter(f.Spec.Name, metrics.ExpiredOnPut)}
	cfg := cache.Config[window.Key[K], V, current]{Backing: b, Value: f.Value, MaxBytes: env.ReadCacheBytes}
	if f.Spec.Cached && env.CacheBytes > 0 {
		cfg.Dedupe, cfg.MaxBytes = true, env.CacheBytes
	}
	return &WindowStore[K, V]{
		env: env, name: f.Spec.Name, sizeMs: f.SizeMs, key: f.Key, w: w, cache: cache.New(cfg),
	}, nil
}

// WindowStore is a task's window store.
type WindowStore[K, V any] struct {
	env    *Env
	name   string
	sizeMs int64
	key    serde.Serde[K]
	w      *state.WindowStore
	cache  *cache.Store[window.Key[K], V, current]
	buf    []byte
}

var _ store.Window[string, string] = (*WindowStore[string, string])(nil)

// encode encodes key and start into the store's scratch buffer.
func (s *WindowStore[K, V]) encode(k K, startMs int64) ([]byte, error) {
	b, err := s.encodeKey(k)
	if err != nil {
		return nil, err
	}
	return s.withStart(b, startMs), nil
}

func (s *WindowStore[K, V]) encodeKey(k K) ([]byte, error) {
	b, err := s.key.Append(s.buf[:0], k)
	if err != nil {
		return nil, fmt.Errorf("millrace: store %s: key does not encode: %w", s.name, err)
	}
	s.buf = b
	return b, nil
}

func (s *WindowStore[K, V]) withStart(key []byte, startMs int64) []byte {
	b := binary.BigEndian.AppendUint64(key, uint64(startMs))
	s.buf = b
	return b
}

func (s *WindowStore[K, V]) windowed(k K, startMs int64) window.Key[K] {
	return window.Key[K]{Key: k, Window: window.Window{StartMs: startMs, EndMs: startMs + s.sizeMs}}
}

// FlushCache writes what waits in the cache.
func (s *WindowStore[K, V]) FlushCache() error { return s.cache.Flush() }

// Get returns the value of a key in the window that starts at startMs.
func (s *WindowStore[K, V]) Get(k K, startMs int64) (v V, ok bool, err error) {
	b, err := s.encode(k, startMs)
	if err != nil {
		return v, false, err
	}
	v, _, ok, err = s.cache.Get(b)
	return v, ok, err
}

// GetStamped is Get with the value's timestamp.
func (s *WindowStore[K, V]) GetStamped(k K, startMs int64) (store.Stamped[V], bool, error) {
	b, err := s.encode(k, startMs)
	if err != nil {
		return store.Stamped[V]{}, false, err
	}
	v, ts, ok, err := s.cache.Get(b)
	return store.Stamped[V]{Value: v, TimestampMs: ts}, ok, err
}

// Lookup makes a WindowStore a Getter.
func (s *WindowStore[K, V]) Lookup(k window.Key[K]) (v V, tsMs int64, ok bool, err error) {
	b, err := s.encode(k.Key, k.Window.StartMs)
	if err != nil {
		return v, 0, false, err
	}
	return s.cache.Get(b)
}

// Put sets the value of a key in a window under the timestamp of the record in process.
func (s *WindowStore[K, V]) Put(k K, v V, startMs int64) error {
	return s.PutStamped(k, v, startMs, s.env.cur.tsMs)
}

// PutStamped sets it under a timestamp of its own.
func (s *WindowStore[K, V]) PutStamped(k K, v V, startMs, tsMs int64) error {
	if startMs < 0 || tsMs < 0 {
		return fmt.Errorf("millrace: store %s: negative window start %d or timestamp %d", s.name, startMs, tsMs)
	}
	b, err := s.encode(k, startMs)
	if err != nil {
		return err
	}
	return s.cache.Put(b, s.windowed(k, startMs), v, true, tsMs, s.context())
}

// Delete removes the value of a key in a window.
func (s *WindowStore[K, V]) Delete(k K, startMs int64) error {
	b, err := s.encode(k, startMs)
	if err != nil {
		return err
	}
	var zero V
	return s.cache.Put(b, s.windowed(k, startMs), zero, false, s.env.cur.tsMs, s.context())
}

func (s *WindowStore[K, V]) context() current {
	c := s.env.cur
	c.raw = nil
	return c
}

// Fetch walks the windows of one key. What waits in the cache is written first: a fetch sees all updates.
func (s *WindowStore[K, V]) Fetch(k K, fromMs, toMs int64) (store.Iterator[window.Key[K], V], error) {
	if err := s.cache.Flush(); err != nil {
		return nil, err
	}
	b, err := s.encodeKey(k)
	if err != nil {
		return nil, err
	}
	it, err := s.w.Fetch(b, fromMs, toMs, false)
	if err != nil {
		return nil, err
	}
	return &windowIterator[K, V]{s: s, base: it}, nil
}

// FetchAll walks the windows of all keys.
func (s *WindowStore[K, V]) FetchAll(fromMs, toMs int64) (store.Iterator[window.Key[K], V], error) {
	if err := s.cache.Flush(); err != nil {
		return nil, err
	}
	it, err := s.w.FetchAll(fromMs, toMs, false)
	if err != nil {
		return nil, err
	}
	return &windowIterator[K, V]{s: s, base: it}, nil
}

type windowIterator[K, V any] struct {
	s      *WindowStore[K, V]
	base   *state.Iterator
	k      window.Key[K]
	v      V
	tsMs   int64
	closed bool
	err    error
}

func (it *windowIterator[K, V]) Next() bool {
	if it.closed && it.err == nil {
		it.err = fmt.Errorf("millrace: the iterator is closed")
	}
	if it.err != nil {
		return false
	}
	if !it.base.Next() {
		it.err = it.base.Err()
		return false
	}
	k, err := it.s.key.Decode(it.base.Key())
	if err != nil {
		it.err = fmt.Errorf("millrace: store %s: a stored key does not decode: %w; has the serde of the store changed?", it.s.name, err)
		return false
	}
	it.k = it.s.windowed(k, it.base.StartMs())
	it.v, it.tsMs, it.err = it.s.cache.Decode(it.base.Value())
	return it.err == nil
}

func (it *windowIterator[K, V]) Key() window.Key[K] { return it.k }
func (it *windowIterator[K, V]) Value() V           { return it.v }
func (it *windowIterator[K, V]) TimestampMs() int64 { return it.tsMs }
func (it *windowIterator[K, V]) Err() error         { return it.err }

func (it *windowIterator[K, V]) Close() error {
	if it.closed {
		return nil
	}
	it.closed = true
	return it.base.Close()
}
