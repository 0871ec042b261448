package milltest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/milltest"
)

// run runs a plan and returns every record of every topic. With aborts a crash takes back what was not committed, and its input
// is read again.
func (p plan) run(kinds []stepKind, cacheBytes int64, aborts bool) (all map[string][]string, fault string) {
	w := declare(p, kinds, false)
	topology, err := w.b.Build()
	if err != nil {
		return nil, fmt.Sprintf("build: %v", err)
	}
	opts := []milltest.Option{milltest.Partitions(p.drive.partitions), milltest.CacheBytes(cacheBytes), milltest.ReadCacheBytes(p.drive.readCache), milltest.ManualCommit()}
	if p.drive.onDisk {
		opts = append(opts, milltest.OnDisk())
	}
	d, err := milltest.NewDriver(topology, opts...)
	if err != nil {
		return nil, fmt.Sprintf("open: %v", err)
	}
	defer func() {
		if r := recover(); r != nil {
			fault = fmt.Sprintf("failed: %v", r)
		}
		if err := d.Close(); err != nil && fault == "" {
			fault = fmt.Sprintf("close: %v", err)
		}
	}()
	commitAll(d)
	mark, since := d.Mark(), 0
	for i, e := range p.events {
		if e.what == "crash" {
			if !aborts {
				continue
			}
			if err := d.Rollback(mark); err != nil {
				return nil, fmt.Sprintf("roll back: %v", err)
			}
			for _, again := range p.events[since:i] {
				if again.what == "" {
					if err := w.happen(d, again); err != nil {
						return nil, fmt.Sprintf("again %s: %v", again.topic, err)
					}
				}
			}
			continue
		}
		if err := w.happen(d, e); err != nil {
			return nil, fmt.Sprintf("%s: %v", e.topic, err)
		}
		if e.what != "" {
			commitAll(d)
			mark, since = d.Mark(), i+1
		}
	}
	commitAll(d)
	all = make(map[string][]string)
	for _, name := range d.Topics() {
		if strings.HasSuffix(name, "-Buffer-changelog") {
			continue // the numbers that tell rows of one time and key apart begin again
		}
		for _, r := range d.Written(name) {
			var b strings.Builder
			fmt.Fprintf(&b, "%d %q=%q@%d", r.Partition, r.Key, r.Value, r.TimestampMs)
			if r.Value == nil {
				b.WriteString(" null")
			}
			for _, h := range r.Headers {
				fmt.Fprintf(&b, " %s:%q", h.Key, h.Value)
			}
			all[name] = append(all[name], b.String())
		}
	}
	return all, ""
}

var rollbackKinds = append(slices.Clone(exactKinds), stepKind{"foreign-key join", foreignKeyStep}, stepKind{"foreign-key join", foreignKeyStep})

// A transaction that is aborted leaves no trace: what comes out, and what is logged, is record by record what comes out
// without the abort, with caches and without, in memory and on disk.
func TestRollback_random(t *testing.T) {
	eachSeed(t, func(t *testing.T, r *rand.Rand) {
		p := drawPlan(r, rollbackKinds, 150)
		p.drive = planDrive{partitions: 1 + r.IntN(2), readCache: int64(r.IntN(3)) * 500, onDisk: r.IntN(2) == 0}
		cache := []int64{0, 600, 10 << 20}[r.IntN(3)]
		var events []planEvent
		for _, e := range p.events {
			events = append(events, e)
			switch r.IntN(20) {
			case 0:
				events = append(events, planEvent{what: "commit"})
			case 1:
				events = append(events, planEvent{what: "crash"})
			case 2:
				if r.IntN(3) == 0 {
					events = append(events, planEvent{what: "minute"})
				}
			}
		}
		p.events = events
		check := func(p plan) string {
			want, fault := p.run(rollbackKinds, cache, false)
			if fault != "" {
				return "without aborts: " + fault
			}
			got, fault := p.run(rollbackKinds, cache, true)
			if fault != "" {
				return "with aborts: " + fault
			}
			return gocmp.Diff(want, got)
		}
		fault := check(p)
		if fault == "" {
			return
		}
		p = p.reduce(func(less plan) bool { return check(less) != "" })
		w := declare(p, rollbackKinds, false)
		t.Errorf("cache %d\n%s\n%s\n%s", cache, strings.Join(w.log, "\n"), p, check(p))
	})
}
