package window

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestJoinWindows_Validate(t *testing.T) {
	for _, c := range []struct {
		name string
		w    JoinWindows
		want string // a part of the error; empty: valid
	}{
		{"zero value", JoinWindows{}, "window.Within"},
		{"zero value with a side", JoinWindows{}.Before(ms), "window.Within"},
		{"equal timestamps", Within(0), ""},
		{"symmetric", Within(time.Minute).Grace(time.Hour), ""},
		{"negative difference", Within(-ms), "together are negative"},
		{"only later ones", Within(0).Before(-5 * ms).After(10 * ms), ""},
		{"only earlier ones", Within(0).Before(10 * ms).After(-10 * ms), ""},
		{"none", Within(0).Before(-11 * ms).After(10 * ms), "before -11ms and after 10ms"},
		{"negative grace", Within(ms).Grace(-ms), "grace -1ms"},
		{"a part below a millisecond", Within(1500 * time.Microsecond), "difference 1.5ms"},
		{"before", Within(ms).Before(time.Nanosecond), "before 1ns"},
		{"after", Within(ms).After(time.Nanosecond), "after 1ns"},
		{"grace", Within(ms).Grace(time.Microsecond), "grace 1µs"},
		{"largest", Within(math.MaxInt64 / ms * ms).Grace(math.MaxInt64 / ms * ms), ""},
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

func TestJoinWindows_sizes(t *testing.T) {
	w := Within(10 * time.Second).Before(0).Grace(time.Minute)
	if w.BeforeMs() != 0 || w.AfterMs() != 10_000 || w.GraceMs() != 60_000 || w.SizeMs() != 10_000 || w.RetentionMs() != 70_000 {
		t.Errorf("%v: size %d, retention %d", w, w.SizeMs(), w.RetentionMs())
	}
	if got, want := w.String(), "within 0s before and 10s after, grace 1m0s"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	err := w.CheckRetentionMs(69_999)
	if err == nil {
		t.Fatal("a retention of 69,999 ms was accepted")
	}
	for _, part := range []string{"retention 69999ms", "before 0s", "after 10s", "grace 1m0s", "70000ms"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
	if err := w.CheckRetentionMs(70_000); err != nil {
		t.Error(err)
	}
}
