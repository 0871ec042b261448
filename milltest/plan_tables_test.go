package milltest_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// This file is the kinds of steps over tables.

func textOrNull(v *string) string {
	if v == nil {
		return "null"
	}
	return *v
}

func pointer(v string, ok bool) *string {
	if !ok {
		return nil
	}
	return &v
}

func tableJoinStep(w *world, r *rand.Rand, name string) {
	if w.cached {
		// A row that comes and goes between two flushes of its cache is not sent at all, as in Kafka Streams; an update of the
		// other side may have met it meanwhile, and its result stays.
		foreignKeyStep(w, r, name)
		return
	}
	left, i := w.table(r)
	right, j := w.table(r)
	if i == j {
		j = (i + 1) % tableInputs
		right = w.tables[j]
	}
	kind := modelTableJoin{join: func(l, r *string) string { return textOrNull(l) + "+" + textOrNull(r) }}
	opts := on(r, name, textKey, textValue)
	var t millrace.Table[string, string]
	switch r.IntN(3) {
	case 0:
		kind.name, kind.needLeft, kind.needRight = "JoinTables", true, true
		t = millrace.JoinTables(left.t, right.t, func(l, r string) string { return kind.join(&l, &r) }, opts...)
	case 1:
		kind.name, kind.needLeft = "LeftJoinTables", true
		t = millrace.LeftJoinTables(left.t, right.t, func(l, r string, ok bool) string { return kind.join(&l, pointer(r, ok)) }, opts...)
	case 2:
		kind.name = "OuterJoinTables"
		t = millrace.OuterJoinTables(left.t, right.t, func(l string, okL bool, r string, okR bool) string {
			return kind.join(pointer(l, okL), pointer(r, okR))
		}, opts...)
	}
	w.say(name, "%s of tables %d and %d", kind.name, i, j)
	w.outTable(name, tablePlace{t: t, m: left.m.joinTable(right.m, kind), initial: left.initial || right.initial, joined: true})
}

func deriveStep(w *world, r *rand.Rand, name string) {
	i := latest(r, len(w.tables))
	in := w.tables[i]
	opts := on(r, name, textKey, textValue)
	if r.IntN(2) == 0 {
		w.say(name, "Filter of table %d", i)
		if w.cached {
			// A crash can fall between the deletion of a row and its way to the next step. Taken again, the row is gone before and
			// after, and nothing is sent on.
			w.again = false
		}
		keep := some(name, 3)
		m := in.m.derive(true, true, func(k, v string) (string, bool) { return v, keep(k, v) })
		w.outTable(name, tablePlace{t: in.t.Filter(keep, opts...), m: m, hidden: in.hidden, initial: in.initial, joined: in.joined})
		return
	}
	w.say(name, "MapTableValues of table %d", i)
	f := func(v string) string { return "t" + v }
	m := in.m.derive(false, true, func(_, v string) (string, bool) { return f(v), true })
	w.outTable(name, tablePlace{t: millrace.MapTableValues(in.t, f, opts...), m: m, hidden: in.hidden, initial: in.initial, joined: in.joined})
}

// digest is a number of a value, for sums that can be taken back.
func digest(v string) int64 { return 1 + int64(hash(v)%1000) }

func addText(a string, n int64) string {
	sum, _ := strconv.ParseInt(a, 10, 64)
	return fmt.Sprint(sum + n)
}

func groupTableStep(w *world, r *rand.Rand, name string) {
	w.again = false
	f := modelTableFold{
		init: "0",
		add:  func(v, agg string) string { return addText(agg, digest(v)) },
		sub:  func(v, agg string) string { return addText(agg, -digest(v)) },
	}
	init := func() string { return f.init }
	add := func(_, v, agg string) string { return f.add(v, agg) }
	sub := func(_, v, agg string) string { return f.sub(v, agg) }
	group := func(k, v string) (string, string) { return fmt.Sprintf("k%d", hash(name, k, v)%3), v }
	topic := "test-" + name + "-repartition"
	opts := on(r, name)
	if n := len(w.windows); n > 0 && r.IntN(2) == 0 {
		if i := latest(r, n); !w.settled {
			in := w.windows[i]
			w.say(name, "GroupTableBy of windows %d", i)
			g := millrace.GroupTableBy(in.t, func(k window.Key[string], v string) (string, string) { return group(keyText(k), v) }, textKey, textValue)
			w.outTable(name, tablePlace{t: millrace.AggregateTable(g, init, add, sub, serde.String, opts...), m: in.m.group(topic, group, f)})
			return
		}
	}
	i := latest(r, len(w.tables))
	if w.tables[i].initial && (w.settled || w.tables[i].joined) {
		i = r.IntN(tableInputs)
	}
	in := w.tables[i]
	w.say(name, "GroupTableBy of table %d", i)
	g := millrace.GroupTableBy(in.t, group, textKey, textValue)
	t := tablePlace{t: millrace.AggregateTable(g, init, add, sub, serde.String, opts...), m: in.m.group(topic, group, f)}
	if w.settled {
		// With a cache nobody may have seen a group that has come and gone.
		t.t = t.t.Filter(func(_, v string) bool { return v != f.init }, millrace.As(name+"-kept"), textKey, textValue)
		t.m = t.m.derive(true, true, func(_, v string) (string, bool) { return v, v != f.init })
	}
	w.outTable(name, t)
}

func suppressStep(w *world, r *rand.Rand, name string) {
	most, buffer := math.MaxInt, millrace.Unbounded()
	if r.IntN(3) == 0 {
		most = 1 + r.IntN(3)
		buffer = millrace.MaxRecords(int64(most)).EmitEarlyWhenFull()
	}
	opts := on(r, name)
	wait := r.Int64N(30)
	if n := len(w.windows); n > 0 && r.IntN(4) > 0 {
		i := latest(r, n)
		in := w.windows[i]
		if in.final || in.endless || r.IntN(4) == 0 {
			w.say(name, "Suppress windows %d until %d have passed, at most %d", i, wait, most)
			w.outWindows(name, windowPlace{t: in.t.Suppress(millrace.UntilTimeLimit(millis(wait), buffer), opts...), m: in.m.suppress(false, wait+w.flaw, most), final: true})
			return
		}
		w.say(name, "Suppress windows %d until they close", i)
		t := in.t.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), opts...)
		w.outWindows(name, windowPlace{t: t, m: in.m.suppress(true, in.waitMs, math.MaxInt), final: true})
		return
	}
	i := latest(r, len(w.tables))
	in := w.tables[i]
	w.say(name, "Suppress table %d until %d have passed, at most %d", i, wait, most)
	t := in.t.Suppress(millrace.UntilTimeLimit(millis(wait), buffer), opts...)
	w.outTable(name, tablePlace{t: t, m: in.m.suppress(false, wait+w.flaw, most), hidden: true, initial: in.initial, joined: in.joined})
}

func toTableStep(w *world, r *rand.Rand, name string) {
	in := w.keyed(r, name)
	in.m.countNulls(name, false)
	w.say(name, "ToTable")
	w.outTable(name, tablePlace{t: in.s.ToTable(on(r, name, textKey, textValue)...), m: in.m.latest()})
}

func joinText(v, row string, found bool) string {
	if !found {
		row = "null"
	}
	return v + "*" + row
}

func streamTableStep(w *world, r *rand.Rand, name string) {
	in := w.keyed(r, name)
	t, i := w.table(r)
	left := r.IntN(2) == 0
	w.say(name, "join of a stream with table %d, left: %v", i, left)
	inner := func(v, row string) string { return joinText(v, row, true) }
	if left {
		w.out("out-"+name, place{millrace.LeftJoinTable(in.s, t.t, joinText, millrace.As(name)), in.m.joinTable(t.m, true, joinText)})
		return
	}
	w.out("out-"+name, place{millrace.JoinTable(in.s, t.t, inner, millrace.As(name)), in.m.joinTable(t.m, false, joinText)})
}

func versionedStep(w *world, r *rand.Rand, name string) {
	rows := w.keyed(r, name+"-rows")
	in := w.keyed(r, name+"-in")
	if in.m == rows.m {
		keep := some(name, 4)
		in = place{in.s.Filter(keep), in.m.filter(keep)}
	}
	history := 20 + r.Int64N(60)
	left := r.IntN(2) == 0
	wait := int64(-1)
	opts := []millrace.StepOption{millrace.As(name)}
	if r.IntN(2) == 0 {
		wait = r.Int64N(20)
		opts = append(on(r, name, textKey, textValue), millrace.JoinGrace(millis(wait)))
	}
	w.say(name, "join with a versioned table, history %d, left: %v, grace %d", history, left, wait)
	table := rows.s.ToTable(millrace.As(name+"-table"), millrace.Versioned(millis(history)), textKey, textValue)
	versions := &modelVersions{history: history}
	rows.m.followers = append(rows.m.followers, versions.take(name+"-table", w.m))
	in.m.task.join(rows.m.task)
	inner := func(v, row string) string { return joinText(v, row, true) }
	m := in.m.joinVersions(versions, wait, left, joinText)
	if left {
		w.out("out-"+name, place{millrace.LeftJoinTable(in.s, table, joinText, opts...), m})
		return
	}
	w.out("out-"+name, place{millrace.JoinTable(in.s, table, inner, opts...), m})
}

func foreignKeyStep(w *world, r *rand.Rand, name string) {
	w.again = false
	left, i := w.table(r)
	right, j := w.table(r)
	// Behind a cache a right row can go while its left row changes: the answer belongs to the old left row, and the new one asks
	// only for what is there. An inner join keeps its result then, as in Kafka Streams.
	keep := r.IntN(2) == 0 || w.cached
	w.say(name, "foreign-key join of tables %d and %d, left: %v", i, j, keep)
	refers := func(k, v string) (string, bool) {
		n := hash(name, k, v) % 6
		return fmt.Sprintf("k%d", n), n < 5
	}
	join := func(l string, r *string) string { return l + "/" + textOrNull(r) }
	opts := on(r, name, textKey, textValue)
	var t millrace.Table[string, string]
	if keep {
		t = millrace.LeftJoinForeignKey(left.t, right.t, refers, func(l, r string, ok bool) string { return join(l, pointer(r, ok)) }, opts...)
	} else {
		t = millrace.JoinForeignKey(left.t, right.t, refers, func(l, r string) string { return join(l, &r) }, opts...)
	}
	w.outTable(name, tablePlace{t: t, m: left.m.joinForeign(right.m, keep, refers, join), initial: left.initial || right.initial, joined: true})
}
