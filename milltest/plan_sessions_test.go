package milltest_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// This file is the steps over sessions and cogroups.

func sessionStep(w *world, r *rand.Rand, name string) {
	in := w.keyed(r, name)
	gap, grace := 1+r.Int64N(15), w.grace(r)
	opts, onClose := w.closing(r, on(r, name))
	w.say(name, "AggregateSessions gap %d grace %d, on close: %v", gap, grace, onClose)
	f := w.fold()
	merge := func(_, a, b string) string { return f.merge(a, b) }
	grouped := in.s.GroupByKey(textKey, textValue).SessionBy(window.Session(millis(gap)).Grace(millis(grace)))
	t, late := millrace.AggregateSessions(grouped, f.start, f.dsl, merge, serde.String, opts...)
	m := in.m.sessions(name, gap, grace+w.flaw, onClose, f)
	m.table.sessions = true
	w.windowResult(name, t, millrace.MapValues(late, lateRecordOf), m, gap+grace+1)
}

// cogroupPlace is a stream of a cogroup, as it is grouped.
type cogroupPlace struct {
	place
	group millrace.Grouped[string, string]
}

// cogroup draws a cogroup, and what its fold is in the model: that of a record depends on its stream.
func (w *world) cogroup(r *rand.Rand, name string) (c millrace.Cogrouped[string, string], ins []cogroupPlace, fold modelFold) {
	var adds []func(modelRecord, string) string
	fold = w.fold()
	for i := range 2 + r.IntN(2) {
		in := w.keyed(r, fmt.Sprintf("%s-%d", name, i))
		for _, other := range ins {
			if other.m == in.m {
				in = place{in.s.Filter(func(_, _ string) bool { return true }), in.m.filter(func(_, _ string) bool { return true })}
			}
		}
		f := w.fold()
		add := func(rec modelRecord, a string) string {
			rec.value = fmt.Sprint(i, rec.value)
			return f.add(rec, a)
		}
		adds = append(adds, add)
		dsl := func(k, v, a string) string { return add(modelRecord{key: k, value: v}, a) }
		group := in.s.GroupByKey(textKey, textValue)
		ins = append(ins, cogroupPlace{in, group})
		if i == 0 {
			c = millrace.Cogroup(group, dsl)
		} else {
			c = millrace.AndCogroup(c, group, dsl)
		}
	}
	fold.add = func(rec modelRecord, a string) string { return adds[rec.input](rec, a) }
	return c, ins, fold
}

func cogroupStepOf(w *world, r *rand.Rand, name string) {
	c, ins, f := w.cogroup(r, name)
	var models []*modelStream
	for _, in := range ins {
		models = append(models, in.m)
	}
	w.say(name, "Cogroup of %d streams", len(ins))
	t := c.Aggregate(f.start, serde.String, on(r, name)...)
	w.outTable(name, tablePlace{t: t, m: w.m.cogroup(name, models, f), initial: true})
}
