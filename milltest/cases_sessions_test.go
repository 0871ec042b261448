package milltest_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/window"
)

// sessionReader is reader for a table of sessions, whose end belongs to them.
func sessionReader[V any](d *milltest.Driver, topic millrace.Topic[window.Key[string], V]) func() string {
	read := reader(d, topic)
	return func() string { return strings.ReplaceAll(read(), ")=", "]=") }
}

// countSessions counts a stream's records in sessions into the store counts and the topic out.
func countSessions(t *testing.T, w window.SessionWindows, opts []millrace.StepOption, driver ...milltest.Option) (*milltest.Driver, func() string) {
	t.Helper()
	b := millrace.NewBuilder()
	g := millrace.From(b, strTopic).GroupByKey().SessionBy(w)
	counts, _ := millrace.CountSessions(g, append(opts, millrace.As("counts"))...)
	out := millrace.NewTopic("out", serde.SessionWindowed(serde.String), serde.Int64)
	counts.ToStream().To(out)
	d := milltest.New(t, build(t, b), driver...)
	return d, sessionReader(d, out)
}

// sessionRows prints the sessions of a store.
func sessionRows[V any](t *testing.T, s store.Session[string, V]) string {
	t.Helper()
	it, err := s.FindAll(0, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var out []string
	for it.Next() {
		k := it.Key()
		out = append(out, fmt.Sprintf("%s[%d,%d]=%v@%d", k.Key, k.Window.StartMs, k.Window.EndMs, it.Value(), it.TimestampMs()))
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

// engines are the places where a store lies.
var engines = map[string]struct {
	steps  []millrace.StepOption
	driver []milltest.Option
}{
	"in memory": {},
	"on disk":   {driver: []milltest.Option{milltest.OnDisk()}},
}

func TestC012_NullValuesInSessions(t *testing.T) {
	d, out := countSessions(t, window.Session(5*ms).Grace(100*ms), nil)
	steps{
		{"in", "k=a@1", "k[1,1]=1@1"},
		{"in", "k=~@3", "k[1,1]=~@1 k[1,3]=2@3"},
		{"in", "k=c@40", "k[40,40]=1@40"},
	}.run(t, d, out)
}

func TestC014_ABridgingRecordMergesTwoSessions(t *testing.T) {
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			d, out := countSessions(t, window.Session(10*ms).Grace(100*ms), e.steps, e.driver...)
			steps{
				{"in", "u=a@0", "u[0,0]=1@0"},
				{"in", "u=a@20", "u[20,20]=1@20"},
				{"in", "u=a@10", "u[0,0]=~@0 u[20,20]=~@20 u[0,20]=3@20"},
			}.run(t, d, out)
		})
	}
}

func TestC015_TheGapIsInclusiveAndASessionEndsAtItsLastRecord(t *testing.T) {
	d, out := countSessions(t, window.Session(10*ms).Grace(100*ms), nil)
	steps{
		{"in", "u=a@0", "u[0,0]=1@0"},
		{"in", "u=a@10", "u[0,0]=~@0 u[0,10]=2@10"},
		{"in", "u=a@21", "u[21,21]=1@21"},
	}.run(t, d, out)
}

// With the default retention the store of Kafka Streams hides u[5,5] already.
func TestC017_WhenASessionIsTooOld(t *testing.T) {
	for name, opts := range map[string][]millrace.StepOption{
		"default retention": nil, "least retention": {millrace.Retain(5 * ms)}, "long retention": {millrace.Retain(time.Second)},
		"in memory": {millrace.InMemory()},
	} {
		for engine, e := range engines {
			t.Run(name+" "+engine, func(t *testing.T) {
				d, out := countSessions(t, window.Session(5*ms), opts, e.driver...)
				steps{
					{"in", "w=a@10", "w[10,10]=1@10"},
					{"in", "u=a@5", "u[5,5]=1@5"},
					{"in", "u=a@5", "u[5,5]=2@5"},
					{"in", "u=a@4", "u[5,5]=~@5 u[4,5]=3@5"},
					{"in", "v=a@4", ""},
					{"in", "q=a@9", "q[9,9]=1@9"},
					{"in", "q=a@9", "q[9,9]=2@9"},
				}.run(t, d, out)
				wantDropped(t, d, "counts", millrace.DroppedLate, 1)
			})
		}
	}
}

// A record in time does not join what lies one gap before it and has closed, however far another key has brought the time.
// A retention longer than gap and grace keeps closed sessions open for more, as in Kafka Streams, whose border is exclusive.
func TestC017_closedSessionsAreFinal(t *testing.T) {
	for name, c := range map[string]struct {
		opts []millrace.StepOption
		want string
	}{
		"default retention":       {nil, "u[15,15]=1@15"},
		"gap plus grace":          {[]millrace.StepOption{millrace.Retain(7 * ms)}, "u[15,15]=1@15"},
		"up to the session":       {[]millrace.StepOption{millrace.Retain(12 * ms)}, "u[15,15]=1@15"},
		"longer":                  {[]millrace.StepOption{millrace.Retain(13 * ms)}, "u[10,10]=~@10 u[10,15]=2@15"},
		"longer, without a cache": {[]millrace.StepOption{millrace.Retain(13 * ms), millrace.WithoutCache()}, "u[10,10]=~@10 u[10,15]=2@15"},
	} {
		for engine, e := range engines {
			t.Run(name+" "+engine, func(t *testing.T) {
				d, out := countSessions(t, window.Session(5*ms).Grace(2*ms), c.opts, e.driver...)
				steps{
					{"in", "u=a@10", "u[10,10]=1@10"},
					{"in", "w=a@22", "w[22,22]=1@22"}, // close time 15
					{"in", "u=a@14", ""},
					{"in", "u=a@15", c.want},
				}.run(t, d, out)
			})
		}
	}
}

// What the suppression has sent as a final result is not merged into a session that ends later, whether results are held or
// sent on close.
func TestSessions_finalResultsAreFinal(t *testing.T) {
	w := window.Session(30 * time.Minute).Grace(5 * time.Minute)
	minute := func(n int) string { return fmt.Sprint(n * 60_000) }
	for name, opts := range map[string][]millrace.StepOption{
		"default": nil, "retention of gap and grace": {millrace.Retain(35 * time.Minute)}, "in memory": {millrace.InMemory()},
	} {
		for _, onClose := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, on close: %v", name, onClose), func(t *testing.T) {
				b := millrace.NewBuilder()
				opts := append([]millrace.StepOption{millrace.As("counts")}, opts...)
				if onClose {
					opts = append(opts, millrace.EmitOnClose())
				}
				counts, _ := millrace.CountSessions(millrace.From(b, strTopic).GroupByKey().SessionBy(w), opts...)
				if !onClose {
					counts = counts.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("final"))
				}
				out := millrace.NewTopic("out", serde.SessionWindowed(serde.String), serde.Int64)
				counts.ToStream().To(out)
				d := milltest.New(t, build(t, b))
				for _, r := range []string{"ann=a@" + minute(0), "ann=a@" + minute(40), "ann=a@" + minute(20), "bob=b@" + minute(300)} {
					pipe(t, d, "in", r)
				}
				wantText(t, "out", sessionReader(d, out)(),
					fmt.Sprintf("ann[0,0]=1@0 ann[%s,%s]=2@%s", minute(20), minute(40), minute(40)))
				wantDropped(t, d, "counts", millrace.DroppedLate, 0)
			})
		}
	}
}

func TestC019_OrderOfMergerAndAggregatorCalls(t *testing.T) {
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			b := millrace.NewBuilder()
			g := millrace.From(b, strTopic).GroupByKey().SessionBy(window.Session(5 * ms).Grace(time.Second))
			agg, _ := millrace.AggregateSessions(g, func() string { return "0" },
				func(_, v, agg string) string { return agg + v },
				func(_, a, b string) string { return "<" + a + "|" + b + ">" }, serde.String, append(e.steps, millrace.As("agg"))...)
			out := millrace.NewTopic("out", serde.SessionWindowed(serde.String), serde.String)
			agg.ToStream().To(out)
			d := milltest.New(t, build(t, b), e.driver...)
			steps{
				{"in", "u=a@10", "u[10,10]=0a@10"},
				{"in", "u=b@20", "u[20,20]=0b@20"},
				{"in", "u=c@30", "u[30,30]=0c@30"},
				{"in", "u=d@15", "u[10,10]=~@10 u[20,20]=~@20 u[10,20]=<<0|0a>|0b>d@20"},
				{"in", "u=e@25", "u[10,20]=~@20 u[30,30]=~@30 u[10,30]=<<0|<<0|0a>|0b>d>|0c>e@30"},
			}.run(t, d, sessionReader(d, out))
		})
	}
}

func rawRecords(d *milltest.Driver, topic string) string {
	var got []string
	for _, r := range d.ReadRaw(topic) {
		value := "~"
		if r.Value != nil {
			value = hex.EncodeToString(r.Value)
		}
		text := fmt.Sprintf("%x=%s@%d", r.Key, value, r.TimestampMs)
		for _, h := range r.Headers {
			text += fmt.Sprintf(" %s=%s", h.Key, h.Value)
		}
		got = append(got, text)
	}
	return strings.Join(got, "\n")
}

// The changelog's deletion has the time of the input record, the one sent on the end of the old session.
func TestC080_ChangelogOfSessions(t *testing.T) {
	d, _ := countSessions(t, window.Session(100*ms).Grace(100*ms), nil, milltest.CacheBytes(0))
	pipe(t, d, "in", "ab=x@1000")
	pipe(t, d, "in", "ab=x@1050")
	wantText(t, "changelog", rawRecords(d, "test-counts-changelog"), strings.Join([]string{
		"616200000000000003e800000000000003e8=0000000000000001@1000",
		"616200000000000003e800000000000003e8=~@1050",
		"6162000000000000041a00000000000003e8=0000000000000002@1050",
	}, "\n"))
	wantText(t, "out", rawRecords(d, "out"), strings.Join([]string{
		"616200000000000003e800000000000003e8=0000000000000001@1000",
		"616200000000000003e800000000000003e8=~@1000",
		"6162000000000000041a00000000000003e8=0000000000000002@1050",
	}, "\n"))
}

func TestC125_RetentionShorterThanASession(t *testing.T) {
	for _, c := range []struct {
		name string
		w    window.SessionWindows
		opts []millrace.StepOption
		want []string // parts of the error; none: accepted
	}{
		{"shorter than gap and grace", window.Session(60 * ms).Grace(60 * ms), []millrace.StepOption{millrace.Retain(100 * ms)}, []string{"cases_sessions_test.go", "60 ms", "100 ms", "120 ms"}},
		{"as long as gap and grace", window.Session(60 * ms).Grace(60 * ms), []millrace.StepOption{millrace.Retain(120 * ms)}, nil},
		{"no gap", window.Session(0), nil, []string{"window.Session"}},
		{"negative gap", window.Session(-ms), nil, []string{"gap of -1ms"}},
		{"negative grace", window.Session(ms).Grace(-ms), nil, []string{"grace -1ms"}},
		{"part of a millisecond", window.Session(1500 * time.Microsecond), nil, []string{"gap 1.5ms", "whole number"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := millrace.NewBuilder()
			millrace.CountSessions(millrace.From(b, strTopic).GroupByKey().SessionBy(c.w), append(c.opts, millrace.As("c"))...)
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

func TestC127_SessionKeys(t *testing.T) {
	d, _ := countSessions(t, window.Session(100*ms).Grace(100*ms), nil, milltest.CacheBytes(0))
	pipe(t, d, "in", "ab=x@1000")
	pipe(t, d, "in", "ab=x@1050")
	for _, topic := range []string{"out", "test-counts-changelog"} {
		last := ""
		for _, raw := range d.ReadRaw(topic) {
			last = hex.EncodeToString(raw.Key)
		}
		wantText(t, topic, last, "6162000000000000041a00000000000003e8")
	}
}

// The table of the reference: gap 5, no grace.
func TestSessionCount(t *testing.T) {
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			d, out := countSessions(t, window.Session(5*ms), e.steps, e.driver...)
			steps{
				{"in", "k=a@10", "k[10,10]=1@10"},
				{"in", "k=a@14", "k[10,10]=~@10 k[10,14]=2@14"},
				{"in", "k=a@30", "k[30,30]=1@30"},
				{"in", "k=a@22", ""},
				{"in", "k=a@25", "k[30,30]=~@30 k[25,30]=2@30"},
				{"in", "k=a@19", ""},
				{"in", "k=a@20", "k[25,30]=~@30 k[20,30]=3@30"},
			}.run(t, d, out)
			wantDropped(t, d, "counts", millrace.DroppedLate, 2)
		})
	}
}

func TestSessions_lateRecords(t *testing.T) {
	b := millrace.NewBuilder()
	_, late := millrace.CountSessions(millrace.From(b, strTopic).GroupByKey().SessionBy(window.Session(5*ms)), millrace.As("counts"))
	lateTopic := millrace.NewTopic("late", serde.String, serde.JSON[window.Late[string]]())
	late.To(lateTopic)
	d := milltest.New(t, build(t, b))
	for _, r := range []string{"k=a@10", "~=x@500", "j=b@30", "k=c@24", "j=~@24", "j=d@25", "k=e@25"} {
		pipe(t, d, "in", r)
	}
	var got []string
	for _, r := range milltest.Output(d, lateTopic).ReadAll() {
		got = append(got, fmt.Sprintf("%s %+v@%d", r.Key, r.Value, r.TimestampMs))
	}
	wantText(t, "late", strings.Join(got, "\n"), strings.Join([]string{
		"k {Value:c NullValue:false ObservedTimeMs:30 Missed:[{StartMs:24 EndMs:24}] Accepted:false}@24",
		"j {Value: NullValue:true ObservedTimeMs:30 Missed:[{StartMs:24 EndMs:24}] Accepted:false}@24",
	}, "\n"))
	wantDropped(t, d, "counts", millrace.DroppedLate, 2)
	wantDropped(t, d, "counts", millrace.DroppedNullKey, 1)
	wantText(t, "store", sessionRows(t, milltest.Session[string, int64](d, "counts", 0)), "j[25,30]=2@25 k[25,25]=1@25")
}

// What Kafka Streams does with a null that starts a reduction, and with aggregates that are null.
func TestSessions_nullAggregates(t *testing.T) {
	t.Run("reduce", func(t *testing.T) {
		b := millrace.NewBuilder()
		r, _ := millrace.ReduceSessions(millrace.From(b, strTopic).GroupByKey().SessionBy(window.Session(5*ms).Grace(100*ms)),
			func(a, v string) string { return a + v }, millrace.As("r"))
		out := millrace.NewTopic("out", serde.SessionWindowed(serde.String), serde.String)
		r.ToStream().To(out)
		d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
		steps{
			{"in", "k=~@10", "k[10,10]=~@10"},
			{"in", "k=a@10", "k[10,10]=a@10"},
			{"in", "k=b@12", "k[10,10]=~@10 k[10,12]=ab@12"},
			{"in", "k=c@22", "k[22,22]=c@22"},
			{"in", "k=d@17", "k[10,12]=~@12 k[22,22]=~@22 k[10,22]=abcd@22"},
		}.run(t, d, sessionReader(d, out))
	})
	aggregate := func(t *testing.T, init func() *string, add func(k, v string, a *string) *string, merge func(k string, a, b *string) *string) (*milltest.Driver, func() string) {
		b := millrace.NewBuilder()
		g := millrace.From(b, strTopic).GroupByKey().SessionBy(window.Session(5 * ms).Grace(100 * ms))
		r, _ := millrace.AggregateSessions(g, init, add, merge, serde.Nullable(serde.String), millrace.As("r"))
		out := millrace.NewTopic("out", serde.SessionWindowed(serde.String), serde.Nullable(serde.String))
		r.ToStream().To(out)
		d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
		return d, sessionReader(d, out)
	}
	str := func(s *string) string {
		if s == nil {
			return "null"
		}
		return *s
	}
	ptr := func(s string) *string { return &s }
	add := func(_, v string, a *string) *string { return ptr(str(a) + v) }
	merge := func(_ string, a, b *string) *string { return ptr("<" + str(a) + "|" + str(b) + ">") }
	t.Run("add", func(t *testing.T) {
		d, out := aggregate(t, func() *string { return ptr("0") }, func(k, v string, a *string) *string {
			if v == "del" {
				return nil
			}
			return add(k, v, a)
		}, merge)
		steps{
			{"in", "k=a@10", "k[10,10]=0a@10"},
			{"in", "k=b@12", "k[10,10]=~@10 k[10,12]=<0|0a>b@12"},
			{"in", "k=del@14", "k[10,12]=~@12 k[10,14]=~@14"},
			{"in", "k=z@15", "k[15,15]=0z@15"},
			{"in", "k=del@15", "k[15,15]=~@15"},
			{"in", "k=y@15", "k[15,15]=0y@15"},
		}.run(t, d, out)
	})
	t.Run("init", func(t *testing.T) {
		d, out := aggregate(t, func() *string { return nil }, add, merge)
		steps{
			{"in", "k=a@10", "k[10,10]=nulla@10"},
			{"in", "k=b@12", "k[10,10]=~@10 k[10,12]=<null|nulla>b@12"},
			{"in", "k=c@20", "k[20,20]=nullc@20"},
			{"in", "k=d@16", "k[10,12]=~@12 k[20,20]=~@20 k[10,20]=<<null|<null|nulla>b>|nullc>d@20"},
		}.run(t, d, out)
	})
	t.Run("merge", func(t *testing.T) {
		d, out := aggregate(t, func() *string { return ptr("0") }, add, func(string, *string, *string) *string { return nil })
		steps{
			{"in", "k=a@10", "k[10,10]=0a@10"},
			{"in", "k=b@12", "k[10,10]=~@10 k[10,12]=nullb@12"},
		}.run(t, d, out)
	})
}

// Without a cache the rows of sessions have no headers; what waits in one comes out with those of its last write.
func TestSessions_headers(t *testing.T) {
	for cache, want := range map[int64]string{
		0:       "k[10,10]=1 k[10,10]=~ k[10,12]=2",
		1 << 20: "k[10,12]=2 h=2",
	} {
		b := millrace.NewBuilder()
		counts, _ := millrace.CountSessions(millrace.From(b, strTopic).GroupByKey().SessionBy(window.Session(5*ms)), millrace.As("counts"))
		out := millrace.NewTopic("out", serde.SessionWindowed(serde.String), serde.Int64)
		counts.ToStream().To(out)
		d := milltest.New(t, build(t, b), milltest.CacheBytes(cache), milltest.ManualCommit())
		for i, at := range []time.Duration{10 * ms, 12 * ms} {
			h := serde.Headers{}.With("h", []byte{byte('1' + i)})
			if err := d.PipeRaw("in", 0, []byte("k"), []byte("v"), h, at); err != nil {
				t.Fatal(err)
			}
		}
		d.Commit()
		var got []string
		for _, r := range milltest.Output(d, out).ReadAll() {
			text := fmt.Sprintf("%s[%d,%d]=%d", r.Key.Key, r.Key.Window.StartMs, r.Key.Window.EndMs, r.Value)
			if r.NullValue {
				text = text[:strings.LastIndex(text, "=")] + "=~"
			}
			for _, h := range r.Headers {
				text += fmt.Sprintf(" %s=%s", h.Key, h.Value)
			}
			got = append(got, text)
		}
		wantText(t, fmt.Sprint("cache of ", cache), strings.Join(got, " "), want)
	}
}

// What Kafka Streams emits, with a store that keeps sessions long enough.
func TestSessions_emitOnClose(t *testing.T) {
	for name, e := range engines {
		for kept, opts := range map[string][]millrace.StepOption{
			"default retention": nil, "long retention": {millrace.Retain(100 * time.Second)},
		} {
			t.Run(name+" "+kept, func(t *testing.T) {
				d, out := countSessions(t, window.Session(5*ms).Grace(3*ms), append(opts, millrace.EmitOnClose()), e.driver...)
				steps{
					{"in", "k=a@0", ""},
					{"in", "k=a@10", "k[0,0]=1@0"},
					{"in", "j=b@12", ""},
					{"in", "k=b@18", ""},
					{"in", "m=b@18", ""},
					{"in", "l=b@12", ""},
					{"in", "j=c@19", "k[10,10]=1@10"},
					{"in", "j=c@27", "j[12,12]=1@12 l[12,12]=1@12 k[18,18]=1@18 m[18,18]=1@18"},
				}.run(t, d, out)
				// k[18,18] has left. A store that is told to keep sessions lets records join it all the same.
				want := "j[19,19]=1@19 k[21,22]=2@22 j[27,27]=1@27"
				if opts != nil {
					want = "j[19,19]=1@19 k[18,22]=3@22 j[27,27]=1@27"
				}
				steps{
					{"in", "k=c@22", ""},
					{"in", "k=c@21", ""},
					{"in", "j=c@200", want},
					{"in", "j=c@300", "j[200,200]=1@200"},
				}.run(t, d, out)
			})
		}
	}
}

// However far time jumps, each session comes out. The store of Kafka Streams has lost them by then.
func TestC027_SessionsOnCloseWithAJumpInTime(t *testing.T) {
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			d, out := countSessions(t, window.Session(10*time.Minute).Grace(5*time.Minute), []millrace.StepOption{millrace.EmitOnClose()}, e.driver...)
			steps{
				{"in", "a=x@60000", ""},
				{"in", "b=x@720000", ""},
				{"in", "a=x@120000", ""},
				{"in", "c=x@86400000", "a[60000,120000]=2@120000 b[720000,720000]=1@720000"},
			}.run(t, d, out)
			restart(t, d)
			steps{
				{"in", "a=x@120000", ""},
				{"in", "b=x@172800000", "c[86400000,86400000]=1@86400000"},
			}.run(t, d, out)
			wantDropped(t, d, "counts", millrace.DroppedLate, 1)
		})
	}
}

func TestSessions_emitOnCloseSendsTheHeadersOfWhatClosed(t *testing.T) {
	d, _ := countSessions(t, window.Session(5*ms), []millrace.StepOption{millrace.EmitOnClose()})
	for i, at := range []time.Duration{10 * ms, 12 * ms, 100 * ms} {
		h := serde.Headers{}.With("h", []byte{byte('1' + i)})
		if err := d.PipeRaw("in", 0, []byte("k"), []byte("v"), h, at); err != nil {
			t.Fatal(err)
		}
	}
	wantText(t, "out", rawRecords(d, "out"), "6b000000000000000c000000000000000a=0000000000000002@12 h=3")
}

// A table grouped from sessions takes each of them out again before it is replaced, one of a single moment too. Kafka Streams
// does so with a cache, and without one counts that session twice.
func TestSessions_totalsOfAGroupedTable(t *testing.T) {
	for _, cache := range []int64{0, 1 << 20} {
		b := millrace.NewBuilder()
		counts, _ := millrace.CountSessions(millrace.From(b, strTopic).GroupByKey().SessionBy(window.Session(5*ms).Grace(100*ms)), millrace.As("counts"))
		all := millrace.GroupTableBy(counts, func(_ window.Key[string], n int64) (string, int64) { return "all", n },
			millrace.WithKey(serde.String), millrace.WithValue(serde.Int64))
		millrace.SumTable(all, func(n int64) int64 { return n }, serde.Int64, millrace.As("total"), millrace.WithoutCache()).ToStream().To(countTopic)
		d := milltest.New(t, build(t, b), milltest.CacheBytes(cache))
		out := reader(d, countTopic)
		steps{
			{"in", "k=a@10", "all=1@10"},
			{"in", "k=a@10", "all=2@10"},
			{"in", "k=a@12", "all=0@10 all=3@12"},
			{"in", "j=a@12", "all=4@12"},
		}.run(t, d, out)
	}
}

// lastSeen keeps one session of each key with the low-level store.
type lastSeen struct {
	ctx   processor.Context[string, string]
	store store.Session[string, string]
	def   *millrace.SessionStore[string, string]
}

func (p *lastSeen) Init(ctx processor.Context[string, string]) (err error) {
	p.ctx = ctx
	p.store, err = p.def.From(ctx)
	return err
}

func (p *lastSeen) Process(r processor.Record[string, string]) error {
	start, end := r.TimestampMs, r.TimestampMs
	it, err := p.store.FindSessions(r.Key, start-5, end+5)
	if err != nil {
		return err
	}
	var found []window.Key[string]
	for it.Next() {
		found = append(found, it.Key())
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		return err
	}
	for _, k := range found {
		start, end = min(start, k.Window.StartMs), max(end, k.Window.EndMs)
		if err := p.store.Delete(r.Key, k.Window.StartMs, k.Window.EndMs); err != nil {
			return err
		}
	}
	return p.store.Put(r.Key, r.Value, start, end)
}

func (p *lastSeen) Close() error { return nil }

func TestNewSessionStore(t *testing.T) {
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			b := millrace.NewBuilder()
			def := millrace.NewSessionStore("seen", time.Second, serde.String, serde.String)
			millrace.Process(millrace.From(b, strTopic), func() *lastSeen { return &lastSeen{def: def} }, millrace.WithStores(def))
			d := milltest.New(t, build(t, b), e.driver...)
			for _, r := range []string{"k=a@10", "k=b@20", "j=c@12", "k=d@15", "k=e@40"} {
				pipe(t, d, "in", r)
			}
			const want = "j[12,12]=c@12 k[10,20]=d@15 k[40,40]=e@40"
			wantText(t, "store", sessionRows(t, milltest.Session[string, string](d, "seen", 0)), want)
			restart(t, d)
			s := milltest.Session[string, string](d, "seen", 0)
			wantText(t, "after a restart", sessionRows(t, s), want)
			if v, ok, err := s.Get("k", 10, 20); v != "d" || !ok || err != nil {
				t.Errorf("k[10,20] is %q, %v, %v", v, ok, err)
			}
			if err := s.Put("k", "x", 5, 4); err == nil {
				t.Error("a session that ends before it starts was put")
			}
			it, err := s.Fetch("k")
			if err != nil {
				t.Fatal(err)
			}
			if !it.Next() || it.Key().Window.StartMs != 10 || it.Close() != nil || it.Next() || it.Err() == nil {
				t.Error("an iterator that is closed goes on")
			}
			pipe(t, d, "in", "k=f@2000") // the others are past the retention
			wantText(t, "after the retention", sessionRows(t, s), "k[2000,2000]=f@2000")
		})
	}
}

// Everything that the store knows comes back from the changelog, and what is processed again after a crash is merged again.
func TestSessions_restart(t *testing.T) {
	for name, e := range engines {
		for _, cache := range []int64{0, 1 << 20} {
			t.Run(fmt.Sprintf("%s cache %d", name, cache), func(t *testing.T) {
				d, _ := countSessions(t, window.Session(5*ms).Grace(20*ms), nil, append(e.driver, milltest.ManualCommit(), milltest.CacheBytes(cache))...)
				rowsOf := func() string { return sessionRows(t, milltest.Session[string, int64](d, "counts", 0)) }
				for _, r := range []string{"k=a@10", "k=a@14", "j=a@30", "k=a@30"} {
					pipe(t, d, "in", r)
				}
				wantText(t, "before the commit", rowsOf(), "j[30,30]=1@30 k[10,14]=2@14 k[30,30]=1@30")
				d.Commit()
				restart(t, d)
				wantText(t, "after a stop", rowsOf(), "j[30,30]=1@30 k[10,14]=2@14 k[30,30]=1@30")
				pipe(t, d, "in", "k=a@18")
				pipe(t, d, "in", "k=a@22")
				pipe(t, d, "in", "k=a@4") // late: the time of before the stop is known
				d.Commit()
				restart(t, d)
				wantText(t, "after another", rowsOf(), "j[30,30]=1@30 k[10,22]=4@22 k[30,30]=1@30")
				wantDropped(t, d, "counts", millrace.DroppedLate, 1)
			})
		}
	}
}
