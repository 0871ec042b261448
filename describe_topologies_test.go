package millrace_test

import (
	"io"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

type text = millrace.Stream[string, string]

type windowKey = window.Key[string]

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func topicOf(name string) millrace.Topic[string, string] {
	return millrace.NewTopic(name, serde.String, serde.String)
}

func from(b *millrace.Builder, topic string) text { return millrace.From(b, topicOf(topic)) }

func tableOf(b *millrace.Builder, topic string, opts ...millrace.StepOption) millrace.Table[string, string] {
	return millrace.TableFrom(b, topicOf(topic), opts...)
}

// to writes any stream of string keys to a topic.
func to[V any](s millrace.Stream[string, V], topic string, opts ...millrace.StepOption) {
	s.To(millrace.NewTopic(topic, serde.String, serde.JSON[V]()), opts...)
}

func toWindowed[V any](s millrace.Stream[window.Key[string], V], topic string) {
	s.To(millrace.NewTopic(topic, serde.Windowed(serde.String, 0), serde.JSON[V]()))
}

func byValue(_, v string) string                  { return v }
func yes(_, _ string) bool                        { return true }
func same(v string) string                        { return v }
func first(a, _ string) string                    { return a }
func firstOf(a, _ string, _ bool) string          { return a }
func last(_, b string) string                     { return b }
func swap(k, v string) (string, string)           { return v, k }
func once(v string, emit func(string))            { emit(v) }
func noText() string                              { return "" }
func glue(_, v, agg string) string                { return agg + v }
func pass(string, string)                         {}
func each(k, v string, emit func(string, string)) { emit(k, v) }

// forwarder is a processor that forwards what it gets.
type forwarder struct {
	ctx processor.Context[string, string]
}

func (p *forwarder) Init(ctx processor.Context[string, string]) error {
	p.ctx = ctx
	return nil
}
func (p *forwarder) Process(r processor.Record[string, string]) error { return p.ctx.Forward(r) }
func (p *forwarder) Close() error                                     { return nil }

func newForwarder() *forwarder { return &forwarder{} }

// valueForwarder is forwarder with a fixed key.
type valueForwarder struct {
	ctx processor.ValueContext[string]
}

func (p *valueForwarder) Init(ctx processor.ValueContext[string]) error {
	p.ctx = ctx
	return nil
}
func (p *valueForwarder) Process(r processor.Record[string, string]) error {
	return p.ctx.Forward(r.Value)
}
func (p *valueForwarder) Close() error { return nil }

func newValueForwarder() *valueForwarder { return &valueForwarder{} }

func textStore(name string) *millrace.KeyValueStore[string, string] {
	return millrace.NewKeyValueStore(name, serde.String, serde.String, millrace.InMemory())
}

var (
	auto      = millrace.AutoName()
	textKey   = millrace.WithKey(serde.String)
	textValue = millrace.WithValue(serde.String)
	tenMs     = window.Tumbling(10 * time.Millisecond)
)

func groupByValue(s text, opts ...millrace.StepOption) millrace.Grouped[string, string] {
	return millrace.GroupBy(s, byValue, append(opts, textKey)...)
}

func selectValue(s text, opts ...millrace.StepOption) text {
	return millrace.SelectKey(s, byValue, opts...)
}

func windowed(s text) millrace.Windowed[string, string] { return s.GroupByKey().WindowBy(tenMs) }

func joinedWith(s text, t millrace.Table[string, string], opts ...millrace.StepOption) text {
	return millrace.JoinTable(s, t, first, opts...)
}

func leftJoinedWith(s text, t millrace.Table[string, string], opts ...millrace.StepOption) text {
	return millrace.LeftJoinTable(s, t, firstOf, opts...)
}

// table returns the table of a windowed step whose late records are not used.
func table[K, V, L any](t millrace.Table[K, V], _ millrace.Stream[string, L]) millrace.Table[K, V] {
	return t
}

var (
	briefly     = millrace.UntilTimeLimit(5*time.Millisecond, millrace.Unbounded())
	untilClosed = millrace.UntilWindowCloses(millrace.Unbounded())
)

var describedTopologies = map[string]func(*millrace.Builder){
	"count": func(b *millrace.Builder) {
		to(millrace.Count(from(b, "in").GroupByKey(), auto).ToStream(), "out")
	},
	"count-with-serdes": func(b *millrace.Builder) {
		to(millrace.Count(from(b, "in").GroupByKey(), auto, textKey).ToStream(), "out")
	},
	"count-node-named": func(b *millrace.Builder) {
		to(millrace.Count(from(b, "in").GroupByKey(), auto, millrace.NodeName("n")).ToStream(), "out")
	},
	"count-node-and-store-named": func(b *millrace.Builder) {
		to(millrace.Count(from(b, "in").GroupByKey(), millrace.NodeName("n"), millrace.StoreName("st")).ToStream(), "out")
	},
	"count-no-cache": func(b *millrace.Builder) {
		to(millrace.Count(from(b, "in").GroupByKey(), auto, millrace.WithoutCache()).ToStream(), "out")
	},
	"count-in-memory": func(b *millrace.Builder) {
		to(millrace.Count(from(b, "in").GroupByKey(), auto, millrace.InMemory()).ToStream(), "out")
	},
	"aggregate": func(b *millrace.Builder) {
		to(millrace.Aggregate(from(b, "in").GroupByKey(), noText, glue, serde.String, auto).ToStream(), "out")
	},
	"aggregate-with-serdes": func(b *millrace.Builder) {
		to(millrace.Aggregate(from(b, "in").GroupByKey(), noText, glue, serde.String, auto, textKey).ToStream(), "out")
	},
	"aggregate-named": func(b *millrace.Builder) {
		a := millrace.Aggregate(from(b, "in").GroupByKey(), noText, glue, serde.String, millrace.NodeName("n"), millrace.StoreName("st"))
		to(a.ToStream(), "out")
	},
	"reduce": func(b *millrace.Builder) {
		to(from(b, "in").GroupByKey().Reduce(last, auto).ToStream(), "out")
	},
	"reduce-with-serdes": func(b *millrace.Builder) {
		to(from(b, "in").GroupByKey().Reduce(last, auto, textKey, textValue).ToStream(), "out")
	},
	"window-count": func(b *millrace.Builder) {
		toWindowed(table(millrace.CountWindows(windowed(from(b, "in")), auto)).ToStream(), "out")
	},
	"window-count-with-serdes": func(b *millrace.Builder) {
		toWindowed(table(millrace.CountWindows(windowed(from(b, "in")), auto, textKey)).ToStream(), "out")
	},
	"window-count-named": func(b *millrace.Builder) {
		c := table(millrace.CountWindows(windowed(from(b, "in")), millrace.NodeName("n"), millrace.StoreName("st")))
		toWindowed(c.ToStream(), "out")
	},
	"window-aggregate": func(b *millrace.Builder) {
		toWindowed(table(millrace.AggregateWindows(windowed(from(b, "in")), noText, glue, serde.String, auto)).ToStream(), "out")
	},
	"window-aggregate-with-serdes": func(b *millrace.Builder) {
		toWindowed(table(millrace.AggregateWindows(windowed(from(b, "in")), noText, glue, serde.String, auto, textKey)).ToStream(), "out")
	},
	"window-reduce": func(b *millrace.Builder) {
		toWindowed(table(millrace.ReduceWindows(windowed(from(b, "in")), last, auto)).ToStream(), "out")
	},
	"window-reduce-with-serdes": func(b *millrace.Builder) {
		toWindowed(table(millrace.ReduceWindows(windowed(from(b, "in")), last, auto, textKey, textValue)).ToStream(), "out")
	},
	"window-hopping-group-by": func(b *millrace.Builder) {
		w := window.Hopping(20*time.Millisecond, 10*time.Millisecond).Grace(5 * time.Millisecond)
		g := groupByValue(from(b, "in"), millrace.RepartitionName("g")).WindowBy(w)
		toWindowed(table(millrace.CountWindows(g, millrace.StoreName("st"))).ToStream(), "out")
	},
	"suppress-limit": func(b *millrace.Builder) {
		to(tableOf(b, "in", auto).Suppress(briefly, auto).ToStream(), "out")
	},
	"suppress-limit-named": func(b *millrace.Builder) {
		limited := millrace.UntilTimeLimit(5*time.Millisecond, millrace.MaxRecords(3))
		to(tableOf(b, "in", millrace.StoreName("t")).Suppress(limited, millrace.As("sup")).ToStream(), "out")
	},
	"suppress-windows": func(b *millrace.Builder) {
		c := table(millrace.CountWindows(windowed(from(b, "in")), auto))
		toWindowed(c.Suppress(untilClosed, auto).ToStream(), "out")
	},
	"suppress-windows-named": func(b *millrace.Builder) {
		c := table(millrace.CountWindows(windowed(from(b, "in")), millrace.NodeName("n"), millrace.StoreName("st")))
		toWindowed(c.Suppress(untilClosed, millrace.As("sup")).ToStream(), "out")
	},
	"suppress-derived": func(b *millrace.Builder) {
		to(millrace.MapTableValues(tableOf(b, "in", auto), same).Suppress(briefly, auto, textValue).Filter(yes).ToStream(), "out")
	},
	"suppress-join": func(b *millrace.Builder) {
		t := tableOf(b, "t", millrace.StoreName("rows")).Suppress(briefly, millrace.As("sup"))
		to(joinedWith(from(b, "s"), t.Filter(yes)), "out")
	},
	"suppress-twice": func(b *millrace.Builder) {
		to(tableOf(b, "t", auto).Suppress(briefly, auto).Suppress(briefly, auto).ToStream(), "out")
	},
	"grace-join": func(b *millrace.Builder) {
		t := tableOf(b, "t", millrace.StoreName("v"), millrace.Versioned(20*time.Millisecond))
		to(joinedWith(from(b, "s"), t, auto, millrace.JoinGrace(5*time.Millisecond)), "out")
	},
	"grace-join-named": func(b *millrace.Builder) {
		t := tableOf(b, "t", millrace.StoreName("v"), millrace.Versioned(20*time.Millisecond))
		to(leftJoinedWith(selectValue(from(b, "s")), t, millrace.As("j"), millrace.JoinGrace(5*time.Millisecond), textKey), "out")
	},
	"group-by-count": func(b *millrace.Builder) {
		to(millrace.Count(groupByValue(from(b, "in")), auto).ToStream(), "out")
	},
	"group-by-count-with-serdes": func(b *millrace.Builder) {
		to(millrace.Count(groupByValue(from(b, "in")), auto, textKey).ToStream(), "out")
	},
	"group-by-named-count-named": func(b *millrace.Builder) {
		g := groupByValue(from(b, "in"), millrace.RepartitionName("g"))
		to(millrace.Count(g, millrace.NodeName("n"), millrace.StoreName("st")).ToStream(), "out")
	},
	"group-by-count-store-named": func(b *millrace.Builder) {
		to(millrace.Count(groupByValue(from(b, "in")), millrace.StoreName("st")).ToStream(), "out")
	},
	"group-by-named-shared": func(b *millrace.Builder) {
		g := groupByValue(from(b, "in"), millrace.RepartitionName("g"))
		millrace.Count(g, millrace.StoreName("c"))
		g.Reduce(first, millrace.StoreName("r"))
		toWindowed(table(millrace.CountWindows(g.WindowBy(tenMs), millrace.StoreName("w"))).ToStream(), "out")
	},
	"two-grouped-counts": func(b *millrace.Builder) {
		g := selectValue(from(b, "a")).GroupByKey(textKey)
		millrace.Count(g, auto)
		g.Reduce(first, auto)
		h := selectValue(from(b, "a2")).GroupByKey(millrace.RepartitionName("hh"), textKey)
		millrace.Count(h, auto)
		h.Reduce(first, auto)
	},
	"group-by-key-named-unneeded": func(b *millrace.Builder) {
		to(millrace.Count(from(b, "in").GroupByKey(millrace.RepartitionName("g")), auto).ToStream(), "out")
	},
	"select-key-named-reduce": func(b *millrace.Builder) {
		g := selectValue(from(b, "in"), millrace.NodeName("sk")).GroupByKey(textKey)
		r := g.Reduce(first, millrace.NodeName("r"), millrace.StoreName("rs"))
		to(r.ToStream(millrace.As("ts")), "out", millrace.As("o"))
	},
	"stream-table": func(b *millrace.Builder) {
		t := tableOf(b, "t", auto)
		to(joinedWith(from(b, "s"), t), "out")
	},
	"stream-table-named": func(b *millrace.Builder) {
		t := tableOf(b, "t", millrace.StoreName("tt"))
		to(leftJoinedWith(from(b, "s"), t, millrace.As("jj")), "out")
	},
	"stream-table-with-serdes": func(b *millrace.Builder) {
		t := tableOf(b, "t", auto)
		to(joinedWith(from(b, "s"), t), "out")
	},
	"select-key-join": func(b *millrace.Builder) {
		t := tableOf(b, "t", auto)
		to(joinedWith(selectValue(from(b, "s")), t, auto, textKey), "out")
	},
	"select-key-left-join": func(b *millrace.Builder) {
		t := tableOf(b, "t", auto)
		to(leftJoinedWith(selectValue(from(b, "s")), t, auto, textKey), "out")
	},
	"select-key-join-named": func(b *millrace.Builder) {
		t := tableOf(b, "t", auto)
		to(joinedWith(selectValue(from(b, "s")), t, millrace.As("jj"), textKey), "out")
	},
	"two-joins-share-a-topic": func(b *millrace.Builder) {
		t, u := tableOf(b, "t", auto), tableOf(b, "u", auto)
		s := selectValue(from(b, "s"))
		to(joinedWith(s, t, auto, textKey), "o1")
		to(joinedWith(s, u, auto, textKey), "o2")
		to(leftJoinedWith(millrace.MapValues(s, same), u, auto, textKey, textValue), "o3")
	},
	"inner-and-left-join-share-a-topic": func(b *millrace.Builder) {
		t, u := tableOf(b, "t", auto), tableOf(b, "u", auto)
		s := selectValue(from(b, "s"))
		to(joinedWith(s, t, auto, textKey), "o1")
		to(leftJoinedWith(s, u, auto, textKey), "o2")
	},
	"named-join-then-unnamed": func(b *millrace.Builder) {
		t, u := tableOf(b, "t", auto), tableOf(b, "u", auto)
		s := selectValue(from(b, "s"))
		to(joinedWith(s, t, millrace.As("one"), textKey), "o1")
		to(joinedWith(s, u, textKey), "o2")
	},
	"named-node-join-unnamed": func(b *millrace.Builder) {
		t := tableOf(b, "t", auto)
		to(joinedWith(selectValue(from(b, "s"), millrace.As("sk")), t, auto, textKey), "o1")
	},
	"join-and-count-of-one-flagged-stream": func(b *millrace.Builder) {
		t := tableOf(b, "t", auto)
		s := millrace.Map(from(b, "s"), swap)
		to(joinedWith(s, t, auto, textKey, textValue), "o1")
		to(millrace.Count(s.GroupByKey(textKey, textValue), auto).ToStream(), "o2")
		to(s.Repartition(millrace.As("rr"), textKey, textValue), "o3")
	},
	"join-behind-repartition": func(b *millrace.Builder) {
		t := tableOf(b, "t", auto)
		s := selectValue(from(b, "s")).Repartition(millrace.As("rr"), millrace.Partitions(3), textKey)
		to(joinedWith(s, t), "o1")
	},
	"global": func(b *millrace.Builder) {
		g := millrace.GlobalTableFrom(b, topicOf("g"), auto)
		to(millrace.LeftJoinGlobal(from(b, "s"), g, byValue, firstOf), "out")
	},
	"global-named": func(b *millrace.Builder) {
		g := millrace.GlobalTableFrom(b, topicOf("g"), millrace.StoreName("gs"))
		to(millrace.JoinGlobal(from(b, "s"), g, byValue, first, millrace.As("jg")), "out")
	},
	"global-source-named": func(b *millrace.Builder) {
		g := millrace.GlobalTableFrom(b, topicOf("g"), millrace.NodeName("src"), millrace.StoreName("gs"))
		to(millrace.JoinGlobal(from(b, "s"), g, byValue, first), "out")
	},
	"global-flagged": func(b *millrace.Builder) {
		g := millrace.GlobalTableFrom(b, topicOf("g"), millrace.StoreName("gs"))
		j := millrace.JoinGlobal(selectValue(from(b, "s")), g, byValue, first)
		to(millrace.Count(j.GroupByKey(textKey, textValue), millrace.StoreName("c")).ToStream(), "out")
	},
	"split": func(b *millrace.Builder) {
		s := from(b, "s").Split()
		one := s.Branch(yes)
		two := s.Branch(yes)
		rest := s.Default()
		to(rest, "o")
		to(one, "o")
		to(two, "o")
	},
	"split-named": func(b *millrace.Builder) {
		s := from(b, "s").Split(millrace.As("sp-"))
		x := s.Branch(yes, millrace.As("x"))
		s.Branch(yes)
		d := s.Default(millrace.As("d"))
		to(x, "o")
		to(d, "o2")
	},
	"split-no-default": func(b *millrace.Builder) {
		s := selectValue(from(b, "s")).Split(millrace.As("sp-"))
		x := s.Branch(yes, millrace.As("x"))
		s.NoDefault()
		to(millrace.Count(x.GroupByKey(textKey), millrace.StoreName("c")).ToStream(), "o")
	},
	"merge": func(b *millrace.Builder) {
		to(from(b, "a").Merge(from(b, "c")), "o")
	},
	"merge-named": func(b *millrace.Builder) {
		both := from(b, "a").Merge(from(b, "c"), millrace.As("both"))
		to(millrace.MapValues(both, same, millrace.As("mv")), "o", millrace.As("end"))
	},
	"merge-with-itself": func(b *millrace.Builder) {
		s := from(b, "a")
		to(s.Merge(s), "o")
	},
	"merge-flagged": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		to(millrace.Count(s.Merge(from(b, "c")).GroupByKey(textKey, textValue), auto).ToStream(), "o")
	},
	"repartition": func(b *millrace.Builder) {
		to(from(b, "a").Repartition(millrace.As("rr")), "o")
	},
	"repartition-auto": func(b *millrace.Builder) {
		to(from(b, "a").Repartition(auto), "o")
	},
	"repartition-auto-then-count": func(b *millrace.Builder) {
		s := selectValue(from(b, "a")).Repartition(auto, textKey)
		to(millrace.Count(s.GroupByKey(), auto).ToStream(), "o")
	},
	"to-table": func(b *millrace.Builder) {
		to(from(b, "a").ToTable(auto).ToStream(), "o")
	},
	"to-table-named-store": func(b *millrace.Builder) {
		to(from(b, "a").ToTable(millrace.StoreName("x")).ToStream(), "o")
	},
	"to-table-with-serdes": func(b *millrace.Builder) {
		to(from(b, "a").ToTable(auto, textKey, textValue).ToStream(), "o")
	},
	"to-table-node-named": func(b *millrace.Builder) {
		to(from(b, "a").ToTable(auto, millrace.NodeName("n")).ToStream(), "o")
	},
	"to-table-flagged": func(b *millrace.Builder) {
		to(selectValue(from(b, "a")).ToTable(auto, textKey).ToStream(), "o")
	},
	"to-table-flagged-node-named": func(b *millrace.Builder) {
		to(selectValue(from(b, "a")).ToTable(auto, millrace.NodeName("tt"), textKey).ToStream(), "o")
	},
	"to-table-flagged-store-named": func(b *millrace.Builder) {
		to(selectValue(from(b, "a")).ToTable(auto, millrace.StoreName("mm"), textKey).ToStream(), "o")
	},
	"to-table-flagged-both-named": func(b *millrace.Builder) {
		to(selectValue(from(b, "a")).ToTable(millrace.As("x"), textKey).ToStream(), "o")
	},
	"to-table-join": func(b *millrace.Builder) {
		t := from(b, "a").ToTable(auto)
		to(joinedWith(from(b, "s"), t), "o")
	},
	"table-filter-map": func(b *millrace.Builder) {
		to(millrace.MapTableValues(tableOf(b, "a").Filter(yes), same).ToStream(), "o")
	},
	"table-filter-with-serdes-map-named": func(b *millrace.Builder) {
		f := tableOf(b, "a").Filter(yes, textKey, textValue)
		to(millrace.MapTableValues(f, same, millrace.StoreName("mv"), textValue).ToStream(), "o")
	},
	"table-map-with-serdes": func(b *millrace.Builder) {
		to(millrace.MapTableValues(tableOf(b, "a"), same, textKey, textValue).ToStream(), "o")
	},
	"table-filter-named": func(b *millrace.Builder) {
		kept := tableOf(b, "a").Filter(yes, millrace.NodeName("keep"))
		to(kept.FilterNot(yes, millrace.NodeName("drop"), millrace.StoreName("dropped")).ToStream(), "o")
	},
	"table-filter-join": func(b *millrace.Builder) {
		t := millrace.MapTableValues(tableOf(b, "a", auto).Filter(yes), same)
		to(joinedWith(from(b, "s"), t), "o")
	},
	"table-filter-stored-join": func(b *millrace.Builder) {
		t := millrace.MapTableValues(tableOf(b, "a").Filter(yes, millrace.StoreName("f")), same)
		to(joinedWith(from(b, "s"), t), "o")
	},
	"table-named": func(b *millrace.Builder) {
		t := tableOf(b, "a", millrace.NodeName("src"), millrace.StoreName("x"))
		to(t.ToStream(millrace.As("ts")), "o", millrace.As("snk"))
	},
	"table-source-named": func(b *millrace.Builder) {
		to(tableOf(b, "a", millrace.NodeName("src")).ToStream(), "o")
	},
	"table-to-stream-twice": func(b *millrace.Builder) {
		t := tableOf(b, "a", millrace.StoreName("x"))
		to(t.ToStream(), "o")
		to(millrace.MapValues(t.ToStream(), same), "o2")
	},
	"process": func(b *millrace.Builder) {
		to(millrace.Process(from(b, "a"), newForwarder), "o")
	},
	"process-named-stores": func(b *millrace.Builder) {
		p := millrace.Process(from(b, "a"), newForwarder, millrace.As("p"), millrace.WithStores(textStore("one"), textStore("two")))
		to(millrace.Count(p.GroupByKey(textKey, textValue), millrace.StoreName("c")).ToStream(), "o")
	},
	"process-values": func(b *millrace.Builder) {
		p := millrace.ProcessValues(from(b, "a"), newValueForwarder, millrace.As("p"), millrace.WithStores(textStore("one")))
		to(millrace.Count(p.GroupByKey(textValue), millrace.StoreName("c")).ToStream(), "o")
	},
	"process-shares-store": func(b *millrace.Builder) {
		one := textStore("one")
		to(millrace.Process(from(b, "a"), newForwarder, millrace.WithStores(one)), "o")
		to(millrace.ProcessValues(from(b, "c"), newValueForwarder, millrace.WithStores(one)), "o2")
	},
	"same-topic-twice": func(b *millrace.Builder) {
		to(from(b, "a"), "o")
		to(from(b, "a"), "p")
	},
	"same-topic-twice-later": func(b *millrace.Builder) {
		to(millrace.MapValues(from(b, "a"), same), "o")
		to(from(b, "c"), "q")
		to(from(b, "a").Filter(yes), "p")
	},
	"stateless": func(b *millrace.Builder) {
		s := from(b, "a").Peek(pass).FilterNot(yes)
		s = millrace.FlatMapValues(millrace.FlatMap(s, each), once)
		selectValue(millrace.MapValues(millrace.Map(s, swap), same)).ForEach(pass)
	},
	"stateless-named": func(b *millrace.Builder) {
		s := from(b, "a").Peek(pass, millrace.As("p")).FilterNot(yes, millrace.As("fn"))
		s = millrace.FlatMapValues(millrace.FlatMap(s, each, millrace.As("fm")), once, millrace.As("fmv"))
		s = millrace.MapValues(millrace.Map(s, swap, millrace.As("m")), same, millrace.As("mv"))
		selectValue(s, millrace.As("sk")).ForEach(pass, millrace.As("fe"))
	},
	"print": func(b *millrace.Builder) {
		s := from(b, "a")
		s.Print(io.Discard, "")
		s.Print(io.Discard, "", millrace.As("pr"))
		to(s.Filter(yes), "o")
	},
	"several-topics": func(b *millrace.Builder) {
		t := millrace.NewTopics(serde.String, serde.String, "x", "y", "z")
		to(millrace.From(b, t, millrace.As("src")), "o")
	},
	"pattern": func(b *millrace.Builder) {
		t := millrace.NewTopicPattern("a-.*", serde.String, serde.String)
		to(millrace.Count(millrace.From(b, t).GroupByKey(), millrace.StoreName("c")).ToStream(), "o")
	},
	"two-independent": func(b *millrace.Builder) {
		to(millrace.Count(from(b, "a").GroupByKey(), millrace.StoreName("c1")).ToStream(), "o")
		to(from(b, "c").Filter(yes), "o2")
		to(millrace.Count(groupByValue(from(b, "d")), millrace.StoreName("c2")).ToStream(), "o3")
	},
	"chain-of-counts": func(b *millrace.Builder) {
		counts := millrace.Count(groupByValue(from(b, "a")), auto).ToStream()
		turned := millrace.Map(counts, func(k string, n int64) (int64, string) { return n, k })
		again := millrace.Count(turned.GroupByKey(millrace.WithKey(serde.Int64), textValue), auto).ToStream()
		third := millrace.Count(again.GroupByKey(), auto).ToStream()
		third.To(millrace.NewTopic("o", serde.Int64, serde.Int64))
	},
	"windowed-then-count": func(b *millrace.Builder) {
		w := table(millrace.CountWindows(windowed(from(b, "a")), millrace.StoreName("w"))).ToStream()
		s := millrace.Map(w, func(k window.Key[string], n int64) (string, int64) { return k.Key, n })
		g := s.GroupByKey(millrace.RepartitionName("g"), textKey, millrace.WithValue(serde.Int64))
		to(g.Reduce(func(_, n int64) int64 { return n }, millrace.StoreName("last")).ToStream(), "o")
	},
	"joined-then-counted": func(b *millrace.Builder) {
		t := tableOf(b, "t", millrace.StoreName("tt"))
		j := leftJoinedWith(from(b, "s"), t).Filter(yes)
		to(millrace.Count(j.GroupByKey(textValue), millrace.StoreName("c")).ToStream(), "o")
	},
	"table-of-counts-joined": func(b *millrace.Builder) {
		t := millrace.Count(groupByValue(from(b, "a")), millrace.StoreName("c"))
		j := millrace.LeftJoinTable(from(b, "s"), t, func(v string, _ int64, _ bool) string { return v })
		to(j, "o")
	},
	"stream-of-a-topic-as-table": func(b *millrace.Builder) {
		s := from(b, "in")
		t := s.ToTable(millrace.StoreName("t"))
		to(joinedWith(millrace.MapValues(s, same), t), "o")
	},
	"wide": func(b *millrace.Builder) {
		s := from(b, "in")
		to(s, "o0")
		to(millrace.MapValues(s, same), "o1")
		to(millrace.MapValues(s.Filter(yes), same), "o2")
		to(selectValue(s), "o3")
		to(millrace.Count(millrace.FlatMapValues(s, once).GroupByKey(textValue), auto).ToStream(), "o4")
		to(millrace.Process(s, newForwarder), "o5")
	},
}

// describedGraphs are the topologies of internal/topology/testdata/describe that the DSL can declare.
var describedGraphs = map[string]func(*millrace.Builder){
	"branches-merge": func(b *millrace.Builder) {
		s := from(b, "in").Split(millrace.As("by-size-"))
		longer := func(n int) func(string, string) bool { return func(_, v string) bool { return len(v) > n } }
		large := s.Branch(longer(100), millrace.As("big"))
		middle := s.Branch(longer(10), millrace.As("middle"))
		s.Branch(longer(5))
		small := s.Default(millrace.As("small"))
		large = millrace.MapValues(large, same).Peek(pass)
		middle = millrace.FlatMapValues(middle, once)
		small.ForEach(pass)
		to(large.Merge(middle).Merge(small), "out")
		to(large, "out-big")
	},
	"c064-group-twice": func(b *millrace.Builder) {
		millrace.Count(millrace.Count(groupByValue(from(b, "in")), auto).ToStream().GroupByKey(), auto)
	},
	"c064-select-key-twice": func(b *millrace.Builder) {
		s := selectValue(millrace.MapValues(selectValue(from(b, "in")), same))
		to(millrace.Count(s.GroupByKey(textKey, textValue), auto).ToStream(), "out")
	},
	"c123-count": func(b *millrace.Builder) {
		to(millrace.Count(from(b, "in").GroupByKey(), auto).ToStream(), "out")
	},
	"c123-filter-count": func(b *millrace.Builder) {
		to(millrace.Count(from(b, "in").Filter(yes).GroupByKey(), auto).ToStream(), "out")
	},
	"c123-filter-count-named": func(b *millrace.Builder) {
		to(millrace.Count(from(b, "in").Filter(yes).GroupByKey(), millrace.StoreName("cnt")).ToStream(), "out")
	},
	"empty": func(*millrace.Builder) {},
	"fan-out": func(b *millrace.Builder) {
		s := from(b, "in")
		for i := range 6 {
			c := s
			for range (i * 5) % 4 {
				c = millrace.MapValues(c, same)
			}
			to(c, "out-"+string(rune('0'+i)))
		}
		to(millrace.MapValues(s.Filter(yes).Merge(s.Filter(yes)), same), "out")
	},
	"global-between": func(b *millrace.Builder) {
		millrace.GlobalTableFrom(b, topicOf("g1"), millrace.StoreName("g1-store"))
		to(from(b, "a"), "a-out")
		millrace.GlobalTableFrom(b, topicOf("g2"), auto)
		millrace.GlobalTableFrom(b, topicOf("g3"), millrace.StoreName("g3-store"))
		to(millrace.Count(groupByValue(from(b, "b")), auto).ToStream(), "b-out")
		millrace.GlobalTableFrom(b, topicOf("g4"), millrace.StoreName("g4-store"))
	},
	"global-join": func(b *millrace.Builder) {
		s := from(b, "clicks")
		g := millrace.GlobalTableFrom(b, topicOf("countries"), millrace.StoreName("countries-store"))
		to(millrace.JoinGlobal(s, g, byValue, first), "out")
	},
	"group-count": func(b *millrace.Builder) {
		to(millrace.Count(groupByValue(from(b, "in")), auto).ToStream(), "out")
	},
	"many-stores": func(b *millrace.Builder) {
		stores := make(map[string]*millrace.KeyValueStore[string, string])
		all := []millrace.StepOption{}
		for _, name := range strings.Fields("orders clicks users pages views alpha beta gamma delta epsilon zeta eta") {
			stores[name] = textStore(name)
			all = append(all, millrace.WithStores(stores[name]))
		}
		s := from(b, "in")
		millrace.Process(s, newForwarder, all...)
		millrace.Process(s, newForwarder, millrace.WithStores(stores["users"], stores["alpha"], stores["clicks"]))
	},
	"many-topics": func(b *millrace.Builder) {
		read := func(names string) text {
			t := millrace.NewTopics(serde.String, serde.String, strings.Fields(names)...)
			return millrace.From(b, t)
		}
		to(read("orders clicks users pages views alpha beta gamma delta epsilon zeta eta theta iota kappa"), "out")
		to(read("b a Aa BB c"), "out-2")
	},
	"merge-same-topic": func(b *millrace.Builder) {
		x, y := from(b, "in"), from(b, "in")
		to(x.Merge(y), "out")
		to(millrace.MapValues(y, same), "out-2")
	},
	"named": func(b *millrace.Builder) {
		s := millrace.From(b, topicOf("in"), millrace.As("read")).Filter(yes, millrace.As("keep"))
		g := groupByValue(millrace.MapValues(s, same, millrace.As("shorten")), millrace.RepartitionName("by-word"), textValue)
		c := millrace.Count(g, millrace.NodeName("counter"), millrace.StoreName("counts"))
		to(c.ToStream(millrace.As("changes")), "out", millrace.As("write"))
	},
	"pattern-source": func(b *millrace.Builder) {
		pattern := millrace.NewTopicPattern("orders-[0-9]+", serde.String, serde.String)
		to(millrace.From(b, pattern).Merge(from(b, "extra")), "out")
		to(millrace.From(b, pattern), "out-2")
	},
	"process-with-stores": func(b *millrace.Builder) {
		seen, latest := textStore("seen"), textStore("last")
		x := millrace.Process(from(b, "a"), newForwarder, millrace.As("dedup"), millrace.WithStores(seen, latest))
		to(millrace.ProcessValues(from(b, "b"), newValueForwarder, millrace.WithStores(latest)), "b-out")
		to(x, "a-out")
	},
	"stream-table-join": func(b *millrace.Builder) {
		s := from(b, "clicks")
		to(leftJoinedWith(s, tableOf(b, "users", auto)), "out")
	},
	"stream-table-join-repartition": func(b *millrace.Builder) {
		s := from(b, "clicks")
		t := tableOf(b, "users", millrace.StoreName("users-store"))
		to(joinedWith(selectValue(s), t, millrace.As("enrich"), textKey), "out")
	},
	"sub-topologies": func(b *millrace.Builder) {
		s := from(b, "in")
		counts := millrace.Count(groupByValue(s), millrace.StoreName("one")).ToStream()
		turned := millrace.Map(counts, func(k string, _ int64) (string, string) { return k, k })
		to(turned.GroupByKey(textKey, textValue).Reduce(last, millrace.StoreName("two")).ToStream(), "out")
		to(s.Repartition(auto), "copy")
		to(from(b, "other").FilterNot(yes), "other-out")
	},
}
