package milltest_test

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/window"
)

// This file is a stream processor of maps and slices: what a topology must compute, written without a thought for speed,
// state or failures. It has one partition for each topic. The random topologies of random_test.go are declared twice, with
// the DSL and with it.

// modelRecord is a record in the model.
type modelRecord struct {
	key, value         string
	nullKey, nullValue bool
	tsMs               int64
	change             *modelChange // of a table's row, on its way to its group
	input              int          // of a cogroup
}

func (r modelRecord) String() string {
	k, v := r.key, r.value
	if r.nullKey {
		k = "~"
	}
	if r.nullValue {
		v = "~"
	}
	return fmt.Sprintf("%s=%s@%d", k, v, r.tsMs)
}

// model is a topology and its topics.
type model struct {
	seq    int
	topics map[string]*modelTopic
	out    map[string][]string
	// dropped counts the records that a step has dropped for a reason.
	dropped map[modelDrop]int64
}

// modelDrop is a step and why it drops records.
type modelDrop struct{ step, reason string }

func (m *model) drop(step, reason string, n int) { m.dropped[modelDrop{step, reason}] += int64(n) }

// modelTopic is a topic that the topology reads.
type modelTopic struct {
	name    string
	task    *modelTask
	waiting []modelItem
	read    *modelStream
	apply   func(modelRecord) // of a global table
}

type modelItem struct {
	modelRecord
	seq int
}

// modelTask is a sub-topology: the topics that are read side by side. Joining two makes one of them.
type modelTask struct{ merged *modelTask }

func (t *modelTask) root() *modelTask {
	for t.merged != nil {
		t = t.merged
	}
	return t
}

func (t *modelTask) join(other *modelTask) {
	if a, b := t.root(), other.root(); a != b {
		b.merged = a
	}
}

func newModel() *model {
	return &model{topics: make(map[string]*modelTopic), out: make(map[string][]string), dropped: make(map[modelDrop]int64)}
}

// source reads a topic.
func (m *model) source(name string) *modelStream {
	if t := m.topics[name]; t != nil {
		return t.read
	}
	task := &modelTask{}
	s := &modelStream{m: m, task: task}
	m.topics[name] = &modelTopic{name: name, task: task, read: s}
	return s
}

// write appends a record to a topic.
func (m *model) write(topic string, r modelRecord) {
	t := m.topics[topic]
	if t == nil {
		m.out[topic] = append(m.out[topic], r.String())
		return
	}
	if t.apply != nil {
		t.apply(r)
		return
	}
	m.seq++
	t.waiting = append(t.waiting, modelItem{r, m.seq})
}

// pipe writes a record and processes everything that follows from it: the oldest record first, by timestamp and then by the
// order of writing; among the topics of its task by timestamp and then by name.
func (m *model) pipe(topic string, r modelRecord) {
	m.write(topic, r)
	for {
		var oldest, next *modelTopic
		for _, t := range m.topics {
			if len(t.waiting) > 0 && (oldest == nil || t.waiting[0].before(oldest.waiting[0])) {
				oldest = t
			}
		}
		if oldest == nil {
			return
		}
		for _, t := range m.topics {
			if len(t.waiting) == 0 || t.task.root() != oldest.task.root() {
				continue
			}
			if next == nil || t.waiting[0].tsMs < next.waiting[0].tsMs || t.waiting[0].tsMs == next.waiting[0].tsMs && t.name < next.name {
				next = t
			}
		}
		r := next.waiting[0].modelRecord
		next.waiting = next.waiting[1:]
		next.read.send(r)
	}
}

func (a modelItem) before(b modelItem) bool {
	return a.tsMs < b.tsMs || a.tsMs == b.tsMs && a.seq < b.seq
}

// modelStream is a place in the topology. Its followers get each record in the order of their declaration.
type modelStream struct {
	m         *model
	task      *modelTask
	followers []func(modelRecord)
	// upstream are the repartition topics before it.
	upstream []*modelRepartition
}

type modelRepartition struct{ keepsNullKeys bool }

func (s *modelStream) send(r modelRecord) {
	for _, f := range s.followers {
		f(r)
	}
}

// then adds a step of which f says what it does with a record.
func (s *modelStream) then(f func(r modelRecord, send func(modelRecord))) *modelStream {
	out := &modelStream{m: s.m, task: s.task, upstream: s.upstream}
	s.followers = append(s.followers, func(r modelRecord) { f(r, out.send) })
	return out
}

func (s *modelStream) filter(keep func(k, v string) bool) *modelStream {
	return s.then(func(r modelRecord, send func(modelRecord)) {
		if keep(r.key, r.value) {
			send(r)
		}
	})
}

func (s *modelStream) mapValues(f func(v string) string) *modelStream {
	return s.then(func(r modelRecord, send func(modelRecord)) {
		if !r.nullValue {
			r.value = f(r.value)
		}
		send(r)
	})
}

func (s *modelStream) flatMapValues(f func(v string) []string) *modelStream {
	return s.then(func(r modelRecord, send func(modelRecord)) {
		if r.nullValue {
			send(r)
			return
		}
		for _, v := range f(r.value) {
			r.value = v
			send(r)
		}
	})
}

func (s *modelStream) selectKey(f func(k, v string) string) *modelStream {
	return s.then(func(r modelRecord, send func(modelRecord)) {
		r.key, r.nullKey = f(r.key, r.value), false
		send(r)
	})
}

// split returns a stream for each predicate, and one for the rest.
func (s *modelStream) split(when ...func(k, v string) bool) []*modelStream {
	outs := make([]*modelStream, len(when)+1)
	for i := range outs {
		outs[i] = &modelStream{m: s.m, task: s.task, upstream: s.upstream}
	}
	s.followers = append(s.followers, func(r modelRecord) {
		for i, f := range when {
			if f(r.key, r.value) {
				outs[i].send(r)
				return
			}
		}
		outs[len(when)].send(r)
	})
	return outs
}

func (s *modelStream) merge(other *modelStream) *modelStream {
	out := &modelStream{m: s.m, task: s.task, upstream: append(slices.Clone(s.upstream), other.upstream...)}
	s.task.join(other.task)
	s.followers = append(s.followers, out.send)
	if other != s {
		other.followers = append(other.followers, out.send)
	}
	return out
}

func (s *modelStream) to(topic string) {
	s.followers = append(s.followers, func(r modelRecord) { s.m.write(topic, r) })
}

func (s *modelStream) repartition(topic string) *modelStream {
	rep := &modelRepartition{}
	s.followers = append(s.followers, func(r modelRecord) {
		if !r.nullKey || rep.keepsNullKeys {
			s.m.write(topic, r)
		}
	})
	out := s.m.source(topic)
	out.upstream = append(slices.Clone(s.upstream), rep)
	return out
}

// modelTable is a table whose rows are kept.
type modelTable struct {
	s       *modelStream // where it stands
	lookup  func(key string) (modelRow, bool)
	changes []func(key string, c modelChange)
	// windows says that the keys are spanText; sessions that their ends come first in their bytes.
	windows, sessions bool
}

type modelRow struct {
	value string
	tsMs  int64
}

// modelChange is an update; a missing side is nil.
type modelChange struct {
	was, is *string
	tsMs    int64
}

func (s *modelStream) newTable(lookup func(key string) (modelRow, bool)) *modelTable {
	return &modelTable{s: &modelStream{m: s.m, task: s.task, upstream: s.upstream}, lookup: lookup}
}

func (t *modelTable) send(key string, c modelChange) {
	for _, f := range t.changes {
		f(key, c)
	}
}

// fold makes a table by a function of the row that stands, or the initial one; a nil result deletes.
func (s *modelStream) fold(initial *string, withNulls bool, f func(r modelRecord, row string) *string) *modelTable {
	rows := make(map[string]modelRow)
	t := s.newTable(func(key string) (modelRow, bool) {
		row, ok := rows[key]
		return row, ok
	})
	s.followers = append(s.followers, func(r modelRecord) {
		if r.nullKey || r.nullValue && !withNulls {
			return
		}
		c := modelChange{was: initial, tsMs: r.tsMs}
		row, ok := rows[r.key]
		if ok {
			c.was, c.tsMs = &row.value, max(r.tsMs, row.tsMs)
		} else if initial != nil {
			row.value = *initial
		}
		if c.is = f(r, row.value); c.is == nil {
			delete(rows, r.key)
		} else {
			rows[r.key] = modelRow{*c.is, c.tsMs}
		}
		t.send(r.key, c)
	})
	return t
}

// latest is the table of the last value of each key; a null deletes. Its rows carry the last timestamp, not the highest.
func (s *modelStream) latest() *modelTable {
	rows := make(map[string]modelRow)
	t := s.newTable(func(key string) (modelRow, bool) {
		row, ok := rows[key]
		return row, ok
	})
	s.followers = append(s.followers, func(r modelRecord) {
		if r.nullKey {
			return
		}
		c := modelChange{tsMs: r.tsMs}
		if row, ok := rows[r.key]; ok {
			c.was = &row.value
		}
		delete(rows, r.key)
		if !r.nullValue {
			c.is = &r.value
			rows[r.key] = modelRow{r.value, r.tsMs}
		}
		t.send(r.key, c)
	})
	return t
}

// derive makes a table of another by a function of a row; ok false means no row. A stored one knows its rows by itself: what
// stood before is what it has, and not what the function makes of what stood before in the other.
func (t *modelTable) derive(filter, stored bool, f func(k, v string) (string, bool)) *modelTable {
	side := func(k string, v *string) *string {
		if v == nil {
			return nil
		}
		out, ok := f(k, *v)
		if !ok {
			return nil
		}
		return &out
	}
	rows := make(map[string]modelChange) // of a stored one
	out := t.s.newTable(func(key string) (modelRow, bool) {
		if stored {
			c := rows[key]
			if c.is == nil {
				return modelRow{}, false
			}
			return modelRow{*c.is, c.tsMs}, true
		}
		row, ok := t.lookup(key)
		if !ok {
			return row, false
		}
		v := side(key, &row.value)
		if v == nil {
			return modelRow{}, false
		}
		return modelRow{*v, row.tsMs}, true
	})
	t.changes = append(t.changes, func(key string, c modelChange) {
		c = modelChange{was: side(key, c.was), is: side(key, c.is), tsMs: c.tsMs}
		if stored {
			c.was = rows[key].is
			rows[key] = c
		}
		if filter && c.was == nil && c.is == nil {
			return
		}
		out.send(key, c)
	})
	return out
}

func (t *modelTable) toStream() *modelStream {
	out := &modelStream{m: t.s.m, task: t.s.task, upstream: t.s.upstream}
	t.changes = append(t.changes, func(key string, c modelChange) {
		r := modelRecord{key: key, tsMs: c.tsMs, nullValue: c.is == nil}
		if c.is != nil {
			r.value = *c.is
		}
		out.send(r)
	})
	return out
}

// lookUp joins each record with a row; found says whether there is one.
func (s *modelStream) lookUp(left bool, row func(r modelRecord) (string, bool), join func(v, row string, found bool) string) *modelStream {
	if left {
		for _, rep := range s.upstream {
			rep.keepsNullKeys = true
		}
	}
	return s.then(func(r modelRecord, send func(modelRecord)) {
		if r.nullValue {
			return
		}
		v, found := row(r)
		if !found && !left {
			return
		}
		r.value = join(r.value, v, found)
		send(r)
	})
}

func (s *modelStream) joinTable(t *modelTable, left bool, join func(v, row string, found bool) string) *modelStream {
	s.task.join(t.s.task)
	return s.lookUp(left, func(r modelRecord) (string, bool) {
		if r.nullKey {
			return "", false
		}
		row, ok := t.lookup(r.key)
		return row.value, ok
	}, join)
}

// global makes a table that every task can read.
func (m *model) global(topic string) map[string]string {
	rows := make(map[string]string)
	m.topics[topic] = &modelTopic{name: topic, task: &modelTask{}, apply: func(r modelRecord) {
		switch {
		case r.nullKey:
		case r.nullValue:
			delete(rows, r.key)
		default:
			rows[r.key] = r.value
		}
	}}
	return rows
}

// modelWindows are windows of a size, one of which starts every advance.
type modelWindows struct{ size, advance, grace int64 }

// windows aggregates by key and window. It returns the updates as a stream of text keys, and the late records.
func (s *modelStream) windows(w modelWindows, f func(r modelRecord, row string) string) (updates, late *modelStream) {
	updates = &modelStream{m: s.m, task: s.task, upstream: s.upstream}
	late = &modelStream{m: s.m, task: s.task, upstream: s.upstream}
	rows := make(map[string]modelRow)
	observed := int64(-1)
	s.followers = append(s.followers, func(r modelRecord) {
		if r.nullKey {
			return
		}
		observed = max(observed, r.tsMs)
		var missed []int64
		accepted := false
		for start := int64(0); start <= r.tsMs; start += w.advance {
			if start+w.size <= r.tsMs {
				continue
			}
			if start+w.size+w.grace <= observed {
				missed = append(missed, start)
				continue
			}
			accepted = true
			key := windowText(r.key, start)
			row, ok := rows[key]
			tsMs := r.tsMs
			if ok {
				tsMs = max(tsMs, row.tsMs)
			}
			row = modelRow{f(r, row.value), tsMs}
			rows[key] = row
			updates.send(modelRecord{key: key, value: row.value, tsMs: tsMs})
		}
		if missed != nil {
			r.value = lateText(r.value, r.nullValue, observed, missed, accepted)
			r.nullValue = false
			late.send(r)
		}
	})
	return updates, late
}

func windowText(key string, startMs int64) string { return fmt.Sprintf("%s[%d", key, startMs) }

func lateText(v string, null bool, observedMs int64, missed []int64, accepted bool) string {
	return fmt.Sprintf("late %s %v %d %v %v", v, null, observedMs, missed, accepted)
}

// lateOf is lateText of what the DSL sends.
func lateOf(l window.Late[string]) string {
	var missed []int64
	for _, w := range l.Missed {
		missed = append(missed, w.StartMs)
	}
	return lateText(l.Value, l.NullValue, l.ObservedTimeMs, missed, l.Accepted)
}

// hash is a number that depends on all texts and their order.
func hash(texts ...string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.Join(texts, "\x00")))
	return h.Sum32()
}
