package milltest_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

func TestC003_NoWindowsWithANegativeStart(t *testing.T) {
	d, out := windowCount(t, window.Hopping(30*ms, 10*ms).Grace(1000*ms))
	steps{
		{"in", "m=a@5", "m[0,30)=1@5"},
		{"in", "m=a@25", "m[0,30)=2@25 m[10,40)=1@25 m[20,50)=1@25"},
		{"in", "m=a@0", "m[0,30)=3@25"},
	}.run(t, d, out)
}

func TestC006_AOneDayWindowIsAUTCDay(t *testing.T) {
	zone := time.Local
	defer func() { time.Local = zone }()
	for _, name := range []string{"UTC", "Europe/Copenhagen"} {
		var err error
		if time.Local, err = time.LoadLocation(name); err != nil {
			t.Fatal(err)
		}
		b := millrace.NewBuilder()
		counts, _ := millrace.CountWindows(millrace.From(b, strTopic).GroupByKey().WindowBy(window.Tumbling(24*time.Hour)), millrace.As("c"))
		out := millrace.NewTopic("out", serde.Windowed(serde.String, 0), serde.Int64)
		counts.ToStream().To(out)
		d := milltest.New(t, build(t, b))
		in := milltest.Input(d, strTopic)
		for _, at := range []string{"2024-07-14T22:30:00Z", "2024-07-15T00:30:00Z"} {
			moment, err := time.Parse(time.RFC3339, at)
			if err != nil {
				t.Fatal(err)
			}
			in.PipeAt("till", "sale", time.Duration(moment.UnixMilli())*ms)
		}
		var got []string
		for _, raw := range d.ReadRaw("out") {
			k, err := serde.Windowed(serde.String, 24*time.Hour).Decode(raw.Key)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, k.Window.Start().Format(time.RFC3339)+".."+k.Window.End().Format(time.RFC3339))
		}
		wantText(t, name, strings.Join(got, " "), "2024-07-14T00:00:00Z..2024-07-15T00:00:00Z 2024-07-15T00:00:00Z..2024-07-16T00:00:00Z")
	}
}

func TestC011_WhichRecordsAdvanceAnOperatorsTime(t *testing.T) {
	t.Run("filtered before", func(t *testing.T) {
		b := millrace.NewBuilder()
		s := millrace.From(b, strTopic).Filter(func(_, v string) bool { return v != "hb" })
		d, out := countWindows(t, b, s, window.Tumbling(10*ms))
		steps{
			{"in", "k=a@1", "k[0,10)=1@1"},
			{"in", "k=hb@500", ""},
			{"in", "k=b@2", "k[0,10)=2@2"},
		}.run(t, d, out)
	})
	t.Run("null key", func(t *testing.T) {
		d, out := windowCount(t, window.Tumbling(10*ms))
		steps{
			{"in", "k=a@1", "k[0,10)=1@1"},
			{"in", "~=x@50", ""},
			{"in", "k=b@2", "k[0,10)=2@2"},
		}.run(t, d, out)
		wantDropped(t, d, "counts", millrace.DroppedNullKey, 1)
	})
}

func TestC012_NullValuesInAggregations(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		b := millrace.NewBuilder()
		millrace.Count(millrace.From(b, strTopic).GroupByKey(), millrace.As("counts")).ToStream().To(countTopic)
		d := milltest.New(t, build(t, b))
		steps{
			{"in", "k=a@1", "k=1@1"},
			{"in", "k=~@3", ""},
			{"in", "k=c@40", "k=2@40"},
		}.run(t, d, reader(d, countTopic))
		wantDropped(t, d, "counts", millrace.DroppedNullValue, 1)
	})
	t.Run("tumbling", func(t *testing.T) {
		d, out := windowCount(t, window.Tumbling(10*ms))
		steps{
			{"in", "k=a@1", "k[0,10)=1@1"},
			{"in", "k=~@3", "k[0,10)=2@3"},
			{"in", "k=c@40", "k[40,50)=1@40"},
		}.run(t, d, out)
	})
	// What Kafka Streams does with a null that starts a windowed reduction; with text, which has no nil, a null in between
	// adds nothing, where a Java reducer would be called with it.
	t.Run("windowed reduce", func(t *testing.T) {
		b := millrace.NewBuilder()
		add := func(a, v string) string { return a + v }
		r, _ := millrace.ReduceWindows(millrace.From(b, strTopic).GroupByKey().WindowBy(window.Tumbling(10*ms)), add, millrace.As("r"))
		out := millrace.NewTopic("out", serde.Windowed(serde.String, 10*ms), serde.String)
		r.ToStream().To(out)
		d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
		steps{
			{"in", "k=~@61", "k[60,70)=~@61"},
			{"in", "k=a@62", "k[60,70)=a@62"},
			{"in", "k=~@63", "k[60,70)=a@63"},
			{"in", "k=b@64", "k[60,70)=ab@64"},
		}.run(t, d, reader(d, out))
	})
	t.Run("windowed reduce of pointers", func(t *testing.T) {
		in := millrace.NewTopic("in", serde.String, serde.Nullable(serde.String))
		b := millrace.NewBuilder()
		add := func(a, v *string) *string {
			if v == nil {
				return nil
			}
			sum := *a + *v
			return &sum
		}
		r, _ := millrace.ReduceWindows(millrace.From(b, in).GroupByKey().WindowBy(window.Tumbling(10*ms)), add, millrace.As("r"))
		out := millrace.NewTopic("out", serde.Windowed(serde.String, 10*ms), serde.Nullable(serde.String))
		r.ToStream().To(out)
		d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
		steps{
			{"in", "k=~@61", "k[60,70)=~@61"},
			{"in", "k=a@62", "k[60,70)=a@62"},
			{"in", "k=b@63", "k[60,70)=ab@63"},
			{"in", "k=~@64", "k[60,70)=~@64"},
			{"in", "k=c@65", "k[60,70)=c@65"},
		}.run(t, d, reader(d, out))
	})
}

func TestC013_ObservedTimeOfAWindowedStepAfterARestart(t *testing.T) {
	start := func(t *testing.T, opts ...milltest.Option) (*milltest.Driver, func() string) {
		b := millrace.NewBuilder()
		return countWindows(t, b, millrace.From(b, strTopic), window.Tumbling(10*ms), opts...)
	}
	for name, opts := range map[string][]milltest.Option{"in memory": nil, "on disk": {milltest.OnDisk()}} {
		t.Run("clean stop "+name, func(t *testing.T) {
			d, out := start(t, opts...)
			steps{
				{"in", "a=x@1", "a[0,10)=1@1"},
				{"in", "b=x@100", "b[100,110)=1@100"},
			}.run(t, d, out)
			restart(t, d)
			steps{
				{"in", "a=x@2", ""}, // Kafka Streams forgets the time and takes it; here a closed window stays closed
				{"in", "b=x@101", "b[100,110)=2@101"},
				{"in", "a=x@3", ""},
			}.run(t, d, out)
			wantDropped(t, d, "counts", millrace.DroppedLate, 2)
		})
		// At least once the changelog runs ahead of the offsets. A time taken from it would make input late that is processed
		// again.
		t.Run("crash "+name, func(t *testing.T) {
			d, out := start(t, append(opts, milltest.ManualCommit(), milltest.CacheBytes(0))...)
			pipe(t, d, "in", "a=x@1")
			d.Commit()
			steps{
				{"in", "a=x@5", "a[0,10)=1@1 a[0,10)=2@5"},
				{"in", "b=x@100", "b[100,110)=1@100"},
			}.run(t, d, out)
			restart(t, d)
			wantText(t, "processed again", out(), "a[0,10)=3@5 b[100,110)=2@100")
			steps{{"in", "a=x@2", ""}}.run(t, d, out)
			wantDropped(t, d, "counts", millrace.DroppedLate, 1)
		})
	}
}

func TestC125_RetentionShorterThanTheWindow(t *testing.T) {
	day := 24 * time.Hour
	for _, c := range []struct {
		name string
		w    window.Time
		opts []millrace.StepOption
		want []string // parts of the error; none: accepted
	}{
		{"shorter than size and grace", window.Tumbling(60 * ms).Grace(60 * ms), []millrace.StepOption{millrace.Retain(100 * ms)}, []string{"60ms", "100", "120"}},
		{"as long as size and grace", window.Tumbling(60 * ms).Grace(60 * ms), []millrace.StepOption{millrace.Retain(120 * ms)}, nil},
		{"three days and two of grace", window.Tumbling(3 * day).Grace(2 * day), nil, nil},
		{"hop above the size", window.Hopping(5*ms, 6*ms), nil, []string{"6ms", "5ms"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := millrace.NewBuilder()
			w := millrace.From(b, strTopic).GroupByKey().WindowBy(c.w)
			counts, _ := millrace.CountWindows(w, append(c.opts, millrace.As("c"))...)
			counts.ToStream().To(millrace.NewTopic("out", serde.Windowed(serde.String, 0), serde.Int64))
			_, err := b.Build()
			if (err != nil) != (c.want != nil) {
				t.Fatalf("Build: %v, want an error: %v", err, c.want != nil)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not name %q: %v", part, err)
				}
			}
		})
	}
}

func TestC127_WindowedKeys(t *testing.T) {
	d, _ := windowCount(t, window.Tumbling(100*ms).Grace(100*ms))
	pipe(t, d, "in", "ab=x@1000")
	pipe(t, d, "in", "ab=x@950")
	for topic, suffix := range map[string]string{"out": "", "test-counts-changelog": "00000000"} {
		var got []string
		for _, raw := range d.ReadRaw(topic) {
			got = append(got, hex.EncodeToString(raw.Key))
		}
		wantText(t, topic, strings.Join(got, " "), "616200000000000003e8"+suffix+" 61620000000000000384"+suffix)
	}
}

func TestTumblingCount(t *testing.T) {
	b := millrace.NewBuilder()
	w := millrace.From(b, strTopic).GroupByKey().WindowBy(window.Tumbling(10 * ms))
	counts, late := millrace.CountWindows(w, millrace.As("counts"))
	out := millrace.NewTopic("out", serde.Windowed(serde.String, 10*ms), serde.Int64)
	counts.ToStream().To(out)
	lateTopic := millrace.NewTopic("late", serde.String, serde.JSON[window.Late[string]]())
	late.To(lateTopic)
	d := milltest.New(t, build(t, b))
	steps{
		{"in", "k=a@1", "k[0,10)=1@1"},
		{"in", "k=~@2", "k[0,10)=2@2"},
		{"in", "k=c@3", "k[0,10)=3@3"},
		{"in", "k=d@10", "k[10,20)=1@10"},
		{"in", "k=late@9", ""},
	}.run(t, d, reader(d, out))
	wantDropped(t, d, "counts", millrace.DroppedLate, 1)
	got := milltest.Output(d, lateTopic).ReadAll()
	if len(got) != 1 {
		t.Fatalf("late records %v, want one", got)
	}
	wantText(t, "late", fmt.Sprint(got[0].Key, got[0].Value, got[0].TimestampMs), fmt.Sprint("k", window.Late[string]{
		Value: "late", ObservedTimeMs: 10, Missed: []window.Window{{StartMs: 0, EndMs: 10}},
	}, 9))
}

// A record can be late for some of its windows and in time for others.
func TestHoppingWindow_recordThatIsLateForSomeWindows(t *testing.T) {
	b := millrace.NewBuilder()
	w := millrace.From(b, strTopic).GroupByKey().WindowBy(window.Hopping(30*ms, 10*ms))
	counts, late := millrace.CountWindows(w, millrace.As("counts"))
	out := millrace.NewTopic("out", serde.Windowed(serde.String, 30*ms), serde.Int64)
	counts.ToStream().To(out)
	lateTopic := millrace.NewTopic("late", serde.String, serde.JSON[window.Late[string]]())
	late.To(lateTopic)
	d := milltest.New(t, build(t, b))
	steps{
		{"in", "z=a@45", "z[20,50)=1@45 z[30,60)=1@45 z[40,70)=1@45"},
		{"in", "k=b@25", "k[20,50)=1@25"}, // [0,30) and [10,40) have closed
		{"in", "k=~@5", ""},
	}.run(t, d, reader(d, out))
	wantDropped(t, d, "counts", millrace.DroppedLate, 3)
	var got []string
	for _, r := range milltest.Output(d, lateTopic).ReadAll() {
		l := r.Value
		got = append(got, fmt.Sprintf("%s@%d null=%v observed=%d missed=%v accepted=%v", l.Value, r.TimestampMs, l.NullValue, l.ObservedTimeMs, l.Missed, l.Accepted))
	}
	wantText(t, "late", strings.Join(got, "\n"), "b@25 null=false observed=45 missed=[{0 30} {10 40}] accepted=true\n@5 null=true observed=45 missed=[{0 30}] accepted=false")
}
