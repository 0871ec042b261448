package milltest_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// What comes out of each kind of step while nothing but time passes, and that it stays out after a restart. The clock and
// the records start at 1,000,000; a source is idle after ten seconds.
func TestIdleTimeout_steps(t *testing.T) {
	const gap = 10 * time.Second
	idle := millrace.IdleTimeout(gap)
	counting := func(w window.Windows, suppress bool, opts ...millrace.StepOption) func(b *millrace.Builder) func(d *milltest.Driver) func() string {
		return func(b *millrace.Builder) func(d *milltest.Driver) func() string {
			counts, _ := millrace.CountWindows(millrace.From(b, strTopic, idle).GroupByKey().WindowBy(w), append(opts, millrace.As("step"))...)
			if suppress {
				counts = counts.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("final"))
			}
			out := millrace.NewTopic("out", serde.WindowedBy(serde.String, w), serde.Int64)
			counts.ToStream().To(out)
			return func(d *milltest.Driver) func() string { return reader(d, out) }
		}
	}
	sessions := func(suppress bool, opts ...millrace.StepOption) func(b *millrace.Builder) func(d *milltest.Driver) func() string {
		return func(b *millrace.Builder) func(d *milltest.Driver) func() string {
			counts, _ := millrace.CountSessions(millrace.From(b, strTopic, idle).GroupByKey().SessionBy(window.Session(gap)), append(opts, millrace.As("step"))...)
			if suppress {
				counts = counts.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("final"))
			}
			out := millrace.NewTopic("out", serde.SessionWindowed(serde.String), serde.Int64)
			counts.ToStream().To(out)
			return func(d *milltest.Driver) func() string { return sessionReader(d, out) }
		}
	}
	joining := func(kind streamJoinKind) func(b *millrace.Builder) func(d *milltest.Driver) func() string {
		return func(b *millrace.Builder) func(d *milltest.Driver) func() string {
			joined, _ := kind.join(millrace.From(b, leftTopic, idle), millrace.From(b, rightTopic, idle), window.Within(gap), millrace.As("step"))
			joined.To(joinTopic)
			return func(d *milltest.Driver) func() string { return reader(d, joinTopic) }
		}
	}
	const opened = "a[1000000,1010000)=1@1000000"
	for _, c := range []struct {
		name    string
		declare func(b *millrace.Builder) func(d *milltest.Driver) func() string
		topic   string
		first   string // what the record a=x@1000000 makes come out
		closed  string // what the time makes come out
		next    string // what the record a=x@1200000 makes come out
	}{
		{"tumbling", counting(window.Tumbling(gap), false), "in", opened, "", "a[1200000,1210000)=1@1200000"},
		{"tumbling, results on close", counting(window.Tumbling(gap), false, millrace.EmitOnClose()), "in", "", opened, ""},
		{"hopping, results on close", counting(window.Hopping(gap, gap/2), false, millrace.EmitOnClose()), "in", "",
			"a[995000,1005000)=1@1000000 a[1000000,1010000)=1@1000000", ""},
		{"one's own, results on close", counting(tens{}, false, millrace.EmitOnClose()), "in", "", "a[1000000,1000010)=1@1000000", ""},
		{"sliding", counting(window.Sliding(gap), false), "in", "a[990000,1000000)=1@1000000", "", "a[1190000,1200000)=1@1200000"},
		{"sliding, results on close", counting(window.Sliding(gap), false, millrace.EmitOnClose()), "in", "", "a[990000,1000000)=1@1000000", ""},
		{"tumbling, suppressed", counting(window.Tumbling(gap), true), "in", "", opened, ""},
		{"sessions", sessions(false), "in", "a[1000000,1000000]=1@1000000", "", "a[1200000,1200000]=1@1200000"},
		{"sessions, results on close", sessions(false, millrace.EmitOnClose()), "in", "", "a[1000000,1000000]=1@1000000", ""},
		{"sessions, suppressed", sessions(true), "in", "", "a[1000000,1000000]=1@1000000", ""},
		{"left join", joining(leftKind), "L", "", "a=x-null@1000000", ""},
		{"outer join, left", joining(outerKind), "L", "", "a=x-null@1000000", ""},
		{"outer join, right", joining(outerKind), "R", "", "a=null-x@1000000", ""},
	} {
		for disk, opts := range map[string][]milltest.Option{"in memory": nil, "on disk": {milltest.OnDisk()}} {
			t.Run(c.name+" "+disk, func(t *testing.T) {
				b := millrace.NewBuilder()
				read := c.declare(b)
				d := milltest.New(t, build(t, b), append(opts, milltest.StartAt(time.UnixMilli(1_000_000)))...)
				out := read(d)
				pipe(t, d, c.topic, "a=x@1000000")
				wantText(t, "the record", out(), c.first)
				d.AdvanceTime(gap - time.Second)
				wantText(t, "not idle yet", out(), "")
				d.AdvanceTime(21 * time.Second)
				wantText(t, "idle", out(), c.closed)
				d.AdvanceTime(21 * time.Second)
				wantText(t, "still idle", out(), "")
				restart(t, d)
				wantText(t, "after a restart", out(), "")
				d.AdvanceTime(time.Minute)
				wantText(t, "after a restart, idle", out(), "")
				pipe(t, d, c.topic, "a=x@1000001")
				wantText(t, "a late record", out(), "")
				var dropped int64
				for _, step := range []string{"step", "step-this-windowed", "step-other-windowed"} {
					dropped += d.Dropped(step, millrace.DroppedLate)
				}
				if dropped == 0 {
					t.Error("the late record is not counted")
				}
				pipe(t, d, c.topic, "a=x@1200000")
				wantText(t, "what follows", out(), c.next)
			})
		}
	}
}

// A restart before the time has come forgets how long it was quiet, not what waits.
func TestIdleTimeout_restartWhileItIsQuiet(t *testing.T) {
	for disk, opts := range map[string][]milltest.Option{"in memory": nil, "on disk": {milltest.OnDisk()}} {
		t.Run(disk, func(t *testing.T) {
			b := millrace.NewBuilder()
			w := window.Tumbling(10 * time.Second)
			counts, _ := millrace.CountWindows(millrace.From(b, strTopic, millrace.IdleTimeout(time.Minute)).GroupByKey().WindowBy(w), millrace.As("step"), millrace.EmitOnClose())
			outTopic := millrace.NewTopic("out", serde.WindowedBy(serde.String, w), serde.Int64)
			counts.ToStream().To(outTopic)
			d := milltest.New(t, build(t, b), append(opts, milltest.StartAt(time.UnixMilli(1_000_000)))...)
			out := reader(d, outTopic)
			pipe(t, d, "in", "a=x@1000000")
			d.AdvanceTime(50 * time.Second)
			restart(t, d)
			d.AdvanceTime(50 * time.Second)
			wantText(t, "after a restart", out(), "")
			d.AdvanceTime(11 * time.Second)
			wantText(t, "idle", out(), "a[1000000,1010000)=1@1000000")
		})
	}
}
