package window

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/millis"
)

// SessionWindows specifies windows of activity: a session of a key holds the records of which each follows the one before
// by at most the gap, and is as long as they make it. It starts at its first record and ends at its last one, both
// included: the end of a session's [Window] belongs to it, unlike that of other windows. Records exactly one gap apart are
// of one session.
//
// A session is closed once the observed time of a step is above its end plus gap plus grace. A record is late if the
// session that it would make or extend has closed; one that arrives out of order and bridges two sessions merges them. A
// session that has closed is extended and merged no more, unless the step is told to keep it for longer.
//
// The zero SessionWindows is not valid. Make one with [Session]. A step that is given an invalid one reports what
// [SessionWindows.Validate] says when the topology is built.
//
// In Kafka Streams: SessionWindows.
type SessionWindows struct {
	gapMs   int64
	graceMs int64
	fault   string // the first duration that cannot be held in milliseconds, as text
}

// Session returns windows of activity that end when there was none for longer than gap, with no grace period. The gap is a
// whole number of milliseconds, at least one.
//
// In Kafka Streams: SessionWindows.ofInactivityGapWithNoGrace.
func Session(gap time.Duration) SessionWindows {
	var s SessionWindows
	s.gapMs = s.toMs("gap", gap)
	return s
}

// Grace returns the same windows with another grace period: a session takes records until the observed time of the step is
// above its end plus gap plus d. Without a call it is 0.
//
// In Kafka Streams: SessionWindows.ofInactivityGapAndGrace.
func (s SessionWindows) Grace(d time.Duration) SessionWindows {
	s.graceMs = s.toMs("grace", d)
	return s
}

// toMs converts a duration and remembers the first that has a part below a millisecond, which a timestamp cannot express.
func (s *SessionWindows) toMs(what string, d time.Duration) int64 {
	if d%time.Millisecond != 0 && s.fault == "" {
		s.fault = fmt.Sprintf("%s %v", what, d)
	}
	return d.Milliseconds()
}

// Gap returns the time without a record after which a session has ended.
func (s SessionWindows) Gap() time.Duration { return time.Duration(s.gapMs) * time.Millisecond }

// GracePeriod returns how long after its end and gap a session still takes records.
func (s SessionWindows) GracePeriod() time.Duration {
	return time.Duration(s.graceMs) * time.Millisecond
}

// GapMs returns the gap in milliseconds.
func (s SessionWindows) GapMs() int64 { return s.gapMs }

// GraceMs returns the grace period in milliseconds.
func (s SessionWindows) GraceMs() int64 { return s.graceMs }

// RetentionMs returns how long a store keeps a session where nothing else is set: gap plus grace, in milliseconds from the
// session's end.
func (s SessionWindows) RetentionMs() int64 { return s.gapMs + s.graceMs }

// CloseTimeMs turns the observed time of a step, the highest timestamp that it has seen, into its close time, observed minus
// gap minus grace. A session is closed once EndMs < CloseTimeMs: with a gap of 5 ms and no grace a session that ends at 5 is
// open at an observed time of 10 and closed at 11. The record that is judged has advanced the observed time before.
func (s SessionWindows) CloseTimeMs(observedMs int64) int64 {
	return millis.Add(observedMs, -millis.Add(s.gapMs, s.graceMs))
}

// Validate tells what is wrong with the specification: the gap is at least a millisecond, the grace is not negative, and
// neither has a part below a millisecond.
func (s SessionWindows) Validate() error {
	switch {
	case s == SessionWindows{}:
		return errors.New("window: empty window.SessionWindows; make them with window.Session")
	case s.fault != "":
		return fmt.Errorf("window: %s is not a whole number of milliseconds, the unit of record timestamps", s.fault)
	case s.gapMs < 1:
		return fmt.Errorf("window: sessions with a gap of %v; it is at least 1ms", s.Gap())
	case s.graceMs < 0:
		return fmt.Errorf("window: grace %v of sessions with a gap of %v; it is not negative", s.GracePeriod(), s.Gap())
	}
	return nil
}

// CheckRetentionMs tells why a retention, in milliseconds, is too short: a store must keep a session for as long as it takes
// records, gap plus grace.
func (s SessionWindows) CheckRetentionMs(retentionMs int64) error {
	if retentionMs >= s.RetentionMs() {
		return nil
	}
	return fmt.Errorf("window: retention %dms is shorter than gap %v plus grace %v; keep sessions for at least %dms",
		retentionMs, s.Gap(), s.GracePeriod(), s.RetentionMs())
}

// String describes the windows: "sessions with gap 5m0s, grace 10s".
func (s SessionWindows) String() string {
	return fmt.Sprintf("sessions with gap %v, grace %v", s.Gap(), s.GracePeriod())
}
