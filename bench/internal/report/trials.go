package report

import (
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/bench/internal/side"
)

// Trials are what was measured beside the scenarios. A kind that was not measured is empty.
type Trials struct {
	Keys      int    // in the stores of sides that were killed
	Guarantee string // of the sides that were killed
	// Restarts are the seconds from a side's start on the disk that it was killed on to its first result, by side.
	Restarts map[string][]float64
	// Restores are the records a second that a side restored that had lost its disk, by side.
	Restores map[string][]float64
	// Costs are throughputs with exactly once over those with at least once, each of two runs one after the other, by side.
	Costs map[string][]float64
	// Fleets are what was done to one of several instances.
	Fleets Fleets
}

func (t Trials) figures() []Figure {
	var out []Figure
	add := func(f Figure, runs map[string][]float64, target float64) {
		if len(runs) == 0 {
			return
		}
		f.Target = &target
		if mine := runs[Millrace]; len(mine) > 0 {
			f.Millrace, f.Runs = new(median(mine)), slices.Clone(mine)
		}
		if others := runs[Java]; len(others) > 0 {
			f.Java = new(median(others))
		}
		out = append(out, f.judged())
	}
	killed := fmt.Sprintf("%d keys, %s", t.Keys, t.Guarantee)
	add(Figure{Name: "restart after a kill to the first result: " + killed, Unit: "s", Better: lower}, t.Restarts, restartSeconds)
	add(Figure{Name: "restore: " + killed, Unit: "records/s", Better: higher}, t.Restores, restoredRate)
	add(Figure{Name: fmt.Sprintf("throughput of exactly once over at least once: %s", side.Count), Unit: "ratio", Better: higher},
		t.Costs, exactlyOnceCut)
	return append(out, t.Fleets.figures(t.Guarantee)...)
}
