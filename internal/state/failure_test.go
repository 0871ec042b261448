package state

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestDiskFull: a flush that finds too little space changes nothing, says what is missing, and works once there is room.
func TestDiskFull(t *testing.T) {
	free := int64(1 << 40)
	opts := memOptions()
	opts.MinFreeBytes = 1000
	opts.FreeBytes = func(dir string) (int64, error) {
		if dir != opts.Dir {
			t.Errorf("the free space of %q was asked for", dir)
		}
		return free, nil
	}
	db := openDB(t, opts)
	set := openSet(t, db, testTask, kvSpec("a"))
	kv := kvOf(t, set, "a")
	must(t, kv.Put([]byte("k"), []byte("v")))
	commit(t, set, "a", 1)
	free = 900
	for range 2 {
		err := set.Flush()
		if !errors.Is(err, ErrDiskFull) {
			t.Fatalf("flush returns %v", err)
		}
		for _, want := range []string{opts.Dir, "900", fmt.Sprint(1000 + set.SealedBytes())} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error does not name %s: %v", want, err)
			}
		}
		wantValue(t, kv, "k", "v")
	}
	if _, err := set.BeginRestore("a"); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("a restore begins with %v", err)
	}
	free = 1 << 40
	r, err := set.BeginRestore("a")
	must(t, err)
	must(t, r.Apply(records("k", "w"), Position{Offset: 2}))
	free = 900
	if err := r.Flush(); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("a restore writes with %v", err)
	}
	wantValue(t, kv, "k", "v")
	free = 1 << 40
	must(t, r.Flush())
	wantValue(t, kv, "k", string(stamped(0, []byte("w"))))
	if db.Err() != nil {
		t.Fatalf("the database has failed: %v", db.Err())
	}
	opts.FreeBytes = func(string) (int64, error) { return 0, errors.New("no answer") }
	if err := (&DB{opts: opts}).checkSpace(1); err == nil || errors.Is(err, ErrDiskFull) {
		t.Fatalf("without an answer the check returns %v", err)
	}
}

// fatal gathers what OnFatal is told.
type fatal struct {
	mu   sync.Mutex
	errs []error
	told chan struct{}
}

func newFatal() *fatal { return &fatal{told: make(chan struct{}, 16)} }

func (f *fatal) on(err error) {
	f.mu.Lock()
	f.errs = append(f.errs, err)
	f.mu.Unlock()
	f.told <- struct{}{}
}

func (f *fatal) all() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errs
}

// TestWriteErrors: when files of the database cannot be written, the process lives on, the owner is told once, nothing is
// written any more, and a later start goes on from what was durable.
func TestWriteErrors(t *testing.T) {
	for _, suffix := range []string{".sst", "MANIFEST-"} {
		for _, cause := range []error{syscall.ENOSPC, syscall.EIO} {
			t.Run(fmt.Sprint(suffix, cause), func(t *testing.T) {
				var toggle errorfs.Toggle
				toggle.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
					if strings.Contains(path.Base(op.Path), suffix) && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
						return cause
					}
					return nil
				})
				mem := vfs.NewCrashableMem()
				opts := testOptions(errorfs.Wrap(mem, &toggle), func() int64 { return 1_000_000 })
				f := newFatal()
				opts.OnFatal = f.on
				db := openDB(t, opts)
				set := openSet(t, db, testTask, kvSpec("a"))
				kv := kvOf(t, set, "a")
				must(t, kv.Put([]byte("k"), []byte("durable")))
				commit(t, set, "a", 1)
				must(t, set.Flush())
				must(t, db.p.Flush())
				must(t, kv.Put([]byte("k"), []byte("lost")))
				commit(t, set, "a", 2)
				must(t, set.Flush())
				toggle.On()
				_, err := db.p.AsyncFlush()
				must(t, err)
				<-f.told
				toggle.Off()
				if err := db.Err(); !errors.Is(err, ErrFailed) {
					t.Fatalf("the database's error is %v", err)
				}
				if suffix == ".sst" && errors.Is(db.Err(), ErrDiskFull) != (cause == syscall.ENOSPC) {
					t.Fatalf("the database's error is %v", db.Err())
				}
				must(t, kv.Put([]byte("k"), []byte("refused")))
				commit(t, set, "a", 3)
				if err := set.Flush(); !errors.Is(err, ErrFailed) {
					t.Fatalf("flush returns %v", err)
				}
				if _, err := db.OpenSet("1_0", []Spec{kvSpec("b")}, nil); !errors.Is(err, ErrFailed) {
					t.Fatalf("OpenSet returns %v", err)
				}
				if err := db.Close(); !errors.Is(err, ErrFailed) {
					t.Fatalf("Close returns %v", err)
				}
				if n := len(f.all()); n != 1 {
					t.Fatalf("OnFatal was called %d times: %v", n, f.all())
				}
				db = openDB(t, opts)
				set = openSet(t, db, testTask, kvSpec("a"))
				p, _ := set.Position("a")
				want := map[int64]string{1: "durable", 2: "lost"}[p.Offset]
				wantValue(t, kvOf(t, set, "a"), "k", want)
			})
		}
	}
}

// TestWriteErrors_atClose: a database whose last flush cannot be written is closed all the same.
func TestWriteErrors_atClose(t *testing.T) {
	for _, suffix := range []string{".sst", "MANIFEST-"} {
		t.Run(suffix, func(t *testing.T) {
			var toggle errorfs.Toggle
			toggle.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
				if strings.Contains(path.Base(op.Path), suffix) && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					return syscall.EIO
				}
				return nil
			})
			opts := testOptions(errorfs.Wrap(vfs.NewCrashableMem(), &toggle), func() int64 { return 1_000_000 })
			db := openDB(t, opts)
			set := openSet(t, db, testTask, kvSpec("a"))
			must(t, kvOf(t, set, "a").Put([]byte("k"), []byte("v")))
			commit(t, set, "a", 1)
			must(t, set.Flush())
			toggle.On()
			if err := db.Close(); !errors.Is(err, ErrFailed) {
				t.Fatalf("Close returns %v", err)
			}
			toggle.Off()
			db = openDB(t, opts) // a lock that was kept would refuse it
			openSet(t, db, testTask, kvSpec("a"))
		})
	}
}

// damage changes one file of a copy of a database.
var damages = map[string]func(b []byte) []byte{
	"flipped": func(b []byte) []byte {
		for i := len(b) / 3; i < len(b)/3+32 && i < len(b); i++ {
			b[i] ^= 0x55
		}
		return b
	},
	"halved":  func(b []byte) []byte { return b[:len(b)/2] },
	"emptied": func([]byte) []byte { return nil },
	"removed": nil,
}

// TestDamagedFiles damages each file of a directory in turn. Whatever it is, the next start works: with the data, or with
// an empty database if that was moved aside. Damage that shows only later is told to OnFatal, and the start after that
// works.
func TestDamagedFiles(t *testing.T) {
	build := func() (*vfs.MemFS, Options) {
		fs := vfs.NewCrashableMem()
		opts := testOptions(fs, func() int64 { return 1_000_000 })
		db, err := OpenDB(opts)
		must(t, err)
		set := openSet(t, db, testTask, kvSpec("a"))
		kv := kvOf(t, set, "a")
		for round := range int64(3) {
			for i := range 500 {
				must(t, kv.Put(fmt.Appendf(nil, "key-%03d", i), damageValue(round, i)))
			}
			commit(t, set, "a", round+1)
			must(t, set.Flush())
			must(t, db.p.Flush())
		}
		// Pebble compacts by itself, but when is its own affair: the files must be the same each time.
		must(t, db.p.Compact(t.Context(), []byte{0}, bytes.Repeat([]byte{0xff}, 16), false))
		must(t, db.Close())
		return fs, opts
	}
	fs, opts := build()
	db := fs.PathJoin(opts.Dir, databaseDir)
	names, err := fs.List(db)
	must(t, err)
	files := []string{fs.PathJoin(opts.Dir, catalogueFile)}
	for _, n := range names {
		files = append(files, fs.PathJoin(db, n))
	}
	outcomes := map[string]int{}
	for _, file := range files {
		content, err := readFile(fs, file)
		must(t, err)
		for kind, change := range damages {
			if len(content) == 0 && (kind == "flipped" || kind == "halved") {
				continue // there is nothing to change
			}
			t.Run(fmt.Sprintf("%s/%s", path.Base(file), kind), func(t *testing.T) {
				opts := opts
				clone := fs.CrashClone(vfs.CrashCloneCfg{})
				opts.FS = clone
				f := newFatal()
				opts.OnFatal = f.on
				if change == nil {
					must(t, clone.Remove(file))
				} else {
					must(t, writeSynced(clone, clone.PathDir(file), path.Base(file), change(bytes.Clone(content))))
				}
				outcome := start(t, opts, f)
				if outcome == "damaged later" {
					outcome = start(t, opts, newFatal())
					if outcome != "aside" {
						t.Fatalf("after damage was found at run time the next start is %q", outcome)
					}
					outcome = "damaged later"
				}
				outcomes[outcome]++
				if got := start(t, opts, newFatal()); got != "data" && got != "empty" {
					t.Fatalf("the start after that is %q", got)
				}
			})
		}
	}
	t.Logf("outcomes: %v", outcomes)
	if outcomes["aside"] == 0 || outcomes["damaged later"] == 0 || outcomes["data"] == 0 {
		t.Errorf("the outcomes are one-sided: %v", outcomes)
	}
}

// damageValue is a value that does not compress, so that the rows fill several blocks.
func damageValue(round int64, i int) []byte {
	rng := rand.New(rand.NewPCG(uint64(round), uint64(i)))
	b := make([]byte, 400)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// start opens a directory and reads its store: "data" if all is there that stands for its position, "empty" if the store is empty, "aside" if it is
// because the database was moved aside, "damaged later" if reading found the damage.
func start(t *testing.T, opts Options, f *fatal) string {
	t.Helper()
	db, err := OpenDB(opts)
	if err != nil {
		t.Fatalf("OpenDB returns %v", err)
	}
	defer db.Close()
	later := func(err error) string {
		t.Helper()
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFailed) {
			t.Fatalf("the error is not marked as damage: %v", err)
		}
		<-f.told
		if errs := f.all(); len(errs) != 1 || !errors.Is(errs[0], ErrCorrupt) {
			t.Fatalf("OnFatal was told %v", errs)
		}
		return "damaged later"
	}
	set, err := db.OpenSet(testTask, []Spec{kvSpec("a")}, nil)
	if err != nil {
		return later(err)
	}
	it, err := kvOf(t, set, "a").Range(nil, nil, false)
	if err != nil {
		return later(err)
	}
	// A manifest that lost its end leads back to an earlier flush: older rows, and the position that they stand for.
	p, _ := set.Position("a")
	n := 0
	for ; it.Next(); n++ {
		if !bytes.Equal(it.Value(), damageValue(p.Offset-1, n)) {
			t.Fatalf("at position %d %s has another value than was put for it", p.Offset, it.Key())
		}
	}
	if it.Err() != nil {
		return later(it.Err())
	}
	must(t, it.Close())
	aside, reason, moved := db.MovedAside()
	switch {
	case moved && (n != 0 || p.Offset != 0):
		t.Fatalf("the database was moved aside, and the store has %d rows at %v", n, p)
	case moved:
		if _, err := opts.FS.Stat(aside); err != nil && !strings.Contains(reason.Error(), catalogueFile) {
			t.Fatalf("nothing lies at %s: %v", aside, err)
		}
		return "aside"
	case n == 0 && p.Offset == 0:
		return "empty"
	case n != 500 || p.Offset < 1 || p.Offset > 3:
		t.Fatalf("the store has %d rows at %v", n, p)
	}
	return "data"
}
