package conformance

import (
	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// TimeWindows is tumbling and hopping windows, with results at each update.
func (features) TimeWindows(r *registry) {
	hopping := window.Hopping(20*ms, 7*ms).Grace(5 * ms)
	r.stores("hopping-count", func(b *millrace.Builder, on storage) {
		counts, _ := millrace.CountWindows(millrace.From(b, texts("in")).GroupByKey().WindowBy(hopping), on(millrace.StoreName("counts"))...)
		counts.ToStream().To(windowed("out", 20*ms, serde.Int64))
	})

	r.stores("tumbling-no-grace", func(b *millrace.Builder, on storage) {
		w := millrace.From(b, texts("in")).GroupByKey().WindowBy(window.Tumbling(10 * ms))
		reduced, _ := millrace.ReduceWindows(w, func(x, y string) string { return x + "," + y }, on(millrace.StoreName("texts"))...)
		reduced.ToStream().To(windowed("out", 10*ms, serde.String))
	})

	r.stores("tumbling-reduce-nulls", func(b *millrace.Builder, on storage) {
		w := millrace.From(b, free("in")).GroupByKey().WindowBy(window.Tumbling(10 * ms).Grace(30 * ms))
		reduced, _ := millrace.ReduceWindows(w, func(x, y text) text {
			if y == nil {
				return x
			}
			return some(*x + "," + *y)
		}, on(millrace.StoreName("texts"))...)
		reduced.ToStream().To(millrace.NewTopic("out", serde.Windowed(nullText, 10*ms), nullText))
	})

	r.stores("hopping-aggregate-that-deletes", func(b *millrace.Builder, on storage) {
		aggregated, _ := millrace.AggregateWindows(millrace.From(b, free("in")).GroupByKey().WindowBy(hopping), func() text { return some("") },
			func(_, v text, agg text) text {
				if v == nil {
					return nil
				}
				return some(*agg + (*v)[:1])
			}, nullText, on(millrace.StoreName("texts"))...)
		aggregated.ToStream().To(millrace.NewTopic("out", serde.Windowed(nullText, 20*ms), nullText))
	})

	r.stores("tumbling-sum-group-by", func(b *millrace.Builder, on storage) {
		g := millrace.GroupBy(millrace.From(b, free("in")), func(_, v text) text { return first(v, nil) },
			millrace.RepartitionName("g"), millrace.WithKey(nullText))
		sums, _ := millrace.SumWindows(g.WindowBy(window.Tumbling(25*ms)), func(v text) int64 { return int64(len(*v)) }, serde.Int64,
			on(millrace.StoreName("sums"))...)
		sums.ToStream().To(millrace.NewTopic("out", serde.Windowed(nullText, 25*ms), serde.Int64))
	})

	r.stores("tumbling-retention", func(b *millrace.Builder, on storage) {
		w := millrace.From(b, texts("in")).GroupByKey().WindowBy(window.Tumbling(10 * ms).Grace(40 * ms))
		counts, _ := millrace.CountWindows(w, on(millrace.StoreName("counts"), millrace.Retain(500*ms))...)
		counts.ToStream().To(windowed("out", 10*ms, serde.Int64))
	})

	r.add("tumbling-unnamed", func(b *millrace.Builder) {
		g := millrace.GroupBy(millrace.From(b, free("in")), func(_, v text) text { return first(v, some("q")) }, millrace.WithKey(nullText))
		counts, _ := millrace.CountWindows(g.WindowBy(window.Tumbling(10*ms)), millrace.AutoName())
		counts.ToStream().To(millrace.NewTopic("out", serde.Windowed(nullText, 10*ms), serde.Int64))
	})

	r.stores("two-windows-of-a-group", func(b *millrace.Builder, on storage) {
		g := millrace.From(b, texts("in")).GroupByKey()
		narrow, _ := millrace.CountWindows(g.WindowBy(window.Tumbling(ms)), on(millrace.StoreName("narrow"))...)
		narrow.ToStream().To(windowed("narrow-out", ms, serde.Int64))
		wide, _ := millrace.CountWindows(g.WindowBy(window.Tumbling(100_000*ms)), on(millrace.StoreName("wide"))...)
		wide.ToStream().To(windowed("wide-out", 100_000*ms, serde.Int64))
	})

	r.stores("tumbling-filter-map-regroup", func(b *millrace.Builder, on storage) {
		w := millrace.From(b, texts("in")).GroupByKey().WindowBy(window.Tumbling(10 * ms).Grace(5 * ms))
		t, _ := millrace.CountWindows(w, on(millrace.StoreName("counts"))...)
		odd := t.Filter(func(_ window.Key[string], n int64) bool { return n%2 == 1 })
		millrace.MapTableValues(odd, func(n int64) int64 { return n * 10 }).ToStream().To(windowed("odd", 10*ms, serde.Int64))
		plain := millrace.SelectKey(t.ToStream(), func(k window.Key[string], _ int64) string { return k.Key })
		g := plain.GroupByKey(millrace.RepartitionName("g"), millrace.WithKey(serde.String), millrace.WithValue(serde.Int64))
		g.Reduce(func(x, y int64) int64 { return max(x, y) }, on(millrace.StoreName("most"))...).ToStream().To(numbers("most-out"))
	})
}
