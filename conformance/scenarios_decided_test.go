package conformance

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Decided is what is decided not to be as in Kafka Streams. The models keep all records for ever, and look at all of them.
func (features) Decided(r *registry) {
	r.differs("close-after-jumps", "C027", func(b *millrace.Builder) {
		w := millrace.From(b, texts("in")).GroupByKey().WindowBy(window.Tumbling(10 * ms).Grace(5 * ms))
		t, _ := millrace.CountWindows(w, millrace.StoreName("counts"), millrace.EmitOnClose())
		t.ToStream().To(windowed("out", 10*ms, serde.Int64))
	}, func(input []step) map[string][]record {
		return map[string][]record{"out": finalCounts(input, 10, 5)}
	})
	for name, rule := range map[string]struct {
		grace int64
		name  string
	}{"left-join-late-5": {5, "C034"}, "left-join-late-50": {50, "C033"}} {
		r.differs(name, rule.name, func(b *millrace.Builder) {
			right := millrace.From(b, texts("r"))
			w := window.Within(10 * ms).Grace(time.Duration(rule.grace) * ms)
			j, _ := millrace.LeftJoinStreams(millrace.From(b, texts("l")), right, w, leftSlash, millrace.As("j"))
			j.To(texts("out"))
		}, func(input []step) map[string][]record {
			return map[string][]record{"out": leftJoined(input, 10, rule.grace)}
		})
	}
	r.differs("join-with-derived", "C048", func(b *millrace.Builder) {
		t := millrace.TableFrom(b, texts("in"), millrace.StoreName("rows"))
		millrace.JoinTables(millrace.MapTableValues(t, withoutP), t, func(x text, y string) string { return *x + "/" + y }, millrace.AutoName()).
			ToStream().To(texts("out"))
	}, func(input []step) map[string][]record {
		return map[string][]record{"out": joinedWithDerived(input)}
	})
}

// withoutP is a table's values without those that begin with p.
func withoutP(v string) text {
	if v[0] == 'p' {
		return nil
	}
	return &v
}

// out is a record that came after a step.
func out(step int, key, value []byte, tsMs int64) record {
	return record{topic: "out", key: key, value: value, tsMs: tsMs, step: step}
}

func long(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// finalCounts counts the records of each window, and gives one result for each, at the step that closes it.
func finalCounts(input []step, size, grace int64) (all []record) {
	type result struct {
		start       int64
		key         []byte
		count, tsMs int64
	}
	var open []result
	observed := int64(-1)
	for i, in := range input {
		if in.key == nil {
			continue
		}
		observed = max(observed, in.tsMs)
		start := in.tsMs / size * size
		if start+size+grace > observed {
			at := slices.IndexFunc(open, func(w result) bool { return w.start == start && bytes.Equal(w.key, in.key) })
			if at < 0 {
				at = len(open)
				open = append(open, result{start: start, key: in.key})
			}
			open[at].count++
			open[at].tsMs = max(open[at].tsMs, in.tsMs)
		}
		slices.SortFunc(open, func(a, b result) int { return cmp.Or(cmp.Compare(a.start, b.start), bytes.Compare(a.key, b.key)) })
		for len(open) > 0 && open[0].start+size+grace <= observed {
			w := open[0]
			open = open[1:]
			all = append(all, out(i, slices.Concat(w.key, long(w.start)), long(w.count), w.tsMs))
		}
	}
	return all
}

// leftJoined pairs the rows of l and r that are no more than within apart. A row that comes when its window and the grace have
// passed is late; a row of l that has no pair by then has its result, and gets no other.
func leftJoined(input []step, within, grace int64) (all []record) {
	type row struct {
		record
		waits bool
	}
	rows := make(map[string][]*row)
	observed := int64(-1)
	ended := func(tsMs int64) bool { return tsMs+within+grace < observed }
	for i, in := range input {
		observed = max(observed, in.tsMs)
		var due []*row
		for _, l := range rows["l"] {
			if l.waits && ended(l.tsMs) {
				l.waits = false
				due = append(due, l)
			}
		}
		slices.SortStableFunc(due, func(a, b *row) int { return cmp.Or(cmp.Compare(a.tsMs, b.tsMs), bytes.Compare(a.key, b.key)) })
		for _, l := range due {
			all = append(all, out(i, l.key, []byte(string(l.value)+"/null"), l.tsMs))
		}
		if ended(in.tsMs) {
			continue // late
		}
		mine, other := &row{record: in.record}, "r"
		if in.topic == "r" {
			other = "l"
		}
		var found []*row
		for _, o := range rows[other] {
			if bytes.Equal(o.key, in.key) && max(o.tsMs-in.tsMs, in.tsMs-o.tsMs) <= within && (other == "r" || !ended(o.tsMs)) {
				found = append(found, o)
			}
		}
		slices.SortStableFunc(found, func(a, b *row) int { return cmp.Compare(a.tsMs, b.tsMs) })
		for _, o := range found {
			o.waits = false
			l, r := mine, o
			if in.topic == "r" {
				l, r = o, mine
			}
			all = append(all, out(i, in.key, []byte(string(l.value)+"/"+string(r.value)), max(l.tsMs, r.tsMs)))
		}
		mine.waits = in.topic == "l" && len(found) == 0
		rows[in.topic] = append(rows[in.topic], mine)
	}
	return all
}

// joinedWithDerived is what a row has in both tables, once for each of them. A row that is not in the derived one is sent as a
// deletion, as Kafka Streams does too, and one that has left both if there was a result.
func joinedWithDerived(input []step) (all []record) {
	joined := make(map[string]bool)
	for i, in := range input {
		if in.key == nil {
			continue
		}
		hidden := in.value != nil && in.value[0] == 'p'
		switch {
		case in.value != nil && !hidden:
			joined[string(in.key)] = true
			both := slices.Concat(in.value, []byte("/"), in.value)
			all = append(all, out(i, in.key, both, in.tsMs), out(i, in.key, both, in.tsMs))
		case hidden || joined[string(in.key)]:
			delete(joined, string(in.key))
			all = append(all, out(i, in.key, nil, in.tsMs))
		}
	}
	return all
}
