package milltest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
)

// hourly writes a line each time that an hour of stream time has passed.
type hourly struct {
	ctx processor.Context[string, string]
}

func (p *hourly) Init(ctx processor.Context[string, string]) error {
	p.ctx = ctx
	_, err := ctx.Schedule(time.Hour, processor.StreamTime, func(at time.Time) error {
		return ctx.Forward(processor.Record[string, string]{Key: "hour", Value: fmt.Sprint(at.Sub(start)), TimestampMs: at.UnixMilli()})
	})
	return err
}

func (p *hourly) Process(processor.Record[string, string]) error { return nil }
func (p *hourly) Close() error                                   { return nil }

var start = time.Date(2026, 7, 14, 0, 0, 0, 0, time.UTC)

func TestIdleTimeout_timersOfStreamTimeFire(t *testing.T) {
	b := millrace.NewBuilder()
	in := millrace.From(b, strTopic, millrace.IdleTimeout(10*time.Minute))
	millrace.Process[string, string, string, string](in, func() *hourly { return &hourly{} }).To(millrace.NewTopic("out", strTopic.Key(), strTopic.Value()))
	d := milltest.New(t, build(t, b), milltest.StartAt(start))
	out := milltest.Output(d, millrace.NewTopic("out", strTopic.Key(), strTopic.Value()))
	milltest.Input(d, strTopic).PipeRecord(processor.Record[string, string]{Key: "k", Value: "v", TimestampMs: start.UnixMilli()})
	out.ReadAll()
	d.AdvanceTime(59 * time.Minute)
	if got := out.ReadValues(); len(got) != 0 {
		t.Fatalf("before the hour: %q", got)
	}
	d.AdvanceTime(62 * time.Minute)
	if got := fmt.Sprint(out.ReadValues()); got != "[1h0m0s 2h0m0s]" {
		t.Errorf("got %s", got)
	}
	if at, ok := d.StreamTime(0, 0); !ok || at.Sub(start) != 121*time.Minute {
		t.Errorf("stream time is %v", at.Sub(start))
	}
}

func TestIdleTimeout_isCheckedWhenBuilt(t *testing.T) {
	b := millrace.NewBuilder()
	millrace.From(b, strTopic, millrace.IdleTimeout(0)).Peek(func(string, string) {})
	if _, err := b.Build(); err == nil {
		t.Error("an idle timeout of 0 is accepted")
	}
	b = millrace.NewBuilder()
	millrace.From(b, strTopic, millrace.IdleTimeout(time.Minute)).Peek(func(string, string) {})
	millrace.From(b, strTopic, millrace.IdleTimeout(time.Hour)).Peek(func(string, string) {})
	if _, err := b.Build(); err == nil {
		t.Error("two timeouts of one topic are accepted")
	}
}
