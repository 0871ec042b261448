package report

import (
	"fmt"

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
	number := func(n float64) float64 { return n }
	killed := fmt.Sprintf("%d keys, %s", t.Keys, t.Guarantee)
	out = figure(out, Figure{Name: "restart after a kill to the first result: " + killed, Unit: "s", Better: lower},
		t.Restarts, restartSeconds, number)
	out = figure(out, Figure{Name: "restore: " + killed, Unit: "records/s", Better: higher}, t.Restores, restoredRate, number)
	out = figure(out, Figure{Name: fmt.Sprintf("throughput of exactly once over at least once: %s", side.Count), Unit: "ratio", Better: higher},
		t.Costs, exactlyOnceCut, number)
	return append(out, t.Fleets.figures(t.Guarantee)...)
}

// figure appends the medians of a number of each side's runs. It appends nothing if nothing was measured.
func figure[R any](out []Figure, f Figure, runs map[string][]R, target float64, number func(R) float64) []Figure {
	if len(runs) == 0 {
		return out
	}
	of := func(side string) (*float64, []float64) {
		values := make([]float64, 0, len(runs[side]))
		for _, r := range runs[side] {
			values = append(values, number(r))
		}
		if len(values) == 0 {
			return nil, nil
		}
		return new(median(values)), values
	}
	f.Target = &target
	f.Millrace, f.Runs = of(Millrace)
	f.Java, _ = of(Java)
	return append(out, f.judged())
}
