package milltest_test

import (
	"math/rand/v2"
	"testing"
)

// A model that is wrong on purpose, by a millisecond of a grace or of a wait, is found out within a few seeds, and the case that
// shows it becomes small. So the tests of random steps can fail.
func TestModel_flaws(t *testing.T) {
	for _, flaw := range []struct {
		name  string
		kinds []stepKind
	}{
		{"sessions", []stepKind{{"sessions", flawed(sessionStep)}}},
		{"suppress", []stepKind{{"suppress", flawed(suppressStep)}}},
		{"other windows", []stepKind{{"other windows", flawed(fixedWindowStep)}}},
		{"windows of a cogroup", []stepKind{{"windows of a cogroup", flawed(cogroupWindowStep)}}},
		{"stream join", []stepKind{{"stream join", flawed(streamJoinStep)}}},
	} {
		t.Run(flaw.name, func(t *testing.T) {
			for seed := range uint64(40) {
				p := drawPlan(rand.New(rand.NewPCG(seed, 1)), flaw.kinds, 100)
				p.drive = planDrive{partitions: 1}
				if p.check(flaw.kinds, false) == "" {
					continue
				}
				small := p.reduce(func(less plan) bool { return less.check(flaw.kinds, false) != "" })
				if len(small.steps) > 2 || len(small.events) > 8 {
					t.Errorf("seed %d: reduced to %d steps and %d events only:\n%s", seed, len(small.steps), len(small.events), small)
				}
				return
			}
			t.Error("no seed has shown it")
		})
	}
}

// flawed is a step whose model is wrong.
func flawed(apply func(*world, *rand.Rand, string)) func(*world, *rand.Rand, string) {
	return func(w *world, r *rand.Rand, name string) {
		w.flaw = 1
		apply(w, r, name)
		w.flaw = 0
	}
}
