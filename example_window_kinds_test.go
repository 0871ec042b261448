package millrace_test

import (
	"fmt"
	"log"
	"time"
	_ "time/tzdata" // the zones are there on every machine

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Sliding windows find whatever lies close together, wherever it begins: here three failed logins within ten seconds.
func ExampleGrouped_WindowBy_sliding() {
	logins := millrace.NewTopic("failed-logins", serde.String, serde.String)
	alarms := millrace.NewTopic("alarms", serde.Windowed(serde.String, 10*time.Second), serde.Int64)

	b := millrace.NewBuilder()
	near := millrace.From(b, logins).GroupByKey().WindowBy(window.Sliding(10 * time.Second).Grace(time.Minute))
	counts, _ := millrace.CountWindows(near, millrace.As("failures"))
	counts.ToStream().Filter(func(_ window.Key[string], n int64) bool { return n >= 3 }).To(alarms)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, logins)
	in.PipeAt("ada", "wrong password", 57*time.Second)
	in.PipeAt("ada", "wrong password", 62*time.Second) // a minute of its own, and yet close
	in.PipeAt("ada", "wrong password", 66*time.Second)
	in.PipeAt("ada", "wrong password", 90*time.Second)
	for _, r := range milltest.Output(d, alarms).ReadAll() {
		w := r.Key.Window
		fmt.Println(r.Key.Key, w.Start().Format(time.TimeOnly), w.End().Format(time.TimeOnly), r.Value)
	}
	// Output: ada 00:00:56 00:01:06 3
}

// Days of a time zone have the length that they have there: the day on which clocks are set forward has 23 hours.
func ExampleGrouped_WindowBy_days() {
	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		log.Fatal(err)
	}
	days := window.Days(paris)
	sales := millrace.NewTopic("sales", serde.String, serde.Int64)
	perDay := millrace.NewTopic("sales-per-day", serde.WindowedBy(serde.String, days), serde.Int64)

	b := millrace.NewBuilder()
	byShop := millrace.From(b, sales).GroupByKey().WindowBy(days)
	sums, _ := millrace.SumWindows(byShop, func(cents int64) int64 { return cents }, serde.Int64, millrace.As("sales-per-day"))
	sums.ToStream().To(perDay)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, sales)
	for _, at := range []string{"2026-03-28T23:30:00+01:00", "2026-03-29T00:30:00+01:00", "2026-03-29T23:30:00+02:00"} {
		moment, err := time.Parse(time.RFC3339, at)
		if err != nil {
			log.Fatal(err)
		}
		in.PipeAt("rue de Rivoli", 500, time.Duration(moment.UnixMilli())*time.Millisecond)
	}
	for _, r := range milltest.Output(d, perDay).ReadAll() {
		w := r.Key.Window
		fmt.Println(r.Key.Key, w.Start().In(paris).Format(time.DateOnly), w.End().Sub(w.Start()), r.Value)
	}
	// Output:
	// rue de Rivoli 2026-03-28 24h0m0s 500
	// rue de Rivoli 2026-03-29 23h0m0s 500
	// rue de Rivoli 2026-03-29 23h0m0s 1000
}

// One window without an end counts from a moment on.
func ExampleGrouped_WindowBy_unlimited() {
	visits := millrace.NewTopic("visits", serde.String, serde.String)
	since := window.Unlimited().StartingAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	total := millrace.NewTopic("visits-this-year", serde.WindowedBy(serde.String, since), serde.Int64)

	b := millrace.NewBuilder()
	counts, _ := millrace.CountWindows(millrace.From(b, visits).GroupByKey().WindowBy(since), millrace.As("visits-this-year"))
	counts.ToStream().To(total)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, visits)
	for _, day := range []time.Time{
		time.Date(2025, 12, 31, 23, 0, 0, 0, time.UTC), time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		in.PipeAt("museum", "ticket", time.Duration(day.UnixMilli())*time.Millisecond)
	}
	for _, r := range milltest.Output(d, total).ReadAll() {
		fmt.Println(r.Key.Key, r.Key.Window.Start().Format(time.DateOnly), r.Value)
	}
	fmt.Println("before the start:", d.Dropped("visits-this-year", millrace.DroppedNoWindow))
	// Output:
	// museum 2026-01-01 1
	// museum 2026-01-01 2
	// before the start: 1
}

// shiftWindows are windows of one's own: the morning from six to fourteen, the evening until twenty-two, and no night.
type shiftWindows struct{}

func (shiftWindows) Validate() error    { return nil }
func (shiftWindows) GraceMs() int64     { return time.Hour.Milliseconds() }
func (shiftWindows) RetentionMs() int64 { return (9 * time.Hour).Milliseconds() }

func (shiftWindows) WindowAt(startMs int64) window.Window {
	return window.Window{StartMs: startMs, EndMs: startMs + (8 * time.Hour).Milliseconds()}
}

func (s shiftWindows) AppendWindows(dst []window.Window, tsMs int64) []window.Window {
	hour, day := time.Hour.Milliseconds(), 24*time.Hour.Milliseconds()
	midnight := tsMs / day * day
	switch at := (tsMs - midnight) / hour; {
	case at < 6 || at >= 22:
		return dst
	case at < 14:
		return append(dst, s.WindowAt(midnight+6*hour))
	default:
		return append(dst, s.WindowAt(midnight+14*hour))
	}
}

// Whatever can say which windows a record belongs to is a kind of windows.
func ExampleGrouped_WindowBy_ownWindows() {
	parts := millrace.NewTopic("parts", serde.String, serde.String)
	perShift := millrace.NewTopic("parts-per-shift", serde.WindowedBy(serde.String, shiftWindows{}), serde.Int64)

	b := millrace.NewBuilder()
	counts, _ := millrace.CountWindows(millrace.From(b, parts).GroupByKey().WindowBy(shiftWindows{}), millrace.As("parts-per-shift"))
	counts.ToStream().To(perShift)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, parts)
	for _, hour := range []time.Duration{5, 7, 13, 14} {
		in.PipeAt("press 1", "gear", hour*time.Hour)
	}
	for _, r := range milltest.Output(d, perShift).ReadAll() {
		w := r.Key.Window
		fmt.Println(r.Key.Key, w.Start().Format(time.TimeOnly), w.End().Format(time.TimeOnly), r.Value)
	}
	// Output:
	// press 1 06:00:00 14:00:00 1
	// press 1 06:00:00 14:00:00 2
	// press 1 14:00:00 22:00:00 1
}

// With results on close there is one result for each key and window: the final one. Records that come later are in the
// stream of late records.
func ExampleEmitOnClose() {
	taps := millrace.NewTopic("taps", serde.String, serde.String)
	perMinute := millrace.NewTopic("taps-per-minute", serde.Windowed(serde.String, time.Minute), serde.Int64)

	b := millrace.NewBuilder()
	minutes := millrace.From(b, taps).GroupByKey().WindowBy(window.Tumbling(time.Minute).Grace(10 * time.Second))
	counts, _ := millrace.CountWindows(minutes, millrace.As("taps-per-minute"), millrace.EmitOnClose())
	counts.ToStream().To(perMinute)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, taps)
	in.PipeAt("bus 7", "card 1", 5*time.Second)
	in.PipeAt("bus 7", "card 2", 65*time.Second)
	in.PipeAt("bus 7", "card 3", 58*time.Second)
	fmt.Println("within the grace:", len(milltest.Output(d, perMinute).ReadAll()))
	in.PipeAt("bus 9", "card 4", 70*time.Second) // the first minute has ended ten seconds ago: it closes
	for _, r := range milltest.Output(d, perMinute).ReadAll() {
		fmt.Println(r.Key.Key, r.Key.Window.Start().Format(time.TimeOnly), r.Value)
	}
	// Output:
	// within the grace: 0
	// bus 7 00:00:00 2
}

// At night nobody taps, and no record comes to close the last window. With an idle timeout the clock closes it.
func ExampleIdleTimeout() {
	taps := millrace.NewTopic("taps", serde.String, serde.String)
	perMinute := millrace.NewTopic("taps-per-minute", serde.Windowed(serde.String, time.Minute), serde.Int64)

	b := millrace.NewBuilder()
	minutes := millrace.From(b, taps, millrace.IdleTimeout(30*time.Second)).GroupByKey().WindowBy(window.Tumbling(time.Minute))
	counts, _ := millrace.CountWindows(minutes, millrace.As("taps-per-minute"), millrace.EmitOnClose())
	counts.ToStream().To(perMinute)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	night := time.Date(2026, 7, 14, 1, 30, 0, 0, time.UTC)
	d, err := milltest.NewDriver(topology, milltest.StartAt(night))
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	out := milltest.Output(d, perMinute)
	milltest.Input(d, taps).PipeAt("bus 7", "the last card", time.Duration(night.UnixMilli())*time.Millisecond)
	d.AdvanceTime(59 * time.Second)
	fmt.Println("a second before the minute ends:", len(out.ReadAll()))
	d.AdvanceTime(time.Second)
	for _, r := range out.ReadAll() {
		fmt.Println(r.Key.Key, r.Key.Window.Start().Format(time.TimeOnly), r.Value)
	}
	// Output:
	// a second before the minute ends: 0
	// bus 7 01:30:00 1
}
