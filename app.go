package millrace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/clock"
	"github.com/millrace-io/millrace/internal/config"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/runtime"
)

// App runs a topology against Kafka, as one instance of an application. All instances with the same application id share
// the work: they are the members of one group, and each task runs on one of them.
//
// In Kafka Streams: KafkaStreams.
type App struct {
	topology *Topology
	opts     appOptions
	log      *slog.Logger
	metrics  *metrics.Registry
	stats    *runtime.Stats
	state    atomic.Uint32
	runs     atomic.Bool

	mu      sync.Mutex
	admin   broker.Admin // while it runs
	runner  *runtime.Runner
	running bool
	paused  bool
	workers int // as Workers or SetWorkers said
}

// State is what an App does as a whole.
//
//	created ──Run──▶ starting ──▶ rebalancing ◀──▶ running
//	   │                 │             │              │
//	   │                 │             └──────┬───────┘
//	   │                 │                    ▼ cancelled, or a fatal error
//	   │                 │                draining
//	   ▼                 ▼                    ▼
//	failed       stopped or failed    stopped or failed
//
// There are no other ways. A task that has failed and is replaced (see OnUncaughtError), or is tried again, makes it Rebalancing until it
// runs again, although the group does not rebalance. Whether it is paused is not told by its state: see App.Paused.
//
// In Kafka Streams: KafkaStreams.State.
type State uint8

const (
	// Created: made, and not run yet.
	Created State = iota
	// Starting: it finds the cluster, checks topics, makes internal ones and fills global tables.
	Starting
	// Rebalancing: it waits for its share of the tasks, or restores some of them. Those that are ready run.
	Rebalancing
	// Running: every task that it was given runs.
	Running
	// Draining: tasks hand over what they have done, it is committed, and the group is left.
	Draining
	// Stopped: it has ended without an error.
	Stopped
	// Failed: it has ended with an error.
	Failed
)

// String returns the state's name in lower case.
func (s State) String() string { return runtime.State(s).String() }

// NewApp checks the settings and makes an App of a topology. It opens no connection and starts nothing; files that the
// settings name (certificates) are read. The error joins everything that is wrong.
//
// ApplicationID and Brokers are required, by option or by property.
func NewApp(topology *Topology, opts ...AppOption) (*App, error) {
	if topology == nil {
		return nil, errors.New("millrace: NewApp needs a topology: take the one that Builder.Build returns")
	}
	a := &App{topology: topology, metrics: metrics.New(), stats: runtime.NewStats()}
	a.opts.cfg = config.Default()
	a.opts.clock = clock.System()
	for _, o := range opts {
		if o != nil {
			o.applyApp(&a.opts)
		}
	}
	if err := errors.Join(errors.Join(a.opts.errs...), a.opts.cfg.Validate(), a.opts.check(topology)); err != nil {
		return nil, fmt.Errorf("millrace: the application cannot be made:\n%w", err)
	}
	a.workers = a.opts.cfg.Workers
	a.log = a.opts.logger
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	for _, w := range a.opts.warnings {
		a.log.Warn(w)
	}
	return a, nil
}

// ErrRunTwice is returned by a second call of Run.
var ErrRunTwice = errors.New("millrace: Run was called before: an App runs once, make another one")

// Run runs the application until ctx ends or something fails for good. When ctx ends it drains: every task hands over
// what it has done, that is committed, and the group is left, so that others take the tasks at once and nothing is
// processed again. It then returns nil. The drain is bounded (default.api.timeout.ms); what is not committed by then is
// processed again later.
//
// An error is the first fatal one: an error or panic of a step that no handler took and OnUncaughtError did not get over, a setting that cannot work in this
// cluster, a source topic that is missing, refused access, and at the start brokers that cannot be reached (those that are
// down are waited for, for default.api.timeout.ms at most). Passing trouble later (a broker away, a topic deleted, a topic to be
// written that is missing) is not fatal: what it concerns is tried again, for as long as task.timeout.ms allows. Nor is a record or timer that takes longer than max.poll.interval.ms: its task alone
// is given up and goes to another instance; user code that still has not returned after task.timeout.ms more stops the App.
//
// Run may be called once.
//
// In Kafka Streams: KafkaStreams#start and #close in one.
func (a *App) Run(ctx context.Context) error {
	if a.runs.Swap(true) {
		return ErrRunTwice
	}
	a.mu.Lock()
	a.running = true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.running = false
		a.mu.Unlock()
	}()
	a.sayStart()
	cfg, err := a.runnerConfig()
	if err != nil {
		a.cannotRun(err)
		return err
	}
	if a.opts.memorySet {
		if b, err := a.opts.cfg.Budgets(1); err == nil {
			if old := debug.SetMemoryLimit(-1); old > b.GoMemoryLimit {
				debug.SetMemoryLimit(b.GoMemoryLimit)
				defer debug.SetMemoryLimit(old)
			}
		}
	}
	a.mu.Lock()
	if a.workers != a.opts.cfg.Workers {
		to, err := a.resize(a.workers)
		if err != nil {
			a.mu.Unlock()
			cfg.Clients.Close()
			a.cannotRun(err)
			return err
		}
		cfg.Settings.Workers, cfg.Settings.HardWorkers, cfg.PrivateBytes = to.Workers, to.Hard, to.PrivateBytes
	}
	cfg.Settings.Held = a.paused
	r := runtime.NewRunner(cfg)
	a.admin, a.runner = cfg.Clients.Admin, r
	a.mu.Unlock()
	err = r.Run(ctx)
	a.mu.Lock()
	a.admin = nil
	a.mu.Unlock()
	return broker.OnePrefix(err)
}

// cannotRun tells that Run ends before it has begun.
func (a *App) cannotRun(err error) {
	runtime.NewRunner(runtime.RunnerConfig{Logger: a.log, OnState: a.onState, SetState: a.setState}).CannotRun(err)
}

// State tells what the App does at the moment.
func (a *App) State() State { return State(a.state.Load()) }

func (a *App) setState(s runtime.State) { a.state.Store(uint32(s)) }

// Metrics returns what the App has counted so far. It may be called at any time, after the end too.
//
// In Kafka Streams: KafkaStreams#metrics.
func (a *App) Metrics() MetricsSnapshot { return a.snapshot() }

// Lag asks the cluster how far the application is, all its instances together: for each partition that the topology
// reads, repartition topics included, the committed offset and the end. It may be called while Run runs.
//
// If every partition is done, everything that was in the input when Lag was called has been processed, and its results are
// written. (Offsets are asked for first and ends after, so what is written meanwhile shows as lag.)
func (a *App) Lag(ctx context.Context) (Lags, error) {
	a.mu.Lock()
	admin, r := a.admin, a.runner
	a.mu.Unlock()
	if admin == nil {
		return nil, errors.New("millrace: Lag: the application does not run")
	}
	return a.lag(ctx, admin, r)
}

func (a *App) onState(s runtime.State) {
	for _, f := range a.opts.onState {
		f(State(s))
	}
}

func (a *App) onStandby(c restore.Copied) {
	for _, f := range a.opts.onStandby {
		f(standbyUpdate(c))
	}
}

func (a *App) onRestore(p restore.Progress) {
	for _, f := range a.opts.onRestore {
		f(restoreProgress(p))
	}
}
