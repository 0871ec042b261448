package report

import (
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
	seconds := func(name string) Figure { return Figure{Name: name + ": " + guarantee, Unit: "s", Better: lower} }
	out = figure(out, seconds("failover with standbys to the first result of each task"), f.Warm, failoverSeconds,
		func(r measure.Failure) float64 { return r.Took.Seconds() })
	var restored []float64
	for _, r := range f.Cold[Millrace] {
		restored = append(restored, float64(r.Changelog)/restoredRate)
	}
	out = figure(out, seconds("failover without standbys"), f.Cold, failoverSeconds+median(restored),
		func(r measure.Failure) float64 { return r.Took.Seconds() })
	out = figure(out, seconds("join: a task that moves is away"), f.Joins, awaySeconds,
		func(r measure.Joining) float64 { return r.Away.Seconds() })
	out = figure(out, seconds("join: a task that stays is silent beyond the commit interval"), f.Joins, pauseSeconds,
		func(r measure.Joining) float64 { return (r.Silent - measure.FleetCommit).Seconds() })
	out = figure(out, seconds("rolling restart: a task is away"), f.Rolls, rolledSeconds,
		func(r measure.Rolled) float64 { return r.Away.Seconds() })
	return figure(out, Figure{Name: "rolling restart: rebalances: " + guarantee, Unit: "rebalances", Better: lower}, f.Rolls, 0,
		func(r measure.Rolled) float64 { return float64(r.Rebalances) })
}
