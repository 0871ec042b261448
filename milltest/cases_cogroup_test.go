package milltest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

func textTopic(name string) millrace.Topic[string, string] {
	return millrace.NewTopic(name, serde.String, serde.String)
}

// twoGroups are the topics a and b, and their cogroup, which marks each value with its topic.
type twoGroups struct {
	b    *millrace.Builder
	a, c millrace.Grouped[string, string]
	co   millrace.Cogrouped[string, string]
}

func cogroupOfTwo() twoGroups {
	b := millrace.NewBuilder()
	g := twoGroups{b: b, a: millrace.From(b, textTopic("a")).GroupByKey(), c: millrace.From(b, textTopic("b")).GroupByKey()}
	g.co = millrace.AndCogroup(millrace.Cogroup(g.a, func(_, v, agg string) string { return agg + "a" + v }), g.c,
		func(_, v, agg string) string { return agg + "b" + v })
	return g
}

func zeroText() string { return "0" }

func mergeText(_, a, b string) string { return "<" + a + "|" + b + ">" }

var textOut = millrace.NewTopic("out", serde.String, serde.String)

func everyEngine(t *testing.T, f func(t *testing.T, opts ...milltest.Option)) {
	t.Helper()
	for name, e := range engines {
		t.Run(name, func(t *testing.T) { f(t, e.driver...) })
	}
}

func TestCogroup(t *testing.T) {
	everyEngine(t, func(t *testing.T, opts ...milltest.Option) {
		g := cogroupOfTwo()
		g.co.Aggregate(zeroText, serde.String, millrace.As("c")).ToStream().To(textOut)
		d := milltest.New(t, build(t, g.b), opts...)
		out := reader(d, textOut)
		steps{
			{"a", "k=1@10", "k=0a1@10"},
			{"b", "k=2@5", "k=0a1b2@10"},
			{"a", "k=~@20", ""},
			{"b", "~=3@7", ""},
		}.run(t, d, out)
		restart(t, d)
		steps{{"b", "k=4@30", "k=0a1b2b4@30"}}.run(t, d, out)
		wantDropped(t, d, "c-cogroup-agg-0", millrace.DroppedNullValue, 1)
		wantDropped(t, d, "c-cogroup-agg-1", millrace.DroppedNullKey, 1)
		wantText(t, "changelog", strings.ReplaceAll(rawRecords(d, "test-c-changelog"), "\n", " "),
			"6b=306131@10 6b=3061316232@10 6b=30613162326234@30")
	})
}

// Each row carries the headers of the record that changed it last, with a cache and without.
func TestCogroup_headers(t *testing.T) {
	for _, cache := range []int64{0, 1 << 20} {
		g := cogroupOfTwo()
		g.co.Aggregate(zeroText, serde.String, millrace.As("c")).ToStream().To(textOut)
		d := milltest.New(t, build(t, g.b), milltest.CacheBytes(cache))
		for i, topic := range []string{"a", "b"} {
			h := serde.Headers{}.With("h", []byte{byte('1' + i)})
			if err := d.PipeRaw(topic, 0, []byte("k"), []byte("v"), h, 10*ms); err != nil {
				t.Fatal(err)
			}
		}
		wantText(t, fmt.Sprint("cache ", cache), rawRecords(d, "out"), "6b=306176@10 h=1\n6b=3061766276@10 h=2")
	}
}

func TestCogroup_windows(t *testing.T) {
	everyEngine(t, func(t *testing.T, opts ...milltest.Option) {
		g := cogroupOfTwo()
		table, late := g.co.WindowBy(window.Tumbling(10*ms)).Aggregate(zeroText, serde.String, millrace.As("c"), millrace.Retain(time.Second))
		out := millrace.NewTopic("out", serde.Windowed(serde.String, 0), serde.String)
		table.ToStream().To(out)
		lateA, lateB := lateTextTopic("late-a"), lateTextTopic("late-b")
		millrace.LateOf(late, g.a).To(lateA)
		millrace.LateOf(late, g.c).To(lateB)
		d := milltest.New(t, build(t, g.b), opts...)
		read := reader(d, millrace.NewTopic("out", serde.Windowed(serde.String, 10*ms), serde.String))
		steps{
			{"a", "k=1@1", "k[0,10)=0a1@1"},
			{"a", "k=2@12", "k[10,20)=0a2@12"},
			{"b", "k=3@2", "k[0,10)=0a1b3@2"}, // b has a time of its own
			{"b", "k=~@3", "k[0,10)=0a1b3b@3"},
			{"a", "k=4@5", ""},
			{"b", "k=5@40", "k[40,50)=0b5@40"},
		}.run(t, d, read)
		restart(t, d)
		steps{
			{"b", "k=6@12", ""},
			{"a", "k=7@13", "k[10,20)=0a2a7@13"},
			{"a", "k=8@6", ""},
		}.run(t, d, read)
		wantText(t, "late of a", lateRecords(d, lateA), "k=4@5 observed 12 missed [{0 10}] k=8@6 observed 13 missed [{0 10}]")
		wantText(t, "late of b", lateRecords(d, lateB), "k=6@12 observed 40 missed [{10 20}]")
		// Counters live as long as the process, here the driver.
		wantDropped(t, d, "c-cogroup-agg-0", millrace.DroppedLate, 2)
		wantDropped(t, d, "c-cogroup-agg-1", millrace.DroppedLate, 1)
	})
}

func lateTextTopic(name string) millrace.Topic[string, window.Late[string]] {
	return millrace.NewTopic(name, serde.String, serde.JSON[window.Late[string]]())
}

func lateRecords(d *milltest.Driver, topic millrace.Topic[string, window.Late[string]]) string {
	var got []string
	for _, r := range milltest.Output(d, topic).ReadAll() {
		got = append(got, fmt.Sprintf("%s=%s@%d observed %d missed %v", r.Key, r.Value.Value, r.TimestampMs, r.Value.ObservedTimeMs, r.Value.Missed))
	}
	return strings.Join(got, " ")
}

func TestCogroup_slidingWindows(t *testing.T) {
	everyEngine(t, func(t *testing.T, opts ...milltest.Option) {
		g := cogroupOfTwo()
		table, late := g.co.WindowBy(window.Sliding(5*ms)).Aggregate(zeroText, serde.String, millrace.As("c"), millrace.Retain(time.Second))
		table.ToStream().To(millrace.NewTopic("out", serde.Windowed(serde.String, 0), serde.String))
		lateA := lateTextTopic("late-a")
		millrace.LateOf(late, g.a).To(lateA)
		d := milltest.New(t, build(t, g.b), opts...)
		read := reader(d, millrace.NewTopic("out", serde.Windowed(serde.String, 5*ms), serde.String))
		steps{
			{"a", "k=1@10", "k[5,10)=0a1@10"},
			{"a", "k=2@12", "k[11,16)=0a2@12 k[7,12)=0a1a2@12"},
			{"b", "k=3@11", "k[11,16)=0a2b3@12 k[7,12)=0a1a2b3@12 k[6,11)=0a1b3@11 k[12,17)=0a2@12"},
			{"b", "k=~@3", ""},
			{"a", "k=4@5", ""},
			{"b", "k=5@40", "k[35,40)=0b5@40"},
			{"b", "k=6@12", ""},
		}.run(t, d, read)
		wantDropped(t, d, "c-cogroup-agg-1", millrace.DroppedNullValue, 1)
		wantDropped(t, d, "c-cogroup-agg-1", millrace.DroppedLate, 1)
		wantText(t, "late of a", lateRecords(d, lateA), "k=4@5 observed 12 missed [{0 5}]")
	})
}

func TestCogroup_sessions(t *testing.T) {
	everyEngine(t, func(t *testing.T, opts ...milltest.Option) {
		g := cogroupOfTwo()
		table, late := g.co.SessionBy(window.Session(5*ms)).Aggregate(zeroText, mergeText, serde.String, millrace.As("c"), millrace.Retain(10*time.Second))
		out := millrace.NewTopic("out", serde.SessionWindowed(serde.String), serde.String)
		table.ToStream().To(out)
		lateA, lateB := lateTextTopic("late-a"), lateTextTopic("late-b")
		millrace.LateOf(late, g.a).To(lateA)
		millrace.LateOf(late, g.c).To(lateB)
		d := milltest.New(t, build(t, g.b), opts...)
		read := sessionReader(d, out)
		steps{
			{"a", "k=1@10", "k[10,10]=0a1@10"},
			{"a", "k=2@20", "k[20,20]=0a2@20"},
			{"b", "k=3@15", "k[10,10]=~@10 k[20,20]=~@20 k[10,20]=<<0|0a1>|0a2>b3@20"},
			{"b", "j=~@3", ""},
			{"a", "k=4@5", "k[10,20]=~@20 k[5,20]=<0|<<0|0a1>|0a2>b3>a4@20"},
			{"b", "k=5@40", "k[40,40]=0b5@40"},
		}.run(t, d, read)
		restart(t, d)
		steps{
			{"b", "k=6@12", ""},
			{"a", "k=7@13", "k[5,20]=<0|<0|<<0|0a1>|0a2>b3>a4>a7@20"},
			{"a", "j=8@14", ""},
		}.run(t, d, read)
		wantText(t, "late of a", lateRecords(d, lateA), "j=8@14 observed 20 missed [{14 14}]")
		wantText(t, "late of b", lateRecords(d, lateB), "j=@3 observed 15 missed [{3 3}] k=6@12 observed 40 missed [{5 20}]")
	})
}

// An input that lies further behind than the store keeps windows does not write over what the others have made there.
func TestCogroup_sessionsBehindTheRetention(t *testing.T) {
	g := cogroupOfTwo()
	table, _ := g.co.SessionBy(window.Session(5*ms)).Aggregate(zeroText, mergeText, serde.String, millrace.As("c"))
	out := millrace.NewTopic("out", serde.SessionWindowed(serde.String), serde.String)
	table.ToStream().To(out)
	d := milltest.New(t, build(t, g.b))
	steps{
		{"a", "k=1@10", "k[10,10]=0a1@10"},
		{"a", "k=2@100", "k[100,100]=0a2@100"},
		{"b", "k=3@10", ""},
		{"b", "k=4@95", "k[100,100]=~@100 k[95,100]=<0|0a2>b4@100"},
	}.run(t, d, sessionReader(d, out))
	wantDropped(t, d, "c-cogroup-agg-1", millrace.DroppedLate, 1)
}

func TestCogroup_windowsBehindTheRetention(t *testing.T) {
	for name, w := range map[string]window.Windows{"tumbling": window.Tumbling(10 * ms), "sliding": window.Sliding(10 * ms)} {
		for cache, opts := range map[string][]milltest.Option{"": {milltest.CacheBytes(0)}, " with a cache": {milltest.CacheBytes(1 << 20)}} {
			t.Run(name+cache, func(t *testing.T) {
				g := cogroupOfTwo()
				table, late := g.co.WindowBy(w).Aggregate(zeroText, serde.String, millrace.As("c"))
				out, lateB := millrace.NewTopic("out", serde.WindowedBy(serde.String, w), serde.String), lateTextTopic("late-b")
				table.ToStream().To(out)
				millrace.LateOf(late, g.c).To(lateB)
				d := milltest.New(t, build(t, g.b), opts...)
				first, second := "k[10,20)=0a1@10", "k[100,110)=0a2@100"
				third := "k[100,110)=0a2b4@101"
				missed := "{10 20}"
				if name == "sliding" {
					first, second, third, missed = "k[0,10)=0a1@10", "k[90,100)=0a2@100", "k[101,111)=0b4@101 k[91,101)=0a2b4@101", "{0 10}"
				}
				steps{
					{"a", "k=1@10", first},
					{"a", "k=2@100", second},
					{"b", "k=3@10", ""},
					{"b", "k=4@101", third},
				}.run(t, d, reader(d, out))
				wantDropped(t, d, "c-cogroup-agg-1", millrace.DroppedLate, 1)
				wantText(t, "late", lateRecords(d, lateB), "k=3@10 observed 10 missed ["+missed+"]")
				var log []string
				for _, r := range d.ReadRaw("test-c-changelog") {
					log = append(log, string(r.Value))
				}
				if slices.Contains(log, "0b3") {
					t.Errorf("the changelog has %q", log)
				}
			})
		}
	}
}

// Several inputs with keys of their own choice meet behind repartition topics, in each partition.
func TestCogroup_repartitioned(t *testing.T) {
	b := millrace.NewBuilder()
	byValue := func(_, v string) string { return v[:1] }
	ga := millrace.GroupBy(millrace.From(b, textTopic("a")), byValue, millrace.WithKey(serde.String))
	gb := millrace.GroupBy(millrace.From(b, textTopic("b")), byValue, millrace.WithKey(serde.String), millrace.RepartitionName("by-b"))
	gc := millrace.From(b, millrace.NewTopic("c", serde.String, serde.Int64)).GroupByKey()
	gd := millrace.GroupBy(millrace.From(b, textTopic("d")), byValue, millrace.WithKey(serde.String))
	glue := func(mark string) func(_, v, agg string) string {
		return func(_, v, agg string) string { return agg + mark + v[1:] }
	}
	co := millrace.AndCogroup(millrace.AndCogroup(millrace.AndCogroup(
		millrace.Cogroup(ga, glue("a")), gb, glue("b")), gc, func(_ string, n int64, agg string) string { return fmt.Sprint(agg, "c", n) }), gd, glue("d"))
	co.Aggregate(zeroText, serde.String, millrace.As("all")).ToStream().To(textOut)
	d := milltest.New(t, build(t, b), milltest.Partitions(4))
	out := reader(d, textOut)
	for i, r := range []struct{ topic, value, want string }{
		{"a", "x1", "x=0a1@0"}, {"b", "x2", "x=0a1b2@1"}, {"d", "x3", "x=0a1b2d3@2"}, {"a", "y4", "y=0a4@3"},
	} {
		milltest.Input(d, textTopic(r.topic)).PipeAt(fmt.Sprint("key ", i), r.value, time.Duration(i)*ms)
		wantText(t, r.topic+" "+r.value, out(), r.want)
	}
	milltest.Input(d, millrace.NewTopic("c", serde.String, serde.Int64)).PipeAt("y", 7, 9*ms)
	wantText(t, "c", out(), "y=0a4c7@9")
	for _, topic := range []string{"test-all-repartition", "test-by-b-repartition", "test-all-3-repartition"} {
		if len(d.ReadRaw(topic)) == 0 {
			t.Errorf("nothing was written to %s", topic)
		}
	}
}

func TestC069_InputsOfACogroupAreCopartitioned(t *testing.T) {
	g := cogroupOfTwo()
	g.co.Aggregate(zeroText, serde.String, millrace.As("c"))
	_, err := milltest.NewDriver(build(t, g.b), milltest.TopicPartitions("a", 3), milltest.TopicPartitions("b", 2))
	var co *millrace.CopartitionError
	if !errors.As(err, &co) {
		t.Errorf("%v, want a CopartitionError", err)
	}
}

// What fails in the function of one input costs its record, and nothing of what the others have added.
func TestCogroup_errors(t *testing.T) {
	bad := errors.New("bad")
	b := millrace.NewBuilder()
	ga, gb := millrace.From(b, textTopic("a")).GroupByKey(), millrace.From(b, textTopic("b")).GroupByKey()
	try := func(_, v, agg string) (string, error) {
		switch v {
		case "bad":
			return "", bad
		case "panic":
			panic(v)
		}
		return agg + v, nil
	}
	co := millrace.TryAndCogroup(millrace.TryCogroup(ga, try), gb, try)
	sessions, _ := co.SessionBy(window.Session(5*ms)).TryAggregate(zeroText, func(_, a, b string) (string, error) { return try("", b, a) }, serde.String, millrace.As("s"))
	sessions.ToStream().To(millrace.NewTopic("out", serde.SessionWindowed(serde.String), serde.String))
	co.Aggregate(zeroText, serde.String, millrace.As("t")).ToStream().To(millrace.NewTopic("plain", serde.String, serde.String))
	d := milltest.New(t, build(t, b), milltest.OnProcessingError(millrace.LogAndContinue()))
	out, plain := sessionReader(d, millrace.NewTopic("out", serde.SessionWindowed(serde.String), serde.String)), reader(d, millrace.NewTopic("plain", serde.String, serde.String))
	for _, s := range []struct{ topic, record, session, plain string }{
		{"a", "k=1@1", "k[1,1]=01@1", "k=01@1"},
		{"b", "k=bad@2", "", ""},
		{"b", "k=panic@2", "", ""},
		{"b", "k=2@2", "k[1,1]=~@1 k[1,2]=0012@2", "k=012@2"},
	} {
		pipe(t, d, s.topic, s.record)
		wantText(t, s.record+" in sessions", out(), s.session)
		wantText(t, s.record, plain(), s.plain)
	}
	wantDropped(t, d, "s-cogroup-agg-1", millrace.DroppedProcessing, 2)
	wantDropped(t, d, "t-cogroup-agg-1", millrace.DroppedProcessing, 2)
}

// A cogroup with versions is joined as of the time of a record.
func TestCogroup_versioned(t *testing.T) {
	everywhere(t, func(t *testing.T, opts []millrace.StepOption, driver ...milltest.Option) {
		b := millrace.NewBuilder()
		group := func(topic string) millrace.Grouped[string, string] {
			return millrace.From(b, millrace.NewTopic(topic, serde.String, serde.String)).GroupByKey()
		}
		add := func(_, v, a string) string { return a + v }
		c := millrace.AndCogroup(millrace.Cogroup(group("A"), add), group("B"), add)
		texts := c.Aggregate(func() string { return "" }, serde.String, append(opts, millrace.As("texts"), millrace.Versioned(100*ms))...)
		s := millrace.From(b, millrace.NewTopic("S", serde.String, serde.String))
		millrace.LeftJoinTable(s, texts, func(l, r string, ok bool) string { return l + "-" + orText(r, ok) }).To(outTopic)
		d := milltest.New(t, build(t, b), driver...)
		steps{
			{"A", "k=a@10", ""}, {"B", "k=b@30", ""}, {"S", "k=s@40", "k=s-ab@40"}, {"S", "k=s@20", "k=s-a@20"}, {"S", "k=s@9", "k=s-null@9"},
		}.run(t, d, reader(d, outTopic))
	})
}
