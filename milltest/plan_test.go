package milltest_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/window"
)

// plan is a random case: a topology and its input, as data, so that parts of it can be left out until only what matters is
// there.
type plan struct {
	drive  planDrive
	steps  []planStep
	events []planEvent
}

// planDrive is how the topology is run.
type planDrive struct {
	partitions int
	cacheBytes int64
	readCache  int64
	onDisk     bool
	manual     bool // commits are events; otherwise each record is one
}

// planStep is one step. What it is in detail, and what it follows, is drawn from its seed. So a step can be left out, and the
// others still have something to follow.
type planStep struct {
	kind int
	no   int // names the step
	seed uint64
}

// planEvent is a record, or something that happens between records.
type planEvent struct {
	topic  string // of a record
	record modelRecord
	what   string // commit, restart, crash, or minute
}

func (p plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run: %+v\n", p.drive)
	for _, e := range p.events {
		if e.what != "" {
			fmt.Fprintf(&b, "  (%s)\n", e.what)
		} else {
			fmt.Fprintf(&b, "  %s: %v\n", e.topic, e.record)
		}
	}
	return b.String()
}

// stepKind is a kind of step.
type stepKind struct {
	name  string
	apply func(w *world, r *rand.Rand, name string)
}

// inputs are the topics that a plan's topology can read.
const (
	streamInputs = 2
	tableInputs  = 2
)

// drawPlan draws a case of two to five steps.
func drawPlan(r *rand.Rand, kinds []stepKind, records int) plan {
	var p plan
	for i := range 2 + r.IntN(4) {
		p.steps = append(p.steps, planStep{kind: r.IntN(len(kinds)), no: i + 1, seed: r.Uint64()})
	}
	at, spread := r.Int64N(2)*3000, 10+r.Int64N(40)
	late := at > 0
	for i := range records {
		at += r.Int64N(5)
		if r.IntN(40) == 0 {
			at += r.Int64N(100)
		}
		e := planEvent{record: modelRecord{key: fmt.Sprintf("k%d", r.IntN(4)), value: fmt.Sprintf("v%d", i), tsMs: at}}
		if r.IntN(3) == 0 {
			e.record.tsMs = max(0, at-r.Int64N(spread))
		}
		if r.IntN(4) == 0 {
			e.record.tsMs -= e.record.tsMs % 10 // ties, and borders of windows
		}
		if late && r.IntN(25) == 0 {
			e.record.tsMs -= 2000 + r.Int64N(300) // late for every window
		}
		if i >= records-10 {
			e.record.tsMs = at + 5000 // all windows close
		}
		if n := r.IntN(streamInputs + tableInputs); n < streamInputs {
			e.topic = fmt.Sprint("in", n)
		} else {
			e.topic = fmt.Sprint("rows", n-streamInputs)
		}
		switch r.IntN(15) {
		case 0:
			e.record.key, e.record.nullKey = "", true
		case 1, 2:
			e.record.value, e.record.nullValue = "", true
		}
		p.events = append(p.events, e)
	}
	return p
}

// world is a topology that is declared twice: with the DSL and in the model.
type world struct {
	b       *millrace.Builder
	m       *model
	streams []place
	tables  []tablePlace
	windows []windowPlace
	outputs []string
	pairs   []string // outputs that are streams: every record counts, and not only the last one of each key
	log     []string // the steps, for a reader
	// again says that records may be processed again and change nothing in the end.
	again bool
	// settled says that final results are compared and nothing else, so steps must not depend on the order of records.
	settled bool
	cached  bool
	flaw    int64 // how wrong the model is, in milliseconds: not at all, but in a test of the test
}

// tablePlace is a table declared twice.
type tablePlace struct {
	t millrace.Table[string, string]
	m *modelTable
	// hidden says that steps which look up its rows must not follow.
	hidden bool
	// initial says that a new row comes in place of an initial aggregate, if there is no cache: a group of the rows takes that
	// out, as in Kafka Streams.
	initial bool
	joined  bool // it is joined of such a table: what went before a row is joined of the initial aggregate too
}

// windowPlace is a table of windows declared twice.
type windowPlace struct {
	t      millrace.Table[window.Key[string], string]
	m      *modelTable
	waitMs int64 // from the end of a window until its result is final
	final  bool  // it sends final results alone
	// endless says that its windows never close.
	endless bool
}

func declare(p plan, kinds []stepKind, settled bool) *world {
	w := &world{b: millrace.NewBuilder(), m: newModel(), again: true, settled: settled, cached: p.drive.cacheBytes > 0}
	for i := range streamInputs {
		name := fmt.Sprint("in", i)
		w.streams = append(w.streams, place{millrace.From(w.b, topicNamed(name)), w.m.source(name)})
	}
	for i := range tableInputs {
		name := fmt.Sprint("rows", i)
		s := w.m.source(name)
		s.countNulls(name, false)
		w.tables = append(w.tables, tablePlace{t: millrace.TableFrom(w.b, topicNamed(name), millrace.As(name)), m: s.latest()})
	}
	for _, s := range p.steps {
		kinds[s.kind].apply(w, rand.New(rand.NewPCG(s.seed, 7)), fmt.Sprint("s", s.no))
	}
	return w
}

func (w *world) say(name, format string, args ...any) {
	w.log = append(w.log, name+": "+fmt.Sprintf(format, args...))
}

// latest draws a number below n, the highest ones most of the time: chains are longer then.
func latest(r *rand.Rand, n int) int {
	if r.IntN(3) == 0 {
		return r.IntN(n)
	}
	return n - 1 - r.IntN(min(n, 2))
}

// keyed draws a stream whose records of one key are together: an input, or one behind a repartition topic.
func (w *world) keyed(r *rand.Rand, name string) place {
	if r.IntN(3) == 0 {
		return w.streams[r.IntN(streamInputs)]
	}
	i := latest(r, len(w.streams))
	in := w.streams[i]
	by := name + "-by"
	w.say(by, "stream %d by another key", i)
	f := func(k, v string) string { return fmt.Sprintf("k%d", hash(name, k, v)%4) }
	return place{
		millrace.SelectKey(in.s, f).Repartition(millrace.As(by), textKey, textValue),
		in.m.selectKey(f).repartition("test-" + by + "-repartition"),
	}
}

// table draws a table whose rows can be looked up.
func (w *world) table(r *rand.Rand) (tablePlace, int) {
	for {
		if i := latest(r, len(w.tables)); !w.tables[i].hidden {
			return w.tables[i], i
		}
		if i := r.IntN(tableInputs); true {
			return w.tables[i], i
		}
	}
}

// on returns the options of a step with a store.
func on(r *rand.Rand, name string, opts ...millrace.StepOption) []millrace.StepOption {
	opts = append(opts, millrace.As(name))
	if r.IntN(3) == 0 {
		opts = append(opts, millrace.InMemory())
	}
	return opts
}

// out adds a stream, and writes it to a topic of that name.
func (w *world) out(name string, p place) {
	w.streams = append(w.streams, p)
	w.pairs = append(w.pairs, name)
	w.write(name, p)
}

// outUpdates is out of the updates of a table. How many there are depends on caches.
func (w *world) outUpdates(name string, p place) {
	if w.settled {
		w.write(name, p)
		return
	}
	w.out(name, p)
}

func (w *world) write(name string, p place) {
	p.s.To(topicNamed(name))
	p.m.to(name)
	w.outputs = append(w.outputs, name)
}

func (w *world) outTable(name string, t tablePlace) {
	w.tables = append(w.tables, t)
	w.outUpdates("out-"+name, place{t.t.ToStream(), t.m.toStream()})
}

func (w *world) outWindows(name string, t windowPlace) {
	w.windows = append(w.windows, t)
	text := millrace.SelectKey(t.t.ToStream(), func(k window.Key[string], _ string) string { return keyText(k) })
	w.outUpdates("out-"+name, place{text, t.m.toStream()})
}

// countNulls counts what a step drops: null keys and, if it needs a value, null values.
func (s *modelStream) countNulls(step string, values bool) {
	s.followers = append(s.followers, func(r modelRecord) {
		switch {
		case r.nullKey:
			s.m.drop(step, "null-key", 1)
		case r.nullValue && values:
			s.m.drop(step, "null-value", 1)
		}
	})
}
