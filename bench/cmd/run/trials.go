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
// transactions that would be worth the name. What is done to fleets is done to millrace's alone.
func runTrials(ctx context.Context, b *measure.Bench, o options, contenders []measure.Contender) (t report.Trials, err error) {
	t = report.Trials{
		Keys: o.trialKeys, Guarantee: o.trialGuarantee,
		Restarts: make(map[string][]float64), Restores: make(map[string][]float64), Costs: make(map[string][]float64),
		Fleets: report.NewFleets(),
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
				default:
					if c.Name != report.Millrace { // the other sides have no word for how far their copies are
						continue
					}
					if err := runFleet(ctx, b, trial, c, o.trialGuarantee, &t.Fleets); err != nil {
						return t, err
					}
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

// runFleet does something to one of several instances, once.
func runFleet(ctx context.Context, b *measure.Bench, trial string, c measure.Contender, guarantee string, t *report.Fleets) error {
	switch trial {
	case failoverTrial:
		for _, standbys := range []int{1, 0} {
			r, err := b.Failover(ctx, c, guarantee, standbys)
			if err != nil {
				return err
			}
			logf("failover, %s, %d standbys: %s: %d tasks, the last had its first result after %v; their changelogs had %d records",
				guarantee, standbys, c.Name, r.Tasks, r.Took.Round(time.Millisecond), r.Changelog)
			if standbys > 0 {
				t.Warm[c.Name] = append(t.Warm[c.Name], r)
			} else {
				t.Cold[c.Name] = append(t.Cold[c.Name], r)
			}
		}
	case joinTrial:
		r, err := b.Join(ctx, c, guarantee)
		if err != nil {
			return err
		}
		logf("join, %s: %s: %d tasks moved, away for %v at most; those that stayed were silent for %v at most, before that %v",
			guarantee, c.Name, r.Moved, r.Away.Round(time.Millisecond), r.Silent.Round(time.Millisecond), r.Before.Round(time.Millisecond))
		t.Joins[c.Name] = append(t.Joins[c.Name], r)
	case rollingTrial:
		r, err := b.Roll(ctx, c, guarantee)
		if err != nil {
			return err
		}
		logf("rolling, %s: %s: %d rebalances, tasks away for %v at most", guarantee, c.Name, r.Rebalances, r.Away.Round(time.Millisecond))
		t.Rolls[c.Name] = append(t.Rolls[c.Name], r)
	}
	return nil
}
