package milltest_test

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// exactKinds are steps of which each record is compared: one partition for each topic, no caches.
var exactKinds = []stepKind{
	{"simple", simpleStep},
	{"aggregate", aggregateStep},
	{"time windows", timeWindowStep}, {"time windows", timeWindowStep},
	{"sliding windows", slidingStep}, {"sliding windows", slidingStep},
	{"sessions", sessionStep}, {"sessions", sessionStep},
	{"suppress", suppressStep}, {"suppress", suppressStep}, {"suppress", suppressStep},
	{"stream join", streamJoinStep}, {"stream join", streamJoinStep},
	{"table join", tableJoinStep}, {"table join", tableJoinStep},
	{"derived table", deriveStep},
	{"grouped table", groupTableStep}, {"grouped table", groupTableStep},
	{"to table", toTableStep},
	{"stream-table join", streamTableStep},
	{"versioned join", versionedStep},
	{"cogroup", cogroupStepOf},
	{"other windows", fixedWindowStep}, {"other windows", fixedWindowStep},
	{"windows of a cogroup", cogroupWindowStep}, {"windows of a cogroup", cogroupWindowStep},
}

// settledKinds are steps whose final results do not depend on the order in which records of several keys are taken.
var settledKinds = []stepKind{
	{"aggregate", aggregateStep},
	{"time windows", timeWindowStep},
	{"sliding windows", slidingStep},
	{"sessions", sessionStep},
	{"stream join", streamJoinStep},
	{"table join", tableJoinStep}, {"table join", tableJoinStep},
	{"derived table", deriveStep},
	{"grouped table", groupTableStep},
	{"foreign-key join", foreignKeyStep}, {"foreign-key join", foreignKeyStep},
	{"cogroup", cogroupStepOf},
	{"other windows", fixedWindowStep},
	{"windows of a cogroup", cogroupWindowStep},
}

// judge fails a test with a small case of what a plan shows.
func (p plan) judge(t *testing.T, kinds []stepKind, settled bool) {
	t.Helper()
	fault := p.check(kinds, settled)
	if fault == "" {
		return
	}
	build := strings.HasPrefix(fault, "build: ")
	small := p.reduce(func(less plan) bool {
		f := less.check(kinds, settled)
		return f != "" && strings.HasPrefix(f, "build: ") == build
	})
	w := declare(small, kinds, settled)
	topology, err := w.b.Build()
	t.Errorf("%s\n%d steps and %d events of %d and %d fail:\n%s\n%s%s", fault, len(small.steps), len(small.events), len(p.steps), len(p.events),
		small.check(kinds, settled), strings.Join(w.log, "\n")+"\n", small)
	if err == nil {
		t.Logf("\n%s", topology.Describe())
	}
}

// Two to five random steps: what comes out is what the model says, record by record, late records among them; and so is the
// number of records that each step has dropped. Restarts do not show.
func TestModel_steps(t *testing.T) {
	eachSeed(t, func(t *testing.T, r *rand.Rand) {
		p := drawPlan(r, exactKinds, 100)
		p.drive = planDrive{partitions: 1, readCache: r.Int64N(2) * 1000, onDisk: r.IntN(3) == 0}
		if r.IntN(2) == 0 {
			p.interrupt(r, "restart", 3)
			p.interrupt(r, "minute", 3)
		}
		p.judge(t, exactKinds, false)
	})
}

// Two to five random steps whose final results do not depend on the order of records: neither partitions, caches nor crashes
// change them.
func TestModel_settled(t *testing.T) {
	eachSeed(t, func(t *testing.T, r *rand.Rand) {
		p := drawPlan(r, settledKinds, 120)
		p.drive = planDrive{
			partitions: 1 + r.IntN(4), cacheBytes: []int64{0, 500, 2000, 1 << 20}[r.IntN(4)], readCache: r.Int64N(2) * 1000,
			onDisk: r.IntN(3) == 0, manual: true,
		}
		p.interrupt(r, "commit", 6)
		p.interrupt(r, "minute", 3)
		p.interrupt(r, "restart", 2)
		p.interrupt(r, "crash", 3)
		p.judge(t, settledKinds, true)
	})
}

// interrupt puts up to n events of a kind between the others.
func (p *plan) interrupt(r *rand.Rand, what string, n int) {
	for range r.IntN(n + 1) {
		at := r.IntN(len(p.events) + 1)
		p.events = append(p.events[:at], append([]planEvent{{what: what}}, p.events[at:]...)...)
	}
}
