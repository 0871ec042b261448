// Package cache holds typed values above the byte stores of internal/state: the deduplicating cache, which decides what
// the steps downstream see, and the read cache, which only saves decoding.
//
// A key's identity is its encoded bytes. A value is kept decoded only where a copy of it can be made without encoding: a
// flat type (no pointers but strings), or a serde that clones. All others are kept as bytes and decoded for each reader,
// so a value handed out always belongs to whom it was handed, and user code may change it in place.
package cache

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/serde"
)

// stampBytes is the length of the timestamp in front of a value in its local form.
const stampBytes = 8

// entryOverhead is what an entry costs beside its key and value: the entry, its place in the map and two lists.
const entryOverhead = 160

// Backing is the byte store below a cache.
type Backing interface {
	// Load returns a value in its local form: 8 bytes of timestamp (big endian milliseconds), then the encoded value, and in
	// front of both the headers of the record that set it, if the store keeps them (see codec.AppendHeaders). It is valid
	// until the next call.
	Load(key []byte) (local []byte, ok bool, err error)
	// Write stores a value in its local form, nil to delete, and logs it if the store has a changelog. value is the encoded
	// value, a part of local, and headers are what the store keeps beside it: nothing, or the headers of the record, which a
	// deletion has too. key and local may be kept: they come from Keep, or are not changed any more.
	Write(key, local, value []byte, headers serde.Headers, tsMs int64) error
	// Alloc and Keep take memory from the task's slab: see Env.
	Alloc(n int) []byte
	Keep(b []byte) []byte
}

// Update is what a flush reports of one key.
type Update[K, V, C any] struct {
	Key            K
	New, Old       V
	HasNew, HasOld bool
	TimestampMs    int64
	Context        C
}

// Config configures a Store.
type Config[K, V, C any] struct {
	Backing Backing
	Value   serde.Serde[V]
	// Dedupe delays writes and reports until a flush; MaxBytes bounds what may wait. Without it, each write goes through
	// at once, and MaxBytes bounds the read cache (0: none).
	Dedupe   bool
	MaxBytes int64
	// ReadBytes is room, beside MaxBytes of a deduplicating cache, for values that wait for nothing.
	ReadBytes int64
	// Blame, if it is set, says of an error that came up while a waiting write was carried out where it belongs: the step
	// in process then has nothing to do with it. ctx is the context of that write.
	Blame func(ctx C, err error) error
	// Check makes Put encode each value, so that one that does not encode is refused there, to the one who put it. Otherwise a
	// value that is kept decoded shows it at the flush, when others have built on it.
	Check bool
	// Headers, if it is set, says which headers a write under a context keeps beside its value.
	Headers func(ctx C) serde.Headers
}

// Store is a typed store of one task: K is the key as steps see it, C the context under which a key was last written. It
// belongs to the task's goroutine.
type Store[K, V, C any] struct {
	backing   Backing
	value     serde.Serde[V]
	dedupe    bool
	max       int64     // of what is cached in all
	waitMax   int64     // of what waits for a flush
	clone     func(V) V // nil: assigning is enough
	decoded   bool
	check     bool // Config.Check
	blame     func(C, error) error
	headersOf func(C) serde.Headers // Config.Headers
	// content tells what a decoded value holds beside its own size; nil: nothing, or it cannot be told, and then typical
	// stands for it, which follows the lengths of encoded values.
	content func(*V) int64
	guessed bool
	typical int64

	bytes   int64
	waiting int64 // of bytes, those of entries that wait for a flush
	entries map[string]*entry[K, V, C]
	lru     list[K, V, C] // front: most recently used
	dirty   list[K, V, C] // front: written first

	onFlush func(*Update[K, V, C]) error
	needOld bool
	// flushing says that a flush is under way: the steps that hear of it may read this store, and must not start another.
	flushing bool
	held     bool   // see Hold
	scratch  []byte // of an encoded value on its way in
	update   Update[K, V, C]
}

type entry[K, V, C any] struct {
	key     string
	k       K
	val     V
	raw     []byte // the encoded value, where values are not kept decoded
	has     bool
	tsMs    int64
	ctx     C
	isDirty bool
	size    int64
	lru     link[K, V, C]
	dirty   link[K, V, C]
}

// New makes a Store.
func New[K, V, C any](cfg Config[K, V, C]) *Store[K, V, C] {
	s := &Store[K, V, C]{
		backing: cfg.Backing, value: cfg.Value, dedupe: cfg.Dedupe && cfg.MaxBytes > 0, max: cfg.MaxBytes,
		entries: make(map[string]*entry[K, V, C]), blame: cfg.Blame, check: cfg.Check,
		headersOf: cfg.Headers,
	}
	if s.dedupe {
		s.waitMax = cfg.MaxBytes
		s.max += cfg.ReadBytes
	}
	if s.blame == nil {
		s.blame = func(_ C, err error) error { return err }
	}
	if c, ok := cfg.Value.(serde.Cloner[V]); ok {
		s.clone, s.decoded = c.Clone, true
	} else if nilness.Flat[V]() {
		s.decoded = true
	}
	if s.decoded {
		exact := false
		s.content, exact = contentSizer[V]()
		s.guessed = !exact
	}
	s.lru.of = func(e *entry[K, V, C]) *link[K, V, C] { return &e.lru }
	s.dirty.of = func(e *entry[K, V, C]) *link[K, V, C] { return &e.dirty }
	return s
}

// Dedupes tells whether writes wait for a flush; a step then must not forward by itself.
func (s *Store[K, V, C]) Dedupes() bool { return s.dedupe }

// OnFlush sets who hears of the updates of a flush. needOld asks for the values that stood before.
func (s *Store[K, V, C]) OnFlush(f func(*Update[K, V, C]) error, needOld bool) {
	s.onFlush, s.needOld = f, needOld
}

// Get returns the value of an encoded key. It belongs to the caller.
func (s *Store[K, V, C]) Get(key []byte) (v V, tsMs int64, ok bool, err error) {
	if e := s.entries[string(key)]; e != nil {
		s.lru.moveToFront(e)
		if !e.has {
			return v, 0, false, nil
		}
		v, err = s.copyOut(e)
		return v, e.tsMs, err == nil, err
	}
	local, ok, err := s.backing.Load(key)
	if err != nil || !ok {
		return v, 0, false, err
	}
	if local, err = s.Stamped(local); err != nil {
		return v, 0, false, err
	}
	v, tsMs, err = s.decode(local)
	if err != nil {
		return v, 0, false, err
	}
	if s.max > 0 {
		e := s.insert(key)
		e.has, e.tsMs = true, tsMs
		s.learn(len(local) - stampBytes)
		s.copyIn(e, v, local[stampBytes:])
		if err := s.resize(e); err != nil {
			return v, 0, false, err
		}
	}
	return v, tsMs, true, nil
}

// Decode decodes a value in its local form.
func (s *Store[K, V, C]) Decode(local []byte) (v V, tsMs int64, err error) {
	if local, err = s.Stamped(local); err != nil {
		return v, 0, err
	}
	return s.decode(local)
}

// decode decodes timestamp and value.
func (s *Store[K, V, C]) decode(local []byte) (v V, tsMs int64, err error) {
	if len(local) < stampBytes {
		return v, 0, fmt.Errorf("millrace: a stored value is %d bytes long, too short for its timestamp; the store is damaged", len(local))
	}
	v, err = s.value.Decode(local[stampBytes:])
	if err != nil {
		return v, 0, fmt.Errorf("millrace: a stored value does not decode: %w; has the serde of the store changed?", err)
	}
	return v, int64(binary.BigEndian.Uint64(local)), nil
}

// Put sets the value of an encoded key; with has false it deletes. k and ctx are reported by the flush. The store keeps v
// as it is, so the caller must not change it afterwards; what it hands out are copies.
func (s *Store[K, V, C]) Put(key []byte, k K, v V, has bool, tsMs int64, ctx C) error {
	if !s.dedupe {
		return s.writeThrough(key, v, has, tsMs, ctx)
	}
	// The value is encoded before anything is touched: one that does not encode leaves what was there.
	raw := s.scratch[:0]
	// Of a type whose size must be guessed one value is encoded, so that the bound holds from the first on.
	guess := s.guessed && s.typical == 0
	if has && (!s.decoded || s.check || guess) {
		b, err := s.value.Append(raw, v)
		switch {
		case err == nil:
			s.scratch = b
			if guess {
				s.learn(len(b))
			}
		case !s.decoded || s.check:
			return err
		}
		if !s.decoded {
			raw = b
		}
	}
	e := s.entries[string(key)]
	if e == nil {
		e = s.insert(key)
	} else {
		s.lru.moveToFront(e)
	}
	if !has || !s.decoded {
		var zero V
		v = zero
	}
	e.k, e.val, e.raw, e.has, e.tsMs, e.ctx = k, v, append(e.raw[:0], raw...), has, tsMs, ctx
	if e.isDirty {
		s.dirty.remove(e)
	} else {
		s.waiting += e.size
	}
	e.isDirty = true
	s.dirty.pushBack(e)
	return s.resize(e)
}

func (s *Store[K, V, C]) writeThrough(key []byte, v V, has bool, tsMs int64, ctx C) error {
	var local []byte
	at := 0 // where the value begins
	if has {
		var err error
		if local, at, err = s.local(v, tsMs, ctx); err != nil {
			return err
		}
	}
	kept := s.backing.Keep(append(s.backing.Alloc(len(key)), key...))
	if err := s.write(kept, local, at, tsMs, ctx); err != nil {
		return err
	}
	e := s.entries[string(key)]
	if e == nil {
		if s.max <= 0 || !has {
			return nil
		}
		e = s.insert(key)
	} else {
		s.lru.moveToFront(e)
	}
	e.has, e.tsMs = has, tsMs
	if has {
		s.copyIn(e, v, local[at:])
	} else {
		var zero V
		e.val, e.raw = zero, e.raw[:0]
	}
	return s.resize(e)
}

// local encodes a value in its local form, in the task's slab. at is where the value begins in it.
func (s *Store[K, V, C]) local(v V, tsMs int64, ctx C) (local []byte, at int, err error) {
	b := binary.BigEndian.AppendUint64(s.prefix(64, ctx), uint64(tsMs))
	at = len(b)
	if b, err = s.value.Append(b, v); err != nil {
		return nil, 0, err
	}
	s.learn(len(b) - at)
	return s.backing.Keep(b), at, nil
}

// learn follows the length of encoded values: an eighth of the way each time.
func (s *Store[K, V, C]) learn(n int) {
	if s.typical == 0 {
		s.typical = int64(n) + 1
		return
	}
	s.typical += (int64(n) + 1 - s.typical) / 8
}

// Flush writes what waits, oldest write first, and reports it. While a flush is under way another call does nothing.
func (s *Store[K, V, C]) Flush() error {
	if s.flushing {
		return nil
	}
	if err := s.flushAll(); err != nil {
		return err
	}
	return s.shrink()
}

func (s *Store[K, V, C]) flushAll() error {
	s.flushing = true
	defer func() { s.flushing = false }()
	for e := s.dirty.front; e != nil; e = s.dirty.front {
		s.dirty.remove(e)
		e.isDirty = false
		s.waiting -= e.size
		report, err := s.writeOut(e)
		if err != nil {
			return s.blame(e.ctx, err)
		}
		if !report {
			continue
		}
		if err := s.onFlush(&s.update); err != nil {
			return err
		}
	}
	return nil
}

// writeOut carries out a write that has waited, and leaves in s.update what is to be reported of it. report is false if
// nobody is to hear of it.
func (s *Store[K, V, C]) writeOut(e *entry[K, V, C]) (report bool, err error) {
	u := &s.update
	*u = Update[K, V, C]{Key: e.k, HasNew: e.has, TimestampMs: e.tsMs, Context: e.ctx}
	// The bytes of the string itself: like everything that goes to Write they are never changed.
	key := unsafe.Slice(unsafe.StringData(e.key), len(e.key))
	if s.onFlush != nil && (s.needOld || !e.has) {
		old, ok, err := s.backing.Load(key)
		if err != nil {
			return false, err
		}
		if !ok && !e.has {
			return false, nil // written and deleted again before anybody saw it
		}
		if ok && s.needOld {
			if u.Old, _, err = s.Decode(old); err != nil {
				return false, err
			}
			u.HasOld = true
		}
	}
	var local []byte
	at := 0
	if e.has {
		if s.decoded {
			local, at, err = s.local(e.val, e.tsMs, e.ctx)
		} else {
			b := binary.BigEndian.AppendUint64(s.prefix(len(e.raw), e.ctx), uint64(e.tsMs))
			at = len(b)
			local = s.backing.Keep(append(b, e.raw...))
		}
		if err != nil {
			return false, err
		}
	}
	if err := s.write(key, local, at, e.tsMs, e.ctx); err != nil {
		return false, err
	}
	if s.onFlush == nil {
		return false, nil
	}
	if e.has {
		if u.New, err = s.copyOut(e); err != nil {
			return false, err
		}
	}
	return true, nil
}

// Waiting walks the writes that wait for a flush, in no order. The values belong to the caller.
func (s *Store[K, V, C]) Waiting(f func(key string, k K, v V, has bool, tsMs int64) error) error {
	for e := s.dirty.front; e != nil; e = e.dirty.next {
		var v V
		if e.has {
			var err error
			if v, err = s.copyOut(e); err != nil {
				return err
			}
		}
		if err := f(e.key, e.k, v, e.has, e.tsMs); err != nil {
			return err
		}
	}
	return nil
}

// Before returns the value that a waiting write of an encoded key is going to replace; isWaiting is false if none waits,
// and nothing is read then. The value belongs to the caller.
func (s *Store[K, V, C]) Before(key []byte) (v V, ok, isWaiting bool, err error) {
	if e := s.entries[string(key)]; e == nil || !e.isDirty {
		return v, false, false, nil
	}
	local, ok, err := s.backing.Load(key)
	if err != nil || !ok {
		return v, false, true, err
	}
	v, _, err = s.Decode(local)
	return v, err == nil, true, err
}

// Hold keeps a full cache from writing out what waits until Release, so that writes which belong together go together: a crash
// between two flushes must not leave one of them without the other. Flush writes it all the same.
func (s *Store[K, V, C]) Hold() { s.held = true }

// Release ends Hold, and makes room if the cache is above its bound.
func (s *Store[K, V, C]) Release() error {
	s.held = false
	return s.shrink()
}

// Waits tells whether any write waits for a flush.
func (s *Store[K, V, C]) Waits() bool { return s.dirty.front != nil }

// Forget takes back a write of a key that waits for a flush, so that nobody hears of it, and tells whether there was one. It
// is for keys that the backing store does not have.
func (s *Store[K, V, C]) Forget(key []byte) bool {
	e := s.entries[string(key)]
	if e == nil || !e.isDirty {
		return false
	}
	s.dirty.remove(e)
	s.lru.remove(e)
	s.waiting -= e.size
	s.bytes -= e.size
	delete(s.entries, e.key)
	return true
}

// Drop forgets everything that is cached, what waits for a flush included.
func (s *Store[K, V, C]) Drop() {
	clear(s.entries)
	s.lru.clear()
	s.dirty.clear()
	s.bytes, s.waiting = 0, 0
}

// Bytes is the memory that the cache takes, estimated.
func (s *Store[K, V, C]) Bytes() int64 { return s.bytes }

func (s *Store[K, V, C]) copyOut(e *entry[K, V, C]) (V, error) {
	if !s.decoded {
		return s.value.Decode(e.raw)
	}
	if s.clone != nil {
		return s.clone(e.val), nil
	}
	return e.val, nil
}

// copyIn keeps a value that also goes to somebody else.
func (s *Store[K, V, C]) copyIn(e *entry[K, V, C], v V, encoded []byte) {
	if !s.decoded {
		e.raw = append(e.raw[:0], encoded...)
		return
	}
	if s.clone != nil {
		v = s.clone(v)
	}
	e.val = v
}

func (s *Store[K, V, C]) insert(key []byte) *entry[K, V, C] {
	e := &entry[K, V, C]{key: string(key)}
	s.entries[e.key] = e
	s.lru.pushFront(e)
	return e
}

func (s *Store[K, V, C]) resize(e *entry[K, V, C]) error {
	size := int64(len(e.key)+len(e.raw)) + entryOverhead + int64(unsafe.Sizeof(e.val))
	switch {
	case s.content != nil:
		size += s.content(&e.val)
	case s.guessed && e.has:
		size += s.typical
	}
	s.bytes += size - e.size
	if e.isDirty {
		s.waiting += size - e.size
	}
	e.size = size
	return s.shrink()
}

// shrink makes room where the cache is above its bound.
func (s *Store[K, V, C]) shrink() error {
	if s.held {
		return nil
	}
	if s.dedupe && s.waiting > s.waitMax && !s.flushing {
		if err := s.flushAll(); err != nil {
			return err
		}
	}
	for s.bytes > s.max && s.lru.back != nil {
		last := s.lru.back
		if last.isDirty {
			if s.flushing {
				return nil // the flush that is under way makes room; until then the cache stays above its bound
			}
			// Everything that waits goes, in the order of writing, so that no update overtakes an older one.
			if err := s.flushAll(); err != nil {
				return err
			}
			last = s.lru.back
		}
		s.lru.remove(last)
		delete(s.entries, last.key)
		s.bytes -= last.size
	}
	return nil
}
