package report

import (
	"fmt"

	"github.com/millrace-io/millrace/bench/internal/measure"
	"github.com/millrace-io/millrace/bench/internal/side"
)

// The goals.
const (
	timesJava      = 5.0 // throughput, or
	shareOfBare    = 0.7 // of a bare loop, where that is less
	shareOfCPU     = 0.2 // of Java's CPU per record
	shareOfStart   = 1 / 3.0
	exactlyOnceCPU = 1.05 // of the CPU per record of at least once, at the same commit interval
	exactlyOnceCut = 0.9  // of the throughput of at least once, at the same commit interval
	restartSeconds = 2.0
	restoredRate   = 500_000.0
)

const (
	lower  = "lower"
	higher = "higher"
)

// goals are a row's throughput and CPU against their targets.
func goals(row Row) []Figure {
	if row.Java == nil {
		return nil
	}
	name := fmt.Sprintf("%s, %s, %d B", row.Scenario, row.Guarantee, row.ValueBytes)
	target := timesJava * row.Java.RecordsPerSecond
	if row.Bare != nil {
		target = min(target, shareOfBare*row.Bare.RecordsPerSecond)
	}
	throughput := Figure{Name: "throughput: " + name, Unit: "records/s", Better: higher,
		Java: &row.Java.RecordsPerSecond, Target: &target}
	cpu := Figure{Name: "CPU: " + name, Unit: "us/record", Better: lower,
		Java: &row.Java.CPUSecondsPerMillion, Target: new(shareOfCPU * row.Java.CPUSecondsPerMillion)}
	if row.Millrace != nil {
		throughput.Millrace = &row.Millrace.RecordsPerSecond
		cpu.Millrace = &row.Millrace.CPUSecondsPerMillion
	}
	return []Figure{throughput.judged(), cpu.judged()}
}

// exactlyOnce compares the CPU per record of the two guarantees, where both were measured. It says something only if they
// had the same commit interval, which README.md tells how to set.
func exactlyOnce(rows []Row) []Figure {
	var out []Figure
	for _, eos := range rows {
		if eos.Guarantee != side.ExactlyOnce {
			continue
		}
		for _, alo := range rows {
			if alo.Guarantee != side.AtLeastOnce || alo.Scenario != eos.Scenario || alo.ValueBytes != eos.ValueBytes {
				continue
			}
			f := Figure{
				Name: fmt.Sprintf("CPU of exactly once over at least once: %s, %d B", eos.Scenario, eos.ValueBytes),
				Unit: "ratio", Better: lower, Target: new(exactlyOnceCPU),
				Millrace: cpuRatio(eos.Millrace, alo.Millrace), Java: cpuRatio(eos.Java, alo.Java),
			}
			out = append(out, f.judged())
		}
	}
	return out
}

func cpuRatio(a, b *Side) *float64 {
	if a == nil || b == nil || b.CPUSecondsPerMillion == 0 {
		return nil
	}
	return new(a.CPUSecondsPerMillion / b.CPUSecondsPerMillion)
}

// firstRecord is the time from the start of the process to its first record, over all runs.
func firstRecord(all []Runs) []Figure {
	var millrace, java []float64
	for _, runs := range all {
		seconds := func(r measure.Result) float64 { return r.FirstRecord.Seconds() }
		millrace = append(millrace, column(runs.Sides[Millrace], seconds)...)
		java = append(java, column(runs.Sides[Java], seconds)...)
	}
	if len(java) == 0 {
		return nil
	}
	f := Figure{Name: "start to first record", Unit: "s", Better: lower,
		Java: new(median(java)), Target: new(shareOfStart * median(java))}
	if len(millrace) > 0 {
		f.Millrace = new(median(millrace))
	}
	return []Figure{f.judged()}
}

// judged says whether the goal is met, if that can be said.
func (f Figure) judged() Figure {
	if f.Millrace == nil || f.Target == nil {
		return f
	}
	if f.Better == higher {
		f.Met = new(*f.Millrace >= *f.Target)
	} else {
		f.Met = new(*f.Millrace <= *f.Target)
	}
	return f
}
