package sim

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// Totals keeps count, sum, least and greatest of the numbers of each key, and sends them after each number: one task for
// each partition, each with a store.
func Totals() Workload {
	return Workload{
		Name:    "totals",
		Inputs:  []Topic{{"numbers", partitions}},
		Outputs: []Topic{{"totals", partitions}},
		Topology: func(v Variant) (*millrace.Topology, error) {
			b := millrace.NewBuilder()
			in := millrace.From(b, millrace.NewTopic("numbers", serde.String, serde.String))
			table := millrace.TryAggregate(in.GroupByKey(), func() string { return "" }, func(_, n, agg string) (string, error) {
				v.inside()
				return addTotal(agg, n)
			}, serde.String, v.options("totals")...)
			table.ToStream().To(millrace.NewTopic("totals", serde.String, serde.String))
			return b.Build()
		},
		NewFeed:   func(rng *rand.Rand) Feed { return newNumbers("numbers", rng) },
		NewOracle: func(e Expectation) Oracle { return &totalsOracle{newTally(e)} },
	}
}

// total is what is known of a key's numbers.
type total struct{ count, sum, least, greatest int64 }

func (t total) String() string {
	return fmt.Sprintf("%d %d %d %d", t.count, t.sum, t.least, t.greatest)
}

func parseTotal(s string) (t total, err error) {
	if _, err = fmt.Sscanf(s, "%d %d %d %d", &t.count, &t.sum, &t.least, &t.greatest); err != nil {
		return t, fmt.Errorf("sim: the total %q: %w", s, err)
	}
	return t, nil
}

func addTotal(agg, number string) (string, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return "", err
	}
	if agg == "" {
		return total{1, n, n, n}.String(), nil
	}
	t, err := parseTotal(agg)
	if err != nil {
		return "", err
	}
	return total{t.count + 1, t.sum + n, min(t.least, n), max(t.greatest, n)}.String(), nil
}

// totalsOracle knows the totals of the numbers from 0 on.
type totalsOracle struct{ tally }

// Fed implements Oracle.
func (o *totalsOracle) Fed(in Input) { o.fed[string(in.Key)]++ }

// Result implements Oracle.
func (o *totalsOracle) Result(r Result) error {
	key := string(r.Key)
	t, err := parseTotal(string(r.Value))
	if err != nil {
		return err
	}
	if !o.Exactly {
		// Numbers may have counted twice. The greatest tells how far the key has come, whatever else has happened.
		if t.least != 0 || t.count < t.greatest+1 || t.sum < t.greatest*(t.greatest+1)/2 || t.greatest >= o.fed[key] {
			return fmt.Errorf("key %s: the total %v misses numbers, %d were fed", key, t, o.fed[key])
		}
		return o.step(key, t.greatest+1)
	}
	if err := o.step(key, t.count); err != nil {
		return err
	}
	if want := (total{t.count, t.count * (t.count - 1) / 2, 0, t.count - 1}); t != want {
		return fmt.Errorf("key %s: the total is %v, want %v", key, t, want)
	}
	return nil
}

// Complete implements Oracle.
func (o *totalsOracle) Complete() error { return o.complete() }

// Answered implements Oracle.
func (o *totalsOracle) Answered(_ string, partition int32) (int64, bool) {
	return o.answered[partition], o.Exactly && !o.Cached
}
