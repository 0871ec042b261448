package main

import (
	"context"
	"slices"
	"time"

	"github.com/millrace-io/millrace/bench/internal/measure"
	"github.com/millrace-io/millrace/bench/internal/report"
	"github.com/millrace-io/millrace/bench/internal/side"
)

// runTrials runs what is not a scenario. The bare loop has no part in it: it starts from nothing each time and has no
// transactions that would be worth the name.
func runTrials(ctx context.Context, b *measure.Bench, o options, contenders []measure.Contender) (t report.Trials, err error) {
	t = report.Trials{
		Keys: o.trialKeys, Guarantee: o.trialGuarantee,
		Restarts: make(map[string][]float64), Restores: make(map[string][]float64), Costs: make(map[string][]float64),
	}
	contenders = slices.DeleteFunc(slices.Clone(contenders), func(c measure.Contender) bool { return c.Name == report.Bare })
	for _, trial := range o.trials {
		repeats := o.repeat
		if trial == costTrial {
			repeats = o.pairs
		}
		for repeat := range repeats {
			for i := range contenders {
				c := contenders[(i+repeat)%len(contenders)]
				switch trial {
				case restartTrial:
					took, err := b.Restart(ctx, c, o.trialGuarantee)
					if err != nil {
						return t, err
					}
					logf("restart, %s, repeat %d: %s: first result after %v", o.trialGuarantee, repeat+1, c.Name, took.Round(time.Millisecond))
					t.Restarts[c.Name] = append(t.Restarts[c.Name], took.Seconds())
				case restoreTrial:
					r, err := b.Restore(ctx, c, o.trialGuarantee)
					if err != nil {
						return t, err
					}
					logf("restore, %s, repeat %d: %s: %d records, %.0f records/s", o.trialGuarantee, repeat+1, c.Name, r.Records, r.RecordsPerSecond)
					t.Restores[c.Name] = append(t.Restores[c.Name], r.RecordsPerSecond)
				case costTrial:
					ratio, err := costOfExactlyOnce(ctx, b, o, c, repeat)
					if err != nil {
						return t, err
					}
					t.Costs[c.Name] = append(t.Costs[c.Name], ratio)
				}
			}
		}
	}
	return t, nil
}

// costOfExactlyOnce runs a side under both guarantees, one after the other, and gives the throughput of exactly once over
// that of at least once. Which one is first changes from pair to pair.
func costOfExactlyOnce(ctx context.Context, b *measure.Bench, o options, c measure.Contender, pair int) (float64, error) {
	order := []string{side.AtLeastOnce, side.ExactlyOnce}
	if pair%2 == 1 {
		slices.Reverse(order)
	}
	rates := make(map[string]float64)
	for _, guarantee := range order {
		w := measure.Work{Scenario: side.Count, Guarantee: guarantee, ValueBytes: o.valueBytes[0], CommitInterval: o.costCommit()}
		r, err := b.Run(ctx, c, w)
		if err != nil {
			return 0, err
		}
		rates[guarantee] = r.RecordsPerSecond
	}
	ratio := rates[side.ExactlyOnce] / rates[side.AtLeastOnce]
	logf("eos-cost, pair %d: %s: %.0f records/s at least once, %.0f exactly once, ratio %.3f",
		pair+1, c.Name, rates[side.AtLeastOnce], rates[side.ExactlyOnce], ratio)
	return ratio, nil
}
