package conformance

import (
	"fmt"
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// Aggregates is aggregates without windows.
func (features) Aggregates(r *registry) {
	r.stores("reduce", func(b *millrace.Builder, on storage) {
		millrace.From(b, texts("in")).GroupByKey().Reduce(func(agg, v string) string {
			if len(agg) > 12 {
				return v
			}
			return agg + v
		}, on(millrace.StoreName("reduced"))...).ToStream().To(texts("out"))
	})

	r.stores("aggregate-that-deletes", func(b *millrace.Builder, on storage) {
		millrace.Aggregate(millrace.From(b, texts("in")).GroupByKey(), func() text { return some("<") }, func(_, v string, agg text) text {
			if strings.HasPrefix(v, "s") {
				return nil
			}
			return some(*agg + v)
		}, nullText, on(millrace.StoreName("texts"))...).ToStream().To(nullable("out"))
	})

	r.stores("sum", func(b *millrace.Builder, on storage) {
		millrace.Sum(millrace.From(b, numbers("in")).GroupByKey(), func(v int64) int64 { return v }, serde.Int64, on(millrace.StoreName("sums"))...).
			ToStream().To(numbers("out"))
	})

	r.stores("group-by-count", func(b *millrace.Builder, on storage) {
		g := millrace.GroupBy(millrace.From(b, free("in")), func(_, v text) text { return first(v, some("none")) },
			millrace.RepartitionName("g"), millrace.WithKey(nullText))
		millrace.Count(g, on(millrace.NodeName("counting"), millrace.StoreName("counts"))...).
			ToStream().To(millrace.NewTopic("out", nullText, serde.Int64))
	})

	r.add("group-by-unnamed", groupByUnnamed)

	r.stores("group-shared", func(b *millrace.Builder, on storage) {
		g := millrace.GroupBy(millrace.From(b, free("in")), func(_, v text) text { return first(v, some("q")) },
			millrace.RepartitionName("g"), millrace.WithKey(nullText))
		millrace.Count(g, on(millrace.StoreName("c"))...).ToStream().To(millrace.NewTopic("counts", nullText, serde.Int64))
		g.Reduce(func(x, y text) text {
			if *x < *y {
				return y
			}
			return x
		}, on(millrace.StoreName("r"))...).ToStream().To(free("largest"))
	})

	r.stores("chain-of-counts", func(b *millrace.Builder, on storage) {
		counts := millrace.Count(millrace.From(b, texts("in")).GroupByKey(), on(millrace.StoreName("first"))...)
		s := millrace.Map(counts.ToStream(), func(k string, n int64) (string, string) { return fmt.Sprint(n % 3), k })
		g := s.GroupByKey(millrace.RepartitionName("again"), millrace.WithKey(serde.String), millrace.WithValue(serde.String))
		millrace.Count(g, on(millrace.StoreName("second"))...).ToStream().To(numbers("out"))
	})

	r.add("count-without-log", func(b *millrace.Builder) {
		millrace.Count(millrace.From(b, texts("in")).GroupByKey(), millrace.StoreName("counts"), millrace.WithoutLog(), millrace.WithoutCache()).
			ToStream().To(numbers("out"))
	})

	r.add("count-log-config", func(b *millrace.Builder) {
		millrace.Count(millrace.From(b, texts("in")).GroupByKey(), millrace.StoreName("counts"),
			millrace.LogConfig(map[string]string{"segment.bytes": "1000000", "cleanup.policy": "compact,delete"})).
			ToStream().To(numbers("out"))
	})

	r.stores("count-filter-map", func(b *millrace.Builder, on storage) {
		t := millrace.Count(millrace.From(b, texts("in")).GroupByKey(), on(millrace.StoreName("counts"))...)
		odd := t.Filter(func(_ string, n int64) bool { return n%3 != 0 })
		millrace.MapTableValues(odd, func(n int64) string { return fmt.Sprint("n", n) }).ToStream().To(texts("out"))
	})
}

func groupByUnnamed(b *millrace.Builder) {
	millrace.GroupBy(millrace.From(b, free("in")), func(_, v text) text { return first(v, nil) }, millrace.WithKey(nullText)).
		Reduce(func(_, y text) text { return y }, millrace.AutoName()).
		ToStream().To(free("out"))
}
