package state

import (
	"errors"
	"fmt"
	"slices"
)

// ChangelogIdentity tells what is known of the changelog partition of each store when a set is opened. It is called once
// for each persistent store with a changelog, by its name.
type ChangelogIdentity func(store string) Changelog

// OpenReport says what became of a store when its set was opened.
type OpenReport struct {
	// Existed says that the directory held the store and it was kept.
	Existed bool
	// Emptied is the reason for which a store that was there was emptied; "" if it was not.
	Emptied string
	// Header is what was on disk before.
	Header Header
}

// OpenSet opens the stores of a task, and creates those that are not there; memory stores are always new. identify, which
// may be nil, tells what is known of the changelogs: a store that cannot go on from what is on disk (see CheckStore) is
// emptied, alone, and Set.Opened says why.
//
// Opening a store again, in the same process, takes it away from the set that had it: only the newest handle works.
func (db *DB) OpenSet(task string, specs []Spec, identify ChangelogIdentity) (*Set, error) {
	specs, err := completeAll(specs)
	if err != nil {
		return nil, err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, ErrClosed
	}
	if err := db.failed(); err != nil {
		return nil, err
	}
	set := newSet(task, specs)
	set.db = db
	var plans []*plan
	for _, s := range set.stores {
		if !s.spec.Persistent {
			s.useMemory()
			continue
		}
		p, err := db.plan(s, identify)
		if err != nil {
			return nil, err
		}
		plans = append(plans, p)
	}
	if err := db.carryOut(plans, db.leaves(set)...); err != nil {
		return nil, err
	}
	for _, p := range plans {
		if err := p.store.attach(p.inc, p.log); err != nil {
			for _, q := range plans {
				db.supersede(q.inc)
			}
			return nil, err
		}
	}
	set.orderDisk()
	db.sets[set] = struct{}{}
	return set, nil
}

// plan is what is to be done to open one store.
type plan struct {
	store *store
	inc   incarnation
	lines []line
	fresh bool
	erase incarnation // 0: nothing
	log   Changelog
}

// plan decides whether a store can go on from what is on disk. The caller holds the mutex.
func (db *DB) plan(s *store, identify ChangelogIdentity) (*plan, error) {
	id := storeID{s.set.task, s.spec.Name}
	log := UnknownChangelog()
	if s.spec.Logged && identify != nil {
		log = identify(s.spec.Name)
	}
	p := &plan{store: s, log: log}
	e := db.cat.entries[id]
	if e == nil {
		p.fresh = true
		return p, nil
	}
	h, there, err := db.header(e)
	if err != nil && !errors.Is(err, errHeader) {
		return nil, err
	}
	s.opened.Header = h
	switch {
	case err != nil:
		s.opened.Emptied = err.Error()
	case e.left:
		s.opened.Emptied = leftReason(e.logged)
	case e.kind != s.spec.Kind:
		s.opened.Emptied = fmt.Sprintf("it was a %s store and is a %s store now", e.kind, s.spec.Kind)
	case e.logged != s.spec.Logged:
		s.opened.Emptied = "it has been given a changelog, or its changelog was taken away"
	case e.headers != s.spec.KeepHeaders:
		s.opened.Emptied = "its values begin with headers now and did not, or the other way round"
	case !e.logged && !e.clean && db.clean[e.inc] == nil:
		s.opened.Emptied = "it has no changelog, and the application did not stop regularly"
	case e.logged && there && !h.HasPosition:
		s.opened.Emptied = "it stands for no position in its changelog"
	case e.logged:
		s.opened.Emptied = CheckStore(s.spec.Kind, h, log, db.opts.Now())
	}
	if s.opened.Emptied != "" {
		p.fresh, p.erase = true, e.inc
		db.opts.Logger.Warn("a state store starts empty", "dir", db.opts.Dir, "task", id.task, "store", id.store,
			"reason", s.opened.Emptied)
		return p, nil
	}
	s.opened.Existed = true
	p.inc = e.inc
	if !e.logged && e.clean {
		p.lines = append(p.lines, e.line("unclean"))
	}
	return p, nil
}

// leaves marks the stores of a task that a set which is opened for it does not have: those that were taken out, renamed or
// moved to memory. Should such a store come back, it must not go on as if it had been there. The caller holds the mutex.
func (db *DB) leaves(s *Set) (lines []line) {
	for _, e := range db.cat.sorted() {
		if st := s.byName[e.id.store]; e.id.task == s.task && !e.left && (st == nil || !st.spec.Persistent) {
			lines = append(lines, e.line("leave"))
		}
	}
	return lines
}

// leftReason says why a store that comes back begins empty.
func leftReason(logged bool) string {
	const what = "the task has run without it in between: it was taken out or renamed, and has come back under its old name"
	if logged {
		return what + ". It is rebuilt from its changelog, and what was processed in between is missing there too: if it should be in it, stop all instances and reset the application (docs/reset.md)"
	}
	return what
}

// carryOut writes what was planned to the catalogue, once for all stores. The caller holds the mutex.
func (db *DB) carryOut(plans []*plan, lines ...line) error {
	var gone []incarnation
	next := db.cat.next
	for _, p := range plans {
		if p.fresh {
			p.inc = next
			next++
			lines = append(lines, db.cat.add(storeID{p.store.set.task, p.store.spec.Name}, p.store.spec, p.inc))
		}
		lines = append(lines, p.lines...)
		if p.erase != 0 {
			db.supersede(p.erase)
			gone = append(gone, p.erase)
		}
	}
	if err := db.cat.change(lines...); err != nil {
		return err
	}
	return db.erase(gone...)
}

// attach gives a store its handle. The caller holds the DB's mutex.
func (s *store) attach(inc incarnation, log Changelog) error {
	db := s.set.db
	db.supersede(inc)
	s.spec.SegmentMs = s.segmentMs
	b := &diskBase{db: db, spec: s.spec, task: s.set.task, inc: inc}
	if err := b.load(); err != nil {
		return err
	}
	if b.head.SegmentMs > 0 {
		// The rows lie in segments of that length; a definition that has changed applies to the next life of the store.
		s.spec.SegmentMs, b.spec.SegmentMs = b.head.SegmentMs, b.head.SegmentMs
	}
	topicID := log.TopicID
	if topicID == [16]byte{} {
		topicID = b.head.TopicID
	}
	s.disk, s.base, s.topicID, s.deletesMs = b, b, topicID, log.DeleteRetentionMs
	s.position, s.hasPosition = b.head.Position, b.head.HasPosition
	s.levelMs = b.head.LevelMs
	s.positionNew, s.level, s.restoring = false, false, false
	s.high = b.head.observed
	db.owners[inc] = b
	return nil
}

// orderDisk sorts the persistent stores by incarnation: the order of their keys in a batch, and of their locks.
func (s *Set) orderDisk() {
	s.disk = s.disk[:0]
	for _, st := range s.stores {
		if st.disk != nil {
			s.disk = append(s.disk, st)
		}
	}
	slices.SortFunc(s.disk, func(a, b *store) int {
		if a.disk.inc < b.disk.inc {
			return -1
		}
		return 1
	})
}

// Opened tells what became of a store when the set was opened.
func (s *Set) Opened(store string) (OpenReport, bool) {
	st := s.byName[store]
	if st == nil {
		return OpenReport{}, false
	}
	return st.opened, true
}

// Reset empties a store: its changelog turned out to have been cut or created anew after the set was opened. All layers
// of the store are dropped, its position too; it has to be restored from the start. Units must have been decided and the
// private layers dropped or handed over before.
func (s *Set) Reset(store string, log Changelog, reason string) error {
	if err := s.check(); err != nil {
		return err
	}
	st, err := s.find(store)
	if err != nil {
		return err
	}
	if len(s.units) > 0 || !st.private.isEmpty() {
		return st.errorf("it cannot be emptied while writes of it are undecided")
	}
	if st.restoring {
		return st.errorf("it cannot be emptied while it is restored: stop that first")
	}
	if st.iters > 0 {
		return st.errorf("it cannot be emptied while %d of its iterators are open", st.iters)
	}
	st.sealed = newLayer()
	st.opened.Emptied = reason
	if st.memory != nil {
		st.useMemory()
		st.position, st.hasPosition, st.high = Position{}, false, noObserved
		st.levelMs, st.level, st.restoring, st.topicID = NoTime, false, false, log.TopicID
		return nil
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return ErrClosed
	}
	if err := s.check(); err != nil {
		return err
	}
	if db.owners[st.disk.inc] != st.disk {
		return ErrSuperseded
	}
	db.opts.Logger.Warn("a state store is emptied", "dir", db.opts.Dir, "task", s.task, "store", store, "reason", reason)
	p := &plan{store: st, fresh: true, erase: st.disk.inc, log: log}
	if err := db.carryOut([]*plan{p}); err != nil {
		return err
	}
	if err := st.attach(p.inc, p.log); err != nil {
		return err
	}
	s.orderDisk()
	return nil
}

// SetLevel says that a store was level with its changelog at a time: everything written to it up to then is in the store.
// A store that is not being restored stays level from then on, because the set itself is the writer of the changelog:
// each flush renews the time. While it is restored, as a standby is all its life, the time must be set again and again,
// and once more after Finish.
func (s *Set) SetLevel(store string, nowMs int64) error {
	if err := s.check(); err != nil {
		return err
	}
	st, err := s.find(store)
	if err != nil {
		return err
	}
	st.levelMs = max(st.levelMs, nowMs)
	st.level = !st.restoring
	return nil
}

// Close flushes what is sealed, renews the times at which stores were level, and gives the handles back. Private and
// pending writes are dropped. The files are durable once DB.Close has returned; a crash before that replays the changelog.
// Closing again does nothing; closing an abandoned set returns ErrClosed.
func (s *Set) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.check(); err != nil {
		if errors.Is(err, ErrClosed) {
			return err
		}
		return fmt.Errorf("millrace: closing the stores%s: %w", s.ofTask(), err)
	}
	err := s.flush(true)
	if err == nil && s.db != nil {
		s.db.closedRegularly(s)
	}
	s.leave(ErrClosed)
	return err
}

// closedRegularly notes the unlogged stores of a set that need no emptying.
func (db *DB) closedRegularly(s *Set) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, st := range s.disk {
		if e := db.cat.entries[storeID{s.task, st.spec.Name}]; !st.spec.Logged && e != nil && e.inc == st.disk.inc {
			db.clean[e.inc] = e
		}
	}
}

// forget closes the handles of a set and drops it from the list of those that Close flushes. It may run beside a use of
// the set (see Set.Abandon), but not beside Reset, which holds the mutex as well.
func (db *DB) forget(s *Set) {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.sets, s)
	for _, st := range s.disk {
		st.disk.close(ErrClosed)
		if db.owners[st.disk.inc] == st.disk {
			delete(db.owners, st.disk.inc)
		}
	}
}
