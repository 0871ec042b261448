package millrace_test

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

func TestDescribeEqualsJava_selfJoins(t *testing.T) {
	compareDescriptions(t, "testdata/describe/self-joins.txt", describedSelfJoins, millrace.Optimize(millrace.SingleStoreSelfJoin))
}

func TestDescribeEqualsJava_mergedRepartitions(t *testing.T) {
	compareDescriptions(t, "testdata/describe/merged-repartitions.txt", describedMerges, millrace.OptimizeProperty("merge.repartition.topics"))
}

func TestDescribeEqualsJava_allOptimisations(t *testing.T) {
	compareDescriptions(t, "testdata/describe/all-optimisations.txt", describedOptimized, millrace.Optimize(millrace.OptimizeAll))
}

// joinedSelf joins a stream with itself into topic o.
func joinedSelf(s text, opts ...millrace.StepOption) { to(innerJoined(s, s, opts...), "o") }

// countedBy counts a stream by its key, into a store of that name, or a numbered one.
func countedBy(s text, name string) millrace.Table[string, int64] {
	if name == "" {
		return millrace.Count(s.GroupByKey(textKey, textValue), auto)
	}
	return millrace.Count(s.GroupByKey(textKey, textValue), millrace.StoreName(name))
}

func countTwice(s text) {
	countedBy(s, "n1")
	countedBy(s, "n2")
}

var describedSelfJoins = map[string]func(*millrace.Builder){
	"self-join-optimised":             func(b *millrace.Builder) { joinedSelf(from(b, "a"), auto) },
	"self-join-optimised-named":       func(b *millrace.Builder) { joinedSelf(from(b, "a"), millrace.As("j")) },
	"self-join-optimised-two-streams": func(b *millrace.Builder) { to(innerJoined(from(b, "a"), from(b, "a"), auto), "o") },
	"self-join-optimised-flagged":     func(b *millrace.Builder) { joinedSelf(selectValue(from(b, "a")), auto, textKey) },
	"self-join-optimised-flagged-named": func(b *millrace.Builder) {
		// Without a common name of the stores: Java's twin has one of the steps alone.
		joinedSelf(selectValue(from(b, "a")), millrace.NodeName("n"), millrace.RepartitionName("n"), auto, textKey)
	},
	"self-join-optimised-mapped": func(b *millrace.Builder) {
		joinedSelf(millrace.MapValues(from(b, "a"), same), auto, textValue, millrace.WithOtherValue(serde.String))
	},
	"self-join-optimised-mapped-apart": func(b *millrace.Builder) {
		s := from(b, "a")
		to(innerJoined(millrace.MapValues(s, same), s, auto, textValue), "o")
	},
	"self-join-optimised-filtered-apart": func(b *millrace.Builder) {
		s := from(b, "a")
		to(innerJoined(s.Filter(yes), s.Filter(yes), auto), "o")
	},
	"self-join-optimised-merged": func(b *millrace.Builder) {
		s := from(b, "a").Merge(from(b, "c"))
		joinedSelf(s, auto, textKey, textValue, millrace.WithOtherValue(serde.String))
	},
	"self-join-optimised-three-way": func(b *millrace.Builder) {
		s := from(b, "a")
		to(innerJoined(innerJoined(s, s, auto), s, auto, textValue), "o")
	},
	"self-join-optimised-twice": func(b *millrace.Builder) {
		s := from(b, "a")
		to(innerJoined(s, s, auto), "o")
		to(innerJoined(s, s, auto), "o2")
	},
	"self-join-optimised-beside": func(b *millrace.Builder) {
		s := from(b, "a")
		to(millrace.MapValues(s, same), "p")
		countedBy(s, "n")
		joinedSelf(s, auto)
		to(millrace.Process[string, string, string, string](s, newForwarder), "q")
	},
	"self-join-optimised-process": func(b *millrace.Builder) {
		s := millrace.ProcessValues[string, string, string](from(b, "a"), newValueForwarder)
		joinedSelf(s, auto, textValue, millrace.WithOtherValue(serde.String))
	},
	"self-join-optimised-counted": func(b *millrace.Builder) {
		joinedSelf(from(b, "a").GroupByKey().Reduce(last, millrace.StoreName("n")).ToStream(), auto)
	},
}

var describedMerges = map[string]func(*millrace.Builder){
	"merge-two-counts": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		to(countedBy(s, "").ToStream(), "o")
		to(countedBy(s, "").ToStream(), "o2")
	},
	"merge-two-counts-named": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"), millrace.As("k"))
		to(millrace.Count(s.GroupByKey(textKey, textValue), millrace.As("n1")).ToStream(), "o")
		to(millrace.Count(s.GroupByKey(textKey, textValue), millrace.As("n2")).ToStream(), "o2")
	},
	"merge-two-counts-grouped-named": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		millrace.Count(s.GroupByKey(millrace.RepartitionName("g1"), textKey, textValue), millrace.StoreName("n1"))
		millrace.Count(s.GroupByKey(millrace.RepartitionName("g2"), textKey, textValue), millrace.StoreName("n2"))
	},
	"merge-named-second": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		countedBy(s, "")
		millrace.Count(s.GroupByKey(millrace.RepartitionName("g2"), textKey, textValue), millrace.StoreName("n2"))
	},
	"merge-one-count":          func(b *millrace.Builder) { countedBy(selectValue(from(b, "a")), "") },
	"merge-one-count-filtered": func(b *millrace.Builder) { countedBy(selectValue(from(b, "a")).Filter(yes), "") },
	"merge-join-and-count": func(b *millrace.Builder) {
		t := tableOf(b, "t", millrace.StoreName("tt"))
		s := selectValue(from(b, "a"))
		to(joinedWith(s, t, auto, textKey), "o")
		countedBy(s, "n")
	},
	"merge-stream-join-and-count": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		countedBy(s, "n")
		to(innerJoined(s, from(b, "c"), auto, textKey), "o")
	},
	"merge-stream-join-named-and-count": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		to(innerJoined(s, from(b, "c"), millrace.As("j"), textKey), "o")
		countedBy(s, "n")
	},
	"merge-map-values-between": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		countedBy(s, "n1")
		countedBy(millrace.MapValues(s, same), "n2")
		countedBy(s, "n3")
	},
	"merge-filters-between": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		countedBy(s.Filter(yes), "n1")
		countedBy(s.Filter(yes), "n2")
		to(s, "x")
	},
	"merge-filter-and-sink": func(b *millrace.Builder) {
		s := selectValue(from(b, "a")).Filter(yes)
		to(s, "x")
		countedBy(s, "n1")
	},
	"merge-behind-merge": func(b *millrace.Builder) { countTwice(selectValue(from(b, "a")).Merge(from(b, "c"))) },
	"merge-behind-merge-other": func(b *millrace.Builder) {
		s := from(b, "c")
		countTwice(s.Merge(selectValue(from(b, "a")).Filter(yes)))
	},
	"merge-behind-merge-filtered-first": func(b *millrace.Builder) {
		countTwice(selectValue(from(b, "a")).Filter(yes).Merge(from(b, "c")))
	},
	"merge-behind-merge-both": func(b *millrace.Builder) {
		countTwice(selectValue(from(b, "a")).Merge(selectValue(from(b, "c"))))
	},
	"merge-group-by": func(b *millrace.Builder) {
		g := groupByValue(from(b, "a"), textValue)
		millrace.Count(g, millrace.StoreName("n1"))
		g.Reduce(last, millrace.StoreName("n2"))
	},
	"merge-windowed": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		millrace.CountWindows(s.GroupByKey(textKey, textValue).WindowBy(tenMs), millrace.StoreName("n1"))
		countedBy(s, "n2")
	},
	"merge-to-table": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		s.ToTable(millrace.StoreName("t1"), auto, textKey, textValue)
		countedBy(s, "n2")
	},
	"merge-repartition-step": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		countedBy(s.Repartition(millrace.As("r"), textKey, textValue), "n1")
		countedBy(s, "n2")
	},
	"merge-process": func(b *millrace.Builder) {
		countTwice(millrace.Process[string, string, string, string](from(b, "a"), newForwarder))
	},
	"merge-two-changers": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		countedBy(s, "n1")
		countedBy(millrace.SelectKey(s, byValue), "n2")
		countedBy(s, "n3")
	},
	"merge-map-values-first": func(b *millrace.Builder) {
		countTwice(millrace.MapValues(selectValue(from(b, "a")), same))
	},
	"merge-chain": func(b *millrace.Builder) {
		n := countedBy(selectValue(from(b, "a")), "n1").ToStream()
		s := millrace.SelectKey(n, func(k string, _ int64) string { return k })
		millrace.Count(s.GroupByKey(textKey), millrace.StoreName("n2"))
		millrace.Count(s.GroupByKey(textKey), millrace.StoreName("n3"))
	},
	"merge-left-join": func(b *millrace.Builder) {
		t := tableOf(b, "t", millrace.StoreName("tt"))
		s := selectValue(from(b, "a"))
		to(leftJoinedWith(s, t, auto, textKey), "o")
		countedBy(s, "n")
	},
	"merge-self-join-flagged-named": describedSelfJoins["self-join-optimised-flagged-named"],
}

var describedOptimized = map[string]func(*millrace.Builder){
	"all-self-join-flagged-named": describedSelfJoins["self-join-optimised-flagged-named"],
	"all-self-join-flagged": func(b *millrace.Builder) {
		s := selectValue(from(b, "a"))
		joinedSelf(s, auto, textKey)
		countedBy(s, "n")
	},
	"merge-with-table-source": func(b *millrace.Builder) {
		t := tableOf(b, "t", millrace.StoreName("tt"))
		s := selectValue(from(b, "a"))
		to(joinedWith(s, t, auto, textKey), "o")
		to(joinedWith(s, t, millrace.As("jj"), textKey), "p")
	},
}

// TestOptimize_beyondJava holds the topologies that Kafka Streams refuses to optimise, or where it loses records.
func TestOptimize_beyondJava(t *testing.T) {
	for _, tc := range []struct {
		name    string
		declare func(*millrace.Builder)
		has     []string
		hasNot  []string
	}{
		{"two topics behind one filter", func(b *millrace.Builder) {
			countTwice(selectValue(from(b, "a")).Filter(yes))
		}, []string{
			"--> KSTREAM-FILTER-0000000002\n",
			"Processor: KSTREAM-FILTER-0000000002 (stores: [])\n      --> KSTREAM-AGGREGATE-0000000003, KSTREAM-AGGREGATE-0000000007\n      <-- n1-repartition-source\n",
		}, []string{"n2-repartition"}},
		{"two branches", func(b *millrace.Builder) {
			s := selectValue(from(b, "a")).Split(millrace.As("s-"))
			countedBy(s.Branch(yes, millrace.As("x")), "n1")
			countedBy(s.Default(millrace.As("y")), "n2")
		}, []string{"Processor: s- (stores: [])\n      --> s-x, s-y\n      <-- n1-repartition-source\n"}, []string{"n2-repartition"}},
		{"two merges", func(b *millrace.Builder) {
			countTwice(selectValue(from(b, "a")).Merge(from(b, "c")).Merge(from(b, "e")))
		}, []string{"Processor: n1-repartition-filter (stores: [])\n      --> n1-repartition-sink\n      <-- KSTREAM-MERGE-0000000005\n"}, []string{"n2-repartition"}},
		{"behind a merge and before it", func(b *millrace.Builder) {
			s := selectValue(from(b, "a"))
			countedBy(s.Merge(from(b, "c")), "n1")
			countedBy(s, "n2")
		}, []string{"<-- KSTREAM-MERGE-0000000003\n    Processor: n2-repartition-filter", "topic: n2-repartition"}, nil},
		{"behind a join with a global table", func(b *millrace.Builder) {
			g := millrace.GlobalTableFrom(b, topicOf("t"), millrace.StoreName("tt"))
			s := selectValue(from(b, "a"))
			countedBy(millrace.JoinGlobal(s, g, byValue, first), "n1")
			countedBy(s, "n2")
		}, []string{"topic: n1-repartition", "topic: n2-repartition"}, nil},
		{"left join with itself", func(b *millrace.Builder) {
			s := from(b, "a")
			to(leftJoined(s, s, millrace.As("j")), "o")
		}, []string{"j-this-join-store", "j-outer-other-join-store", "j-left-shared-join-store"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := millrace.NewBuilder(millrace.Optimize(millrace.OptimizeAll))
			tc.declare(b)
			topology, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			text := topology.Describe()
			for _, want := range tc.has {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %q:\n%s", want, text)
				}
			}
			for _, other := range tc.hasNot {
				if strings.Contains(text, other) {
					t.Errorf("has %q:\n%s", other, text)
				}
			}
		})
	}
}

// TestOptimize_buildTwice builds one declaration twice, which leaves it as it is.
func TestOptimize_buildTwice(t *testing.T) {
	b := millrace.NewBuilder(millrace.Optimize(millrace.OptimizeAll))
	describedOptimized["all-self-join-flagged"](b)
	one, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	two, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if one.Describe() != two.Describe() {
		t.Errorf("%s\nis not\n%s", one.Describe(), two.Describe())
	}
}
