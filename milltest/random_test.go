package milltest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// seeds returns the seeds of the random runs: MILLRACE_MODEL_SEEDS of them (100 if it is not set), or MILLRACE_SEED alone.
func seeds(t *testing.T) []uint64 {
	t.Helper()
	number := func(name string) (uint64, bool) {
		s := os.Getenv(name)
		if s == "" {
			return 0, false
		}
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n, true
	}
	if seed, ok := number("MILLRACE_SEED"); ok {
		return []uint64{seed}
	}
	n, ok := number("MILLRACE_MODEL_SEEDS")
	if !ok {
		n = 100
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i + 1)
	}
	return all
}

// eachSeed runs a test for each seed, and says how to run one of them again.
func eachSeed(t *testing.T, test func(t *testing.T, r *rand.Rand)) {
	for _, seed := range seeds(t) {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			test(t, rand.New(rand.NewPCG(seed, 1)))
		})
		if !ok {
			t.Logf("MILLRACE_SEED=%d go test -run '%s' ./milltest runs it again", seed, t.Name())
			return
		}
	}
}

type stream = millrace.Stream[string, string]

// place is a stream declared twice.
type place struct {
	s stream
	m *modelStream
}

// placeOfTable is a table declared twice.
type placeOfTable struct {
	t millrace.Table[string, string]
	m *modelTable
}

// generator declares a random topology with the DSL and in the model.
type generator struct {
	r       *rand.Rand
	b       *millrace.Builder
	m       *model
	next    int
	streams []place
	tables  []placeOfTable
	globals map[string]millrace.GlobalTable[string, string]
	rows    map[string]map[string]string
	inputs  []string
	outputs []string
	steps   []string // for the log of a failure
}

func newGenerator(r *rand.Rand) *generator {
	g := &generator{
		r: r, b: millrace.NewBuilder(), m: newModel(),
		globals: make(map[string]millrace.GlobalTable[string, string]), rows: make(map[string]map[string]string),
	}
	for i := range 1 + r.IntN(2) {
		name := fmt.Sprint("in", i)
		g.inputs = append(g.inputs, name)
		g.streams = append(g.streams, place{millrace.From(g.b, topicNamed(name)), g.m.source(name)})
	}
	if r.IntN(2) == 0 {
		g.inputs = append(g.inputs, "rows")
		t := millrace.TableFrom(g.b, topicNamed("rows"), millrace.As("rows"))
		g.tables = append(g.tables, placeOfTable{t, g.m.source("rows").latest()})
	}
	if r.IntN(2) == 0 {
		g.inputs = append(g.inputs, "everywhere")
		g.globals["everywhere"] = millrace.GlobalTableFrom(g.b, topicNamed("everywhere"), millrace.As("everywhere"))
		g.rows["everywhere"] = g.m.global("everywhere")
	}
	return g
}

func topicNamed(name string) millrace.Topic[string, string] {
	return millrace.NewTopic(name, serde.String, serde.String)
}

func (g *generator) name(verb string) string {
	g.next++
	return fmt.Sprintf("%s-%d", verb, g.next)
}

func (g *generator) stream() place { return g.streams[g.r.IntN(len(g.streams))] }

func (g *generator) add(verb string, s stream, m *modelStream) {
	g.steps = append(g.steps, verb)
	g.streams = append(g.streams, place{s, m})
}

var (
	textKey   = millrace.WithKey(serde.String)
	textValue = millrace.WithValue(serde.String)
)

// some is a predicate that a part of all records meets.
func some(salt string, of uint32) func(k, v string) bool {
	return func(k, v string) bool { return hash(salt, k, v)%of != 0 }
}

// step adds a random step behind a random place.
func (g *generator) step() {
	in := g.stream()
	salt := fmt.Sprint(g.next)
	switch g.r.IntN(16) {
	case 0:
		keep := some(salt, 4)
		g.add("Filter", in.s.Filter(keep), in.m.filter(keep))
	case 1:
		f := func(v string) string { return fmt.Sprintf("m%03x", hash(salt, v)&0xfff) }
		g.add("MapValues", millrace.MapValues(in.s, f), in.m.mapValues(f))
	case 2:
		f := func(v string) []string { return strings.Split(v, "")[:min(len(v), int(hash(salt, v)%3))] }
		emit := func(v string, emit func(string)) {
			for _, x := range f(v) {
				emit(x)
			}
		}
		g.add("FlatMapValues", millrace.FlatMapValues(in.s, emit), in.m.flatMapValues(f))
	case 3:
		f := func(k, v string) string { return fmt.Sprintf("k%d", hash(salt, k, v)%5) }
		g.add("SelectKey", millrace.SelectKey(in.s, f), in.m.selectKey(f))
	case 4:
		a, b := some(salt, 2), some(salt+"b", 3)
		split := in.s.Split()
		outs := in.m.split(a, b)
		g.add("Branch", split.Branch(a), outs[0])
		g.add("Branch", split.Branch(b), outs[1])
		g.add("Default", split.Default(), outs[2])
	case 5:
		other := g.stream()
		g.add("Merge", in.s.Merge(other.s), in.m.merge(other.m))
	case 6:
		name := g.name("repartition")
		g.add("Repartition", in.s.Repartition(millrace.As(name), textKey, textValue), in.m.repartition("test-"+name+"-repartition"))
	case 7, 8:
		g.aggregate(in)
	case 9, 10:
		g.window(in)
	case 11:
		if len(g.tables) < 8 {
			g.derive()
		}
	case 12, 13:
		g.joinTable(in)
	case 14:
		g.joinGlobal(in)
	case 15:
		s, m, prefix := g.grouped(in)
		t := s.ToTable(millrace.As(prefix), textKey, textValue)
		g.steps = append(g.steps, "ToTable")
		g.tables = append(g.tables, placeOfTable{t, m.latest()})
	}
}

// grouped returns a place whose records of one key are together: behind a repartition topic of that name, which the DSL
// puts there by itself where it sees a need. The model repartitions where the DSL does.
func (g *generator) grouped(in place) (s stream, m *modelStream, name string) {
	name = g.name("step")
	f := func(k, v string) string { return fmt.Sprintf("g%d", hash(name, k, v)%4) }
	return millrace.SelectKey(in.s, f), in.m.selectKey(f).repartition("test-" + name + "-repartition"), name
}

func (g *generator) aggregate(in place) {
	s, m, name := g.grouped(in)
	grouped := s.GroupByKey(textKey, textValue)
	var t millrace.Table[string, string]
	var mt *modelTable
	initial := "i"
	switch g.r.IntN(4) {
	case 0:
		counts := millrace.Count(grouped, millrace.As(name))
		t = millrace.MapTableValues(counts, func(n int64) string { return fmt.Sprint(n) }, textValue)
		zero := "0"
		mt = m.fold(&zero, false, func(_ modelRecord, row string) *string {
			n, _ := strconv.Atoi(row)
			return ptr(fmt.Sprint(n + 1))
		})
	case 1:
		add := func(a, v string) string { return fmt.Sprintf("r%03x", hash(a, v)&0xfff) }
		t = grouped.Reduce(add, millrace.As(name))
		seen := make(map[string]bool) // the first value of a key is the result
		mt = m.fold(nil, false, func(r modelRecord, row string) *string {
			if !seen[r.key] {
				seen[r.key] = true
				return ptr(r.value)
			}
			return ptr(add(row, r.value))
		})
	case 2:
		add := func(k, v, a string) string { return fmt.Sprintf("a%03x", hash(k, v, a)&0xfff) }
		t = millrace.Aggregate(grouped, func() string { return initial }, add, serde.String, millrace.As(name))
		mt = m.fold(&initial, false, func(r modelRecord, row string) *string { return ptr(add(r.key, r.value, row)) })
	case 3: // one that deletes
		add := func(v, a string) *string {
			if h := hash(v, a); h%3 != 0 {
				return ptr(fmt.Sprintf("d%03x", h&0xfff))
			}
			return nil
		}
		aggregate := func(_, v string, a *string) *string { return add(v, *a) }
		pointers := millrace.Aggregate(grouped, func() *string { return ptr(initial) }, aggregate, serde.Nullable(serde.String), millrace.As(name))
		t = millrace.MapTableValues(pointers, func(v *string) string { return *v }, textValue)
		mt = m.fold(&initial, false, func(r modelRecord, row string) *string { return add(r.value, row) })
	}
	g.steps = append(g.steps, "aggregate "+name)
	g.tables = append(g.tables, placeOfTable{t, mt})
	g.add("ToStream", t.ToStream(), mt.toStream())
}

func ptr(s string) *string { return &s }

func (g *generator) window(in place) {
	s, m, name := g.grouped(in)
	w := modelWindows{size: int64(5 + g.r.IntN(20)), grace: int64(g.r.IntN(15))}
	w.advance = w.size
	if g.r.IntN(2) == 0 {
		w.advance = int64(1 + g.r.IntN(int(w.size)))
	}
	add := func(v, a string) string { return fmt.Sprintf("w%03x", hash(v, a)&0xfff) }
	millis := func(n int64) time.Duration { return time.Duration(n) * ms }
	windowed := s.GroupByKey(textKey, textValue).WindowBy(window.Hopping(millis(w.size), millis(w.advance)).Grace(millis(w.grace)))
	t, late := millrace.AggregateWindows(windowed, func() string { return "" }, func(_, v, a string) string { return add(v, a) }, serde.String, millrace.As(name))
	updates, modelLate := m.windows(w, func(r modelRecord, row string) string { return add(r.value, row) })
	text := millrace.SelectKey(t.ToStream(), func(k window.Key[string], _ string) string { return windowText(k.Key, k.Window.StartMs) })
	g.add(fmt.Sprintf("windows %+v", w), text, updates)
	if g.r.IntN(3) > 0 {
		g.add("late", millrace.MapValues(late, lateOf), modelLate)
	}
}

func (g *generator) derive() {
	if len(g.tables) == 0 {
		return
	}
	in := g.tables[g.r.IntN(len(g.tables))]
	name := g.name("derived")
	opts := []millrace.StepOption{millrace.NodeName(name)}
	stored := g.r.IntN(2) == 0
	if stored {
		opts = []millrace.StepOption{millrace.As(name), textKey, textValue}
	}
	out := placeOfTable{}
	if g.r.IntN(2) == 0 {
		keep := some(name, 2)
		out = placeOfTable{in.t.Filter(keep, opts...), in.m.derive(true, stored, func(k, v string) (string, bool) { return v, keep(k, v) })}
	} else {
		f := func(v string) string { return "t" + v }
		out = placeOfTable{millrace.MapTableValues(in.t, f, opts...), in.m.derive(false, stored, func(_, v string) (string, bool) { return f(v), true })}
	}
	g.steps = append(g.steps, "derive "+name)
	g.tables = append(g.tables, out)
	g.add("ToStream", out.t.ToStream(), out.m.toStream())
}

func (g *generator) joinTable(in place) {
	if len(g.tables) == 0 {
		return
	}
	t := g.tables[g.r.IntN(len(g.tables))]
	left := g.r.IntN(2) == 0
	join := func(v, row string, found bool) string {
		return fmt.Sprintf("j%03x", hash(v, row, fmt.Sprint(found))&0xfff)
	}
	s, m := in.s, in.m
	name := g.name("join")
	if g.r.IntN(2) == 0 {
		// A key that rows have.
		f := func(k, v string) string { return fmt.Sprintf("g%d", hash(name, k, v)%4) }
		s, m = millrace.SelectKey(s, f).Repartition(millrace.As(name+"-by"), textKey, textValue), m.selectKey(f).repartition("test-"+name+"-by-repartition")
	} else {
		s, m = s.Repartition(millrace.As(name+"-by"), textKey, textValue), m.repartition("test-"+name+"-by-repartition")
	}
	if left {
		g.add("LeftJoinTable", millrace.LeftJoinTable(s, t.t, join, millrace.As(name)), m.joinTable(t.m, true, join))
		return
	}
	inner := func(v, row string) string { return join(v, row, true) }
	g.add("JoinTable", millrace.JoinTable(s, t.t, inner, millrace.As(name)), m.joinTable(t.m, false, join))
}

func (g *generator) joinGlobal(in place) {
	t, ok := g.globals["everywhere"]
	if !ok {
		return
	}
	rows := g.rows["everywhere"]
	key := func(k, v string) string { return fmt.Sprintf("k%d", hash(k, v)%6) }
	join := func(v, row string, found bool) string {
		return fmt.Sprintf("e%03x", hash(v, row, fmt.Sprint(found))&0xfff)
	}
	row := func(r modelRecord) (string, bool) {
		v, ok := rows[key(r.key, r.value)]
		return v, ok
	}
	if g.r.IntN(2) == 0 {
		g.add("LeftJoinGlobal", millrace.LeftJoinGlobal(in.s, t, key, join), in.m.lookUp(true, row, join))
		return
	}
	inner := func(v, row string) string { return join(v, row, true) }
	g.add("JoinGlobal", millrace.JoinGlobal(in.s, t, key, inner), in.m.lookUp(false, row, join))
}

// end writes a number of the places to topics.
func (g *generator) end() {
	for i, p := range g.streams {
		if i >= len(g.streams)-3 || g.r.IntN(3) == 0 {
			name := fmt.Sprint("out", i)
			p.s.To(topicNamed(name))
			p.m.to(name)
			g.outputs = append(g.outputs, name)
		}
	}
}

// record returns a random record. Times move on, and back at times.
func (g *generator) record(i int) modelRecord {
	r := modelRecord{
		key: fmt.Sprintf("k%d", g.r.IntN(6)), value: fmt.Sprintf("v%d", g.r.IntN(50)),
		tsMs: max(0, int64(i*2+g.r.IntN(20)-g.r.IntN(30))),
	}
	switch g.r.IntN(20) {
	case 0:
		r.key, r.nullKey = "", true
	case 1, 2:
		r.value, r.nullValue = "", true
	}
	return r
}

func pipeModel(t *testing.T, d *milltest.Driver, topic string, r modelRecord) {
	t.Helper()
	err := milltest.InputNamed(d, topic, topicNamed(topic)).TryPipe(processor.Record[string, string]{
		Key: r.key, NullKey: r.nullKey, Value: r.value, NullValue: r.nullValue, TimestampMs: r.tsMs,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// With one partition for each topic and without caches what comes out is exactly what the model says, record by record, in
// memory and on disk.
func TestRandomTopologies(t *testing.T) {
	eachSeed(t, func(t *testing.T, r *rand.Rand) {
		g := newGenerator(r)
		for range 4 + r.IntN(14) {
			g.step()
		}
		g.end()
		topology, err := g.b.Build()
		if err != nil {
			t.Fatal(err)
		}
		opts := []milltest.Option{milltest.CacheBytes(0)}
		if r.IntN(2) == 0 {
			opts = append(opts, milltest.ReadCacheBytes(int64(r.IntN(2000))))
		}
		if r.IntN(4) == 0 {
			opts = append(opts, milltest.OnDisk())
		}
		d := milltest.New(t, topology, opts...)
		restarts := r.IntN(3) == 0
		for i := range 120 {
			topic := g.inputs[r.IntN(len(g.inputs))]
			record := g.record(i)
			pipeModel(t, d, topic, record)
			g.m.pipe(topic, record)
			if restarts && r.IntN(30) == 0 {
				// Everything is committed: nothing may be seen of it.
				restart(t, d)
			}
		}
		for _, name := range g.outputs {
			var got []string
			for _, r := range d.ReadRaw(name) {
				got = append(got, modelRecord{string(r.Key), string(r.Value), r.Key == nil, r.Value == nil, r.TimestampMs, nil, 0}.String())
			}
			if diff := cmp.Diff(g.m.out[name], got); diff != "" {
				t.Errorf("%s, -model +millrace:\n%s", name, diff)
			}
		}
		if t.Failed() {
			t.Logf("steps: %s", strings.Join(g.steps, ", "))
			t.Logf("\n%s", topology.Describe())
		}
		slices.Sort(g.outputs)
	})
}
