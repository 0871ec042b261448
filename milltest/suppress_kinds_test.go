package milltest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// sendFinal sends the final results of a windowed table to the topic out.
func sendFinal[A any](t millrace.Table[window.Key[string], A]) {
	final := t.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("final")).ToStream()
	millrace.Map(final, func(k window.Key[string], v A) (string, string) {
		return fmt.Sprintf("%s[%d,%d]", k.Key, k.Window.StartMs, k.Window.EndMs), fmt.Sprint(v)
	}).To(textOut)
}

// UntilWindowCloses knows of every kind of windows when they close. The windows all end, and the times of the last record
// are those at which the last one is not due yet, and at which it is.
func TestSuppress_everyKindOfWindows(t *testing.T) {
	day := int64(24 * time.Hour / time.Millisecond)
	counted := func(w window.Windows) func(b *millrace.Builder) {
		return func(b *millrace.Builder) {
			counts, _ := millrace.CountWindows(millrace.From(b, textTopic("a")).GroupByKey().WindowBy(w), millrace.As("c"))
			sendFinal(counts)
		}
	}
	cogrouped := func(w window.Windows) func(b *millrace.Builder) {
		return func(b *millrace.Builder) {
			all, _ := cogroupIn(b).WindowBy(w).Aggregate(zeroText, serde.String, millrace.As("c"))
			sendFinal(all)
		}
	}
	session := window.Session(10 * ms).Grace(5 * ms)
	for _, c := range []struct {
		name    string
		declare func(b *millrace.Builder)
		input   []string // of the topic a
		closeMs int64    // when the last window before it closes
		want    string
	}{
		{"tumbling", counted(window.Tumbling(10 * ms).Grace(5 * ms)), []string{"k=1@0", "k=2@4"}, 15, "k[0,10]=2@4"},
		{"hopping", counted(window.Hopping(10*ms, 5*ms).Grace(5 * ms)), []string{"k=1@1", "k=2@6"}, 20, "k[0,10]=2@6 k[5,15]=1@6"},
		{"sliding", counted(window.Sliding(10 * ms).Grace(5 * ms)), []string{"k=1@10", "k=2@14"}, 27, "k[0,10]=1@10 k[4,14]=2@14 k[11,21]=1@14"},
		{"calendar", counted(window.Days(time.UTC).Grace(5 * ms)), []string{"k=1@0", "k=2@4"}, day + 5, fmt.Sprintf("k[0,%d]=2@4", day)},
		{"user-defined", counted(shifts{}), []string{"k=1@0", "k=2@4"}, 12 * hourMs /* when the next shift begins */, "k[0,36000000]=2@4"},
		{"sessions", func(b *millrace.Builder) {
			counts, _ := millrace.CountSessions(millrace.From(b, textTopic("a")).GroupByKey().SessionBy(session), millrace.As("c"))
			sendFinal(counts)
		}, []string{"k=1@0", "k=2@4"}, 20, "k[0,4]=2@4"},
		{"cogroup by tumbling windows", cogrouped(window.Tumbling(10 * ms).Grace(5 * ms)), []string{"k=1@0", "k=2@4"}, 15, "k[0,10]=0a1a2@4"},
		{"cogroup by sliding windows", cogrouped(window.Sliding(10 * ms).Grace(5 * ms)), []string{"k=1@10", "k=2@10"}, 16, "k[0,10]=0a1a2@10"},
		{"cogroup by sessions", func(b *millrace.Builder) {
			all, _ := cogroupIn(b).SessionBy(session).Aggregate(zeroText, mergeText, serde.String, millrace.As("c"))
			sendFinal(all)
		}, []string{"k=1@0", "k=2@4"}, 20, "k[0,4]=<0|0a1>a2@4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			everyEngine(t, func(t *testing.T, opts ...milltest.Option) {
				b := millrace.NewBuilder()
				c.declare(b)
				d := milltest.New(t, build(t, b), opts...)
				out := reader(d, textOut)
				var early string
				for _, r := range append(c.input, fmt.Sprintf("z=9@%d", c.closeMs-1)) {
					pipe(t, d, "a", r)
					early += out()
				}
				restart(t, d)
				pipe(t, d, "a", fmt.Sprintf("z=9@%d", c.closeMs))
				last := out()
				if last == "" {
					t.Errorf("the last window has closed and nothing was sent")
				}
				if early != "" && last != "" {
					early += " "
				}
				wantText(t, "final results", early+last, c.want)
			})
		})
	}
}

// cogroupIn is cogroupOfTwo in a given builder.
func cogroupIn(b *millrace.Builder) millrace.Cogrouped[string, string] {
	g := twoGroups{a: millrace.From(b, textTopic("a")).GroupByKey(), c: millrace.From(b, textTopic("b")).GroupByKey()}
	return millrace.AndCogroup(millrace.Cogroup(g.a, func(_, v, agg string) string { return agg + "a" + v }), g.c,
		func(_, v, agg string) string { return agg + "b" + v })
}

// Of two windowed tables that are joined, one may lag behind: its window gets a second result after the final one, and a group
// takes the first one out. A final result that is the first takes nothing out, not even the initial aggregate.
func TestSuppress_groupOfFinalResults(t *testing.T) {
	b := millrace.NewBuilder()
	counts := func(topic string) millrace.Table[window.Key[string], int64] {
		in := millrace.From(b, millrace.NewTopic(topic, serde.String, serde.String)).GroupByKey()
		t, _ := millrace.AggregateWindows(in.WindowBy(window.Tumbling(10*ms)), func() int64 { return 100 },
			func(_, _ string, n int64) int64 { return n + 1 }, serde.Int64, millrace.As("counts-"+topic))
		return t
	}
	both := millrace.OuterJoinTables(counts("l"), counts("r"), func(l int64, _ bool, r int64, _ bool) int64 { return l + r },
		millrace.As("both"), millrace.WithValue(serde.Int64)).Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("final"))
	g := millrace.GroupTableBy(both, func(k window.Key[string], n int64) (string, int64) { return k.Key, n },
		millrace.WithKey(serde.String), millrace.WithValue(serde.Int64))
	sums := millrace.SumTable(g, func(n int64) int64 { return n }, serde.Int64, millrace.As("sums"))
	out := millrace.NewTopic("out", serde.String, serde.Int64)
	sums.ToStream().To(out)
	d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
	steps{
		{"l", "a=x@1", ""},
		{"l", "a=x@2", ""},
		{"r", "b=x@100", "a=102@2"},
		{"l", "a=x@3", "a=103@3"},
	}.run(t, d, reader(d, out))
}
