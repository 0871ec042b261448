package window

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

type calendarUnit uint8

const (
	noUnit calendarUnit = iota
	dayUnit
	weekUnit
	monthUnit
)

// CalendarWindows specifies windows that are days, weeks or months of a calendar on the wall of a time zone. They follow
// each other without gap or overlap, and are as long as they are there: a day on which the clocks change has 23 or 25 hours
// (23½ or 24½ where they change by half an hour).
//
// A day begins at the first moment at which the local date has come: where the clocks skip midnight that is the moment after
// the skip, where they show midnight twice the first of the two, and where they fall back over midnight the date does not
// go back with them. Days that a zone has left out do not exist. The window that holds the Unix epoch begins there.
//
// The zero CalendarWindows is not valid. Make one with [Days], [Weeks] or [Months].
//
// In Kafka Streams: none; a program extends Windows by itself.
type CalendarWindows struct {
	unit    calendarUnit
	loc     *time.Location
	first   time.Weekday // of a week
	graceMs int64
	fault   string
	shiftMs int64 // the most that the clocks of the zone fall back
	last    *atomic.Pointer[Window]
}

// Days returns windows of the days of a time zone, with no grace period.
func Days(loc *time.Location) CalendarWindows { return calendar(dayUnit, loc) }

// Weeks returns windows of the weeks of a time zone, which begin on Monday, with no grace period.
func Weeks(loc *time.Location) CalendarWindows { return calendar(weekUnit, loc) }

// Months returns windows of the months of a time zone, with no grace period.
func Months(loc *time.Location) CalendarWindows { return calendar(monthUnit, loc) }

func calendar(unit calendarUnit, loc *time.Location) CalendarWindows {
	c := CalendarWindows{unit: unit, loc: loc, first: time.Monday, last: new(atomic.Pointer[Window])}
	if loc != nil {
		c.shiftMs = longestFallBackMs(loc)
	}
	return c
}

// Grace returns the same windows with another grace period.
func (c CalendarWindows) Grace(d time.Duration) CalendarWindows {
	c.graceMs = d.Milliseconds()
	if d%time.Millisecond != 0 && c.fault == "" {
		c.fault = fmt.Sprintf("grace %v", d)
	}
	return c
}

// BeginningOn returns the same weeks, each of which begins on another day of the week.
func (c CalendarWindows) BeginningOn(day time.Weekday) CalendarWindows {
	c.first = day
	c.last = new(atomic.Pointer[Window])
	return c
}

// GracePeriod returns how long after its end a window still takes records.
func (c CalendarWindows) GracePeriod() time.Duration {
	return time.Duration(c.graceMs) * time.Millisecond
}

// GraceMs returns the grace period in milliseconds.
func (c CalendarWindows) GraceMs() int64 { return c.graceMs }

// Validate tells what is wrong with the specification: it needs a time zone, and a grace that is not negative and has no
// part below a millisecond.
func (c CalendarWindows) Validate() error {
	switch {
	case c.unit == noUnit:
		return errors.New("window: an empty window.CalendarWindows; make one with window.Days, window.Weeks or window.Months")
	case c.loc == nil:
		return errors.New("window: calendar windows without a time zone; give one, time.UTC or as time.LoadLocation returns it")
	case c.fault != "":
		return fmt.Errorf("window: %s is not a whole number of milliseconds, the unit of record timestamps", c.fault)
	case c.graceMs < 0:
		return fmt.Errorf("window: grace %v of calendar windows; it is not negative", c.GracePeriod())
	case c.first < time.Sunday || c.first > time.Saturday:
		return fmt.Errorf("window: weeks that begin on day %d of the week", int(c.first))
	case c.first != time.Monday && c.unit != weekUnit:
		return errors.New("window: BeginningOn is for weeks alone")
	}
	return nil
}

const dayMs = 24 * 60 * 60 * 1000

// RetentionMs returns how long a store keeps a window where nothing else is set: the longest window that the zone can have,
// plus grace.
func (c CalendarWindows) RetentionMs() int64 { return c.longestMs() + c.graceMs }

func (c CalendarWindows) longestMs() int64 {
	days := int64(1)
	switch c.unit {
	case weekUnit:
		days = 7
	case monthUnit:
		days = 31
	}
	return days*dayMs + c.shiftMs
}

// CheckRetentionMs tells why a retention, in milliseconds, is too short.
func (c CalendarWindows) CheckRetentionMs(retentionMs int64) error {
	if retentionMs >= c.RetentionMs() {
		return nil
	}
	return fmt.Errorf("window: retention %dms is shorter than the longest of the windows, %v, plus grace %v; keep windows for at least %dms",
		retentionMs, time.Duration(c.longestMs())*time.Millisecond, c.GracePeriod(), c.RetentionMs())
}

// AppendWindows appends the window that holds tsMs. A negative timestamp belongs to none.
func (c CalendarWindows) AppendWindows(dst []Window, tsMs int64) []Window {
	if tsMs < 0 {
		return dst
	}
	return append(dst, c.at(tsMs))
}

// WindowAt returns the window that starts at startMs: the one that holds this moment.
func (c CalendarWindows) WindowAt(startMs int64) Window {
	if startMs < 0 {
		startMs = 0
	}
	return c.at(startMs)
}

// at finds the window that holds a moment. Most moments are in the window of the one before.
func (c CalendarWindows) at(tsMs int64) Window {
	if w := c.last.Load(); w != nil && w.StartMs <= tsMs && tsMs < w.EndMs {
		return *w
	}
	y, m, d := time.UnixMilli(tsMs).In(c.loc).Date()
	begin := c.unitOf(date(y, m, d))
	// Where the clocks fell back over midnight, the local date is one that has passed already.
	next := c.next(begin)
	endMs := startOf(next, c.loc)
	for endMs <= tsMs && endMs < math.MaxInt64 {
		begin, next = next, c.next(next)
		endMs = startOf(next, c.loc)
	}
	w := Window{StartMs: max(0, startOf(begin, c.loc)), EndMs: endMs}
	c.last.Store(&w)
	return w
}

// date is a date of the calendar, as its midnight in UTC.
func date(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }

// unitOf returns the first day of the window that a day belongs to.
func (c CalendarWindows) unitOf(day time.Time) time.Time {
	switch c.unit {
	case weekUnit:
		return day.AddDate(0, 0, -(int(day.Weekday()-c.first)+7)%7)
	case monthUnit:
		return date(day.Year(), day.Month(), 1)
	}
	return day
}

func (c CalendarWindows) next(day time.Time) time.Time {
	switch c.unit {
	case weekUnit:
		return day.AddDate(0, 0, 7)
	case monthUnit:
		return day.AddDate(0, 1, 0)
	}
	return day.AddDate(0, 0, 1)
}

// startOf returns the first moment at which the local date is day or later. It goes through the offsets that the zone has
// around that day: what time.Date makes of a midnight that there is twice, or not at all, is not defined. A moment behind the
// largest int64 is that.
func startOf(day time.Time, loc *time.Location) int64 {
	const around = 48 * time.Hour // more than any offset from UTC, on both sides
	t := day.Add(-around).In(loc)
	for {
		from, to := zoneBounds(t)
		_, offset := t.Zone()
		moment := day.Add(-time.Duration(offset) * time.Second)
		if !from.IsZero() && moment.Before(from) {
			moment = from
		}
		if to.IsZero() || moment.Before(to) {
			if moment.Unix() > math.MaxInt64/1000 {
				return math.MaxInt64
			}
			return moment.UnixMilli()
		}
		t = to
	}
}

// zoneBounds is ZoneBounds of a Time, with an end that is always behind it: in years beyond a zone's table, Go takes the last
// day of a leap year for one behind the year's end, and a loop over the bounds would stand still there.
func zoneBounds(t time.Time) (from, to time.Time) {
	from, to = t.ZoneBounds()
	if !to.IsZero() && !to.After(t) {
		to = t.Add(time.Hour)
	}
	return from, to
}

// longestFallBackMs is the most by which the clocks of a zone have ever fallen back, or will in this or the next century.
func longestFallBackMs(loc *time.Location) int64 {
	t := time.Unix(0, 0).In(loc)
	end := date(2200, time.January, 1)
	longest := 0
	for {
		_, to := zoneBounds(t)
		if to.IsZero() || to.After(end) {
			return int64(longest) * 1000
		}
		_, before := t.Zone()
		_, after := to.Zone()
		longest = max(longest, before-after)
		t = to
	}
}

// String describes the windows: "days in Europe/Copenhagen, grace 1h0m0s".
func (c CalendarWindows) String() string {
	unit := map[calendarUnit]string{dayUnit: "days", weekUnit: "weeks", monthUnit: "months"}[c.unit]
	if unit == "" || c.loc == nil {
		return "no calendar windows"
	}
	return fmt.Sprintf("%s in %s, grace %v", unit, c.loc, c.GracePeriod())
}
