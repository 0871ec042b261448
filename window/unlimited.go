package window

import (
	"fmt"
	"math"
	"time"
)

// UnlimitedWindows specifies one window without an end: everything from its start on. Such a window never closes, so there
// is no grace, nothing is ever late, and its result cannot be emitted on close. Records before the start belong to no
// window; they are dropped and counted.
//
// In Kafka Streams: UnlimitedWindows, which drops earlier records without counting them.
type UnlimitedWindows struct {
	startMs int64
	fault   string
}

// Unlimited returns one window that starts at the Unix epoch and has no end.
//
// In Kafka Streams: UnlimitedWindows.of.
func Unlimited() UnlimitedWindows { return UnlimitedWindows{} }

// StartingAt returns the same window with another start, a whole millisecond not before the epoch.
//
// In Kafka Streams: UnlimitedWindows#startOn.
func (u UnlimitedWindows) StartingAt(t time.Time) UnlimitedWindows {
	u.startMs, u.fault = t.UnixMilli(), ""
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		u.fault = t.UTC().Format(time.RFC3339Nano)
	}
	return u
}

// Validate tells what is wrong with the specification: the start is a whole millisecond, and not before the epoch.
func (u UnlimitedWindows) Validate() error {
	switch {
	case u.fault != "":
		return fmt.Errorf("window: start %s is not a whole number of milliseconds, the unit of record timestamps", u.fault)
	case u.startMs < 0:
		return fmt.Errorf("window: start %s of an unlimited window is before the Unix epoch", time.UnixMilli(u.startMs).UTC().Format(time.RFC3339))
	}
	return nil
}

// AppendWindows appends the window, if the timestamp is not before its start.
func (u UnlimitedWindows) AppendWindows(dst []Window, tsMs int64) []Window {
	if tsMs < u.startMs {
		return dst
	}
	return append(dst, u.WindowAt(u.startMs))
}

// WindowAt returns the window that starts at startMs. Its end is the largest int64.
func (u UnlimitedWindows) WindowAt(startMs int64) Window {
	return Window{StartMs: startMs, EndMs: math.MaxInt64}
}

// GraceMs is 0: the window never closes.
func (u UnlimitedWindows) GraceMs() int64 { return 0 }

// RetentionMs is the largest int64: the window is kept for ever.
func (u UnlimitedWindows) RetentionMs() int64 { return math.MaxInt64 }

// CheckRetentionMs tells why a retention, in milliseconds, is too short: nothing short of for ever will do.
func (u UnlimitedWindows) CheckRetentionMs(retentionMs int64) error {
	if retentionMs >= u.RetentionMs() {
		return nil
	}
	return fmt.Errorf("window: retention %v for an unlimited window, which is kept for ever; leave the retention out", time.Duration(retentionMs)*time.Millisecond)
}

// String describes the window: "unlimited from 1970-01-01T00:00:00Z".
func (u UnlimitedWindows) String() string {
	return "unlimited from " + time.UnixMilli(u.startMs).UTC().Format("2006-01-02T15:04:05.999Z07:00")
}
