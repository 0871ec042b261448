package millrace_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

func TestDescribeEqualsJava_ofSessionsAndCogroups(t *testing.T) {
	compareDescriptions(t, "testdata/describe/sessions_cogroups.txt", describedCogroups)
}

var tenMsGap = window.Session(10 * time.Millisecond)

func inSessions(g millrace.Grouped[string, string]) millrace.Sessions[string, string] {
	return g.SessionBy(tenMsGap)
}

func toSessions[V any](t millrace.Table[window.Key[string], V], topic string) {
	t.ToStream().To(millrace.NewTopic(topic, serde.SessionWindowed(serde.String), serde.JSON[V]()))
}

func glueSessions(_, a, b string) string { return a + b }

type textCogroup = millrace.Cogrouped[string, string]

func cogroup(first millrace.Grouped[string, string], others ...millrace.Grouped[string, string]) textCogroup {
	c := millrace.Cogroup(first, glue)
	for _, g := range others {
		c = millrace.AndCogroup(c, g, glue)
	}
	return c
}

// cogroupedTable returns the table of a windowed cogroup whose late records are not used.
func cogroupedTable[K, A any](t millrace.Table[window.Key[K], A], _ millrace.CogroupedLate[K]) millrace.Table[window.Key[K], A] {
	return t
}

func byKey(b *millrace.Builder, topic string) millrace.Grouped[string, string] {
	return from(b, topic).GroupByKey()
}

var (
	nodeN   = millrace.NodeName("n")
	storeSt = millrace.StoreName("st")
)

var describedCogroups = map[string]func(*millrace.Builder){
	"session-count": func(b *millrace.Builder) {
		toSessions(table(millrace.CountSessions(inSessions(byKey(b, "in")), auto)), "out")
	},
	"session-count-with-serdes": func(b *millrace.Builder) {
		toSessions(table(millrace.CountSessions(inSessions(byKey(b, "in")), auto, textKey)), "out")
	},
	"session-count-named": func(b *millrace.Builder) {
		toSessions(table(millrace.CountSessions(inSessions(byKey(b, "in")), nodeN, storeSt)), "out")
	},
	"session-aggregate": func(b *millrace.Builder) {
		toSessions(table(millrace.AggregateSessions(inSessions(byKey(b, "in")), noText, glue, glueSessions, serde.String, auto)), "out")
	},
	"session-aggregate-with-serdes": func(b *millrace.Builder) {
		toSessions(table(millrace.AggregateSessions(inSessions(byKey(b, "in")), noText, glue, glueSessions, serde.String, auto, textKey)), "out")
	},
	"session-reduce": func(b *millrace.Builder) {
		toSessions(table(millrace.ReduceSessions(inSessions(byKey(b, "in")), last, auto)), "out")
	},
	"session-reduce-with-serdes": func(b *millrace.Builder) {
		toSessions(table(millrace.ReduceSessions(inSessions(byKey(b, "in")), last, auto, textKey, textValue)), "out")
	},
	"session-emit-on-close": func(b *millrace.Builder) {
		toSessions(table(millrace.CountSessions(inSessions(byKey(b, "in")), nodeN, storeSt, millrace.EmitOnClose())), "out")
	},
	"session-group-by": func(b *millrace.Builder) {
		toSessions(table(millrace.CountSessions(inSessions(groupByValue(from(b, "in"))), auto)), "out")
	},
	"session-group-by-named": func(b *millrace.Builder) {
		g := groupByValue(from(b, "in"), millrace.RepartitionName("g"))
		toSessions(table(millrace.ReduceSessions(inSessions(g), last, nodeN, storeSt)), "out")
	},
	"cogroup": func(b *millrace.Builder) {
		to(cogroup(byKey(b, "a")).Aggregate(noText, serde.String, auto).ToStream(), "out")
	},
	"cogroup-with-serdes": func(b *millrace.Builder) {
		to(cogroup(byKey(b, "a")).Aggregate(noText, serde.String, auto, textKey, textValue).ToStream(), "out")
	},
	"cogroup-store-named": func(b *millrace.Builder) {
		to(cogroup(byKey(b, "a")).Aggregate(noText, serde.String, storeSt).ToStream(), "out")
	},
	"cogroup-named": func(b *millrace.Builder) {
		to(cogroup(byKey(b, "a"), byKey(b, "c")).Aggregate(noText, serde.String, nodeN, storeSt).ToStream(), "out")
	},
	"cogroup-node-named": func(b *millrace.Builder) {
		to(cogroup(byKey(b, "a"), byKey(b, "c")).Aggregate(noText, serde.String, nodeN, auto).ToStream(), "out")
	},
	"cogroup-three": func(b *millrace.Builder) {
		to(cogroup(byKey(b, "a"), byKey(b, "c"), byKey(b, "d")).Aggregate(noText, serde.String, auto).ToStream(), "out")
	},
	"cogroup-flagged-one-store-named": func(b *millrace.Builder) {
		g := selectValue(from(b, "a")).GroupByKey(textKey)
		to(cogroup(g, byKey(b, "c")).Aggregate(noText, serde.String, storeSt).ToStream(), "out")
	},
	"cogroup-flagged-named": func(b *millrace.Builder) {
		ga := selectValue(from(b, "a")).GroupByKey(millrace.RepartitionName("ga"), textKey)
		gc := from(b, "c").GroupByKey(millrace.RepartitionName("gc"))
		gd := groupByValue(from(b, "d"), millrace.RepartitionName("gd"))
		to(cogroup(ga, gc, gd).Aggregate(noText, serde.String, nodeN, storeSt).ToStream(), "out")
	},
	"cogroup-one-stream-two-groups": func(b *millrace.Builder) {
		s := from(b, "a")
		to(cogroup(s.GroupByKey(), s.GroupByKey()).Aggregate(noText, serde.String, storeSt).ToStream(), "out")
	},
	"cogroup-windows": func(b *millrace.Builder) {
		c := cogroup(byKey(b, "a"), byKey(b, "c")).WindowBy(tenMs)
		toWindowed(cogroupedTable(c.Aggregate(noText, serde.String, auto)).ToStream(), "out")
	},
	"cogroup-windows-named": func(b *millrace.Builder) {
		c := cogroup(byKey(b, "a"), groupByValue(from(b, "c"))).WindowBy(tenMs)
		toWindowed(cogroupedTable(c.Aggregate(noText, serde.String, nodeN, storeSt)).ToStream(), "out")
	},
	"cogroup-sliding": func(b *millrace.Builder) {
		c := cogroup(byKey(b, "a"), byKey(b, "c")).WindowBy(window.Sliding(10 * time.Millisecond))
		toWindowed(cogroupedTable(c.Aggregate(noText, serde.String, storeSt)).ToStream(), "out")
	},
	"cogroup-sessions": func(b *millrace.Builder) {
		c := cogroup(byKey(b, "a"), byKey(b, "c")).SessionBy(tenMsGap)
		toSessions(cogroupedTable(c.Aggregate(noText, glueSessions, serde.String, auto)), "out")
	},
	"cogroup-sessions-named": func(b *millrace.Builder) {
		c := cogroup(byKey(b, "a"), groupByValue(from(b, "c"))).SessionBy(tenMsGap)
		toSessions(cogroupedTable(c.Aggregate(noText, glueSessions, serde.String, nodeN, storeSt)), "out")
	},
	"cogroup-sessions-with-serdes": func(b *millrace.Builder) {
		c := cogroup(byKey(b, "a")).SessionBy(tenMsGap)
		toSessions(cogroupedTable(c.Aggregate(noText, glueSessions, serde.String, auto, textKey, textValue)), "out")
	},
	"cogroup-then-join": func(b *millrace.Builder) {
		t := cogroup(byKey(b, "a"), byKey(b, "c")).Aggregate(noText, serde.String, auto)
		to(joinedWith(from(b, "s"), t), "out")
	},
	"cogroup-twice": func(b *millrace.Builder) {
		c := cogroup(byKey(b, "a"), groupByValue(from(b, "c")))
		to(c.Aggregate(noText, serde.String, millrace.StoreName("one")).ToStream(), "o1")
		toSessions(cogroupedTable(c.SessionBy(tenMsGap).Aggregate(noText, glueSessions, serde.String, millrace.StoreName("two"))), "o2")
	},
}

// Kafka Streams refuses several streams of a cogroup that need a repartition topic and have no name for it.
func TestCogroup_severalRepartitionTopicsWithoutNames(t *testing.T) {
	topology := built(t, func(b *millrace.Builder) {
		a, d := selectValue(from(b, "a")).GroupByKey(textKey), groupByValue(from(b, "d"))
		to(cogroup(a, byKey(b, "c"), d).Aggregate(noText, serde.String, millrace.As("st")).ToStream(), "out")
	})
	var names []string
	for _, r := range topology.Internal().InternalTopics() {
		names = append(names, r.Name)
	}
	if want := []string{"st-repartition", "st-2-repartition"}; !slices.Equal(names, want) {
		t.Errorf("repartition topics %v, want %v", names, want)
	}
}

func TestCogroup_buildErrors(t *testing.T) {
	for name, c := range map[string]struct {
		declare func(b *millrace.Builder)
		want    []string
	}{
		"the same group twice": {func(b *millrace.Builder) {
			g := byKey(b, "a")
			cogroup(g, g).Aggregate(noText, serde.String, millrace.As("st"))
		}, []string{"AndCogroup", "a part of the cogroup already"}},
		"another builder": {func(b *millrace.Builder) {
			cogroup(byKey(millrace.NewBuilder(), "x"))
			millrace.AndCogroup(cogroup(byKey(millrace.NewBuilder(), "a")), byKey(b, "c"), glue)
			from(b, "d")
		}, []string{"different builders"}},
		"no function": {func(b *millrace.Builder) {
			millrace.Cogroup[string, string, string](byKey(b, "a"), nil).Aggregate(noText, serde.String, millrace.As("st"))
		}, []string{"Cogroup is given a nil function"}},
		"no initial aggregate": {func(b *millrace.Builder) {
			cogroup(byKey(b, "a")).Aggregate(nil, serde.String, millrace.As("st"))
		}, []string{"Aggregate is given a nil function"}},
		"no name": {func(b *millrace.Builder) {
			cogroup(byKey(b, "a")).Aggregate(noText, serde.String)
		}, []string{"needs a name that outlives"}},
		"emit on close": {func(b *millrace.Builder) {
			cogroup(byKey(b, "a")).WindowBy(tenMs).Aggregate(noText, serde.String, millrace.As("st"), millrace.EmitOnClose())
		}, []string{"no use for the option EmitOnClose"}},
		"gap of nothing": {func(b *millrace.Builder) {
			cogroup(byKey(b, "a")).SessionBy(window.Session(0)).Aggregate(noText, glueSessions, serde.String, millrace.As("st"))
		}, []string{"window.Session"}},
		"no serde of a repartitioned stream": {func(b *millrace.Builder) {
			g := millrace.GroupBy(millrace.MapValues(from(b, "a"), func(v string) int { return len(v) }), func(k string, _ int) string { return k })
			millrace.Cogroup(g, func(_ string, _ int, a string) string { return a }).Aggregate(noText, serde.String, millrace.As("st"), textKey)
		}, []string{"repartition topic st-repartition", "WithKey", "WithValue"}},
		"late records of a stranger": {func(b *millrace.Builder) {
			_, late := cogroup(byKey(b, "a")).WindowBy(tenMs).Aggregate(noText, serde.String, millrace.As("st"))
			millrace.LateOf(late, byKey(b, "a")).ForEach(func(string, window.Late[string]) {})
		}, []string{"LateOf", "no part of that cogroup"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := millrace.NewBuilder()
			c.declare(b)
			_, err := b.Build()
			if err == nil {
				t.Fatal("it was built")
			}
			for _, part := range append(c.want, "describe_cogroup_test.go:") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
		})
	}
}
