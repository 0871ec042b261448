package runtime

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// exactly runs two tasks exactly once, with nothing to do.
func exactly(t *testing.T, topo *topology.Topology, opts ...stepOption) *stepper {
	t.Helper()
	s := newStepper(t, cluster(), topo, append([]stepOption{transactional("app-x")}, opts...)...)
	s.settle()
	s.assign(t0, t1)
	s.settle()
	s.wantState(StateRunning)
	return s
}

// calls lists the requests of commits and transactions so far.
func (s *stepper) calls() string {
	var names []string
	for _, c := range s.cluster.Calls(brokertest.OpProve, brokertest.OpTxnOffsets, brokertest.OpEndTxn, brokertest.OpCommitOffsets) {
		names = append(names, string(c.Op))
	}
	return strings.Join(names, ", ")
}

// Offsets, results and state of all tasks that have something go into one transaction; until its end nobody sees any of it.
func TestTransaction_unitsOfAllTasksGoInOne(t *testing.T) {
	s := exactly(t, countTopology(t))
	s.cluster.Append(tp("in", 0), kv("a", "1"), kv("b", "2"))
	s.cluster.Append(tp("in", 1), kv("c", "3"))
	s.settle()
	if q := len(s.prod.Queued()); q != 0 || len(s.cluster.AllRecords(tp("out", 0))) != 0 {
		t.Errorf("%d records have left before a commit was due", q)
	}
	s.advance(100 * time.Millisecond)
	s.wantCommitted(2, 1)
	wantOutputs(t, s.cluster, "a=1", "b=2", "c=3")
	if got, want := s.calls(), "prove, txn offsets, end txn"; got != want {
		t.Errorf("requests: %s; want %s", got, want)
	}
}

// A commit without a result is a transaction like any other.
func TestTransaction_withoutOutput(t *testing.T) {
	s := exactly(t, dropTopology(t))
	s.cluster.Append(tp("in", 0), kv("a", "no"))
	s.settle()
	s.advance(100 * time.Millisecond)
	s.wantCommitted(1)
	s.cluster.Append(tp("in", 0), kv("b", "no"))
	s.cluster.Append(tp("in", 1), kv("c", "yes"))
	s.settle()
	s.advance(100 * time.Millisecond)
	s.wantCommitted(2, 1)
	if got, want := s.calls(), "prove, txn offsets, end txn, txn offsets, end txn"; got != want {
		t.Errorf("requests: %s; want %s", got, want)
	}
}

// Offsets of a commit without a result that get no answer and arrive late, behind those of a later transaction, do not set the
// committed offsets back: a restart would do again what has its results.
func TestTransaction_lateOffsetsWithoutOutput(t *testing.T) {
	for _, when := range []string{"before the next commit", "behind the next commit", "while the next one is open"} {
		t.Run(when, func(t *testing.T) {
			s := exactly(t, dropTopology(t))
			late := s.cluster.Inject(brokertest.Fault{Op: brokertest.OpTxnOffsets, Err: broker.ErrNoAnswer, Late: true})
			s.cluster.Append(tp("in", 0), kv("a", "no"))
			s.settle()
			s.advance(100 * time.Millisecond)
			if late.Hits() != 1 || s.cluster.Late() != 1 {
				t.Fatalf("%d hits, %d late", late.Hits(), s.cluster.Late())
			}
			arrive := func(at string) {
				if at == when {
					s.cluster.ApplyLate(0)
				}
			}
			for range 20 {
				s.advance(100 * time.Millisecond)
			}
			s.wantCommitted(1)
			arrive("before the next commit")
			s.cluster.Append(tp("in", 0), kv("b", "yes"))
			s.settle()
			s.auto = when != "while the next one is open"
			s.advance(100 * time.Millisecond)
			for !s.auto {
				for len(s.works) > 0 {
					s.work(0)
				}
				s.prod.Deliver()
				s.settle()
				if end, ok := s.orders[0].(EndTransaction); ok && end.Commit {
					arrive(when)
					s.auto = true
				}
				s.order()
			}
			s.settle()
			s.advance(100 * time.Millisecond)
			s.wantCommitted(2)
			arrive("behind the next commit")
			if s.cluster.Late() != 0 {
				t.Fatal("it has not arrived")
			}
			s.assign()
			s.settle()
			s.assign(t0, t1)
			s.settle()
			for range 20 {
				s.advance(100 * time.Millisecond)
			}
			s.wantCommitted(2)
			wantOutputs(t, s.cluster, "b=yes")
		})
	}
}

// Nothing of the next transaction leaves before the end of this one is known, and tasks go on meanwhile.
func TestTransaction_theNextWaitsForTheEnd(t *testing.T) {
	s := exactly(t, copyTopology(t))
	s.auto = false
	run := func() {
		t.Helper()
		for range 20 {
			s.settle()
			for len(s.works) > 0 {
				s.work(0)
			}
			s.prod.Deliver()
		}
	}
	s.cluster.Append(tp("in", 0), kv("a", "1"))
	run()
	s.advance(100 * time.Millisecond)
	run()
	for len(s.orders) > 0 {
		if end, ok := s.orders[0].(EndTransaction); ok {
			if !end.Commit {
				t.Fatal("it is aborted")
			}
			break
		}
		s.order()
		run()
	}
	s.cluster.Append(tp("in", 0), kv("b", "2"))
	run()
	s.advance(100 * time.Millisecond)
	run()
	if n := len(s.orders); n != 1 || s.prod.Unacknowledged() != 0 {
		t.Fatalf("%d orders wait, %d records are on their way", n, s.prod.Unacknowledged())
	}
	s.wantCommitted(-1)
	s.auto = true
	s.settle()
	s.advance(100 * time.Millisecond)
	s.wantCommitted(2)
	wantOutputs(t, s.cluster, "a=1", "b=2")
}

// A task inside a slow record is not in the commit, and does not hold it up.
func TestTransaction_aSlowRecordHoldsUpItsOwnTaskOnly(t *testing.T) {
	s := exactly(t, copyTopology(t))
	s.auto = false
	s.cluster.Append(tp("in", 0), kv("slow", "1"))
	s.settle()
	if len(s.works) != 1 {
		t.Fatalf("%d works", len(s.works))
	}
	slow := s.works[0]
	s.works = nil
	for n := range 5 {
		s.cluster.Append(tp("in", 1), kv("quick", fmt.Sprint(n)))
		for range 4 {
			s.advance(40 * time.Millisecond)
			for range 10 {
				for len(s.works) > 0 {
					s.work(0)
				}
				for len(s.orders) > 0 {
					s.order()
				}
				s.prod.Deliver()
				s.settle()
			}
		}
		s.wantCommitted(-1, int64(n+1))
	}
	s.works = append(s.works, slow)
	s.auto = true
	s.settle()
	s.advance(100 * time.Millisecond)
	s.wantCommitted(1, 5)
}

// A record that the broker refuses aborts the transaction. The production handler is asked about it alone, when it comes again.
func TestTransaction_refusedRecord(t *testing.T) {
	for name, c := range map[string]struct {
		code    broker.Code
		refuses int
	}{
		"for its content":      {broker.CodeInvalidRecord, 1},
		"for its batch's size": {broker.CodeMessageTooLarge, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			s := exactly(t, copyTopology(t), onProduction(&asked, func(processor.Failure) processor.Response {
				return processor.Response{Action: processor.Continue}
			}))
			f := brokertest.ProduceFault{Topic: "out", Err: c.code, Times: c.refuses,
				When: func(r broker.ProduceRecord) bool { return string(r.Key) == "b" }}
			s.prod.Fail(f)
			s.cluster.Append(tp("in", 0), kv("a", "1"), kv("b", "2"), kv("c", "3"))
			s.settle()
			for range 60 {
				s.advance(100 * time.Millisecond)
			}
			if d := cmp.Diff([]string{"b@1 attempt 1"}, asked); d != "" {
				t.Errorf("the handler was asked (-want +got):\n%s", d)
			}
			s.wantCommitted(3)
			wantOutputs(t, s.cluster, "a=1", "c=3")
			s.wantState(StateRunning)
		})
	}
}

// Whether a commit whose answer was lost took effect is asked of the cluster, after the transactional id has been proved.
func TestTransaction_unknownEnd(t *testing.T) {
	for _, applied := range []bool{false, true} {
		s := exactly(t, countTopology(t))
		s.cluster.Inject(brokertest.Fault{Op: brokertest.OpEndTxn, Err: broker.ErrNoAnswer, Applied: applied})
		s.cluster.Append(tp("in", 0), kv("a", "1"))
		s.settle()
		s.advance(100 * time.Millisecond)
		want := int64(-1)
		if applied {
			want = 1
		}
		s.wantCommitted(want)
		for range 20 {
			s.advance(100 * time.Millisecond)
		}
		s.wantCommitted(1)
		wantOutputs(t, s.cluster, "a=1")
		if got := s.calls(); !strings.HasPrefix(got, "prove, txn offsets, end txn, prove") {
			t.Errorf("requests: %s", got)
		}
	}
}

// Offsets that got no answer end their transaction, whose id is proved before anything else is asked for. A task that has no part in
// it runs on.
func TestTransaction_unknownOffsets(t *testing.T) {
	for _, applied := range []bool{false, true} {
		s := exactly(t, countTopology(t))
		s.cluster.Inject(brokertest.Fault{Op: brokertest.OpTxnOffsets, Err: broker.ErrNoAnswer, Applied: applied})
		s.cluster.Append(tp("in", 0), kv("a", "1"))
		s.settle()
		for range 20 {
			s.advance(100 * time.Millisecond)
			for _, other := range s.machine.slots {
				if other.id == t1 && other.phase != phaseRunning {
					t.Errorf("applied %t: the task without a part in it is %v", applied, other.phase)
				}
			}
		}
		s.wantCommitted(1)
		wantOutputs(t, s.cluster, "a=1")
		if got, want := s.calls(), "prove, txn offsets, prove, txn offsets, end txn"; got != want {
			t.Errorf("applied %t: requests: %s; want %s", applied, got, want)
		}
	}
}

// Two instances under one transactional id take it from each other. The second time it is no accident.
func TestTransaction_fencedTwice(t *testing.T) {
	s := exactly(t, copyTopology(t))
	for n := range 2 {
		s.takeID()
		if s.finished || s.member.Rejoins() != n+1 {
			t.Fatalf("finished %t (%v), asked the group %d times", s.finished, s.err, s.member.Rejoins())
		}
		s.assign(t0, t1) // it was a member all the time
		s.advance(time.Second)
	}
	if !s.finished || s.err == nil || !strings.Contains(s.err.Error(), "state directory") || !errors.Is(s.err, broker.CodeProducerFenced) && !errors.Is(s.err, broker.CodeInvalidProducerEpoch) {
		t.Errorf("finished %t, error %v", s.finished, s.err)
	}
}

// A machine that was asleep inside a transaction finds it ended by its timeout. Its own clock has stood still; the one on the wall
// tells that nobody else need have done it, however often that happens.
func TestTransaction_fencedWhileAsleep(t *testing.T) {
	var wall *jumping
	s := exactly(t, copyTopology(t), func(c *Config, s *stepper) {
		wall = &jumping{Fake: s.clock}
		c.Task.NowMs = wall.NowMs
	})
	for n := range 3 {
		s.auto = false
		s.cluster.Append(tp("in", 0), kv("a", "1"))
		s.settle()
		for range 5 {
			s.advance(50 * time.Millisecond)
			for len(s.works) > 0 {
				s.work(0)
			}
		}
		if len(s.orders) == 0 {
			t.Fatal("no transaction is begun")
		}
		for len(s.orders) > 0 && !s.cluster.OpenTxn("app-x") {
			s.order()
			s.prod.Deliver()
		}
		wall.byMs += 60_000
		s.cluster.ExpireTxn("app-x")
		s.auto = true
		for range 30 {
			s.advance(100 * time.Millisecond)
		}
		s.assign(t0, t1)
		s.advance(time.Second)
		s.wantCommitted(int64(n + 1))
	}
	if s.finished || s.machine.eos.foreignMs != 0 {
		t.Errorf("finished %t (%v), found foreign at %d", s.finished, s.err, s.machine.eos.foreignMs)
	}
}

// takeID lets somebody else take the transactional id, and the instance find that out.
func (s *stepper) takeID() {
	s.t.Helper()
	if err := s.cluster.Transactions("app-x").Prove(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.cluster.Append(tp("in", 0), kv("a", "1"))
	s.settle()
	for range 30 {
		s.advance(100 * time.Millisecond)
	}
}

// A member that the group has put out is fenced by the leader, which ends its transaction; it may learn of that before it learns
// that it is out. That is nobody else's directory, however often it happens; nor is a fencing now and then.
func TestTransaction_fencedByTheLeader(t *testing.T) {
	s := exactly(t, copyTopology(t))
	for range 3 {
		s.takeID()
		s.group.Expire(s.member)
		s.member.Lose(true)
		s.settle()
		s.assign(t0, t1)
		s.advance(time.Second)
	}
	for range 2 {
		s.takeID()
		s.assign(t0, t1)
		s.advance(11 * time.Minute)
	}
	if s.finished {
		t.Fatalf("it has stopped: %v", s.err)
	}
	s.advance(time.Second)
	s.wantCommitted(5)
	wantOutputs(t, s.cluster, "a=1", "a=1", "a=1", "a=1", "a=1")
}

// An assignment that was on its way when a fencing was found does not confirm that the instance was a member all the time.
func TestTransaction_fencedWithAnAssignmentOnItsWay(t *testing.T) {
	s := exactly(t, copyTopology(t))
	for range 3 {
		id, _ := s.member.Identity()
		s.takeID()
		s.step(MemberEvent{broker.MembershipEvent{Kind: broker.Assigned, Tasks: []broker.TaskID{t0, t1}, Identity: id, Done: func() {}}})
		if s.machine.eos.foreignMs != 0 {
			t.Fatal("it was taken for a confirmation")
		}
		s.group.Expire(s.member)
		s.member.Lose(true)
		s.settle()
		s.assign(t0, t1)
		s.advance(time.Second)
	}
	if s.finished {
		t.Errorf("it has stopped: %v", s.err)
	}
}

// The leader may have ended the transaction of a member while that was out of the group, and the member, which is in the group
// again under another id, finds out when it begins the next one. That is nobody else's directory either.
func TestTransaction_fencedWhileAway(t *testing.T) {
	for _, told := range []bool{false, true} {
		s := exactly(t, copyTopology(t))
		for n := range 3 {
			s.group.Expire(s.member)
			if !told { // a commit is refused
				s.cluster.Append(tp("in", 0), kv("a", "1"))
				s.settle()
				s.advance(time.Second)
			}
			s.member.Lose(true)
			s.settle()
			if err := s.cluster.Transactions("app-x").Prove(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.assign(t0, t1)
			s.cluster.Append(tp("in", 0), kv("a", "1"))
			s.settle()
			for range 30 {
				s.advance(100 * time.Millisecond)
			}
			s.assign(t0, t1)
			s.advance(time.Second)
			if s.finished {
				t.Fatalf("told %t: it has stopped at the loss of membership %d: %v", told, n+1, s.err)
			}
		}
	}
}

// A revocation commits what the task has handed over, and one that cannot be committed in time is not committed at all.
func TestTransaction_revoked(t *testing.T) {
	s := exactly(t, countTopology(t))
	s.cluster.Append(tp("in", 0), kv("a", "1"))
	s.settle()
	s.assign(t1)
	s.settle()
	s.wantCommitted(1)
	wantOutputs(t, s.cluster, "a=1")

	s.cluster.Append(tp("in", 1), kv("b", "2"))
	s.settle()
	s.prod.HoldAcks()
	s.assign()
	s.settle()
	for range 60 { // the answers to the records do not come in time
		s.advance(100 * time.Millisecond)
	}
	s.prod.Release()
	s.settle()
	s.wantCommitted(1, -1)
	wantOutputs(t, s.cluster, "a=1")
	if s.cluster.OpenTxn("app-x") {
		t.Error("the transaction was left open")
	}
}

// What is on its way to the brokers is bounded, with what waits for a transaction: tasks rest until there is room again, and
// then go on, under both guarantees.
func TestFull_tasksRestAndGoOn(t *testing.T) {
	const bound = 20_000
	for name, opts := range map[string][]stepOption{"at least once": nil, "exactly once": {transactional("app-x")}} {
		t.Run(name, func(t *testing.T) {
			s := newStepper(t, cluster(), copyTopology(t), append(opts, func(c *Config, _ *stepper) { c.Settings.ProducerBytes = bound })...)
			s.settle()
			s.assign(t0, t1)
			s.settle()
			s.prod.HoldAcks()
			for n := range 2000 {
				s.cluster.Append(tp("in", int32(n%2)), kv(fmt.Sprint(n), strings.Repeat("x", 20)))
			}
			for range 30 {
				s.settle()
				s.advance(100 * time.Millisecond)
			}
			// It rests until half of the bound is free. A turn may pass the bound by what it takes, 100 records here, for each of
			// the two tasks.
			if got := s.machine.outgoing(); got < bound/2 || got > bound+2*100*(recordOverhead+40) {
				t.Errorf("%d bytes wait", got)
			}
			s.prod.Release()
			for range 200 {
				s.advance(100 * time.Millisecond)
			}
			s.wantCommitted(1000, 1000)
			if n := len(outputs(s.cluster)); n != 2000 {
				t.Errorf("%d results", n)
			}
		})
	}
}
