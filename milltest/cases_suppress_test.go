package milltest_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// finalCounts counts a stream's records in windows and sends final results.
func finalCounts(t *testing.T, w window.Time, opts ...milltest.Option) (*milltest.Driver, func() string) {
	t.Helper()
	b := millrace.NewBuilder()
	counts, _ := millrace.CountWindows(millrace.From(b, strTopic).GroupByKey().WindowBy(w), millrace.As("c"))
	out := millrace.NewTopic("out", serde.Windowed(serde.String, w.Size()), serde.Int64)
	counts.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("sup")).ToStream().To(out)
	d := milltest.New(t, build(t, b), opts...)
	return d, reader(d, out)
}

func suppressedTable(t *testing.T, s millrace.Suppression, opts ...milltest.Option) (*milltest.Driver, func() string) {
	t.Helper()
	b := millrace.NewBuilder()
	millrace.TableFrom(b, strTopic, millrace.As("rows")).Suppress(s, millrace.As("sup")).ToStream().To(millrace.NewTopic("out", serde.String, serde.String))
	d := milltest.New(t, build(t, b), opts...)
	return d, reader(d, millrace.NewTopic("out", serde.String, serde.Nullable(serde.String)))
}

func TestC021_AnIdleStreamNeverEmitsARecordOfAnyKeyDoes(t *testing.T) {
	for _, opts := range [][]milltest.Option{nil, {milltest.OnDisk()}} {
		d, out := finalCounts(t, window.Tumbling(10*ms).Grace(5*ms), opts...)
		steps{{"in", "a=x@1", ""}, {"in", "a=x@4", ""}}.run(t, d, out)
		d.AdvanceTime(100 * time.Second)
		steps{
			{"in", "b=x@14", ""},
			{"in", "a=x@9", ""},
			{"in", "b=x@15", "a[0,10)=3@9"},
			{"in", "a=x@8", ""},
			{"in", "c=x@100", "b[10,20)=2@15"},
		}.run(t, d, out)
		wantDropped(t, d, "c", millrace.DroppedLate, 1)
	}
}

func TestC024_AFinalResultThatIsNullIsNotEmitted(t *testing.T) {
	b := millrace.NewBuilder()
	type text = *string
	add := func(_ string, v string, agg text) text {
		if v == "del" {
			return nil
		}
		all := v
		if agg != nil {
			all = *agg + v
		}
		return &all
	}
	w := millrace.From(b, strTopic).GroupByKey().WindowBy(window.Tumbling(10 * ms))
	rows, _ := millrace.AggregateWindows(w, func() text { return nil }, add, serde.Nullable(serde.String), millrace.As("c"))
	out := millrace.NewTopic("out", serde.Windowed(serde.String, 10*ms), serde.Nullable(serde.String))
	rows.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("sup")).ToStream().To(out)
	d := milltest.New(t, build(t, b))
	steps{
		{"in", "a=x@1", ""}, {"in", "a=del@2", ""}, {"in", "b=y@3", ""}, {"in", "c=z@10", "b[0,10)=y@3"},
	}.run(t, d, reader(d, out))
}

func TestC025_UntilTimeLimitUsesStreamTimeAndKeepsTombstones(t *testing.T) {
	for _, opts := range [][]milltest.Option{nil, {milltest.OnDisk()}} {
		d, out := suppressedTable(t, millrace.UntilTimeLimit(10*ms, millrace.Unbounded()), opts...)
		steps{
			{"in", "a=1@0", ""}, {"in", "a=2@3", ""}, {"in", "b=1@5", ""},
			{"in", "c=1@10", "a=2@3"},
			{"in", "c=2@15", "b=1@5"},
			{"in", "a=~@16", ""},
			{"in", "d=1@40", "c=2@15 a=~@16"},
		}.run(t, d, out)
	}
}

func TestC027_SuppressionOverAJumpInTime(t *testing.T) {
	for _, jump := range []int{16, 32} {
		d, out := finalCounts(t, window.Tumbling(10*time.Minute).Grace(5*time.Minute))
		minute := func(key string, n int) string { return fmt.Sprintf("%s=x@%d", key, n*60_000) }
		pipe(t, d, "in", minute("a", 1))
		pipe(t, d, "in", minute("b", 12))
		pipe(t, d, "in", minute("c", jump))
		want := "a[0,600000)=1@60000"
		if jump == 32 {
			want += " b[600000,1200000)=1@720000"
		}
		wantText(t, fmt.Sprintf("a jump to %d minutes", jump), out(), want)
	}
}

func TestC028_SuppressBufferSurvivesARestart(t *testing.T) {
	for name, opts := range map[string][]milltest.Option{
		"on another instance":        nil,
		"on the same disk":           {milltest.OnDisk()},
		"behind a cache":             {milltest.CacheBytes(1 << 20)},
		"behind a cache, after exit": {milltest.CacheBytes(1 << 20), milltest.OnDisk()},
	} {
		t.Run(name, func(t *testing.T) {
			d, out := finalCounts(t, window.Tumbling(10*ms).Grace(5*ms), opts...)
			steps{{"in", "a=x@1", ""}, {"in", "a=x@4", ""}, {"in", "b=x@11", ""}}.run(t, d, out)
			restart(t, d)
			steps{
				{"in", "a=x@9", ""},
				{"in", "z=x@15", "a[0,10)=3@9"},
				{"in", "a=x@3", ""},
				{"in", "z=x@30", "b[10,20)=1@11 z[10,20)=1@15"},
			}.run(t, d, out)
			wantDropped(t, d, "c", millrace.DroppedLate, 1)
			restart(t, d)
			steps{{"in", "z=x@29", ""}, {"in", "z=x@99", "z[20,30)=1@29 z[30,40)=1@30"}}.run(t, d, out)
		})
	}
}

// A crash between two commits brings back what had been committed, and the input is read again from there.
func TestC028_SuppressBufferAfterACrash(t *testing.T) {
	for _, opts := range [][]milltest.Option{{milltest.OnDisk()}, nil} {
		d, out := suppressedTable(t, millrace.UntilTimeLimit(10*ms, millrace.Unbounded()), append(opts, milltest.ManualCommit(), milltest.CacheBytes(0))...)
		steps{{"in", "a=1@1", ""}, {"in", "b=1@5", ""}}.run(t, d, out)
		d.Commit()
		steps{{"in", "a=2@2", ""}, {"in", "c=1@11", "a=2@2"}, {"in", "b=2@11", ""}}.run(t, d, out)
		restart(t, d) // what came out is written again
		wantText(t, "after the crash", out(), "a=2@2")
		d.Commit()
		restart(t, d)
		steps{{"in", "c=2@40", "b=2@11 c=2@40"}}.run(t, d, out)
	}
}

func TestC095_EqualUpdatesOfASuppressedTable(t *testing.T) {
	d, out := suppressedTable(t, millrace.UntilTimeLimit(0, millrace.Unbounded()))
	steps{{"in", "k=a@1", "k=a@1"}, {"in", "k=a@1", "k=a@1"}, {"in", "k=a@2", "k=a@2"}, {"in", "k=a@1", "k=a@1"}}.run(t, d, out)
}

func TestC117e_HeadersOfASuppressedResult(t *testing.T) {
	for _, opts := range [][]milltest.Option{nil, {milltest.OnDisk()}} {
		d, _ := finalCounts(t, window.Tumbling(10*ms), opts...)
		send := func(key string, ts int, header string) {
			t.Helper()
			if err := d.PipeRaw("in", 0, []byte(key), []byte("x"), serde.Headers{{Key: "h", Value: []byte(header)}, {Key: "null"}}, time.Duration(ts)*ms); err != nil {
				t.Fatal(err)
			}
		}
		send("a", 1, "1")
		send("a", 2, "2")
		restart(t, d)
		send("b", 30, "3")
		got := d.ReadRaw("out")
		if len(got) != 1 || fmt.Sprint(got[0].Headers) != fmt.Sprint(serde.Headers{{Key: "h", Value: []byte("2")}, {Key: "null"}}) {
			t.Errorf("got %v", got)
		}
	}
}

func TestC130_SuppressBufferChangelog(t *testing.T) {
	d, _ := finalCounts(t, window.Tumbling(100*ms), milltest.ApplicationID("app"), milltest.CacheBytes(0))
	for _, r := range []string{"ab=x@10", "ab=x@20", "c=x@200"} {
		pipe(t, d, "in", r)
	}
	context := func(ts, offset string) string {
		return ts + offset + "00000002" + "696e" + "00000000" + "00000000" + "00000008" + "0000000000000000"
	}
	want := []string{
		"61620000000000000000 " + context("000000000000000a", "0000000000000000") + "fffffffe" + "00000008" + "0000000000000001" + "0000000000000064 v=03",
		"61620000000000000000 " + context("0000000000000014", "0000000000000001") + "00000008" + "0000000000000001" + "00000008" + "0000000000000002" + "0000000000000064 v=03",
		"6300000000000000c8 " + context("00000000000000c8", "0000000000000002") + "fffffffe" + "00000008" + "0000000000000001" + "000000000000012c v=03",
		"61620000000000000000 null",
	}
	var got []string
	for _, r := range d.ReadRaw("app-sup-store-changelog") {
		line := hex.EncodeToString(r.Key) + " "
		if r.Value == nil {
			line += "null"
		} else {
			line += hex.EncodeToString(r.Value)
		}
		for _, h := range r.Headers {
			line += " " + h.Key + "=" + hex.EncodeToString(h.Value)
		}
		got = append(got, line)
	}
	wantText(t, "changelog", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

// The bounds of C021's kin, as Kafka Streams 4.4.0 keeps them.
func TestSuppress_bounds(t *testing.T) {
	long := "55555555555555555555555555555555555555555555"
	input := []string{"a=1@0", "b=2@3", "a=5555@3", "a=333@2", "c=1@4", "d=9@5", "a=~@6", "e=" + long + "@7"}
	for _, c := range []struct {
		buffer millrace.Buffer
		want   []string
	}{
		{millrace.MaxRecords(2), []string{"", "", "", "", "a=333@2", "b=2@3", "c=1@4", "d=9@5"}},
		{millrace.MaxRecords(2).EmitEarlyWhenFull(), []string{"", "", "", "", "a=333@2", "b=2@3", "c=1@4", "d=9@5"}},
		{millrace.MaxRecords(0), []string{"a=1@0", "b=2@3", "a=5555@3", "a=333@2", "c=1@4", "d=9@5", "a=~@6", "e=" + long + "@7"}},
		{millrace.MaxRecords(2).AndMaxBytes(70), []string{"", "", "", "", "a=333@2", "b=2@3", "c=1@4", "d=9@5 a=~@6 e=" + long + "@7"}},
		{millrace.MaxBytes(110), []string{"", "", "", "", "", "a=333@2", "b=2@3", "c=1@4 d=9@5"}},
	} {
		d, out := suppressedTable(t, millrace.UntilTimeLimit(10*ms, c.buffer))
		for i, r := range input {
			pipe(t, d, "in", r)
			wantText(t, fmt.Sprintf("%s: %s", c.buffer, r), out(), c.want[i])
		}
	}
}

func TestSuppress_failWhenFull(t *testing.T) {
	t.Run("stops", func(t *testing.T) {
		d, _ := suppressedTable(t, millrace.UntilTimeLimit(10*ms, millrace.MaxRecords(2).FailWhenFull()))
		pipe(t, d, "in", "a=1@0")
		pipe(t, d, "in", "b=1@0")
		pipe(t, d, "in", "a=2@0")
		err := tryPipe(d, "in", "c=1@0")
		if err == nil {
			t.Fatal("a full buffer is no error")
		}
		for _, part := range []string{"step sup", "in-0@3", "key c", "3 rows", "MaxRecords(2).FailWhenFull()"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not say %q: %v", part, err)
			}
		}
	})
	// The bytes that Kafka Streams 4.4.0 counts.
	t.Run("bytes", func(t *testing.T) {
		var failures []string
		d, _ := suppressedTable(t, millrace.UntilTimeLimit(10*ms, millrace.MaxBytes(80).FailWhenFull()),
			milltest.OnProcessingError(func(f processor.Failure) processor.Response {
				failures = append(failures, f.Err.Error())
				return processor.Response{Action: processor.Continue}
			}))
		for _, r := range []string{"a=1@0", "b=2@3", "a=5555@3", "a=333@2", "c=1@4"} {
			pipe(t, d, "in", r)
		}
		send := func(key, value string, at time.Duration, headers serde.Headers) {
			t.Helper()
			if err := d.PipeRaw("in", 0, []byte(key), orNull(value), headers, at); err != nil {
				t.Fatal(err)
			}
		}
		h := serde.Headers{{Key: "h", Value: []byte("1")}}
		send("d", "9", 5*ms, h)
		send("a", "~", 6*ms, nil)
		send("e", strings.Repeat("5", 44), 7*ms, h)
		for i, want := range []int{102, 136, 132, 209} {
			if i >= len(failures) || !strings.Contains(failures[i], fmt.Sprintf(" %d bytes", want)) {
				t.Errorf("want %d bytes in the failure %d of %q", want, i, failures)
			}
		}
		if len(failures) != 4 {
			t.Errorf("%d failures, want 4", len(failures))
		}
	})
	// As in Kafka Streams the handler may let it pass: the row stays, above the bound.
	t.Run("continues", func(t *testing.T) {
		d, out := suppressedTable(t, millrace.UntilTimeLimit(10*ms, millrace.MaxRecords(2).FailWhenFull()),
			milltest.OnProcessingError(millrace.LogAndContinue()))
		steps{
			{"in", "a=0@0", ""}, {"in", "b=1@1", ""}, {"in", "c=2@2", ""}, {"in", "d=3@3", ""}, {"in", "a=4@4", ""},
			{"in", "z=9@20", "a=4@4 b=1@1 c=2@2 d=3@3"},
		}.run(t, d, out)
		wantDropped(t, d, "sup", millrace.DroppedProcessing, 3)
	})
}

// What looks rows up in a suppressed table finds what has been sent.
func TestSuppress_lookup(t *testing.T) {
	b := millrace.NewBuilder()
	rows := millrace.MapTableValues(millrace.TableFrom(b, strTopic, millrace.As("rows")), func(v string) string { return v + "m" }, millrace.WithValue[string](serde.String))
	sup := rows.Suppress(millrace.UntilTimeLimit(10*ms, millrace.Unbounded()), millrace.As("sup"))
	kept := sup.Filter(func(_, v string) bool { return v[0] != '2' })
	s := millrace.From(b, millrace.NewTopic("s", serde.String, serde.String))
	join := func(v, row string, ok bool) string {
		if !ok {
			row = "null"
		}
		return v + row
	}
	out := millrace.NewTopic("out", serde.String, serde.String)
	millrace.LeftJoinTable(s, sup, join, millrace.As("j")).To(out)
	millrace.LeftJoinTable(s, kept, join, millrace.As("k")).To(out)
	d := milltest.New(t, build(t, b))
	steps{
		{"in", "a=1@0", ""}, {"s", "a=s@100", "a=snull@100 a=snull@100"},
		{"in", "a=2@3", ""}, {"s", "a=s@100", "a=snull@100 a=snull@100"},
		{"in", "z=9@10", ""}, {"s", "a=s@100", "a=s2m@100 a=snull@100"},
		{"in", "a=4@11", ""}, {"s", "a=s@100", "a=s2m@100 a=snull@100"},
		{"in", "a=5@12", ""}, {"s", "a=s@100", "a=s2m@100 a=snull@100"},
		{"in", "z=8@30", ""}, {"s", "a=s@100", "a=s5m@100 a=s5m@100"},
		{"in", "a=~@31", ""}, {"s", "a=s@100", "a=s5m@100 a=s5m@100"},
		{"in", "z=8@50", ""}, {"s", "a=s@100", "a=snull@100 a=snull@100"},
	}.run(t, d, reader(d, out))
}

// A session closes beyond its end by its gap and the grace, also behind a cogroup: until then it can grow, and then no more.
// Sessions that were merged into another leave nothing.
func TestSuppress_sessionsAndCogroups(t *testing.T) {
	onDiskAndInMemory := map[string][]milltest.Option{"in memory": nil, "on disk": {milltest.OnDisk()}}
	final := millrace.UntilWindowCloses(millrace.Unbounded())
	w := window.Session(10 * ms).Grace(5 * ms)
	add := func(_, _ string, n int64) int64 { return n + 1 }
	sessions := map[string]func(g millrace.Grouped[string, string]) millrace.Table[window.Key[string], int64]{
		"sessions": func(g millrace.Grouped[string, string]) millrace.Table[window.Key[string], int64] {
			counts, _ := millrace.CountSessions(g.SessionBy(w), millrace.As("counts"))
			return counts
		},
		"cogroup": func(g millrace.Grouped[string, string]) millrace.Table[window.Key[string], int64] {
			counts, _ := millrace.Cogroup(g, add).SessionBy(w).Aggregate(func() int64 { return 0 }, func(_ string, a, b int64) int64 { return a + b }, serde.Int64, millrace.As("counts"))
			return counts
		},
	}
	for disk, opts := range onDiskAndInMemory {
		for name, declare := range sessions {
			t.Run(name+" "+disk, func(t *testing.T) {
				b := millrace.NewBuilder()
				out := millrace.NewTopic("out", serde.SessionWindowed(serde.String), serde.Int64)
				declare(millrace.From(b, strTopic).GroupByKey()).Suppress(final, millrace.As("final")).ToStream().To(out)
				d := milltest.New(t, build(t, b), opts...)
				steps{
					{"in", "a=x@10", ""}, {"in", "a=x@24", ""}, {"in", "b=x@12", ""},
					{"in", "a=x@17", ""}, // joins both sessions of a
					{"in", "c=x@27", ""},
					{"in", "b=x@22", ""}, // just in time
					{"in", "c=x@37", ""},
					{"in", "c=x@38", "b[12,22]=2@22"},
					{"in", "b=x@32", ""}, // what has left is final
					{"in", "c=x@39", ""},
					{"in", "c=x@40", "a[10,24]=3@24"},
					{"in", "c=x@1000", "b[32,32]=1@32 c[27,40]=5@40"},
				}.run(t, d, sessionReader(d, out))
			})
		}
		t.Run("cogroup by windows "+disk, func(t *testing.T) {
			b := millrace.NewBuilder()
			out := millrace.NewTopic("out", serde.Windowed(serde.String, 10*ms), serde.Int64)
			counts, _ := millrace.Cogroup(millrace.From(b, strTopic).GroupByKey(), add).WindowBy(window.Tumbling(10*ms).Grace(5*ms)).
				Aggregate(func() int64 { return 0 }, serde.Int64, millrace.As("counts"))
			counts.Suppress(final, millrace.As("final")).ToStream().To(out)
			d := milltest.New(t, build(t, b), opts...)
			steps{
				{"in", "a=x@1", ""}, {"in", "a=x@14", ""}, {"in", "a=x@2", ""},
				{"in", "a=x@15", "a[0,10)=2@2"},
			}.run(t, d, reader(d, out))
		})
	}
}

// The end of a sliding window belongs to it: it is final once time is beyond its end by the grace.
func TestSuppress_slidingWindows(t *testing.T) {
	everyStore(t, func(t *testing.T, _ []millrace.StepOption, opts ...milltest.Option) {
		b := millrace.NewBuilder()
		w := window.Sliding(10 * ms).Grace(5 * ms)
		counts, _ := millrace.CountWindows(millrace.From(b, strTopic).GroupByKey().WindowBy(w), millrace.As("c"))
		out := millrace.NewTopic("out", serde.WindowedBy(serde.String, w), serde.Int64)
		counts.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("sup")).ToStream().To(out)
		d := milltest.New(t, build(t, b), opts...)
		steps{
			{"in", "a=x@20", ""},
			{"in", "b=x@25", ""},
			{"in", "a=x@20", ""},
			{"in", "b=x@26", "a[10,20)=2@20"},
			{"in", "a=x@20", ""},
		}.run(t, d, reader(d, out))
	})
}
