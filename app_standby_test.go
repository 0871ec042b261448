package millrace

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/runtime"
)

// A second instance makes copies before it takes tasks over, and each keeps copies of the other's tasks; when one dies, the other
// one goes on with the copies and reads no changelog for it. Each result is there once.
func TestApp_standbysTakeOver(t *testing.T) {
	for name, where := range map[string]AppOption{"disk": nil, "memory": InMemoryState()} {
		t.Run(name, func(t *testing.T) {
			k := newKafka(t)
			k.topic("in", 4)
			k.topic("out", 4)
			topology := countInto(t, "in", "out")
			n := 0
			feed := func(records int) {
				for range records {
					k.produce(rec("in", fmt.Sprint("k", n%12), "x", int64(n)))
					n++
				}
			}
			copied := make(map[string][]StandbyUpdate) // by task, on the second instance
			opts := []AppOption{CacheBytes(0), SessionTimeout(time.Second), Guarantee(ExactlyOnceV2), Standbys(1), AcceptableLag(0)}
			if where != nil {
				opts = append(opts, where)
			}
			var mu sync.Mutex
			read := make(map[string]int64) // by task, before it ran
			feed(120)
			a := k.start(topology, opts...)
			a.untilDone()
			b := k.start(topology, append(opts, OnRestore(func(p RestoreProgress) {
				mu.Lock()
				defer mu.Unlock()
				if p.Done {
					read[p.Task] = p.Records
				}
			}), OnStandby(func(u StandbyUpdate) {
				mu.Lock()
				defer mu.Unlock()
				copied[u.Task] = append(copied[u.Task], u)
			}))...)
			level := func(a *testApp) bool {
				m := a.app.Metrics()
				return len(m.Tasks) == 2 && len(m.Standbys) == 2 && !slices.ContainsFunc(m.Standbys, func(s StandbyMetrics) bool { return s.Behind != 0 })
			}
			b.until("they share the tasks, and have copies of the others", func() bool { return level(a) && level(b) })
			feed(120)
			a.untilDone()
			b.untilDone()
			ends, err := k.adm.ListCommittedOffsets(k.ctx(), "app-counts-changelog")
			if err != nil {
				t.Fatal(err)
			}
			b.until("its copies are level with everything", func() bool {
				return level(b) && !slices.ContainsFunc(b.app.stats.Standbys(), func(s runtime.StandbyStats) bool {
					end, _ := ends.Lookup("app-counts-changelog", s.Task.Partition)
					return s.Position < end.Offset
				})
			})
			a.kill()
			b.until("all tasks are here", func() bool { return len(b.app.Metrics().Tasks) == 4 && b.app.State() == Running })
			mu.Lock()
			for task, records := range read {
				if records > 0 {
					t.Errorf("task %s read %d records before it ran", task, records)
				}
			}
			mu.Unlock()
			feed(120)
			b.untilDone()
			b.stop()
			mu.Lock()
			for task := range read {
				checkStandbyUpdates(t, task, copied[task])
			}
			mu.Unlock()
			seen := make(map[string]int)
			for _, s := range counts(t, k.committedRecords("out")) {
				seen[s]++
			}
			for i := range n {
				if s := fmt.Sprintf("k%d=%d@%d", i%12, i/12+1, i); seen[s] != 1 {
					t.Errorf("%s is there %d times", s, seen[s])
				}
			}
			if len(seen) != n {
				t.Errorf("%d results of %d records", len(seen), n)
			}
		})
	}
}

// checkStandbyUpdates holds what is told of the copies of a task that was taken over against its form: each copy begins, reads on from where it
// is, and ends; the last one is promoted.
func checkStandbyUpdates(t *testing.T, task string, updates []StandbyUpdate) {
	t.Helper()
	open, at, records := false, int64(0), int64(0)
	for i, u := range updates {
		if u.Store != "counts" || u.Topic != "app-counts-changelog" || task != fmt.Sprintf("0_%d", u.Partition) || u.At > u.End {
			t.Errorf("task %s is told of as %+v", task, u)
		}
		if (u.Step == StandbyBegun) == open || open && u.At < at || u.Step == StandbyRead && u.At <= at {
			t.Errorf("task %s: %v at %d after at %d (step %d of %d)", task, u.Step, u.At, at, i, len(updates))
		}
		open, at, records = u.Step == StandbyBegun || u.Step == StandbyRead, u.At, records+u.Records
	}
	if n := len(updates); n < 2 || updates[n-1].Step != StandbyPromoted || records == 0 && at > 0 {
		t.Errorf("task %s: %d records were read into copies, and the last of %d steps is no promotion: %+v", task, records, n, updates)
	}
}
