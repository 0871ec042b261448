package millrace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/runtime"
)

// State of tasks that have moved to another instance goes when they have been away for the delay, and what stays runs on. When they
// come back they are restored, and count on.
func TestApp_stateCleanupDelay(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 4)
	k.topic("out", 4)
	topology := countInto(t, "in", "out")
	feed := func(round int64) {
		for i := range 20 {
			k.produce(rec("in", fmt.Sprint("k", i), "x", round))
		}
	}
	opts := []AppOption{CacheBytes(0), MaxWarmups(0), StateCleanupDelay(50 * time.Millisecond)}
	feed(1)
	a := k.start(topology, append(opts, tuned(func(c *runtime.RunnerConfig) { c.Settings.CommitIntervalMs = 20 }))...)
	a.untilDone()
	b := k.start(topology, opts...)
	b.until("it has its share", func() bool { return len(b.app.Metrics().Tasks) == 2 && b.app.State() == Running })
	a.until("the state of two tasks is deleted", func() bool { return a.app.Metrics().StateDropped == 2 })
	if n := a.lines("state of a task that has moved away is deleted"); n != 2 {
		t.Errorf("told %d times", n)
	}
	feed(2)
	a.untilDone()
	b.stop()
	a.until("all tasks are here", func() bool { return len(a.app.Metrics().Tasks) == 4 && a.app.State() == Running })
	feed(3)
	a.untilDone()
	if m := a.app.Metrics(); m.StateDropped != 2 {
		t.Errorf("%d tasks lost their state", m.StateDropped)
	}
	a.stop()
	last := make(map[string]int)
	for _, s := range counts(t, k.all("out")) {
		last[s]++
	}
	for i := range 20 {
		for round := int64(1); round <= 3; round++ {
			if s := fmt.Sprintf("k%d=%d@%d", i, round, round); last[s] != 1 {
				t.Errorf("%s is there %d times", s, last[s])
			}
		}
	}
}

// CleanUp deletes the state of an App that does not run; the next one restores it.
func TestApp_cleanUp(t *testing.T) {
	k := newKafka(t)
	k.topic("in", 1)
	k.topic("out", 1)
	topology := countInto(t, "in", "out")
	dir := t.TempDir()
	k.produce(rec("in", "k", "x", 1))
	a := k.start(topology, StateDir(dir), CacheBytes(0))
	a.untilDone()
	if err := a.app.CleanUp(); !errors.Is(err, ErrRunning) {
		t.Errorf("while it runs: %v", err)
	}
	other, err := NewApp(topology, ApplicationID("app"), Brokers(k.addr...), StateDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := other.CleanUp(); !errors.Is(err, ErrStateDirInUse) {
		t.Errorf("while another App has the directory: %v", err)
	}
	a.untilDone()
	a.stop()
	if err := a.app.CleanUp(); err != nil {
		t.Fatalf("after its end: %v", err)
	}
	left, err := os.ReadDir(filepath.Join(dir, "app"))
	if err != nil || len(left) != 1 || left[0].Name() != "lock" {
		t.Errorf("left %v, %v", left, err)
	}
	if err := other.CleanUp(); err != nil { // nothing is left to do
		t.Error(err)
	}
	k.produce(rec("in", "k", "x", 2))
	b := k.start(topology, StateDir(dir), CacheBytes(0))
	b.untilDone()
	b.stop()
	wantEqual(t, "out", counts(t, k.all("out")), []string{"k=1@1", "k=2@2"})

	nowhere, err := NewApp(topology, ApplicationID("app"), Brokers(k.addr...), StateDir(filepath.Join(dir, "nowhere")))
	if err != nil {
		t.Fatal(err)
	}
	if err := nowhere.CleanUp(); err != nil {
		t.Errorf("without state: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has made a directory: %v", err)
	}
}
