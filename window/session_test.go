package window

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestSession_Validate(t *testing.T) {
	for _, c := range []struct {
		name string
		w    SessionWindows
		want string // a part of the error; empty: valid
	}{
		{"zero value", SessionWindows{}, "window.Session"},
		{"zero value with grace", SessionWindows{}.Grace(time.Second), "gap of 0s"},
		{"no gap", Session(0), "window.Session"},
		{"negative gap", Session(-time.Second), "gap of -1s"},
		{"gap below a millisecond", Session(999 * time.Microsecond), "gap 999µs is not a whole number of milliseconds"},
		{"grace with a part below a millisecond", Session(ms).Grace(1500 * time.Microsecond), "grace 1.5ms is not"},
		{"negative grace", Session(ms).Grace(-ms), "grace -1ms"},
		{"least", Session(ms), ""},
		{"gap and grace", Session(5 * time.Minute).Grace(72 * time.Hour), ""},
	} {
		err := c.w.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", c.name, err, c.want)
		}
	}
}

func TestSession_times(t *testing.T) {
	w := Session(5 * ms).Grace(3 * ms)
	if got := w.RetentionMs(); got != 8 {
		t.Errorf("retention %d, want 8", got)
	}
	if got := w.CloseTimeMs(20); got != 12 {
		t.Errorf("close time %d, want 12", got)
	}
	if got := w.CloseTimeMs(math.MinInt64 + 2); got != math.MinInt64 {
		t.Errorf("close time %d before all time", got)
	}
	if w.Gap() != 5*ms || w.GracePeriod() != 3*ms || w.GapMs() != 5 || w.GraceMs() != 3 {
		t.Errorf("%v", w)
	}
	if got := w.String(); got != "sessions with gap 5ms, grace 3ms" {
		t.Errorf("%q", got)
	}
}

func TestC125_retentionOfSessions(t *testing.T) {
	w := Session(60 * ms).Grace(60 * ms)
	err := w.CheckRetentionMs(100)
	if err == nil {
		t.Fatal("a retention of 100 ms was accepted for gap 60 and grace 60")
	}
	for _, part := range []string{"retention 100ms", "gap 60ms", "grace 60ms", "120ms"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
	if err := w.CheckRetentionMs(120); err != nil {
		t.Errorf("gap plus grace itself: %v", err)
	}
}
