package op

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/millis"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/window"
)

// NewSlidingAggregate makes a table of one aggregate for each key and sliding window.
//
// Windows are those of which the record with the timestamp t, and its neighbours of the same key, are the borders: [t-d, t]
// and, once a later record falls into it, [t+1, t+1+d]. What a record does, in this order: it is added to the windows there
// are that hold it, the latest first; the window behind the record before it is made, if it is not there and the new record
// falls into it; its own window [t-d, t] is made, with what the record before has in it; and its window [t+1, t+1+d], with
// what later records have. Records younger than d share [0, d]: there its right window comes first, then the one behind the
// record before, then the shared one.
//
// Records with a null key or value are dropped and counted before they move the time. A record is late as a whole once t+d
// is below the close time, and late for each window whose end is.
//
// In Kafka Streams: KStreamSlidingWindowAggregate.
func NewSlidingAggregate[K, V, A any](w window.SlidingWindows, spec WindowAggregateSpec[K, V, A]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		late, table, err := splitLate[K, V](env, step, spec.Late, children)
		if err != nil {
			return nil, err
		}
		out, err := newWindowOut[K, A](env, step, spec.Table, spec.TimeName, table)
		if err != nil {
			return nil, err
		}
		s := &slidingAggregate[K, V, A]{
			folder: newFolder(env, step, spec.Fold, spec.Init), windowOut: out, diffMs: w.DifferenceMs(),
			graceMs: w.GraceMs(), late: late,
			nullKey: env.counter(step, metrics.NullKey), nullValue: env.counter(step, metrics.NullValue),
		}
		if out.cached {
			s.waiting = newWaitingStarts(out)
		}
		if spec.EmitOnClose {
			s.closing = newSlidingCloser(out, s.diffMs)
		}
		env.OnAdvance(step, s.advance)
		return s, nil
	})
}

type slidingAggregate[K, V, A any] struct {
	folder[K, V, A]
	*windowOut[K, A]
	diffMs, graceMs int64
	late            lateOut[K, V]
	closing         *slidingCloser[K, A]
	waiting         *waitingStarts[K, A] // nil without a cache

	nullKey, nullValue *metrics.Counter

	// Of the record in process:
	prefix   int   // how much of key is the record's key
	closeMs  int64 // windows that end before it are closed
	accepted bool  // it was added to a window
	rows     []slidingRow
	bytes    []byte // the values of rows
}

// slidingRow is a window of the record's key as it stood before the record.
type slidingRow struct {
	startMs, tsMs int64
	at, size      int // of the value in bytes; unused with a cache
}

// none stands for no row.
const none = -1

func (s *slidingAggregate[K, V, A]) Process(r *processor.Record[K, V]) error {
	switch {
	case r.NullKey:
		s.nullKey.Inc()
		return nil
	case r.NullValue:
		s.nullValue.Inc()
		return nil
	}
	s.observedMs = max(s.observedMs, r.TimestampMs)
	s.closeMs = s.observedMs - s.graceMs
	if s.closing != nil {
		if err := s.closing.emit(s.closeMs, r.Headers); err != nil {
			return err
		}
	}
	s.late.begin()
	s.accepted = false
	if s.end(r.TimestampMs) < s.closeMs {
		s.late.miss(window.Window{StartMs: max(0, r.TimestampMs-s.diffMs), EndMs: max(r.TimestampMs, s.diffMs)})
		return s.late.send(r, s.observedMs, false)
	}
	if ok, err := s.encodeKey(r); !ok {
		return err
	}
	var err error
	if r.TimestampMs < s.diffMs {
		err = s.early(r)
	} else {
		err = s.usual(r)
	}
	if err != nil {
		return err
	}
	slices.SortFunc(s.late.missed, func(a, b window.Window) int { return cmp.Compare(a.StartMs, b.StartMs) })
	return s.late.send(r, s.observedMs, s.accepted)
}

// end is the end of the window that starts at startMs.
func (s *slidingAggregate[K, V, A]) end(startMs int64) int64 {
	return millis.Add(startMs, s.diffMs)
}

func (s *slidingAggregate[K, V, A]) span(startMs int64) window.Window {
	return window.Window{StartMs: startMs, EndMs: s.end(startMs)}
}

// encodeKey encodes the record's key once for all its windows. ok is false if the record ends here.
func (s *slidingAggregate[K, V, A]) encodeKey(r *processor.Record[K, V]) (ok bool, err error) {
	for attempt := 1; ; attempt++ {
		b, err := s.store.appendKey(s.key[:0], r.Key)
		if err == nil {
			s.key, s.prefix = b, len(b)
			return true, nil
		}
		if retry, err := s.failed(err, attempt); !retry {
			return false, err
		}
	}
}

// at returns the encoded key of the window that starts at startMs.
func (s *slidingAggregate[K, V, A]) at(startMs int64) []byte {
	s.key = binary.BigEndian.AppendUint64(s.key[:s.prefix], uint64(startMs))
	return s.key
}

// usual takes a record whose window [t-d, t] does not start before the epoch.
func (s *slidingAggregate[K, V, A]) usual(r *processor.Record[K, V]) error {
	t := r.TimestampMs
	if err := s.scan(t, max(0, t-2*s.diffMs), true); err != nil {
		return err
	}
	var (
		rightThere, leftThere bool
		right, left           = none, none  // the windows whose aggregates its own ones start from
		before                = int64(none) // the timestamp of the record before it
		last                  = len(s.rows) // the rows behind are of no concern
		rightAgg              A             // a copy: the window itself is updated before
	)
scan:
	for i, row := range s.rows {
		endMs := s.end(row.startMs)
		switch {
		case row.startMs == t+1:
			rightThere = true
		case endMs > t:
			if right == none {
				right = i
			}
		case endMs == t:
			leftThere = true
			if row.tsMs >= t {
				// Another record of this timestamp: all its windows are there.
				last = i + 1
				rightThere, before = true, none
				break scan
			}
			before = row.tsMs
		default:
			left, before, last = i, row.tsMs, i+1
			break scan
		}
	}
	makesRight := !rightThere && right != none && s.rows[right].tsMs > t
	if makesRight {
		var err error
		if rightAgg, err = s.value(right); err != nil {
			return err
		}
	}
	for i := range s.rows[:last] {
		if row := s.rows[i]; row.startMs <= t && s.end(row.startMs) >= t {
			if err := s.add(r, row.startMs, i, row.tsMs); err != nil {
				return err
			}
		}
	}
	if before != none && s.end(before+1) >= t && !s.has(before+1, last) {
		if err := s.add(r, before+1, none, t); err != nil {
			return err
		}
	}
	if !leftThere {
		if before == none || t-s.diffMs > before {
			left = none
		}
		if err := s.add(r, t-s.diffMs, left, t); err != nil {
			return err
		}
	}
	if makesRight {
		return s.makeRight(r, rightAgg, s.rows[right].tsMs)
	}
	return nil
}

// early takes a record younger than the difference, whose window is [0, d].
func (s *slidingAggregate[K, V, A]) early(r *processor.Record[K, V]) error {
	t := r.TimestampMs
	if err := s.scan(t, 0, false); err != nil {
		return err
	}
	var (
		rightThere    bool
		shared, right = none, none
		before        = int64(none)
	)
	for i, row := range s.rows {
		switch {
		case row.startMs == 0:
			shared = i
			if row.tsMs < t {
				before = row.tsMs
			}
		case row.startMs <= t:
			right = i
		default:
			rightThere = true
		}
	}
	// Without a window between, what the shared one holds is later than the record, if its latest is.
	if right == none && shared != none && s.rows[shared].tsMs > t {
		right = shared
	}
	makesRight := !rightThere && right != none && s.rows[right].tsMs > t
	var rightAgg A
	if makesRight {
		var err error
		if rightAgg, err = s.value(right); err != nil {
			return err
		}
	}
	for i, row := range s.rows {
		if row.startMs > 0 && row.startMs <= t {
			if err := s.add(r, row.startMs, i, row.tsMs); err != nil {
				return err
			}
		}
	}
	if makesRight {
		if err := s.makeRight(r, rightAgg, s.rows[right].tsMs); err != nil {
			return err
		}
	}
	if before != none && !s.has(before+1, len(s.rows)) {
		if err := s.add(r, before+1, none, t); err != nil {
			return err
		}
	}
	if shared == none {
		return s.add(r, 0, none, t)
	}
	return s.add(r, 0, shared, s.rows[shared].tsMs)
}

// has tells whether one of the first rows starts at startMs.
func (s *slidingAggregate[K, V, A]) has(startMs int64, last int) bool {
	return slices.ContainsFunc(s.rows[:last], func(row slidingRow) bool { return row.startMs == startMs })
}

// scan collects the windows of the key that start from fromMs to a millisecond behind the record's timestamp, the latest first
// if reverse is set; it may leave out windows that end before the one that decides.
func (s *slidingAggregate[K, V, A]) scan(tsMs, fromMs int64, reverse bool) (err error) {
	s.rows, s.bytes = s.rows[:0], s.bytes[:0]
	toMs := millis.Add(tsMs, 1)
	if s.waiting != nil {
		return s.scanWaiting(tsMs, fromMs, toMs, reverse)
	}
	it, err := s.store.w.Fetch(s.key[:s.prefix], fromMs, toMs, reverse)
	if err != nil {
		return s.env.fault(s.store.name, err)
	}
	for it.Next() {
		local := it.Value()
		var stamped []byte
		if stamped, err = s.store.cache.Stamped(local); err != nil {
			break
		}
		s.rows = append(s.rows, slidingRow{
			startMs: it.StartMs(), tsMs: int64(binary.BigEndian.Uint64(stamped)), at: len(s.bytes), size: len(local),
		})
		s.bytes = append(s.bytes, local...)
		if reverse && s.end(it.StartMs()) < tsMs {
			break // nothing before it is looked at
		}
	}
	if err == nil {
		err = it.Err()
	}
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	return s.env.fault(s.store.name, err)
}

// scanWaiting is scan where writes wait in a cache.
func (s *slidingAggregate[K, V, A]) scanWaiting(tsMs, fromMs, toMs int64, reverse bool) error {
	starts, err := s.waiting.starts(s.key[:s.prefix], fromMs, toMs)
	if err != nil {
		return err
	}
	if reverse {
		slices.Reverse(starts)
	}
	for _, startMs := range starts {
		_, tsMs, ok, err := s.store.cache.Get(s.at(startMs))
		if err != nil {
			return s.env.fault(s.store.name, err)
		}
		if !ok {
			continue
		}
		s.rows = append(s.rows, slidingRow{startMs: startMs, tsMs: tsMs})
		if reverse && s.end(startMs) < tsMs {
			break
		}
	}
	return nil
}

// value returns the aggregate of a row, a copy that belongs to the caller.
func (s *slidingAggregate[K, V, A]) value(i int) (v A, err error) {
	row := s.rows[i]
	if s.waiting != nil {
		v, _, _, err = s.store.cache.Get(s.at(row.startMs))
	} else {
		v, _, err = s.store.cache.Decode(s.bytes[row.at : row.at+row.size])
	}
	return v, s.env.fault(s.store.name, err)
}

// add takes the record into the window that starts at startMs: into the aggregate of a row of baseTsMs, or a new one if
// base is none. A failure that the policy passes over costs the record this window alone.
func (s *slidingAggregate[K, V, A]) add(r *processor.Record[K, V], startMs int64, base int, baseTsMs int64) error {
	k := window.Key[K]{Key: r.Key, Window: s.span(startMs)}
	if k.Window.EndMs < s.closeMs || s.store.hides(startMs) { // see windowAggregate
		s.late.miss(k.Window)
		return nil
	}
	tsMs := max(r.TimestampMs, baseTsMs)
	for attempt := 1; ; attempt++ {
		c, err := s.update(r, k, base, tsMs)
		if err == nil {
			s.accepted = true
			if s.closing != nil {
				return nil
			}
			return s.sent(k, r.Headers, c, tsMs)
		}
		if retry, err := s.failed(err, attempt); !retry {
			return err
		}
	}
}

func (s *slidingAggregate[K, V, A]) update(r *processor.Record[K, V], k window.Key[K], base int, tsMs int64) (c Change[A], err error) {
	var agg A
	if base != none {
		if agg, err = s.value(base); err != nil {
			return c, err
		}
	}
	if c.New, c.HasNew, err = s.fold(r, agg, base != none); err != nil {
		return c, err
	}
	return c, s.write(r, k, &c, tsMs)
}

// makeRight makes the window that starts behind the record, out of what later records have.
func (s *slidingAggregate[K, V, A]) makeRight(r *processor.Record[K, V], agg A, tsMs int64) error {
	k := window.Key[K]{Key: r.Key, Window: s.span(r.TimestampMs + 1)}
	if s.store.hides(k.Window.StartMs) {
		return nil // as are all windows of the record
	}
	c := Change[A]{New: agg, HasNew: true}
	for attempt := 1; ; attempt++ {
		err := s.write(r, k, &c, tsMs)
		if err == nil {
			if s.closing != nil {
				return nil
			}
			return s.sent(k, r.Headers, c, tsMs)
		}
		if retry, err := s.failed(err, attempt); !retry {
			return err
		}
	}
}

// write puts a window, and tells those who must know of a new one.
func (s *slidingAggregate[K, V, A]) write(r *processor.Record[K, V], k window.Key[K], c *Change[A], tsMs int64) error {
	key := s.at(k.Window.StartMs)
	if s.sendOld && !s.cached && s.closing == nil {
		// What was sent last, a moment ago perhaps: the record's own window may be the one behind the record before it.
		var err error
		if c.Old, _, c.HasOld, err = s.store.cache.Get(key); err != nil {
			return s.env.fault(s.store.name, err)
		}
	}
	if s.waiting != nil {
		s.waiting.add(key[:s.prefix], k.Window.StartMs)
	}
	if err := s.put(key, k, r.Headers, c, tsMs, r.TimestampMs); err != nil {
		return err
	}
	if s.closing != nil && !s.has(k.Window.StartMs, len(s.rows)) {
		s.closing.due.add(k.Window.StartMs, 0, s.key[:s.prefix])
	}
	return nil
}

// advance takes the time of a quiet source.
func (s *slidingAggregate[K, V, A]) advance(toMs int64) error {
	s.observedMs = max(s.observedMs, toMs)
	if s.closing == nil {
		return nil
	}
	return s.closing.emit(s.observedMs-s.graceMs, nil)
}
