package window

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func zone(t interface{ Fatal(...any) }, name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func at(t *testing.T, loc *time.Location, text string) int64 {
	t.Helper()
	moment, err := time.ParseInLocation("2006-01-02T15:04:05", text, loc)
	if err != nil {
		t.Fatal(err)
	}
	return moment.UnixMilli()
}

// The windows that hold a moment: where they begin and end by the clocks of the zone, and how long they are.
func TestCalendar_clocksThatChange(t *testing.T) {
	for _, c := range []struct {
		zone, at, start, end string
		of                   func(*time.Location) CalendarWindows
		length               time.Duration
	}{
		{"UTC", "2024-07-14T22:30:00", "2024-07-14T00:00:00Z", "2024-07-15T00:00:00Z", Days, 24 * time.Hour},
		{"Europe/Copenhagen", "2024-07-15T00:30:00", "2024-07-15T00:00:00+02:00", "2024-07-16T00:00:00+02:00", Days, 24 * time.Hour},
		{"Europe/Copenhagen", "2024-03-31T12:00:00", "2024-03-31T00:00:00+01:00", "2024-04-01T00:00:00+02:00", Days, 23 * time.Hour},
		{"Europe/Copenhagen", "2024-10-27T12:00:00", "2024-10-27T00:00:00+02:00", "2024-10-28T00:00:00+01:00", Days, 25 * time.Hour},
		{"Australia/Lord_Howe", "2024-10-06T12:00:00", "2024-10-06T00:00:00+10:30", "2024-10-07T00:00:00+11:00", Days, 23*time.Hour + 30*time.Minute},
		{"Australia/Lord_Howe", "2024-04-07T12:00:00", "2024-04-07T00:00:00+11:00", "2024-04-08T00:00:00+10:30", Days, 24*time.Hour + 30*time.Minute},
		{"Asia/Kathmandu", "2024-04-07T12:00:00", "2024-04-07T00:00:00+05:45", "2024-04-08T00:00:00+05:45", Days, 24 * time.Hour},
		// There is no midnight: the clocks go from 23:59 to 01:00.
		{"America/Sao_Paulo", "2017-10-15T12:00:00", "2017-10-15T01:00:00-02:00", "2017-10-16T00:00:00-02:00", Days, 23 * time.Hour},
		{"America/Sao_Paulo", "2017-10-14T12:00:00", "2017-10-14T00:00:00-03:00", "2017-10-15T01:00:00-02:00", Days, 24 * time.Hour},
		// The hour before midnight is there twice.
		{"America/Sao_Paulo", "2018-02-17T12:00:00", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00", Days, 25 * time.Hour},
		// Midnight is there twice.
		{"America/Havana", "2023-11-05T12:00:00", "2023-11-05T00:00:00-04:00", "2023-11-06T00:00:00-05:00", Days, 25 * time.Hour},
		// A minute after midnight the clocks fall back into the day before, which does not come back.
		{"America/St_Johns", "2010-11-07T12:00:00", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30", Days, 25 * time.Hour},
		// A day that the zone has left out.
		{"Pacific/Apia", "2011-12-29T12:00:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", Days, 24 * time.Hour},
		{"Pacific/Apia", "2011-12-31T12:00:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00", Days, 24 * time.Hour},
		{"Europe/Copenhagen", "2024-03-31T12:00:00", "2024-03-25T00:00:00+01:00", "2024-04-01T00:00:00+02:00", Weeks, 7*24*time.Hour - time.Hour},
		{"Europe/Copenhagen", "2024-10-27T23:59:59", "2024-10-01T00:00:00+02:00", "2024-11-01T00:00:00+01:00", Months, 31*24*time.Hour + time.Hour},
		{"Europe/Copenhagen", "2024-02-29T23:59:59", "2024-02-01T00:00:00+01:00", "2024-03-01T00:00:00+01:00", Months, 29 * 24 * time.Hour},
	} {
		loc := zone(t, c.zone)
		w := c.of(loc).Grace(time.Hour)
		if err := w.Validate(); err != nil {
			t.Fatal(err)
		}
		ws := w.AppendWindows(nil, at(t, loc, c.at))
		if len(ws) != 1 {
			t.Fatalf("%s in %s: %v", c.at, c.zone, ws)
		}
		start, end := ws[0].Start().In(loc).Format(time.RFC3339), ws[0].End().In(loc).Format(time.RFC3339)
		if start != c.start || end != c.end || ws[0].End().Sub(ws[0].Start()) != c.length {
			t.Errorf("%s in %s: %s..%s, %v long; want %s..%s, %v", c.at, c.zone, start, end, ws[0].End().Sub(ws[0].Start()), c.start, c.end, c.length)
		}
		if again := c.of(loc).WindowAt(ws[0].StartMs); again != ws[0] {
			t.Errorf("%s in %s: WindowAt its start is %v, not %v", c.at, c.zone, again, ws[0])
		}
		if need := ws[0].EndMs - ws[0].StartMs + time.Hour.Milliseconds(); need > w.RetentionMs() {
			t.Errorf("%s in %s: kept for %d ms, shorter than the window and its grace, %d ms", c.at, c.zone, w.RetentionMs(), need)
		}
	}
}

func TestCalendar_weeksThatBeginOnAnotherDay(t *testing.T) {
	w := Weeks(time.UTC).BeginningOn(time.Sunday)
	ws := w.AppendWindows(nil, at(t, time.UTC, "2024-07-20T10:00:00")) // a Saturday
	if got := ws[0].Start().Format(time.DateOnly); got != "2024-07-14" {
		t.Errorf("the week begins on %s", got)
	}
}

// No window starts before the epoch, and a negative timestamp belongs to none.
func TestCalendar_epoch(t *testing.T) {
	w := Days(zone(t, "Europe/Copenhagen"))
	if ws := w.AppendWindows(nil, 5); !slices.Equal(ws, []Window{{0, 23 * 3600 * 1000}}) || w.WindowAt(0) != ws[0] {
		t.Errorf("%v, %v", ws, w.WindowAt(0))
	}
	if ws := w.AppendWindows(nil, -1); ws != nil {
		t.Errorf("%v", ws)
	}
}

// Against the definition: a day begins when the local date has come for the first time, and the windows lie end to end.
func TestCalendar_model(t *testing.T) {
	zones := []string{"UTC", "Europe/Copenhagen", "America/Sao_Paulo", "America/Havana", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Monrovia", "Antarctica/Casey", "Asia/Gaza"}
	rapid.Check(t, func(t *rapid.T) {
		loc := zone(t, rapid.SampledFrom(zones).Draw(t, "zone"))
		day := date(rapid.IntRange(1971, 2030).Draw(t, "year"), time.Month(rapid.IntRange(1, 12).Draw(t, "month")), rapid.IntRange(1, 28).Draw(t, "day"))
		w := Days(loc)
		from := day.Add(-60 * time.Hour)
		// The date as the wall calendar shows it: leaves are torn off and not put back.
		shown := from.Add(-24 * time.Hour).In(loc).Format(time.DateOnly)
		var starts []int64
		for m := from.Add(-24 * time.Hour); m.Before(day.Add(60 * time.Hour)); m = m.Add(15 * time.Minute) {
			if d := m.In(loc).Format(time.DateOnly); d > shown {
				shown = d
				if !m.Before(from) {
					starts = append(starts, m.UnixMilli())
				}
			}
		}
		for i := 1; i < len(starts); i++ {
			want := Window{starts[i-1], starts[i]}
			for _, ts := range []int64{want.StartMs, want.EndMs - 1, want.StartMs + rapid.Int64Range(0, want.EndMs-want.StartMs-1).Draw(t, "ts")} {
				// Clocks may change off the quarter of an hour: then the grid of the model is too coarse by less than that.
				got := w.AppendWindows(nil, ts)
				const grid = 15 * 60 * 1000
				if len(got) != 1 || got[0].StartMs > want.StartMs || got[0].StartMs <= want.StartMs-grid || got[0].EndMs > want.EndMs || got[0].EndMs <= want.EndMs-grid {
					if len(got) == 1 && (ts >= want.EndMs-grid) && got[0].StartMs > want.EndMs-grid {
						continue // behind the true end
					}
					t.Fatalf("%v in %v: %v, want %v", time.UnixMilli(ts).In(loc), loc, got, want)
				}
			}
		}
	})
}

func TestWindows_Validate(t *testing.T) {
	for _, c := range []struct {
		name string
		w    Windows
		want string // a part of the error; empty: valid
	}{
		{"sliding, empty", SlidingWindows{}, "window.Sliding"},
		{"sliding, negative difference", Sliding(-ms), "difference -1ms"},
		{"sliding, part of a millisecond", Sliding(time.Microsecond), "difference 1µs is not a whole number"},
		{"sliding, negative grace", Sliding(ms).Grace(-ms), "grace -1ms"},
		{"sliding", Sliding(0).Grace(time.Hour), ""},
		{"unlimited before the epoch", Unlimited().StartingAt(time.Unix(-1, 0)), "before the Unix epoch"},
		{"unlimited, part of a millisecond", Unlimited().StartingAt(time.Unix(0, 1)), "not a whole number"},
		{"unlimited", Unlimited(), ""},
		{"calendar, empty", CalendarWindows{}, "window.Days"},
		{"calendar without a zone", Days(nil), "without a time zone"},
		{"calendar, negative grace", Months(time.UTC).Grace(-ms), "grace -1ms"},
		{"days that begin on a day", Days(time.UTC).BeginningOn(time.Friday), "weeks alone"},
		{"weeks of no day", Weeks(time.UTC).BeginningOn(7), "day 7"},
		{"months", Months(time.UTC), ""},
	} {
		err := c.w.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", c.name, err, c.want)
		}
	}
}

func TestSliding_retention(t *testing.T) {
	w := Sliding(60 * ms).Grace(40 * ms)
	if w.RetentionMs() != 160 || w.CheckRetentionMs(160) != nil {
		t.Errorf("retention %d, %v", w.RetentionMs(), w.CheckRetentionMs(160))
	}
	err := w.CheckRetentionMs(159)
	for _, part := range []string{"159ms", "60ms", "40ms", "160ms"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %q", err, part)
		}
	}
}

// A record may come with the last timestamp that there is.
func TestCalendar_endOfTime(t *testing.T) {
	for _, name := range []string{"UTC", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia"} {
		loc := zone(t, name)
		for _, w := range []CalendarWindows{Days(loc), Weeks(loc), Months(loc)} {
			for _, tsMs := range []int64{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 - 40*dayMs, math.MaxInt64 / 2, 253402300799999} {
				ws := w.AppendWindows(nil, tsMs)
				if len(ws) != 1 || ws[0].StartMs > tsMs || ws[0].EndMs <= tsMs && ws[0].EndMs != math.MaxInt64 {
					t.Errorf("%v at %d: %v", w, tsMs, ws)
				} else if again := w.WindowAt(ws[0].StartMs); again != ws[0] {
					t.Errorf("%v: the window that starts at %d is %v, not %v", w, ws[0].StartMs, again, ws[0])
				}
			}
		}
	}
}
