package op

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/millrace-io/millrace/internal/cache"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/window"
)

// sessionBacking is the byte store below a SessionStore. Its keys are those of the changelog: key, end, start.
type sessionBacking struct {
	env     *Env
	w       *state.SessionStore
	log     changelog
	expired *metrics.Counter
}

func splitSessionKey(b []byte) (key []byte, startMs, endMs int64) {
	n := len(b) - codec.SessionSuffixSize
	return b[:n], int64(binary.BigEndian.Uint64(b[n+8:])), int64(binary.BigEndian.Uint64(b[n:]))
}

func (b *sessionBacking) Load(k []byte) ([]byte, bool, error) {
	key, start, end := splitSessionKey(k)
	v, ok, err := b.w.Get(key, start, end)
	return v, ok, b.env.fault(b.log.store, err)
}

func (b *sessionBacking) Write(k, local, value []byte, headers serde.Headers, tsMs int64) error {
	key, start, end := splitSessionKey(k)
	var accepted bool
	var err error
	if local == nil {
		accepted, err = b.w.Delete(key, start, end)
	} else {
		accepted, err = b.w.Put(key, start, end, local)
	}
	if err != nil {
		return b.env.fault(b.log.store, err)
	}
	if !accepted {
		// Past the retention. As in Kafka Streams the changelog still gets the record.
		b.expired.Inc()
	}
	b.log.logWith(k, value, headers, tsMs)
	return b.env.overflow(b.log.store)
}

func (b *sessionBacking) Alloc(n int) []byte   { return b.env.alloc(n) }
func (b *sessionBacking) Keep(x []byte) []byte { return b.env.keep(x) }

// SessionFactory makes SessionStores.
type SessionFactory[K, V any] struct {
	Spec  StoreSpec
	Key   serde.Serde[K]
	Value serde.Serde[V]
	// KeptMs is how far a session's end may lie behind the highest one: sessions of less are visible. 0: as far as the byte
	// store keeps them.
	KeptMs int64
}

// KeepsHeaders tells whether the store keeps headers.
func (f *SessionFactory[K, V]) KeepsHeaders() bool { return f.Spec.KeepHeaders }

// Open makes the store of one task.
func (f *SessionFactory[K, V]) Open(env *Env) (any, error) {
	w, err := env.Set.Session(f.Spec.Name)
	if err != nil {
		return nil, err
	}
	name := f.Spec.Name
	b := &sessionBacking{env: env, w: w, log: newChangelog(env, f.Spec), expired: env.counter(name, metrics.ExpiredOnPut)}
	// Nothing is remembered of what was read: a session is read from an iterator, and its key changes with each record.
	cfg := cacheConfig[window.Key[K]](env, f.Spec, b, f.Value, 0)
	keptMs := f.KeptMs
	if keptMs == 0 {
		keptMs = w.Spec().RetentionMs
	}
	return &SessionStore[K, V]{
		env: env, name: name, keptMs: keptMs, key: guarded(f.Key), value: cfg.Value, w: w, cache: cache.New(cfg), there: NotNil[V](),
		waiting: make(map[string][]waitingSession), highMs: state.NoTime, timeMs: math.MaxInt64,
	}, nil
}

// SessionStore is a task's session store.
type SessionStore[K, V any] struct {
	env   *Env
	name  string
	key   serde.Serde[K]
	value serde.Serde[V]
	w     *state.SessionStore
	cache *cache.Store[window.Key[K], V, current]
	there func(*V) bool
	buf   []byte

	// waiting finds the sessions of a key that the cache knows better than the byte store below: those that wait to be
	// written, and those that wait to be removed, in the order of end and start. Reading goes by ranges, which the cache cannot
	// answer.
	waiting map[string][]waitingSession
	flushes int   // changes when what waited has been written out
	highMs  int64 // highest end that was put, written out or not
	timeMs  int64 // beyond it no end moves highMs: see setTime
	keptMs  int64 // see SessionFactory
}

// waitingSession is a session that the cache knows better than the byte store.
type waitingSession struct {
	startMs, endMs int64
	below          bool // the byte store has a session of these bounds
	gone           bool // it waits to be removed
}

var _ store.Session[string, string] = (*SessionStore[string, string])(nil)

func (s *SessionStore[K, V]) appendKey(dst []byte, k K) ([]byte, error) {
	b, err := s.key.Append(dst, k)
	if err != nil {
		return dst, fmt.Errorf("millrace: store %s: key does not encode: %w", s.name, err)
	}
	return b, nil
}

// damaged is the error of a stored key that cannot be read.
func (s *SessionStore[K, V]) damaged(err error) error {
	return fmt.Errorf("millrace: store %s: a stored key does not decode: %w; has the serde of the store changed?", s.name, err)
}

// encode encodes a key and the bounds of its session into the store's scratch buffer; see KVStore.encode.
func (s *SessionStore[K, V]) encode(k K, startMs, endMs int64) ([]byte, error) {
	b, err := s.appendKey(s.buf[:0], k)
	if err != nil {
		return nil, err
	}
	s.buf = codec.AppendSessionSuffix(b, startMs, endMs)
	return s.buf, nil
}

// FlushCache writes what waits in the cache.
func (s *SessionStore[K, V]) FlushCache() error {
	err := s.cache.Flush()
	s.settle()
	return err
}

// hold begins writes of sessions that belong together, and release ends them: see cache.Store.Hold.
func (s *SessionStore[K, V]) hold() { s.cache.Hold() }

func (s *SessionStore[K, V]) release() error {
	err := s.cache.Release()
	if s.cache.Dedupes() {
		s.settle()
	}
	return err
}

// settle forgets what waited once nothing does. A cache writes out everything that waits or nothing.
func (s *SessionStore[K, V]) settle() (settled bool) {
	if s.cache.Waits() {
		return false
	}
	clear(s.waiting)
	s.flushes++
	return true
}

// put sets the value of a session whose encoded key is enc. below says that the byte store may have one of the same bounds.
func (s *SessionStore[K, V]) put(enc []byte, k window.Key[K], v V, has bool, below bool, tsMs int64, ctx current) error {
	s.highMs = max(s.highMs, min(k.Window.EndMs, s.timeMs))
	if err := s.cache.Put(enc, k, v, has, tsMs, ctx); err != nil {
		return err
	}
	if !s.cache.Dedupes() || s.settle() {
		return nil
	}
	s.note(enc, waitingSession{startMs: k.Window.StartMs, endMs: k.Window.EndMs, below: below, gone: !has})
	return nil
}

// remove removes a session whose encoded key is enc. One that waits and is not below is forgotten: nobody has heard of it.
func (s *SessionStore[K, V]) remove(enc []byte, k window.Key[K], below bool, tsMs int64, ctx current) error {
	if s.cache.Dedupes() && !below && s.cache.Forget(enc) {
		s.note(enc, waitingSession{startMs: k.Window.StartMs, endMs: k.Window.EndMs, gone: true})
		return nil
	}
	var zero V
	return s.put(enc, k, zero, false, below, tsMs, ctx)
}

// note takes up what has become of a session that waits.
func (s *SessionStore[K, V]) note(enc []byte, w waitingSession) {
	key := enc[:len(enc)-codec.SessionSuffixSize]
	list := s.waiting[string(key)]
	at, found := slices.BinarySearchFunc(list, w, func(a, b waitingSession) int {
		return compareSessions(a.startMs, a.endMs, b.startMs, b.endMs)
	})
	forget := w.gone && !w.below
	switch {
	case found && forget && !list[at].below:
		if list = slices.Delete(list, at, at+1); len(list) == 0 {
			delete(s.waiting, string(key))
			return
		}
	case found:
		list[at].gone, list[at].below = w.gone, list[at].below || w.below
		return
	case forget:
		return
	default:
		list = slices.Insert(list, at, w)
	}
	s.waiting[string(key)] = list
}

// setTime says how far the time has come for the steps that put sessions; of several the one that is ahead counts. See
// state.SessionStore.SetTime.
func (s *SessionStore[K, V]) setTime(ms int64) {
	if s.timeMs == math.MaxInt64 || ms > s.timeMs {
		s.timeMs = ms
		s.w.SetTime(ms)
	}
}

// fromMs is the earliest end of sessions that are visible.
func (s *SessionStore[K, V]) fromMs(earliestEndMs int64) int64 {
	highMs := max(s.highMs, s.w.ObservedEndMs())
	if highMs == state.NoTime {
		return earliestEndMs
	}
	return max(earliestEndMs, highMs-s.keptMs+1)
}

// hides tells whether sessions of an end are not visible any more.
func (s *SessionStore[K, V]) hides(endMs int64) bool { return endMs < s.fromMs(endMs) }

// Get returns the value of a session.
func (s *SessionStore[K, V]) Get(k K, startMs, endMs int64) (v V, ok bool, err error) {
	v, _, ok, err = s.get(k, startMs, endMs)
	return v, ok, err
}

func (s *SessionStore[K, V]) get(k K, startMs, endMs int64) (v V, tsMs int64, ok bool, err error) {
	if s.hides(endMs) {
		return v, 0, false, nil
	}
	b, err := s.encode(k, startMs, endMs)
	if err != nil {
		return v, 0, false, err
	}
	return s.cache.Get(b)
}

// Lookup makes a SessionStore a Getter. The timestamp of a session's row is its end, as in Kafka Streams.
func (s *SessionStore[K, V]) Lookup(k window.Key[K]) (v V, tsMs int64, ok bool, err error) {
	v, _, ok, err = s.get(k.Key, k.Window.StartMs, k.Window.EndMs)
	return v, k.Window.EndMs, ok, err
}

// SessionGetter reads a table of sessions from its store.
func SessionGetter[K, V any](name string) GetterFactory[window.Key[K], V] {
	return func(env *Env, step string) (Getter[window.Key[K], V], error) {
		return typedStore[*SessionStore[K, V]](env, step, name)
	}
}

// Put sets the value of a session under the timestamp of the record in process, and with its headers if the store keeps them. A nil of a type that has one deletes it.
func (s *SessionStore[K, V]) Put(k K, v V, startMs, endMs int64) error {
	return s.write(k, v, s.there(&v), startMs, endMs)
}

// Delete removes a session.
func (s *SessionStore[K, V]) Delete(k K, startMs, endMs int64) error {
	var zero V
	return s.write(k, zero, false, startMs, endMs)
}

func (s *SessionStore[K, V]) write(k K, v V, has bool, startMs, endMs int64) error {
	if startMs < 0 || endMs < startMs {
		return fmt.Errorf("millrace: store %s: a session from %d to %d: it starts at 0 at the earliest, and ends at its start at the earliest",
			s.name, startMs, endMs)
	}
	b, err := s.encode(k, startMs, endMs)
	if err != nil {
		return err
	}
	session := window.Key[K]{Key: k, Window: window.Window{StartMs: startMs, EndMs: endMs}}
	return s.put(b, session, v, has, true, s.env.cur.tsMs, s.env.waiting(s.env.cur.headers, s.env.cur.tsMs))
}

// compareSessions is the order in which sessions of one key are walked.
func compareSessions(aStartMs, aEndMs, bStartMs, bEndMs int64) int {
	if c := cmp.Compare(aEndMs, bEndMs); c != 0 {
		return c
	}
	return cmp.Compare(aStartMs, bStartMs)
}

// compare is the order in which the byte store hands out rows: by segment, key, end, start.
func (s *SessionStore[K, V]) compare(a, b *sessionRow[V]) int {
	segment := s.w.Spec().SegmentMs
	if c := cmp.Compare(a.endMs/segment, b.endMs/segment); c != 0 {
		return c
	}
	if c := bytes.Compare(a.key, b.key); c != 0 {
		return c
	}
	return compareSessions(a.startMs, a.endMs, b.startMs, b.endMs)
}
