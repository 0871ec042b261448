package state

import (
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// levelRenewMs is after how long an otherwise idle store's level time is written again, at most.
const levelRenewMs = 10 * 60_000

// renewMs is the same for this store.
func (s *store) renewMs() int64 {
	if s.deletesMs <= 0 {
		return levelRenewMs
	}
	return max(1, min(levelRenewMs, s.deletesMs/8))
}

// FlushDue tells whether Flush should be called: the sealed units have reached their bound in bytes or age, or a store's
// level time is to be renewed, which an idle task needs too, at least each ten minutes. Always false for a set without persistent
// stores.
func (s *Set) FlushDue(nowMs int64) bool {
	if len(s.disk) == 0 || s.check() != nil {
		return false
	}
	if s.sealedSinceMs != NoTime && (nowMs-s.sealedSinceMs >= s.db.opts.SealedMs || s.SealedBytes() >= s.db.opts.SealedBytes) {
		return true
	}
	for _, st := range s.disk {
		if st.levelDue(nowMs) {
			return true
		}
	}
	return false
}

// levelTime is the level time to be written now. One that is older than it may be at the next opening is left as it is: it is
// renewed well before that, so this process stood still, or its machine slept. Another instance may have had the task meanwhile, and
// deletions that it has made may be gone from the changelog.
func (s *store) levelTime(nowMs int64) int64 {
	if s.level && (s.levelMs == NoTime || !tooOld(s.levelMs, nowMs, s.deletesMs)) {
		return max(s.levelMs, nowMs)
	}
	return s.levelMs
}

func (s *store) levelDue(nowMs int64) bool {
	t := s.levelTime(nowMs)
	return t != NoTime && (s.disk.head.LevelMs == NoTime || t-s.disk.head.LevelMs >= s.renewMs())
}

// FlushWithinMs is after how long at most FlushDue should be asked again, if nothing is written meanwhile; 0 never. sealed is for what
// is sealed.
func (s *Set) FlushWithinMs(sealed int64) (ms int64) {
	if len(s.disk) == 0 || s.check() != nil {
		return 0
	}
	if s.SealedBytes() > 0 {
		return sealed
	}
	for _, st := range s.disk {
		if n := st.renewMs(); st.level && (ms == 0 || n < ms) {
			ms = n
		}
	}
	return ms
}

// Flush writes what is sealed to Pebble, as one batch in the order of keys: entries, metadata, positions and level times
// of all persistent stores of the set at once, so that what is on disk is consistent whatever happens. It does not wait
// for the disk: Pebble writes its memory out every few seconds, and a crash before that replays the changelog.
//
// An error that wraps ErrDiskFull has changed nothing: the units stay sealed, and Flush may be called again.
func (s *Set) Flush() error {
	if err := s.check(); err != nil {
		return err
	}
	return s.flush(false)
}

func (s *Set) flush(closing bool) error {
	if len(s.disk) == 0 {
		return nil
	}
	now := s.db.opts.Now()
	dirty := closing
	for _, st := range s.disk {
		dirty = dirty || !st.sealed.isEmpty() || st.positionNew || st.levelDue(now)
	}
	if dirty {
		err := s.write(now)
		if err != nil && s.db.opts.LoseUnwritten {
			for _, st := range s.disk {
				st.sealed = newLayer()
			}
		}
		if err != nil {
			return err
		}
	}
	s.sealedSinceMs = NoTime
	for _, st := range s.disk {
		if err := st.disk.lost(); err != nil {
			return err
		}
	}
	return nil
}

// write makes and applies the batch.
func (s *Set) write(now int64) error {
	bytes := s.SealedBytes()
	if err := s.db.checkSpace(bytes); err != nil {
		return err
	}
	// In the order of incarnations, as everyone who takes several of these locks.
	for i, st := range s.disk {
		st.disk.mu.Lock()
		if err := st.disk.gone; err != nil {
			for _, o := range s.disk[:i+1] {
				o.disk.mu.Unlock()
			}
			return err
		}
	}
	defer func() {
		for _, st := range s.disk {
			st.disk.mu.Unlock()
		}
	}()
	batch := s.db.p.NewBatchWithSize(int(bytes) + 256*len(s.disk))
	heads := make([]Header, len(s.disk))
	for i, st := range s.disk {
		var err error
		if heads[i], err = st.addTo(batch, now); err != nil {
			_ = batch.Close()
			return st.disk.wrap("flush", err)
		}
	}
	if err := s.db.write(batch); err != nil {
		return err
	}
	for i, st := range s.disk {
		st.flushed(heads[i])
	}
	return nil
}

// addTo adds to a batch what is new of a store, in the order of keys, and returns the header that goes with it.
func (s *store) addTo(batch *pebble.Batch, now int64) (Header, error) {
	b := s.disk
	head := s.nextHeader(now)
	if s.sealed.isEmpty() && head == b.head {
		return head, nil
	}
	if err := batch.Set(b.inc.headerKey(), head.append(nil), nil); err != nil {
		return head, err
	}
	if err := addMetas(batch, b.inc, s.sealed.metas); err != nil {
		return head, err
	}
	if err := b.addExpiry(batch, head.observed); err != nil {
		return head, err
	}
	buf := make([]byte, 0, 64)
	return head, b.entries(s.sealed, &buf, func(key, val []byte) error { return setOrDelete(batch, key, val) })
}

// entries calls fn with the Pebble key of each entry of a layer, in order.
func (b *diskBase) entries(l *layer, buf *[]byte, fn func(key, val []byte) error) error {
	err := l.points.sorted(func(key string, val []byte) error {
		*buf = append(b.inc.appendTable((*buf)[:0], tablePoint), key...)
		return fn(*buf, val)
	})
	if err != nil {
		return err
	}
	table := tableOf(b.spec.Kind)
	return l.rows.sorted(func(seg int64, key string, r row) error {
		*buf = appendLocalRow(b.inc.appendTable((*buf)[:0], table), b.spec.Kind, seg, viewBytes(key), r.time, r.extra)
		return fn(*buf, r.val)
	})
}

// nextHeader is the header as of now.
func (s *store) nextHeader(now int64) Header {
	h := s.disk.head
	h.TopicID = s.topicID
	if s.spec.windowed() {
		h.SegmentMs = s.spec.SegmentMs
	}
	h.Position, h.HasPosition = s.position, s.hasPosition
	s.levelMs = s.levelTime(now)
	h.LevelMs = s.levelMs
	h.setObserved(max(h.observed, s.sealed.observed))
	return h
}

func (h *Header) setObserved(v int64) {
	h.observed, h.ObservedMs = v, v
	if v == noObserved {
		h.ObservedMs = NoTime
	}
}

func setOrDelete(batch *pebble.Batch, key, val []byte) error {
	if val == nil {
		return batch.Delete(key, nil)
	}
	return batch.Set(key, val, nil)
}

func addMetas(batch *pebble.Batch, inc incarnation, metas map[string]metaValue) error {
	names := make([]string, 0, len(metas))
	for n := range metas {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		var val []byte
		if m := metas[n]; !m.deleted {
			val = binary.BigEndian.AppendUint64(nil, uint64(m.v))
		}
		if err := setOrDelete(batch, inc.appendMetaKey(nil, n), val); err != nil {
			return err
		}
	}
	return nil
}

// expiry returns the range of rows that leave the disk when the observed time moves on.
func (b *diskBase) expiry(observed int64) (start, end []byte, some bool) {
	minSeg := b.spec.minSegment(observed)
	if len(b.segs) == 0 || b.segs[0] >= minSeg {
		return nil, nil, false
	}
	table := b.inc.appendTable(nil, tableOf(b.spec.Kind))
	return appendSegment(slices.Clone(table), b.segs[0]), appendSegment(table, minSeg), true
}

func (b *diskBase) addExpiry(batch *pebble.Batch, observed int64) error {
	start, end, some := b.expiry(observed)
	if !some {
		return nil
	}
	return batch.DeleteRange(start, end, nil)
}

// flushed takes over what was written. The caller holds the handle's mutex.
func (s *store) flushed(head Header) {
	b := s.disk
	if s.sealed.isEmpty() && head == b.head {
		b.dropIdle()
		return
	}
	for k, v := range s.sealed.metas {
		if v.deleted {
			delete(b.numbers, k)
		} else {
			b.numbers[k] = v.v
		}
	}
	if s.sealed.rows != nil {
		for id := range s.sealed.rows.segs {
			b.addSegment(id)
		}
	}
	b.head = head
	b.dropSegments()
	b.wrote()
	s.sealed = newLayer()
	s.positionNew = false
}

func (b *diskBase) addSegment(id int64) {
	if i, found := slices.BinarySearch(b.segs, id); !found {
		b.segs = slices.Insert(b.segs, i, id)
	}
}

// dropSegments forgets the segments that have expired.
func (b *diskBase) dropSegments() {
	minSeg := b.spec.minSegment(b.head.observed)
	i, _ := slices.BinarySearch(b.segs, minSeg)
	b.segs = slices.Delete(b.segs, 0, i)
}
