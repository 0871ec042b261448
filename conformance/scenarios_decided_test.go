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

// Decided is what is decided not to be as in Kafka Streams. The models keep all records for ever, and look at all of them.
func (features) Decided(r *registry) {
	r.differs("close-after-jumps", "C027", func(b *millrace.Builder) {
		w := millrace.From(b, texts("in")).GroupByKey().WindowBy(window.Tumbling(10 * ms).Grace(5 * ms))
		t, _ := millrace.CountWindows(w, millrace.StoreName("counts"), millrace.EmitOnClose())
		t.ToStream().To(windowed("out", 10*ms, serde.Int64))
	}, func(input []step) map[string][]record {
		return map[string][]record{"out": finalCounts(input, 10, 5)}
	})
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
