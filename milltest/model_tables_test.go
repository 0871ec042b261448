package milltest_test

import (
	"cmp"
	"fmt"
	"slices"
)

// This file is what steps over tables compute.

// modelTableJoin says which sides a joined row needs.
type modelTableJoin struct {
	name                string
	needLeft, needRight bool
	join                func(l, r *string) string
}

// joinTable joins two tables by key: a joined row is there while both sides are, as far as they are needed, and one at least.
func (t *modelTable) joinTable(right *modelTable, kind modelTableJoin) *modelTable {
	t.s.task.join(right.s.task)
	sent := make(map[string]modelRow) // the joined rows
	out := t.s.newTable(func(key string) (modelRow, bool) {
		row, ok := sent[key]
		return row, ok
	})
	row := func(l, r *string) *string {
		if l == nil && (kind.needLeft || r == nil) || r == nil && kind.needRight {
			return nil
		}
		return ptr(kind.join(l, r))
	}
	update := func(key string, own modelChange, needOther bool, other *modelTable, rowOf func(own, other *string) *string) {
		there, ok := other.lookup(key)
		var o *string
		ts := own.tsMs
		switch {
		case ok:
			o, ts = &there.value, max(ts, there.tsMs)
		case needOther:
			// A row of two tables that come from one loses both sides at once: the side that is told first says so.
			if _, had := sent[key]; !had || own.is != nil || !(kind.needLeft && kind.needRight) {
				return
			}
		case own.is == nil && own.was == nil:
			return // there was no row, and there is none
		}
		c := modelChange{is: rowOf(own.is, o), tsMs: ts}
		if was, ok := sent[key]; ok {
			c.was = &was.value
		}
		delete(sent, key)
		if c.is != nil {
			sent[key] = modelRow{*c.is, ts}
		}
		out.send(key, c)
	}
	t.changes = append(t.changes, func(key string, c modelChange) {
		update(key, c, kind.needRight, right, row)
	})
	right.changes = append(right.changes, func(key string, c modelChange) {
		update(key, c, kind.needLeft, t, func(own, other *string) *string { return row(other, own) })
	})
	return out
}

// modelTableFold is how the rows of a group are aggregated.
type modelTableFold struct {
	init     string
	add, sub func(v, agg string) string
}

// group puts the rows into groups, through a topic, and aggregates those: a row that changes is taken out as it was and put in
// as it is.
func (t *modelTable) group(topic string, group func(k, v string) (string, string), f modelTableFold) *modelTable {
	send := func(key string, c modelChange) { t.s.m.write(topic, modelRecord{key: key, tsMs: c.tsMs, change: &c}) }
	t.changes = append(t.changes, func(key string, c modelChange) {
		var was, is, from, to string
		out := modelChange{tsMs: c.tsMs}
		if c.was != nil {
			from, was = group(key, *c.was)
			out.was = &was
		}
		if c.is != nil {
			to, is = group(key, *c.is)
			out.is = &is
		}
		switch {
		case c.was != nil && c.is != nil && from == to, c.was == nil && c.is != nil:
			send(to, out)
		case c.was != nil:
			send(from, modelChange{was: out.was, tsMs: c.tsMs})
			if c.is != nil {
				send(to, modelChange{is: out.is, tsMs: c.tsMs})
			}
		}
	})
	in := t.s.m.source(topic)
	rows := make(map[string]modelRow)
	out := in.newTable(func(key string) (modelRow, bool) {
		row, ok := rows[key]
		return row, ok
	})
	in.followers = append(in.followers, func(r modelRecord) {
		c := modelChange{tsMs: r.tsMs}
		row, ok := rows[r.key]
		if ok {
			c.was, c.tsMs = ptr(row.value), max(r.tsMs, row.tsMs)
			if r.change.was != nil {
				row.value = f.sub(*r.change.was, row.value)
			}
		} else {
			row.value = f.init
		}
		if r.change.is != nil {
			row.value = f.add(*r.change.is, row.value)
		}
		// A group that has lost its last row stays.
		if ok || r.change.is != nil {
			rows[r.key] = modelRow{row.value, c.tsMs}
			c.is = ptr(row.value)
		}
		out.send(r.key, c)
	})
	return out
}

// joinForeign joins each row of a table with the row of another one that it refers to. What comes out is right in the end, and
// not what is sent on the way.
func (t *modelTable) joinForeign(right *modelTable, left bool, refers func(k, v string) (string, bool), join func(l string, r *string) string) *modelTable {
	mine := make(map[string]string)
	sent := make(map[string]modelRow)
	out := t.s.newTable(func(key string) (modelRow, bool) {
		row, ok := sent[key]
		return row, ok
	})
	refresh := func(key string, tsMs int64) {
		c := modelChange{tsMs: tsMs}
		if was, ok := sent[key]; ok {
			c.was = &was.value
		}
		if l, ok := mine[key]; ok {
			var r *string
			if fk, ok := refers(key, l); ok {
				if row, ok := right.lookup(fk); ok {
					r = &row.value
				}
			}
			if r != nil || left {
				c.is = ptr(join(l, r))
			}
		}
		delete(sent, key)
		if c.is != nil {
			sent[key] = modelRow{*c.is, tsMs}
		}
		if c.is != nil || c.was != nil {
			out.send(key, c)
		}
	}
	t.changes = append(t.changes, func(key string, c modelChange) {
		delete(mine, key)
		if c.is != nil {
			mine[key] = *c.is
		}
		refresh(key, c.tsMs)
	})
	right.changes = append(right.changes, func(fk string, c modelChange) {
		var keys []string
		for key, l := range mine {
			if of, ok := refers(key, l); ok && of == fk {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			refresh(key, c.tsMs)
		}
	})
	return out
}

// modelVersion is what a key had from a time on.
type modelVersion struct {
	key   string
	tsMs  int64
	value *string
}

// modelVersions is a table that can be asked what it was, as far back as its history goes.
type modelVersions struct {
	all      []modelVersion // in the order of arrival
	observed int64
	history  int64
}

func (v *modelVersions) take(step string, m *model) func(modelRecord) {
	v.observed = -1
	return func(r modelRecord) {
		if r.nullKey {
			m.drop(step, "null-key", 1)
			return
		}
		v.observed = max(v.observed, r.tsMs)
		if r.tsMs < v.observed-v.history {
			return
		}
		x := modelVersion{key: r.key, tsMs: r.tsMs}
		if !r.nullValue {
			x.value = ptr(r.value)
		}
		v.all = append(v.all, x)
	}
}

// asOf is the row that a key had at a time. What the latest version says is never forgotten.
func (v *modelVersions) asOf(key string, tsMs int64) (string, bool) {
	var found, latest *modelVersion
	for i := range v.all {
		x := &v.all[i]
		if x.key != key {
			continue
		}
		if latest == nil || x.tsMs >= latest.tsMs {
			latest = x
		}
		if x.tsMs <= tsMs && (found == nil || x.tsMs >= found.tsMs) {
			found = x
		}
	}
	if found == nil || found.value == nil || found != latest && tsMs < v.observed-v.history {
		return "", false
	}
	return *found.value, true
}

// joinVersions joins a stream with a table as it was at the records' timestamps. With a grace of 0 or more the records wait
// first until time has passed them by that.
func (s *modelStream) joinVersions(v *modelVersions, wait int64, left bool, join func(v, row string, found bool) string) *modelStream {
	if wait < 0 {
		return s.lookUp(left, func(r modelRecord) (string, bool) {
			if r.nullKey {
				return "", false
			}
			return v.asOf(r.key, r.tsMs)
		}, join)
	}
	ready := &modelStream{m: s.m, task: s.task, upstream: s.upstream}
	out := ready.joinVersions(v, -1, left, join)
	observed := int64(-1)
	var waiting []modelRecord
	s.followers = append(s.followers, func(r modelRecord) {
		if r.nullKey || r.nullValue || r.tsMs < observed-wait {
			ready.send(r)
			return
		}
		observed = max(observed, r.tsMs)
		waiting = append(waiting, r)
		slices.SortStableFunc(waiting, func(a, b modelRecord) int {
			return cmp.Or(cmp.Compare(a.tsMs, b.tsMs), cmp.Compare(a.key, b.key))
		})
		for len(waiting) > 0 && waiting[0].tsMs <= observed-wait {
			r := waiting[0]
			waiting = waiting[1:]
			ready.send(r)
		}
	})
	return out
}

// cogroup aggregates several streams into one table, each with a function of its own.
func (m *model) cogroup(step string, ins []*modelStream, f modelFold) *modelTable {
	for _, in := range ins[1:] {
		ins[0].task.join(in.task)
	}
	both := &modelStream{m: m, task: ins[0].task}
	for i, in := range ins {
		in.followers = append(in.followers, func(r modelRecord) {
			if r.nullKey {
				m.drop(cogroupStep(step, i), "null-key", 1)
			} else if r.nullValue {
				m.drop(cogroupStep(step, i), "null-value", 1)
			}
			r.input = i
			both.send(r)
		})
	}
	return both.fold(&f.init, false, func(r modelRecord, row string) *string { return ptr(f.add(r, row)) })
}

func cogroupStep(step string, input int) string { return fmt.Sprintf("%s-cogroup-agg-%d", step, input) }
