package window

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/millis"
)

// JoinWindows says how far apart in time two records of two streams may be for a join to put them together: a right record
// joins a left one at t if its timestamp lies in [t-before, t+after], both ends included.
//
// The zero JoinWindows is not valid. Make one with [Within]. A step that is given an invalid one reports what
// [JoinWindows.Validate] says when the topology is built.
//
// In Kafka Streams: JoinWindows.
type JoinWindows struct {
	beforeMs int64
	afterMs  int64
	graceMs  int64
	made     bool
	fault    string // the first duration that cannot be held in milliseconds, as text
}

// Within joins records that are at most d apart, whichever comes first, with no grace period. A d of 0 joins records of
// equal timestamps.
//
// In Kafka Streams: JoinWindows.ofTimeDifferenceWithNoGrace.
func Within(d time.Duration) JoinWindows {
	w := JoinWindows{made: true}
	w.beforeMs = w.toMs("difference", d)
	w.afterMs = w.beforeMs
	return w
}

// Before returns the same windows with another bound for how much earlier than the left record the right one may be. A
// negative d demands that it is later by at least -d; before and after together must not be negative.
//
// In Kafka Streams: JoinWindows#before.
func (w JoinWindows) Before(d time.Duration) JoinWindows {
	w.beforeMs = w.toMs("before", d)
	return w
}

// After returns the same windows with another bound for how much later than the left record the right one may be. A negative
// d demands that it is earlier by at least -d; before and after together must not be negative.
//
// In Kafka Streams: JoinWindows#after.
func (w JoinWindows) After(d time.Duration) JoinWindows {
	w.afterMs = w.toMs("after", d)
	return w
}

// Grace returns the same windows with another grace period: how long after the end of its window a record is still joined,
// and an unmatched one waits. Without a call it is 0.
//
// In Kafka Streams: JoinWindows.ofTimeDifferenceAndGrace.
func (w JoinWindows) Grace(d time.Duration) JoinWindows {
	w.graceMs = w.toMs("grace", d)
	return w
}

// toMs converts a duration and remembers the first that has a part below a millisecond, which a timestamp cannot express.
func (w *JoinWindows) toMs(what string, d time.Duration) int64 {
	if d%time.Millisecond != 0 && w.fault == "" {
		w.fault = fmt.Sprintf("%s %v", what, d)
	}
	return d.Milliseconds()
}

// BeforeMs is how much earlier than the left record the right one may be, in milliseconds.
func (w JoinWindows) BeforeMs() int64 { return w.beforeMs }

// AfterMs is how much later than the left record the right one may be, in milliseconds.
func (w JoinWindows) AfterMs() int64 { return w.afterMs }

// GraceMs returns the grace period in milliseconds.
func (w JoinWindows) GraceMs() int64 { return w.graceMs }

// SizeMs is the length of a record's window, before plus after, in milliseconds.
func (w JoinWindows) SizeMs() int64 { return w.beforeMs + w.afterMs }

// RetentionMs is how long the stores of a join keep a record where nothing else is set: before plus after plus grace, in
// milliseconds.
func (w JoinWindows) RetentionMs() int64 { return millis.Add(w.SizeMs(), w.graceMs) }

// Validate tells what is wrong with the specification: before and after together, and the grace, are not negative, and none
// has a part below a millisecond.
func (w JoinWindows) Validate() error {
	switch {
	case !w.made:
		return errors.New("window: an empty window.JoinWindows; make one with window.Within")
	case w.fault != "":
		return fmt.Errorf("window: %s is not a whole number of milliseconds, the unit of record timestamps", w.fault)
	case w.SizeMs() < 0:
		return fmt.Errorf("window: before %v and after %v together are negative; no two records could be joined",
			duration(w.beforeMs), duration(w.afterMs))
	case w.graceMs < 0:
		return fmt.Errorf("window: grace %v of a join; it is not negative", duration(w.graceMs))
	}
	return nil
}

// CheckRetentionMs tells why a retention, in milliseconds, is too short: a store must keep a record for as long as another
// one may be joined with it, before plus after plus grace.
func (w JoinWindows) CheckRetentionMs(retentionMs int64) error {
	if retentionMs >= w.RetentionMs() {
		return nil
	}
	return fmt.Errorf("window: retention %dms is shorter than before %v plus after %v plus grace %v; keep records for at least %dms",
		retentionMs, duration(w.beforeMs), duration(w.afterMs), duration(w.graceMs), w.RetentionMs())
}

// String describes the windows: "within 10s before and 5s after, grace 1m0s".
func (w JoinWindows) String() string {
	return fmt.Sprintf("within %v before and %v after, grace %v", duration(w.beforeMs), duration(w.afterMs), duration(w.graceMs))
}

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// LateJoin is the value of the late stream of a stream-stream join: a record that arrived after its window and the grace
// period, and was not joined. The record's key, headers and timestamp are those of the record itself.
//
// Kafka Streams has no twin: it goes on joining such records as long as its stores happen to hold the other side.
type LateJoin[VL, VR any] struct {
	// OfRight tells which side the record belongs to: Right holds its value if true, otherwise Left.
	OfRight bool `json:"of_right"`

	Left  VL `json:"left,omitzero"`
	Right VR `json:"right,omitzero"`

	// ObservedTimeMs is the highest timestamp that the join had seen on either side when it judged the record, in
	// milliseconds since the Unix epoch.
	ObservedTimeMs int64 `json:"observed_time_ms"`

	// Missed is the record's window, in which records of the other side may lie; both ends are included.
	Missed Window `json:"missed"`
}
