package state

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// run drives one set of several stores and their models through random operations.
type run struct {
	t      testing.TB
	rng    *rand.Rand
	fs     *vfs.MemFS
	opts   Options
	db     *DB
	set    *Set
	specs  []Spec
	models []*model
	units  []*Unit
	walks  []walk
	faces  []handle
	now    int64
	// regular says that the set was closed regularly before it is opened again: nothing sealed may be missing.
	regular bool
	head    int64 // highest window start so far
	// gaps counts the times that a persistent store came back from a crash with some of its changelog, but not all.
	gaps int
}

var variants = func() []Spec {
	var specs []Spec
	for _, kind := range []Kind{KeyValue, Window, Session} {
		for _, persistent := range []bool{true, false} {
			for _, ordered := range []bool{true, false} {
				s := Spec{Kind: kind, Persistent: persistent, Ordered: ordered, Logged: true}
				s.Name = fmt.Sprintf("%s-p%v-o%v", kind, persistent, ordered)
				if kind != KeyValue {
					s.RetentionMs, s.SegmentMs = 100, 30
				}
				specs = append(specs, s)
			}
		}
	}
	return specs
}()

const testTask = "0_1"

func testOptions(fs vfs.FS, now func() int64) Options {
	return Options{
		FS: fs, Dir: "state", ClusterID: "cluster", ApplicationID: "app", Now: now, MemTableBytes: 1 << 20,
		CacheBytes: 1 << 20, RestoreChunkBytes: 1 << 12, ingestBytes: 3 << 10,
		NewID: func() string { return "process" },
	}
}

func newRun(t testing.TB, seed uint64, specs []Spec) *run {
	r := &run{t: t, rng: rand.New(rand.NewPCG(seed, 1)), fs: vfs.NewCrashableMem(), now: 1_000_000, specs: specs}
	r.opts = testOptions(r.fs, func() int64 { return r.now })
	for _, s := range specs {
		r.models = append(r.models, newModel(s))
	}
	r.open()
	return r
}

func (r *run) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *run) open() {
	r.t.Helper()
	var err error
	r.opts.FS = r.fs
	r.db, err = OpenDB(r.opts)
	r.check(err)
	r.openSet()
}

func (r *run) openSet() {
	r.t.Helper()
	var err error
	r.set, err = r.db.OpenSet(testTask, r.specs, nil)
	r.check(err)
	r.faces = nil
	for i, s := range r.specs {
		h, err := faceOf(r.set, s)
		r.check(err)
		r.faces = append(r.faces, h)
		p, ok := r.set.Position(s.Name)
		m := r.models[i]
		if s.Persistent {
			if r.regular && p.Offset != m.position {
				r.t.Fatalf("%s: after a regular close the disk stands for %v, %v instead of %d", s.Name, p, ok, m.position)
			}
			if ok {
				m.committed, m.position = m.replay(p.Offset), p.Offset
			} else {
				m.committed, m.position = newModelLayer(), 0
			}
		} else {
			m.committed, m.position = newModelLayer(), 0
		}
		m.units, m.private = nil, newModelLayer()
		r.countGap(m)
		r.compare(i)
	}
	r.units, r.regular = nil, false
	r.replay()
}

var testKeys = []string{"", "a", "aa", "ab", "a\x00", "a\x00\x00", "a\x00\x01", "\x00", "\x00\x01", "\xff", "\xff\xff", "b", "key-1", "key-2", "key-10"}

func (r *run) key(kind Kind) modelKey {
	k := modelKey{key: testKeys[r.rng.IntN(len(testKeys))]}
	if r.rng.IntN(6) == 0 {
		k.key = fmt.Sprintf("k%03d", r.rng.IntN(200))
	}
	if kind == KeyValue {
		return k
	}
	k.key = testKeys[r.rng.IntN(8)]
	if r.rng.IntN(20) == 0 {
		r.head += 5 * r.rng.Int64N(8)
	}
	k.start = max(0, r.head-5*r.rng.Int64N(26))
	if r.rng.IntN(2) == 0 {
		k.start = max(0, r.head-5*r.rng.Int64N(3))
	}
	k.seq = int64(r.rng.IntN(2))
	if kind == Session {
		k.seq = max(0, k.start-10*r.rng.Int64N(3))
	}
	return k
}

func (r *run) value() []byte {
	switch r.rng.IntN(6) {
	case 0:
		return nil
	case 1:
		return stamped(r.rng.Int64(), nil)
	}
	return stamped(r.rng.Int64(), bytes.Repeat([]byte{byte('a' + r.rng.IntN(26))}, 1+r.rng.IntN(40)))
}

func (r *run) put(i int) {
	m := r.models[i]
	k, v := r.key(m.spec.Kind), r.value()
	accepted, err := r.faces[i].put(k, v)
	r.check(err)
	if m.spec.Kind != KeyValue {
		m.private.observed = max(m.private.observed, k.start)
	}
	if want := m.visible(m.view(), k.start); accepted != want {
		r.t.Fatalf("%s: put %v was accepted: %v, want %v", m.spec.Name, k, accepted, want)
	}
	if accepted {
		m.private.rows[k] = v
	}
}

func (r *run) get(i int) {
	m := r.models[i]
	k := r.key(m.spec.Kind)
	view := m.view()
	want, ok := view.rows[k]
	ok = ok && m.visible(view, k.start)
	got, found, err := r.faces[i].get(k)
	r.check(err)
	if found != ok || ok && !bytes.Equal(got, want) {
		r.t.Fatalf("%s: get %v is %q, %v, want %q, %v", m.spec.Name, k, got, found, want, ok)
	}
}

func (r *run) query(i int) query {
	k := r.key(r.specs[i].Kind)
	q := query{key: k.key, all: r.rng.IntN(2) == 0, reverse: r.rng.IntN(2) == 0}
	q.fromMs, q.to2, q.latest = math.MinInt64, math.MaxInt64, math.MaxInt64
	if r.rng.IntN(4) > 0 {
		q.fromMs = k.start
	}
	if r.rng.IntN(4) > 0 {
		q.to2 = q.fromMs + r.rng.Int64N(100)
		q.latest = k.start + r.rng.Int64N(20)
	}
	if r.rng.IntN(3) > 0 {
		q.from = []byte(k.key)
	}
	if r.rng.IntN(3) > 0 {
		q.to = []byte(r.key(KeyValue).key)
	}
	return q
}

// startWalk opens an iterator that will be read later, in between other operations.
func (r *run) startWalk(i int) {
	q := r.query(i)
	it, err := r.faces[i].open(q)
	r.check(err)
	r.walks = append(r.walks, walk{it, r.models[i].query(q), q})
}

// step reads some rows of an open walk.
func (r *run) step(n int) {
	i := r.rng.IntN(len(r.walks))
	w := &r.walks[i]
	spec := w.it.s.spec
	for ; n > 0; n-- {
		if !w.it.Next() {
			if w.it.Err() != nil || len(w.want) > 0 {
				r.t.Fatalf("%s %+v: the walk ends with %v, missing %v", spec.Name, w.q, w.it.Err(), w.want)
			}
			r.check(w.it.Close())
			r.walks = slices.Delete(r.walks, i, i+1)
			return
		}
		got := rowOf(w.it, spec.Kind)
		if len(w.want) == 0 || got != w.want[0] {
			r.t.Fatalf("%s %+v: the walk returns %v, want %v", spec.Name, w.q, got, w.want)
		}
		w.want = w.want[1:]
	}
}

func (r *run) closeWalks() {
	for _, w := range r.walks {
		r.check(w.it.Close())
	}
	r.walks = nil
}

// compare reads a whole store.
func (r *run) compare(i int) {
	r.t.Helper()
	m := r.models[i]
	q := query{all: true, fromMs: math.MinInt64, to2: math.MaxInt64}
	it, err := r.faces[i].open(q)
	r.check(err)
	defer it.Close()
	want := m.query(q)
	for n := 0; it.Next(); n++ {
		if got := rowOf(it, m.spec.Kind); n >= len(want) || got != want[n] {
			r.t.Fatalf("%s: row %d is %v, want %v", m.spec.Name, n, got, want[min(n, len(want)):])
		}
		if n == len(want)-1 && it.Next() {
			r.t.Fatalf("%s: there is more than %d rows: %v", m.spec.Name, len(want), rowOf(it, m.spec.Kind))
		}
	}
	r.check(it.Err())
	view := m.view()
	if m.spec.Kind != KeyValue {
		if got := it.s.high; got != view.observed {
			r.t.Fatalf("%s: observed time is %d, want %d", m.spec.Name, got, view.observed)
		}
	}
	for _, name := range []string{"x", "y"} {
		got, ok := r.set.Meta(m.spec.Name, name)
		want, has := view.metas[name]
		if ok != has || got != want {
			r.t.Fatalf("%s: meta %s is %d, %v, want %d, %v", m.spec.Name, name, got, ok, want, has)
		}
	}
}

func (r *run) handOver() {
	if u := r.set.HandOver(); u != nil {
		r.units = append(r.units, u)
		for _, m := range r.models {
			m.units = append(m.units, m.private)
			m.private = newModelLayer()
		}
	}
}

func (r *run) seal() {
	if len(r.units) == 0 {
		return
	}
	positions := map[string]Position{}
	for _, m := range r.models {
		m.commit(r.rng)
		positions[m.spec.Name] = Position{Offset: m.position, Epoch: 3}
	}
	r.check(r.set.Seal(r.units[0], positions))
	r.units = r.units[1:]
}

func (r *run) dropFrom(i int) {
	r.units = r.units[:i]
	for _, m := range r.models {
		m.units, m.private = m.units[:i], newModelLayer()
	}
}

func (r *run) operation() {
	i := r.rng.IntN(len(r.specs))
	switch n := r.rng.IntN(1000); {
	case n < 500:
		r.put(i)
	case n < 700:
		r.get(i)
	case n < 740:
		// Writes under an open iterator, to the rows that it is about to return among others.
		r.startWalk(i)
		for range r.rng.IntN(30) {
			r.put(i)
		}
		if r.rng.IntN(4) == 0 {
			r.handOver()
			r.seal()
			r.check(r.set.Flush())
			r.get(i)
		}
	case n < 840:
		if len(r.walks) > 0 {
			r.step(1 + r.rng.IntN(10))
		}
	case n < 860:
		v := r.rng.Int64()
		name := []string{"x", "y"}[r.rng.IntN(2)]
		r.check(r.set.SetMeta(r.specs[i].Name, name, v))
		r.models[i].private.metas[name] = v
	case n < 880:
		r.handOver()
	case n < 900:
		r.seal()
	case n < 905:
		if len(r.units) > 0 {
			j := r.rng.IntN(len(r.units))
			r.check(r.set.Discard(r.units[j]))
			r.dropFrom(j)
		}
	case n < 910:
		r.check(r.set.DropPrivate())
		r.dropFrom(len(r.units))
	case n < 912:
		r.check(r.set.DropAll())
		r.dropFrom(0)
	case n < 930:
		r.check(r.set.Flush())
		r.audit()
	case n < 940:
		r.compare(i)
	case n < 945:
		r.now += 3_000
		r.check(r.db.Maintain())
	case n < 948:
		_, err := r.db.p.AsyncFlush()
		r.check(err)
	case n < 950:
		r.reopenSet()
	case n < 952:
		r.reopen()
	case n < 955:
		r.crash()
	case n < 957:
		r.check(r.set.DropAll())
		r.dropFrom(0)
		r.replay()
	}
}

// replay brings all stores up to the end of their changelogs; now and then the process dies on the way.
func (r *run) replay() {
	r.t.Helper()
	for i, m := range r.models {
		re, err := r.set.BeginRestore(m.spec.Name)
		r.check(err)
		end := int64(len(m.log))
		for o := m.position; o <= end; o++ {
			m.metas[o] = m.committed.metas
		}
		for at := m.position; at < end; {
			next := min(end, at+1+r.rng.Int64N(200))
			r.check(re.Apply(m.log[at:next], Position{Offset: next}))
			at = next
			switch r.rng.IntN(100) {
			case 0:
				re.Stop()
				r.crash()
				return
			case 1:
				r.check(re.Flush())
				m.committed, m.position = m.replay(at), at
				r.compare(i)
			}
		}
		_, err = re.Finish(Position{Offset: end})
		r.check(err)
		m.committed, m.position = m.replay(end), end
		r.compare(i)
	}
	r.audit()
}

// audit checks what lies in Pebble after a flush: nothing of expired segments, and nothing in segments that the store does
// not know of and would never delete.
func (r *run) audit() {
	r.t.Helper()
	for _, st := range r.set.disk {
		if !st.spec.windowed() {
			continue
		}
		b := st.disk
		minSeg := st.spec.minSegment(b.head.observed)
		table := tableOf(st.spec.Kind)
		it, err := r.db.p.NewIter(&pebble.IterOptions{
			LowerBound: b.inc.appendTable(nil, table), UpperBound: b.inc.appendTable(nil, table+1),
		})
		r.check(err)
		for ok := it.First(); ok; ok = it.Next() {
			_, seg, time, _, err := parseRowKey(nil, it.Key(), st.spec.Kind)
			r.check(err)
			if seg != segmentOf(time, st.spec.SegmentMs) {
				r.t.Fatalf("%s: a row of %d lies in segment %d", st.spec.Name, time, seg)
			}
			if seg < minSeg || !slices.Contains(b.segs, seg) {
				r.t.Fatalf("%s: a row of segment %d is left on disk; the least one is %d, known are %v", st.spec.Name, seg, minSeg, b.segs)
			}
		}
		r.check(it.Close())
	}
}

// reopenSet closes the set regularly and opens it again in the same DB.
func (r *run) reopenSet() {
	r.closeWalks()
	r.regular = true
	r.check(r.set.Close())
	r.openSet()
}

func (r *run) reopen() {
	r.closeWalks()
	r.regular = true
	r.check(r.db.Close())
	r.open()
}

// crash goes on from what a crash leaves: what was synced, and some of the rest.
func (r *run) crash() {
	cfg := vfs.CrashCloneCfg{}
	if r.rng.IntN(2) == 0 {
		cfg = vfs.CrashCloneCfg{UnsyncedDataPercent: r.rng.IntN(101), RNG: r.rng}
	}
	clone := r.fs.CrashClone(cfg)
	r.closeWalks()
	r.check(r.db.Close())
	r.fs = clone
	r.open()
}

func (r *run) countGap(m *model) {
	if m.spec.Persistent && m.position > 0 && m.position < int64(len(m.log)) {
		r.gaps++
	}
}

var (
	oneSeed   = flag.Int64("seed", -1, "run the models with this seed alone")
	manySeeds = flag.Uint64("seeds", 0, "run the models with this many seeds")
)

// modelSeeds are the seeds to run: a few, or what the flags say.
func modelSeeds(few uint64) (seeds []uint64) {
	switch {
	case *oneSeed >= 0:
		return []uint64{uint64(*oneSeed)}
	case *manySeeds > 0:
		few = *manySeeds
	case testing.Short():
		few = 2
	}
	for seed := range few {
		seeds = append(seeds, seed)
	}
	return seeds
}

// TestModel drives each kind of store, on disk and in memory, in both forms of overlays, against plain maps.
func TestModel(t *testing.T) {
	for _, kind := range []Kind{KeyValue, Window, Session} {
		specs := slices.DeleteFunc(slices.Clone(variants), func(s Spec) bool { return s.Kind != kind })
		gaps := 0
		for _, seed := range modelSeeds(5) {
			t.Run(fmt.Sprintf("%s/seed=%d", kind, seed), func(t *testing.T) {
				r := newRun(t, seed, specs)
				for range 4_000 {
					r.operation()
				}
				r.closeWalks()
				r.check(r.db.Close())
				gaps += r.gaps
			})
		}
		if gaps == 0 && *oneSeed < 0 {
			t.Errorf("%s: no crash left a part of a changelog on disk: the runs show nothing about that", kind)
		}
		t.Logf("%s: %d crashes left a part of a changelog on disk", kind, gaps)
	}
}

// TestModelMixed has stores of all kinds in one set.
func TestModelMixed(t *testing.T) {
	for _, seed := range modelSeeds(2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := newRun(t, seed, variants)
			for range 5_000 {
				r.operation()
			}
			r.closeWalks()
			r.check(r.db.Close())
		})
	}
}
