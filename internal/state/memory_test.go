package state

import (
	"testing"
)

func TestMemorySetLayers(t *testing.T) {
	set, err := NewMemorySet([]Spec{{Name: "a", Kind: KeyValue}})
	if err != nil {
		t.Fatal(err)
	}
	kv, err := set.KeyValue("a")
	if err != nil {
		t.Fatal(err)
	}
	want := func(key, value string) {
		t.Helper()
		v, ok, err := kv.Get([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		if ok != (value != "") || string(v) != value {
			t.Fatalf("%s is %q, %v, want %q", key, v, ok, value)
		}
	}
	put := func(key, value string) {
		t.Helper()
		if err := kv.Put([]byte(key), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	put("x", "1")
	u1 := set.HandOver()
	put("x", "2")
	want("x", "2")
	u2 := set.HandOver()
	put("x", "3")
	if err := set.DropPrivate(); err != nil {
		t.Fatal(err)
	}
	want("x", "2")
	if err := set.Seal(u2, nil); err == nil {
		t.Fatal("a unit was sealed out of order")
	}
	if err := set.Seal(u1, map[string]Position{"a": {Offset: 7}}); err != nil {
		t.Fatal(err)
	}
	if err := set.DropAll(); err != nil {
		t.Fatal(err)
	}
	want("x", "1")
	if p, ok := set.Position("a"); !ok || p.Offset != 7 {
		t.Fatalf("position is %v, %v", p, ok)
	}
}
