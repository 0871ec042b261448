package window

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace-io/millrace/internal/millis"
)

// Time specifies windows of one size at a fixed distance: tumbling windows, which cover each moment once, or hopping
// windows, which overlap. They are half-open, [start, end), and aligned to the Unix epoch in UTC whatever the time zone of
// the process: a window of 24 hours is a UTC day.
//
// The zero Time is not valid. Make one with [Tumbling] or [Hopping]. A step that is given an invalid one reports what
// [Time.Validate] says when the topology is built.
//
// In Kafka Streams: TimeWindows.
type Time struct {
	sizeMs    int64
	advanceMs int64
	graceMs   int64
	fault     string // the first duration that cannot be held in milliseconds, as text
}

// Tumbling returns windows of that size that follow each other without gap or overlap, with no grace period. Size is a
// whole number of milliseconds, at least one.
//
// In Kafka Streams: TimeWindows.ofSizeWithNoGrace.
func Tumbling(size time.Duration) Time {
	return Hopping(size, size)
}

// Hopping returns windows of that size, one of which starts every advance, with no grace period. Both are whole numbers of
// milliseconds, and 0 < advance <= size. A record belongs to about size/advance windows, and each of them is stored and
// sent on: an advance that is small against the size is costly.
//
// In Kafka Streams: TimeWindows.ofSizeWithNoGrace(size).advanceBy(advance).
func Hopping(size, advance time.Duration) Time {
	var t Time
	t.sizeMs = t.toMs("size", size)
	t.advanceMs = t.toMs("advance", advance)
	return t
}

// Grace returns the same windows with another grace period: a window takes records until the observed time of the step
// reaches the window's end plus d. Without a call it is 0.
//
// In Kafka Streams: TimeWindows.ofSizeAndGrace.
func (t Time) Grace(d time.Duration) Time {
	t.graceMs = t.toMs("grace", d)
	return t
}

// toMs converts a duration and remembers the first that has a part below a millisecond, which a timestamp cannot express.
func (t *Time) toMs(what string, d time.Duration) int64 {
	if d%time.Millisecond != 0 && t.fault == "" {
		t.fault = fmt.Sprintf("%s %v", what, d)
	}
	return d.Milliseconds()
}

// Size returns the length of a window.
func (t Time) Size() time.Duration { return time.Duration(t.sizeMs) * time.Millisecond }

// Advance returns the distance between the starts of two windows.
func (t Time) Advance() time.Duration { return time.Duration(t.advanceMs) * time.Millisecond }

// GracePeriod returns how long after its end a window still takes records.
func (t Time) GracePeriod() time.Duration { return time.Duration(t.graceMs) * time.Millisecond }

// SizeMs returns the length of a window in milliseconds.
func (t Time) SizeMs() int64 { return t.sizeMs }

// AdvanceMs returns the distance between the starts of two windows in milliseconds.
func (t Time) AdvanceMs() int64 { return t.advanceMs }

// GraceMs returns the grace period in milliseconds.
func (t Time) GraceMs() int64 { return t.graceMs }

// RetentionMs returns how long a store keeps a window where nothing else is set: size plus grace, in milliseconds from the
// window's start. The sum cannot overflow: a time.Duration is below 300 years.
func (t Time) RetentionMs() int64 { return t.sizeMs + t.graceMs }

// Validate tells what is wrong with the specification: size and advance are at least a millisecond, the advance is not
// above the size (records between two windows would be lost in silence), the grace is not negative, and none has a part
// below a millisecond.
func (t Time) Validate() error {
	switch {
	case t == Time{}:
		return errors.New("window: an empty window.Time; make one with window.Tumbling or window.Hopping")
	case t.fault != "":
		return fmt.Errorf("window: %s is not a whole number of milliseconds, the unit of record timestamps", t.fault)
	case t.sizeMs < 1:
		return fmt.Errorf("window: size %v; a window is at least 1ms long", t.Size())
	case t.advanceMs < 1:
		return fmt.Errorf("window: advance %v of windows of %v; it is at least 1ms", t.Advance(), t.Size())
	case t.advanceMs > t.sizeMs:
		return fmt.Errorf("window: advance %v is above the size %v; records between two windows would belong to none",
			t.Advance(), t.Size())
	case t.graceMs < 0:
		return fmt.Errorf("window: grace %v of windows of %v; it is not negative", t.GracePeriod(), t.Size())
	}
	return nil
}

// CheckRetentionMs tells why a retention, in milliseconds, is too short: a store must keep a window for as long as it takes
// records, size plus grace.
func (t Time) CheckRetentionMs(retentionMs int64) error {
	if retentionMs >= t.RetentionMs() {
		return nil
	}
	return fmt.Errorf("window: retention %dms is shorter than size %v plus grace %v; keep windows for at least %dms",
		retentionMs, t.Size(), t.GracePeriod(), t.RetentionMs())
}

// AppendWindows appends the windows that hold tsMs, in ascending order of their start, and returns the longer slice. No
// window starts before the epoch, so the first records after it belong to fewer windows; a negative timestamp belongs to
// none. It allocates only if dst has no room.
//
// In Kafka Streams: TimeWindows#windowsFor.
func (t Time) AppendWindows(dst []Window, tsMs int64) []Window {
	if tsMs < 0 || t.advanceMs < 1 || t.advanceMs > t.sizeMs {
		return dst
	}
	// The first grid point above ts-size. The maximum comes before the division: Go's division rounds towards zero, so
	// a negative dividend would be rounded up, into a window that has ended before ts.
	startMs := max(0, tsMs-t.sizeMs+t.advanceMs) / t.advanceMs * t.advanceMs
	for startMs <= tsMs {
		dst = append(dst, t.WindowAt(startMs))
		if startMs > math.MaxInt64-t.advanceMs {
			break
		}
		startMs += t.advanceMs
	}
	return dst
}

// MaxWindows returns how many windows a record belongs to at most: size divided by advance, rounded up. It is 0 for an
// invalid specification.
func (t Time) MaxWindows() int64 {
	if t.advanceMs < 1 {
		return 0
	}
	n := t.sizeMs / t.advanceMs
	if t.sizeMs%t.advanceMs != 0 {
		n++
	}
	return n
}

// WindowAt returns the window that starts at startMs. Its end stops at the largest int64 instead of overflowing.
func (t Time) WindowAt(startMs int64) Window {
	return Window{StartMs: startMs, EndMs: millis.Add(startMs, t.sizeMs)}
}

// CloseTimeMs turns the observed time of a step, the highest timestamp that it has seen, into its close time, observed
// minus grace. A window is closed, and a record for it late, once EndMs <= CloseTimeMs: with [0ms, 10ms) and a grace of 5 ms
// it is open at an observed time of 14 and closed at 15. The record that is judged has advanced the observed time before.
func (t Time) CloseTimeMs(observedMs int64) int64 {
	return millis.Add(observedMs, -t.graceMs)
}

// String describes the windows: "tumbling 1m0s, grace 10s".
func (t Time) String() string {
	if t.advanceMs == t.sizeMs {
		return fmt.Sprintf("tumbling %v, grace %v", t.Size(), t.GracePeriod())
	}
	return fmt.Sprintf("hopping %v every %v, grace %v", t.Size(), t.Advance(), t.GracePeriod())
}
