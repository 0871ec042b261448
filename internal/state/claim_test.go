package state

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestClaim_emptiesADirectoryThatNobodyHolds(t *testing.T) {
	opts := memOptions()
	db, err := OpenDB(opts)
	must(t, err)
	kv := kvOf(t, openSet(t, db, "0_0", kvSpec("counts")), "counts")
	kv.Put([]byte("k"), []byte("v"))
	if _, err := ClaimDir(opts.FS, opts.Dir, opts.ClusterID, opts.ApplicationID); !errors.Is(err, ErrInUse) {
		t.Fatalf("a directory in use is given: %v", err)
	}
	must(t, db.Close())

	for _, c := range []struct{ cluster, application string }{{"another", opts.ApplicationID}, {opts.ClusterID, "another"}} {
		if _, err := ClaimDir(opts.FS, opts.Dir, c.cluster, c.application); !errors.Is(err, ErrForeign) {
			t.Errorf("the directory of somebody else is given: %v", err)
		}
	}
	c, err := ClaimDir(opts.FS, opts.Dir, "", opts.ApplicationID)
	must(t, err)
	if _, err := OpenDB(opts); !errors.Is(err, ErrInUse) {
		t.Errorf("an instance can start on a claimed directory: %v", err)
	}
	must(t, c.Empty())
	must(t, c.Close())
	names, err := opts.FS.List(opts.Dir)
	must(t, err)
	if !slices.Equal(names, []string{lockFile}) {
		t.Errorf("it is not empty: %q", names)
	}
	// What is empty can be claimed again, and used.
	c, err = ClaimDir(opts.FS, opts.Dir, opts.ClusterID, opts.ApplicationID)
	must(t, err)
	must(t, c.Empty())
	must(t, c.Close())
	wantNone(t, kvOf(t, openSet(t, openDB(t, opts), "0_0", kvSpec("counts")), "counts"), "k")
}

func TestClaim_leavesAloneWhatIsNoStateDirectory(t *testing.T) {
	fs := vfs.NewMem()
	if _, err := ClaimDir(fs, "/nowhere", "c", "app"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	must(t, fs.MkdirAll("/home", 0o755))
	must(t, writeSynced(fs, "/home", "letter", []byte("dear")))
	if _, err := ClaimDir(fs, "/home", "c", "app"); err == nil || !strings.Contains(err.Error(), "no state directory") {
		t.Errorf("%v", err)
	}
	if _, err := fs.Stat("/home/letter"); err != nil {
		t.Error(err)
	}
}
