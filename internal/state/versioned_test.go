package state

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

// versionModel keeps every version that was accepted.
type versionModel struct {
	history int64
	high    int64
	keys    map[string][]modelVersion // ascending
}

type modelVersion struct {
	ts  int64
	val string
	has bool
}

func newVersionModel(history int64) *versionModel {
	return &versionModel{history: history, high: -1, keys: make(map[string][]modelVersion)}
}

func (m *versionModel) clone() *versionModel {
	c := newVersionModel(m.history)
	c.high = m.high
	for k, v := range m.keys {
		c.keys[k] = slices.Clone(v)
	}
	return c
}

func (m *versionModel) put(k, v string, has bool, ts int64) PutResult {
	if m.high >= 0 && ts < m.high-m.history {
		return PutExpired
	}
	m.high = max(m.high, ts)
	vs := m.keys[k]
	i, found := slices.BinarySearchFunc(vs, ts, func(a modelVersion, ts int64) int { return int(a.ts - ts) })
	if found {
		vs[i] = modelVersion{ts, v, has}
	} else {
		vs = slices.Insert(vs, i, modelVersion{ts, v, has})
	}
	m.keys[k] = vs
	if i == len(vs)-1 {
		return PutLatest
	}
	return PutStale
}

func (m *versionModel) spans(k string) (out []Version) {
	vs := m.keys[k]
	for i, v := range vs {
		to := Open
		if i+1 < len(vs) {
			to = vs[i+1].ts
		}
		out = append(out, Version{FromMs: v.ts, ToMs: to, Value: []byte(v.val)})
		if !v.has {
			out[i].Value = nil
		}
	}
	return out
}

func (m *versionModel) asOf(k string, ts int64) string {
	for _, v := range m.spans(k) {
		if v.FromMs <= ts && ts < v.ToMs && v.Value != nil && (v.ToMs == Open || ts >= m.high-m.history) {
			return show(v)
		}
	}
	return ""
}

func (m *versionModel) walk(k string, from, to int64) (out []string) {
	for _, v := range m.spans(k) {
		if v.Value == nil || v.FromMs > to || v.ToMs <= from {
			continue
		}
		if v.ToMs != Open && (to < m.high-m.history || v.ToMs <= m.high-m.history) {
			continue
		}
		out = append(out, show(v))
	}
	return out
}

func show(v Version) string {
	if v.ToMs == Open {
		return fmt.Sprintf("%s[%d,)", v.Value, v.FromMs)
	}
	return fmt.Sprintf("%s[%d,%d)", v.Value, v.FromMs, v.ToMs)
}

// checkVersions compares all that can be asked of a store with the model.
func checkVersions(t *testing.T, v *VersionedStore, m *versionModel, times int64) {
	t.Helper()
	for k := range 4 {
		key := fmt.Sprintf("k%d", k)
		for ts := int64(0); ts <= times; ts++ {
			got := ""
			c, ok, err := v.GetAsOf([]byte(key), ts)
			must(t, err)
			if ok {
				got = show(c)
			}
			if want := m.asOf(key, ts); got != want {
				t.Fatalf("%s as of %d is %q, want %q (observed %d)", key, ts, got, want, m.high)
			}
		}
		got := ""
		c, ok, err := v.Get([]byte(key))
		must(t, err)
		if ok {
			got = show(c)
		}
		if want := m.asOf(key, 1<<40); got != want {
			t.Fatalf("latest of %s is %q, want %q", key, got, want)
		}
		for from := int64(0); from <= times; from += 3 {
			for to := from; to <= times; to += 7 {
				for _, ascending := range []bool{true, false} {
					var got []string
					must(t, v.History([]byte(key), from, to, ascending, func(c Version) error {
						got = append(got, show(c))
						return nil
					}))
					want := m.walk(key, from, to)
					if !ascending {
						slices.Reverse(want)
					}
					if !slices.Equal(got, want) {
						t.Fatalf("versions of %s from %d to %d, ascending %v: %q, want %q (observed %d)", key, from, to, ascending, got, want, m.high)
					}
				}
			}
		}
	}
}

func versionedSpec(persistent bool) Spec {
	return Spec{Name: "v", Kind: Versioned, Persistent: persistent, Logged: true, RetentionMs: 12, SegmentMs: 5}
}

func versionedOf(t *testing.T, set *Set) *VersionedStore {
	t.Helper()
	v, err := set.Versioned("v")
	must(t, err)
	return v
}

func openVersioned(t *testing.T, db *DB, persistent bool) *Set {
	t.Helper()
	return openSet(t, db, "0_0", versionedSpec(persistent))
}

// TestVersionedModel runs random puts, hand-overs, seals, flushes, aborts, restarts and restores against a plain model.
func TestVersionedModel(t *testing.T) {
	for seed := range uint64(8) {
		for _, persistent := range []bool{true, false} {
			t.Run(fmt.Sprintf("seed=%d,disk=%v", seed, persistent), func(t *testing.T) { runVersioned(t, seed, persistent) })
		}
	}
}

func runVersioned(t *testing.T, seed uint64, persistent bool) {
	rng := rand.New(rand.NewPCG(seed, 1))
	opts := memOptions()
	opts.RestoreChunkBytes = 1 << 10
	db := openDB(t, opts)
	set := openVersioned(t, db, persistent)
	v := versionedOf(t, set)
	live, sealed := newVersionModel(12), newVersionModel(12)
	var log, private []RestoreRecord
	now := int64(0)
	for range 220 {
		switch n := rng.IntN(40); {
		case n < 30:
			if rng.IntN(3) == 0 {
				now += rng.Int64N(6)
			}
			ts := max(0, now-rng.Int64N(18))
			key := fmt.Sprintf("k%d", rng.IntN(4))
			val, has := fmt.Sprintf("v%d", rng.IntN(1000)), rng.IntN(4) > 0
			rec := RestoreRecord{Key: []byte(key), TimestampMs: ts}
			if has {
				rec.Value = []byte(val)
				if rng.IntN(8) == 0 {
					rec.Value, val = []byte{}, ""
				}
			}
			got, err := v.Put(rec.Key, rec.Value, ts)
			must(t, err)
			if want := live.put(key, val, has, ts); got != want {
				t.Fatalf("put %s@%d is %d, want %d", key, ts, got, want)
			}
			private = append(private, rec)
		case n < 35:
			u := set.HandOver()
			log = append(log, private...)
			private = nil
			must(t, set.Seal(u, map[string]Position{"v": {Offset: int64(len(log)), Epoch: -1}}))
			sealed = live.clone()
			if rng.IntN(2) == 0 {
				must(t, set.Flush())
			}
		case n < 37:
			set.DropAll()
			live, private = sealed.clone(), nil
		case n < 39: // a restart: the store is replayed from where it stands
			must(t, set.Close())
			set = openVersioned(t, db, persistent)
			v = versionedOf(t, set)
			replay(t, set, log, rng)
			live, private = sealed.clone(), nil
		default: // built anew from its changelog
			set.DropAll()
			must(t, set.Reset("v", UnknownChangelog(), "test"))
			replay(t, set, log, rng)
			live, private = sealed.clone(), nil
		}
		if rng.IntN(8) == 0 {
			checkVersions(t, v, live, now+2)
		}
	}
	checkVersions(t, v, live, now+2)
}

func replay(t *testing.T, set *Set, log []RestoreRecord, rng *rand.Rand) {
	t.Helper()
	at := int64(0)
	if p, ok := set.Position("v"); ok {
		at = p.Offset
	}
	r, err := set.BeginRestore("v")
	must(t, err)
	for at < int64(len(log)) {
		n := min(int64(len(log)), at+1+rng.Int64N(20))
		must(t, r.Apply(log[at:n], Position{Offset: n, Epoch: -1}))
		at = n
	}
	_, err = r.Finish(Position{Offset: at, Epoch: -1})
	must(t, err)
}

// TestVersionedLeavesTheDisk checks that what is beyond the history is not kept.
func TestVersionedLeavesTheDisk(t *testing.T) {
	db := openDB(t, memOptions())
	set := openVersioned(t, db, true)
	v := versionedOf(t, set)
	for ts := int64(0); ts < 2000; ts++ {
		_, err := v.Put([]byte(fmt.Sprintf("k%d", ts%4)), []byte("x"), ts)
		must(t, err)
		if ts%4 == 0 {
			_, err = v.Put([]byte(fmt.Sprintf("gone%d", ts)), nil, ts)
			must(t, err)
		}
		if ts%10 == 9 {
			commit(t, set, "v", ts)
			must(t, set.Flush())
		}
	}
	n, err := set.byName["v"].base.count()
	must(t, err)
	if n > 4+2*17+10 { // the latest values, and the versions of history and segment
		t.Fatalf("%d entries are left", n)
	}
}

// TestVersionedRestoreFollowsCommittedTime checks that a changelog that is ahead of the input does not make it late.
func TestVersionedRestoreFollowsCommittedTime(t *testing.T) {
	for _, persistent := range []bool{true, false} {
		set := openVersioned(t, openDB(t, memOptions()), persistent)
		r, err := set.BeginRestore("v")
		must(t, err)
		r.LimitTime(10)
		must(t, r.Apply([]RestoreRecord{
			{Key: []byte("a"), Value: []byte("1"), TimestampMs: 5},
			{Key: []byte("a"), Value: []byte("2"), TimestampMs: 100},
			{Key: []byte("b"), Value: []byte("3"), TimestampMs: 101},
			{Key: []byte("b"), TimestampMs: 200},
		}, Position{Offset: 4, Epoch: -1}))
		_, err = r.Finish(Position{Offset: 4, Epoch: -1})
		must(t, err)
		v := versionedOf(t, set)
		if got := v.ObservedMs(); got != 10 {
			t.Fatalf("observed %d, want 10", got)
		}
		for _, c := range []struct {
			key  string
			ts   int64
			want PutResult
		}{{"a", 7, PutStale}, {"b", 150, PutStale}, {"b", 150, PutStale}} {
			got, err := v.Put([]byte(c.key), []byte("x"), c.ts)
			must(t, err)
			if got != c.want {
				t.Fatalf("put %s@%d is %d, want %d", c.key, c.ts, got, c.want)
			}
		}
		if got, ok, err := v.GetAsOf([]byte("b"), 160); err != nil || !ok || show(got) != "x[150,200)" {
			t.Fatalf("b as of 160 is %q, %v, %v", show(got), ok, err)
		}
	}
}

// A look at the past reads the version that it asks for, and not all that came after it: neither does a put that comes late.
func TestVersioned_longHistory(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		const versions, looks = 20_000, 50
		set := open(Spec{Name: "v", Kind: Versioned, RetentionMs: 10 * versions})
		v, err := set.Versioned("v")
		must(t, err)
		for i := range int64(versions) {
			_, err := v.Put([]byte("key"), []byte("value"), 2*i)
			must(t, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range int64(looks) {
			if got, ok, err := v.GetAsOf([]byte("key"), 2*i); err != nil || !ok || got.FromMs != 2*i || got.ToMs != 2*i+2 {
				t.Fatalf("as of %d: %+v, %v, %v", 2*i, got, ok, err)
			}
			if done, err := v.Put([]byte("key"), []byte("late"), 2*i+1); err != nil || done != PutStale {
				t.Fatalf("put at %d: %v, %v", 2*i+1, done, err)
			}
		}
		runtime.ReadMemStats(&after)
		// With the rows that come after, a look would allocate more than a megabyte.
		if n := (after.TotalAlloc - before.TotalAlloc) / looks; n > 300_000 {
			t.Errorf("a look and a late put allocate %d bytes", n)
		}
	})
}
