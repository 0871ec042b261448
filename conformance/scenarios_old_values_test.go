package conformance

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// OldValues is groups, and joins by foreign key, of tables whose updates Kafka Streams sends along with an old value that it has
// not sent before: what was suppressed, and windows that slide; and final results.
func (features) OldValues(r *registry) {
	const rule = "A suppressed table sends along"
	for name, on := range map[string]storage{"": onDisk, "-memory": inMemory} {
		r.differs("suppress-group"+name, rule, func(b *millrace.Builder) {
			plusMinus(byFirstLetter(held(tableOf(b, "in", "rows", on))), on).ToStream().To(texts("out"))
		}, func(input []step) map[string][]record {
			return map[string][]record{"out": groupsOf(heldBack(input, "in", 12))}
		})
		r.differs("suppress-foreign-key"+name, rule, func(b *millrace.Builder) {
			left := held(tableOf(b, "l", "left", on))
			right := tableOf(b, "r", "right", on)
			millrace.LeftJoinForeignKey(left, right, foreign, leftSlash, on(millrace.NodeName("fj"))...).ToStream().To(texts("out"))
		}, func(input []step) map[string][]record {
			return map[string][]record{"out": joinedByReference(input, heldBack(input, "l", 12))}
		})
		r.differs("suppress-windows-group"+name, rule, func(b *millrace.Builder) {
			counts := untilClosed(countedInTens(millrace.From(b, texts("in")), on))
			sumByKey(counts, on).ToStream().To(numbers("out"))
		}, func(input []step) map[string][]record {
			return map[string][]record{"out": sumsOf(finalCounts(input, 10, 5))}
		})
		r.differs("sliding-group"+name, "A sliding window is sent along", func(b *millrace.Builder) {
			w := millrace.From(b, texts("in")).GroupByKey().WindowBy(window.Sliding(10 * ms).Grace(1000 * ms))
			counts, _ := millrace.CountWindows(w, on(millrace.StoreName("counts"))...)
			sumByKey(counts, on).ToStream().To(numbers("out"))
		}, func(input []step) map[string][]record {
			return map[string][]record{"out": sumsOfSliding(input, 10)}
		})
	}
	r.differs("suppress-sessions-final", "A session or a sliding window leaves", func(b *millrace.Builder) {
		w := millrace.From(b, texts("in")).GroupByKey().SessionBy(window.Session(6 * ms).Grace(5 * ms))
		counts, _ := millrace.CountSessions(w, millrace.StoreName("counts"))
		untilClosed(counts).ToStream().To(sessions("out", serde.Int64))
	}, func(input []step) map[string][]record {
		return map[string][]record{"out": finalSessions(input, 6, 5)}
	})
}

// sumByKey sums the counts of all windows of a key.
func sumByKey(t millrace.Table[window.Key[string], int64], on storage) millrace.Table[string, int64] {
	g := millrace.GroupTableBy(t, func(k window.Key[string], n int64) (string, int64) { return k.Key, n },
		millrace.RepartitionName("g"), textKey, millrace.WithValue(serde.Int64))
	return millrace.AggregateTable(g, func() int64 { return 0 }, func(_ string, n, sum int64) int64 { return sum + n },
		func(_ string, n, sum int64) int64 { return sum - n }, serde.Int64, on(millrace.StoreName("sums"))...)
}

// sentUpdate is an update of a row, after a step; a side without a row is nil.
type sentUpdate struct {
	key, was, is []byte
	tsMs         int64
	step         int
}

// heldBack is what a suppression until a time limit sends of a topic's rows.
func heldBack(input []step, topic string, wait int64) (all []sentUpdate) {
	type waiting struct {
		sentUpdate
		since int64
	}
	var held []waiting
	sent := make(map[string][]byte)
	observed := int64(-1)
	for i, in := range input {
		if in.topic != topic || in.key == nil {
			continue
		}
		observed = max(observed, in.tsMs)
		at := slices.IndexFunc(held, func(w waiting) bool { return bytes.Equal(w.key, in.key) })
		if at < 0 {
			at = len(held)
			held = append(held, waiting{sentUpdate{key: in.key}, in.tsMs})
		}
		held[at].is, held[at].tsMs = in.value, in.tsMs
		slices.SortFunc(held, func(a, b waiting) int {
			return cmp.Or(cmp.Compare(a.since, b.since), bytes.Compare(a.key, b.key))
		})
		for len(held) > 0 && held[0].since+wait <= observed {
			u := held[0].sentUpdate
			held = held[1:]
			u.was, u.step = sent[string(u.key)], i
			sent[string(u.key)] = u.is
			all = append(all, u)
		}
	}
	return all
}

// groupsOf writes down what comes to the groups of rows by their first letter, and what goes.
func groupsOf(updates []sentUpdate) (all []record) {
	type group struct {
		text string
		tsMs int64
	}
	groups := make(map[byte]group)
	take := func(u sentUpdate, letter byte, was, is []byte) {
		g, ok := groups[letter]
		if was != nil && ok {
			g.text += "-" + string(was)
		}
		if is != nil {
			g.text += "+" + string(is)
		}
		g.tsMs = max(g.tsMs, u.tsMs)
		groups[letter] = g
		all = append(all, out(u.step, []byte{letter}, []byte(g.text), g.tsMs))
	}
	for _, u := range updates {
		switch {
		case u.was != nil && u.is != nil && u.was[0] == u.is[0]:
			take(u, u.is[0], u.was, u.is)
		default:
			if u.was != nil {
				take(u, u.was[0], u.was, nil)
			}
			if u.is != nil {
				take(u, u.is[0], nil, u.is)
			}
		}
	}
	return all
}

// joinedByReference joins the updates of left rows, and each update of a right row with the left rows that refer to it.
func joinedByReference(input []step, updates []sentUpdate) (all []record) {
	left, right := make(map[string]sentUpdate), make(map[string]record)
	join := func(at int, l sentUpdate, tsMs int64) {
		if l.is == nil {
			all = append(all, out(at, l.key, nil, tsMs))
			return
		}
		value := "null"
		if to, ok := foreign("", string(l.is)); ok {
			if r := right[to]; r.value != nil {
				value, tsMs = string(r.value), max(tsMs, r.tsMs)
			}
		}
		all = append(all, out(at, l.key, []byte(string(l.is)+"/"+value), tsMs))
	}
	for i, in := range input {
		if in.key == nil {
			continue
		}
		if in.topic == "r" {
			right[string(in.key)] = in.record
			var referring []sentUpdate
			for _, l := range left {
				if to, ok := foreign("", string(l.is)); ok && l.is != nil && to == string(in.key) {
					referring = append(referring, l)
				}
			}
			slices.SortFunc(referring, func(a, b sentUpdate) int { return bytes.Compare(a.key, b.key) })
			for _, l := range referring {
				join(i, l, in.tsMs) // its own timestamp, as in Kafka Streams
			}
			continue
		}
		for len(updates) > 0 && updates[0].step == i {
			u := updates[0]
			updates = updates[1:]
			left[string(u.key)] = u
			if u.was != nil || u.is != nil {
				join(i, u, u.tsMs)
			}
		}
	}
	return all
}

// sumsOf sums final results, none of which is ever taken back, by key.
func sumsOf(results []record) (all []record) {
	sums, times := make(map[string]int64), make(map[string]int64)
	for _, r := range results {
		key := string(r.key[:len(r.key)-8])
		sums[key] += int64(binary.BigEndian.Uint64(r.value))
		times[key] = max(times[key], r.tsMs)
		all = append(all, out(r.step, []byte(key), long(sums[key]), times[key]))
	}
	return all
}

// sumsOfSliding sums the counts of the windows of records that are at most diff apart, by key: after each window that a record
// changes. All records are older than diff, and none is late.
func sumsOfSliding(input []step, diff int64) (all []record) {
	records := make(map[string][]int64) // by key, the timestamps
	starts := make(map[string][]int64)
	sums, times := make(map[string]int64), make(map[string]int64)
	for i, in := range input {
		if in.key == nil || in.value == nil {
			continue
		}
		key, t := string(in.key), in.tsMs
		before := int64(-1)
		for _, x := range records[key] {
			if x < t {
				before = max(before, x)
			}
		}
		in := func(from, to int64) (n, latest int64) {
			for _, x := range records[key] {
				if from <= x && x <= to {
					n, latest = n+1, max(latest, x)
				}
			}
			return n, latest
		}
		changed := slices.DeleteFunc(slices.Clone(starts[key]), func(s int64) bool { return s > t || s+diff < t })
		slices.SortFunc(changed, func(a, b int64) int { return cmp.Compare(b, a) })
		there := func(s int64) bool { return slices.Contains(starts[key], s) || slices.Contains(changed, s) }
		if before >= 0 && before+1+diff >= t && !there(before+1) {
			changed = append(changed, before+1)
		}
		again := false
		if own := t - diff; !there(own) {
			changed = append(changed, own)
		} else if n, _ := in(before-diff, before-1); own == before+1 && !slices.Contains(starts[key], own) && n > 0 {
			again = true // sent as the one behind the record before, and as its own
		}
		for _, s := range changed {
			n, latest := in(s, s+diff)
			if !slices.Contains(starts[key], s) {
				starts[key] = append(starts[key], s)
				sums[key] += n
			}
			sums[key]++
			times[key] = max(times[key], latest, t)
			all = append(all, out(i, []byte(key), long(sums[key]), times[key]))
			if again && s == before+1 {
				all = append(all, out(i, []byte(key), long(sums[key]), times[key]))
			}
		}
		if n, latest := in(t+1, t+1+diff); n > 0 && !slices.Contains(starts[key], t+1) {
			starts[key] = append(starts[key], t+1)
			sums[key] += n
			times[key] = max(times[key], latest)
			all = append(all, out(i, []byte(key), long(sums[key]), times[key]))
		}
		records[key] = append(records[key], t)
	}
	return all
}

// finalSessions counts the records of each session, and gives one result for each when time is beyond its end by the gap and the
// grace. What has its result takes no more.
func finalSessions(input []step, gap, grace int64) (all []record) {
	type session struct {
		key               []byte
		start, end, count int64
	}
	var open []session
	observed := int64(-1)
	for i, in := range input {
		if in.key == nil {
			continue
		}
		observed = max(observed, in.tsMs)
		closed := func(s session) bool { return s.end+gap+grace < observed }
		made := session{in.key, in.tsMs, in.tsMs, 1}
		var others []session
		for _, s := range open {
			if closed(s) || !bytes.Equal(s.key, in.key) || s.end < in.tsMs-gap || s.start > in.tsMs+gap {
				others = append(others, s)
				continue
			}
			made.start, made.end, made.count = min(made.start, s.start), max(made.end, s.end), made.count+s.count
		}
		if !closed(made) {
			open = append(others, made)
		}
		slices.SortFunc(open, func(a, b session) int {
			return cmp.Or(cmp.Compare(a.end, b.end), bytes.Compare(a.key, b.key), cmp.Compare(a.start, b.start))
		})
		for len(open) > 0 && closed(open[0]) {
			s := open[0]
			open = open[1:]
			all = append(all, out(i, slices.Concat(s.key, long(s.end), long(s.start)), long(s.count), s.end))
		}
	}
	return all
}
