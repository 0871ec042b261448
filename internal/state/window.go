package state

import "math"

// SeqMeta is the number of a window store's metadata that holds the highest sequence number given. The step that owns a store
// with duplicates sets it; a restore raises it to the highest number that it has read, so that the numbers go on from there
// and no row takes the place of another. Stores whose rows have no numbers do not have it.
const SeqMeta = "sequence"

// WindowStore is a store of one value for each key, window start and sequence number. The number tells rows of one key
// and start apart in stores that keep duplicates; it is 0 in all others.
//
// A row is visible if, and only if, its start is greater than the highest start that was put, minus the retention. When
// the highest start moves, whole segments of rows leave memory and disk.
type WindowStore struct{ s *store }

// Get returns the value of a row. The value is valid until the next call on the Set and must not be changed.
func (w *WindowStore) Get(key []byte, startMs int64, seq uint32) (value []byte, ok bool, err error) {
	return w.s.getRow(key, startMs, uint64(seq))
}

// Put sets the value of a row in the private layer and moves the observed start. It copies key and value; a nil value is
// stored as an empty one. A row that has expired is not written, and accepted is false.
func (w *WindowStore) Put(key []byte, startMs int64, seq uint32, value []byte) (accepted bool, err error) {
	if value == nil {
		value = empty
	}
	return w.s.putRow(key, startMs, uint64(seq), value)
}

// Delete removes a row. Like Put it moves the observed start, and leaves alone what has expired.
func (w *WindowStore) Delete(key []byte, startMs int64, seq uint32) (accepted bool, err error) {
	return w.s.putRow(key, startMs, uint64(seq), nil)
}

// Fetch walks the rows of one key whose start lies within the bounds, both included, in the order of start and sequence
// number, or in the opposite order. It shows the store as it is now.
func (w *WindowStore) Fetch(key []byte, fromMs, toMs int64, reverse bool) (*Iterator, error) {
	return w.s.fetch(rowQuery{key: key, from: fromMs, to: toMs, maxExtra: math.MaxUint64, reverse: reverse})
}

// FetchAll walks the rows of all keys whose start lies within the bounds, both included: segment by segment, in each by
// key bytes, then start, then sequence number. It reads the segments that the bounds touch as a whole.
func (w *WindowStore) FetchAll(fromMs, toMs int64, reverse bool) (*Iterator, error) {
	return w.s.fetch(rowQuery{all: true, from: fromMs, to: toMs, maxExtra: math.MaxUint64, reverse: reverse})
}

// ObservedStartMs is the highest start that was put or restored, NoTime if there was none.
func (w *WindowStore) ObservedStartMs() int64 { return w.s.observedMs() }

// Spec describes the store.
func (w *WindowStore) Spec() Spec { return w.s.spec }

// SessionStore is a store of one value for each key, session end and session start. Retention follows the ends as that of
// a WindowStore follows the starts.
type SessionStore struct{ s *store }

// Get returns the value of a session. The value is valid until the next call on the Set and must not be changed.
func (w *SessionStore) Get(key []byte, startMs, endMs int64) (value []byte, ok bool, err error) {
	return w.s.getRow(key, endMs, sortable(startMs))
}

// Put sets the value of a session in the private layer and moves the observed end. It copies key and value; a nil value
// is stored as an empty one. A session that has expired is not written, and accepted is false.
func (w *SessionStore) Put(key []byte, startMs, endMs int64, value []byte) (accepted bool, err error) {
	if value == nil {
		value = empty
	}
	return w.s.putRow(key, endMs, sortable(startMs), value)
}

// Delete removes a session. Like Put it moves the observed end, and leaves alone what has expired.
func (w *SessionStore) Delete(key []byte, startMs, endMs int64) (accepted bool, err error) {
	return w.s.putRow(key, endMs, sortable(startMs), nil)
}

// SetTime says how far the time has come for the step that puts the sessions: an end beyond it does not move the observed end.
// There are such ends after a crash, when the changelog is ahead of the input: a record that comes in again is merged into a
// session that has grown already, which must not make the others look old.
func (w *SessionStore) SetTime(ms int64) { w.s.bound, w.s.bounded = ms, true }

// Find walks the sessions of one key that end at earliestEndMs or later and start at latestStartMs or earlier, in the
// order of end and start, or in the opposite order. It shows the store as it is now.
func (w *SessionStore) Find(key []byte, earliestEndMs, latestStartMs int64, reverse bool) (*Iterator, error) {
	return w.s.fetchSessions(rowQuery{
		key: key, from: earliestEndMs, to: math.MaxInt64, maxExtra: sortable(latestStartMs), reverse: reverse,
	})
}

// FindAll walks the sessions of all keys whose end lies within the bounds, both included: segment by segment, in each by
// key bytes, then end, then start.
func (w *SessionStore) FindAll(fromEndMs, toEndMs int64, reverse bool) (*Iterator, error) {
	return w.s.fetchSessions(rowQuery{all: true, from: fromEndMs, to: toEndMs, maxExtra: math.MaxUint64, reverse: reverse})
}

// ObservedEndMs is the highest end that was put or restored, NoTime if there was none.
func (w *SessionStore) ObservedEndMs() int64 { return w.s.observedMs() }

// Spec describes the store.
func (w *SessionStore) Spec() Spec { return w.s.spec }

// sortable maps a signed number to an unsigned one of the same order, and back again.
func sortable(v int64) uint64 { return uint64(v) ^ 1<<63 }

func unsortable(v uint64) int64 { return int64(v ^ 1<<63) }

func (s *store) observedMs() int64 {
	if s.high == noObserved {
		return NoTime
	}
	return s.high
}

func (s *store) fetch(q rowQuery) (*Iterator, error) {
	if s.high == noObserved {
		q.from, q.to = 1, 0
	} else {
		q.from = max(q.from, s.high-s.spec.RetentionMs+1)
		q.to = min(q.to, s.high)
	}
	return s.fetchRows(q)
}

// fetchSessions walks sessions, those beyond the observed time too: after a crash the changelog may be ahead of the input, and a
// record that comes in again belongs to the session that it has been merged into, not beside it.
func (s *store) fetchSessions(q rowQuery) (*Iterator, error) {
	if s.high != noObserved {
		q.from = max(q.from, s.high-s.spec.RetentionMs+1)
	}
	return s.fetchRows(q)
}

// fetchRows walks rows that may lie beyond the observed time.
func (s *store) fetchRows(q rowQuery) (*Iterator, error) {
	if err := s.set.check(); err != nil {
		return nil, err
	}
	it := newIterator(s, q.reverse)
	if q.from > q.to {
		return it, nil
	}
	q.fromSeg, q.toSeg = s.segmentOf(q.from), s.segmentOf(q.to)
	it.add(s.private.rows.cursor(&q))
	for i := len(s.pending) - 1; i >= 0; i-- {
		it.add(s.pending[i].rows.cursor(&q))
	}
	it.add(s.sealed.rows.cursor(&q))
	c, err := s.base.rows(&q)
	if err != nil {
		_ = it.Close()
		return nil, err
	}
	it.add(c)
	return it, nil
}
