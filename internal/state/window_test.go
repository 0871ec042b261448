package state

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func casesStore(t *testing.T, open func(Spec) *Set) (*Set, *WindowStore) {
	t.Helper()
	set := open(Spec{Name: "c", Kind: Window, RetentionMs: 1000, SegmentMs: 7})
	w := windowOf(t, set, "c")
	for i, r := range []struct {
		key   string
		start int64
	}{{"a", 0}, {"aa", 0}, {"a", 10}, {"aa", 10}, {"a", 20}, {"ab", 10}, {"a", 30}} {
		accepted, err := w.Put([]byte(r.key), r.start, 0, []byte("1"))
		must(t, err)
		if !accepted {
			t.Fatalf("%v was not accepted", r)
		}
		switch i { // spread the rows over all layers
		case 1:
			commit(t, set, "c", 1)
			must(t, set.Flush())
		case 3:
			commit(t, set, "c", 2)
		case 5:
			set.HandOver()
		}
	}
	return set, w
}

func fetch(t *testing.T, w *WindowStore, key string, from, to int64, reverse bool) []string {
	t.Helper()
	it, err := w.Fetch([]byte(key), from, to, reverse)
	return list(t, it, err)
}

// TestC082_KeysOfDifferentLength fetches one key among others that it is a prefix of.
func TestC082_KeysOfDifferentLength(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		_, w := casesStore(t, open)
		wantList(t, fetch(t, w, "a", 0, 20, false), "a@0=1", "a@10=1", "a@20=1")
		wantList(t, fetch(t, w, "a", 0, 30, true), "a@30=1", "a@20=1", "a@10=1", "a@0=1")
		wantList(t, fetch(t, w, "aa", 0, 30, false), "aa@0=1", "aa@10=1")
		wantList(t, fetch(t, w, "", 0, 30, false))
		it, err := w.FetchAll(10, 20, false)
		wantList(t, list(t, it, err), "a@10=1", "aa@10=1", "ab@10=1", "a@20=1") // segments [7,14) and [14,21)
		it, err = w.FetchAll(10, 20, true)
		wantList(t, list(t, it, err), "a@20=1", "ab@10=1", "aa@10=1", "a@10=1")
	})
}

// TestC082_EscapedKeys has keys whose bytes look like the inside of a row's key.
func TestC082_EscapedKeys(t *testing.T) {
	keys := []string{"", "\x00", "\x00\x01", "\x00\xff", "a", "a\x00", "a\x00\x01", "a\x00\x01\x80\x00\x00\x00\x00\x00\x00\x0a", "\xff", "\x00\x00"}
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "c", Kind: Window, RetentionMs: 1000})
		w := windowOf(t, set, "c")
		for _, k := range keys {
			for _, start := range []int64{0, 10, 256} {
				_, err := w.Put([]byte(k), start, 3, []byte(k))
				must(t, err)
			}
		}
		commit(t, set, "c", 1)
		must(t, set.Flush())
		for _, k := range keys {
			wantList(t, fetch(t, w, k, 5, 300, false), fmt.Sprintf("%s@10=%s", k, k), fmt.Sprintf("%s@256=%s", k, k))
			v, ok, err := w.Get([]byte(k), 10, 3)
			must(t, err)
			if !ok || string(v) != k {
				t.Fatalf("%q is %q, %v", k, v, ok)
			}
		}
	})
}

// TestFetchBackwards_fromTheLastRow has rows at the very bound of what is fetched, up to the end of time.
func TestFetchBackwards_fromTheLastRow(t *testing.T) {
	const end = math.MaxInt64
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "c", Kind: Window, RetentionMs: 1000})
		w := windowOf(t, set, "c")
		for _, key := range []string{"k", "k\x00", "k\x00\x01", "k\x01", "l"} {
			for _, start := range []int64{end, end - 1, end - 7} {
				for _, seq := range []uint32{math.MaxUint32, 0} {
					_, err := w.Put([]byte(key), start, seq, fmt.Append(nil, seq))
					must(t, err)
				}
			}
		}
		commit(t, set, "c", 1)
		must(t, set.Flush())
		row := func(start int64) []string {
			return []string{fmt.Sprintf("k@%d=%d", start, uint32(math.MaxUint32)), fmt.Sprintf("k@%d=0", start)}
		}
		wantList(t, fetch(t, w, "k", 0, end, true), slices.Concat(row(end), row(end-1), row(end-7))...)
		wantList(t, fetch(t, w, "k", 0, end-1, true), slices.Concat(row(end-1), row(end-7))...)
		wantList(t, fetch(t, w, "k", end-6, end-1, true), row(end-1)...)
		wantList(t, fetch(t, w, "k", 0, end-2, true), row(end-7)...)
		wantList(t, fetch(t, w, "k", 0, end-8, true))
	})
}

// TestC084_BoundsAndRetention: bounds are inclusive, and a row is visible if its start is greater than the highest start
// minus the retention, whether or not its segment is still there.
func TestC084_BoundsAndRetention(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set, w := casesStore(t, open)
		wantList(t, fetch(t, w, "a", 1, 19, false), "a@10=1")
		wantList(t, fetch(t, w, "a", 20, 10, false))
		wantList(t, fetch(t, w, "a", 10, 10, false), "a@10=1")
		_, err := w.Put([]byte("z"), 1000, 0, []byte("1")) // of the record z@1005
		must(t, err)
		if got := w.ObservedStartMs(); got != 1000 {
			t.Fatalf("observed start is %d", got)
		}
		for range 3 {
			wantList(t, fetch(t, w, "a", 0, 30, false), "a@10=1", "a@20=1", "a@30=1")
			for _, start := range []int64{0, 10} {
				_, ok, err := w.Get([]byte("a"), start, 0)
				must(t, err)
				if ok != (start == 10) {
					t.Fatalf("a@%d is there: %v", start, ok)
				}
			}
			accepted, err := w.Put([]byte("a"), 0, 0, []byte("late")) // of the record a@3
			must(t, err)
			if accepted {
				t.Fatal("an expired row was accepted")
			}
			accepted, err = w.Delete([]byte("a"), 0, 0)
			must(t, err)
			if accepted {
				t.Fatal("an expired row was deleted")
			}
			for u := set.units; len(u) > 0; u = set.units {
				must(t, set.Seal(u[0], nil))
			}
			commit(t, set, "c", 9)
			must(t, set.Flush())
		}
	})
}

// TestObservedStartIsDropped: an aborted unit takes the time that it has moved with it.
func TestObservedStartIsDropped(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set, w := casesStore(t, open)
		_, err := w.Put([]byte("z"), 5000, 0, []byte("1"))
		must(t, err)
		wantList(t, fetch(t, w, "a", 0, 30, false))
		must(t, set.DropPrivate())
		if got := w.ObservedStartMs(); got != 20 { // the put of 30 was private as well
			t.Fatalf("observed start is %d", got)
		}
		wantList(t, fetch(t, w, "a", 0, 30, false), "a@0=1", "a@10=1", "a@20=1")
		must(t, set.DropAll())
		wantList(t, fetch(t, w, "a", math.MinInt64, math.MaxInt64, false), "a@0=1", "a@10=1")
	})
}

func TestExpiryFreesMemory(t *testing.T) {
	set, err := NewMemorySet([]Spec{{Name: "c", Kind: Window, RetentionMs: 100, SegmentMs: 50}})
	must(t, err)
	w := windowOf(t, set, "c")
	var top int64
	for start := int64(0); start < 5000; start += 10 {
		for k := range 20 {
			_, err := w.Put(fmt.Append(nil, "key-", k), start, 0, make([]byte, 100))
			must(t, err)
		}
		commit(t, set, "c", start)
		if start == 500 {
			top = set.BaseBytes()
		}
	}
	if got := set.BaseBytes(); got > top*3/2 || got == 0 {
		t.Fatalf("the base holds %d bytes, %d at the beginning", got, top)
	}
	_, err = w.Put([]byte("far"), 1_000_000, 0, []byte("1"))
	must(t, err)
	commit(t, set, "c", 6000)
	if got := set.BaseBytes(); got > 200 {
		t.Fatalf("after all rows but one expired the base holds %d bytes", got)
	}
}

func TestSessions(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "s", Kind: Session, RetentionMs: 1000, SegmentMs: 50})
		s, err := set.Session("s")
		must(t, err)
		for i, r := range []struct{ start, end int64 }{{0, 40}, {10, 40}, {60, 120}, {200, 200}, {90, 90}} {
			_, err := s.Put([]byte("k"), r.start, r.end, fmt.Append(nil, i))
			must(t, err)
			_, err = s.Put([]byte("kk"), r.start, r.end, []byte("other"))
			must(t, err)
			if i == 1 {
				commit(t, set, "s", 1)
				must(t, set.Flush())
			}
		}
		find := func(earliestEnd, latestStart int64, reverse bool) (out []string) {
			t.Helper()
			it, err := s.Find([]byte("k"), earliestEnd, latestStart, reverse)
			must(t, err)
			for it.Next() {
				out = append(out, fmt.Sprintf("%s[%d,%d]=%s", it.Key(), it.StartMs(), it.EndMs(), it.Value()))
			}
			must(t, it.Err())
			must(t, it.Close())
			return out
		}
		wantList(t, find(40, 60, false), "k[0,40]=0", "k[10,40]=1", "k[60,120]=2")
		wantList(t, find(41, 90, true), "k[60,120]=2", "k[90,90]=4")
		wantList(t, find(0, 9, false), "k[0,40]=0")
		if got := s.ObservedEndMs(); got != 200 {
			t.Fatalf("observed end is %d", got)
		}
		_, err = s.Delete([]byte("k"), 60, 120)
		must(t, err)
		commit(t, set, "s", 2)
		must(t, set.Flush())
		wantList(t, find(0, 500, false), "k[0,40]=0", "k[10,40]=1", "k[90,90]=4", "k[200,200]=3")
		v, ok, err := s.Get([]byte("k"), 10, 40)
		must(t, err)
		if !ok || string(v) != "1" {
			t.Fatalf("[10,40] is %q, %v", v, ok)
		}
		it, err := s.FindAll(90, 120, false)
		wantList(t, list(t, it, err), "k@90=4", "kk@90=other", "kk@60=other")
	})
}
