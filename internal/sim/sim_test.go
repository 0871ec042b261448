package sim

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// seeds are those to run: MILLRACE_SEED names one, MILLRACE_SIM_SEEDS a number of them.
func seeds(t *testing.T, normally int) (all []uint64, one bool) {
	t.Helper()
	number := func(name string) (uint64, bool) {
		text := os.Getenv(name)
		if text == "" {
			return 0, false
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s=%q is not a number", name, text)
		}
		return n, true
	}
	if seed, ok := number("MILLRACE_SEED"); ok {
		return []uint64{seed}, true
	}
	n := uint64(normally)
	if k, ok := number("MILLRACE_SIM_SEEDS"); ok {
		n = k
	}
	first, _ := number("MILLRACE_SIM_FIRST")
	for i := range n {
		all = append(all, first+i+1)
	}
	return all, false
}

// simulate runs one seed.
func simulate(seed uint64, sc scenario) (*world, error) {
	w, err := newWorld(seed, sc)
	if err != nil {
		return nil, err
	}
	defer w.close()
	return w, w.run()
}

// report tells what is needed to find out why a seed fails.
func report(w *world, err error) string {
	test := "TestSim$"
	switch {
	case w.handled:
		test = "TestSim_handled$"
	case w.copies:
		test = "TestSim_copies$"
	}
	return fmt.Sprintf("seed %d: %v\n\n%v\n\nwhat went wrong on purpose:\n%s\n\nthe end of the trace:\n%s\n\nrun it again with MILLRACE_SEED=%d go test -run '%s' ./internal/sim",
		w.seed, err, w.scenario, strings.Join(w.faults, "\n"), w.tail(80), w.seed, test)
}

// TestSim runs whole instances through everything that goes wrong.
func TestSim(t *testing.T) { simulateAll(t, 30, drawScenario) }

// TestSim_copies does so with instances that keep copies of each other's tasks and take them over.
func TestSim_copies(t *testing.T) {
	simulateAll(t, 20, func(seed uint64) scenario {
		sc := drawScenario(seed)
		sc.copies = true
		return sc
	})
}

// TestSim_handled does so with instances that are paused and resumed at any moment, and tasks that fail for good and are replaced.
func TestSim_handled(t *testing.T) {
	simulateAll(t, 20, func(seed uint64) scenario {
		sc := drawScenario(seed)
		sc.handled, sc.copies = true, seed%4 == 0
		return sc
	})
}

func simulateAll(t *testing.T, normally int, draw func(seed uint64) scenario) {
	t.Helper()
	all, one := seeds(t, normally)
	failed := 0
	for _, seed := range all {
		w, err := simulate(seed, draw(seed))
		if one && os.Getenv("MILLRACE_SIM_TRACE") != "" {
			if e := os.WriteFile(os.Getenv("MILLRACE_SIM_TRACE"), []byte(strings.Join(w.trace, "\n")+"\n"), 0o644); e != nil {
				t.Error(e)
			}
		}
		if err == nil {
			continue
		}
		if w == nil {
			t.Fatal(err)
		}
		t.Error(report(w, err))
		if failed++; failed == 3 {
			t.Fatal("enough")
		}
	}
}

// TestSim_sameSeedSameTrace runs seeds twice.
func TestSim_sameSeedSameTrace(t *testing.T) {
	for seed := range uint64(50) {
		sc := drawScenario(seed)
		sc.steps = 800
		a, err := simulate(seed, sc)
		if err != nil {
			t.Fatal(report(a, err))
		}
		b, err := simulate(seed, sc)
		if err != nil {
			t.Fatal(report(b, err))
		}
		if !slices.Equal(a.trace, b.trace) {
			for i := range min(len(a.trace), len(b.trace)) {
				if a.trace[i] != b.trace[i] {
					t.Fatalf("seed %d: line %d of the trace is\n%s\nand then\n%s", seed, i, a.trace[i], b.trace[i])
				}
			}
			t.Fatalf("seed %d: %d lines of trace, and then %d", seed, len(a.trace), len(b.trace))
		}
	}
}
