package milltest_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/window"
)

// This file is what windowed steps compute, from the definitions of their windows: all records are kept, and looked at again
// each time.

// spanText is a key in a window, as text.
func spanText(key string, startMs, endMs int64) string {
	return fmt.Sprintf("%s[%d,%d", key, startMs, endMs)
}

func keyText(k window.Key[string]) string { return spanText(k.Key, k.Window.StartMs, k.Window.EndMs) }

// spanOf takes spanText apart.
func spanOf(text string) (key string, startMs, endMs int64) {
	key, span, _ := strings.Cut(text, "[")
	if _, err := fmt.Sscanf(span, "%d,%d", &startMs, &endMs); err != nil {
		panic(err) // no key in a window: a fault of the model
	}
	return key, startMs, endMs
}

// missedText is a late record with the windows that it missed.
func missedText(v string, null bool, observedMs int64, missed []string, accepted bool) string {
	return fmt.Sprintf("late %s %v %d %v %v", v, null, observedMs, missed, accepted)
}

// missedOf is missedText of what the DSL sends.
func missedOf(l window.Late[string]) string {
	var missed []string
	for _, w := range l.Missed {
		missed = append(missed, spanText("", w.StartMs, w.EndMs))
	}
	return missedText(l.Value, l.NullValue, l.ObservedTimeMs, missed, l.Accepted)
}

// modelSpan is a window of a key, with the records in it in the order of their arrival.
type modelSpan struct {
	key        string
	start, end int64
	records    []modelRecord
	value      string
	left       bool // its final result has left
}

func (s *modelSpan) text() string { return spanText(s.key, s.start, s.end) }

// latest is the highest timestamp of its records.
func (s *modelSpan) latest() int64 {
	ts := int64(-1)
	for _, r := range s.records {
		ts = max(ts, r.tsMs)
	}
	return ts
}

// modelFold is how an aggregate is made.
type modelFold struct {
	init  string
	add   func(r modelRecord, agg string) string
	merge func(agg, other string) string // of sessions
}

func (f modelFold) of(records []modelRecord) string {
	agg := f.init
	for _, r := range records {
		agg = f.add(r, agg)
	}
	return agg
}

// modelWindowed is a windowed step: its table, its late records and what it has dropped.
type modelWindowed struct {
	step     string
	m        *model
	table    *modelTable
	late     *modelStream
	onClose  bool
	observed int64
	*modelSpans
}

// modelSpans is what the inputs of a windowed step have in common.
type modelSpans struct {
	spans []*modelSpan
	all   []modelRecord // of sliding windows: those that some window has taken
	// highest is the end of the latest session.
	highest int64
}

func (s *modelStream) windowed(step string, onClose bool) *modelWindowed {
	w := &modelWindowed{step: step, m: s.m, onClose: onClose, observed: -1, modelSpans: new(modelSpans)}
	w.table = s.newTable(func(text string) (modelRow, bool) {
		for _, x := range w.spans {
			if x.text() == text {
				return modelRow{x.value, x.latest()}, true
			}
		}
		return modelRow{}, false
	})
	w.table.windows = true
	w.late = &modelStream{m: s.m, task: s.task, upstream: s.upstream}
	return w
}

// miss sends a record that has missed windows to the late stream.
func (w *modelWindowed) miss(r modelRecord, missed []string, accepted bool) {
	if len(missed) == 0 {
		return
	}
	w.m.drop(w.step, "late", len(missed))
	r.value, r.nullValue = missedText(r.value, r.nullValue, w.observed, missed, accepted), false
	w.late.send(r)
}

// close sends the results of windows that have closed, in an order. It is for those who send nothing else.
func (w *modelWindowed) close(closed func(*modelSpan) bool, order func(a, b *modelSpan) int, tsMs func(*modelSpan) int64) {
	if !w.onClose {
		return
	}
	var due []*modelSpan
	for _, x := range w.spans {
		if !x.left && closed(x) {
			x.left = true
			due = append(due, x)
		}
	}
	slices.SortFunc(due, order)
	for _, x := range due {
		w.table.send(x.text(), modelChange{is: ptr(x.value), tsMs: tsMs(x)})
	}
}

func (w *modelWindowed) update(x *modelSpan, was *string, tsMs int64) {
	if !w.onClose {
		w.table.send(x.text(), modelChange{was: was, is: ptr(x.value), tsMs: tsMs})
	}
}

func (w *modelWindowed) find(key string, start int64) *modelSpan {
	for _, x := range w.spans {
		if x.key == key && x.start == start {
			return x
		}
	}
	return nil
}

func byStart(a, b *modelSpan) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.key, b.key))
}

// modelKind is windows that lie fixed on the time line, [start, end).
type modelKind struct {
	grace int64
	at    func(tsMs int64) []modelSpan // in the order of their starts
}

// hopping are windows one of which starts every advance.
func (w modelWindows) hopping() modelKind {
	return modelKind{w.grace, func(tsMs int64) (in []modelSpan) {
		for start := int64(0); start <= tsMs; start += w.advance {
			if start+w.size > tsMs {
				in = append(in, modelSpan{start: start, end: start + w.size})
			}
		}
		return in
	}}
}

// fixedWindows aggregates by windows of a kind.
func (s *modelStream) fixedWindows(step string, kind modelKind, onClose bool, f modelFold) *modelWindowed {
	out := s.windowed(step, onClose)
	s.followers = append(s.followers, func(r modelRecord) { out.takeTime(r, kind, f) })
	return out
}

func (w *modelWindowed) takeTime(r modelRecord, kind modelKind, f modelFold) {
	if r.nullKey {
		w.m.drop(w.step, "null-key", 1)
		return
	}
	w.observed = max(w.observed, r.tsMs)
	closed := func(end int64) bool { return end <= w.observed-kind.grace }
	w.close(func(x *modelSpan) bool { return closed(x.end) }, byStart, (*modelSpan).latest)
	var missed []string
	accepted := false
	in := kind.at(r.tsMs)
	if len(in) == 0 {
		w.m.drop(w.step, "no-window", 1)
	}
	for _, x := range in {
		start, end := x.start, x.end
		switch {
		case closed(end):
			missed = append(missed, spanText("", start, end))
		default:
			accepted = true
			x := w.find(r.key, start)
			was := f.init
			if x == nil {
				x = &modelSpan{key: r.key, start: start, end: end}
				w.spans = append(w.spans, x)
			} else {
				was = x.value
			}
			x.records = append(x.records, r)
			x.value = f.of(x.records)
			w.update(x, &was, x.latest())
		}
	}
	w.miss(r, missed, accepted)
}

// sliding are windows of all records of a key that are at most diff apart. A window [t-diff, t] ends at each record's
// timestamp t (or it is [0, diff], if t is below diff), and [t+1, t+1+diff] is there as soon as it holds a record.
func (s *modelStream) sliding(step string, diff, grace int64, onClose bool, f modelFold) *modelWindowed {
	w := s.windowed(step, onClose)
	s.followers = append(s.followers, func(r modelRecord) { w.takeSliding(r, diff, grace, f) })
	return w
}

func (w *modelWindowed) takeSliding(r modelRecord, diff, grace int64, f modelFold) {
	switch {
	case r.nullKey:
		w.m.drop(w.step, "null-key", 1)
		return
	case r.nullValue:
		w.m.drop(w.step, "null-value", 1)
		return
	}
	w.observed = max(w.observed, r.tsMs)
	closed := func(end int64) bool { return end+grace < w.observed }
	w.close(func(x *modelSpan) bool { return closed(x.end) }, byStart, (*modelSpan).latest)
	t := r.tsMs
	if closed(t + diff) {
		w.lateRecord(r)
		return
	}
	var mine []modelRecord // of the key, those before r in time first
	before := int64(-1)
	for _, x := range w.all {
		if x.key == r.key {
			mine = append(mine, x)
			if x.tsMs < t {
				before = max(before, x.tsMs)
			}
		}
	}
	isNew := w.find(r.key, before+1) == nil
	holds := func(from, to int64) bool {
		return slices.ContainsFunc(mine, func(x modelRecord) bool { return from <= x.tsMs && x.tsMs <= to })
	}
	// The starts of the windows that hold the record, or are there from now on because of it, in the order in which they are
	// sent on.
	var starts []int64
	for _, x := range w.spans {
		if x.key == r.key && x.start <= t && t <= x.end && (t >= diff || x.start > 0) {
			starts = append(starts, x.start)
		}
	}
	slices.Sort(starts)
	if t >= diff {
		slices.Reverse(starts)
	}
	var made []int64
	if before >= 0 && before+1+diff >= t {
		made = append(made, before+1)
	}
	own := max(0, t-diff)
	if t >= diff {
		made = append(made, own)
	}
	if holds(t+1, t+1+diff) {
		if t >= diff {
			made = append(made, t+1)
		} else {
			made = append([]int64{t + 1}, made...)
		}
	}
	if t < diff {
		made = append(made, 0) // the shared one comes last, there or not
	}
	for _, start := range made {
		if !slices.Contains(starts, start) && (start <= t || w.find(r.key, start) == nil) {
			starts = append(starts, start)
		}
	}
	missed := false
	accepted := false
	for _, start := range starts {
		x := w.find(r.key, start)
		if closed(start + diff) {
			missed = true
			continue
		}
		var was *string
		if x == nil {
			x = &modelSpan{key: r.key, start: start, end: start + diff}
			w.spans = append(w.spans, x)
		} else {
			was = ptr(x.value)
		}
		if start <= t {
			accepted = true
		}
		x.records = nil
		for _, other := range mine {
			if start <= other.tsMs && other.tsMs <= x.end {
				x.records = append(x.records, other)
			}
		}
		if start <= t {
			x.records = append(x.records, r)
		}
		x.value = f.of(x.records)
		w.update(x, was, x.latest())
		if before >= 0 && start == own && start == before+1 && isNew && (before < diff || holds(before-diff, before-1)) {
			// The window behind the record before is that of the record itself: it is sent as both, if the record before is seen in a
			// window of its neighbour.
			w.update(x, ptr(x.value), x.latest())
		}
	}
	if accepted {
		w.all = append(w.all, r)
	}
	if missed {
		w.lateRecord(r)
	}
}

// sessions are windows of records each of which follows the one before by at most the gap.
func (s *modelStream) sessions(step string, gap, grace int64, onClose bool, f modelFold) *modelWindowed {
	w := s.windowed(step, onClose)
	s.followers = append(s.followers, func(r modelRecord) { w.takeSession(r, gap, grace, f) })
	return w
}

func (w *modelWindowed) takeSession(r modelRecord, gap, grace int64, f modelFold) {
	if r.nullKey {
		w.m.drop(w.step, "null-key", 1)
		return
	}
	w.observed = max(w.observed, r.tsMs)
	closed := func(end int64) bool { return end+gap+grace < w.observed }
	// In a cogroup another stream may be ahead.
	hidden := func(end int64) bool { return end+gap+grace < max(w.observed, w.highest) }
	endOf := func(x *modelSpan) int64 { return x.end }
	w.close(func(x *modelSpan) bool { return closed(x.end) }, func(a, b *modelSpan) int {
		return cmp.Or(cmp.Compare(a.end, b.end), byStart(a, b))
	}, endOf)
	made := &modelSpan{key: r.key, start: r.tsMs, end: r.tsMs}
	var joined, others []*modelSpan
	for _, x := range w.spans {
		// A session that has closed is final.
		if x.key != r.key || hidden(x.end) || x.end < r.tsMs-gap || x.start > r.tsMs+gap {
			others = append(others, x)
			continue
		}
		joined = append(joined, x)
		made.start, made.end = min(made.start, x.start), max(made.end, x.end)
	}
	if hidden(made.end) {
		w.m.drop(w.step, "late", 1)
		w.lateRecord(r)
		return
	}
	slices.SortFunc(joined, byStart)
	agg := f.init
	for _, x := range joined {
		agg = f.merge(agg, x.value)
		made.records = append(made.records, x.records...)
	}
	made.records = append(made.records, r)
	made.value = f.add(r, agg)
	w.spans = append(others, made)
	w.highest = max(w.highest, made.end)
	var was *string
	for _, x := range joined {
		switch {
		case made.start == made.end: // a session of one moment, hit again
			was = ptr(x.value)
		case !w.onClose:
			w.table.send(x.text(), modelChange{was: ptr(x.value), tsMs: x.end})
		}
	}
	w.update(made, was, made.end)
}

// cogroupWindows aggregates several streams by windows, which they share; each has a time and late records of its own.
func (m *model) cogroupWindows(step string, ins []*modelStream, take func(w *modelWindowed, r modelRecord)) []*modelWindowed {
	first := ins[0].windowed(cogroupStep(step, 0), false)
	all := []*modelWindowed{first}
	for i, in := range ins {
		w := first
		if i > 0 {
			ins[0].task.join(in.task)
			w = in.windowed(cogroupStep(step, i), false)
			w.table, w.modelSpans = first.table, first.modelSpans
			all = append(all, w)
		}
		in.followers = append(in.followers, func(r modelRecord) {
			r.input = i
			take(w, r)
		})
	}
	return all
}

// lateRecord sends a record to the late stream, without the windows that it missed: which sliding windows or sessions there
// would have been depends on how long those that have closed are kept.
func (w *modelWindowed) lateRecord(r modelRecord) {
	r.value, r.nullValue = lateRecordText(r.value, r.nullValue, w.observed), false
	w.late.send(r)
}

func lateRecordText(v string, null bool, observedMs int64) string {
	return fmt.Sprintf("late %s %v %d", v, null, observedMs)
}

// lateRecordOf is lateRecordText of what the DSL sends.
func lateRecordOf(l window.Late[string]) string {
	return lateRecordText(l.Value, l.NullValue, l.ObservedTimeMs)
}
