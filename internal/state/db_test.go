package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestLock opens one directory twice, in memory and on the machine's file system.
func TestLock(t *testing.T) {
	machine := memOptions()
	machine.FS, machine.Dir = nil, filepath.Join(t.TempDir(), "sub", "state")
	for name, opts := range map[string]Options{"memory": memOptions(), "machine": machine} {
		t.Run(name, func(t *testing.T) {
			db := openDB(t, opts)
			_, err := OpenDB(opts)
			if !errors.Is(err, ErrInUse) {
				t.Fatalf("the second OpenDB returns %v", err)
			}
			for _, want := range []string{opts.Dir, fmt.Sprintf("process %d", os.Getpid()), `"app"`} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not name %s: %v", want, err)
				}
			}
			must(t, db.Close())
			must(t, db.Close())
			must(t, openDB(t, opts).Close())
		})
	}
}

func TestForeignDirectory(t *testing.T) {
	opts := memOptions()
	db := openDB(t, opts)
	id := db.ProcessID()
	must(t, db.Close())
	for _, change := range []func(*Options){
		func(o *Options) { o.ClusterID = "other-cluster" },
		func(o *Options) { o.ApplicationID = "other-app" },
	} {
		o := opts
		change(&o)
		_, err := OpenDB(o)
		if !errors.Is(err, ErrForeign) {
			t.Fatalf("OpenDB returns %v", err)
		}
		ours, theirs := o.ClusterID, opts.ClusterID
		if o.ApplicationID != opts.ApplicationID {
			ours, theirs = o.ApplicationID, opts.ApplicationID
		}
		for _, want := range []string{ours, theirs, "another directory"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not say %q: %v", want, err)
			}
		}
	}
	opts.NewID = func() string { return "another" }
	db = openDB(t, opts)
	if db.ProcessID() != id {
		t.Fatalf("the process id has changed from %q to %q", id, db.ProcessID())
	}
	must(t, db.Close())

	must(t, writeSynced(opts.FS, opts.Dir, identityFile, []byte(`{"format":99,"cluster_id":"cluster","application_id":"app","process_id":"x"}`)))
	if _, err := OpenDB(opts); err == nil || !strings.Contains(err.Error(), "format 99") {
		t.Fatalf("a directory of another format gives %v", err)
	}
	must(t, writeSynced(opts.FS, opts.Dir, identityFile, []byte("not json")))
	if _, err := OpenDB(opts); err == nil {
		t.Fatal("an unreadable identity was taken")
	}
}

// TestDropShowsNothingOld: a store that is created again has nothing of its former life, and the rows of that leave the
// database.
func TestDropShowsNothingOld(t *testing.T) {
	opts := memOptions()
	db := openDB(t, opts)
	fill := func(set *Set) {
		for _, name := range []string{"a", "b"} {
			must(t, kvOf(t, set, name).Put([]byte("k"), []byte("old")))
			commit(t, set, name, 1)
		}
		must(t, set.SetMeta("a", "time", 4))
		commit(t, set, "a", 2)
		must(t, set.Flush())
	}
	set := openSet(t, db, testTask, kvSpec("a"), kvSpec("b"))
	first := set.stores[0].disk.inc
	fill(set)
	must(t, db.DropStore(testTask, "a"))
	must(t, db.DropStore(testTask, "never there"))
	if _, _, err := kvOf(t, set, "a").Get([]byte("k")); !errors.Is(err, ErrSuperseded) {
		t.Fatalf("the handle of a dropped store returns %v", err)
	}
	wantValue(t, kvOf(t, set, "b"), "k", "old")
	if err := set.Flush(); !errors.Is(err, ErrSuperseded) {
		t.Fatalf("the flush of a dropped store returns %v", err)
	}
	set.Abandon()

	set = openSet(t, db, testTask, kvSpec("a"), kvSpec("b"))
	wantNone(t, kvOf(t, set, "a"), "k")
	wantValue(t, kvOf(t, set, "b"), "k", "old")
	if _, ok := set.Position("a"); ok {
		t.Fatal("the new store has the position of the old one")
	}
	if _, ok := set.Meta("a", "time"); ok {
		t.Fatal("the new store has a number of the old one")
	}
	if r, _ := set.Opened("a"); r.Existed {
		t.Fatal("the new store is said to have been there")
	}
	if r, _ := set.Opened("b"); !r.Existed || r.Header.Position.Offset != 1 {
		t.Fatalf("the kept store is reported as %+v", r)
	}
	if set.stores[0].disk.inc == first {
		t.Fatal("an incarnation was used twice")
	}
	it, err := db.p.NewIter(nil)
	must(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		if string(it.Key()[:8]) == string(first.headerKey()[:8]) {
			t.Fatalf("the row %x of a dropped store is left", it.Key())
		}
	}
	must(t, it.Close())

	must(t, db.DropTask(testTask))
	tasks, err := db.Tasks()
	must(t, err)
	if len(tasks) != 0 {
		t.Fatalf("after the task was dropped there is %v", tasks)
	}
}

// TestDropSurvivesCrash: the rows of a dropped store come back with a crash, because their deletion was in memory only;
// nobody sees them, and the start sweeps them away.
func TestDropSurvivesCrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	opts := testOptions(fs, func() int64 { return 1_000_000 })
	db := openDB(t, opts)
	set := openSet(t, db, testTask, kvSpec("a"))
	old := set.stores[0].disk.inc
	must(t, kvOf(t, set, "a").Put([]byte("k"), []byte("old")))
	commit(t, set, "a", 1)
	must(t, set.Flush())
	must(t, db.p.Flush())
	must(t, db.DropStore(testTask, "a"))
	opts.FS = fs.CrashClone(vfs.CrashCloneCfg{})
	db = openDB(t, opts)
	set = openSet(t, db, testTask, kvSpec("a"))
	wantNone(t, kvOf(t, set, "a"), "k")
	if _, closer, err := db.p.Get(old.headerKey()); err == nil {
		_ = closer.Close()
		t.Fatal("the rows of the dropped store were not swept away")
	}
	if got := set.stores[0].disk.inc; got <= old {
		t.Fatalf("the new incarnation is %d, the old one was %d", got, old)
	}
}

func TestTasks(t *testing.T) {
	now := int64(1_000_000)
	opts := testOptions(vfs.NewMem(), func() int64 { return now })
	db := openDB(t, opts)
	set := openSet(t, db, "0_1", kvSpec("a"), Spec{Name: "w", Kind: Window, RetentionMs: 100, Persistent: true, Logged: true})
	openSet(t, db, "1_0", kvSpec("a"))
	_, err := windowOf(t, set, "w").Put([]byte("k"), 70, 0, []byte("v"))
	must(t, err)
	commit(t, set, "w", 12)
	must(t, set.SetLevel("w", now))
	now += 5
	must(t, db.Close())
	db = openDB(t, opts)
	got, err := db.Tasks()
	must(t, err)
	if len(got) != 3 {
		t.Fatalf("%d stores: %+v", len(got), got)
	}
	w := got[1]
	h := w.Header
	if w.Task != "0_1" || w.Store != "w" || w.Kind != Window || !w.Logged || !h.HasPosition ||
		h.Position != (Position{12, 1}) || h.ObservedMs != 70 || h.LevelMs != now {
		t.Fatalf("the window store is %+v", w)
	}
	if got[0].Header.HasPosition || got[2].Task != "1_0" {
		t.Fatalf("the others are %+v", got)
	}
}

// TestNewestHandle: opening a store again takes it away from the set that had it.
func TestNewestHandle(t *testing.T) {
	db := openDB(t, memOptions())
	old := openSet(t, db, testTask, kvSpec("a"))
	kv := kvOf(t, old, "a")
	must(t, kv.Put([]byte("k"), []byte("v")))
	commit(t, old, "a", 1)
	must(t, old.Flush())
	it, err := kv.Range(nil, nil, false)
	must(t, err)
	set := openSet(t, db, testTask, kvSpec("a"))
	if old.stores[0].disk.inc != set.stores[0].disk.inc {
		t.Fatal("opening a store again gave it a new incarnation")
	}
	if it.Next() || !errors.Is(it.Err(), ErrSuperseded) {
		t.Fatalf("an iterator of the old handle ends with %v", it.Err())
	}
	must(t, it.Close())
	if _, _, err := kv.Get([]byte("k")); !errors.Is(err, ErrSuperseded) {
		t.Fatalf("the old handle reads: %v", err)
	}
	must(t, kv.Put([]byte("k"), []byte("stale")))
	must(t, old.Seal(old.HandOver(), nil))
	if err := old.Flush(); !errors.Is(err, ErrSuperseded) {
		t.Fatalf("the old handle writes: %v", err)
	}
	if _, err := old.BeginRestore("a"); !errors.Is(err, ErrSuperseded) {
		t.Fatalf("the old handle restores: %v", err)
	}
	if err := old.Close(); !errors.Is(err, ErrSuperseded) {
		t.Fatalf("the old handle closes with %v", err)
	}
	wantValue(t, kvOf(t, set, "a"), "k", "v")
}

// TestUnlogged: a store without a changelog survives a regular stop only.
func TestUnlogged(t *testing.T) {
	fs := vfs.NewCrashableMem()
	opts := testOptions(fs, func() int64 { return 1_000_000 })
	spec := Spec{Name: "a", Kind: KeyValue, Persistent: true}
	start := func() (*DB, *Set, OpenReport) {
		db := openDB(t, opts)
		set := openSet(t, db, testTask, spec)
		r, _ := set.Opened("a")
		return db, set, r
	}
	db, set, r := start()
	if r.Existed || r.Emptied != "" {
		t.Fatalf("a new store is reported as %+v", r)
	}
	must(t, kvOf(t, set, "a").Put([]byte("k"), []byte("v")))
	must(t, set.Seal(set.HandOver(), nil))
	must(t, set.Close())
	set = openSet(t, db, testTask, spec) // taken back in the same process
	wantValue(t, kvOf(t, set, "a"), "k", "v")
	must(t, db.Close())

	db, set, r = start()
	if !r.Existed || r.Emptied != "" {
		t.Fatalf("after a regular stop the store is reported as %+v", r)
	}
	wantValue(t, kvOf(t, set, "a"), "k", "v")
	must(t, set.Flush())
	must(t, db.p.Flush())
	opts.FS = fs.CrashClone(vfs.CrashCloneCfg{})

	_, set, r = start()
	if r.Existed || !strings.Contains(r.Emptied, "did not stop regularly") {
		t.Fatalf("after a crash the store is reported as %+v", r)
	}
	wantNone(t, kvOf(t, set, "a"), "k")
}

// TestUnloggedAbandoned: an abandoned set was not closed regularly.
func TestUnloggedAbandoned(t *testing.T) {
	opts := memOptions()
	spec := Spec{Name: "a", Kind: KeyValue, Persistent: true}
	db := openDB(t, opts)
	set := openSet(t, db, testTask, spec)
	must(t, kvOf(t, set, "a").Put([]byte("k"), []byte("v")))
	must(t, set.Seal(set.HandOver(), nil))
	must(t, set.Flush())
	set.Abandon()
	must(t, db.Close())
	set = openSet(t, openDB(t, opts), testTask, spec)
	if r, _ := set.Opened("a"); r.Emptied == "" {
		t.Fatalf("the store is reported as %+v", r)
	}
	wantNone(t, kvOf(t, set, "a"), "k")
}

// TestStoreChangesItsNature: a store that comes back as another kind starts empty.
func TestStoreChangesItsNature(t *testing.T) {
	db := openDB(t, memOptions())
	set := openSet(t, db, testTask, kvSpec("a"), kvSpec("b"))
	for i, name := range []string{"a", "b"} {
		must(t, kvOf(t, set, name).Put([]byte("k"), []byte("v")))
		commit(t, set, name, int64(i))
	}
	must(t, set.Close())
	unlogged := kvSpec("b")
	unlogged.Logged = false
	set = openSet(t, db, testTask, Spec{Name: "a", Kind: Window, RetentionMs: 10, Persistent: true, Logged: true}, unlogged)
	for _, name := range []string{"a", "b"} {
		if r, _ := set.Opened(name); r.Existed || r.Emptied == "" {
			t.Errorf("%s is reported as %+v", name, r)
		}
	}
	it, err := windowOf(t, set, "a").FetchAll(0, 100, false)
	wantList(t, list(t, it, err))
	wantNone(t, kvOf(t, set, "b"), "k")
}

func TestCheckStore(t *testing.T) {
	hour := int64(3_600_000)
	day := 24 * hour
	h := Header{TopicID: [16]byte{1}, Position: Position{Offset: 50, Epoch: 3}, HasPosition: true, LevelMs: 100 * day}
	log := Changelog{TopicID: [16]byte{1}, DeleteRetentionMs: day, StartOffset: 10, EndOffset: 60, EpochEnd: 55}
	for name, c := range map[string]struct {
		kind   Kind
		change func(*Header, *Changelog)
		now    int64
		want   string
	}{
		"fresh":                    {want: ""},
		"another topic":            {change: func(_ *Header, l *Changelog) { l.TopicID[0] = 2 }, want: "created anew"},
		"topic id not known":       {change: func(_ *Header, l *Changelog) { l.TopicID[0] = 0 }, want: ""},
		"epoch truncated":          {change: func(_ *Header, l *Changelog) { l.EpochEnd = 49 }, want: "truncated"},
		"epoch ends at position":   {change: func(_ *Header, l *Changelog) { l.EpochEnd = 50 }, want: ""},
		"behind the end":           {change: func(_ *Header, l *Changelog) { l.EndOffset = 49 }, want: "ends at offset 49"},
		"at the end":               {change: func(_ *Header, l *Changelog) { l.EndOffset = 50 }, want: ""},
		"before the start":         {change: func(_ *Header, l *Changelog) { l.StartOffset = 51 }, want: "starts at offset 51"},
		"at the start":             {change: func(_ *Header, l *Changelog) { l.StartOffset = 50 }, want: ""},
		"windows cut by retention": {kind: Window, change: func(_ *Header, l *Changelog) { l.StartOffset = 51 }, want: ""},
		"half the retention":       {now: 100*day + 12*hour, want: ""},
		"more than half":           {now: 100*day + 12*hour + 1, want: "last level"},
		"deletions are kept":       {now: 900 * day, change: func(_ *Header, l *Changelog) { l.DeleteRetentionMs = 0 }, want: ""},
		"in the future, a little":  {now: 100*day - 12*hour, want: ""},
		"in the future":            {now: 100*day - 12*hour - 1, want: "in the future"},
		"never level":              {change: func(h *Header, _ *Changelog) { h.LevelMs = NoTime }, want: "not known"},
		"never written":            {change: func(h *Header, l *Changelog) { h.HasPosition = false; l.TopicID[0] = 2 }, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, log := h, log
			if c.change != nil {
				c.change(&h, &log)
			}
			if c.kind == 0 {
				c.kind = KeyValue
			}
			if c.now == 0 {
				c.now = 100*day + hour
			}
			got := CheckStore(c.kind, h, log, c.now)
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Fatalf("reason is %q, want %q", got, c.want)
			}
		})
	}
}

// TestRebuiltAlone: of two stores the one whose changelog was created anew is emptied.
func TestRebuiltAlone(t *testing.T) {
	db := openDB(t, memOptions())
	ids := map[string][16]byte{"a": {1}, "b": {2}}
	identify := func(store string) Changelog {
		c := UnknownChangelog()
		c.TopicID = ids[store]
		return c
	}
	open := func() *Set {
		set, err := db.OpenSet(testTask, []Spec{kvSpec("a"), kvSpec("b")}, identify)
		must(t, err)
		return set
	}
	set := open()
	for _, name := range []string{"a", "b"} {
		must(t, kvOf(t, set, name).Put([]byte("k"), []byte("v")))
		commit(t, set, name, 1)
	}
	must(t, set.Close())
	ids["b"] = [16]byte{3}
	set = open()
	wantValue(t, kvOf(t, set, "a"), "k", "v")
	wantNone(t, kvOf(t, set, "b"), "k")
	if r, _ := set.Opened("b"); r.Existed || !strings.Contains(r.Emptied, "created anew") || r.Header.TopicID != [16]byte{2} {
		t.Fatalf("the rebuilt store is reported as %+v", r)
	}
	if _, ok := set.Position("b"); ok {
		t.Fatal("the emptied store has a position")
	}
}

// TestLevelTime: an active store is level as long as it is open, a standby as of the last time that was set.
func TestLevelTime(t *testing.T) {
	now := int64(1_000_000)
	opts := testOptions(vfs.NewMem(), func() int64 { return now })
	db := openDB(t, opts)
	set := openSet(t, db, testTask, kvSpec("active"), kvSpec("standby"), kvSpec("never"))
	level := func(name string) int64 {
		t.Helper()
		tasks, err := db.Tasks()
		must(t, err)
		i := slices.IndexFunc(tasks, func(s TaskStore) bool { return s.Store == name })
		return tasks[i].Header.LevelMs
	}
	restore(t, set, "active", 5, records("k", "v"))
	if got := level("active"); got != now {
		t.Fatalf("while it is first restored a store counts as level since %d, want %d", got, now)
	}
	must(t, set.SetLevel("active", now))
	r, err := set.BeginRestore("standby")
	must(t, err)
	now += 1000
	must(t, r.Apply(records("k", "v"), Position{Offset: 1}))
	must(t, r.Flush())
	must(t, set.SetLevel("standby", now))
	must(t, set.Flush())
	if set.FlushDue(now) {
		t.Fatal("a flush is due at once")
	}
	now += 60_000
	if set.FlushDue(now) {
		t.Fatal("a flush is due after a minute without work")
	}
	now += levelRenewMs
	if !set.FlushDue(now) {
		t.Fatal("no flush is due to renew the level time")
	}
	must(t, set.Flush())
	if level("active") != now || level("standby") != 1_001_000 || level("never") != NoTime {
		t.Fatalf("level times are %d, %d, %d", level("active"), level("standby"), level("never"))
	}
	now += 30_000
	must(t, set.Close())
	if got := level("active"); got != now {
		t.Fatalf("after Close the store was level at %d, want %d", got, now)
	}
}

func TestFlushDue(t *testing.T) {
	now := int64(1_000_000)
	opts := testOptions(vfs.NewMem(), func() int64 { return now })
	opts.SealedBytes, opts.SealedMs = 10_000, 2_000
	set := openSet(t, openDB(t, opts), testTask, kvSpec("a"))
	kv := kvOf(t, set, "a")
	must(t, kv.Put([]byte("k"), []byte("v")))
	if set.FlushDue(now + 10_000) {
		t.Fatal("private writes make a flush due")
	}
	commit(t, set, "a", 1)
	if set.FlushDue(now+1_999) || !set.FlushDue(now+2_000) {
		t.Fatal("a flush is not due after exactly two seconds")
	}
	must(t, kv.Put([]byte("k2"), make([]byte, 10_000)))
	commit(t, set, "a", 2)
	if set.SealedBytes() < 10_000 || !set.FlushDue(now) {
		t.Fatal("no flush is due when the bytes are reached")
	}
	must(t, set.Flush())
	if set.SealedBytes() != 0 || set.FlushDue(now+100_000) {
		t.Fatal("after the flush another one is due")
	}
}

// TestIdleIteratorsAreGivenBack: one that is kept for the next read must not keep files for ever.
func TestIdleIteratorsAreGivenBack(t *testing.T) {
	db := openDB(t, memOptions())
	set := openSet(t, db, testTask, kvSpec("a"))
	kv := kvOf(t, set, "a")
	wantNone(t, kv, "k")
	it, err := kv.Range(nil, nil, false)
	must(t, err)
	wantNone(t, kv, "k")
	if n := len(set.stores[0].disk.idle); n != 1 {
		t.Fatalf("%d iterators are idle", n)
	}
	must(t, db.Maintain())
	if n := len(set.stores[0].disk.idle); n != 0 {
		t.Fatalf("%d iterators are idle", n)
	}
	wantList(t, list(t, it, nil))
	wantNone(t, kv, "k")
}

// TestMaintain writes Pebble's memory to disk by time, so that a crash loses seconds only.
func TestMaintain(t *testing.T) {
	now := int64(1_000_000)
	fs := vfs.NewCrashableMem()
	opts := testOptions(fs, func() int64 { return now })
	db := openDB(t, opts)
	set := openSet(t, db, testTask, kvSpec("a"))
	must(t, kvOf(t, set, "a").Put([]byte("k"), []byte("v")))
	commit(t, set, "a", 1)
	must(t, set.Flush())
	before := db.p.Metrics().Flush.Count
	now += 4_999
	must(t, db.Maintain())
	if db.dirtySinceMs == NoTime {
		t.Fatal("the flush came early")
	}
	now++
	must(t, db.Maintain())
	if db.dirtySinceMs != NoTime {
		t.Fatal("no flush was started")
	}
	must(t, db.p.Flush()) // waits for the one that was started
	if after := db.p.Metrics().Flush.Count; after <= before {
		t.Fatalf("%d flushes before, %d after", before, after)
	}
	opts.FS = fs.CrashClone(vfs.CrashCloneCfg{})
	set = openSet(t, openDB(t, opts), testTask, kvSpec("a"))
	wantValue(t, kvOf(t, set, "a"), "k", "v")
}
