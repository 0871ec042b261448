package millrace_test

import (
	"maps"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

func init() { maps.Copy(describedTopologies, describedTables) }

type textTable = millrace.Table[string, string]

func joinTexts(l, r textTable, opts ...millrace.StepOption) textTable {
	return millrace.JoinTables(l, r, first, append(opts, auto)...)
}

func outer(l string, _ bool, _ string, _ bool) string { return l }

// unnamedStore speaks of a step's store without naming it, as Materialized.with does.
var unnamedStore = []millrace.StepOption{textKey, textValue}

// describedTables are topologies of joins and other steps of tables.
var describedTables = map[string]func(*millrace.Builder){
	"tables-join": func(b *millrace.Builder) {
		to(joinTexts(tableOf(b, "l", auto), tableOf(b, "r", auto)).ToStream(), "out")
	},
	"tables-left-join": func(b *millrace.Builder) {
		to(millrace.LeftJoinTables(tableOf(b, "l", auto), tableOf(b, "r", auto), firstOf).ToStream(), "out")
	},
	"tables-outer-join": func(b *millrace.Builder) {
		to(millrace.OuterJoinTables(tableOf(b, "l", auto), tableOf(b, "r", auto), outer).ToStream(), "out")
	},
	"tables-join-named": func(b *millrace.Builder) {
		to(joinTexts(tableOf(b, "l", auto), tableOf(b, "r", auto), millrace.NodeName("j")).ToStream(), "out")
	},
	"tables-join-stored": func(b *millrace.Builder) {
		to(joinTexts(tableOf(b, "l", auto), tableOf(b, "r", auto), millrace.StoreName("st"), textValue).ToStream(), "out")
	},
	"tables-join-with-serdes": func(b *millrace.Builder) {
		to(joinTexts(tableOf(b, "l", auto), tableOf(b, "r", auto), unnamedStore...).ToStream(), "out")
	},
	"tables-join-named-and-stored": func(b *millrace.Builder) {
		to(joinTexts(tableOf(b, "l", auto), tableOf(b, "r", auto), millrace.NodeName("j"), millrace.StoreName("st"), textValue).ToStream(), "out")
	},
	"tables-join-same": func(b *millrace.Builder) {
		l := tableOf(b, "l", auto)
		to(joinTexts(l, l).ToStream(), "out")
	},
	"tables-join-derived": func(b *millrace.Builder) {
		l := tableOf(b, "l", auto)
		to(joinTexts(millrace.MapTableValues(l, same), l).ToStream(), "out")
	},
	"tables-join-derived-stored": func(b *millrace.Builder) {
		l := tableOf(b, "l", auto)
		to(joinTexts(millrace.MapTableValues(l, same, millrace.StoreName("st"), textValue), l).ToStream(), "out")
	},
	"tables-join-chain": func(b *millrace.Builder) {
		l, r := tableOf(b, "l", auto), tableOf(b, "r", auto)
		to(millrace.LeftJoinTables(joinTexts(l, r), r, firstOf).ToStream(), "out")
	},
	"tables-join-chain-stored": func(b *millrace.Builder) {
		l, r, x := tableOf(b, "l", auto), tableOf(b, "r", auto), tableOf(b, "x", auto)
		to(millrace.OuterJoinTables(joinTexts(l, r, millrace.StoreName("st"), textValue), x, outer).Filter(yes).ToStream(), "out")
	},
	"tables-join-filtered": func(b *millrace.Builder) {
		l := tableOf(b, "l", auto).Filter(yes)
		to(joinTexts(l, millrace.MapTableValues(tableOf(b, "r", auto), same)).ToStream(), "out")
	},
	"tables-join-of-aggregates": func(b *millrace.Builder) {
		counts := millrace.Count(from(b, "l").GroupByKey(), auto)
		latest := from(b, "r").GroupByKey().Reduce(last, auto)
		to(millrace.JoinTables(counts, latest, func(_ int64, v string) string { return v }).ToStream(), "out")
	},
	"tables-join-to-table": func(b *millrace.Builder) {
		l := from(b, "l").ToTable(auto)
		to(joinTexts(l, selectValue(from(b, "r")).ToTable(auto, textKey, textValue)).ToStream(), "out")
	},
	"tables-join-windowed": func(b *millrace.Builder) {
		g := windowed(from(b, "l"))
		l := table(millrace.CountWindows(g, auto)).Filter(func(windowKey, int64) bool { return true })
		r := millrace.MapTableValues(table(millrace.CountWindows(g, auto)), func(n int64) int64 { return n })
		toWindowed(millrace.JoinTables(l, r, func(n, _ int64) int64 { return n }).ToStream(), "out")
	},
	"table-group-count": func(b *millrace.Builder) {
		to(millrace.CountTable(groupTable(tableOf(b, "l", auto)), auto).ToStream(), "out")
	},
	"table-group-count-with-serdes": func(b *millrace.Builder) {
		to(millrace.CountTable(groupTable(tableOf(b, "l", auto)), auto, textKey).ToStream(), "out")
	},
	"table-group-count-node-named": func(b *millrace.Builder) {
		to(millrace.CountTable(groupTable(tableOf(b, "l", auto)), auto, millrace.NodeName("n")).ToStream(), "out")
	},
	"table-group-count-stored": func(b *millrace.Builder) {
		to(millrace.CountTable(groupTable(tableOf(b, "l", auto)), millrace.StoreName("st")).ToStream(), "out")
	},
	"table-group-count-named": func(b *millrace.Builder) {
		g := groupTable(tableOf(b, "l", auto), millrace.RepartitionName("g"))
		to(millrace.CountTable(g, millrace.NodeName("n"), millrace.StoreName("st")).ToStream(), "out")
	},
	"table-group-named-twice": func(b *millrace.Builder) {
		g := groupTable(tableOf(b, "l", auto), millrace.RepartitionName("g"))
		to(millrace.CountTable(g, auto).ToStream(), "out")
		to(g.Reduce(last, last, auto).ToStream(), "out2")
	},
	"table-group-twice": func(b *millrace.Builder) {
		g := groupTable(tableOf(b, "l", auto))
		to(millrace.CountTable(g, auto).ToStream(), "out")
		to(g.Reduce(last, last, auto).ToStream(), "out2")
	},
	"table-group-reduce": func(b *millrace.Builder) {
		to(groupTable(tableOf(b, "l", auto)).Reduce(last, last, auto).ToStream(), "out")
	},
	"table-group-reduce-with-serdes": func(b *millrace.Builder) {
		to(groupTable(tableOf(b, "l", auto)).Reduce(last, last, auto, textKey, textValue).ToStream(), "out")
	},
	"table-group-reduce-named": func(b *millrace.Builder) {
		to(groupTable(tableOf(b, "l", auto)).Reduce(last, last, millrace.NodeName("n"), millrace.StoreName("st")).ToStream(), "out")
	},
	"table-group-aggregate": func(b *millrace.Builder) {
		to(aggregateGroups(groupTable(tableOf(b, "l", auto)), auto).ToStream(), "out")
	},
	"table-group-aggregate-with-serdes": func(b *millrace.Builder) {
		to(aggregateGroups(groupTable(tableOf(b, "l", auto)), auto, textKey, textValue).ToStream(), "out")
	},
	"table-group-aggregate-node-named": func(b *millrace.Builder) {
		to(aggregateGroups(groupTable(tableOf(b, "l", auto)), auto, millrace.NodeName("n")).ToStream(), "out")
	},
	"table-group-of-join": func(b *millrace.Builder) {
		to(millrace.CountTable(groupTable(joinTexts(tableOf(b, "l", auto), tableOf(b, "r", auto))), auto).ToStream(), "out")
	},
	"table-group-of-filter": func(b *millrace.Builder) {
		to(millrace.CountTable(groupTable(tableOf(b, "l", auto).Filter(yes)), auto).ToStream(), "out")
	},
	"table-group-joined": func(b *millrace.Builder) {
		reduced := groupTable(tableOf(b, "l", auto)).Reduce(last, last, auto)
		to(joinTexts(reduced, tableOf(b, "r", auto)).ToStream(), "out")
	},
	"table-group-windowed": func(b *millrace.Builder) {
		counts := table(millrace.CountWindows(windowed(from(b, "l")), auto))
		g := millrace.GroupTableBy(counts, func(k windowKey, n int64) (string, int64) { return k.Key, n }, textKey, millrace.WithValue(serde.Int64))
		to(g.Reduce(func(a, _ int64) int64 { return a }, func(a, _ int64) int64 { return a }, auto).ToStream(), "out")
	},
	"table-transform": func(b *millrace.Builder) {
		to(millrace.ProcessTableValues(tableOf(b, "l", auto), newTablePass).ToStream(), "out")
	},
	"table-transform-named": func(b *millrace.Builder) {
		to(millrace.ProcessTableValues(tableOf(b, "l", auto), newTablePass, millrace.NodeName("n")).ToStream(), "out")
	},
	"table-transform-stored": func(b *millrace.Builder) {
		to(millrace.ProcessTableValues(tableOf(b, "l", auto), newTablePass, millrace.StoreName("st"), textValue).ToStream(), "out")
	},
	"table-transform-with-serdes": func(b *millrace.Builder) {
		to(millrace.ProcessTableValues(tableOf(b, "l", auto), newTablePass, unnamedStore...).ToStream(), "out")
	},
	"table-transform-with-store": func(b *millrace.Builder) {
		to(millrace.ProcessTableValues(tableOf(b, "l", auto), newTablePass, millrace.NodeName("n"), millrace.WithStores(textStore("s"))).ToStream(), "out")
	},
	"table-transform-joined": func(b *millrace.Builder) {
		l := millrace.ProcessTableValues(tableOf(b, "l", auto), newTablePass)
		to(joinTexts(l, tableOf(b, "r", auto)).ToStream(), "out")
	},
	"table-transform-grouped": func(b *millrace.Builder) {
		l := millrace.ProcessTableValues(tableOf(b, "l", auto), newTablePass)
		to(millrace.CountTable(groupTable(l), auto).ToStream(), "out")
	},
	"table-to-stream-mapped": func(b *millrace.Builder) {
		s := millrace.ToStreamBy(tableOf(b, "l", auto), byValue)
		to(millrace.Count(s.GroupByKey(textKey), auto).ToStream(), "out")
	},
	"table-to-stream-mapped-named": func(b *millrace.Builder) {
		to(millrace.ToStreamBy(tableOf(b, "l", auto), byValue, millrace.NodeName("n")), "out")
	},
	"table-map-with-key": func(b *millrace.Builder) {
		to(millrace.MapTableValuesWithKey(tableOf(b, "l", auto), byValue).ToStream(), "out")
	},
}

// tablePass is a processor that leaves rows as they are.
type tablePass struct{}

func newTablePass() tablePass { return tablePass{} }

func (tablePass) Init(processor.TableContext) error { return nil }
func (tablePass) Value(_, v string, ok bool) (string, bool, error) {
	return v, ok, nil
}
func (tablePass) Close() error { return nil }

func groupTable(t textTable, opts ...millrace.StepOption) millrace.GroupedTable[string, string] {
	return millrace.GroupTableBy(t, swap, append(opts, textKey, textValue)...)
}

func aggregateGroups(g millrace.GroupedTable[string, string], opts ...millrace.StepOption) textTable {
	return millrace.AggregateTable(g, noText, glue, glue, serde.String, opts...)
}
