package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// Relay sends numbers through a repartition topic to groups of keys, and keeps for each group how many it has had of each
// key: two sub-topologies, whose tasks move independently of each other.
func Relay() Workload {
	return Workload{
		Name:    "relay",
		Inputs:  []Topic{{"parcels", partitions}},
		Outputs: []Topic{{"arrivals", partitions}},
		Topology: func(v Variant) (*millrace.Topology, error) {
			b := millrace.NewBuilder()
			in := millrace.From(b, millrace.NewTopic("parcels", serde.String, serde.String))
			labelled := millrace.MapValuesWithKey(in, func(key, n string) string { return key + " " + n })
			grouped := millrace.GroupBy(labelled, func(key, _ string) string {
				v.inside()
				return groupOf(key)
			}, millrace.RepartitionName("sorted"), millrace.WithKey(serde.String), millrace.WithValue(serde.String))
			table := millrace.TryAggregate(grouped, func() string { return "" }, func(_, parcel, agg string) (string, error) {
				v.inside()
				return addArrival(agg, parcel)
			}, serde.String, v.options("arrivals")...)
			table.ToStream().To(millrace.NewTopic("arrivals", serde.String, serde.String))
			return b.Build()
		},
		NewFeed: func(rng *rand.Rand) Feed { return newNumbers("parcels", rng) },
		NewOracle: func(e Expectation) Oracle {
			return &relayOracle{tally: newTally(e), groups: make(map[string]map[string]arrival)}
		},
	}
}

// groupOf is the group of a key: keys of different partitions meet in it.
func groupOf(key string) string { return key[:strings.IndexByte(key, '-')] }

// arrival is what has come of a key: how many numbers, and the last one.
type arrival struct{ count, last int64 }

func parseArrivals(s string) (map[string]arrival, error) {
	all := make(map[string]arrival)
	for f := range strings.FieldsSeq(s) {
		var a arrival
		key, rest, ok := strings.Cut(f, "=")
		if _, err := fmt.Sscanf(rest, "%d:%d", &a.count, &a.last); err != nil || !ok {
			return nil, fmt.Errorf("sim: the arrivals %q: %v", s, err)
		}
		all[key] = a
	}
	return all, nil
}

func arrivalsText(all map[string]arrival) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s=%d:%d ", k, all[k].count, all[k].last)
	}
	return strings.TrimSuffix(b.String(), " ")
}

func addArrival(agg, parcel string) (string, error) {
	all, err := parseArrivals(agg)
	if err != nil {
		return "", err
	}
	key, number, _ := strings.Cut(parcel, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return "", err
	}
	all[key] = arrival{all[key].count + 1, n}
	return arrivalsText(all), nil
}

// relayOracle knows that each result of a group differs from the one before by the next number of one key.
type relayOracle struct {
	tally
	groups map[string]map[string]arrival
}

// Fed implements Oracle.
func (o *relayOracle) Fed(in Input) { o.fed[string(in.Key)]++ }

// Result implements Oracle.
func (o *relayOracle) Result(r Result) error {
	group := string(r.Key)
	now, err := parseArrivals(string(r.Value))
	if err != nil {
		return err
	}
	last := o.groups[group]
	o.groups[group] = now
	moved := 0
	for _, key := range allKeys() {
		a, ok := now[key]
		was, had := last[key]
		switch {
		case !ok && !had, ok && a == was:
			continue
		case !ok && o.Exactly:
			return fmt.Errorf("%s: it has forgotten the key %s: %q", group, key, r.Value)
		case !ok:
			continue
		case groupOf(key) != group:
			return fmt.Errorf("%s holds the key %s: %q", group, key, r.Value)
		case o.Exactly && a.count != a.last+1:
			return fmt.Errorf("%s: it has had %d numbers of key %s, the last is %d", group, a.count, key, a.last)
		}
		moved++
		// Under at-least-once a parcel that failed on its way comes again behind those that were sent after it.
		if err := o.step(key, min(a.count, a.last+1)); err != nil {
			return fmt.Errorf("%s: %w", group, err)
		}
	}
	if o.Exactly && (moved == 0 || moved > 1 && !o.Cached) {
		return fmt.Errorf("%s: %d keys have moved between two results, want one: %q", group, moved, r.Value)
	}
	return nil
}

// Complete implements Oracle.
func (o *relayOracle) Complete() error { return o.complete() }

// Answered implements Oracle: the offsets of the input are committed before the results are made.
func (o *relayOracle) Answered(string, int32) (int64, bool) { return 0, false }
