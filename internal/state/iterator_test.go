package state

import (
	"errors"
	"fmt"
	"testing"
)

// TestC086_IteratorMemory: what an iterator returned stays what it was until the iterator moves, and what it will return
// stays what it was when it was made, whatever is written, flushed and compacted meanwhile.
func TestC086_IteratorMemory(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "a", Kind: KeyValue})
		kv := kvOf(t, set, "a")
		const n = 1000
		write := func(value string, layers bool) {
			t.Helper()
			for i := range n {
				must(t, kv.Put(fmt.Appendf(nil, "key-%04d", i), []byte(value)))
				if layers && i == n/4 {
					commit(t, set, "a", 1)
					must(t, set.Flush())
				}
				if layers && i == n/2 {
					commit(t, set, "a", 2)
				}
				if layers && i == 3*n/4 {
					set.HandOver()
				}
			}
		}
		write("first", true)
		it, err := kv.Range(nil, nil, false)
		must(t, err)
		var keys, values [][]byte
		for i := 0; it.Next(); i++ {
			if i == 10 {
				// In the middle of the walk everything changes below it.
				for _, u := range set.units {
					must(t, set.Seal(u, nil))
				}
				write("other", false)
				commit(t, set, "a", 3)
				must(t, set.Flush())
				if set.db != nil {
					must(t, set.db.p.Flush())
					must(t, set.db.p.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
				}
			}
			keys = append(keys, append([]byte(nil), it.Key()...))
			values = append(values, append([]byte(nil), it.Value()...))
		}
		must(t, it.Err())
		must(t, it.Close())
		must(t, it.Close())
		if len(keys) != n {
			t.Fatalf("%d rows, want %d", len(keys), n)
		}
		for i := range keys {
			if want := fmt.Sprintf("key-%04d", i); string(keys[i]) != want || string(values[i]) != "first" {
				t.Fatalf("row %d is %s=%s, want %s=first", i, keys[i], values[i], want)
			}
		}
		if it.Next() || !errors.Is(it.Err(), ErrClosed) || it.Key() != nil || it.Value() != nil {
			t.Fatalf("after Close the iterator goes on, or ends with %v", it.Err())
		}
		wantValue(t, kv, "key-0000", "other")
		if set.stores[0].iters != 0 {
			t.Fatal("a closed iterator counts as open")
		}
	})
}

// TestRangeBounds: from is included, to is not, nil is open.
func TestRangeBounds(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "a", Kind: KeyValue})
		kv := kvOf(t, set, "a")
		for i, k := range []string{"a", "b", "c", "d"} {
			must(t, kv.Put([]byte(k), fmt.Append(nil, i)))
			if i == 1 {
				commit(t, set, "a", 1)
				must(t, set.Flush())
			}
		}
		must(t, kv.Delete([]byte("a")))
		scan := func(from, to []byte, reverse bool) []string {
			t.Helper()
			it, err := kv.Range(from, to, reverse)
			return list(t, it, err)
		}
		wantList(t, scan(nil, nil, false), "b=1", "c=2", "d=3")
		wantList(t, scan([]byte("b"), []byte("d"), false), "b=1", "c=2")
		wantList(t, scan([]byte("b"), []byte("d"), true), "c=2", "b=1")
		wantList(t, scan([]byte("bb"), nil, true), "d=3", "c=2")
		wantList(t, scan(nil, []byte("b"), false))
		wantList(t, scan([]byte("d"), []byte("b"), false))
		wantList(t, scan([]byte("d"), []byte("d"), true))
		wantList(t, scan([]byte(""), []byte("zz"), false), "b=1", "c=2", "d=3")
	})
}

// TestStaleIteratorsAreNotReused: an iterator that was open over a flush must not serve later reads.
func TestStaleIteratorsAreNotReused(t *testing.T) {
	set := openSet(t, openDB(t, memOptions()), testTask, kvSpec("a"))
	kv := kvOf(t, set, "a")
	must(t, kv.Put([]byte("k"), []byte("1")))
	commit(t, set, "a", 1)
	must(t, set.Flush())
	it, err := kv.Range(nil, nil, false)
	must(t, err)
	must(t, kv.Put([]byte("k"), []byte("2")))
	commit(t, set, "a", 2)
	must(t, set.Flush())
	must(t, it.Close())
	wantValue(t, kv, "k", "2")
	it, err = kv.Range(nil, nil, false)
	wantList(t, list(t, it, err), "k=2")
}
