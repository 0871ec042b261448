package window

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace-io/millrace/internal/millis"
)

// SlidingWindows specifies windows that follow the records: two records of a key share a window if, and only if, their
// timestamps are at most the time difference apart. Windows include both of their ends, [start, start+difference], and only
// those that hold records exist: one that ends at each record, and one that starts a millisecond behind it as soon as
// another record falls into that. Records younger than the difference share the window [0, difference].
//
// A record is late once the observed time minus grace is above its timestamp plus the difference.
//
// The zero SlidingWindows is not valid. Make one with [Sliding].
//
// In Kafka Streams: SlidingWindows.
type SlidingWindows struct {
	diffMs  int64
	graceMs int64
	set     bool
	fault   string
}

// Sliding returns windows of that time difference, with no grace period. The difference is a whole number of milliseconds;
// 0 puts together what has the same timestamp. Each record updates every window of its key that holds it: twice as many as
// there are records of the key within the difference.
//
// In Kafka Streams: SlidingWindows.ofTimeDifferenceWithNoGrace.
func Sliding(difference time.Duration) SlidingWindows {
	s := SlidingWindows{set: true}
	s.diffMs = s.toMs("difference", difference)
	return s
}

// Grace returns the same windows with another grace period.
//
// In Kafka Streams: SlidingWindows.ofTimeDifferenceAndGrace.
func (s SlidingWindows) Grace(d time.Duration) SlidingWindows {
	s.graceMs = s.toMs("grace", d)
	return s
}

func (s *SlidingWindows) toMs(what string, d time.Duration) int64 {
	if d%time.Millisecond != 0 && s.fault == "" {
		s.fault = fmt.Sprintf("%s %v", what, d)
	}
	return d.Milliseconds()
}

// Difference returns the greatest distance of two records in one window.
func (s SlidingWindows) Difference() time.Duration { return time.Duration(s.diffMs) * time.Millisecond }

// DifferenceMs returns it in milliseconds.
func (s SlidingWindows) DifferenceMs() int64 { return s.diffMs }

// GracePeriod returns how long after its end a window still takes records.
func (s SlidingWindows) GracePeriod() time.Duration {
	return time.Duration(s.graceMs) * time.Millisecond
}

// GraceMs returns the grace period in milliseconds.
func (s SlidingWindows) GraceMs() int64 { return s.graceMs }

// RetentionMs returns how long a store keeps a window where nothing else is set, in milliseconds from its start: twice the
// difference, because a record looks for the windows of the one before it, plus grace; and one millisecond for a difference of
// 0, because a window whose end lies back by just the grace is still open.
func (s SlidingWindows) RetentionMs() int64 {
	return millis.Add(max(millis.Add(s.diffMs, s.diffMs), 1), s.graceMs)
}

// Validate tells what is wrong with the specification: neither difference nor grace is negative or has a part below a
// millisecond.
func (s SlidingWindows) Validate() error {
	switch {
	case !s.set:
		return errors.New("window: an empty window.SlidingWindows; make one with window.Sliding")
	case s.fault != "":
		return fmt.Errorf("window: %s is not a whole number of milliseconds, the unit of record timestamps", s.fault)
	case s.diffMs < 0:
		return fmt.Errorf("window: difference %v of sliding windows; it is not negative", s.Difference())
	case s.graceMs < 0:
		return fmt.Errorf("window: grace %v of sliding windows of %v; it is not negative", s.GracePeriod(), s.Difference())
	case s.RetentionMs() == math.MaxInt64:
		return fmt.Errorf("window: difference %v and grace %v are too long to be kept", s.Difference(), s.GracePeriod())
	}
	return nil
}

// CheckRetentionMs tells why a retention, in milliseconds, is too short: see RetentionMs for the least.
func (s SlidingWindows) CheckRetentionMs(retentionMs int64) error {
	if retentionMs >= s.RetentionMs() {
		return nil
	}
	return fmt.Errorf("window: retention %dms is shorter than twice the difference %v plus grace %v; keep windows for at least %dms",
		retentionMs, s.Difference(), s.GracePeriod(), s.RetentionMs())
}

// WindowAt returns the window that starts at startMs. Its end belongs to it.
func (s SlidingWindows) WindowAt(startMs int64) Window {
	return Window{StartMs: startMs, EndMs: millis.Add(startMs, s.diffMs)}
}

// String describes the windows: "sliding 1m0s, grace 10s".
func (s SlidingWindows) String() string {
	return fmt.Sprintf("sliding %v, grace %v", s.Difference(), s.GracePeriod())
}
