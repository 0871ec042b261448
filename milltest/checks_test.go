package milltest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// lastCaller is a test that remembers what failed, and where a test would say that it did: the first caller that is no helper.
type lastCaller struct {
	testing.TB
	helpers map[string]bool
	said    string
	at      string
}

func (l *lastCaller) Helper() { l.helpers[function(2)] = true }

func (l *lastCaller) Fatal(args ...any) {
	l.said = fmt.Sprint(args...)
	for skip := 2; ; skip++ {
		if name := function(skip); !l.helpers[name] {
			l.at = name
			runtime.Goexit()
		}
	}
}

func function(skip int) string {
	var pcs [1]uintptr
	runtime.Callers(skip+1, pcs[:])
	f, _ := runtime.CallersFrames(pcs[:]).Next()
	return f.Function
}

// fails runs f with a driver of a topology, and returns what it failed with; the failure must be f's own.
func fails(t *testing.T, topology *millrace.Topology, opts []milltest.Option, f func(d *milltest.Driver)) string {
	t.Helper()
	l := &lastCaller{TB: t, helpers: make(map[string]bool)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(milltest.New(l, topology, opts...))
	}()
	<-done
	if !strings.Contains(l.at, "milltest_test.") || strings.Contains(l.at, "lastCaller") {
		t.Errorf("the failure %q is placed at %q, not in the test", l.said, l.at)
	}
	return l.said
}

func checkedTopology(t *testing.T) *millrace.Topology {
	t.Helper()
	b := millrace.NewBuilder()
	s := millrace.From(b, strTopic)
	counts, _ := millrace.CountWindows(s.GroupByKey().WindowBy(window.Tumbling(10*ms)), millrace.As("counts"))
	counts.ToStream().To(millrace.NewTopic("out", serde.Windowed(serde.String, 0), serde.Int64))
	s.ToTable(millrace.As("latest"), millrace.Versioned(time.Second))
	s.ForEach(func(_, v string) {
		if v == "bad" {
			panic("not this one")
		}
	}, millrace.As("each"))
	return build(t, b)
}

func TestDriver_refusesWhatTheTopologyDoesNotHave(t *testing.T) {
	other := millrace.NewTopic("other", serde.String, serde.String)
	for _, c := range []struct {
		name string
		opts []milltest.Option
		f    func(d *milltest.Driver)
		want []string
	}{
		{"input", nil, func(d *milltest.Driver) { milltest.Input(d, other) }, []string{"does not read the topic other", "in"}},
		{"output", nil, func(d *milltest.Driver) { milltest.Output(d, other) }, []string{"neither reads nor writes the topic other", "in, out"}},
		{"misspelt store", nil, func(d *milltest.Driver) { milltest.KeyValue[string, int64](d, "count", 0) }, []string{"no store count;", "counts, latest"}},
		{"versioned store", nil, func(d *milltest.Driver) { milltest.KeyValue[string, string](d, "latest", 0) }, []string{"milltest.Versioned"}},
		{"window store", nil, func(d *milltest.Driver) { milltest.Session[string, int64](d, "counts", 0) }, []string{"milltest.Window"}},
		{"other types", nil, func(d *milltest.Driver) { milltest.Window[string, string](d, "counts", 0) }, []string{"other types"}},
		{"other partition", nil, func(d *milltest.Driver) { milltest.Window[string, int64](d, "counts", 7) }, []string{"in partition 7"}},
		{"user panic", nil, func(d *milltest.Driver) { milltest.Input(d, strTopic).PipeAtTime("k", "bad", time.UnixMilli(5)) },
			[]string{"not this one, at checks_test.go:"}},
		{"no partitions", []milltest.Option{milltest.Partitions(0)}, func(*milltest.Driver) {}, []string{"Partitions is given 0"}},
		{"partitions of another topic", []milltest.Option{milltest.TopicPartitions("other", 2)}, func(*milltest.Driver) {},
			[]string{"TopicPartitions", "neither reads nor writes the topic other"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := fails(t, checkedTopology(t), c.opts, c.f)
			for _, part := range c.want {
				if !strings.Contains(said, part) {
					t.Errorf("%q does not say %q", said, part)
				}
			}
		})
	}
}

func TestDriver_withoutATopology(t *testing.T) {
	if _, err := milltest.NewDriver(nil); err == nil || !strings.Contains(err.Error(), "no topology") {
		t.Errorf("%v", err)
	}
}

func TestWindowedKeys_mixedUp(t *testing.T) {
	minutes, days := window.Tumbling(time.Minute), window.Days(time.UTC)
	to := func(w window.Windows, key serde.Serde[window.Key[string]]) func(millrace.Grouped[string, string]) {
		return func(g millrace.Grouped[string, string]) {
			counts, _ := millrace.CountWindows(g.WindowBy(w), millrace.As("counts"))
			counts.ToStream().To(millrace.NewTopic("out", key, serde.Int64))
		}
	}
	for _, c := range []struct {
		name    string
		declare func(millrace.Grouped[string, string])
		want    string // empty: accepted
	}{
		{"sessions as windows", func(g millrace.Grouped[string, string]) {
			counts, _ := millrace.CountSessions(g.SessionBy(window.Session(time.Minute)), millrace.As("counts"))
			counts.ToStream().To(millrace.NewTopic("out", serde.Windowed(serde.String, time.Minute), serde.Int64))
		}, "serde.SessionWindowed"},
		{"windows as sessions", to(minutes, serde.SessionWindowed(serde.String)), "serde.Windowed with the size"},
		{"another size", to(minutes, serde.Windowed(serde.String, time.Hour)), "60000 ms"},
		{"another size by windows", to(minutes, serde.WindowedBy(serde.String, window.Tumbling(time.Hour))), "60000 ms"},
		{"days by a size", to(days, serde.Windowed(serde.String, 24*time.Hour)), "serde.WindowedBy"},
		{"days by months", to(days, serde.WindowedBy(serde.String, window.Months(time.UTC))), "serde.WindowedBy"},
		{"days", to(days, serde.WindowedBy(serde.String, days.Grace(time.Hour))), ""},
		{"no size", to(minutes, serde.Windowed(serde.String, 0)), ""},
		{"the same size", to(minutes, serde.WindowedBy(serde.String, minutes)), ""},
		{"join of other windows", func(g millrace.Grouped[string, string]) {
			l, _ := millrace.CountWindows(g.WindowBy(minutes), millrace.As("l"))
			r, _ := millrace.CountSessions(g.SessionBy(window.Session(time.Minute)), millrace.As("r"))
			millrace.JoinTables(l, r, func(a, b int64) int64 { return a + b }, millrace.As("joined"), millrace.WithValue(serde.Int64))
		}, "JoinTables: the keys of the left table have windows of 60000 ms, those of the right one sessions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := millrace.NewBuilder()
			c.declare(millrace.From(b, strTopic).GroupByKey())
			_, err := b.Build()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Build: %v, want an error that says %q", err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), "checks_test.go:") {
				t.Errorf("the error names no line: %v", err)
			}
		})
	}
}
