// Command run measures millrace against Kafka Streams and against a bare client loop on one real broker. README.md of
// bench says what is measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/millrace-io/millrace/bench/internal/bare"
	"github.com/millrace-io/millrace/bench/internal/measure"
	"github.com/millrace-io/millrace/bench/internal/report"
	"github.com/millrace-io/millrace/bench/internal/side"
	"github.com/millrace-io/millrace/bench/java"
	"github.com/millrace-io/millrace/bench/millraceside"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sideCommand is the first argument with which this program runs itself as a side.
const sideCommand = "side"

func run(ctx context.Context, args []string) error {
	if len(args) >= 2 && args[0] == sideCommand {
		return runSide(ctx, args[1], args[2:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	contenders, javaVersion, err := o.contenders(ctx)
	if err != nil {
		return err
	}
	machine := report.ThisMachine(javaVersion)
	all, trials, err := benchmark(ctx, o, contenders)
	if err != nil {
		return err
	}
	r := report.Summarise(machine, all, trials)
	if err := r.WriteText(os.Stdout); err != nil {
		return err
	}
	if o.json == "" {
		return nil
	}
	f, err := os.Create(o.json)
	if err != nil {
		return fmt.Errorf("bench: report: %w", err)
	}
	return errors.Join(r.WriteJSON(f), f.Close())
}

// goSide is the side of that name that is part of this program; nil if it has none.
func goSide(name string) side.Side {
	switch name {
	case report.Millrace:
		return millraceside.New()
	case report.Bare:
		return bare.Side{}
	}
	return nil
}

func runSide(ctx context.Context, name string, args []string) error {
	s := goSide(name)
	if s == nil {
		return fmt.Errorf("bench: this build has no side %q", name)
	}
	return side.Main(ctx, s, args, os.Stdin, os.Stdout)
}

// contenders are the sides to measure. A side that was asked for by name and is not there is an error; millrace's, asked
// for by default only, is left out with a word.
func (o options) contenders(ctx context.Context) (out []measure.Contender, javaVersion string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("bench: path of this program: %w", err)
	}
	for _, name := range o.sides {
		c := measure.Contender{Name: name, WarmUp: o.warmUp}
		switch {
		case name == report.Java:
			if c.Command, err = java.Command(ctx); err != nil {
				return nil, "", err
			}
			if javaVersion, err = java.Version(ctx); err != nil {
				return nil, "", err
			}
			c.WarmUp = o.javaWarmUp
		case goSide(name) != nil:
			c.Command = []string{self, sideCommand, name}
		case name == report.Millrace && o.defaultSides:
			fmt.Fprintln(os.Stderr, "bench: millrace's side is not built in: java and bare only")
			continue
		default:
			return nil, "", fmt.Errorf("bench: this build has no side %q", name)
		}
		out = append(out, c)
	}
	return out, javaVersion, nil
}

// benchmark runs everything.
func benchmark(ctx context.Context, o options, contenders []measure.Contender) (all []report.Runs, trials report.Trials, err error) {
	b, err := measure.Open(ctx, o.settings())
	if err != nil {
		return nil, trials, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if all, err = throughput(ctx, b, o, contenders); err != nil {
		return nil, trials, err
	}
	trials, err = runTrials(ctx, b, o, contenders)
	return all, trials, err
}

// throughput runs for each kind of work the sides in turn, and that as often as asked. The side that begins changes from
// repeat to repeat.
func throughput(ctx context.Context, b *measure.Bench, o options, contenders []measure.Contender) (all []report.Runs, err error) {
	for _, w := range o.work() {
		runs := report.Runs{Work: w, Records: o.records, Sides: make(map[string][]measure.Result)}
		for repeat := range o.repeat {
			for i := range contenders {
				c := contenders[(i+repeat)%len(contenders)]
				r, err := b.Run(ctx, c, w)
				if err != nil {
					return nil, err
				}
				logf("%s, %s, %d B, repeat %d: %s: %.0f records/s, %.2f us of CPU a record, first record after %v",
					w.Scenario, w.Guarantee, w.ValueBytes, repeat+1, c.Name, r.RecordsPerSecond, r.CPUSecondsPerMillion,
					r.FirstRecord.Round(1e6))
				runs.Sides[c.Name] = append(runs.Sides[c.Name], r)
			}
		}
		all = append(all, runs)
	}
	return all, nil
}

func logf(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }
