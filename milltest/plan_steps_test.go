package milltest_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// This file is the kinds of steps over streams.

// forever is a grace that makes nothing late.
const forever = 1_000_000

func millis(n int64) time.Duration { return time.Duration(n) * ms }

// draw draws a grace: none, a short one, or in a world that settles one for ever.
func (w *world) grace(r *rand.Rand) int64 {
	if w.settled {
		return forever
	}
	return r.Int64N(2) * r.Int64N(25)
}

// fold is a fold of texts that shows the order of its records, or in a world that settles one that has none.
func (w *world) fold() modelFold {
	if w.settled {
		return modelFold{add: func(r modelRecord, a string) string { return max(a, r.value) }, merge: maximum}
	}
	return modelFold{
		init:  "i",
		add:   func(r modelRecord, a string) string { return fmt.Sprintf("%03x", hash(a, r.key, r.value)&0xfff) },
		merge: func(a, b string) string { return fmt.Sprintf("%03x", hash("merge", a, b)&0xfff) },
	}
}

func (f modelFold) start() string { return f.init }

func (f modelFold) dsl(k, v, a string) string { return f.add(modelRecord{key: k, value: v}, a) }

func simpleStep(w *world, r *rand.Rand, name string) {
	i := latest(r, len(w.streams))
	in := w.streams[i]
	switch r.IntN(4) {
	case 0:
		w.say(name, "Filter of stream %d", i)
		keep := some(name, 4)
		w.out(name, place{in.s.Filter(keep), in.m.filter(keep)})
	case 1:
		w.say(name, "MapValues of stream %d", i)
		f := func(v string) string { return fmt.Sprintf("m%03x", hash(name, v)&0xfff) }
		w.out(name, place{millrace.MapValues(in.s, f), in.m.mapValues(f)})
	case 2:
		j := r.IntN(len(w.streams))
		w.say(name, "Merge of streams %d and %d", i, j)
		other := w.streams[j]
		w.out(name, place{in.s.Merge(other.s), in.m.merge(other.m)})
	case 3:
		w.say(name, "SelectKey of stream %d", i)
		f := func(k, v string) string { return fmt.Sprintf("k%d", hash(name, k, v)%4) }
		w.out(name, place{millrace.SelectKey(in.s, f), in.m.selectKey(f)})
	}
}

func aggregateStep(w *world, r *rand.Rand, name string) {
	in := w.keyed(r, name)
	in.m.countNulls(name, true)
	grouped := in.s.GroupByKey(textKey, textValue)
	if !w.settled && r.IntN(2) == 0 {
		w.say(name, "Count")
		counts := millrace.Count(grouped, on(r, name)...)
		t := millrace.MapTableValues(counts, func(n int64) string { return fmt.Sprint(n) }, textValue, millrace.NodeName(name+"-text"))
		w.outTable(name, tablePlace{t: t, initial: true, m: in.m.fold(ptr("0"), false, func(_ modelRecord, row string) *string {
			n, _ := strconv.Atoi(row)
			return ptr(fmt.Sprint(n + 1))
		})})
		return
	}
	f := w.fold()
	w.say(name, "Aggregate")
	t := millrace.Aggregate(grouped, f.start, f.dsl, serde.String, on(r, name)...)
	w.outTable(name, tablePlace{t: t, initial: true, m: in.m.fold(&f.init, false, func(r modelRecord, row string) *string { return ptr(f.add(r, row)) })})
}

func (w *world) windowResult(name string, t millrace.Table[window.Key[string], string], late stream, m *modelWindowed, waitMs int64) {
	w.outWindows(name, windowPlace{t: t, m: m.table, waitMs: waitMs, final: m.onClose})
	if !w.settled {
		w.out("late-"+name, place{late, m.late})
	}
}

// closing draws whether a windowed step sends final results alone.
func (w *world) closing(r *rand.Rand, opts []millrace.StepOption) ([]millrace.StepOption, bool) {
	if w.settled || r.IntN(2) == 0 {
		return opts, false
	}
	return append(opts, millrace.EmitOnClose()), true
}

func timeWindowStep(w *world, r *rand.Rand, name string) {
	in := w.keyed(r, name)
	spec := modelWindows{size: 5 + r.Int64N(20), grace: w.grace(r)}
	spec.advance = spec.size
	if r.IntN(2) == 0 {
		spec.advance = 2 + r.Int64N(spec.size-1)
	}
	opts, onClose := w.closing(r, on(r, name))
	w.say(name, "AggregateWindows %+v, on close: %v", spec, onClose)
	f := w.fold()
	hopping := window.Hopping(millis(spec.size), millis(spec.advance)).Grace(millis(spec.grace))
	t, late := millrace.AggregateWindows(in.s.GroupByKey(textKey, textValue).WindowBy(hopping), f.start, f.dsl, serde.String, opts...)
	m := in.m.fixedWindows(name, spec.hopping(), onClose, f)
	w.windowResult(name, t, millrace.MapValues(late, missedOf), m, spec.grace)
}

func slidingStep(w *world, r *rand.Rand, name string) {
	in := w.keyed(r, name)
	diff, grace := r.Int64N(21), int64(forever)
	if !w.settled {
		// A record is late for all windows that hold it, or for none: what is in a window that is made of the others around it is
		// open if some of those have missed records.
		grace = 1000
	}
	opts, onClose := w.closing(r, on(r, name))
	w.say(name, "AggregateWindows sliding %d grace %d, on close: %v", diff, grace, onClose)
	f := w.fold()
	grouped := in.s.GroupByKey(textKey, textValue).WindowBy(window.Sliding(millis(diff)).Grace(millis(grace)))
	t, late := millrace.AggregateWindows(grouped, f.start, f.dsl, serde.String, opts...)
	m := in.m.sliding(name, diff, grace, onClose, f)
	w.windowResult(name, t, millrace.MapValues(late, lateRecordOf), m, grace+1)
}

func lateJoinOf(l window.LateJoin[string, string]) string {
	return lateJoinText(l.OfRight, l.Left+l.Right, l.ObservedTimeMs)
}

func lateJoinText(ofRight bool, v string, observedMs int64) string {
	return fmt.Sprintf("late %s of right %v at %d", v, ofRight, observedMs)
}

func streamJoinStep(w *world, r *rand.Rand, name string) {
	left := w.keyed(r, name+"-l")
	right := w.keyed(r, name+"-r")
	self := r.IntN(4) == 0
	if self {
		right = left
	} else if left.m == right.m {
		right = place{w.streams[0].s, w.streams[0].m}
		if left.m == right.m {
			right = w.streams[1]
		}
	}
	before, after, grace := r.Int64N(15), r.Int64N(15), w.grace(r)
	kind := 0 // the others send what is unmatched when time has passed
	if !w.settled {
		kind = r.IntN(3)
	}
	verb := []string{"JoinStreams", "LeftJoinStreams", "OuterJoinStreams"}[kind]
	w.say(name, "%s before %d after %d grace %d, of a stream with itself: %v", verb, before, after, grace, self)
	within := window.Within(0).Before(millis(before)).After(millis(after)).Grace(millis(grace))
	opts := on(r, name, textKey, textValue, millrace.WithOtherValue(serde.String))
	join := func(l string, okL bool, rv string, okR bool) string {
		if !okL {
			l = "null"
		}
		if !okR {
			rv = "null"
		}
		return l + "-" + rv
	}
	var s stream
	var late millrace.Stream[string, window.LateJoin[string, string]]
	switch kind {
	case 0:
		s, late = millrace.JoinStreams(left.s, right.s, within, func(l, r string) string { return join(l, true, r, true) }, opts...)
	case 1:
		s, late = millrace.LeftJoinStreams(left.s, right.s, within, func(l, r string, ok bool) string { return join(l, true, r, ok) }, opts...)
	case 2:
		s, late = millrace.OuterJoinStreams(left.s, right.s, within, join, opts...)
	}
	m, modelLate := joinModelStreams(name, left.m, right.m, &streamJoinModel{
		before: before, after: after, grace: grace + w.flaw, keepLeft: kind > 0, keepRight: kind > 1, self: self, now: -1,
	})
	w.out("out-"+name, place{s, m})
	if !w.settled {
		w.out("late-"+name, place{millrace.MapValues(late, lateJoinOf), modelLate})
	}
}

// joinModelStreams puts the model of stream-stream joins behind two streams.
func joinModelStreams(name string, l, r *modelStream, j *streamJoinModel) (out, late *modelStream) {
	l.task.join(r.task)
	out = &modelStream{m: l.m, task: l.task, upstream: append(append([]*modelRepartition(nil), l.upstream...), r.upstream...)}
	late = &modelStream{m: l.m, task: l.task, upstream: out.upstream}
	j.send = func(key, lv, rv string, ts int64) {
		rec := modelRecord{key: key, value: lv + "-" + rv, tsMs: ts}
		if key == "~" {
			rec.key, rec.nullKey = "", true
		}
		out.send(rec)
	}
	for side, in := range []*modelStream{l, r} {
		step := name + []string{"-this-windowed", "-other-windowed"}[side]
		in.followers = append(in.followers, func(rec modelRecord) {
			key, value := rec.key, rec.value
			if rec.nullKey {
				key = "~"
			}
			if rec.nullValue {
				value = "~"
			}
			before := len(j.late)
			nulls := j.nulls[side]
			j.take(side, key, value, rec.tsMs)
			if j.nulls[side] > nulls {
				reason := "null-value"
				if rec.nullKey {
					reason = "null-key"
				}
				l.m.drop(step, reason, 1)
			}
			if len(j.late) > before {
				l.m.drop(step, "late", 1)
				rec.value = lateJoinText(side == 1, rec.value, j.now)
				late.send(rec)
			}
		})
	}
	return out, late
}
