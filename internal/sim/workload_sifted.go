package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// Sifted lets every siftEach-th number of a key through and drops the others: there is no store, and most commits are of offsets
// alone.
func Sifted() Workload {
	return Workload{
		Name:    "sifted",
		Inputs:  []Topic{{"grains", partitions}},
		Outputs: []Topic{{"sifted", partitions}},
		Topology: func(v Variant) (*millrace.Topology, error) {
			b := millrace.NewBuilder()
			in := millrace.From(b, millrace.NewTopic("grains", serde.String, serde.String))
			in.TryFilter(func(_ context.Context, _, n string) (bool, error) {
				v.inside()
				number, err := strconv.ParseInt(n, 10, 64)
				return number%siftEach == 0, err
			}).To(millrace.NewTopic("sifted", serde.String, serde.String))
			return b.Build()
		},
		NewFeed:   func(rng *rand.Rand) Feed { return grains{newNumbers("grains", rng)} },
		NewOracle: func(e Expectation) Oracle { return &siftedOracle{newTally(Expectation{Exactly: e.Exactly})} },
	}
}

const siftEach = 5

// grains are numbers.
type grains struct{ *numbers }

// Last implements Feed: each key's numbers up to one that is let through, so that nothing is left that has no result.
func (f grains) Last() []Input {
	var all []Input
	for p := range int32(partitions) {
		for i := range keysEach {
			key := keyOf(p, i)
			for last := false; !last; {
				last = f.next[key]%siftEach == 0
				all = append(all, f.make(p, key))
			}
		}
	}
	return all
}

// siftedOracle knows which numbers are let through.
type siftedOracle struct{ tally }

// Fed implements Oracle.
func (o *siftedOracle) Fed(in Input) {
	if n, err := strconv.ParseInt(string(in.Value), 10, 64); err == nil && n%siftEach == 0 {
		o.fed[string(in.Key)]++
	}
}

// Result implements Oracle.
func (o *siftedOracle) Result(r Result) error {
	n, err := strconv.ParseInt(string(r.Value), 10, 64)
	if err != nil || n%siftEach != 0 {
		return fmt.Errorf("key %s: %q is not let through", r.Key, r.Value)
	}
	return o.step(string(r.Key), n/siftEach+1)
}

// Complete implements Oracle.
func (o *siftedOracle) Complete() error { return o.complete() }

// Answered implements Oracle: numbers that are dropped have no results.
func (o *siftedOracle) Answered(string, int32) (int64, bool) { return 0, false }
