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
	w.windowResult(name, t, millrace.MapValues(late, lateRecordOf), m, gap+grace)
}

func cogroupStepOf(w *world, r *rand.Rand, name string) {
	n := 2 + r.IntN(2)
	var ins []place
	for i := range n {
		in := w.keyed(r, fmt.Sprintf("%s-%d", name, i))
		for _, other := range ins {
			if other.m == in.m {
				in = place{in.s.Filter(func(_, _ string) bool { return true }), in.m.filter(func(_, _ string) bool { return true })}
			}
		}
		ins = append(ins, in)
	}
	var adds []func(modelRecord, string) string
	var models []*modelStream
	var c millrace.Cogrouped[string, string]
	for i, in := range ins {
		f := w.fold()
		add := func(rec modelRecord, a string) string {
			rec.value = fmt.Sprint(i, rec.value)
			return f.add(rec, a)
		}
		adds, models = append(adds, add), append(models, in.m)
		dsl := func(k, v, a string) string { return add(modelRecord{key: k, value: v}, a) }
		if i == 0 {
			c = millrace.Cogroup(in.s.GroupByKey(textKey, textValue), dsl)
		} else {
			c = millrace.AndCogroup(c, in.s.GroupByKey(textKey, textValue), dsl)
		}
	}
	w.say(name, "Cogroup of %d streams", n)
	init := w.fold().init
	t := c.Aggregate(func() string { return init }, serde.String, on(r, name)...)
	w.outTable(name, tablePlace{t: t, m: w.m.cogroup(name, models, init, adds), initial: true})
}
