package milltest_test

import (
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

// Joins of two tables, one of which or both are versioned, on the input that the join tests of Kafka Streams share: updates
// of a versioned side that come out of order are dropped.
func TestJoinTables_versioned(t *testing.T) {
	const inner, leftHead, outerHead = "4:A-a@4; 5:B-a@5; 6:B-b@6; 7:~@7; 10:C-c@10; 11:~@11",
		"3:A-null@3; 4:A-a@4; 5:B-a@5; 6:B-b@6; 7:~@7; 9:C-null@9; 10:C-c@10; 11:C-null@11; 12:~@12",
		"3:A-null@3; 4:A-a@4; 5:B-a@5; 6:B-b@6; 7:null-b@7; 8:~@8; 9:C-null@9; 10:C-c@10; 11:C-null@11; 12:~@12"
	for _, c := range []struct {
		left, right bool
		kind        string
		want        string
	}{
		{true, true, "inner", inner + "; 19:E-e@15"},
		{true, true, "left", leftHead + "; 19:E-e@15"},
		{true, true, "outer", outerHead + "; 18:null-e@14; 19:E-e@15"},
		{true, false, "inner", inner + "; 19:E-e@15; 21:~@15; 23:E-f@15"},
		{true, false, "left", leftHead + "; 19:E-e@15; 21:E-null@15; 23:E-f@15"},
		{true, false, "outer", outerHead + "; 14:null-d@7; 17:~@3; 18:null-e@14; 19:E-e@15; 21:E-null@15; 23:E-f@15"},
		{false, true, "inner", inner + "; 19:E-e@15; 20:~@14; 22:F-e@14"},
		{false, true, "left", leftHead + "; 15:D-null@6; 16:~@2; 19:E-e@15; 20:~@14; 22:F-e@14"},
		{false, true, "outer", outerHead + "; 15:D-null@6; 16:~@2; 18:null-e@14; 19:E-e@15; 20:null-e@14; 22:F-e@14"},
	} {
		b := millrace.NewBuilder()
		table := func(topic string, versioned bool) millrace.Table[string, string] {
			opts := []millrace.StepOption{millrace.As(topic + "-table")}
			if versioned {
				opts = append(opts, millrace.Versioned(1000*ms))
			}
			return millrace.TableFrom(b, millrace.NewTopic(topic, serde.String, serde.String), opts...)
		}
		l, r := table("S", c.left), table("T", c.right)
		var joined millrace.Table[string, string]
		switch c.kind {
		case "inner":
			joined = millrace.JoinTables(l, r, func(l, r string) string { return l + "-" + r })
		case "left":
			joined = millrace.LeftJoinTables(l, r, func(l, r string, ok bool) string { return l + "-" + orText(r, ok) })
		default:
			joined = millrace.OuterJoinTables(l, r, func(l string, okL bool, r string, okR bool) string { return orText(l, okL) + "-" + orText(r, okR) })
		}
		joined.ToStream().To(outTopic)
		d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
		wantText(t, c.kind, shared(t, d, reader(d, outTopic)), c.want)
	}
}

// An aggregate in a versioned store has the timestamps of its records, and what its steps sent before can be asked for.
func TestVersioned_aggregate(t *testing.T) {
	everywhere(t, func(t *testing.T, opts []millrace.StepOption, driver ...milltest.Option) {
		b := millrace.NewBuilder()
		g := millrace.From(b, strTopic).GroupByKey()
		reduced := g.Reduce(func(agg, v string) string { return agg + v }, append(opts, millrace.As("r"), millrace.Versioned(100*ms))...)
		reduced.ToStream().To(outTopic)
		d := milltest.New(t, build(t, b), driver...)
		out := reader(d, outTopic)
		steps{
			{"in", "k=a@10", "k=a@10"}, {"in", "k=b@30", "k=ab@30"}, {"in", "k=c@20", "k=abc@30"}, {"in", "z=z@200", "z=z@200"},
			{"in", "k=d@40", ""}, // 40 is before the history
			{"in", "k=e@150", "k=abce@150"},
		}.run(t, d, out)
		wantDropped(t, d, "r", millrace.DroppedExpired, 1)
		restart(t, d)
		s := milltest.Versioned[string, string](d, "r", 0)
		wantText(t, "as of", asOf(t, s, "k", 99, 100, 149, 150), "null abc abc abce")
	})
}
