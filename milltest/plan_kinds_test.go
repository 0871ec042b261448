package milltest_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// This file is the steps over windows of the calendar, without an end, and of the user's own; and over cogroups by windows.

// gappy are windows of a length, one of which starts every so often, with gaps between them.
type gappy struct{ every, length, grace int64 }

func (g gappy) AppendWindows(dst []window.Window, tsMs int64) []window.Window {
	if w := g.WindowAt(tsMs / g.every * g.every); tsMs < w.EndMs {
		dst = append(dst, w)
	}
	return dst
}

func (g gappy) WindowAt(startMs int64) window.Window {
	return window.Window{StartMs: startMs, EndMs: startMs + g.length}
}

func (g gappy) GraceMs() int64     { return g.grace }
func (g gappy) RetentionMs() int64 { return g.length + g.grace }
func (g gappy) Validate() error    { return nil }

// fixed draws windows of a kind that is neither tumbling nor hopping. endless says that they never close.
func (w *world) fixed(r *rand.Rand) (kind window.Windows, m modelKind, endless bool, text string) {
	m.grace = w.grace(r)
	switch r.IntN(3) {
	case 0:
		start := r.Int64N(2) * r.Int64N(200)
		m.grace = 0
		m.at = func(tsMs int64) []modelSpan {
			if tsMs < start {
				return nil
			}
			return []modelSpan{{start: start, end: math.MaxInt64}}
		}
		return window.Unlimited().StartingAt(time.UnixMilli(start)), m, true, fmt.Sprintf("unlimited from %d", start)
	case 1:
		g := gappy{every: 3 + r.Int64N(30), grace: m.grace}
		g.length = 1 + r.Int64N(g.every)
		m.at = func(tsMs int64) []modelSpan {
			if tsMs%g.every >= g.length {
				return nil
			}
			start := tsMs - tsMs%g.every
			return []modelSpan{{start: start, end: start + g.length}}
		}
		return g, m, false, fmt.Sprintf("own %+v", g)
	}
	// Midnight is some seconds after that of the epoch; the day before begins at the epoch.
	midnight := (1 + r.Int64N(6)) * 1000
	m.at = func(tsMs int64) []modelSpan {
		day := modelSpan{start: 0, end: midnight}
		for tsMs >= day.end {
			day = modelSpan{start: day.end, end: day.end + 24*3600*1000}
		}
		return []modelSpan{day}
	}
	zone := time.FixedZone("west", -int(midnight/1000))
	return window.Days(zone).Grace(millis(m.grace)), m, false, fmt.Sprintf("days from %d, grace %d", midnight, m.grace)
}

func fixedWindowStep(w *world, r *rand.Rand, name string) {
	in := w.keyed(r, name)
	kind, spec, endless, text := w.fixed(r)
	opts, onClose := on(r, name), false
	if !endless {
		opts, onClose = w.closing(r, opts)
	}
	w.say(name, "AggregateWindows %s, on close: %v", text, onClose)
	f := w.fold()
	t, late := millrace.AggregateWindows(in.s.GroupByKey(textKey, textValue).WindowBy(kind), f.start, f.dsl, serde.String, opts...)
	spec.grace += w.flaw
	m := in.m.fixedWindows(name, spec, onClose, f)
	w.windowResult(name, t, millrace.MapValues(late, missedOf), m, spec.grace)
	w.windows[len(w.windows)-1].endless = endless
}

// cogroupWindowStep is a cogroup of two or three streams by windows or by sessions. The store keeps all windows, for a stream
// that lies behind the others would find less.
func cogroupWindowStep(w *world, r *rand.Rand, name string) {
	c, ins, f := w.cogroup(r, name)
	var models []*modelStream
	for _, in := range ins {
		models = append(models, in.m)
	}
	opts, long := on(r, name), millrace.Retain(48*time.Hour)
	var t millrace.Table[window.Key[string], string]
	var late millrace.CogroupedLate[string]
	var ms []*modelWindowed
	lateText := missedOf
	place := windowPlace{}
	switch r.IntN(4) {
	case 0:
		gap, grace := 1+r.Int64N(15), w.grace(r)
		w.say(name, "cogroup of %d streams by sessions, gap %d grace %d", len(ins), gap, grace)
		t, late = c.SessionBy(window.Session(millis(gap)).Grace(millis(grace))).
			Aggregate(f.start, func(_, a, b string) string { return f.merge(a, b) }, serde.String, opts...)
		ms = w.m.cogroupWindows(name, models, func(x *modelWindowed, rec modelRecord) { x.takeSession(rec, gap, grace+w.flaw, f) })
		ms[0].table.sessions = true
		lateText = lateRecordOf
		place.waitMs = gap + grace + 1
	case 1:
		kind, spec, endless, text := w.fixed(r)
		w.say(name, "cogroup of %d streams by windows, %s", len(ins), text)
		if !endless {
			opts = append(opts, long)
		}
		t, late = c.WindowBy(kind).Aggregate(f.start, serde.String, opts...)
		ms = w.m.cogroupWindows(name, models, func(x *modelWindowed, rec modelRecord) { x.takeTime(rec, spec, f) })
		place.waitMs, place.endless = spec.grace, endless
	default:
		spec := modelWindows{size: 5 + r.Int64N(20), grace: w.grace(r)}
		spec.advance = 2 + r.Int64N(spec.size-1)
		w.say(name, "cogroup of %d streams by windows %+v", len(ins), spec)
		hopping := window.Hopping(millis(spec.size), millis(spec.advance)).Grace(millis(spec.grace))
		t, late = c.WindowBy(hopping).Aggregate(f.start, serde.String, append(opts, long)...)
		kind := spec.hopping()
		kind.grace += w.flaw
		ms = w.m.cogroupWindows(name, models, func(x *modelWindowed, rec modelRecord) { x.takeTime(rec, kind, f) })
		place.waitMs = spec.grace
	}
	place.t, place.m = t, ms[0].table
	w.outWindows(name, place)
	if w.settled {
		return
	}
	for i, in := range ins {
		w.out(fmt.Sprintf("late-%s-%d", name, i), placeOf(millrace.MapValues(millrace.LateOf(late, in.group), lateText), ms[i].late))
	}
}

func placeOf(s stream, m *modelStream) place { return place{s, m} }
