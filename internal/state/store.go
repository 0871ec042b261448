package state

import (
	"fmt"
	"math"
)

// store is one store of a Set with its layers. KV, WindowStore and SessionStore are its faces.
type store struct {
	set  *Set
	spec Spec
	at   int // index within the set

	private *layer
	pending []*layer // of units not decided, oldest first
	sealed  *layer   // persistent stores only
	base    base
	disk    *diskBase   // base, if the store is persistent
	memory  *memoryBase // base, if it is not

	position    Position // what sealed and base stand for
	hasPosition bool
	positionNew bool // not yet on disk

	levelMs int64    // when the store was last level with its changelog, NoTime if never
	level   bool     // it has stayed level since: renewed at each flush
	topicID [16]byte // of the changelog
	// deletesMs is how long the changelog keeps deletions; 0 as long as records, or not known.
	deletesMs int64
	opened    OpenReport

	segmentMs int64 // as defined; spec has what the rows on disk have

	high int64 // highest time over all layers, noObserved if none
	// bound, if bounded, is how far rows that are put move high: see SessionStore.SetTime.
	bound   int64
	bounded bool
	iters   int // open iterators

	restoring bool
}

func newStore(set *Set, spec Spec, at int) *store {
	return &store{set: set, spec: spec, segmentMs: spec.SegmentMs, at: at, private: newLayer(), sealed: newLayer(), high: noObserved, levelMs: NoTime}
}

func (s *store) errorf(format string, args ...any) error {
	return fmt.Errorf("millrace: store %q%s: "+format, append([]any{s.spec.Name, s.set.ofTask()}, args...)...)
}

// findPoint looks for a key in the layers above the base, newest first. A deletion is found with a nil value.
func (s *store) findPoint(key []byte) (val []byte, found bool) {
	if v, ok := s.private.points.get(key); ok {
		return v, true
	}
	for i := len(s.pending) - 1; i >= 0; i-- {
		if v, ok := s.pending[i].points.get(key); ok {
			return v, true
		}
	}
	return s.sealed.points.get(key)
}

// findRow does the same for a row.
func (s *store) findRow(seg int64, key []byte, time int64, extra uint64) (val []byte, found bool) {
	if v, ok := s.private.rows.get(seg, key, time, extra); ok {
		return v, true
	}
	for i := len(s.pending) - 1; i >= 0; i-- {
		if v, ok := s.pending[i].rows.get(seg, key, time, extra); ok {
			return v, true
		}
	}
	return s.sealed.rows.get(seg, key, time, extra)
}

func (s *store) getPoint(key []byte) ([]byte, bool, error) {
	if err := s.set.check(); err != nil {
		return nil, false, err
	}
	if v, found := s.findPoint(key); found {
		return v, v != nil, nil
	}
	return s.base.point(key)
}

func (s *store) putPoint(key, val []byte) error {
	if err := s.set.check(); err != nil {
		return err
	}
	s.writePoint(key, val)
	return nil
}

func (s *store) getRow(key []byte, time int64, extra uint64) ([]byte, bool, error) {
	if err := s.set.check(); err != nil {
		return nil, false, err
	}
	if !s.visible(time) {
		return nil, false, nil
	}
	seg := s.segmentOf(time)
	if v, found := s.findRow(seg, key, time, extra); found {
		return v, v != nil, nil
	}
	return s.base.row(seg, key, time, extra)
}

// putRow writes a row, or deletes it if the value is nil, and moves the observed time.
func (s *store) putRow(key []byte, time int64, extra uint64, val []byte) (accepted bool, err error) {
	if err := s.set.check(); err != nil {
		return false, err
	}
	s.observe(time)
	if !s.visible(time) {
		return false, nil
	}
	s.writeRow(key, time, extra, val)
	return true, nil
}

// visible tells whether a row of that time is within the retention.
func (s *store) visible(time int64) bool {
	return s.high == noObserved || time > s.high-s.spec.RetentionMs
}

func (s *store) segmentOf(time int64) int64 { return segmentOf(time, s.spec.SegmentMs) }

// minSegment is the lowest segment that can hold a visible row.
func (s *store) minSegment() int64 { return s.spec.minSegment(s.high) }

func segmentOf(time, segmentMs int64) int64 {
	q := time / segmentMs
	if time%segmentMs < 0 {
		q--
	}
	return q
}

func (s *Spec) minSegment(observed int64) int64 {
	if observed == noObserved || !s.windowed() {
		return math.MinInt64
	}
	return segmentOf(observed-s.RetentionMs+1, s.SegmentMs)
}

// observe moves the observed time, and drops the rows of the private layer that it leaves behind.
func (s *store) observe(time int64) {
	if s.bounded {
		time = min(time, s.bound)
	}
	if time <= s.high {
		return
	}
	old := s.minSegment()
	s.high = time
	s.private.observed = time
	if now := s.minSegment(); now > old {
		s.private.rows.dropBelow(now)
	}
}

// writePoint sets or deletes a point in the private layer.
func (s *store) writePoint(key, val []byte) {
	if s.private.points == nil {
		s.private.points = newPoints(s.spec.Ordered, 0)
	}
	s.private.points.put(key, val, s.iters == 0)
}

// writeRow sets or deletes a row in the private layer.
func (s *store) writeRow(key []byte, time int64, extra uint64, val []byte) {
	if s.private.rows == nil {
		s.private.rows = newRows()
	}
	s.private.rows.put(s.segmentOf(time), key, time, extra, val, s.iters == 0)
}

// rewind finds the observed time anew after layers were dropped.
func (s *store) rewind() {
	s.high = max(s.base.observed(), s.sealed.observed, s.private.observed)
	for _, l := range s.pending {
		s.high = max(s.high, l.observed)
	}
}

func (s *store) meta(key string) (int64, bool) {
	if v, ok := s.private.metas[key]; ok {
		return v.v, !v.deleted
	}
	for i := len(s.pending) - 1; i >= 0; i-- {
		if v, ok := s.pending[i].metas[key]; ok {
			return v.v, !v.deleted
		}
	}
	if v, ok := s.sealed.metas[key]; ok {
		return v.v, !v.deleted
	}
	return s.base.meta(key)
}

// handOver takes the private layer as the newest pending one; nil if it is empty.
func (s *store) handOver() *layer {
	l := s.private
	if l.isEmpty() {
		return nil
	}
	s.private = newLayer()
	if n := l.points.len(); n > 0 {
		s.private.points = newPoints(s.spec.Ordered, min(n, 1024))
	}
	s.pending = append(s.pending, l)
	return l
}

// seal takes the oldest pending layer down.
func (s *store) seal(l *layer) {
	s.pending[0] = nil
	s.pending = s.pending[1:]
	if len(s.pending) == 0 {
		s.pending = nil
	}
	observed := max(s.base.observed(), s.sealed.observed, l.observed)
	minSeg := s.spec.minSegment(observed)
	if s.memory != nil {
		s.memory.merge(l, minSeg)
		return
	}
	s.sealed.merge(l, minSeg)
}
