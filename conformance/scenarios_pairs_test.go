package conformance

import (
	"fmt"
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Pairs is what meets in real programs: the result of one operation is the input of the next.
func (features) Pairs(r *registry) {
	out := texts("out")
	pair := func(x, y string) string { return x + "/" + y }
	leftPair := func(x, y string, ok bool) string { return x + "/" + orNull(y, ok) }
	key := millrace.WithKey(serde.String)
	tumbling := func(s millrace.Stream[string, string], on storage) (millrace.Table[window.Key[string], int64], millrace.Stream[string, window.Late[string]]) {
		return millrace.CountWindows(s.GroupByKey().WindowBy(window.Tumbling(10*ms).Grace(5*ms)), on(millrace.StoreName("counts"))...)
	}
	regroup := func(t millrace.Table[window.Key[string], int64], f func(x, y int64) int64, name string, on storage) millrace.Table[string, int64] {
		s := millrace.SelectKey(t.ToStream(), func(k window.Key[string], _ int64) string { return k.Key })
		return s.GroupByKey(millrace.RepartitionName("g"), key, millrace.WithValue(serde.Int64)).Reduce(f, on(millrace.StoreName(name))...)
	}
	rows := func(b *millrace.Builder, topic, name string, on storage) millrace.Table[string, string] {
		return millrace.TableFrom(b, texts(topic), on(millrace.StoreName(name))...)
	}

	r.stores("window-regroup-join", func(b *millrace.Builder, on storage) {
		counts, _ := tumbling(millrace.From(b, texts("t")), on)
		most := regroup(counts, func(x, y int64) int64 { return max(x, y) }, "most", on)
		millrace.LeftJoinTable(millrace.From(b, texts("s")), most, func(v string, n int64, ok bool) string { return leftPair(v, fmt.Sprint(n), ok) }, millrace.As("j")).To(out)
	})

	r.stores("counts-joined", func(b *millrace.Builder, on storage) {
		x := millrace.Count(millrace.From(b, texts("s")).GroupByKey(), on(millrace.StoreName("x"))...)
		y := millrace.Count(millrace.From(b, texts("t")).GroupByKey(), on(millrace.StoreName("y"))...)
		millrace.OuterJoinTables(x, y, func(m int64, okM bool, n int64, okN bool) string {
			return orNull(fmt.Sprint(m), okM) + "/" + orNull(fmt.Sprint(n), okN)
		}, on(millrace.NodeName("j"), millrace.StoreName("joined"), millrace.WithValue(serde.String))...).ToStream().To(out)
	})

	r.stores("table-join-stream-join", func(b *millrace.Builder, on storage) {
		t := rows(b, "t", "t-rows", on)
		u := rows(b, "u", "u-rows", on)
		j := millrace.LeftJoinTables(t, u, func(x, y string, ok bool) string { return x + "+" + orNull(y, ok) },
			on(millrace.NodeName("tj"), millrace.StoreName("joined"), millrace.WithValue(serde.String))...)
		millrace.JoinTable(millrace.From(b, texts("s")), j, pair, millrace.As("j")).To(out)
		j.Filter(func(_, v string) bool { return !strings.HasSuffix(v, "null") }).ToStream().To(texts("whole"))
	})

	closed := millrace.UntilWindowCloses(millrace.Unbounded())
	r.stores("window-suppress-regroup", func(b *millrace.Builder, on storage) {
		counts, _ := tumbling(millrace.From(b, texts("in")), on)
		regroup(counts.Suppress(closed, millrace.As("closed")), func(x, y int64) int64 { return x + y }, "sums", on).ToStream().To(numbers("out"))
	})

	r.stores("join-window-suppress", func(b *millrace.Builder, on storage) {
		t := rows(b, "t", "rows", on)
		j := millrace.LeftJoinTable(millrace.From(b, texts("s")), t, leftPair, millrace.As("j"))
		counts, _ := tumbling(j, on)
		counts.Suppress(closed, millrace.As("closed")).ToStream().To(windowed("out", 10*ms, serde.Int64))
	})

	r.stores("to-table-join-count", func(b *millrace.Builder, on storage) {
		x := millrace.From(b, texts("s")).ToTable(on(millrace.StoreName("x"))...)
		y := rows(b, "t", "y", on)
		j := millrace.JoinTables(x, y, func(v, w string) text { return some(v[:1] + w[:1]) },
			on(millrace.NodeName("j"), millrace.StoreName("joined"), millrace.WithValue(nullText))...)
		there := j.ToStream().Filter(func(_ string, v text) bool { return v != nil })
		g := millrace.GroupBy(there, func(_ string, v text) string { return *v }, millrace.RepartitionName("g"), key, millrace.WithValue(nullText))
		millrace.Count(g, on(millrace.StoreName("counts"))...).ToStream().To(numbers("out"))
	})

	// C118: Java's headers are one list that all branches share.
	r.differs("headers-of-branches", "C118", func(b *millrace.Builder) {
		s := millrace.From(b, free("in"))
		millrace.Process(s, func() *stateless { return &stateless{process: mark} }, millrace.As("mark")).To(free("marked"))
		s.To(free("plain"))
	}, func(input []step) map[string][]record {
		m := make(map[string][]record)
		for i, in := range input {
			rec := in.record
			rec.step = i
			rec.topic = "plain"
			m["plain"] = append(m["plain"], rec)
			rec.topic, rec.headers = "marked", rec.headers.With("mark", []byte("1"))
			m["marked"] = append(m["marked"], rec)
		}
		return m
	})

	// A record that finds its window closed goes to the late stream.
	r.differs("late-records", "A late record is dropped", func(b *millrace.Builder) {
		counts, late := tumbling(millrace.From(b, texts("in")), onDisk)
		counts.ToStream().To(windowed("out", 10*ms, serde.Int64))
		millrace.MapValues(late, func(l window.Late[string]) string {
			return fmt.Sprintf("%s missed %d at %d", l.Value, l.Missed[0].StartMs, l.ObservedTimeMs)
		}).To(texts("late"))
	}, func(input []step) map[string][]record {
		var late []record
		observed := int64(-1)
		for i, in := range input {
			if in.key == nil {
				continue
			}
			observed = max(observed, in.tsMs)
			if start := in.tsMs / 10 * 10; start+10+5 <= observed {
				rec := in.record
				rec.topic, rec.step, rec.value = "late", i, fmt.Appendf(nil, "%s missed %d at %d", in.value, start, observed)
				late = append(late, rec)
			}
		}
		return map[string][]record{"late": late}
	})
}

func mark(ctx textContext, r textRecord) error {
	r.Headers = r.Headers.With("mark", []byte("1"))
	return ctx.Forward(r)
}
