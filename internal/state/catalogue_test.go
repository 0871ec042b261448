package state

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// snapshotOf is what a catalogue says.
func snapshotOf(c *catalogue) map[storeID]entry {
	m := map[storeID]entry{}
	for id, e := range c.entries {
		m[id] = *e
	}
	return m
}

// catalogueScript is a series of changes; each is told before and after.
func catalogueScript(c *catalogue, step func(name string, change func() error)) {
	a, b := storeID{"0_1", "a"}, storeID{"0_1", "b \"\n\u2028é"}
	add := func(id storeID, spec Spec) line { return c.add(id, spec, c.next) }
	step("add a", func() error { return c.change(add(a, Spec{Kind: KeyValue, Logged: true})) })
	step("add b", func() error { return c.change(add(b, Spec{Kind: Window})) })
	step("clean b", func() error { return c.change(c.entries[b].line("clean")) })
	step("replace a, drop b", func() error {
		return c.change(add(a, Spec{Kind: Session, Logged: true}), c.entries[b].line("drop"))
	})
	step("add b again", func() error { return c.change(add(b, Spec{Kind: KeyValue})) })
}

// TestCatalogueCrashPoints cuts the power before each operation of the file system: what is read afterwards is what was
// said before the change in question or after it, and no incarnation is given out again.
func TestCatalogueCrashPoints(t *testing.T) {
	fs := vfs.NewCrashableMem()
	must(t, makeDir(fs, "state"))
	rng := rand.New(rand.NewPCG(1, 1))
	var before map[storeID]entry // the change in progress
	type crash struct {
		name   string
		clone  *vfs.MemFS
		before map[storeID]entry
		next   incarnation
	}
	var crashes []crash
	name := "open"
	var next incarnation
	hook := errorfs.InjectorFunc(func(op errorfs.Op) error {
		for _, percent := range []int{0, 50, 100} {
			crashes = append(crashes, crash{
				name, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), before, next,
			})
		}
		return nil
	})
	results := map[string]map[storeID]entry{}
	for round := range 2 { // the second round opens what the first has left
		name = fmt.Sprint("open ", round)
		c, err := openCatalogue(errorfs.Wrap(fs, hook), "state")
		must(t, err)
		before = snapshotOf(c)
		results[name] = before
		catalogueScript(c, func(what string, change func() error) {
			name = fmt.Sprint(what, " ", round)
			must(t, change())
			before, next = snapshotOf(c), c.next
			results[name] = before
		})
		must(t, c.close())
	}
	if len(crashes) < 30 {
		t.Fatalf("the script has %d crash points only", len(crashes))
	}
	for i, cr := range crashes {
		c, err := openCatalogue(cr.clone, "state")
		if err != nil {
			t.Fatalf("crash %d in %q: %v", i, cr.name, err)
		}
		got := snapshotOf(c)
		if !maps.Equal(got, cr.before) && !maps.Equal(got, results[cr.name]) {
			t.Fatalf("crash %d in %q: the catalogue says %v; before the change it was %v, after it %v",
				i, cr.name, got, cr.before, results[cr.name])
		}
		if c.next < cr.next {
			t.Fatalf("crash %d in %q: the next incarnation is %d, %d was said before", i, cr.name, c.next, cr.next)
		}
		must(t, c.close())
	}
}

// TestCatalogueWriteErrors fails each operation of the file system in turn. The change in question is refused, the
// catalogue goes on by saying what it said before, and the next change is written whole.
func TestCatalogueWriteErrors(t *testing.T) {
	failed := 0
	for n := int32(0); ; n++ {
		fs := vfs.NewMem()
		must(t, makeDir(fs, "state"))
		c, err := openCatalogue(fs, "state")
		must(t, err)
		inject := errorfs.OnIndex(n)
		toggle := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return inject.MaybeError(op)
			}
			return nil
		})}
		c.fs = errorfs.Wrap(fs, toggle)
		must(t, c.rewrite())
		toggle.On()
		broke := false
		catalogueScript(c, func(what string, change func() error) {
			said := snapshotOf(c)
			if err := change(); err != nil {
				broke = true
				if !errors.Is(err, errorfs.ErrInjected) {
					t.Fatalf("%s: %v", what, err)
				}
				if !maps.Equal(said, snapshotOf(c)) {
					t.Fatalf("%s failed and took effect", what)
				}
				must(t, change())
			}
			read, err := openCatalogue(copyFS(t, fs), "state")
			must(t, err)
			if !maps.Equal(snapshotOf(c), snapshotOf(read)) {
				t.Fatalf("%s: on disk is %v instead of %v", what, snapshotOf(read), snapshotOf(c))
			}
			must(t, read.close())
		})
		if !broke {
			break
		}
		failed++
	}
	if failed < 5 {
		t.Fatalf("%d operations failed only", failed)
	}
}

func copyFS(t *testing.T, fs *vfs.MemFS) *vfs.MemFS {
	t.Helper()
	to := vfs.NewMem()
	must(t, makeDir(to, "state"))
	b, err := readFile(fs, fs.PathJoin("state", catalogueFile))
	must(t, err)
	must(t, writeSynced(to, "state", catalogueFile, b))
	return to
}

func TestCatalogueLines(t *testing.T) {
	fs := vfs.NewMem()
	must(t, makeDir(fs, "state"))
	read := func(text string) (*catalogue, error) {
		t.Helper()
		must(t, writeSynced(fs, "state", catalogueFile, []byte(text)))
		return openCatalogue(fs, "state")
	}
	whole := func(l line) string {
		b, err := l.append(nil)
		must(t, err)
		return string(b)
	}
	head := whole(line{Op: "format", Format: formatVersion, Incarnation: 9})
	add := whole(line{Op: "add", Incarnation: 12, Task: "0_1", Store: "a", Kind: "window"})
	for name, c := range map[string]struct {
		text    string
		entries int
		next    incarnation
		err     bool
	}{
		"empty":             {text: "", next: 1},
		"head":              {text: head, next: 9},
		"entry":             {text: head + add, entries: 1, next: 13},
		"torn":              {text: head + add + add[:20], entries: 1, next: 13},
		"torn to one byte":  {text: head + add[:1], next: 9},
		"no newline":        {text: head + strings.TrimSuffix(add, "\n"), next: 9},
		"bad last line":     {text: head + add + "xxxxxxxx {}\n", entries: 1, next: 13},
		"bad line between":  {text: head + "xxxxxxxx {}\n" + add, err: true},
		"another format":    {text: whole(line{Op: "format", Format: 7}) + add, err: true},
		"unknown operation": {text: head + whole(line{Op: "swap"}) + add, err: true},
		"unknown kind":      {text: head + whole(line{Op: "add", Kind: "x"}) + add, err: true},
		"drop of another":   {text: head + add + whole(line{Op: "drop", Incarnation: 11, Task: "0_1", Store: "a"}), entries: 1, next: 13},
		"drop":              {text: head + add + whole(line{Op: "drop", Incarnation: 12, Task: "0_1", Store: "a"}), next: 13},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(c.text)
			if c.err {
				if !errors.Is(err, ErrCorrupt) {
					t.Fatalf("reading returns %v", err)
				}
				return
			}
			must(t, err)
			if len(got.entries) != c.entries || got.next != c.next {
				t.Fatalf("%d entries, next is %d, want %d, %d", len(got.entries), got.next, c.entries, c.next)
			}
		})
	}
}

// TestDirectoryCrashPoints cuts the power at every operation of the file system, Pebble's included, while a store is
// filled, dropped, and filled again. Afterwards the store shows what it held at its position, and never anything of the
// life before the drop.
func TestDirectoryCrashPoints(t *testing.T) {
	mem := vfs.NewCrashableMem()
	rng := rand.New(rand.NewPCG(2, 2))
	type crash struct {
		phase int
		op    string
		clone *vfs.MemFS
	}
	var mu sync.Mutex
	var crashes []crash
	phase := 0
	hook := errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			for _, percent := range []int{0, 60} {
				crashes = append(crashes, crash{
					phase, fmt.Sprint(op.Kind, " ", op.Path), mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}),
				})
			}
		}
		return nil
	})
	enter := func(p int) {
		mu.Lock()
		phase = p
		mu.Unlock()
	}
	opts := testOptions(errorfs.Wrap(mem, hook), func() int64 { return 1_000_000 })
	db := openDB(t, opts)
	fill := func(set *Set, value string) {
		for i := range int64(3) {
			must(t, kvOf(t, set, "a").Put([]byte("k"), fmt.Append(nil, value, i+1)))
			commit(t, set, "a", i+1)
			must(t, set.Flush())
			must(t, db.p.Flush())
		}
	}
	set := openSet(t, db, testTask, kvSpec("a"))
	fill(set, "old")
	must(t, set.Close())
	enter(1)
	must(t, db.DropStore(testTask, "a"))
	enter(2)
	set = openSet(t, db, testTask, kvSpec("a"))
	fill(set, "new")
	must(t, db.Close())

	seen := map[string]int{}
	for i, cr := range crashes {
		o := testOptions(cr.clone, opts.Now)
		db, err := OpenDB(o)
		if err != nil {
			t.Fatalf("crash %d at %s: %v", i, cr.op, err)
		}
		if at, reason, ok := db.MovedAside(); ok && cr.op != "" {
			// Only a database whose creation was cut short may be taken for damaged.
			if cr.phase > 0 {
				t.Fatalf("crash %d at %s: moved to %s: %v", i, cr.op, at, reason)
			}
		}
		set := openSet(t, db, testTask, kvSpec("a"))
		p, _ := set.Position("a")
		v, ok, err := kvOf(t, set, "a").Get([]byte("k"))
		must(t, err)
		got := string(v)
		seen[got]++
		want := ""
		if p.Offset > 0 {
			life := "old"
			if strings.HasPrefix(got, "new") || cr.phase == 2 {
				life = "new"
			}
			want = fmt.Sprint(life, p.Offset)
		}
		if got != want || ok != (want != "") || strings.HasPrefix(got, "new") && cr.phase < 2 {
			t.Fatalf("crash %d at %s in phase %d: the store holds %q at position %v", i, cr.op, cr.phase, got, p)
		}
		must(t, db.Close())
	}
	t.Logf("%d crash points: %v", len(crashes), seen)
	if len(seen) < 6 {
		t.Errorf("the crash points show too little: %v", seen)
	}
}
