package window

import (
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones are there on every machine

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// windowsFor lists the windows of a timestamp as pairs of start and end.
func windowsFor(t Time, tsMs int64) [][2]int64 {
	var out [][2]int64
	for _, w := range t.AppendWindows(nil, tsMs) {
		out = append(out, [2]int64{w.StartMs, w.EndMs})
	}
	return out
}

type assignment struct {
	tsMs int64
	want [][2]int64
}

func checkAssignments(t *testing.T, w Time, cases []assignment) {
	t.Helper()
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if got := windowsFor(w, c.tsMs); !slices.Equal(got, c.want) {
			t.Errorf("%v: windows of %d are %v, want %v", w, c.tsMs, got, c.want)
		}
	}
}

func TestC001_hoppingAdvanceDoesNotDivideSize(t *testing.T) {
	checkAssignments(t, Hopping(10*ms, 4*ms), []assignment{
		{0, [][2]int64{{0, 10}}},
		{3, [][2]int64{{0, 10}}},
		{9, [][2]int64{{0, 10}, {4, 14}, {8, 18}}},
		{11, [][2]int64{{4, 14}, {8, 18}}},
	})
}

func TestC003_noWindowsWithNegativeStart(t *testing.T) {
	checkAssignments(t, Hopping(30*ms, 10*ms).Grace(1000*ms), []assignment{
		{5, [][2]int64{{0, 30}}},
		{25, [][2]int64{{0, 30}, {10, 40}, {20, 50}}},
		{0, [][2]int64{{0, 30}}},
		{-1, nil},
		{math.MinInt64, nil},
	})
}

// A process reads its time zone once at its start, so the case runs in two processes.
func TestC006_dayWindowIsUTCDay(t *testing.T) {
	if os.Getenv("MILLRACE_WINDOW_TEST_CHILD") == "" {
		for _, zone := range []string{"UTC", "Europe/Copenhagen", "Pacific/Kiritimati"} {
			cmd := exec.Command(os.Args[0], "-test.run=^TestC006_dayWindowIsUTCDay$", "-test.v")
			cmd.Env = append(os.Environ(), "MILLRACE_WINDOW_TEST_CHILD=1", "TZ="+zone)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestC006") {
				t.Errorf("TZ=%s: %v\n%s", zone, err, out)
			}
		}
		return
	}
	day := Tumbling(24 * time.Hour)
	for _, c := range []struct{ at, start, end string }{
		{"2024-07-14T22:30:00Z", "2024-07-14T00:00:00Z", "2024-07-15T00:00:00Z"},
		{"2024-07-15T00:30:00Z", "2024-07-15T00:00:00Z", "2024-07-16T00:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if _, offset := at.Local().Zone(); (offset == 0) != (os.Getenv("TZ") == "UTC") {
			t.Fatalf("TZ=%s has no effect: offset %d s", os.Getenv("TZ"), offset)
		}
		ws := day.AppendWindows(nil, at.Local().UnixMilli())
		if len(ws) != 1 {
			t.Fatalf("%s: %d windows", c.at, len(ws))
		}
		if start, end := ws[0].Start().Format(time.RFC3339), ws[0].End().Format(time.RFC3339); start != c.start || end != c.end {
			t.Errorf("%s: window %s..%s, want %s..%s", c.at, start, end, c.start, c.end)
		}
	}
}

// The arithmetic of the case: tumbling 10, grace 5, each record first advances the observed time.
func TestC008_graceBoundary(t *testing.T) {
	w := Tumbling(10 * ms).Grace(5 * ms)
	observedMs := int64(-1)
	for i, c := range []struct {
		tsMs     int64
		accepted bool
	}{
		{2, true}, {14, true}, {3, true}, {15, true}, {4, false}, {12, true},
	} {
		observedMs = max(observedMs, c.tsMs)
		ws := w.AppendWindows(nil, c.tsMs)
		if len(ws) != 1 {
			t.Fatalf("record %d: %d windows", i, len(ws))
		}
		if accepted := ws[0].EndMs > w.CloseTimeMs(observedMs); accepted != c.accepted {
			t.Errorf("record %d at %d, observed time %d: accepted %v, want %v", i, c.tsMs, observedMs, accepted, c.accepted)
		}
	}
}

func TestC125_retentionAndHopBounds(t *testing.T) {
	w := Tumbling(60 * ms).Grace(60 * ms)
	err := w.CheckRetentionMs(100)
	if err == nil {
		t.Fatal("a retention of 100 ms was accepted for size 60 and grace 60")
	}
	for _, part := range []string{"retention 100ms", "size 60ms", "grace 60ms", "120ms"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
	if err := w.CheckRetentionMs(120); err != nil {
		t.Errorf("size plus grace itself: %v", err)
	}
	long := Tumbling(72 * time.Hour).Grace(48 * time.Hour)
	if err := long.Validate(); err != nil {
		t.Errorf("three days and two days of grace: %v", err)
	}
	if got, want := long.RetentionMs(), int64(120*3600*1000); got != want {
		t.Errorf("default retention %d, want %d", got, want)
	}
	if err := Hopping(5*ms, 6*ms).Validate(); err == nil {
		t.Error("a hop of 6 was accepted on size 5")
	}
}

func TestTime_Validate(t *testing.T) {
	for _, c := range []struct {
		name string
		w    Time
		want string // a part of the error; empty: valid
	}{
		{"zero value", Time{}, "window.Tumbling"},
		{"zero value with grace", Time{}.Grace(time.Second), "size 0s"},
		{"no size", Tumbling(0), "window.Tumbling"},
		{"negative size", Tumbling(-time.Second), "size -1s"},
		{"below a millisecond", Tumbling(999 * time.Microsecond), "size 999µs is not a whole number of milliseconds"},
		{"part below a millisecond", Tumbling(1500 * time.Microsecond), "size 1.5ms is not"},
		{"largest duration", Tumbling(math.MaxInt64), "whole number"},
		{"no advance", Hopping(time.Second, 0), "advance 0s"},
		{"negative advance", Hopping(time.Second, -ms), "advance -1ms"},
		{"advance above size", Hopping(5*ms, 6*ms), "advance 6ms is above the size 5ms"},
		{"advance with a rest", Hopping(time.Second, 1500*time.Microsecond), "advance 1.5ms"},
		{"negative grace", Tumbling(time.Second).Grace(-ms), "grace -1ms"},
		{"grace with a rest", Tumbling(time.Second).Grace(time.Nanosecond), "grace 1ns"},
		{"the first fault is named", Tumbling(time.Nanosecond).Grace(time.Nanosecond), "size 1ns"},
		{"smallest", Tumbling(ms), ""},
		{"largest", Tumbling(math.MaxInt64 / ms * ms).Grace(math.MaxInt64 / ms * ms), ""},
		{"hop equal to size", Hopping(5*ms, 5*ms), ""},
		{"hopping with grace", Hopping(10*ms, 4*ms).Grace(time.Hour), ""},
	} {
		err := c.w.Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && err == nil:
			t.Errorf("%s: accepted", c.name)
		case c.want != "" && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %q does not say %q", c.name, err, c.want)
		}
	}
}

// The starts were taken from TimeWindows#windowsFor of Kafka Streams 4.4.0.
func TestTime_startsAsInKafkaStreams(t *testing.T) {
	for _, c := range []struct {
		size, advance time.Duration
		tsMs          int64
		want          []int64
	}{
		{10 * ms, 10 * ms, 9, []int64{0}},
		{10 * ms, 10 * ms, 10, []int64{10}},
		{24 * time.Hour, 24 * time.Hour, 1720996200000, []int64{1720915200000}},
		{24 * time.Hour, 24 * time.Hour, 1721003400000, []int64{1721001600000}},
		{7 * ms, 3 * ms, 20, []int64{15, 18}},
		{5 * ms, 5 * ms, 4, []int64{0}},
		{1 * ms, 1 * ms, 0, []int64{0}},
		{100 * ms, 7 * ms, 1784074200001, []int64{
			1784074199908, 1784074199915, 1784074199922, 1784074199929, 1784074199936, 1784074199943, 1784074199950,
			1784074199957, 1784074199964, 1784074199971, 1784074199978, 1784074199985, 1784074199992, 1784074199999}},
	} {
		var got []int64
		for _, w := range Hopping(c.size, c.advance).AppendWindows(nil, c.tsMs) {
			got = append(got, w.StartMs)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("size %v advance %v at %d: starts %v, want %v", c.size, c.advance, c.tsMs, got, c.want)
		}
	}
}

func TestTime_AppendWindows_endOfTime(t *testing.T) {
	w := Hopping(10*ms, 4*ms)
	ws := w.AppendWindows(nil, math.MaxInt64)
	if len(ws) == 0 || int64(len(ws)) > w.MaxWindows() {
		t.Fatalf("%d windows", len(ws))
	}
	for _, x := range ws {
		if x.EndMs != math.MaxInt64 || x.StartMs%4 != 0 || x.StartMs < math.MaxInt64-10 {
			t.Errorf("window %+v", x)
		}
	}
}

func TestTime_invalidHasNoWindows(t *testing.T) {
	for _, w := range []Time{{}, Hopping(5*ms, 6*ms), Hopping(5*ms, 0), Tumbling(-ms)} {
		if ws := w.AppendWindows(nil, 100); ws != nil {
			t.Errorf("%v: %v", w, ws)
		}
	}
}

func TestTime_AppendWindows_doesNotAllocate(t *testing.T) {
	w := Hopping(10*ms, 4*ms)
	dst := make([]Window, 0, w.MaxWindows())
	if n := testing.AllocsPerRun(100, func() { dst = w.AppendWindows(dst[:0], 1234567) }); n != 0 {
		t.Errorf("%v allocations for each call", n)
	}
}

// Against the definition: a record belongs to every window of the grid, from the epoch on, that holds its timestamp.
func TestTime_AppendWindows_model(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizeMs := rapid.Int64Range(1, 200).Draw(t, "size")
		advanceMs := rapid.Int64Range(1, sizeMs).Draw(t, "advance")
		tsMs := rapid.Int64Range(-50, 2000).Draw(t, "ts")
		w := Hopping(time.Duration(sizeMs)*ms, time.Duration(advanceMs)*ms)
		if err := w.Validate(); err != nil {
			t.Fatal(err)
		}
		var want [][2]int64
		for start := int64(0); start <= tsMs; start += advanceMs {
			if tsMs < start+sizeMs {
				want = append(want, [2]int64{start, start + sizeMs})
			}
		}
		got := windowsFor(w, tsMs)
		if !slices.Equal(got, want) {
			t.Fatalf("%v at %d: %v, want %v", w, tsMs, got, want)
		}
		if int64(len(got)) > w.MaxWindows() {
			t.Fatalf("%v at %d: %d windows, MaxWindows says %d", w, tsMs, len(got), w.MaxWindows())
		}
	})
}

func TestTime_CloseTimeMs(t *testing.T) {
	w := Tumbling(10 * ms).Grace(5 * ms)
	for _, c := range []struct{ observed, want int64 }{
		{14, 9}, {15, 10}, {0, -5}, {-1, -6}, {math.MinInt64, math.MinInt64}, {math.MaxInt64, math.MaxInt64 - 5},
	} {
		if got := w.CloseTimeMs(c.observed); got != c.want {
			t.Errorf("CloseTimeMs(%d) = %d, want %d", c.observed, got, c.want)
		}
	}
}

func TestTime_accessors(t *testing.T) {
	w := Hopping(time.Minute, 20*time.Second).Grace(10 * time.Second)
	if w.SizeMs() != 60000 || w.AdvanceMs() != 20000 || w.GraceMs() != 10000 || w.RetentionMs() != 70000 || w.MaxWindows() != 3 {
		t.Errorf("size %d advance %d grace %d retention %d windows %d",
			w.SizeMs(), w.AdvanceMs(), w.GraceMs(), w.RetentionMs(), w.MaxWindows())
	}
	if w.Size() != time.Minute || w.Advance() != 20*time.Second || w.GracePeriod() != 10*time.Second {
		t.Errorf("size %v advance %v grace %v", w.Size(), w.Advance(), w.GracePeriod())
	}
	if got, want := w.String(), "hopping 1m0s every 20s, grace 10s"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	if got, want := Tumbling(time.Minute).String(), "tumbling 1m0s, grace 0s"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	if got := Tumbling(10 * ms).WindowAt(20); got != (Window{StartMs: 20, EndMs: 30}) {
		t.Errorf("WindowAt(20) = %v", got)
	}
}
