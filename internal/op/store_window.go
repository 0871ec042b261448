package op

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace/internal/cache"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/millis"
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
	v, ok, err := b.w.Get(key, start, 0)
	return v, ok, b.env.fault(b.log.store, err)
}

func (b *windowBacking) Write(k, local, value []byte, headers serde.Headers, tsMs int64) error {
	key, start := splitWindowKey(k)
	var accepted bool
	var err error
	if local == nil {
		accepted, err = b.w.Delete(key, start, 0)
	} else {
		accepted, err = b.w.Put(key, start, 0, local)
	}
	if err != nil {
		return b.env.fault(b.log.store, err)
	}
	if !accepted {
		// Past the retention. As in Kafka Streams the changelog still gets the record.
		b.expired.Inc()
	}
	if !b.log.logged {
		return nil
	}
	ck := b.env.keep(codec.AppendWindowKey(b.env.alloc(len(k)+4), key, start, 0))
	b.log.logWith(ck, value, headers, tsMs)
	return b.env.overflow(b.log.store)
}

func (b *windowBacking) Alloc(n int) []byte   { return b.env.alloc(n) }
func (b *windowBacking) Keep(x []byte) []byte { return b.env.keep(x) }

// WindowFactory makes WindowStores.
type WindowFactory[K, V any] struct {
	Spec StoreSpec
	// SizeMs is the size of the windows; Windows, if it is set, finds the end of each instead.
	SizeMs  int64
	Windows window.Windows
	Key     serde.Serde[K]
	Value   serde.Serde[V]
	// SegmentMs is the span of time whose rows lie together on disk, 0 for what the engine chooses. See state.Spec.
	SegmentMs int64
}

// Segment tells how the rows of the store are to lie on disk.
func (f *WindowFactory[K, V]) Segment() int64 { return f.SegmentMs }

// Segmented is implemented by the factory of a window store that has a wish for the length of its segments.
type Segmented interface{ Segment() int64 }

// KeepsHeaders tells whether the store keeps headers.
func (f *WindowFactory[K, V]) KeepsHeaders() bool { return f.Spec.KeepHeaders }

// Open makes the store of one task.
func (f *WindowFactory[K, V]) Open(env *Env) (any, error) {
	w, err := env.Set.Window(f.Spec.Name)
	if err != nil {
		return nil, err
	}
	name := f.Spec.Name
	b := &windowBacking{env: env, w: w, log: newChangelog(env, f.Spec), expired: env.counter(name, metrics.ExpiredOnPut)}
	cfg := cacheConfig[window.Key[K]](env, f.Spec, b, f.Value, env.ReadCacheBytes)
	return &WindowStore[K, V]{
		env: env, name: name, sizeMs: f.SizeMs, windows: f.Windows, key: guarded(f.Key), w: w, cache: cache.New(cfg), there: NotNil[V](),
		highMs: state.NoTime,
	}, nil
}

// WindowStore is a task's window store.
type WindowStore[K, V any] struct {
	env     *Env
	name    string
	sizeMs  int64
	windows window.Windows // nil: sizeMs says where a window ends
	key     serde.Serde[K]
	w       *state.WindowStore
	cache   *cache.Store[window.Key[K], V, current]
	there   func(*V) bool
	buf     []byte
	highMs  int64 // highest start that was put, written out or not
}

var _ store.Window[string, string] = (*WindowStore[string, string])(nil)

// encode encodes key and start into the store's scratch buffer; see KVStore.encode.
func (s *WindowStore[K, V]) encode(k K, startMs int64) ([]byte, error) {
	b, err := s.appendKey(s.buf[:0], k)
	if err != nil {
		return nil, err
	}
	s.buf = binary.BigEndian.AppendUint64(b, uint64(startMs))
	return s.buf, nil
}

func (s *WindowStore[K, V]) appendKey(dst []byte, k K) ([]byte, error) {
	b, err := s.key.Append(dst, k)
	if err != nil {
		return dst, fmt.Errorf("millrace: store %s: key does not encode: %w", s.name, err)
	}
	return b, nil
}

func (s *WindowStore[K, V]) windowed(k K, startMs int64) window.Key[K] {
	if s.windows != nil {
		return window.Key[K]{Key: k, Window: s.windows.WindowAt(startMs)}
	}
	return window.Key[K]{Key: k, Window: window.Window{StartMs: startMs, EndMs: millis.Add(startMs, s.sizeMs)}}
}

// fromMs is the earliest start of windows that are visible. A write that waits moves the store's time already.
func (s *WindowStore[K, V]) fromMs(fromMs int64) int64 {
	highMs := max(s.highMs, s.w.ObservedStartMs())
	if highMs == state.NoTime {
		return fromMs
	}
	return max(fromMs, highMs-s.w.Spec().RetentionMs+1)
}

// hides tells whether windows of a start are not visible any more.
func (s *WindowStore[K, V]) hides(startMs int64) bool { return startMs < s.fromMs(startMs) }

// get reads a row that is visible. A cache does not know of the retention, and may hold rows that have passed it.
func (s *WindowStore[K, V]) get(k K, startMs int64) (v V, tsMs int64, ok bool, err error) {
	if s.hides(startMs) {
		return v, 0, false, nil
	}
	b, err := s.encode(k, startMs)
	if err != nil {
		return v, 0, false, err
	}
	return s.cache.Get(b)
}

// putEncoded sets the value of a window whose encoded key is enc.
func (s *WindowStore[K, V]) putEncoded(enc []byte, k window.Key[K], v V, has bool, tsMs int64, ctx current) error {
	s.highMs = max(s.highMs, k.Window.StartMs)
	return s.cache.Put(enc, k, v, has, tsMs, ctx)
}

// FlushCache writes what waits in the cache.
func (s *WindowStore[K, V]) FlushCache() error { return s.cache.Flush() }

// Get returns the value of a key in the window that starts at startMs.
func (s *WindowStore[K, V]) Get(k K, startMs int64) (v V, ok bool, err error) {
	v, _, ok, err = s.get(k, startMs)
	return v, ok, err
}

// GetStamped is Get with the value's timestamp.
func (s *WindowStore[K, V]) GetStamped(k K, startMs int64) (store.Stamped[V], bool, error) {
	v, ts, ok, err := s.get(k, startMs)
	out := store.Stamped[V]{Value: v, TimestampMs: ts}
	if ok && s.cache.KeepsHeaders() {
		out.Headers, err = s.cache.Headers(s.buf) // the key that get has encoded
	}
	return out, ok && err == nil, err
}

// Lookup makes a WindowStore a Getter.
func (s *WindowStore[K, V]) Lookup(k window.Key[K]) (v V, tsMs int64, ok bool, err error) {
	return s.get(k.Key, k.Window.StartMs)
}

// Put sets the value of a key in a window under the timestamp of the record in process, and with its headers if the store
// keeps them.
func (s *WindowStore[K, V]) Put(k K, v V, startMs int64) error {
	return s.put(k, v, startMs, s.env.cur.tsMs, s.context())
}

// PutStamped sets it under a timestamp of its own, and with headers if the store keeps them. A nil of a type that has one
// deletes the row.
func (s *WindowStore[K, V]) PutStamped(k K, v V, startMs, tsMs int64, headers ...serde.Header) error {
	c, err := s.env.withHeaders(s.name, s.cache.KeepsHeaders(), headers)
	if err != nil {
		return err
	}
	return s.put(k, v, startMs, tsMs, c)
}

func (s *WindowStore[K, V]) put(k K, v V, startMs, tsMs int64, c current) error {
	if startMs < 0 || tsMs < 0 {
		return fmt.Errorf("millrace: store %s: negative window start %d or timestamp %d", s.name, startMs, tsMs)
	}
	b, err := s.encode(k, startMs)
	if err != nil {
		return err
	}
	return s.putEncoded(b, s.windowed(k, startMs), v, s.there(&v), tsMs, c)
}

// Delete removes the value of a key in a window.
func (s *WindowStore[K, V]) Delete(k K, startMs int64) error {
	b, err := s.encode(k, startMs)
	if err != nil {
		return err
	}
	var zero V
	return s.putEncoded(b, s.windowed(k, startMs), zero, false, s.env.cur.tsMs, s.context())
}

func (s *WindowStore[K, V]) context() current {
	c := s.env.cur
	c.raw = nil
	return c
}
