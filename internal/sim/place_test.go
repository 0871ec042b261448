package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/runtime"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/topology"
)

const transactionTimeoutMs = 3_000

// place is where an instance of the application runs: its machine, with a disk that outlives it.
type place struct {
	w     *world
	index int
	disk  disk
	lives int

	up       bool  // the process exists
	started  bool  // and is through with its start
	restart  int64 // not before
	outMs    int64 // the member is out of the group, and hears of it then; 0 if not
	heldMs   int64 // what it writes is held up until then; 0 if not
	rejoins  int   // requests for a new assignment that were heard
	stepper  *runtime.Stepper
	txnID    string                 // "" under at-least-once
	usurped  usurped                // by others, in this life
	former   *brokertest.Membership // of the life before, which this one may take the place of; nil once it is settled
	ending   error                  // of the last life that ended by itself
	metrics  *metrics.Registry
	member   *brokertest.Membership // of the last life; nil once the group has forgotten it
	producer *brokertest.Producer
}

// disk is a file system in memory that loses in a crash what was not synced.
type disk struct {
	fs   *vfs.MemFS
	db   *state.DB
	full bool
	bad  *bad
	// wasFull says that it was full at some time.
	wasFull bool
}

func newPlace(w *world, index int) *place {
	return &place{w: w, index: index, disk: disk{fs: vfs.NewCrashableMem(), bad: &bad{}}}
}

func (p *place) say(line string) {
	p.w.trace = append(p.w.trace, fmt.Sprintf("%d [%d.%d] %s", p.w.clock.NowMs()-startMs, p.index, p.lives, line))
}

// boot starts a process.
func (p *place) boot() {
	w := p.w
	p.lives++
	p.former = p.member
	p.up, p.started, p.member, p.producer, p.outMs, p.rejoins, p.heldMs = true, false, nil, nil, 0, 0, 0
	p.metrics, p.txnID, p.usurped = metrics.New(), "", usurped{}
	c := w.cluster
	clients := runtime.Clients{
		Admin: w.broken.admin(c), Reader: w.broken.reader(c), Committed: p.fetcher(brokertest.ReadCommitted), Protocol: "millrace",
		Membership: func(runtime.Member) (broker.Membership, error) {
			p.member = w.join(p)
			return p.member, nil
		},
	}
	if w.exactly {
		clients.Transactions = func(id string) (broker.Transactions, error) {
			tx := c.Transactions(id)
			p.producer, p.txnID = tx.Producer, id
			return tx, nil
		}
	} else {
		clients.User = p.fetcher(brokertest.ReadUncommitted)
		p.producer = c.Producer()
		clients.Producer = p.producer
	}
	cfg := runtime.RunnerConfig{
		AppID: appID, Topology: w.topology, Resolve: topology.DefaultResolveConfig(), Clients: clients,
		Settings: runtime.Settings{
			CommitIntervalMs: 100, CommitTimeoutMs: 2_000, RebalanceTimeoutMs: 6_000, TaskTimeoutMs: 3_600_000, MaxPollIntervalMs: w.deadline,
			DrainTimeoutMs: 5_000, PurgeIntervalMs: 500, BackoffMs: 200, BackoffMaxMs: 1_000, Workers: 2, Restores: 2,
			HighRecords: 50, HighBytes: 1 << 20, ProducerBytes: 4 << 10,
			ExactlyOnce: w.exactly, ReadCommitted: w.exactly, TransactionTimeoutMs: transactionTimeoutMs,
			Broken: w.broken.engine,
		},
		NewID:     func() string { return fmt.Sprintf("memory-%d-%d", p.index, p.lives) },
		OpenState: p.openState, Metrics: p.metrics, Clock: w.clock, Logger: slog.New(&traceLog{p: p}),
		ReadCacheBytes: 1 << 16, PrivateBytes: 2 << 10, EmitLimit: w.emitLimit, SliceMs: 10, SliceRecords: 8, RestoreBytes: 1 << 10,
	}
	if w.handled {
		cfg.Uncaught = func(runtime.Uncaught) runtime.Verdict { return runtime.ReplaceTask }
	}
	if w.cached {
		cfg.CacheBytes = 1 << 20
	}
	p.stepper = runtime.NewStepper(cfg, p.say)
	p.say("boots")
}

func (p *place) fetcher(level brokertest.Isolation) *brokertest.Fetcher {
	f := p.w.cluster.Fetcher(level)
	f.SetLimit(5)
	return f
}

// openState opens the state directory on the disk.
func (p *place) openState(clusterID string, _ int) (*state.DB, error) {
	p.disk.bad.opening.Store(true)
	defer p.disk.bad.opening.Store(false)
	db, err := state.OpenDB(state.Options{
		FS: p.disk.bad.on(p.disk.fs), Dir: "state", ClusterID: clusterID, ApplicationID: appID, CacheBytes: 1 << 20, MemTableBytes: 256 << 10,
		MemTableFlushMs: 400, SealedBytes: 1 << 10, SealedMs: 300, RestoreChunkBytes: 1 << 10, MinFreeBytes: 1 << 20,
		FreeBytes: func(string) (int64, error) {
			if p.disk.full {
				return 0, nil
			}
			return 1 << 40, nil
		},
		Now: p.w.clock.NowMs, NewID: func() string { return fmt.Sprint("place-", p.index) }, Stepped: true, LoseUnwritten: p.w.broken.loseUnwritten,
	})
	if err == nil {
		p.disk.db = db
	}
	return db, err
}

// kill ends the process in whatever it was doing. The disk keeps what was synced.
func (p *place) kill() {
	if !p.up {
		return
	}
	p.say("is gone")
	p.die()
	p.disk.bad = &bad{struck: p.disk.bad.struck} // what is left of the process meets the old one
	if db := p.disk.db; db != nil {
		p.disk.fs, p.disk.db = p.disk.fs.CrashClone(vfs.CrashCloneCfg{}), nil
		p.w.dead = append(p.w.dead, func() { _ = db.Close() })
	}
}

func (p *place) die() {
	p.up = false
	if p.former != nil { // it has not come to take the place
		p.member, p.former = p.former, nil
	}
	p.restart = p.w.clock.NowMs() + p.w.rng.Int64N(1_500)
	if p.producer != nil {
		p.producer.Hold()
	}
}

// stop asks the instance to stop in order.
func (p *place) stop() { p.stepper.Step(runtime.Stop{}) }

// expire lets the group forget the member of a process that has died.
func (p *place) expire() {
	p.w.note("group: the member of place %d has died", p.index)
	p.w.coord.Forget(p.member)
	p.w.group.Expire(p.member)
	p.member = nil
}

// tick tells the instance that time has passed.
func (p *place) tick() {
	p.disk.bad.tick(p.w.clock.NowMs())
	if p.outMs > 0 && p.w.clock.NowMs() >= p.outMs && p.up && p.member != nil {
		p.outMs = 0
		p.member.Lose(true)
	}
	if p.up && p.heldMs > 0 && p.w.clock.NowMs() >= p.heldMs {
		p.heldMs = 0
		p.producer.Release()
	}
	if p.up && p.started {
		if at, ok := p.stepper.NextWakeMs(); ok && at <= p.w.clock.NowMs() {
			p.stepper.Step(runtime.Tick{})
		}
		p.ended()
	}
}

// chores are what can be done here now, each one of them once.
func (p *place) chores() []func() bool {
	switch {
	case !p.up && p.member != nil && p.mayReturn():
		return []func() bool{func() bool { p.boot(); return true }}
	case !p.up && p.member != nil:
		if p.w.calm || p.w.rng.IntN(8) == 0 {
			return []func() bool{func() bool { p.expire(); return true }}
		}
		return nil
	case !p.up && p.disk.db != nil:
		return nil // it is still being closed
	case !p.up:
		if p.w.calm || p.w.clock.NowMs() >= p.restart {
			return []func() bool{func() bool { p.boot(); return true }}
		}
		return nil
	case !p.started:
		return []func() bool{p.start}
	}
	var all []func() bool
	for _, c := range p.stepper.Chores() {
		all = append(all, func() bool {
			did := p.carry(c)
			p.ended()
			return did
		})
	}
	if n := p.producer.Unacknowledged(); n > 0 {
		all = append(all,
			func() bool { return p.producer.Write(1+p.w.rng.IntN(4)) > 0 },
			func() bool { return p.producer.Ack(1+p.w.rng.IntN(4)) > 0 })
	}
	return all
}

func (p *place) carry(c runtime.Chore) bool {
	if c.Kind != runtime.ChoreTell && c.Kind != runtime.ChoreEvent && c.Kind != runtime.ChoreMember && c.Kind != runtime.ChoreFetch {
		p.say("does " + c.String())
	}
	did := p.stepper.Carry(c)
	if (c.Kind == runtime.ChoreTransaction || c.Kind == runtime.ChoreCommit) && !p.w.calm && p.w.rng.IntN(1000) < p.w.trouble {
		p.w.fault("place %d is killed right after: %v", p.index, c)
		p.kill()
	}
	return did
}

// mayReturn tells whether a static member comes back before its session is over.
func (p *place) mayReturn() bool {
	return p.w.static && p.disk.db == nil && (p.w.calm || p.w.clock.NowMs() >= p.restart) && p.w.rng.IntN(2) == 0
}

// join makes the instance a member. A static one that was in the group until it died takes the place of its former life, with its
// tasks and without a rebalance, unless one is under way: then that life is forgotten.
func (w *world) join(p *place) *brokertest.Membership {
	former := p.former
	p.former = nil
	if former != nil && !w.coord.Busy() {
		m := w.group.Replace(former)
		w.coord.Replace(former, m)
		w.note("group: the member of place %d is replaced", p.index)
		return m
	}
	if former != nil {
		w.coord.Forget(former)
		w.group.Expire(former)
	}
	if w.static {
		return w.group.Join(brokertest.Static(fmt.Sprint("place-", p.index)))
	}
	return w.group.Join()
}

// start does the next thing of the start. What fails for now is tried again.
func (p *place) start() bool {
	done, err := p.stepper.Start(context.Background())
	switch {
	case err == nil:
		p.started = done
		return true
	case passing(err):
		p.say(fmt.Sprintf("start: %v", err))
		return !p.w.calm
	}
	p.say(fmt.Sprintf("cannot start: %v", err))
	if !p.mayStop(err) {
		p.w.fail(fmt.Errorf("instance %d cannot start: %w", p.index, err))
	}
	p.kill()
	return true
}

// passing tells errors of a start after which the clients would ask again.
func passing(err error) bool {
	switch broker.CourseOf(err) {
	case broker.CourseRetry, broker.CourseUnknown:
		return true
	}
	return errors.Is(err, broker.ErrUnreachable)
}

// ended looks whether the instance has stopped by itself.
func (p *place) ended() {
	if !p.up || !p.started {
		return
	}
	done, err := p.stepper.Finished()
	if !done {
		return
	}
	p.say(fmt.Sprintf("has stopped: %v", err))
	p.ending = err
	if !p.mayStop(err) {
		p.w.fail(fmt.Errorf("instance %d has stopped: %w", p.index, err))
	}
	p.die()
	if left, stays := p.member.Left(); left && !stays {
		p.w.coord.Forget(p.member)
		p.member = nil
	}
	if db := p.disk.db; db != nil {
		p.w.dead = append(p.w.dead, func() {
			if err := db.Close(); err != nil {
				p.say(fmt.Sprintf("closing the state directory: %v", err))
			}
			p.disk.db = nil
			p.disk.bad.over()
		})
	}
}

// mayStop tells errors with which an instance may stop, given what was done to it.
func (p *place) mayStop(err error) bool {
	return err == nil || p.disk.wasFull && errors.Is(err, state.ErrDiskFull) || p.disk.failed(err) || p.usurped.fatal(err)
}

// traceLog writes what the engine logs into the trace.
type traceLog struct {
	p    *place
	with []slog.Attr
}

func (l *traceLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l *traceLog) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	l.p.say(b.String())
	return nil
}

func (l *traceLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &traceLog{p: l.p, with: append(l.with, attrs...)}
}

func (l *traceLog) WithGroup(string) slog.Handler { return l }

// hearGroup tells the instance everything that the group has to say.
func (p *place) hearGroup() {
	for _, c := range p.stepper.Chores() {
		if c.Kind == runtime.ChoreMember {
			p.carry(c)
			p.hearGroup()
			return
		}
	}
}

// leaves tells whether the instance has left its group.
func (p *place) leaves() bool {
	left, _ := p.member.Left()
	return left
}

// waitsForGroup tells whether the instance waits for an assignment: it has just joined, or has asked for another one.
func (p *place) waitsForGroup() bool {
	if !p.up || p.member == nil {
		return false
	}
	_, assigned := p.member.Identity()
	return !assigned || p.member.Rejoins() > p.rejoins
}
