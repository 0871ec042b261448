package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestUnits(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "a", Kind: KeyValue})
		kv := kvOf(t, set, "a")
		put := func(key, value string) {
			t.Helper()
			must(t, kv.Put([]byte(key), []byte(value)))
		}
		if u := set.HandOver(); u != nil || u.Bytes() != 0 {
			t.Fatal("a unit without writes is not nil")
		}
		put("x", "1")
		must(t, set.SetMeta("a", "time", 1))
		u1 := set.HandOver()
		put("x", "2")
		must(t, set.SetMeta("a", "time", 2))
		wantValue(t, kv, "x", "2")
		u2 := set.HandOver()
		put("x", "3")
		put("y", "3")
		must(t, set.DeleteMeta("a", "time"))
		if _, ok := set.Meta("a", "time"); ok {
			t.Fatal("a deleted number is there")
		}
		if set.PrivateBytes() == 0 || set.PendingBytes() == 0 {
			t.Fatal("layers with writes count no bytes")
		}
		must(t, set.DropPrivate())
		if n := set.PrivateBytes(); n != 0 {
			t.Fatalf("dropped writes count %d bytes", n)
		}
		wantValue(t, kv, "x", "2")
		wantNone(t, kv, "y")
		if err := set.Seal(u2, nil); err == nil {
			t.Fatal("a unit was sealed before an older one")
		}
		must(t, set.Seal(u1, map[string]Position{"a": {Offset: 7, Epoch: 2}}))
		if err := set.Seal(u1, nil); err == nil {
			t.Fatal("a unit was sealed twice")
		}
		wantValue(t, kv, "x", "2")
		must(t, set.DropAll())
		wantValue(t, kv, "x", "1")
		if v, ok := set.Meta("a", "time"); v != 1 || !ok {
			t.Fatalf("the number is %d, %v, want 1", v, ok)
		}
		if p, ok := set.Position("a"); !ok || p != (Position{Offset: 7, Epoch: 2}) {
			t.Fatalf("position is %v, %v", p, ok)
		}
		must(t, set.Seal(nil, map[string]Position{"a": {Offset: 9, Epoch: 2}}))
		if p, _ := set.Position("a"); p.Offset != 9 {
			t.Fatalf("position is %v", p)
		}
		if err := set.Seal(nil, map[string]Position{"b": {}}); err == nil {
			t.Fatal("a position of an unknown store was taken")
		}
	})
}

// TestDiscard drops a unit in the middle, and with it everything that was computed on top of it.
func TestDiscard(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "a", Kind: KeyValue})
		kv := kvOf(t, set, "a")
		var units []*Unit
		for i := range 4 {
			must(t, kv.Put([]byte("x"), fmt.Append(nil, i)))
			if i < 3 {
				units = append(units, set.HandOver())
			}
		}
		must(t, set.Discard(units[1]))
		wantValue(t, kv, "x", "0")
		must(t, set.Discard(units[2])) // gone with the one before
		must(t, set.Discard(nil))
		wantValue(t, kv, "x", "0")
		must(t, set.Seal(units[0], nil))
		must(t, set.Discard(units[0]))
		wantValue(t, kv, "x", "0")
	})
}

// TestEmptyIsNotNil tells empty keys and values from missing ones, through all layers.
func TestEmptyIsNotNil(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "a", Kind: KeyValue})
		kv := kvOf(t, set, "a")
		must(t, kv.Put(nil, nil))
		for range 3 {
			v, ok, err := kv.Get([]byte{})
			must(t, err)
			if !ok || v == nil || len(v) != 0 {
				t.Fatalf("the empty value is %v, %v", v, ok)
			}
			it, err := kv.Range(nil, nil, false)
			must(t, err)
			if !it.Next() || it.Key() == nil || it.Value() == nil {
				t.Fatal("the empty row is missing")
			}
			must(t, it.Close())
			commit(t, set, "a", 1)
			must(t, set.Flush())
		}
		must(t, kv.Delete(nil))
		wantNone(t, kv, "")
	})
}

func TestApproximateEntries(t *testing.T) {
	engines(t, func(t *testing.T, open func(Spec) *Set) {
		set := open(Spec{Name: "a", Kind: KeyValue})
		kv := kvOf(t, set, "a")
		want := func(n int64) {
			t.Helper()
			got, err := kv.ApproximateEntries()
			must(t, err)
			if got != n {
				t.Fatalf("%d entries, want %d", got, n)
			}
		}
		want(0)
		for i := range 10 {
			must(t, kv.Put(fmt.Append(nil, i), []byte("v")))
		}
		want(10)
		commit(t, set, "a", 1)
		want(10)
		must(t, set.Flush())
		want(10)
	})
	set, err := NewMemorySet([]Spec{{Name: "a", Kind: KeyValue}})
	must(t, err)
	kv := kvOf(t, set, "a")
	for i := range 10 {
		must(t, kv.Put(fmt.Append(nil, i), []byte("v")))
	}
	commit(t, set, "a", 1)
	must(t, kv.Delete([]byte("1")))
	must(t, kv.Put([]byte("2"), []byte("w")))
	set.HandOver()
	must(t, kv.Put([]byte("1"), []byte("w")))
	must(t, kv.Delete([]byte("3")))
	n, err := kv.ApproximateEntries()
	must(t, err)
	if n != 9 {
		t.Fatalf("%d entries in memory, want exactly 9", n)
	}
}

func TestSpecsAreChecked(t *testing.T) {
	for _, specs := range [][]Spec{
		{{Kind: KeyValue}},
		{{Name: "\xff", Kind: KeyValue}},
		{{Name: "a"}},
		{{Name: "a", Kind: 9}},
		{{Name: "a", Kind: Window}},
		{{Name: "a", Kind: Session, RetentionMs: 1, SegmentMs: -1}},
		{{Name: "a", Kind: KeyValue}, {Name: "a", Kind: KeyValue}},
	} {
		if _, err := NewMemorySet(specs); err == nil || !strings.HasPrefix(err.Error(), "millrace: ") {
			t.Errorf("%+v: error is %v", specs, err)
		}
	}
	set, err := NewMemorySet([]Spec{
		{Name: "a", Kind: Window, RetentionMs: 10},
		{Name: "b", Kind: Window, RetentionMs: 600_000},
		{Name: "c", Kind: Window, RetentionMs: 10, SegmentMs: 5},
	})
	must(t, err)
	for i, want := range []int64{60_000, 300_000, 5} {
		if got := set.Stores()[i].SegmentMs; got != want {
			t.Errorf("segments of store %d are %d ms long, want %d", i, got, want)
		}
	}
	if _, err := set.KeyValue("a"); err == nil {
		t.Error("a window store passed for a key-value store")
	}
	if _, err := set.Window("x"); err == nil {
		t.Error("an unknown store was found")
	}
}

func TestClosedSet(t *testing.T) {
	set, err := NewMemorySet([]Spec{{Name: "a", Kind: KeyValue}})
	must(t, err)
	kv := kvOf(t, set, "a")
	must(t, kv.Put([]byte("k"), []byte("v")))
	it, err := kv.Range(nil, nil, false)
	must(t, err)
	must(t, set.Close())
	must(t, set.Close())
	if it.Next() || !errors.Is(it.Err(), ErrClosed) {
		t.Fatalf("the iterator of a closed set ends with %v", it.Err())
	}
	must(t, it.Close())
	if _, _, err := kv.Get([]byte("k")); !errors.Is(err, ErrClosed) {
		t.Fatalf("get returns %v", err)
	}
	if err := kv.Put([]byte("k"), nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("put returns %v", err)
	}
	if set.HandOver() != nil {
		t.Fatal("a closed set hands over a unit")
	}
}

// TestHotPathAllocations pins what a look-up and the replacement of a value cost once the key is in a layer.
func TestHotPathAllocations(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		set, err := NewMemorySet([]Spec{
			{Name: "a", Kind: KeyValue, Ordered: ordered}, {Name: "w", Kind: Window, RetentionMs: 1000},
		})
		must(t, err)
		kv, w := kvOf(t, set, "a"), windowOf(t, set, "w")
		key, value := []byte("key"), []byte("value")
		run := func() {
			if _, _, err := kv.Get(key); err != nil {
				t.Fatal(err)
			}
			if err := kv.Put(key, value); err != nil {
				t.Fatal(err)
			}
			if err := set.SetMeta("a", "time", 1); err != nil {
				t.Fatal(err)
			}
			if _, _, err := w.Get(key, 10, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Put(key, 10, 0, value); err != nil {
				t.Fatal(err)
			}
		}
		run()
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("ordered=%v: %v allocations", ordered, n)
		}
	}
}
