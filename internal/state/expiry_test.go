package state

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// tableBytes is what the table files of a database take.
func tableBytes(t *testing.T, fs vfs.FS, opts Options) (n int64) {
	t.Helper()
	dir := fs.PathJoin(opts.Dir, databaseDir)
	names, err := fs.List(dir)
	must(t, err)
	for _, name := range names {
		info, err := fs.Stat(fs.PathJoin(dir, name))
		if err == nil { // a file may be deleted meanwhile
			n += info.Size()
		}
	}
	return n
}

// TestClosedWindowsLeaveTheDisk: when the time moves on, the rows of expired segments leave the disk without anybody
// compacting it.
func TestClosedWindowsLeaveTheDisk(t *testing.T) {
	fs := vfs.NewMem()
	opts := testOptions(fs, func() int64 { return 1_000_000 })
	deleted := make(chan struct{}, 1)
	opts.deleted = func() {
		select {
		case deleted <- struct{}{}:
		default:
		}
	}
	db := openDB(t, opts)
	set := openSet(t, db, testTask, Spec{Name: "w", Kind: Window, RetentionMs: 1000, SegmentMs: 100, Persistent: true, Logged: true})
	w := windowOf(t, set, "w")
	rng := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 500)
	for start := int64(0); start < 1000; start += 10 {
		for k := range 20 {
			for i := range value {
				value[i] = byte(rng.Uint32())
			}
			_, err := w.Put(fmt.Appendf(nil, "key-%d", k), start, 0, value)
			must(t, err)
		}
		if start%100 == 90 {
			commit(t, set, "w", start)
			must(t, set.Flush())
			must(t, db.p.Flush())
		}
	}
	full := tableBytes(t, fs, opts)
	if full < 800_000 {
		t.Fatalf("the windows take %d bytes only", full)
	}
	if n := len(set.stores[0].disk.segs); n != 10 {
		t.Fatalf("%d segments on disk", n)
	}
	_, err := w.Put([]byte("far"), 10_000, 0, []byte("v"))
	must(t, err)
	commit(t, set, "w", 2000)
	must(t, set.Flush())
	if got := set.stores[0].disk.segs; len(got) != 1 || got[0] != 100 {
		t.Fatalf("segments on disk are %v", got)
	}
	must(t, db.p.Flush())
	for tableBytes(t, fs, opts) > full/10 {
		select {
		case <-deleted:
		case <-t.Context().Done():
			t.Fatal("the tables are not deleted")
		}
	}
	it, err := w.FetchAll(0, 20_000, false)
	wantList(t, list(t, it, err), "far@10000=v")
}

// TestSegmentsKeepTheirLength: another retention changes what is visible, not where rows lie.
func TestSegmentsKeepTheirLength(t *testing.T) {
	opts := memOptions()
	open := func(spec Spec) (*DB, *Set) {
		spec.Name, spec.Kind, spec.Persistent, spec.Logged = "w", Window, true, true
		db := openDB(t, opts)
		return db, openSet(t, db, testTask, spec)
	}
	db, set := open(Spec{RetentionMs: 1000, SegmentMs: 100})
	for _, start := range []int64{50, 450, 950} {
		_, err := windowOf(t, set, "w").Put([]byte("k"), start, 0, []byte("v"))
		must(t, err)
	}
	commit(t, set, "w", 1)
	must(t, db.Close())
	db, set = open(Spec{RetentionMs: 600, SegmentMs: 7})
	if got := set.Stores()[0].SegmentMs; got != 100 {
		t.Fatalf("segments are %d ms long", got)
	}
	wantList(t, fetch(t, windowOf(t, set, "w"), "k", 0, 2000, false), "k@450=v", "k@950=v")
	_, err := windowOf(t, set, "w").Put([]byte("k"), 1000, 0, []byte("v"))
	must(t, err)
	commit(t, set, "w", 2)
	must(t, db.Close())
	db, set = open(Spec{RetentionMs: 600, SegmentMs: 7})
	wantList(t, fetch(t, windowOf(t, set, "w"), "k", 0, 2000, false), "k@450=v", "k@950=v", "k@1000=v")
	if got := set.stores[0].disk.segs; len(got) != 3 {
		t.Fatalf("the segment that the shorter retention leaves behind is on disk: %v", got)
	}
	must(t, set.Reset("w", UnknownChangelog(), "test"))
	if got := set.Stores()[0].SegmentMs; got != 7 {
		t.Fatalf("in the next life segments are %d ms long", got)
	}
	must(t, db.Close())
}
