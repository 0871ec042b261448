package conformance

import (
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Names is topologies of which names, descriptions and internal topics alone are compared, mostly with numbers for names.
func (features) Names(r *registry) {
	auto, key, value := millrace.AutoName(), millrace.WithKey(serde.String), millrace.WithValue(serde.String)
	node, stored := millrace.NodeName, millrace.StoreName
	ten := window.Tumbling(10 * ms)
	out := numbers("out")
	in := func(b *millrace.Builder, topic string) millrace.Stream[string, string] {
		return millrace.From(b, texts(topic))
	}
	byValue := func(_, v string) string { return v }
	same := func(v string) string { return v }
	yes := func(string, string) bool { return true }
	joined := func(x, y string) string { return x + y }
	leftJoined := func(x, y string, _ bool) string { return x + y }
	add := func(name string, declare func(b *millrace.Builder)) { r.add("names-"+name, declare) }

	add("count", func(b *millrace.Builder) { millrace.Count(in(b, "in").GroupByKey(), auto).ToStream().To(out) })
	add("count-serdes", func(b *millrace.Builder) { millrace.Count(in(b, "in").GroupByKey(), auto, key).ToStream().To(out) })
	add("count-node", func(b *millrace.Builder) {
		millrace.Count(in(b, "in").GroupByKey(), auto, node("n")).ToStream(millrace.As("ts")).To(out, millrace.As("end"))
	})
	add("reduce", func(b *millrace.Builder) { in(b, "in").GroupByKey().Reduce(joined, auto).ToStream().To(texts("out")) })
	aggregate := func(_, v, agg string) string { return agg + v }
	nothing := func() string { return "" }
	add("aggregate", func(b *millrace.Builder) {
		millrace.Aggregate(in(b, "in").GroupByKey(), nothing, aggregate, serde.String, auto).ToStream().To(texts("out"))
	})
	grouped := func(b *millrace.Builder) millrace.Grouped[string, string] {
		return millrace.GroupBy(in(b, "in"), byValue, key)
	}
	add("group-by-count", func(b *millrace.Builder) { millrace.Count(grouped(b), auto).ToStream().To(out) })
	add("group-by-window-count", func(b *millrace.Builder) { millrace.CountWindows(grouped(b).WindowBy(ten), stored("st")) })
	add("window-count", func(b *millrace.Builder) { millrace.CountWindows(in(b, "in").GroupByKey().WindowBy(ten), auto) })
	add("window-aggregate", func(b *millrace.Builder) {
		millrace.AggregateWindows(in(b, "in").GroupByKey().WindowBy(ten), nothing, aggregate, serde.String, auto)
	})
	add("window-reduce", func(b *millrace.Builder) {
		millrace.ReduceWindows(in(b, "in").GroupByKey().WindowBy(ten), joined, auto)
	})
	add("window-retention", func(b *millrace.Builder) {
		millrace.CountWindows(in(b, "in").GroupByKey().WindowBy(ten), stored("st"), millrace.Retain(3*time.Hour))
	})
	add("stream-table", func(b *millrace.Builder) {
		s := in(b, "s")
		millrace.JoinTable(s, millrace.TableFrom(b, texts("t"), auto), joined).To(texts("out"))
	})
	add("stream-table-rekeyed", func(b *millrace.Builder) {
		t := millrace.TableFrom(b, texts("t"), auto)
		millrace.LeftJoinTable(millrace.SelectKey(in(b, "s"), byValue), t, leftJoined, auto, key).To(texts("out"))
	})
	add("two-joins", func(b *millrace.Builder) {
		t := millrace.TableFrom(b, texts("t"), auto)
		u := millrace.TableFrom(b, texts("u"), auto)
		s := millrace.SelectKey(in(b, "s"), byValue)
		millrace.JoinTable(s, t, joined, auto, key).To(texts("o1"))
		millrace.JoinTable(s, u, joined, millrace.As("named"), key).To(texts("o2"))
	})
	add("global", func(b *millrace.Builder) {
		g := millrace.GlobalTableFrom(b, texts("g"), auto)
		millrace.LeftJoinGlobal(in(b, "s"), g, byValue, leftJoined).To(texts("out"))
	})
	add("split", func(b *millrace.Builder) {
		s := in(b, "s").Split()
		one, two := s.Branch(yes), s.Branch(yes)
		for _, x := range []millrace.Stream[string, string]{s.Default(), one, two} {
			x.To(texts("o"))
		}
	})
	add("split-named", func(b *millrace.Builder) {
		s := in(b, "s").Split(millrace.As("sp-"))
		x := s.Branch(yes, millrace.As("x"))
		d := s.Default(millrace.As("d"))
		x.To(texts("o"))
		d.To(texts("o2"))
	})
	add("merge", func(b *millrace.Builder) {
		in(b, "a").Merge(in(b, "c"), millrace.As("both")).To(texts("o"), millrace.As("end"))
	})
	add("repartition", func(b *millrace.Builder) { in(b, "a").Repartition(auto).To(texts("o")) })
	add("repartition-partitions", func(b *millrace.Builder) {
		in(b, "a").Repartition(millrace.As("rr"), millrace.Partitions(3)).To(texts("o"))
	})
	add("to-table", func(b *millrace.Builder) { in(b, "a").ToTable(auto).ToStream().To(texts("o")) })
	add("to-table-rekeyed", func(b *millrace.Builder) {
		millrace.SelectKey(in(b, "a"), byValue).ToTable(auto, stored("rows"), key).ToStream().To(texts("o"))
	})
	table := func(b *millrace.Builder, topic string) millrace.Table[string, string] {
		return millrace.TableFrom(b, texts(topic), auto)
	}
	add("table-filter", func(b *millrace.Builder) { table(b, "a").Filter(yes).ToStream().To(texts("o")) })
	add("table-filter-stored", func(b *millrace.Builder) {
		table(b, "a").Filter(yes, node("f"), stored("fs")).ToStream().To(texts("o"))
	})
	add("table-map-values", func(b *millrace.Builder) {
		millrace.MapTableValues(millrace.TableFrom(b, texts("a"), stored("rows")), same, stored("ms"), value)
	})
	add("stateless-named", func(b *millrace.Builder) {
		s := millrace.From(b, texts("a"), millrace.As("src")).Filter(yes, millrace.As("f"))
		flat := millrace.FlatMapValues(s, func(v string, emit func(string)) { emit(v) }, millrace.As("fmv"))
		mapped := millrace.Map(flat, func(k, v string) (string, string) { return k, v }, millrace.As("m"))
		again := millrace.MapValues(mapped, same, millrace.As("mv"))
		millrace.SelectKey(again, func(k, _ string) string { return k }, millrace.As("sk")).ForEach(func(string, string) {}, millrace.As("fe"))
	})
	add("chain-of-counts", func(b *millrace.Builder) {
		one := millrace.Count(millrace.GroupBy(in(b, "a"), byValue, key), auto)
		swapped := millrace.Map(one.ToStream(), func(k string, n int64) (int64, string) { return n, k })
		number := millrace.WithKey(serde.Int64)
		two := millrace.Count(swapped.GroupByKey(number, value), auto)
		three := millrace.Count(two.ToStream().GroupByKey(number, millrace.WithValue(serde.Int64)), auto)
		three.ToStream().To(millrace.NewTopic("o", serde.Int64, serde.Int64))
	})
	add("two-programs", func(b *millrace.Builder) {
		millrace.Count(in(b, "a").GroupByKey(), stored("c1"))
		in(b, "c").Filter(yes).To(texts("o2"))
		millrace.Count(millrace.GroupBy(in(b, "d"), byValue, millrace.RepartitionName("g"), key), stored("c2"))
	})
	r.add("names-required", func(b *millrace.Builder) {
		millrace.Count(millrace.GroupBy(in(b, "in"), byValue, millrace.RepartitionName("g"), key), stored("c"))
	}, builtWith(millrace.RequireNames()))
	add("table-join", func(b *millrace.Builder) {
		a := table(b, "a")
		millrace.JoinTables(a, table(b, "c"), joined).ToStream().To(texts("o"))
	})
	add("table-join-stored", func(b *millrace.Builder) {
		a := table(b, "a")
		millrace.LeftJoinTables(a, table(b, "c"), leftJoined, node("j"), stored("js"), value).ToStream().To(texts("o"))
	})
}
