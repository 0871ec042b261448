package runtime

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
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
	t       *testing.T
	cluster *brokertest.Cluster
	group   *brokertest.Group
	member  *brokertest.Membership
	prod    *brokertest.Producer
	tx      *brokertest.Transactions // under exactly-once; prod is its producer then
	orders  []Action                 // of transactions, to be carried out one after the other
	fetch   *brokertest.Fetcher
	clock   *clock.Fake
	machine *Machine
	planner *planner
	plan    Plan

	events   []Event // of callbacks: acknowledgements
	trace    []string
	works    []*Work
	restores []Restore
	commits  []Commit
	purges   []Purge
	leave    *Leave
	finished bool
	err      error
	states   []State

	auto bool // carry out works, restores and commits at once
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
		t: t, cluster: c, group: c.Group("app"), prod: c.Producer(), fetch: c.Fetcher(brokertest.ReadUncommitted), clock: at, auto: true,
	}
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
			HighRecords: 1000, HighBytes: 1 << 20, ProducerBytes: 1 << 20,
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
		Wake: func(e Event) { s.events = append(s.events, e) }, Stats: NewStats(), ForgetTopics: book.forget,
		Answers: func(tp broker.TopicPartition) uint64 { return s.fetch.Answers(tp) },
	}
	for _, o := range opts {
		o(&cfg, s)
	}
	s.machine = NewMachine(cfg, &shared{
		clock: s.clock, producer: cfg.Producer, maxRecord: book.maxRecord, retention: book.retention, log: log, sliceMs: 10, sliceRecords: 100, privateBytes: 1 << 20,
	})
	s.step(Started{})
	return s
}

// step takes one event and what follows from it.
func (s *stepper) step(e Event) {
	s.t.Helper()
	s.trace = append(s.trace, "> "+eventText(e))
	s.machine.Step(s.clock.NowMs(), e)
	for _, a := range s.machine.Actions() {
		s.trace = append(s.trace, "  "+actionText(a))
		s.execute(a)
	}
}

func (s *stepper) execute(a Action) {
	switch a := a.(type) {
	case Assign:
		s.fetch.Assign(a.TopicPartition, a.Offset, a.Epoch)
	case Unassign:
		s.fetch.Unassign(a.Partitions...)
	case Pause:
		s.fetch.Pause(a.Partitions...)
	case Resume:
		s.fetch.Resume(a.Partitions...)
	case Restore:
		s.restores = append(s.restores, a)
	case CancelRestore:
		for i, r := range s.restores {
			if r.life == a.life {
				s.restores = slices.Delete(s.restores, i, i+1)
				if err := r.Job.Close(); err != nil {
					s.t.Fatal(err)
				}
				s.events = append(s.events, Restored{life: r.life, Err: context.Canceled})
				break
			}
		}
	case Run:
		s.works = append(s.works, a.Work)
	case Commit:
		s.commits = append(s.commits, a)
	case Send, CommitInTransaction, EndTransaction, Prove:
		s.orders = append(s.orders, a)
	case Purge:
		s.purges = append(s.purges, a)
	case Subscribe:
		s.member.Subscribe(a.Topology)
	case Rejoin:
		s.member.Rejoin()
	case Refuse:
		s.member.Refuse(a.Tasks...)
	case Call:
		a.Func()
	case Report:
		s.states = append(s.states, a.State)
	case Leave:
		s.leave = &a
	case Finish:
		s.finished, s.err = true, a.Err
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
	s.t.Fatalf("it does not come to rest; the last of the trace:\n%s", strings.Join(s.trace[max(0, len(s.trace)-60):], "\n"))
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
	case s.auto && s.leave != nil:
		stay := s.leave.Stay
		s.leave = nil
		s.step(Left{Err: s.member.Leave(context.Background(), stay)})
	case s.auto && s.prod.Deliver() > 0:
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

// restore runs a restore to its end, or until it waits for a transaction of others; then it is false.
func (s *stepper) restore(i int) bool {
	s.t.Helper()
	r := s.restores[i]
	for range 200 {
		done, err := r.Job.Step(context.Background())
		if err == nil && !done {
			continue
		}
		s.restores = slices.Delete(s.restores, i, i+1)
		if err != nil {
			_ = r.Job.Close()
			s.step(Restored{life: r.life, Err: err})
		} else {
			s.step(Restored{life: r.life, Result: r.Job.Result()})
		}
		return true
	}
	if s.tx == nil {
		s.t.Fatal("a restore does not end")
	}
	return false
}

func (s *stepper) work(i int) {
	s.t.Helper()
	w := s.works[i]
	s.works = slices.Delete(s.works, i, i+1)
	s.step(Worked{Done: w.Do()})
}

func (s *stepper) commit(i int) {
	s.t.Helper()
	c := s.commits[i]
	s.commits = slices.Delete(s.commits, i, i+1)
	err := s.cluster.Admin().CommitOffsets(context.Background(), "app", c.Identity, c.Offsets)
	s.step(CommitAnswered{Round: c.Round, Sent: true, Err: err})
}

// order carries out the next order of transactions.
func (s *stepper) order() {
	s.t.Helper()
	a := s.orders[0]
	s.orders = s.orders[1:]
	carrier := newTransactor(s.tx, "app", time.Minute, func(e Event) { s.events = append(s.events, e) })
	carrier.carry(context.Background(), a)
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

func eventText(e Event) string {
	switch e := e.(type) {
	case MemberEvent:
		return fmt.Sprintf("member %d %v gen %d", e.Kind, e.Tasks, e.Identity.Generation)
	case Fetched:
		var b strings.Builder
		for _, x := range e.Batches {
			fmt.Fprintf(&b, " %s-%d:%d@%d err %v", x.Topic, x.Partition, len(x.Records), x.Position, x.Err)
		}
		return "fetched" + b.String()
	case Looked:
		return "looked " + e.life.name
	case Worked:
		return fmt.Sprintf("worked %s processed %d err %v", e.Done.work.life.name, e.Done.Processed, e.Done.Err)
	case Restored:
		return fmt.Sprintf("restored %s err %v", e.life.name, e.Err)
	case CommitAnswered:
		return fmt.Sprintf("commit %d sent %t err %v", e.Round, e.Sent, e.Err)
	case TransactionEnded:
		return fmt.Sprintf("transaction %d ended err %v", e.Round, e.Err)
	case Proved:
		return fmt.Sprintf("proved err %v", e.Err)
	}
	return fmt.Sprintf("%T", e)
}

func actionText(a Action) string {
	switch a := a.(type) {
	case Assign:
		return fmt.Sprintf("assign %s-%d@%d epoch %d", a.Topic, a.Partition, a.Offset, a.Epoch)
	case Unassign:
		return fmt.Sprintf("unassign %v", a.Partitions)
	case Pause:
		return fmt.Sprintf("pause %v", a.Partitions)
	case Resume:
		return fmt.Sprintf("resume %v", a.Partitions)
	case Restore:
		return "restore " + a.life.name
	case CancelRestore:
		return "cancel restore " + a.life.name
	case Run:
		w := a.Work
		return fmt.Sprintf("run %s open %t seal %d failed %d unit %t batches %d process %t finish %d",
			w.life.name, w.open != nil, len(w.seal), len(w.failed), w.handOver, len(w.batches), w.process, w.finish)
	case Commit:
		var tps []broker.TopicPartition
		for tp := range a.Offsets {
			tps = append(tps, tp)
		}
		broker.SortPartitions(tps)
		var b strings.Builder
		for _, tp := range tps {
			fmt.Fprintf(&b, " %s-%d=%d", tp.Topic, tp.Partition, a.Offsets[tp].Offset)
		}
		return fmt.Sprintf("commit %d generation %d%s", a.Round, a.Identity.Generation, b.String())
	case Send:
		return fmt.Sprintf("send %d begin %t records %d", a.Round, a.Begin, len(a.Records))
	case CommitInTransaction:
		return fmt.Sprintf("commit %d in transaction, generation %d, partitions %d", a.Round, a.Identity.Generation, len(a.Offsets))
	case EndTransaction:
		return fmt.Sprintf("end %d commit %t", a.Round, a.Commit)
	case Refuse:
		return fmt.Sprint("refuse ", a.Tasks)
	case Report:
		return "report " + a.State.String()
	}
	return fmt.Sprintf("%T", a)
}
