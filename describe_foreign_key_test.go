package millrace_test

import (
	"maps"

	"github.com/millrace-io/millrace"
)

func ownValue(_, v string) (string, bool) { return v, true }

func foreignJoined(l, r millrace.Table[string, string], opts ...millrace.StepOption) millrace.Table[string, string] {
	return millrace.JoinForeignKey(l, r, ownValue, first, opts...)
}

func foreignLeftJoined(l, r millrace.Table[string, string], opts ...millrace.StepOption) millrace.Table[string, string] {
	return millrace.LeftJoinForeignKey(l, r, ownValue, firstOf, opts...)
}

// twoTables reads l and r.
func twoTables(b *millrace.Builder) (l, r millrace.Table[string, string]) {
	l = tableOf(b, "l", auto)
	return l, tableOf(b, "r", auto)
}

func twoNamedTables(b *millrace.Builder) (l, r millrace.Table[string, string]) {
	l = tableOf(b, "l", millrace.StoreName("ls"))
	return l, tableOf(b, "r", millrace.StoreName("rs"))
}

func init() {
	maps.Copy(describedTopologies, map[string]func(*millrace.Builder){
		"fk-join": func(b *millrace.Builder) {
			l, r := twoTables(b)
			to(foreignJoined(l, r, auto).ToStream(), "out")
		},
		"fk-left-join": func(b *millrace.Builder) {
			l, r := twoTables(b)
			to(foreignLeftJoined(l, r, auto).ToStream(), "out")
		},
		"fk-join-with-serdes": func(b *millrace.Builder) {
			l, r := twoTables(b)
			to(foreignJoined(l, r, auto, textKey, textValue).ToStream(), "out")
		},
		"fk-join-named": func(b *millrace.Builder) {
			l, r := twoNamedTables(b)
			to(foreignJoined(l, r, millrace.NodeName("fj")).ToStream(), "out")
		},
		"fk-join-named-and-kept": func(b *millrace.Builder) {
			l, r := twoNamedTables(b)
			to(foreignLeftJoined(l, r, millrace.As("fj"), textValue).ToStream(), "out")
		},
		"fk-join-kept": func(b *millrace.Builder) {
			l, r := twoTables(b)
			to(foreignJoined(l, r, millrace.StoreName("kept"), auto, textValue).ToStream(), "out")
		},
		"fk-join-itself": func(b *millrace.Builder) {
			l := tableOf(b, "l", millrace.StoreName("ls"))
			to(foreignLeftJoined(l, l, millrace.NodeName("fj")).ToStream(), "out")
		},
		"fk-join-itself-auto": func(b *millrace.Builder) {
			l := tableOf(b, "l", auto)
			to(foreignJoined(l, l, auto).ToStream(), "out")
		},
		"fk-join-chain": func(b *millrace.Builder) {
			l, r := twoTables(b)
			q := tableOf(b, "q", auto)
			to(foreignJoined(foreignJoined(l, r, auto, textValue), q, auto).ToStream(), "out")
		},
		"fk-join-chain-named": func(b *millrace.Builder) {
			l, r := twoNamedTables(b)
			q := tableOf(b, "q", millrace.StoreName("qs"))
			one := foreignJoined(l, r, millrace.As("one"), textValue)
			to(foreignLeftJoined(one, q, millrace.As("two"), textValue).ToStream(), "out")
		},
		"fk-join-of-derived-tables": func(b *millrace.Builder) {
			l, r := twoTables(b)
			kept := l.Filter(yes)
			to(foreignJoined(kept, millrace.MapTableValues(r, same, textKey, textValue), auto).ToStream(), "out")
		},
		"fk-join-behind-repartition": func(b *millrace.Builder) {
			r := tableOf(b, "r", millrace.StoreName("rs"))
			l := selectValue(from(b, "l")).ToTable(millrace.As("tt"), textKey)
			to(foreignJoined(l, r, millrace.NodeName("fj")).ToStream(), "out")
		},
		"fk-join-then-used-twice": func(b *millrace.Builder) {
			l, r := twoTables(b)
			j := foreignJoined(l, r, auto, textValue)
			to(joinedWith(from(b, "s"), j), "out")
			to(j.Filter(yes).ToStream(), "out2")
		},
	})
}
