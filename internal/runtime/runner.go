package runtime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/clock"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/task"
	"github.com/millrace-io/millrace/internal/topology"
)

// Clients are the connections of an instance. The Runner closes them.
type Clients struct {
	// Ping checks, in bounded time, that the cluster can be spoken to. May be nil.
	Ping  func(context.Context) error
	Admin broker.Admin
	// Producer writes under at-least-once. Transactions, in its place, opens the producer of exactly-once under the
	// transactional id that it is given.
	Producer     broker.Producer
	Transactions func(id string) (broker.Transactions, error)
	Reader       broker.Reader
	// Committed fetches read committed, User the user's topics where they are read otherwise; nil: Committed does that too.
	Committed broker.Fetcher
	User      broker.Fetcher
	// Global fetches the topics of global stores, read committed; it may be nil where there are none.
	Global broker.Fetcher
	// Membership opens the instance's part in its group.
	Membership func(Member) (broker.Membership, error)
	// Protocol is what the group calls the assignor of Membership. BrokersAssign says that it is brokers that assign the tasks, under
	// the streams group protocol.
	Protocol      string
	BrokersAssign bool
}

// Member is who an instance is in its group.
type Member struct {
	// InstanceID makes it a static member; empty if it is none.
	InstanceID string
	// ProcessID is that of the state directory; empty without one.
	ProcessID string
	// Copies says of which tasks the instance has state, on disk or as a standby, and how far it is: the sum of the positions in
	// the changelogs.
	Copies func() map[broker.TaskID]int64
	// Transactional is the transactional id under which the instance writes; empty under at-least-once.
	Transactional string
}

// Close closes the clients that are open.
func (c *Clients) Close() {
	for _, f := range []broker.Fetcher{c.Committed, c.User, c.Global} {
		if f != nil {
			f.Close()
		}
	}
	if c.Producer != nil {
		c.Producer.Close()
	}
	if c.Reader != nil {
		c.Reader.Close()
	}
	if c.Admin != nil {
		c.Admin.Close()
	}
}

// RunnerConfig is what an instance runs with.
type RunnerConfig struct {
	AppID    string
	Topology *topology.Topology
	Resolve  topology.ResolveConfig
	Settings Settings
	Clients  Clients
	// OpenState opens the state directory, for up to that many tasks with stores; nil keeps all stores in memory.
	OpenState func(clusterID string, tasks int) (*state.DB, error)
	// InstanceID makes the instance a static member; StaticByDir one under the id of its state directory.
	InstanceID  string
	StaticByDir bool

	// NewID makes the id of an instance without a state directory, a random one by default.
	NewID func() string

	Handlers op.Handlers
	// Uncaught is the policy for errors of tasks that no handler took; nil stops the instance for each.
	Uncaught  func(Uncaught) Verdict
	Metrics   *metrics.Registry
	Stats     *Stats
	Clock     clock.Clock
	Logger    *slog.Logger
	OnState   func(State)
	SetState  func(State) // told at once, on the goroutine of the machine
	OnRestore func(restore.Progress)
	OnStandby func(restore.Copied) // what becomes of copies of tasks' stores

	// Queues, if set, says how much may wait of one input partition, once their number is known.
	Queues func(partitions int) (bytes int64, err error)

	StartTimeout    time.Duration // of each question to the cluster at start
	RequestTimeout  time.Duration // of each question later
	ForeignWait     time.Duration // how long members of another kind are waited out
	RefreshInterval time.Duration // of what the cluster has of topics
	MaxBlock        time.Duration // how long a first record for a topic waits for its metadata
	ClientMaxBytes  int           // largest record that the producer sends
	TopicMaxBytes   bool          // topics' own limits hold for bytes as they are here (no compression)
	MaxIdleMs       int64
	CacheBytes      int64 // of all deduplicating caches
	ReadCacheBytes  int64 // of all read caches
	PrivateBytes    int64 // what one task may gather between two hand-overs
	EmitLimit       int64 // what one record may send at most; 0 is not bounded
	RestoreBytes    int32 // of one read of a changelog
	SliceMs         int64
	SliceRecords    int

	// Trace, for tests, is told each event before it is stepped and the actions that followed.
	Trace func(Event, []Action)
}

// Runner carries a Machine: its goroutines fetch, run tasks, restore, commit and keep the membership, and all they do is
// to turn actions into events.
type Runner struct {
	cfg RunnerConfig
	log *slog.Logger

	steady       func() int64 // the time of the machine
	inbox        *inbox
	notes        *notifier
	db           *state.DB
	member       broker.Membership
	machine      *Machine
	book         *topicBook
	planner      *planner
	globals      *globals
	loops        []*fetchLoop // committed, user
	workers      *workers
	transactor   *transactor     // under exactly-once
	releaser     *releaser       // under at-least-once
	ctx          context.Context // ends when the machine is done
	restores     map[*life]context.CancelFunc
	underRestore atomic.Int32 // tasks
	followers    *followers
	wg           sync.WaitGroup
	err          error
	internal     map[string]bool // repartition topics
	firstPlan    Plan
	current      atomic.Pointer[Plan]
	said         sync.Map // task and store -> elapsed time at the last line of progress
	static       bool     // it has joined as a static member
	place        string   // what becomes of its place in the group, for the log; empty before it has joined
}

// NewRunner makes a Runner that has done nothing yet.
func NewRunner(cfg RunnerConfig) *Runner {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.Stats == nil {
		cfg.Stats = NewStats()
	}
	if cfg.NewID == nil {
		cfg.NewID = rand.Text
	}
	setDefault(&cfg.SliceMs, 10)
	setDefault(&cfg.PrivateBytes, 16<<20)
	setDefault(&cfg.SliceRecords, 4096)
	setDefault(&cfg.StartTimeout, time.Minute)
	setDefault(&cfg.RequestTimeout, 30*time.Second)
	setDefault(&cfg.MaxBlock, time.Minute)
	setDefault(&cfg.RefreshInterval, 5*time.Minute)
	return &Runner{cfg: cfg, log: cfg.Logger, steady: clock.Steady(cfg.Clock), inbox: newInbox(), notes: newNotifier(cfg.Logger), releaser: newReleaser(), restores: make(map[*life]context.CancelFunc), followers: newFollowers()}
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func msDuration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// Run runs the instance until the context ends, and then drains it: all tasks hand over what they have done, it is
// committed, and the group is left. It returns the first fatal error, nil after a drained end. It may be called once.
func (r *Runner) Run(ctx context.Context) error {
	var end context.CancelFunc
	r.ctx, end = context.WithCancel(context.WithoutCancel(ctx))
	noteCtx, endNotes := context.WithCancel(context.Background())
	r.wg.Go(func() { r.notes.run(noteCtx) })
	defer r.wg.Wait()
	defer endNotes()
	defer end()
	defer r.cfg.Clients.Close()
	defer r.closeTransactions()
	r.report(StateStarting)
	err := r.start(ctx)
	if err == nil {
		err = r.madeForNothing(r.loop(ctx))
	} else {
		if r.member != nil {
			r.leaves(false)
			_ = r.leave(false)
		}
		r.closeGlobals()
		if ctx.Err() != nil {
			// It was told to stop before it had begun: what a question that was cut short has to say is no news.
			r.log.Info("stopped while starting", "error", err)
			err = nil
		}
		if err != nil {
			r.report(StateFailed)
		} else {
			r.report(StateStopped)
		}
	}
	if r.db != nil {
		if e := r.db.Close(); e != nil && err == nil {
			err = fmt.Errorf("millrace: close the state directory: %w", e)
		}
	}
	r.sayEnd(err)
	return err
}

// CannotRun reports an instance that cannot even be started, in place of Run.
func (r *Runner) CannotRun(err error) {
	ctx, end := context.WithCancel(context.Background())
	r.wg.Go(func() { r.notes.run(ctx) })
	r.report(StateFailed)
	end()
	r.wg.Wait()
	r.sayEnd(err)
}

// madeForNothing tells which internal topics an instance has made before it found out that its topology is not that of the group.
func (r *Runner) madeForNothing(err error) error {
	if !errors.Is(err, broker.ErrTopologyMismatch) || len(r.planner.created) == 0 {
		return err
	}
	return fmt.Errorf("%w; this instance has made internal topics that only it would use, delete them if it is not to run: %s", err,
		strings.Join(slices.Sorted(maps.Keys(r.planner.created)), ", "))
}

// Abandon ends the instance at once, without a commit and without leaving the group, as a killed process would. It is for
// tests.
func (r *Runner) Abandon() { r.inbox.post(Abandon{}) }

// Pause pauses processing, or lets it go on. It may be called at any time, by anybody.
func (r *Runner) Pause(paused bool) {
	if paused {
		r.inbox.post(Hold{})
	} else {
		r.inbox.post(GoOn{})
	}
}

// Resize changes how many tasks run at a time. It may be called at any time, by anybody.
func (r *Runner) Resize(to Resize) { r.inbox.post(to) }

func (r *Runner) report(s State) {
	r.log.Debug("state", "state", s.String())
	if r.cfg.SetState != nil {
		r.cfg.SetState(s)
	}
	if r.cfg.OnState != nil {
		r.notes.tell(func() { r.cfg.OnState(s) })
	}
}

// loop steps the machine until it is done.
func (r *Runner) loop(ctx context.Context) error {
	inner, cancel := context.WithCancel(r.ctx)
	r.workers = &workers{appID: r.cfg.AppID, clock: r.cfg.Clock, post: r.inbox.post, work: make(chan *Work), ctx: inner}
	stop := context.AfterFunc(ctx, func() { r.inbox.post(Stop{}) })
	defer stop()
	r.wg.Go(r.followMembership)
	for _, l := range r.loops {
		r.wg.Go(func() { l.run(inner) })
	}
	if r.globals != nil && len(r.globals.feeds) > 0 {
		r.wg.Go(func() {
			if err := r.globals.follow(inner); err != nil && inner.Err() == nil {
				r.inbox.post(Failed{Err: err})
			}
			r.closeGlobals()
		})
	}
	if r.transactor != nil {
		r.wg.Go(func() { r.transactor.run(inner) })
	} else {
		r.wg.Go(func() { r.releaser.run(inner) })
	}
	r.wg.Go(func() { r.followers.run(inner) })
	r.wg.Go(r.refresh)
	r.inbox.post(Started{})
	for !r.machine.Over() {
		events := r.inbox.take()
		if len(events) == 0 {
			at, timed := r.machine.NextWakeMs()
			r.inbox.wait(r.cfg.Clock, at-r.steady(), timed)
			events = r.inbox.take()
			if len(events) == 0 {
				events = append(events, Tick{})
			}
		}
		for _, e := range events {
			r.machine.Step(r.steady(), e)
			actions := r.machine.Actions()
			if r.cfg.Trace != nil {
				r.cfg.Trace(e, actions)
			}
			for _, a := range actions {
				r.execute(a)
			}
		}
	}
	cancel()
	for _, stop := range r.restores {
		stop()
	}
	r.waitWorkers()
	return r.err
}

// closeGlobals closes the processors that fill global stores, in the goroutine that ran them. Nothing depends on how it ends.
func (r *Runner) closeGlobals() {
	if r.globals == nil {
		return
	}
	if err := r.globals.close(); err != nil {
		r.log.Warn("a processor that fills a global store did not close", "error", err)
	}
}

// waitWorkers waits for the workers, but not for one that is inside user code past its deadline.
func (r *Runner) waitWorkers() {
	done := make(chan struct{})
	go func() {
		r.workers.wg.Wait()
		close(done)
	}()
	t := clock.System().NewTimer(stuckWorker) // real time: a worker does not care for a clock of a test
	defer t.Stop()
	select {
	case <-done:
	case <-t.C():
		r.log.Warn("a worker is still inside user code and is left behind")
	}
}

// stuckWorker is how long the end waits for workers inside user code.
const stuckWorker = 2 * time.Second

func (r *Runner) execute(a Action) {
	switch a := a.(type) {
	case Assign:
		r.loopOf(a.Topic).order(func(f broker.Fetcher) { f.Assign(a.TopicPartition, a.Offset, a.Epoch) })
	case Unassign:
		r.each(a.Partitions, broker.Fetcher.Unassign)
	case Pause:
		r.each(a.Partitions, broker.Fetcher.Pause)
	case Resume:
		r.each(a.Partitions, broker.Fetcher.Resume)
	case Restore:
		ctx, cancel := context.WithCancel(r.ctx)
		r.restores[a.life] = cancel
		r.underRestore.Add(1)
		r.wg.Go(func() {
			defer r.underRestore.Add(-1)
			r.restore(ctx, a)
		})
	case CancelRestore:
		if cancel := r.restores[a.life]; cancel != nil {
			cancel()
		}
	case Follow, Unfollow:
		r.followers.order(a)
	case CloseSet:
		r.wg.Go(func() {
			if err := a.Set.Close(); err != nil {
				r.log.Warn("closing the stores of a task that went elsewhere", "task", a.Task, "error", err)
			}
		})
	case Run:
		r.workers.run(a.Work)
	case Commit:
		r.wg.Go(func() { r.commit(a) })
	case Flush:
		if err := r.producer().Flush(r.ctx); err != nil && r.ctx.Err() == nil {
			r.log.Debug("flush", "error", err)
		}
	case Send, CommitInTransaction, EndTransaction, Prove:
		r.transactor.order(a)
	case Purge:
		r.wg.Go(func() {
			ctx, cancel := context.WithTimeout(r.ctx, r.cfg.RequestTimeout)
			defer cancel()
			r.inbox.post(Purged{Err: r.cfg.Clients.Admin.DeleteRecords(ctx, a.Before)})
		})
	case Maintain:
		if r.db != nil {
			if err := r.db.Maintain(); err != nil {
				r.inbox.post(Failed{Err: err})
			}
		}
	case DropState:
		for _, task := range a.Tasks {
			r.inbox.post(StateDropped{Task: task, Err: r.db.DropTask(task)})
		}
	case Subscribe:
		r.member.Subscribe(a.Topology)
	case Rejoin:
		r.member.Rejoin()
	case Refuse:
		r.member.Refuse(a.Tasks...)
	case StopAll:
		r.member.StopAll(a.Why)
	case Ask:
		// With the workers: it is user code, and the end does not wait for it for ever.
		r.workers.wg.Go(func() { r.inbox.post(a.question.ask()) })
	case Call:
		a.Func()
	case Report:
		r.report(a.State)
	case Leave:
		r.leaves(a.Stay)
		r.wg.Go(func() { r.inbox.post(Left{Err: r.leave(a.Stay)}) })
	case Finish:
		r.err = a.Err
	}
}

// loopOf finds the fetcher of a topic.
func (r *Runner) loopOf(topic string) *fetchLoop {
	if len(r.loops) == 1 || r.internal[topic] {
		return r.loops[0]
	}
	return r.loops[1]
}

// each orders something for partitions, by fetcher.
func (r *Runner) each(tps []broker.TopicPartition, do func(broker.Fetcher, ...broker.TopicPartition)) {
	for _, l := range r.loops {
		var mine []broker.TopicPartition
		for _, tp := range tps {
			if r.loopOf(tp.Topic) == l {
				mine = append(mine, tp)
			}
		}
		if len(mine) > 0 {
			l.order(func(f broker.Fetcher) { do(f, mine...) })
		}
	}
}

// restore steps a job on a goroutine of its own.
func (r *Runner) restore(ctx context.Context, a Restore) {
	err := a.Job.Run(ctx)
	res := a.Job.Result()
	if err != nil {
		if e := a.Job.Close(); e != nil {
			r.log.Warn("closing the stores of a restore that has failed", "task", a.life.name, "error", e)
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		res = restore.Result{}
	}
	r.inbox.post(Restored{life: a.life, Result: res, Err: err})
}

func (r *Runner) commit(a Commit) {
	ctx, cancel := context.WithTimeout(r.ctx, r.cfg.RequestTimeout)
	defer cancel()
	err := r.cfg.Clients.Admin.CommitOffsets(ctx, r.cfg.AppID, a.Identity, a.Offsets)
	r.inbox.post(CommitAnswered{Round: a.Round, Sent: true, Err: err})
}

func (r *Runner) followMembership() {
	for e := range r.member.Events() {
		r.inbox.post(MemberEvent{e})
	}
}

func (r *Runner) leave(stay bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.RequestTimeout)
	defer cancel()
	return r.member.Leave(ctx, stay)
}

// refresh looks at the cluster's topics again from time to time, for patterns that match new ones and for partitions that
// were added.
func (r *Runner) refresh() {
	plan := r.firstPlan
	for clock.Wait(r.ctx, r.cfg.Clock, r.cfg.RefreshInterval) == nil {
		ctx, cancel := context.WithTimeout(r.ctx, r.cfg.RequestTimeout)
		now, err := r.planner.look(ctx)
		if err == nil && !samePlan(plan, now) {
			if err = r.planner.make(ctx, now); err == nil {
				plan = now
				r.current.Store(&now)
				r.inbox.post(TopologyChanged{Plan: now})
			}
		}
		cancel()
		if err == nil || r.ctx.Err() != nil {
			continue
		}
		if passing(err) || errors.As(err, new(*topology.MissingTopicsError)) {
			r.log.Error("the topics in the cluster cannot be looked at, it is tried again", "error", err)
			continue
		}
		r.inbox.post(Failed{Err: err})
	}
}

// taskConfig is the base of each task's configuration.
func (r *Runner) taskConfig(plan Plan) task.Config {
	stores := int64(0)
	for _, t := range plan.Tasks {
		if s := r.cfg.Topology.Subtopology(t.Subtopology); s != nil {
			stores += int64(len(s.Stores))
		}
	}
	stores = max(stores, 1)
	return task.Config{
		Ctx: r.ctx, NowMs: r.cfg.Clock.NowMs, SteadyMs: r.steady, Metrics: r.cfg.Metrics, Handlers: r.cfg.Handlers,
		Partitions:     r.book.partitions,
		TopicName:      func(name string) string { return topology.DecoratedTopic(r.cfg.AppID, name) },
		MaxRecordBytes: r.book.maxRecord,
		GlobalStores:   r.globals.stores,
		CacheBytes:     r.cfg.CacheBytes / stores, ReadCacheBytes: r.cfg.ReadCacheBytes / stores,
		MaxIdleMs: r.cfg.MaxIdleMs, PrivateBytes: r.cfg.PrivateBytes, EmitLimit: r.cfg.EmitLimit,
	}
}
