package milltest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// everywhere runs a test with stores on disk and in memory.
func everywhere(t *testing.T, f func(t *testing.T, opts []millrace.StepOption, driver ...milltest.Option)) {
	t.Helper()
	t.Run("disk", func(t *testing.T) { f(t, nil, milltest.OnDisk()) })
	t.Run("memory", func(t *testing.T) { f(t, []millrace.StepOption{millrace.InMemory()}) })
}

// streamVersioned joins topic S with the versioned table of topic T.
func streamVersioned(t *testing.T, left bool, history time.Duration, opts []millrace.StepOption, driver ...milltest.Option) (*milltest.Driver, func() string) {
	t.Helper()
	b := millrace.NewBuilder()
	table := millrace.TableFrom(b, millrace.NewTopic("T", serde.String, serde.String), append(opts, millrace.As("table"), millrace.Versioned(history))...)
	s := millrace.From(b, millrace.NewTopic("S", serde.String, serde.String))
	if left {
		millrace.LeftJoinTable(s, table, func(l, r string, ok bool) string { return l + "-" + orText(r, ok) }).To(outTopic)
	} else {
		millrace.JoinTable(s, table, func(l, r string) string { return l + "-" + r }).To(outTopic)
	}
	d := milltest.New(t, build(t, b), driver...)
	return d, reader(d, outTopic)
}

func TestC040_aVersionedTableIsJoinedAsOfTheRecordsTime(t *testing.T) {
	everywhere(t, func(t *testing.T, opts []millrace.StepOption, driver ...milltest.Option) {
		d, out := streamVersioned(t, true, 100*ms, opts, driver...)
		steps{
			{"T", "k=v0@0", ""}, {"T", "k=v30@30", ""},
			{"S", "k=s@40", "k=s-v30@40"}, {"S", "k=s@20", "k=s-v0@20"}, {"S", "k=s@29", "k=s-v0@29"}, {"S", "k=s@30", "k=s-v30@30"},
			{"T", "k=v10@10", ""}, {"S", "k=s@20", "k=s-v10@20"},
			{"T", "k=~@50", ""}, {"S", "k=s@55", "k=s-null@55"}, {"S", "k=s@45", "k=s-v30@45"},
			{"T", "z=z@200", ""}, {"S", "k=s@90", "k=s-null@90"}, {"S", "k=s@120", "k=s-null@120"},
		}.run(t, d, out)

		d, out = streamVersioned(t, true, 100*ms, opts, driver...)
		steps{
			{"T", "k=v0@0", ""}, {"T", "k=v90@90", ""}, {"T", "z=z@200", ""},
			{"S", "k=s@50", "k=s-null@50"}, {"S", "k=s@95", "k=s-v90@95"}, {"S", "k=s@100", "k=s-v90@100"}, {"S", "k=s@120", "k=s-v90@120"},
		}.run(t, d, out)

		d, out = streamVersioned(t, false, 100*ms, opts, driver...)
		steps{
			{"T", "k=v0@0", ""}, {"T", "k=v90@90", ""}, {"T", "z=z@200", ""},
			{"S", "k=s@50", ""}, {"S", "k=s@95", "k=s-v90@95"},
		}.run(t, d, out)
	})
}

// The input that the join tests of Kafka Streams share, through a versioned table.
func TestJoinVersionedTable_sharedInput(t *testing.T) {
	everywhere(t, func(t *testing.T, opts []millrace.StepOption, driver ...milltest.Option) {
		for _, c := range []struct {
			left bool
			want string
		}{
			{false, "5:B-a@5; 15:D-b@6; 19:E-e@15; 22:F-a@4"},
			{true, "3:A-null@3; 5:B-a@5; 9:C-null@9; 15:D-b@6; 19:E-e@15; 22:F-a@4"},
		} {
			d, out := streamVersioned(t, c.left, time.Hour, opts, driver...)
			wantText(t, fmt.Sprintf("left %v", c.left), shared(t, d, out), c.want)
		}
	})
}

// shared pipes joinInput and tells what came out after which record.
func shared(t *testing.T, d *milltest.Driver, out func() string) string {
	t.Helper()
	var got []string
	for i, record := range strings.Split(joinInput, ",") {
		var side, value, at string
		if _, err := fmt.Sscan(record, &side, &value, &at); err != nil {
			t.Fatal(err)
		}
		if value == "null" {
			value = "~"
		}
		pipe(t, d, map[string]string{"L": "S", "R": "T"}[side], "k="+value+"@"+at)
		if s := out(); s != "" {
			got = append(got, fmt.Sprintf("%d:%s", i+1, strings.ReplaceAll(s, "k=", "")))
		}
	}
	return strings.Join(got, "; ")
}

// versionedIn is a versioned table of topic in, and its updates in topic out.
func versionedIn(t *testing.T, history time.Duration, opts []millrace.StepOption, driver ...milltest.Option) *milltest.Driver {
	t.Helper()
	b := millrace.NewBuilder()
	millrace.TableFrom(b, strTopic, append(opts, millrace.As("v"), millrace.Versioned(history))...).ToStream().To(outTopic)
	return milltest.New(t, build(t, b), driver...)
}

func asOf(t *testing.T, s store.Versioned[string, string], key string, times ...int64) string {
	t.Helper()
	var out []string
	for _, at := range times {
		v, ok, err := s.GetAsOf(key, at)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, orText(v.Value, ok))
	}
	return strings.Join(out, " ")
}

func TestC088_versionsEndWhereTheNextOneStarts(t *testing.T) {
	everywhere(t, func(t *testing.T, opts []millrace.StepOption, driver ...milltest.Option) {
		d := versionedIn(t, 100*ms, opts, driver...)
		out := reader(d, outTopic)
		for _, r := range []string{"k=v10@10", "k=v50@50", "k=~@70", "k=v60@60", "k=v90@90"} {
			pipe(t, d, "in", r)
			wantText(t, "update "+r, out(), r)
		}
		s := milltest.Versioned[string, string](d, "v", 0)
		wantText(t, "as of", asOf(t, s, "k", 5, 10, 49, 50, 60, 69, 70, 89, 90, 1000), "null v10 v10 v50 v60 v60 null null v90 v90")
		pipe(t, d, "in", "z=q@180")
		out()
		wantText(t, "as of, after time 180", asOf(t, s, "k", 50, 79, 80, 90), "null null null v90")
		pipe(t, d, "in", "k=late@75")
		wantText(t, "an update older than the history", out(), "")
		wantDropped(t, d, "v", millrace.DroppedExpired, 1)
		wantText(t, "as of 85", asOf(t, s, "k", 85), "null")
		pipe(t, d, "in", "k=ok@85")
		wantText(t, "an update within the history", out(), "k=ok@85")
		wantText(t, "as of 86, and now", asOf(t, s, "k", 86, 1<<50), "ok v90")

		check := func() {
			t.Helper()
			s := milltest.Versioned[string, string](d, "v", 0)
			wantText(t, "after a restart, as of", asOf(t, s, "k", 79, 80, 84, 85, 86, 89, 90, 1<<50), "null null null ok ok ok v90 v90")
			versions, err := s.History("k", 0, 1<<50)
			if err != nil {
				t.Fatal(err)
			}
			wantText(t, "history", fmt.Sprint(versions), fmt.Sprintf("[{v90 90 %d} {ok 85 90}]", store.Forever))
		}
		restart(t, d)
		check()
		pipe(t, d, "in", "k=late@79")
		wantDropped(t, d, "v", millrace.DroppedExpired, 2)
		check()
	})
}

// A versioned store derived from a versioned table judges by its own history; what it does not take it does not send. A table
// derived without a store passes everything on, and a store that is not versioned takes what comes last.
func TestVersionedTable_derived(t *testing.T) {
	b := millrace.NewBuilder()
	table := millrace.TableFrom(b, strTopic, millrace.As("v"), millrace.Versioned(100*ms))
	topic := func(name string) millrace.Topic[string, string] {
		return millrace.NewTopic(name, serde.String, serde.String)
	}
	bang := func(v string) string { return v + "!" }
	text := millrace.WithValue[string](serde.String)
	table.Filter(func(_, v string) bool { return v != "b" }).ToStream().To(topic("filtered"))
	millrace.MapTableValues(table, bang, millrace.As("plain"), text).ToStream().To(topic("mapped"))
	millrace.MapTableValues(table, bang, millrace.As("short"), text, millrace.Versioned(50*ms)).ToStream().To(topic("mapped-short"))
	d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
	filtered, mapped, short := reader(d, topic("filtered")), reader(d, topic("mapped")), reader(d, topic("mapped-short"))
	for _, c := range []struct{ record, filtered, mapped, short string }{
		{"k=a@10", "k=a@10", "k=a!@10", "k=a!@10"},
		{"k=b@50", "k=~@50", "k=b!@50", "k=b!@50"},
		{"k=c@30", "k=c@30", "k=c!@30", "k=c!@30"},
		{"k=~@60", "k=~@60", "k=~@60", "k=~@60"},
		{"k=d@55", "k=d@55", "k=d!@55", "k=d!@55"},
		{"z=z@200", "z=z@200", "z=z!@200", "z=z!@200"},
		{"k=e@90", "", "", ""},
		{"k=f@100", "k=f@100", "k=f!@100", ""},
		{"k=g@99", "", "", ""},
		{"q=~@150", "q=~@150", "q=~@150", "q=~@150"},
		{"q=h@140", "q=h@140", "q=h!@140", ""},
	} {
		pipe(t, d, "in", c.record)
		wantText(t, c.record+", filtered", filtered(), c.filtered)
		wantText(t, c.record+", mapped", mapped(), c.mapped)
		wantText(t, c.record+", with a short history", short(), c.short)
	}
	wantDropped(t, d, "v", millrace.DroppedExpired, 2)
	wantDropped(t, d, "short", millrace.DroppedExpired, 2)
	wantText(t, "last in", rows(t, milltest.KeyValue[string, string](d, "plain", 0)), "k=f!@100 q=h!@140 z=z!@200")
}

// A versioned changelog holds each put as it came, those older than the history included.
func TestVersionedTable_changelog(t *testing.T) {
	d := versionedIn(t, 100*ms, nil)
	for _, r := range []string{"k=a@10", "k=~@60", "k=b@20", "z=z@200", "k=late@30"} {
		pipe(t, d, "in", r)
	}
	var changelog string
	for _, name := range d.Topics() {
		if strings.HasSuffix(name, "v-changelog") {
			changelog = name
		}
	}
	wantText(t, changelog, reader(d, millrace.NewTopic(changelog, serde.String, serde.String))(), "k=a@10 k=~@60 k=b@20 z=z@200 k=late@30")
}

func TestVersioned_refused(t *testing.T) {
	for _, c := range []struct {
		name, want string
		f          func(b *millrace.Builder)
	}{
		{"negative", "negative history retention", func(b *millrace.Builder) {
			millrace.TableFrom(b, strTopic, millrace.As("v"), millrace.Versioned(-ms))
		}},
		{"unnamed", "needs a name", func(b *millrace.Builder) { millrace.TableFrom(b, strTopic, millrace.Versioned(ms)) }},
		{"derived, unnamed", "needs a name", func(b *millrace.Builder) {
			millrace.TableFrom(b, strTopic).Filter(func(string, string) bool { return true }, millrace.Versioned(ms))
		}},
		{"suppressed", "cannot be suppressed", func(b *millrace.Builder) {
			t := millrace.TableFrom(b, strTopic, millrace.As("v"), millrace.Versioned(ms))
			t.Filter(func(string, string) bool { return true }).Suppress(millrace.UntilTimeLimit(ms, millrace.Unbounded()), millrace.As("s"))
		}},
		{"global", "no use for the option Versioned", func(b *millrace.Builder) {
			millrace.GlobalTableFrom(b, strTopic, millrace.As("g"), millrace.Versioned(ms))
		}},
	} {
		b := millrace.NewBuilder()
		c.f(b)
		if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
}
