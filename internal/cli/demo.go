package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-io/millrace/internal/demo"
	"github.com/millrace-io/millrace/internal/demo/live"
	"github.com/millrace-io/millrace/internal/devbroker"
)

// demoFlags are the flags of the demo.
type demoFlags struct {
	once       bool
	out        string
	json       string
	rate       float64
	partitions int32
	grace      time.Duration
	guarantee  string
	stateDir   string
	brokers    []string
	topology   string
	data       string
}

// The names of guarantees are those of the property processing.guarantee.
const (
	exactlyOnce = "exactly_once_v2"
	atLeastOnce = "at_least_once"
)

// maxPartitions keeps a slip of the finger from making topics that take minutes to create.
const maxPartitions = 1000

func newDemo(c Config) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a month of flights through a topology of streams and tables",
		Long: `Run the flights that left New York in January 2013 through a topology of streams and tables with local state and event-time
windows, on a broker in this process or on a Kafka of yours.

The flights are fed in the order in which aircraft landed, so departures come late and out of order. From the topics flights,
planes and airlines the topology makes

  departures-by-hour  flights and mean delay by origin and hour of departure
  departures-late     the flights that came after their hour had closed (see --grace)
  planes-by-hour      the number of different planes by origin and hour
  flights-enriched    each flight with its plane and its airline's name
  seats-by-carrier    flights and seats of each carrier

On a terminal it shows how far it is and how the topics fill. With --once it needs no terminal, feeds as fast as it goes, and
ends when everything is processed. On a Kafka of yours a run goes on where the one before stopped or was killed, if it gets the
same --state-dir or not, and no result is lost or there twice; delete the topics to start afresh.`,
		Example: `  millrace demo
  millrace demo --once --out out --json summary.json
  millrace demo --once --out out --grace 2h --partitions 1
  millrace demo --brokers localhost:9092 --state-dir ./state
  millrace demo --once --guarantee at_least_once
  millrace demo --once --data ./nycflights13         the whole year, from CSV files
  millrace demo --topology mermaid`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.once, "once", false, "do without a terminal and feed as fast as it goes")
	flags.StringVar(&f.out, "out", "", "`DIR` to write each derived topic to as TOPIC.jsonl, one record a line")
	flags.StringVar(&f.json, "json", "", "`FILE` to write the summary to as JSON")
	flags.Float64Var(&f.rate, "rate", 2000, "flights fed a second; 0 is as fast as it goes (default with --once)")
	flags.Int32Var(&f.partitions, "partitions", 4, "partitions of each topic")
	flags.DurationVar(&f.grace, "grace", 6*time.Hour, "how late a flight may come and still be counted in its hour")
	flags.StringVar(&f.guarantee, "guarantee", exactlyOnce, "`GUARANTEE` of the results after a failure: "+exactlyOnce+" or "+atLeastOnce)
	flags.StringVar(&f.stateDir, "state-dir", "", "`DIR` for local state (default: a fresh one, removed at the end)")
	flags.StringSliceVar(&f.brokers, "brokers", nil, "`HOST:PORT` of a Kafka, several separated by commas (default: a broker in this process)")
	flags.StringVar(&f.topology, "topology", "", "print the topology as `FORMAT` text, dot or mermaid, and exit")
	flags.StringVar(&f.data, "data", "", "`DIR` with flights, weather, planes and airlines as .csv or .csv.gz (default: January 2013, built in)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.once && !flags.Changed("rate") {
			f.rate = 0
		}
		if err := f.check(cmd); err != nil {
			return err
		}
		if f.topology != "" {
			text, err := demo.Draw(f.topology, f.grace)
			if err == nil {
				_, err = io.WriteString(cmd.OutOrStdout(), text)
			}
			return err
		}
		return f.run(cmd, c)
	}
	return cmd
}

// check refuses values that no run could use.
func (f *demoFlags) check(cmd *cobra.Command) error {
	switch {
	case f.rate < 0 || math.IsNaN(f.rate) || math.IsInf(f.rate, 0):
		return usagef(cmd, "--rate %v: a number of flights a second is needed, 0 for as fast as it goes", f.rate)
	case f.partitions < 1 || f.partitions > maxPartitions:
		return usagef(cmd, "--partitions %d: a number from 1 to %d is needed", f.partitions, maxPartitions)
	case f.grace < 0:
		return usagef(cmd, "--grace %v: a span of 0 or more is needed, such as 6h", f.grace)
	case f.guarantee != exactlyOnce && f.guarantee != atLeastOnce:
		return usagef(cmd, "--guarantee %s: %s or %s is needed", f.guarantee, exactlyOnce, atLeastOnce)
	case f.topology != "" && !slices.Contains(demo.DrawFormats(), f.topology):
		return usagef(cmd, "--topology %s: one of %s is needed", f.topology, strings.Join(demo.DrawFormats(), ", "))
	case cmd.Flags().Changed("brokers") && len(f.brokers) == 0:
		return usagef(cmd, "--brokers needs HOST:PORT")
	}
	for _, b := range f.brokers {
		if host, port, err := net.SplitHostPort(b); err != nil || host == "" || port == "" {
			return usagef(cmd, "--brokers %s: HOST:PORT is needed, such as localhost:9092", b)
		}
	}
	return nil
}

func (f *demoFlags) run(cmd *cobra.Command, c Config) error {
	ctx := cmd.Context()
	if f.json != "" {
		// Found out now rather than after the run.
		if err := os.MkdirAll(filepath.Dir(f.json), 0o755); err != nil {
			return fmt.Errorf("millrace: demo: cannot write the summary: %w; check --json", err)
		}
	}
	showLive := !f.once && isTerminal(c.Stdin) && isTerminal(c.Stdout)
	logTo := cmd.ErrOrStderr()
	var logged strings.Builder // a line of the log would tear the live view
	if showLive {
		logTo = &logged
	}
	logger := slog.New(slog.NewTextHandler(logTo, &slog.HandlerOptions{Level: slog.LevelWarn}))

	o := demo.Options{
		Partitions:  f.partitions,
		Grace:       f.grace,
		Rate:        f.rate,
		AtLeastOnce: f.guarantee == atLeastOnce,
		Brokers:     f.brokers,
		StateDir:    f.stateDir,
		OutDir:      f.out,
		NewEngine:   c.Engine,
		Logger:      logger,
	}
	var err error
	if f.data != "" {
		o.Data, err = demo.Load(f.data)
	} else {
		o.Data, err = demo.Embedded()
	}
	if err != nil {
		return err
	}
	where := "Kafka at " + strings.Join(f.brokers, ",")
	if len(o.Brokers) == 0 {
		b, err := devbroker.Start(devbroker.Options{Logger: logger})
		if err != nil {
			return err
		}
		defer func() {
			if err := b.Close(); err != nil {
				logger.Warn("millrace: demo: the broker in this process did not close well", "error", err)
			}
		}()
		o.Brokers = b.Addrs()
		where = "broker in this process at " + strings.Join(o.Brokers, ",")
	}

	var s demo.Summary
	if showLive {
		s, err = live.Run(ctx, c.Stdin, c.Stdout, where,
			func(ctx context.Context, progress func(demo.Progress), output func(demo.Output)) (demo.Summary, error) {
				o.Progress, o.Output = progress, output
				return demo.Run(ctx, o)
			})
		_, _ = io.WriteString(cmd.ErrOrStderr(), logged.String())
	} else {
		fmt.Fprintf(cmd.ErrOrStderr(), "millrace demo: %s\n", where)
		lines := progressLines{w: cmd.ErrOrStderr()}
		o.Progress = lines.show
		s, err = demo.Run(ctx, o)
	}
	interrupted := errors.Is(err, demo.ErrInterrupted)
	if err != nil && !interrupted {
		return err
	}
	fmt.Fprint(cmd.OutOrStdout(), s.Text())
	if interrupted {
		if f.once || f.out != "" || f.json != "" {
			return fmt.Errorf("%w, and no file was written; with --brokers the same command goes on where this one stopped", err)
		}
		return nil // the user has seen enough
	}
	if f.json != "" {
		return s.WriteFile(f.json)
	}
	return nil
}

// progressLines prints a line of progress from time to time.
type progressLines struct {
	w    io.Writer
	seen int
}

// progressEvery is how many reports, of ten a second, make a line.
const progressEvery = 10

func (l *progressLines) show(p demo.Progress) {
	if l.seen++; l.seen%progressEvery != 0 && !p.Done() {
		return
	}
	reached := "none"
	if !p.EventTime.IsZero() {
		reached = p.EventTime.UTC().Format(time.RFC3339)
	}
	fmt.Fprintf(l.w, "fed %s of %s  processed %s  %s/s  event time %s  lag %s\n", demo.Thousands(p.Fed), demo.Thousands(p.Total),
		demo.Thousands(p.Processed), demo.Thousands(int64(p.Rate)), reached, demo.Thousands(p.Lag))
}
