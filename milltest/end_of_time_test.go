package milltest_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// pipeAtMs writes a record of any timestamp.
func pipeAtMs(t *testing.T, d *milltest.Driver, value string, tsMs int64) {
	t.Helper()
	if err := milltest.Input(d, strTopic).TryPipe(processor.Record[string, string]{Key: "a", Value: value, TimestampMs: tsMs}); err != nil {
		t.Fatal(err)
	}
}

// A record with the last timestamp that there is closes whatever is open, and what has come before it comes out.
func TestEndOfTime_onClose(t *testing.T) {
	for _, c := range []struct {
		w    window.Windows
		want string
	}{
		{window.Tumbling(10 * ms).Grace(5 * ms), "a[0,10)=1@5"},
		{window.Hopping(10*ms, 5*ms), "a[0,10)=1@5 a[5,15)=1@5"},
		{window.Sliding(5 * ms).Grace(5 * ms), "a[0,5)=1@5"},
		{window.Days(time.UTC), "a[0,86400000)=1@5"},
	} {
		t.Run(fmt.Sprint(c.w), func(t *testing.T) {
			everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
				d, out, _ := countIn(t, c.w, onClose(stepOpts), opts...)
				pipeAtMs(t, d, "x", 5)
				pipeAtMs(t, d, "x", math.MaxInt64)
				wantText(t, "closed", out(), c.want)
			})
		})
	}
	t.Run("sessions", func(t *testing.T) {
		everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
			b := millrace.NewBuilder()
			counts, _ := millrace.CountSessions(millrace.From(b, strTopic).GroupByKey().SessionBy(window.Session(5*ms)), append(onClose(stepOpts), millrace.As("counts"))...)
			outTopic := millrace.NewTopic("out", serde.SessionWindowed(serde.String), serde.Int64)
			counts.ToStream().To(outTopic)
			d := milltest.New(t, build(t, b), opts...)
			out := sessionReader(d, outTopic)
			pipeAtMs(t, d, "x", 5)
			pipeAtMs(t, d, "x", 8)
			pipeAtMs(t, d, "x", math.MaxInt64-10)
			wantText(t, "closed", out(), "a[5,8]=2@8")
			pipeAtMs(t, d, "x", math.MaxInt64)
			wantText(t, "closed", out(), "a[9223372036854775797,9223372036854775797]=1@9223372036854775797")
		})
	})
}

// Records of one last timestamp are of one sliding window.
func TestEndOfTime_sliding(t *testing.T) {
	everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
		d, out, _ := countIn(t, window.Sliding(5*ms), stepOpts, opts...)
		pipeAtMs(t, d, "x", math.MaxInt64)
		pipeAtMs(t, d, "x", math.MaxInt64)
		wantText(t, "counts", out(), "a[9223372036854775802,9223372036854775807)=1@9223372036854775807 a[9223372036854775802,9223372036854775807)=2@9223372036854775807")
	})
}

// There is no beat behind the end of time: a timer of stream time has its last one there.
func TestEndOfTime_timers(t *testing.T) {
	for _, start := range []time.Time{{}, time.UnixMilli(0), time.UnixMilli(7)} {
		var log []string
		b := millrace.NewBuilder()
		millrace.Process[string, string, string, string](millrace.From(b, strTopic), func() *beats {
			return &beats{start: start.UnixMilli(), interval: 10, kind: processor.StreamTime, log: &log}
		})
		d := milltest.New(t, build(t, b))
		for _, tsMs := range []int64{0, 27, math.MaxInt64, math.MaxInt64, 5} {
			pipeAtMs(t, d, "x", tsMs)
		}
		want := "[r0 r27 fire@27 r9223372036854775807 fire@9223372036854775807 r9223372036854775807 r5]"
		if start.UnixMilli() <= 0 {
			want = "[r0 fire@0 r27 fire@27 r9223372036854775807 fire@9223372036854775807 r9223372036854775807 r5]"
		}
		wantText(t, fmt.Sprint("from ", start), fmt.Sprint(log), want)
	}
}
