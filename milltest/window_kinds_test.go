package milltest_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones are there on every machine

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

func TestUnlimitedWindow(t *testing.T) {
	everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
		d, out, late := countIn(t, window.Unlimited().StartingAt(time.UnixMilli(5)), stepOpts, opts...)
		const end = "9223372036854775807)"
		steps{
			{"in", "k=a@4", ""}, // before the start
			{"in", "k=a@5", "k[5," + end + "=1@5"},
			{"in", "k=~@900000000", "k[5," + end + "=2@900000000"},
			{"in", "k=a@6", "k[5," + end + "=3@900000000"}, // never late
		}.run(t, d, out)
		wantDropped(t, d, "counts", millrace.DroppedNoWindow, 1)
		wantText(t, "late", late(), "")
	})
}

// The end of a day is not on the wire and not the same for all: whoever reads it asks the windows.
func TestCalendarDays(t *testing.T) {
	loc, err := time.LoadLocation("Europe/Copenhagen")
	if err != nil {
		t.Fatal(err)
	}
	days := window.Days(loc).Grace(time.Hour)
	everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
		b := millrace.NewBuilder()
		counts, _ := millrace.CountWindows(millrace.From(b, strTopic).GroupByKey().WindowBy(days), append(stepOpts, millrace.As("counts"), millrace.EmitOnClose())...)
		counts.ToStream().To(millrace.NewTopic("out", serde.Windowed(serde.String, 0), serde.Int64)) // learns the windows from the step
		d := milltest.New(t, build(t, b), opts...)
		in := milltest.Input(d, strTopic)
		out := milltest.Output(d, millrace.NewTopic("out", serde.WindowedBy(serde.String, days), serde.Int64))
		for _, at := range []string{"2024-03-30T23:59:59", "2024-03-31T00:00:00", "2024-03-31T23:59:59", "2024-04-01T00:59:59", "2024-03-31T12:00:00", "2024-04-01T01:00:00", "2024-04-02T01:00:00"} {
			moment, err := time.ParseInLocation("2006-01-02T15:04:05", at, loc)
			if err != nil {
				t.Fatal(err)
			}
			in.PipeAt("till", "sale", time.Duration(moment.UnixMilli())*ms)
		}
		var got []string
		for _, r := range out.ReadAll() {
			w := r.Key.Window
			got = append(got, fmt.Sprintf("%s..%s=%d", w.Start().In(loc).Format(time.RFC3339), w.End().In(loc).Format(time.RFC3339), r.Value))
		}
		wantText(t, "days", strings.Join(got, " "), "2024-03-30T00:00:00+01:00..2024-03-31T00:00:00+01:00=1 "+
			"2024-03-31T00:00:00+01:00..2024-04-01T00:00:00+02:00=3 2024-04-01T00:00:00+02:00..2024-04-02T00:00:00+02:00=2")
	})
}

// shifts are windows of one's own: two shifts a day of ten hours, and nobody there in between.
type shifts struct {
	answer func(tsMs int64) []window.Window // nil: right ones
}

const hourMs = 3600 * 1000

func (shifts) Validate() error    { return nil }
func (shifts) GraceMs() int64     { return 0 }
func (shifts) RetentionMs() int64 { return 10 * hourMs }
func (shifts) WindowAt(startMs int64) window.Window {
	return window.Window{StartMs: startMs, EndMs: startMs + 10*hourMs}
}
func (s shifts) AppendWindows(dst []window.Window, tsMs int64) []window.Window {
	if s.answer != nil {
		return append(dst, s.answer(tsMs)...)
	}
	w := s.WindowAt(tsMs / (12 * hourMs) * 12 * hourMs)
	if tsMs >= w.EndMs {
		return dst
	}
	return append(dst, w)
}

func TestWindowsOfOnesOwn(t *testing.T) {
	everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
		d, out, _ := countIn(t, shifts{}, stepOpts, opts...)
		steps{
			{"in", "k=a@3600000", "k[0,36000000)=1@3600000"},
			{"in", "k=a@36000000", ""}, // between the shifts; the first has closed
			{"in", "k=a@7200000", ""},
			{"in", "k=a@43200000", "k[43200000,79200000)=1@43200000"},
		}.run(t, d, out)
		wantDropped(t, d, "counts", millrace.DroppedNoWindow, 1)
		wantDropped(t, d, "counts", millrace.DroppedLate, 1)

		d, out, _ = countIn(t, shifts{}, onClose(stepOpts), opts...)
		steps{
			{"in", "b=a@3600000", ""},
			{"in", "a=a@3600001", ""},
			{"in", "k=a@36000000", "a[0,36000000)=1@3600001 b[0,36000000)=1@3600000"},
			{"in", "k=a@43200000", ""},
			{"in", "k=a@900000000", "k[43200000,79200000)=1@43200000"},
		}.run(t, d, out)
	})
}

func TestWindowsOfOnesOwn_wrongOnes(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer []window.Window
		want   string
	}{
		{"negative start", []window.Window{{StartMs: -5, EndMs: 20}}, "[-5, 20) starts before the Unix epoch"},
		{"not in order", []window.Window{{StartMs: 5, EndMs: 36000005}, {StartMs: 0, EndMs: 36000000}}, "[0, 36000000) comes behind [5, 36000005)"},
		{"empty", []window.Window{{StartMs: 7, EndMs: 7}}, "ends at or before its start"},
		{"elsewhere", []window.Window{{StartMs: 100, EndMs: 36000100}}, "does not hold the timestamp 7"},
		{"another end", []window.Window{{StartMs: 0, EndMs: 20}}, "WindowAt(0)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _, _ := countIn(t, shifts{answer: func(int64) []window.Window { return c.answer }}, nil)
			err := tryPipe(d, "in", "k=a@7")
			for _, part := range []string{c.want, "step counts", "in-0@0", "milltest_test.shifts"} {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
		})
	}
	t.Run("the policy passes over it", func(t *testing.T) {
		bad := shifts{answer: func(int64) []window.Window { panic("no") }}
		d, out, _ := countIn(t, bad, nil, milltest.OnProcessingError(func(processor.Failure) processor.Response { return processor.Response{Action: processor.Continue} }))
		pipe(t, d, "in", "k=a@7")
		wantText(t, "out", out(), "")
		wantDropped(t, d, "counts", millrace.DroppedProcessing, 1)
	})
}

// halfway has neither AppendWindows nor the type of sliding windows.
type halfway struct{ window.SlidingWindows }

type faulty struct{ shifts }

func (faulty) Validate() error { return errors.New("the shifts are not known yet") }

func TestWindows_buildErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		w    window.Windows
		opts []millrace.StepOption
		want []string
	}{
		{"none", nil, nil, []string{"no windows"}},
		{"advance above size", window.Hopping(5*ms, 6*ms), nil, []string{"advance 6ms is above the size 5ms"}},
		{"negative grace", window.Tumbling(5 * ms).Grace(-ms), nil, []string{"grace -1ms"}},
		{"negative difference", window.Sliding(-ms), nil, []string{"difference -1ms"}},
		{"zero value", window.SlidingWindows{}, nil, []string{"window.Sliding"}},
		{"no zone", window.Days(nil), nil, []string{"time zone"}},
		{"their own fault", faulty{}, nil, []string{"the shifts are not known yet"}},
		{"neither kind", halfway{window.Sliding(ms)}, nil, []string{"milltest_test.halfway", "AppendWindows"}},
		{"unlimited on close", window.Unlimited(), []millrace.StepOption{millrace.EmitOnClose()}, []string{"never closes"}},
		{"sliding, short retention", window.Sliding(60 * ms).Grace(60 * ms), []millrace.StepOption{millrace.Retain(179 * ms)}, []string{"179ms", "60ms", "180ms"}},
		{"days, short retention", window.Days(time.UTC).Grace(time.Hour), []millrace.StepOption{millrace.Retain(24 * time.Hour)}, []string{"86400000ms", "24h0m0s", "1h0m0s"}},
		{"unlimited, any retention", window.Unlimited(), []millrace.StepOption{millrace.Retain(24 * time.Hour)}, []string{"retention 24h0m0s", "unlimited"}},
		{"their own, short retention", shifts{}, []millrace.StepOption{millrace.Retain(time.Hour)}, []string{"retention 1h0m0s", "36000000ms"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := millrace.NewBuilder()
			millrace.CountWindows(millrace.From(b, strTopic).GroupByKey().WindowBy(c.w), append(c.opts, millrace.As("c"))...)
			_, err := b.Build()
			if err == nil {
				t.Fatal("it was built")
			}
			for _, part := range append(c.want, "window_kinds_test.go") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
		})
	}
}

func TestEmitOnClose_orderHeadersAndRestart(t *testing.T) {
	for name, w := range map[string]window.Windows{
		"tumbling": window.Tumbling(10 * ms).Grace(5 * ms), "own": tens{}, // the same windows by way of the general kind
	} {
		t.Run(name, func(t *testing.T) {
			everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
				if strings.Contains(t.Name(), "without_a_changelog") {
					return
				}
				d, out, _ := countIn(t, w, onClose(stepOpts), append(opts, milltest.ManualCommit())...)
				steps{
					{"in", "b=x@1", ""}, {"in", "a=x@2", ""}, {"in", "b=x@12", ""}, {"in", "aa=x@3", ""},
				}.run(t, d, out)
				d.Commit()
				restart(t, d)
				wantText(t, "after a clean stop", out(), "")
				const first = "a[0,10)=1@2 aa[0,10)=1@3 b[0,10)=1@1"
				steps{{"in", "z=x@15", first}}.run(t, d, out)
				// A crash: the record is taken again, and with it the windows leave again.
				restart(t, d)
				wantText(t, "after a crash", out(), first)
				d.Commit()
				restart(t, d)
				steps{
					{"in", "z=x@16", ""},
					{"in", "b=x@4", ""},                             // late: it is closed for good
					{"in", "z=x@25", "b[10,20)=1@12 z[10,20)=3@16"}, // at least once: z@15 counts twice
				}.run(t, d, out)
				wantDropped(t, d, "counts", millrace.DroppedLate, 1)
			})
		})
	}
}

// tens are tumbling windows of ten milliseconds with a grace of five, of one's own.
type tens struct{}

func (tens) Validate() error    { return nil }
func (tens) GraceMs() int64     { return 5 }
func (tens) RetentionMs() int64 { return 15 }
func (tens) WindowAt(startMs int64) window.Window {
	return window.Window{StartMs: startMs, EndMs: startMs + 10}
}
func (s tens) AppendWindows(dst []window.Window, tsMs int64) []window.Window {
	return append(dst, s.WindowAt(tsMs/10*10))
}

// The window carries the headers of the record that closes it.
func TestEmitOnClose_headers(t *testing.T) {
	d, _, _ := countIn(t, window.Tumbling(10*ms), onClose(nil))
	for i, at := range []time.Duration{1 * ms, 10 * ms} {
		if err := d.PipeRaw("in", 0, []byte("k"), []byte("v"), serde.Headers{{Key: "h", Value: []byte{byte('1' + i)}}}, at); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, r := range d.ReadRaw("out") {
		got = append(got, hex.EncodeToString(r.Key)+fmt.Sprintf(" %s %s", r.Headers[0].Key, r.Headers[0].Value))
	}
	wantText(t, "out", strings.Join(got, ";"), "6b0000000000000000 h 2")
}

func TestEmitOnClose_slidingAfterARestart(t *testing.T) {
	everyStore(t, func(t *testing.T, stepOpts []millrace.StepOption, opts ...milltest.Option) {
		if strings.Contains(t.Name(), "without_a_changelog") {
			return
		}
		d, out, _ := countIn(t, window.Sliding(10*ms).Grace(5*ms), onClose(stepOpts), opts...)
		steps{
			{"in", "b=x@20", ""}, {"in", "a=x@20", ""}, {"in", "a=x@25", ""},
			{"in", "z=x@26", "a[10,20)=1@20 b[10,20)=1@20"},
		}.run(t, d, out)
		restart(t, d)
		steps{
			{"in", "z=x@27", ""},
			{"in", "z=x@31", "a[15,25)=2@25"},
			{"in", "z=x@1000000", "z[16,26)=1@26 z[17,27)=2@27 a[21,31)=1@25 z[21,31)=3@31 z[27,37)=2@31 z[28,38)=1@31"},
		}.run(t, d, out)
	})
}
