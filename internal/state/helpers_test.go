package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openDB(t testing.TB, opts Options) *DB {
	t.Helper()
	db, err := OpenDB(opts)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func memOptions() Options { return testOptions(vfs.NewMem(), func() int64 { return 1_000_000 }) }

func openSet(t testing.TB, db *DB, task string, specs ...Spec) *Set {
	t.Helper()
	set, err := db.OpenSet(task, specs, nil)
	must(t, err)
	return set
}

func kvSpec(name string) Spec {
	return Spec{Name: name, Kind: KeyValue, Persistent: true, Logged: true}
}

func kvOf(t testing.TB, set *Set, name string) *KV {
	t.Helper()
	kv, err := set.KeyValue(name)
	must(t, err)
	return kv
}

func windowOf(t testing.TB, set *Set, name string) *WindowStore {
	t.Helper()
	w, err := set.Window(name)
	must(t, err)
	return w
}

// commit hands over what is private and seals it at a position.
func commit(t testing.TB, set *Set, store string, offset int64) {
	t.Helper()
	must(t, set.Seal(set.HandOver(), map[string]Position{store: {Offset: offset, Epoch: 1}}))
}

func wantValue(t testing.TB, kv *KV, key, want string) {
	t.Helper()
	v, ok, err := kv.Get([]byte(key))
	must(t, err)
	if !ok || string(v) != want {
		t.Fatalf("%q is %q, %v, want %q", key, v, ok, want)
	}
}

func wantNone(t testing.TB, kv *KV, key string) {
	t.Helper()
	v, ok, err := kv.Get([]byte(key))
	must(t, err)
	if ok {
		t.Fatalf("%q is %q, want nothing", key, v)
	}
}

// list reads an iterator to its end as key=value, or key@start=value for windows.
func list(t testing.TB, it *Iterator, err error) []string {
	t.Helper()
	must(t, err)
	var out []string
	for it.Next() {
		s := string(it.Key())
		if it.s.spec.windowed() {
			s = fmt.Sprintf("%s@%d", s, it.StartMs())
		}
		out = append(out, s+"="+string(it.Value()))
	}
	must(t, it.Err())
	must(t, it.Close())
	return out
}

func wantList(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// engines runs a test on each engine, with each kind of overlay.
func engines(t *testing.T, test func(t *testing.T, open func(Spec) *Set)) {
	for _, persistent := range []bool{true, false} {
		for _, ordered := range []bool{true, false} {
			t.Run(fmt.Sprintf("persistent=%v/ordered=%v", persistent, ordered), func(t *testing.T) {
				test(t, func(spec Spec) *Set {
					spec.Persistent, spec.Ordered, spec.Logged = persistent, ordered, true
					if persistent {
						return openSet(t, openDB(t, memOptions()), testTask, spec)
					}
					set, err := NewMemorySet([]Spec{spec})
					must(t, err)
					return set
				})
			})
		}
	}
}
