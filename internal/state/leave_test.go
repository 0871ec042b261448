package state

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A store that a task has run without in between does not go on as if it had been there, over a restart or not; the others do.
func TestOpen_storeThatComesBack(t *testing.T) {
	unlogged := func(name string) Spec { return Spec{Name: name, Kind: KeyValue, Persistent: true} }
	memory := kvSpec("a")
	memory.Persistent = false
	for name, c := range map[string]struct {
		back      Spec
		meanwhile []Spec
		restart   bool
		left      bool
	}{
		"taken out":                 {back: kvSpec("a"), meanwhile: []Spec{kvSpec("stays")}, left: true},
		"taken out over a restart":  {back: kvSpec("a"), meanwhile: []Spec{kvSpec("stays")}, restart: true, left: true},
		"without a changelog":       {back: unlogged("a"), meanwhile: []Spec{kvSpec("stays"), unlogged("b")}, restart: true, left: true},
		"in memory in between":      {back: kvSpec("a"), meanwhile: []Spec{kvSpec("stays"), memory}, restart: true, left: true},
		"another task has run":      {back: kvSpec("a"), restart: true},
		"it was there all the time": {back: kvSpec("a"), meanwhile: []Spec{kvSpec("stays"), kvSpec("a")}, restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			opts := testOptions(vfs.NewMem(), func() int64 { return 1_000_000 })
			db := openDB(t, opts)
			restart := func() {
				if c.restart {
					must(t, db.Close())
					db = openDB(t, opts)
				}
			}
			set := openSet(t, db, testTask, kvSpec("stays"), c.back)
			for _, name := range []string{"stays", "a"} {
				must(t, kvOf(t, set, name).Put([]byte("k"), []byte("v")))
				commit(t, set, name, 1)
			}
			must(t, set.Close())
			restart()
			if c.meanwhile == nil {
				must(t, openSet(t, db, "7_7", kvSpec("other")).Close())
			} else {
				must(t, openSet(t, db, testTask, c.meanwhile...).Close())
			}
			restart()
			restart() // the catalogue was written anew
			set = openSet(t, db, testTask, kvSpec("stays"), c.back)
			wantValue(t, kvOf(t, set, "stays"), "k", "v")
			r, _ := set.Opened("a")
			if !c.left {
				wantValue(t, kvOf(t, set, "a"), "k", "v")
				return
			}
			wantNone(t, kvOf(t, set, "a"), "k")
			if _, ok := set.Position("a"); ok || !strings.Contains(r.Emptied, "has come back") {
				t.Errorf("it has a position %t and is reported as %+v", ok, r)
			}
			must(t, set.Close())
			restart()
			set = openSet(t, db, testTask, kvSpec("stays"), c.back)
			if r, _ := set.Opened("a"); !r.Existed {
				t.Errorf("once it is back it begins empty again: %+v", r)
			}
		})
	}
}

// The time at which an idle store was level is renewed while it is open, but not by a process that stood still for so long that
// another instance may have written deletions that are gone from the changelog.
func TestLevelTime_afterStandingStill(t *testing.T) {
	const hour = int64(3_600_000)
	now := 1000 * hour
	db := openDB(t, testOptions(vfs.NewMem(), func() int64 { return now }))
	log := UnknownChangelog()
	log.DeleteRetentionMs = 24 * hour
	open := func() *Set {
		set, err := db.OpenSet(testTask, []Spec{kvSpec("a")}, func(string) Changelog { return log })
		must(t, err)
		return set
	}
	set := open()
	restore(t, set, "a", 5, records("k", "v"))
	must(t, set.SetLevel("a", now))
	for range 200 { // idle for a long time
		ms := set.FlushWithinMs(2000)
		if ms <= 0 || ms > levelRenewMs {
			t.Fatalf("an idle store wants to be looked at after %d ms", ms)
		}
		now += ms
		if !set.FlushDue(now) {
			t.Fatal("no flush is due")
		}
		must(t, set.Flush())
	}
	must(t, set.Close())
	if set = open(); set.stores[0].opened.Emptied != "" {
		t.Fatalf("it begins empty: %s", set.stores[0].opened.Emptied)
	}
	must(t, set.SetLevel("a", now))
	now += 12*hour + 1
	must(t, set.Close())
	if set = open(); !strings.Contains(set.stores[0].opened.Emptied, "last level") {
		t.Errorf("it goes on as if nothing could have been missed: %+v", set.stores[0].opened)
	}
	must(t, set.Close())
}
