package conformance

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// DecidedSessions is what is decided not to be as in Kafka Streams about windows and sessions: what is at the border of the
// default retention, and final results. The models keep all records for ever.
func (features) DecidedSessions(r *registry) {
	counted := func(b *millrace.Builder, opts ...millrace.StepOption) millrace.Table[window.Key[string], int64] {
		t, _ := millrace.CountSessions(millrace.From(b, nullable("in")).GroupByKey().SessionBy(window.Session(6*ms).Grace(5*ms)),
			append(opts, millrace.StoreName("counts"))...)
		return t
	}
	for name, on := range map[string]storage{"session-at-the-edge": onDisk, "session-at-the-edge-memory": inMemory} {
		r.differs(name, "C017", func(b *millrace.Builder) {
			counted(b, on()...).ToStream().To(sessions("out", serde.Int64))
		}, func(input []step) map[string][]record {
			return map[string][]record{"out": sessionResultsOf(countSessions(input, 6, 5, 11, false))}
		})
	}
	r.differs("session-close-after-jumps", "C027", func(b *millrace.Builder) {
		counted(b, millrace.EmitOnClose()).ToStream().To(sessions("out", serde.Int64))
	}, func(input []step) map[string][]record {
		return map[string][]record{"out": sessionResultsOf(countSessions(input, 6, 5, 11, true))}
	})
	r.differs("session-of-a-moment", "a session of one moment that is hit again", func(b *millrace.Builder) {
		g := millrace.GroupTableBy(counted(b, millrace.Retain(time.Hour)), func(k window.Key[string], n int64) (string, int64) { return k.Key, n },
			millrace.RepartitionName("g"), millrace.WithKey(serde.String), millrace.WithValue(serde.Int64))
		millrace.AggregateTable(g, func() int64 { return 0 }, func(_ string, n, sum int64) int64 { return sum + n },
			func(_ string, n, sum int64) int64 { return sum - n }, serde.Int64, millrace.StoreName("sums")).ToStream().To(numbers("out"))
	}, func(input []step) map[string][]record {
		return map[string][]record{"out": sumsOfSessions(countSessions(input, 6, 5, time.Hour.Milliseconds(), false))}
	})
	r.differs("cogroup-sessions-behind", "lies behind the others by more than the store's retention", func(b *millrace.Builder) {
		one := func(_ string, _ *string, n int64) int64 { return n + 1 }
		x, y := millrace.From(b, nullable("x")).GroupByKey(), millrace.From(b, nullable("y")).GroupByKey()
		t, _ := millrace.AndCogroup(millrace.Cogroup(x, one), y, one).SessionBy(window.Session(6*ms).Grace(5*ms)).
			Aggregate(func() int64 { return 0 }, func(_ string, m, n int64) int64 { return m + n }, serde.Int64, millrace.StoreName("counts"))
		t.ToStream().To(sessions("out", serde.Int64))
	}, func(input []step) map[string][]record {
		return map[string][]record{"out": sessionResultsOf(countSessions(input, 6, 5, 11, false))}
	})
	r.differs("sliding-close-after-jumps", "C027", func(b *millrace.Builder) {
		w := millrace.From(b, texts("in")).GroupByKey().WindowBy(window.Sliding(10 * ms).Grace(30 * ms))
		t, _ := millrace.CountWindows(w, millrace.StoreName("counts"), millrace.EmitOnClose())
		t.ToStream().To(windowed("out", 10*ms, serde.Int64))
	}, func(input []step) map[string][]record {
		return map[string][]record{"out": finalSlidingCounts(input, 10, 30)}
	})
	r.differs("tumbling-reduce-of-nulls", "A windowed reducer is called with a null value", func(b *millrace.Builder) {
		w := millrace.From(b, texts("in")).GroupByKey().WindowBy(window.Tumbling(10 * ms).Grace(20 * ms))
		t, _ := millrace.ReduceWindows(w, func(x, y string) string { return x + "," + y }, millrace.StoreName("texts"))
		t.ToStream().To(windowed("out", 10*ms, serde.String))
	}, func(input []step) map[string][]record {
		return map[string][]record{"out": reducedWithNulls(input, 10, 20)}
	})
}

// sessionCount is a session, or what has become of one.
type sessionCount struct {
	key        []byte
	start, end int64
	count, was int64 // 0: there is none
	step       int
}

func (s sessionCount) with(count int64, step int) sessionCount {
	s.was, s.count, s.step = s.count, count, step
	return s
}

// countSessions counts the records of sessions, and returns each change of one: those that a record joins go first, the
// earliest before the others; then comes the one that they make together. A session is kept until its end is more than kept
// behind the time, of the record's topic or of the latest session. A record is late if what it would make has ended more than a
// gap and the grace before the time of its own topic, or would not be kept. With onClose there is one change for each session,
// when it has ended so long ago.
func countSessions(input []step, gap, grace, kept int64, onClose bool) (changes []sessionCount) {
	var open []sessionCount
	observed := make(map[string]int64)
	highest := int64(math.MinInt64 / 2)
	for i, in := range input {
		if in.key == nil {
			continue
		}
		now, ok := observed[in.topic]
		if !ok {
			now = -1
		}
		now = max(now, in.tsMs)
		observed[in.topic] = now
		if onClose {
			slices.SortFunc(open, func(a, b sessionCount) int {
				return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start), bytes.Compare(a.key, b.key))
			})
			for len(open) > 0 && open[0].end+gap+grace < now {
				changes = append(changes, open[0].with(open[0].count, i))
				open = open[1:]
			}
		}
		made := sessionCount{key: in.key, start: in.tsMs, end: in.tsMs}
		var joined, others []sessionCount
		for _, s := range open {
			if bytes.Equal(s.key, in.key) && s.start <= in.tsMs+gap && s.end >= in.tsMs-gap && s.end+kept >= max(highest, now) {
				joined = append(joined, s)
				made.start, made.end = min(made.start, s.start), max(made.end, s.end)
			} else {
				others = append(others, s)
			}
		}
		if made.end+gap+grace < now || made.end+kept < highest {
			continue
		}
		slices.SortFunc(joined, func(a, b sessionCount) int { return cmp.Compare(a.start, b.start) })
		for _, s := range joined {
			made.count += s.count
			if made.start < made.end && !onClose {
				changes = append(changes, s.with(0, i))
			}
		}
		if made.start < made.end {
			made.was = 0
		}
		now, made = made.count, made.with(made.count+1, i)
		if made.was = now; made.start < made.end {
			made.was = 0
		}
		highest = max(highest, made.end)
		open = append(others, made)
		if !onClose {
			changes = append(changes, made)
		}
	}
	return changes
}

// sessionResultsOf is the changes of sessions as a topic; a session that is no more is a null.
func sessionResultsOf(changes []sessionCount) (all []record) {
	for _, s := range changes {
		key := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(bytes.Clone(s.key), uint64(s.end)), uint64(s.start))
		var value []byte
		if s.count > 0 {
			value = long(s.count)
		}
		all = append(all, out(s.step, key, value, s.end))
	}
	return all
}

// sumsOfSessions adds up the counts of the sessions of each key.
func sumsOfSessions(changes []sessionCount) (all []record) {
	type sum struct{ n, tsMs int64 }
	sums := make(map[string]sum)
	for _, s := range changes {
		x := sums[string(s.key)]
		x = sum{x.n + s.count - s.was, max(x.tsMs, s.end)}
		sums[string(s.key)] = x
		all = append(all, out(s.step, s.key, long(x.n), x.tsMs))
	}
	return all
}

// finalSlidingCounts is one result for each sliding window: [t-diff, t] for each timestamp t of a key, [0, diff] if t is less
// than diff, and [t+1, t+1+diff] if it holds a record. No record of the input is late.
func finalSlidingCounts(input []step, diff, grace int64) (all []record) {
	type result struct {
		start, count, latest int64
		key                  string
	}
	times := make(map[string][]int64)
	left := make(map[result]bool) // by start and key
	observed := int64(-1)
	for i, in := range input {
		if in.key == nil || in.value == nil {
			continue
		}
		observed = max(observed, in.tsMs)
		var due []result
		for key, ts := range times {
			for _, t := range ts {
				for _, start := range []int64{max(0, t-diff), t + 1} {
					w := result{start: start, key: key}
					if start+diff+grace >= observed || left[w] {
						continue
					}
					for _, x := range ts {
						if start <= x && x <= start+diff {
							w.count++
							w.latest = max(w.latest, x)
						}
					}
					if w.count > 0 {
						left[result{start: start, key: key}] = true
						due = append(due, w)
					}
				}
			}
		}
		slices.SortFunc(due, func(a, b result) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.key, b.key)) })
		for _, w := range due {
			all = append(all, out(i, slices.Concat([]byte(w.key), long(w.start)), long(w.count), w.latest))
		}
		times[string(in.key)] = append(times[string(in.key)], in.tsMs)
	}
	return all
}

// reducedWithNulls puts the values of windows one behind the other. A null moves the time and adds nothing; where it comes first
// it is sent on.
func reducedWithNulls(input []step, size, grace int64) (all []record) {
	type result struct {
		value []byte
		tsMs  int64
	}
	rows := make(map[string]result)
	observed := int64(-1)
	for i, in := range input {
		if in.key == nil {
			continue
		}
		observed = max(observed, in.tsMs)
		start := in.tsMs / size * size
		if start+size+grace <= observed {
			continue
		}
		key := slices.Concat(in.key, long(start))
		row, ok := rows[string(key)]
		switch {
		case !ok:
			row = result{in.value, in.tsMs}
		case in.value != nil:
			row = result{slices.Concat(row.value, []byte(","), in.value), max(row.tsMs, in.tsMs)}
		default:
			row.tsMs = max(row.tsMs, in.tsMs)
		}
		if row.value != nil {
			rows[string(key)] = row
		}
		all = append(all, out(i, key, row.value, row.tsMs))
	}
	return all
}
