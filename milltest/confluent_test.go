package milltest_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// confluent is a random topology whose final tables do not depend on the order in which records of different keys are
// taken: its steps look at one record alone, and its aggregations do not care for the order of theirs.
type confluent struct {
	*generator
	// idempotent topologies only take maxima, so that a record may be processed again.
	idempotent bool
	kept       map[string]*modelTable
	windows    map[string]map[string]string // by store: the model's rows
	counts     map[string]*int              // by store of a windowed count with late records: the records that reached it
}

func newConfluent(r *rand.Rand) *confluent {
	g := newGenerator(r)
	return &confluent{
		generator: g, idempotent: r.IntN(2) == 0, kept: make(map[string]*modelTable),
		windows: make(map[string]map[string]string), counts: make(map[string]*int),
	}
}

// step adds a step that looks at one record alone.
func (c *confluent) step() {
	in := c.stream()
	salt := fmt.Sprint(c.next)
	switch c.r.IntN(8) {
	case 0:
		keep := some(salt, 5)
		c.add("Filter", in.s.Filter(keep), in.m.filter(keep))
	case 1:
		f := func(v string) string { return fmt.Sprint(hash(salt, v) % 100) }
		c.add("MapValues", millrace.MapValues(in.s, f), in.m.mapValues(f))
	case 2:
		f := func(v string) []string { return []string{v, v + "x"} }
		emit := func(v string, emit func(string)) {
			for _, x := range f(v) {
				emit(x)
			}
		}
		c.add("FlatMapValues", millrace.FlatMapValues(in.s, emit), in.m.flatMapValues(f))
	case 3:
		f := func(k, v string) string { return fmt.Sprintf("k%d", hash(salt, k, v)%7) }
		c.add("SelectKey", millrace.SelectKey(in.s, f), in.m.selectKey(f))
	case 4:
		other := c.stream()
		c.add("Merge", in.s.Merge(other.s), in.m.merge(other.m))
	case 5:
		name := c.name("repartition")
		c.add("Repartition", in.s.Repartition(millrace.As(name), textKey, textValue), in.m.repartition("test-"+name+"-repartition"))
	case 6:
		c.joinGlobal(in)
	case 7:
		c.joinTable(in)
	}
}

// maximum is the greater of two texts: a fold that order and repetition do not change.
func maximum(a, b string) string { return max(a, b) }

// keep adds an aggregation with a store.
func (c *confluent) keep() {
	s, m, name := c.grouped(c.stream())
	grouped := s.GroupByKey(textKey, textValue)
	var t millrace.Table[string, string]
	var mt *modelTable
	if c.idempotent || c.r.IntN(2) == 0 {
		t = grouped.Reduce(maximum, millrace.As(name))
		mt = m.fold(nil, false, func(r modelRecord, row string) *string { return ptr(maximum(row, r.value)) })
	} else {
		add := func(_, _, a string) string {
			n, _ := strconv.Atoi(a)
			return fmt.Sprint(n + 1)
		}
		t = millrace.Aggregate(grouped, func() string { return "0" }, add, serde.String, millrace.As(name))
		mt = m.fold(ptr("0"), false, func(r modelRecord, row string) *string { return ptr(add(r.key, r.value, row)) })
	}
	c.steps = append(c.steps, "keep "+name)
	c.kept[name] = mt
	t.ToStream().To(topicNamed("out-" + name))
	c.outputs = append(c.outputs, name)
}

// keepWindows adds a windowed aggregation with a store: one that takes everything, or a count of which the late records
// are counted too.
func (c *confluent) keepWindows() {
	s, m, name := c.grouped(c.stream())
	size, grace := int64(5+c.r.IntN(30)), int64(1_000_000)
	if !c.idempotent && c.r.IntN(2) == 0 {
		grace = int64(c.r.IntN(20))
	}
	millis := func(n int64) time.Duration { return time.Duration(n) * ms }
	w := s.GroupByKey(textKey, textValue).WindowBy(window.Tumbling(millis(size)).Grace(millis(grace)))
	c.steps = append(c.steps, fmt.Sprintf("windows %s size %d grace %d", name, size, grace))
	if grace < 1000 {
		_, late := millrace.CountWindows(w, millrace.As(name))
		millrace.MapValues(late, lateOf).To(topicNamed("late-" + name))
		reached := 0
		m.followers = append(m.followers, func(r modelRecord) {
			if !r.nullKey {
				reached++
			}
		})
		c.counts[name] = &reached
		return
	}
	millrace.AggregateWindows(w, func() string { return "" }, func(_, v, a string) string { return maximum(a, v) }, serde.String, millrace.As(name))
	rows := make(map[string]string)
	updates, _ := m.windows(modelWindows{size, size, grace}, func(r modelRecord, row string) string { return maximum(row, r.value) })
	updates.followers = append(updates.followers, func(r modelRecord) { rows[r.key] = fmt.Sprintf("%s@%d", r.value, r.tsMs) })
	c.windows[name] = rows
}

// Whatever the number of partitions, the size of caches, the times of commits, the engine below, and whether tasks run side
// by side or start anew: the final tables are the same.
func TestConfluentTopologies(t *testing.T) {
	eachSeed(t, func(t *testing.T, r *rand.Rand) {
		c := newConfluent(r)
		for range r.IntN(8) {
			c.step()
		}
		for range 1 + r.IntN(2) {
			c.keep()
		}
		for range r.IntN(3) {
			c.keepWindows()
		}
		topology, err := c.b.Build()
		if err != nil {
			t.Fatal(err)
		}
		partitions := 1 + r.IntN(4)
		opts := []milltest.Option{
			milltest.Partitions(partitions), milltest.ManualCommit(),
			milltest.CacheBytes([]int64{0, 500, 2000, 1 << 20}[r.IntN(4)]), milltest.ReadCacheBytes(int64(r.IntN(2) * 1000)),
		}
		if r.IntN(3) == 0 {
			opts = append(opts, milltest.OnDisk())
			c.steps = append(c.steps, "on disk")
		}
		if r.IntN(3) == 0 {
			opts = append(opts, milltest.Concurrently())
		}
		d := milltest.New(t, topology, opts...)
		// Tables that are joined do not change any more once the streams begin.
		for i := range 20 {
			for _, topic := range c.inputs {
				if !strings.HasPrefix(topic, "in") {
					record := c.record(i)
					pipeModel(t, d, topic, record)
					c.m.pipe(topic, record)
				}
			}
		}
		d.Commit()
		for i := range 150 {
			topic := c.inputs[r.IntN(len(c.inputs))]
			if !strings.HasPrefix(topic, "in") {
				continue
			}
			record := c.record(i)
			pipeModel(t, d, topic, record)
			c.m.pipe(topic, record)
			switch r.IntN(40) {
			case 0, 1:
				d.Commit()
			case 2, 3:
				d.AdvanceTime(3 * time.Second) // so that what is on disk follows
			case 4:
				if !c.idempotent {
					d.Commit()
				}
				restart(t, d) // like a crash, if nothing was committed
			}
		}
		d.Commit()
		c.compare(t, d, partitions)
		restart(t, d)
		c.compare(t, d, partitions)
		if t.Failed() {
			t.Logf("steps: %s; %d partitions", strings.Join(c.steps, ", "), partitions)
			t.Logf("\n%s", topology.Describe())
		}
	})
}

func (c *confluent) compare(t *testing.T, d *milltest.Driver, partitions int) {
	t.Helper()
	for name, table := range c.kept {
		got := make(map[string]string)
		for p := range partitions {
			it, err := milltest.KeyValue[string, string](d, name, int32(p)).All()
			if err != nil {
				t.Fatal(err)
			}
			for it.Next() {
				got[it.Key()] = fmt.Sprintf("%s@%d", it.Value(), it.TimestampMs())
			}
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
			_ = it.Close()
		}
		want := make(map[string]string)
		for i := range 7 {
			key := fmt.Sprintf("g%d", i)
			if row, ok := table.lookup(key); ok {
				want[key] = fmt.Sprintf("%s@%d", row.value, row.tsMs)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("table %s, -model +millrace:\n%s", name, diff)
		}
		// The last update of each row was sent.
		last := make(map[string]string)
		for _, r := range d.Written("out-" + name) {
			last[string(r.Key)] = fmt.Sprintf("%s@%d", r.Value, r.TimestampMs)
		}
		if diff := cmp.Diff(want, last); diff != "" {
			t.Errorf("last updates of %s, -model +millrace:\n%s", name, diff)
		}
	}
	for name, want := range c.windows {
		if diff := cmp.Diff(want, windowRows[string](t, d, name, partitions)); diff != "" {
			t.Errorf("windows %s, -model +millrace:\n%s", name, diff)
		}
	}
	for name, reached := range c.counts {
		counted := 0
		last := make(map[string]int64)
		for _, r := range d.Written("test-" + name + "-changelog") {
			n, err := serde.Int64.Decode(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			last[string(r.Key)] = n
		}
		for _, n := range last {
			counted += int(n)
		}
		if late := len(d.Written("late-" + name)); counted+late != *reached {
			t.Errorf("windows %s: %d records counted and %d late, but %d came", name, counted, late, *reached)
		}
	}
}

// windowRows reads a window store of all partitions.
func windowRows[V any](t *testing.T, d *milltest.Driver, name string, partitions int) map[string]string {
	t.Helper()
	rows := make(map[string]string)
	for p := range partitions {
		it, err := milltest.Window[string, V](d, name, int32(p)).FetchAll(0, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			rows[windowText(it.Key().Key, it.Key().Window.StartMs)] = fmt.Sprintf("%v@%d", it.Value(), it.TimestampMs())
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		_ = it.Close()
	}
	return rows
}
