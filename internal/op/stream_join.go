package op

import (
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/millis"
	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// StreamJoinSpec describes a join of two streams. All its steps share it: two that keep the records of a side (JoinWindow),
// two that look for the other side's (StreamJoin), and one that brings the results together.
//
// # Time
//
// The join's time is the highest timestamp that either side has seen; records that are dropped for a null count. It decides
// three things, all in the same way: the window of a record closes when the time is beyond the record's timestamp plus the
// span ahead (after for a left record, before for a right one) plus the grace.
//   - A record whose window has closed is late: it is dropped, counted, and sent to the late stream.
//   - A row that waits for a match and whose window closes is released: sent on without the other side.
//   - A row of a side that is kept without a match takes no more matches once its window has closed, so nothing follows its
//     final result. Rows of the other sides are joined as long as the record that meets them is not late.
//
// So a result never depends on anything but the timestamps and the order of the records taken.
type StreamJoinSpec[K, L, R, O any] struct {
	BeforeMs, AfterMs, GraceMs int64
	// LeftStore and RightStore are JoinStores; Unmatched is the store of the rows that wait, empty for an inner join.
	LeftStore, RightStore, Unmatched string
	// KeepLeft and KeepRight say which sides are kept where nothing matches.
	KeepLeft, KeepRight bool
	// Self says that both sides are one stream: a record is late as soon as it is for one of its two parts.
	Self bool
	// Merge is the step that brings the results together.
	Merge string
	// Late names the step that takes late records; empty: they are only counted. It is read when a task is built.
	Late *string
	Join func(l L, okL bool, r R, okR bool) (O, error)
}

// spanMs is how long after a side's row its window closes.
func (s *StreamJoinSpec[K, L, R, O]) spanMs(side byte) int64 {
	ahead := s.AfterMs
	if side == rightSide {
		ahead = s.BeforeMs
	}
	return millis.Add(ahead, s.GraceMs)
}

// time returns what the steps of the join share in one task.
func (s *StreamJoinSpec[K, L, R, O]) time(env *Env, step string) (*joinTime, error) {
	left, err := typedStore[*JoinStore[K, L]](env, step, s.LeftStore)
	if err != nil {
		return nil, err
	}
	if left.join != nil {
		return left.join, nil
	}
	t := &joinTime{beforeMs: s.BeforeMs, afterMs: s.AfterMs}
	t.seenMs[leftSide] = &left.observedMs
	t.nowMs = left.observedMs
	if s.RightStore != s.LeftStore {
		right, err := typedStore[*JoinStore[K, R]](env, step, s.RightStore)
		if err != nil {
			return nil, err
		}
		t.seenMs[rightSide] = &right.observedMs
		t.nowMs = max(t.nowMs, right.observedMs)
	}
	for side := range t.spanMs {
		t.spanMs[side] = s.spanMs(byte(side))
		t.lateMs[side] = t.spanMs[side]
	}
	if s.Self {
		least := min(t.lateMs[leftSide], t.lateMs[rightSide])
		t.lateMs = [2]int64{least, least}
	}
	left.join = t
	return t, nil
}

// joinTime is what the steps of one join share in a task: its time. Each side's highest timestamp stands with its store, so
// that each changelog stands for its own.
type joinTime struct {
	seenMs            [2]*int64 // by side
	nowMs             int64
	spanMs            [2]int64 // from a row to the close of its window, by side
	lateMs            [2]int64 // from a record to where it is late, by side
	beforeMs, afterMs int64
	// release sends on the rows that have become due; nil for an inner join.
	release func(headers serde.Headers, tsMs int64) error
}

// observe takes a timestamp of a side, and says whether it moves the time.
func (t *joinTime) observe(side byte, tsMs int64) bool {
	if seen := t.seenMs[side]; tsMs > *seen {
		*seen = tsMs
	}
	if tsMs <= t.nowMs {
		return false
	}
	t.nowMs = tsMs
	return true
}

// advance raises the time of both sides where only time passes.
func (t *joinTime) advance(toMs int64) {
	for _, seen := range t.seenMs {
		if seen != nil {
			*seen = max(*seen, toMs)
		}
	}
	t.nowMs = max(t.nowMs, toMs)
}

// late tells whether a record comes after its window and the grace.
func (t *joinTime) late(side byte, tsMs int64) bool {
	return millis.Add(tsMs, t.lateMs[side]) < t.nowMs
}

// closed tells whether a row takes no more matches.
func (t *joinTime) closed(side byte, tsMs int64) bool {
	return millis.Add(tsMs, t.spanMs[side]) < t.nowMs
}

// dueBelow returns, by side, the timestamp below which rows are due.
func (t *joinTime) dueBelow() (bounds [2]int64) {
	for side := range bounds {
		bounds[side] = millis.Add(t.nowMs, -t.spanMs[side])
	}
	return bounds
}

// reach returns the timestamps of the other side between which a record's matches lie, both included. Of none the end is below
// the start.
func (t *joinTime) reach(side byte, tsMs int64) (fromMs, toMs int64) {
	back, ahead := t.beforeMs, t.afterMs
	if side == rightSide {
		back, ahead = ahead, back
	}
	return max(0, millis.Add(tsMs, -back)), millis.Add(tsMs, ahead)
}

// NewStreamJoinLeft makes the step that looks for the right rows of each left record.
func NewStreamJoinLeft[K, L, R, O any](spec *StreamJoinSpec[K, L, R, O]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		right, err := typedStore[*JoinStore[K, R]](env, step, spec.RightStore)
		if err != nil {
			return nil, err
		}
		j, err := newStreamJoin[K, L, R, O](env, step, leftSide, spec.KeepLeft, spec.KeepRight, right, children, spec.Join)
		if err != nil {
			return nil, err
		}
		if j.own, err = typedStore[*JoinStore[K, L]](env, step, spec.LeftStore); err != nil {
			return nil, err
		}
		if j.time, err = spec.time(env, step); err != nil {
			return nil, err
		}
		if spec.Unmatched == "" {
			return j, nil
		}
		if j.unmatched, err = typedStore[*Unmatched](env, step, spec.Unmatched); err != nil {
			return nil, err
		}
		release := &joinRelease[K, L, R, O]{guard: j.guard, spec: spec, time: j.time, unmatched: j.unmatched, next: j.next, left: j.own, right: right, nilValue: j.nilValue}
		j.time.release = release.run
		env.OnAdvance(spec.Merge, func(toMs int64) error {
			j.time.advance(toMs)
			return release.run(env.cur.headers, max(env.cur.tsMs, toMs))
		})
		return j, nil
	})
}

// NewStreamJoinRight makes the step that looks for the left rows of each right record.
func NewStreamJoinRight[K, L, R, O any](spec *StreamJoinSpec[K, L, R, O]) Factory {
	join := func(r R, okR bool, l L, okL bool) (O, error) { return spec.Join(l, okL, r, okR) }
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		left, err := typedStore[*JoinStore[K, L]](env, step, spec.LeftStore)
		if err != nil {
			return nil, err
		}
		j, err := newStreamJoin[K, R, L, O](env, step, rightSide, spec.KeepRight, spec.KeepLeft, left, children, join)
		if err != nil {
			return nil, err
		}
		if j.own, err = typedStore[*JoinStore[K, R]](env, step, spec.RightStore); err != nil {
			return nil, err
		}
		if j.time, err = spec.time(env, step); err != nil {
			return nil, err
		}
		if spec.Unmatched != "" {
			j.unmatched, err = typedStore[*Unmatched](env, step, spec.Unmatched)
		}
		return j, err
	})
}

// streamJoin looks for matches of the records of one side, whose values are V, among the rows of the other, whose values are
// W.
type streamJoin[K, V, W, O any] struct {
	guard
	side      byte
	keep      bool // records without a match are kept
	keepOther bool // so are rows of the other side
	own       *JoinStore[K, V]
	other     *JoinStore[K, W]
	unmatched *Unmatched // nil for an inner join
	time      *joinTime
	join      func(v V, okV bool, w W, okW bool) (O, error)
	next      Sink[K, O]
	nilValue  func(*O) bool
	closed    *metrics.Counter

	key   []byte
	value []byte
	out   processor.Record[K, O]
}

func newStreamJoin[K, V, W, O any](env *Env, step string, side byte, keep, keepOther bool, other *JoinStore[K, W], children []Child,
	join func(v V, okV bool, w W, okW bool) (O, error)) (*streamJoin[K, V, W, O], error) {
	next, err := Downstream[K, O](step, children)
	if err != nil {
		return nil, err
	}
	return &streamJoin[K, V, W, O]{
		guard: newGuard(env, step), side: side, keep: keep, keepOther: keepOther, other: other, join: join, next: next,
		nilValue: nilness.Checker[O](), closed: env.counter(step, metrics.JoinClosed),
	}, nil
}

// Process takes a record that has a value and is not late. Its key may be null if the side is kept.
func (j *streamJoin[K, V, W, O]) Process(r *processor.Record[K, V]) error {
	if r.NullKey {
		return j.alone(r)
	}
	for attempt := 1; ; attempt++ {
		key, err := j.other.appendKey(j.key[:0], r.Key)
		if err == nil {
			j.key = key
			return j.probe(r)
		}
		if retry, err := j.failed(err, attempt); !retry {
			return err
		}
	}
}

// probe joins a record with the rows that are there, in the order of their timestamps and of their coming, and lets it wait if
// there are none.
func (j *streamJoin[K, V, W, O]) probe(r *processor.Record[K, V]) error {
	fromMs, toMs := j.time.reach(j.side, r.TimestampMs)
	it, err := j.other.fetch(j.key, fromMs, toMs)
	if err != nil {
		return err
	}
	matched, err := j.matches(r, it)
	if e := it.Close(); e != nil && err == nil {
		err = j.env.fault(j.other.name, e)
	}
	if err != nil || matched || !j.keep {
		return err
	}
	return j.wait(r)
}

func (j *streamJoin[K, V, W, O]) matches(r *processor.Record[K, V], it *state.Iterator) (matched bool, err error) {
	other := 1 - j.side
	for it.Next() {
		rowMs := it.StartMs()
		if j.keepOther && j.time.closed(other, rowMs) {
			j.closed.Inc()
			continue
		}
		matched = true
		if j.keepOther {
			if err := j.unmatched.Match(other, rowMs, j.key, r.TimestampMs); err != nil {
				return matched, err
			}
		}
		if err := j.pair(r, it.Value(), rowMs); err != nil {
			return matched, err
		}
	}
	return matched, j.env.fault(j.other.name, it.Err())
}

// pair sends on one result. A failure that the policy passes over costs this one alone.
func (j *streamJoin[K, V, W, O]) pair(r *processor.Record[K, V], row []byte, rowMs int64) error {
	for attempt := 1; ; attempt++ {
		err := j.callPair(r, row)
		if err == nil {
			return j.send(r, max(r.TimestampMs, rowMs))
		}
		if retry, err := j.failed(err, attempt); !retry {
			return err
		}
	}
}

func (j *streamJoin[K, V, W, O]) callPair(r *processor.Record[K, V], row []byte) (err error) {
	w, err := j.other.decode(row)
	if err != nil {
		return err
	}
	defer recovered(&err)
	j.out.Value, err = j.join(r.Value, true, w, true)
	return err
}

// alone sends on a record that can have no match.
func (j *streamJoin[K, V, W, O]) alone(r *processor.Record[K, V]) error {
	for attempt := 1; ; attempt++ {
		err := j.callAlone(r)
		if err == nil {
			return j.send(r, r.TimestampMs)
		}
		if retry, err := j.failed(err, attempt); !retry {
			return err
		}
	}
}

func (j *streamJoin[K, V, W, O]) callAlone(r *processor.Record[K, V]) (err error) {
	defer recovered(&err)
	var none W
	j.out.Value, err = j.join(r.Value, true, none, false)
	return err
}

func (j *streamJoin[K, V, W, O]) send(r *processor.Record[K, V], tsMs int64) error {
	j.out.Key, j.out.NullKey, j.out.Headers, j.out.TimestampMs = r.Key, r.NullKey, r.Headers, tsMs
	j.out.NullValue = j.nilValue != nil && j.nilValue(&j.out.Value)
	return j.next.Process(&j.out)
}

// wait keeps a record until it meets one of the other side or its window closes.
func (j *streamJoin[K, V, W, O]) wait(r *processor.Record[K, V]) error {
	for attempt := 1; ; attempt++ {
		value, err := j.own.appendValue(j.value[:0], r.Value)
		if err == nil {
			j.value = value
			return j.unmatched.Add(j.side, r.TimestampMs, j.key, value)
		}
		if retry, err := j.failed(err, attempt); !retry {
			return err
		}
	}
}
