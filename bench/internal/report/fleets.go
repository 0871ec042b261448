package report

import (
	"slices"

	"github.com/millrace-io/millrace/bench/internal/measure"
)

// Fleets are what happened to several instances of an application, by side. A kind that was not measured is empty.
type Fleets struct {
	Warm  map[string][]measure.Failure // one of three was killed, and there were standbys
	Cold  map[string][]measure.Failure // without standbys
	Joins map[string][]measure.Joining
	Rolls map[string][]measure.Rolled
}

// NewFleets is without any.
func NewFleets() Fleets {
	return Fleets{
		Warm: make(map[string][]measure.Failure), Cold: make(map[string][]measure.Failure),
		Joins: make(map[string][]measure.Joining), Rolls: make(map[string][]measure.Rolled),
	}
}

// The goals, in seconds. A failure is noticed after the session timeout and told with the next heartbeat; what is restored
// then is restored at restoredRate.
const (
	failoverSeconds = 6 + 0.5 + 2
	awaySeconds     = 1.0 // of a task that moves to an instance that joins
	pauseSeconds    = 0.1 // of a task that stays, beside the commit interval for which it is silent anyway
	rolledSeconds   = 3.0
)

func (f Fleets) figures(guarantee string) []Figure {
	var out []Figure
	out = append(out, figure("failover with standbys to the first result of each task: "+guarantee, "s", failoverSeconds, f.Warm,
		func(r measure.Failure) float64 { return r.Took.Seconds() })...)
	var restored []float64
	for _, r := range f.Cold[Millrace] {
		restored = append(restored, float64(r.Changelog)/restoredRate)
	}
	out = append(out, figure("failover without standbys: "+guarantee, "s", failoverSeconds+median(restored), f.Cold,
		func(r measure.Failure) float64 { return r.Took.Seconds() })...)
	out = append(out, figure("join: a task that moves is away: "+guarantee, "s", awaySeconds, f.Joins,
		func(r measure.Joining) float64 { return r.Away.Seconds() })...)
	out = append(out, figure("join: a task that stays is silent beyond the commit interval: "+guarantee, "s", pauseSeconds, f.Joins,
		func(r measure.Joining) float64 { return (r.Silent - measure.FleetCommit).Seconds() })...)
	out = append(out, figure("rolling restart: a task is away: "+guarantee, "s", rolledSeconds, f.Rolls,
		func(r measure.Rolled) float64 { return r.Away.Seconds() })...)
	return append(out, figure("rolling restart: rebalances: "+guarantee, "", 0, f.Rolls,
		func(r measure.Rolled) float64 { return float64(r.Rebalances) })...)
}

// figure is the medians of what was seen of each side. There is none if nothing was measured.
func figure[R any](name, unit string, target float64, runs map[string][]R, of func(R) float64) []Figure {
	values := func(side string) []float64 {
		var out []float64
		for _, r := range runs[side] {
			out = append(out, of(r))
		}
		return out
	}
	if len(runs) == 0 {
		return nil
	}
	f := Figure{Name: name, Unit: unit, Better: lower, Target: &target}
	if mine := values(Millrace); len(mine) > 0 {
		f.Millrace, f.Runs = new(median(mine)), slices.Clone(mine)
	}
	if others := values(Java); len(others) > 0 {
		f.Java = new(median(others))
	}
	return []Figure{f.judged()}
}
