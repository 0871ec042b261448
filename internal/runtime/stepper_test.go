package runtime

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/clock"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/task"
	"github.com/millrace-io/millrace/internal/topology"
)

// stepper plays the carrier on one goroutine: actions are carried out when the test says so, in any order.
type stepper struct {
	*Stepper
	t       *testing.T
	cluster *brokertest.Cluster
	group   *brokertest.Group
	member  *brokertest.Membership
	prod    *brokertest.Producer
	tx      *brokertest.Transactions // under exactly-once; prod is its producer then
	fetch   *brokertest.Fetcher
	clock   *clock.Fake
	planner *planner
	plan    Plan

	lines []string // of the trace

	followedMs map[*follower]int64 // when a copy was last looked at

	drop    func(task string) error // of stored
	dropErr error
	dropped []string

	db   *state.DB // of onDisk
	auto bool      // carry out works, restores and commits at once
	keep bool      // questions to the policy for uncaught errors wait
}

type stepOption func(*Config, *stepper)

func newStepper(t *testing.T, c *brokertest.Cluster, topo *topology.Topology, opts ...stepOption) *stepper {
	t.Helper()
	return newStepperAt(t, c, topo, clock.NewFake(time.UnixMilli(1_000_000)), opts...)
}

// transactional makes a stepper work exactly once, under a transactional id. What is open under it is ended first.
func transactional(id string) stepOption {
	return func(cfg *Config, s *stepper) {
		s.tx = s.cluster.Transactions(id)
		s.prod, s.fetch = s.tx.Producer, s.cluster.Fetcher(brokertest.ReadCommitted)
		cfg.Producer, cfg.Settings.ExactlyOnce, cfg.Settings.ReadCommitted, cfg.Settings.TransactionTimeoutMs = s.tx, true, true, 10_000
		err := s.tx.Prove(context.Background())
		for range 10 { // faults may have been injected before
			if err != nil {
				err = s.tx.Prove(context.Background())
			}
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

func newStepperAt(t *testing.T, c *brokertest.Cluster, topo *topology.Topology, at *clock.Fake, opts ...stepOption) *stepper {
	t.Helper()
	s := &stepper{
		t: t, cluster: c, group: c.Group("app"), prod: c.Producer(), fetch: c.Fetcher(brokertest.ReadUncommitted), clock: at, auto: true, Stepper: &Stepper{clock: at},
		followedMs: make(map[*follower]int64),
	}
	s.Stepper.trace = func(line string) { s.lines = append(s.lines, line) }
	s.member = s.group.Join()
	ctx := context.Background()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	s.planner = &planner{appID: "app", topology: topo, resolve: topology.DefaultResolveConfig(), admin: c.Admin(), log: log}
	var err error
	if s.plan, err = s.planner.look(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.planner.make(ctx, s.plan); err != nil {
		t.Fatal(err)
	}
	book := newTopicBook(ctx, c.Admin(), time.Second, 0, true)
	cfg := Config{
		AppID: "app", Topology: topo, Plan: s.plan, Producer: s.prod, Identity: s.member.Identity, Logger: log,
		Settings: Settings{
			CommitIntervalMs: 100, CommitTimeoutMs: 5000, RebalanceTimeoutMs: 6000, TaskTimeoutMs: 60_000, MaxPollIntervalMs: 300_000,
			DrainTimeoutMs: 10_000, PurgeIntervalMs: 30_000, BackoffMs: 500, BackoffMaxMs: 4000, Workers: 2, Restores: 2,
			HighRecords: 1000, HighBytes: 1 << 20, ProducerBytes: 1 << 20, ChangelogsFollow: true,
		},
		Restore: restore.Config{Admin: c.Admin(), Reader: c.Reader(), NowMs: s.clock.NowMs, Logger: log},
		OpenSet: func(_ string, specs []state.Spec, _ state.ChangelogIdentity) (*state.Set, error) {
			return state.NewMemorySet(specs)
		},
		Task: task.Config{
			Ctx: ctx, NowMs: s.clock.NowMs, Metrics: metrics.New(), Handlers: op.Handlers{}, Partitions: book.partitions,
			TopicName:      func(n string) string { return topology.DecoratedTopic("app", n) },
			MaxRecordBytes: book.maxRecord, CacheBytes: 0, ReadCacheBytes: 1 << 20,
		},
		Wake: s.post, Release: func(b *outbox) { s.releases = append(s.releases, b) }, Stats: NewStats(), ForgetTopics: book.forget,
		Answers: func(tp broker.TopicPartition) uint64 { return s.fetch.Answers(tp) },
	}
	for _, o := range opts {
		o(&cfg, s)
	}
	sh := &shared{
		clock: s.clock, producer: cfg.Producer, maxRecord: book.maxRecord, retention: book.retention, log: cfg.Logger, sliceMs: 10, sliceRecords: 100,
	}
	sh.privateBytes.Store(1 << 20)
	s.machine = NewMachine(cfg, sh)
	s.hands = hands{
		fetchers: []broker.Fetcher{s.fetch}, fetcherOf: func(string) broker.Fetcher { return s.fetch }, member: s.member,
		admin: c.Admin(), group: "app", maintain: func() error { return nil },
		drop: func(task string) error { return s.drop(task) },
	}
	if s.tx != nil {
		s.hands.tx = s.tx
	}
	s.step(Started{})
	return s
}

// step takes one event and what follows from it. The machine must not want to be woken at a time that has come and stays: a
// runner would spin.
func (s *stepper) step(e Event) {
	s.t.Helper()
	s.Step(e)
	if s.finished && s.err != nil {
		wantOnePrefix(s.t, s.err)
	}
	if at, ok := s.NextWakeMs(); !ok || at > s.clock.NowMs() || len(s.events) > 0 {
		return
	}
	s.Step(Tick{})
	if at, ok := s.NextWakeMs(); ok && at <= s.clock.NowMs() && len(s.events) == 0 {
		s.t.Fatalf("it is %d, and the machine wants to be woken at %d, again and again; the last of the trace:\n%s", s.clock.NowMs(), at,
			strings.Join(s.lines[max(0, len(s.lines)-60):], "\n"))
	}
}

// wantOnePrefix checks that an error that leaves the engine says once whose it is, on each line.
func wantOnePrefix(t *testing.T, err error) {
	t.Helper()
	for line := range strings.Lines(err.Error()) {
		if strings.Count(line, "millrace: ") > 1 {
			t.Errorf("doubled prefix: %s", line)
		}
	}
}

// settle carries out everything that waits until nothing does. Time stands still.
func (s *stepper) settle() {
	s.t.Helper()
	for range 10_000 {
		if !s.once() {
			return
		}
	}
	s.t.Fatalf("it does not come to rest; the last of the trace:\n%s", strings.Join(s.lines[max(0, len(s.lines)-60):], "\n"))
}

// once carries out one thing; false if there is none.
func (s *stepper) once() bool {
	s.t.Helper()
	switch {
	case len(s.events) > 0:
		e := s.events[0]
		s.events = s.events[1:]
		s.step(e)
	case len(s.member.Events()) > 0:
		if e, ok := <-s.member.Events(); ok {
			s.step(MemberEvent{e})
		}
	case s.auto && len(s.restores) > 0 && s.restore(0):
	case s.auto && len(s.works) > 0:
		s.work(0)
	case s.auto && len(s.commits) > 0:
		s.commit(0)
	case s.auto && len(s.orders) > 0:
		s.order()
	case s.auto && len(s.releases) > 0:
		s.release(0)
	case s.auto && !s.keep && len(s.asks) > 0:
		s.step(s.judge(0))
	case s.auto && s.leave != nil:
		s.step(s.leaveGroup())
	case s.auto && s.prod.Deliver() > 0:
	case s.auto && s.followNext():
	default:
		if s.finished {
			return false
		}
		b := s.fetch.Poll(context.Background())
		if len(b) == 0 {
			return false
		}
		s.step(Fetched{Batches: b})
	}
	return true
}

// followNext does something for a copy that is not level, or was not looked at since the time moved; false if there is none.
func (s *stepper) followNext() bool {
	s.t.Helper()
	for i, x := range s.follows {
		if x.open && x.looked && x.job.Behind() == 0 && s.followedMs[x] == s.clock.NowMs() {
			continue
		}
		if x.open && x.job.Behind() == 0 {
			s.followedMs[x] = s.clock.NowMs()
		}
		if e := s.follow(i); e != nil {
			s.step(e)
		}
		return true
	}
	return false
}

// restore runs a restore to its end, or until it waits for a transaction of others; then it is false.
func (s *stepper) restore(i int) bool {
	s.t.Helper()
	for range 200 {
		if e := s.Stepper.restore(i); e != nil {
			s.step(e)
			return true
		}
	}
	if s.tx == nil {
		s.t.Fatal("a restore does not end")
	}
	return false
}

func (s *stepper) work(i int) {
	s.t.Helper()
	s.step(s.Stepper.work(i))
}

func (s *stepper) commit(i int) {
	s.t.Helper()
	s.step(s.Stepper.commit(i))
}

// order carries out the next order of transactions.
func (s *stepper) order() {
	s.t.Helper()
	s.Stepper.order(s.post)
}

// advance moves the clock and settles.
func (s *stepper) advance(d time.Duration) {
	s.t.Helper()
	if err := s.clock.Advance(d); err != nil {
		s.t.Fatal(err)
	}
	s.step(Tick{})
	s.settle()
}
