package main

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/internal/measure"
	"github.com/millrace-io/millrace/bench/internal/report"
	"github.com/millrace-io/millrace/bench/internal/side"
)

// options are the flags.
type options struct {
	scenarios    []side.Scenario
	trials       []string
	guarantees   []string
	valueBytes   []int
	sides        []string
	defaultSides bool // --sides was not given
	repeat       int
	json         string

	records    int64
	keys       int
	maxRecords int64
	warmUp     time.Duration
	javaWarmUp time.Duration
	measure    time.Duration
	commit     time.Duration // 0: the defaults

	trialKeys      int
	trialGuarantee string
	pairs          int
}

// What --scenario takes beside the scenarios, and what is run only if it is asked for.
const (
	restartTrial = "restart"
	restoreTrial = "restore"
	costTrial    = "eos-cost"

	failoverTrial = "failover"
	joinTrial     = "join"
	rollingTrial  = "rolling"
)

func trials() []string {
	return []string{restartTrial, restoreTrial, costTrial, failoverTrial, joinTrial, rollingTrial}
}

// partitions of every topic.
const partitions = 4

// The commit intervals of the two guarantees, where --commit-interval is not given. Java's default under exactly-once is
// taken over. The one under at-least-once, 30 s, is not: no run is long enough to see a commit.
const (
	commitAtLeastOnce = time.Second
	commitExactlyOnce = 100 * time.Millisecond
)

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench/run", flag.ContinueOnError)
	var scenarios, guarantees, values, sides string
	o.trialGuarantee = side.ExactlyOnce
	var smoke bool
	f.StringVar(&scenarios, "scenario", "",
		"scenarios, separated by commas (all: "+join(side.Scenarios())+"; only if named: "+join(trials())+")")
	f.StringVar(&guarantees, "guarantee", side.AtLeastOnce,
		"guarantees, separated by commas (both: at_least_once,exactly_once_v2); what is run only if named takes the last one, exactly_once_v2 by default")
	f.StringVar(&values, "value-bytes", "100", "sizes of the values, separated by commas")
	f.StringVar(&sides, "sides", "", "sides, separated by commas (all: millrace,java,bare)")
	f.IntVar(&o.repeat, "repeat", 3, "how often everything is run; medians are reported")
	f.StringVar(&o.json, "json", "", "file for the report as JSON")
	f.BoolVar(&smoke, "smoke", false, "short times and few records, once: shows that it works, measures nothing")
	f.Int64Var(&o.records, "records", 3_000_000, "records of one pass over the data")
	f.IntVar(&o.keys, "keys", 100_000, "distinct keys")
	f.Int64Var(&o.maxRecords, "max-records", 100_000_000, "how long the input topic may get")
	f.DurationVar(&o.warmUp, "warm-up", 3*time.Second, "time from a side's first record to the measured window")
	f.DurationVar(&o.javaWarmUp, "java-warm-up", 10*time.Second, "the same for Java, whose compiler takes longer")
	f.DurationVar(&o.measure, "measure", 8*time.Second, "length of the measured window")
	f.DurationVar(&o.commit, "commit-interval", 0, "commit interval of every side (at_least_once 1s, exactly_once_v2 100ms)")
	f.IntVar(&o.trialKeys, "trial-keys", 1_000_000, "keys of restart and restore; of failover, join and rolling, for each of three instances")
	f.IntVar(&o.pairs, "pairs", 10, "how many pairs of runs eos-cost compares")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("bench: unexpected argument %q", f.Arg(0))
	}
	if smoke {
		o.applySmoke(f)
	}
	f.Visit(func(fl *flag.Flag) {
		if all := list(guarantees); fl.Name == "guarantee" && len(all) > 0 {
			o.trialGuarantee = all[len(all)-1]
		}
	})
	return o, o.fill(scenarios, guarantees, values, sides)
}

// applySmoke shortens what was not given.
func (o *options) applySmoke(f *flag.FlagSet) {
	given := make(map[string]bool)
	f.Visit(func(fl *flag.Flag) { given[fl.Name] = true })
	for name, apply := range map[string]func(){
		"repeat":       func() { o.repeat = 1 },
		"records":      func() { o.records = 200_000 },
		"keys":         func() { o.keys = 10_000 },
		"warm-up":      func() { o.warmUp = 500 * time.Millisecond },
		"java-warm-up": func() { o.javaWarmUp = time.Second },
		"measure":      func() { o.measure = 1500 * time.Millisecond },
		"trial-keys":   func() { o.trialKeys = 50_000 },
		"pairs":        func() { o.pairs = 1 },
	} {
		if !given[name] {
			apply()
		}
	}
}

// fill reads the lists and checks everything.
func (o *options) fill(scenarios, guarantees, values, sides string) error {
	if scenarios == "" {
		o.scenarios = side.Scenarios()
	}
	for _, s := range list(scenarios) {
		if slices.Contains(trials(), s) {
			o.trials = append(o.trials, s)
			continue
		}
		if !slices.Contains(side.Scenarios(), side.Scenario(s)) {
			return fmt.Errorf("bench: no scenario %q; there are %s and %s", s, join(side.Scenarios()), join(trials()))
		}
		o.scenarios = append(o.scenarios, side.Scenario(s))
	}
	o.guarantees = list(guarantees)
	for _, g := range o.guarantees {
		if g != side.AtLeastOnce && g != side.ExactlyOnce {
			return fmt.Errorf("bench: no guarantee %q; there are %s and %s", g, side.AtLeastOnce, side.ExactlyOnce)
		}
	}
	for _, v := range list(values) {
		n, err := strconv.Atoi(v)
		if err != nil || n < side.JoinedBytes {
			return fmt.Errorf("bench: a value of %q bytes: the least is %d", v, side.JoinedBytes)
		}
		o.valueBytes = append(o.valueBytes, n)
	}
	known := []string{report.Millrace, report.Java, report.Bare}
	o.sides, o.defaultSides = list(sides), sides == ""
	if o.defaultSides {
		o.sides = known
	}
	for _, s := range o.sides {
		if !slices.Contains(known, s) {
			return fmt.Errorf("bench: no side %q; there are %s", s, strings.Join(known, ", "))
		}
	}
	if o.trialKeys < 1 || o.pairs < 1 {
		return fmt.Errorf("bench: --trial-keys and --pairs must be above 0")
	}
	if o.repeat < 1 || o.records < 1 || o.keys < 1 || o.measure <= 0 || o.warmUp < 0 || o.javaWarmUp < 0 {
		return fmt.Errorf("bench: --repeat, --records, --keys and --measure must be above 0")
	}
	if o.commit%time.Millisecond != 0 || o.commit < 0 {
		return fmt.Errorf("bench: --commit-interval %v: whole milliseconds only", o.commit)
	}
	return nil
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func join[S ~string](s []S) string {
	var out []string
	for _, v := range s {
		out = append(out, string(v))
	}
	return strings.Join(out, ",")
}

// work is every combination asked for.
func (o options) work() []measure.Work {
	var out []measure.Work
	for _, bytes := range o.valueBytes {
		for _, g := range o.guarantees {
			for _, s := range o.scenarios {
				out = append(out, measure.Work{Scenario: s, Guarantee: g, ValueBytes: bytes})
			}
		}
	}
	return out
}

func (o options) settings() measure.Settings {
	commit := map[string]time.Duration{side.AtLeastOnce: commitAtLeastOnce, side.ExactlyOnce: commitExactlyOnce}
	if o.commit > 0 {
		commit[side.AtLeastOnce], commit[side.ExactlyOnce] = o.commit, o.commit
	}
	return measure.Settings{
		Records: o.records, Keys: o.keys, Partitions: partitions, Measure: o.measure,
		CommitInterval: commit, MaxRecords: o.maxRecords, TrialKeys: o.trialKeys, Log: logf,
	}
}

// costCommit is the commit interval of both guarantees where they are compared.
func (o options) costCommit() time.Duration {
	if o.commit > 0 {
		return o.commit
	}
	return commitExactlyOnce
}
