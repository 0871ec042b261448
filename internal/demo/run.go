package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/clock"
)

// ErrInterrupted is returned by [Run] when its context ended before everything was processed.
var ErrInterrupted = errors.New("millrace: demo: interrupted before everything was processed")

// Options configure a run. Data, Partitions, Brokers and NewEngine are needed.
type Options struct {
	Data       *Dataset
	Partitions int32         // of each input and derived topic
	Grace      time.Duration // of the windows
	Rate       float64       // flights fed a second; 0: as fast as it goes

	AtLeastOnce bool // rather than exactly once

	Brokers  []string // bootstrap addresses
	StateDir string   // local state; empty: a fresh directory that is removed at the end
	OutDir   string   // where the derived topics are written to; empty: nowhere

	NewEngine NewEngine
	Clock     clock.Clock  // for the rate; nil: the system's
	Logger    *slog.Logger // nil discards

	// Progress, if set, is called several times a second, from one goroutine.
	Progress func(Progress)
	// Output, if set, is called for each record of the derived topics soon after it was written, from one goroutine. Records
	// of earlier runs come too; the last ones before the end of a run may not come.
	Output func(Output)
}

// progressInterval is how often the cluster is asked how far the run is.
const progressInterval = 100 * time.Millisecond

// Run feeds the data, runs the engine until everything is processed, stops it, and reads the derived topics back. If ctx ends
// first it stops in good order, writes no files, and returns ErrInterrupted with a summary of what there is.
func Run(ctx context.Context, o Options) (Summary, error) {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &run{Options: o}
	defer r.close()
	if err := r.prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return Summary{}, ErrInterrupted
		}
		return Summary{}, err
	}
	started := o.Clock.Now()
	err := r.process(ctx)
	elapsed := o.Clock.Now().Sub(started)
	interrupted := ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
	if err != nil && !interrupted {
		return Summary{}, err
	}
	if interrupted {
		// What there is is worth telling, but not worth waiting long for.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), reachTimeout)
		defer cancel()
		r.OutDir = ""
	}
	s, err := r.summary(ctx, elapsed)
	if err == nil && interrupted {
		err = ErrInterrupted
	}
	return s, err
}

// run is one run in progress.
type run struct {
	Options
	in       *Inputs
	client   *kgo.Client
	engine   Engine
	feeder   *Feeder
	stateDir string // to remove at the end
}

// prepare does all that can fail early: directories, topics, the engine's checks; and it loads the tables.
func (r *run) prepare(ctx context.Context) (err error) {
	if r.in, err = NewInputs(r.Data, r.Partitions); err != nil {
		return err
	}
	if r.OutDir != "" {
		if err := os.MkdirAll(r.OutDir, 0o755); err != nil {
			return fmt.Errorf("millrace: demo: cannot make the output directory: %w; check --out", err)
		}
	}
	if r.StateDir == "" {
		if r.StateDir, err = os.MkdirTemp("", "millrace-demo-"); err != nil {
			return fmt.Errorf("millrace: demo: cannot make a directory for the local state: %w; name one with --state-dir", err)
		}
		r.stateDir = r.StateDir
	} else if err := os.MkdirAll(r.StateDir, 0o755); err != nil {
		return fmt.Errorf("millrace: demo: cannot make the state directory: %w; check --state-dir", err)
	}
	if r.client, err = Connect(ctx, r.Brokers); err != nil {
		return err
	}
	if err := EnsureTopics(ctx, r.client, r.Partitions); err != nil {
		return err
	}
	r.engine, err = r.NewEngine(EngineConfig{
		Brokers: r.Brokers, StateDir: r.StateDir, Grace: r.Grace, AtLeastOnce: r.AtLeastOnce, Logger: r.Logger,
	})
	if err != nil {
		return err
	}
	r.feeder = NewFeeder(r.in, r.client, r.Brokers, r.Rate, r.Clock)
	if err := r.feeder.Resume(ctx); err != nil {
		return err
	}
	return r.feeder.FeedTables(ctx)
}

// errDone ends the parts of a run once everything is processed.
var errDone = errors.New("everything is processed")

// process runs the engine beside the feeder until everything is fed and processed, and stops it. It returns the cause
// of parent if that ended first.
func (r *run) process(parent context.Context) error {
	parts, ctx := errgroup.WithContext(parent)
	var engineErr error // told even if it comes of the draining, after something else ended the run
	parts.Go(func() error {
		engineErr = r.engine.Run(ctx)
		if engineErr == nil && ctx.Err() == nil {
			return errors.New("millrace: demo: the application stopped by itself")
		}
		return engineErr
	})
	parts.Go(func() error { return r.feeder.FeedLive(ctx) })
	parts.Go(func() error { return r.watch(ctx) })
	if r.Output != nil {
		parts.Go(func() error { return r.follow(ctx) })
	}
	err := parts.Wait() // of the part that ended first
	stopped := errors.Is(err, errDone) || parent.Err() != nil && errors.Is(err, context.Cause(parent))
	switch {
	case stopped && engineErr != nil:
		return engineErr
	case errors.Is(err, errDone):
		return nil
	}
	return err
}

// patience is how long brokers may fail to tell the progress (while they start, or move a coordinator) before a run ends.
const patience = 30 * time.Second

// watch reports progress and returns errDone at the end.
func (r *run) watch(ctx context.Context) error {
	reader := progressReader{in: r.in, admin: kadm.NewClient(r.client)}
	wall := clock.System() // not the one of the rate, which a test may hold
	lastTold := wall.Now()
	for {
		p, err := reader.read(ctx, wall.Now())
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			lastTold = wall.Now()
			if r.Progress != nil {
				r.Progress(p)
			}
			if p.Done() {
				return errDone
			}
		case !passing(err) || wall.Now().Sub(lastTold) > patience:
			return err
		}
		if err := sleep(ctx, progressInterval); err != nil {
			return err
		}
	}
}

// passing says whether an error may go away by itself: all but those that a broker calls final.
func passing(err error) bool {
	var answer *kerr.Error
	return !errors.As(err, &answer) || answer.Retriable
}

// follow hands on the records of the derived topics as they are written.
func (r *run) follow(ctx context.Context) error {
	from := map[string]map[int32]kgo.Offset{}
	byName := map[string]Derived{}
	for _, d := range DerivedTopics() {
		byName[d.Name] = d
		from[d.Name] = map[int32]kgo.Offset{}
		for p := range r.Partitions {
			from[d.Name][p] = kgo.NewOffset().AtStart()
		}
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(r.Brokers...),
		kgo.ClientID(ApplicationID),
		kgo.ConsumePartitions(from),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		return fmt.Errorf("millrace: demo: cannot follow the derived topics: %w", err)
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("millrace: demo: cannot follow the derived topics: %w", err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			record := it.Next()
			o, err := decodeOutput(byName[record.Topic], record)
			if err != nil {
				return err
			}
			r.Output(o)
		}
	}
}

// summary reads the derived topics back and adds up.
func (r *run) summary(ctx context.Context, elapsed time.Duration) (Summary, error) {
	totals, err := ReadOutputs(ctx, r.client, r.Brokers, r.OutDir)
	if err != nil {
		return Summary{}, err
	}
	reader := progressReader{in: r.in, admin: kadm.NewClient(r.client)}
	p, err := reader.read(ctx, r.Clock.Now())
	if err != nil {
		return Summary{}, err
	}
	s := Summary{
		Fed: p.Fed, Departed: p.Departed, Counted: totals.Counted, Late: totals.Late, Dropped: r.engine.Dropped(), Elapsed: elapsed,
	}
	if seconds := elapsed.Seconds(); seconds > 0 {
		s.RecordsPerSecond = float64(r.feeder.Fed(FlightsTopic)) / seconds
	}
	for _, d := range DerivedTopics() {
		s.Topics = append(s.Topics, TopicRecords{d.Name, totals.Records[d.Name]})
	}
	return s, nil
}

// close ends what prepare began.
func (r *run) close() {
	if r.client != nil {
		r.client.Close()
	}
	if r.stateDir != "" {
		if err := os.RemoveAll(r.stateDir); err != nil {
			r.Logger.Warn("millrace: demo: the local state could not be removed", "directory", r.stateDir, "error", err)
		}
	}
}
