package state

import (
	"fmt"
	"sync/atomic"
)

// Set holds the stores of one task. One goroutine uses it at a time, with its stores and iterators; Abandon alone may be
// called from another one.
type Set struct {
	task   string
	db     *DB // nil without persistent stores
	stores []*store
	disk   []*store // the persistent ones, by incarnation
	byName map[string]*store
	units  []*Unit // handed over and not decided, oldest first

	gone   atomic.Pointer[goneReason] // set once the handles are closed
	closed bool                       // Close was called

	sealedSinceMs int64 // when the sealed layers got their first entry, NoTime if they are empty
}

type goneReason struct{ err error }

// NewMemorySet makes the stores of a task in memory. Persistent is ignored.
func NewMemorySet(specs []Spec) (*Set, error) {
	specs, err := completeAll(specs)
	if err != nil {
		return nil, err
	}
	set := newSet("", specs)
	for _, s := range set.stores {
		s.useMemory()
	}
	return set, nil
}

func newSet(task string, specs []Spec) *Set {
	set := &Set{task: task, byName: make(map[string]*store, len(specs)), sealedSinceMs: NoTime}
	for i, spec := range specs {
		s := newStore(set, spec, i)
		set.stores = append(set.stores, s)
		set.byName[spec.Name] = s
	}
	return set
}

func (s *store) useMemory() {
	s.memory = newMemoryBase(s.spec, &s.iters)
	s.base = s.memory
}

// ofTask names the task in error texts.
func (s *Set) ofTask() string {
	if s.task == "" {
		return ""
	}
	return " of task " + s.task
}

// check tells whether the set may still be used.
func (s *Set) check() error {
	if r := s.gone.Load(); r != nil {
		return r.err
	}
	return nil
}

func (s *Set) find(name string) (*store, error) {
	st := s.byName[name]
	if st == nil {
		return nil, fmt.Errorf("millrace: there is no state store %q%s: name it among the stores of the step", name, s.ofTask())
	}
	return st, nil
}

func (s *Set) face(name string, kind Kind) (*store, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	st, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if st.spec.Kind != kind {
		return nil, st.errorf("it is a %s store, not a %s store", st.spec.Kind, kind)
	}
	return st, nil
}

// KeyValue returns the key-value store of a name.
func (s *Set) KeyValue(name string) (*KV, error) {
	st, err := s.face(name, KeyValue)
	if err != nil {
		return nil, err
	}
	return &KV{st}, nil
}

// Window returns the window store of a name.
func (s *Set) Window(name string) (*WindowStore, error) {
	st, err := s.face(name, Window)
	if err != nil {
		return nil, err
	}
	return &WindowStore{st}, nil
}

// Session returns the session store of a name.
func (s *Set) Session(name string) (*SessionStore, error) {
	st, err := s.face(name, Session)
	if err != nil {
		return nil, err
	}
	return &SessionStore{st}, nil
}

// Stores describes the stores in the order in which they were given, with everything that was left open filled in.
func (s *Set) Stores() []Spec {
	specs := make([]Spec, len(s.stores))
	for i, st := range s.stores {
		specs[i] = st.spec
	}
	return specs
}

// SetMeta sets a number of a store's metadata, such as the observed time of the step that owns the store. It goes through
// the same layers as the store's entries and reaches the disk in the same batch.
func (s *Set) SetMeta(store, key string, v int64) error {
	return s.writeMeta(store, key, metaValue{v: v})
}

// DeleteMeta removes a number of a store's metadata. Removing one that is not there is no error.
func (s *Set) DeleteMeta(store, key string) error {
	return s.writeMeta(store, key, metaValue{deleted: true})
}

func (s *Set) writeMeta(store, key string, v metaValue) error {
	if err := s.check(); err != nil {
		return err
	}
	st, err := s.find(store)
	if err != nil {
		return err
	}
	st.private.setMeta(key, v)
	return nil
}

// Meta returns a number of a store's metadata. It does no I/O: what is on disk was read when the set was opened.
func (s *Set) Meta(store, key string) (v int64, ok bool) {
	st := s.byName[store]
	if st == nil || s.check() != nil {
		return 0, false
	}
	return st.meta(key)
}

// Position returns the changelog position that a store's sealed layer and base stand for: at first what the disk holds,
// then what Seal and restores have set. ok is false where there is none: the store has to be restored from the start.
func (s *Set) Position(store string) (p Position, ok bool) {
	st := s.byName[store]
	if st == nil || s.check() != nil {
		return Position{}, false
	}
	return st.position, st.hasPosition
}

// KnowTopic notes the topic id of a store's changelog, where it was not known when the set was opened: stores in memory are not asked
// about then.
func (s *Set) KnowTopic(store string, id [16]byte) {
	if st := s.byName[store]; st != nil && st.topicID == [16]byte{} {
		st.topicID = id
	}
}

// Header tells what CheckStore has to know of a store of an open set. LevelMs is NoTime while the set itself is the writer of the
// changelog, and so cannot have missed anything.
func (s *Set) Header(store string) Header {
	h := noHeader()
	st := s.byName[store]
	if st == nil || s.check() != nil {
		return h
	}
	h.TopicID, h.Position, h.HasPosition = st.topicID, st.position, st.hasPosition
	if !st.level {
		h.LevelMs = st.levelMs
	}
	return h
}

// Abandon closes the handles under a goroutine that still uses the set and does not come back in time: every later use,
// there or here, returns ErrClosed. What the goroutine holds already (values, rows of iterators) stays intact. What was
// not flushed is lost to the disk and comes back from the changelog when the stores are opened again. Unlike all other
// methods it may be called by another goroutine, any number of times.
func (s *Set) Abandon() { s.leave(ErrClosed) }

func (s *Set) leave(err error) {
	if !s.gone.CompareAndSwap(nil, &goneReason{err}) {
		return
	}
	if s.db != nil {
		s.db.forget(s)
	}
}
