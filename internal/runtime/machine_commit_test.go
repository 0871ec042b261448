package runtime

import (
	"errors"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/codec"
)

// ran starts a machine with both tasks, and two records processed and not committed.
func ran(t *testing.T, opts ...stepOption) *stepper {
	t.Helper()
	c := cluster()
	c.Append(tp("in", 0), kv("a", "1"))
	c.Append(tp("in", 1), kv("b", "2"))
	s := newStepper(t, c, copyTopology(t), opts...)
	s.settle()
	s.assign(t0, t1)
	wantOutputs(t, c, "a=1", "b=2")
	return s
}

func (s *stepper) wantCommitted(want ...int64) {
	s.t.Helper()
	for p, w := range want {
		if got := s.group.Committed(tp("in", int32(p))).Offset; got != w {
			s.t.Errorf("committed offset of in-%d is %d, want %d", p, got, w)
		}
	}
}

func (s *stepper) wantState(want State) {
	s.t.Helper()
	if got := s.machine.State(); got != want {
		s.t.Errorf("state is %v, want %v", got, want)
	}
}

// everything that the group says is in between two generations is waited out, and nothing is processed again.
func TestCommit_betweenGenerations(t *testing.T) {
	for _, code := range []broker.Code{broker.CodeIllegalGeneration, broker.CodeRebalanceInProgress} {
		t.Run(code.Error(), func(t *testing.T) {
			s := ran(t)
			s.group.BeginRebalance()
			if code == broker.CodeIllegalGeneration {
				s.cluster.Inject(brokertest.Fault{Op: brokertest.OpCommitOffsets, Err: &broker.CommitError{
					Group: "app", Partitions: map[broker.TopicPartition]broker.Code{tp("in", 0): code, tp("in", 1): code}}})
			}
			s.group.CompleteJoin()
			s.advance(100 * time.Millisecond)
			s.advance(time.Second)
			s.wantCommitted(-1, -1)
			s.group.Sync(map[*brokertest.Membership][]broker.TaskID{s.member: {t0, t1}})
			s.settle()
			s.advance(commitRetryMs * time.Millisecond)
			s.wantCommitted(1, 1)
			s.wantState(StateRunning)
			wantOutputs(t, s.cluster, "a=1", "b=2")
		})
	}
}

// A rebalance that does not end within the commit's time: the tasks go back to what is committed.
func TestCommit_rebalanceTakesTooLong(t *testing.T) {
	s := ran(t)
	s.group.BeginRebalance()
	s.group.CompleteJoin()
	s.advance(100 * time.Millisecond)
	for range 60 {
		s.advance(100 * time.Millisecond)
	}
	s.wantCommitted(-1, -1)
	s.group.Sync(map[*brokertest.Membership][]broker.TaskID{s.member: {t0, t1}})
	s.settle()
	s.advance(time.Second)
	s.advance(time.Second)
	wantOutputs(t, s.cluster, "a=1", "a=1", "b=2", "b=2")
	s.advance(100 * time.Millisecond)
	s.wantCommitted(1, 1)
	s.wantState(StateRunning)
}

func TestCommit_retried(t *testing.T) {
	both := func(c broker.Code) error {
		return &broker.CommitError{Group: "app", Partitions: map[broker.TopicPartition]broker.Code{tp("in", 0): c, tp("in", 1): c}}
	}
	for name, err := range map[string]error{
		"coordinator moves":   both(broker.CodeNotCoordinator),
		"coordinator loads":   both(broker.CodeCoordinatorLoadInProgress),
		"pending transaction": both(broker.CodeUnstableOffsetCommit),
		"no answer":           broker.ErrNoAnswer,
		"timed out":           both(broker.CodeRequestTimedOut),
	} {
		for _, applied := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := ran(t)
				s.cluster.Inject(brokertest.Fault{Op: brokertest.OpCommitOffsets, Err: err, Applied: applied, Times: 3})
				s.advance(100 * time.Millisecond)
				for range 4 {
					s.advance(commitRetryMs * time.Millisecond)
				}
				s.wantCommitted(1, 1)
				s.wantState(StateRunning)
				wantOutputs(t, s.cluster, "a=1", "b=2")
				if n := len(s.cluster.Calls(brokertest.OpCommitOffsets)); n < 4 {
					t.Errorf("%d commits were sent, want 3 that fail and one that does not", n)
				}
			})
		}
	}
}

// A member that the coordinator does not know has lost everything: nothing more is committed for it, and its tasks begin
// again where the commits stand once they are assigned anew.
func TestCommit_lost(t *testing.T) {
	s := ran(t)
	s.group.Expire(s.member)
	s.advance(100 * time.Millisecond)
	s.wantCommitted(-1, -1)
	if len(s.machine.slots)+len(s.machine.lingers) != 0 {
		t.Errorf("tasks are left: %d, %d", len(s.machine.slots), len(s.machine.lingers))
	}
	if s.member.Rejoins() != 1 {
		t.Errorf("asked %d times for a new assignment, want once", s.member.Rejoins())
	}
	s.wantState(StateRebalancing)
	s.member.Lose(true)
	s.settle()
	s.assign(t0, t1)
	wantOutputs(t, s.cluster, "a=1", "a=1", "b=2", "b=2")
	s.advance(100 * time.Millisecond)
	s.wantCommitted(1, 1)
	s.wantState(StateRunning)
}

// The client may get another member id without a word: the commit must not go out under it.
func TestCommit_otherMemberID(t *testing.T) {
	s := ran(t)
	s.member.SilentlyRejoin()
	s.advance(100 * time.Millisecond)
	if n := len(s.cluster.Calls(brokertest.OpCommitOffsets)); n != 0 {
		t.Fatalf("%d commits were sent under a member id that does not own the tasks", n)
	}
	s.wantCommitted(-1, -1)
	s.assign(t0, t1)
	wantOutputs(t, s.cluster, "a=1", "a=1", "b=2", "b=2")
	s.advance(100 * time.Millisecond)
	s.wantCommitted(1, 1)
}

// The same tasks assigned to another member id: all are lost and begin again.
func TestAssigned_underAnotherMemberID(t *testing.T) {
	s := ran(t)
	s.member.SilentlyRejoin()
	s.assign(t0, t1)
	wantOutputs(t, s.cluster, "a=1", "a=1", "b=2", "b=2")
	for _, c := range s.cluster.Calls(brokertest.OpCommitOffsets) {
		t.Errorf("committed %v", c.Offsets)
	}
}

func TestCommit_fencedInstance(t *testing.T) {
	fenced := &broker.CommitError{Group: "app", Partitions: map[broker.TopicPartition]broker.Code{
		tp("in", 0): broker.CodeFencedInstanceID, tp("in", 1): broker.CodeFencedInstanceID}}
	s := ran(t)
	s.cluster.Inject(brokertest.Fault{Op: brokertest.OpCommitOffsets, Err: fenced, Times: 2})
	s.advance(100 * time.Millisecond)
	s.assign(t0, t1)
	if s.finished {
		t.Fatal("the first time is not fatal")
	}
	s.advance(100 * time.Millisecond)
	s.advance(20 * time.Second)
	if !s.finished || !errors.Is(s.err, broker.CodeFencedInstanceID) {
		t.Errorf("finished %t, error %v", s.finished, s.err)
	}
}

// What is refused again under an identity that had lost its instance id before is no second time: an assignment was on its way. Nor
// is it anybody else's doing if the client has joined the group anew by itself.
func TestCommit_fencedInstanceOnce(t *testing.T) {
	fenced := &broker.CommitError{Group: "app", Partitions: map[broker.TopicPartition]broker.Code{
		tp("in", 0): broker.CodeFencedInstanceID, tp("in", 1): broker.CodeFencedInstanceID}}
	t.Run("an assignment was on its way", func(t *testing.T) {
		s := ran(t)
		s.cluster.Inject(brokertest.Fault{Op: brokertest.OpCommitOffsets, Err: fenced, Times: 2})
		id, _ := s.member.Identity()
		s.advance(100 * time.Millisecond)
		s.step(MemberEvent{broker.MembershipEvent{Kind: broker.Assigned, Tasks: []broker.TaskID{t0, t1}, Identity: id, Done: func() {}}})
		s.settle()
		s.advance(100 * time.Millisecond)
		if n := len(s.cluster.Calls(brokertest.OpCommitOffsets)); n != 2 {
			t.Fatalf("%d commits", n)
		}
		s.advance(20 * time.Second)
		if s.finished {
			t.Errorf("it has stopped: %v", s.err)
		}
	})
	t.Run("its own client", func(t *testing.T) {
		s := ran(t)
		for range 3 {
			s.cluster.Inject(brokertest.Fault{Op: brokertest.OpCommitOffsets, Err: fenced})
			s.auto = false
			s.advance(100 * time.Millisecond)
			for len(s.works) > 0 {
				s.work(0)
				s.settle()
			}
			s.member.SilentlyRejoin() // while the commit is on its way
			s.auto = true
			s.settle()
			s.assign(t0, t1)
			s.advance(time.Second)
		}
		if s.finished || s.machine.taken.ms != 0 {
			t.Errorf("finished %t (%v), found taken at %d", s.finished, s.err, s.machine.taken.ms)
		}
	})
}

func TestCommit_refusedForGood(t *testing.T) {
	s := ran(t)
	s.cluster.Inject(brokertest.Fault{Op: brokertest.OpCommitOffsets, Times: -1, Err: &broker.CommitError{Group: "app",
		Partitions: map[broker.TopicPartition]broker.Code{tp("in", 0): broker.CodeGroupAuthorizationFailed, tp("in", 1): broker.CodeGroupAuthorizationFailed}}})
	s.advance(100 * time.Millisecond)
	if !s.finished || !errors.Is(s.err, broker.ErrUnauthorized) {
		t.Errorf("finished %t, error %v", s.finished, s.err)
	}
	s.wantState(StateFailed)
	if left, stay := s.member.Left(); !left || stay {
		t.Errorf("left %t, stay %t", left, stay)
	}
}

// One task's partition is refused: the other task's commit stands, and only the refused one goes back.
func TestCommit_onePartitionRefused(t *testing.T) {
	s := ran(t)
	s.cluster.Inject(brokertest.Fault{Op: brokertest.OpCommitOffsets, Err: &broker.CommitError{Group: "app",
		Partitions: map[broker.TopicPartition]broker.Code{tp("in", 1): broker.CodeOffsetMetadataTooLarge}}, When: with(tp("in", 1))})
	s.advance(100 * time.Millisecond)
	if got := s.machine.find(t0); got == nil || got.phase != phaseRunning || got.tries != 0 {
		t.Errorf("task 0_0: %+v", got)
	}
	s.advance(time.Second)
	wantOutputs(t, s.cluster, "a=1", "b=2", "b=2")
	s.advance(100 * time.Millisecond)
	s.wantCommitted(1, 1)
}

// with matches commits that hold a partition.
func with(tp broker.TopicPartition) func(brokertest.Call) bool {
	return func(c brokertest.Call) bool {
		_, ok := c.Offsets[tp]
		return ok
	}
}

// What can never be committed ends the instance when the task's time is over.
func TestCommit_failsUntilTheTaskTimesOut(t *testing.T) {
	s := ran(t)
	s.cluster.Inject(brokertest.Fault{Op: brokertest.OpCommitOffsets, Times: -1, Err: &broker.CommitError{Group: "app",
		Partitions: map[broker.TopicPartition]broker.Code{tp("in", 0): broker.CodeOffsetMetadataTooLarge, tp("in", 1): broker.CodeOffsetMetadataTooLarge}}})
	for i := 0; i < 200 && !s.finished; i++ {
		s.advance(time.Second)
	}
	if !s.finished || !errors.Is(s.err, broker.CodeOffsetMetadataTooLarge) {
		t.Errorf("finished %t, error %v", s.finished, s.err)
	}
}

// Inside a revocation nobody waits for the group: one try with the generation known, then the partitions are released.
func TestCommit_insideRevocation(t *testing.T) {
	s := ran(t)
	s.cluster.Inject(brokertest.Fault{Op: brokertest.OpCommitOffsets, Times: -1, Err: &broker.CommitError{Group: "app",
		Partitions: map[broker.TopicPartition]broker.Code{tp("in", 1): broker.CodeRebalanceInProgress}}})
	s.member.Revoke(t1)
	s.settle()
	if s.member.Revoking() {
		t.Fatal("the revocation waits")
	}
	if n := len(s.cluster.Calls(brokertest.OpCommitOffsets)); n != 2 {
		t.Errorf("%d commits were tried, want 2", n)
	}
	s.wantCommitted(-1, -1)
}

// A unit waits for everything that its task has sent.
func TestCommit_waitsForAcknowledgements(t *testing.T) {
	c := cluster()
	key0, key1 := keyOf(0), keyOf(1)
	c.Append(tp("in", 0), kv(key0, "1"))
	c.Append(tp("in", 1), kv(key1, "2"))
	s := newStepper(t, c, copyTopology(t))
	s.prod.HoldAcks(tp("out", 0))
	s.settle()
	s.assign(t0, t1)
	s.advance(100 * time.Millisecond)
	s.wantCommitted(-1, 1)
	s.prod.Release()
	s.settle()
	s.wantCommitted(1, 1)
}

// keyOf finds a key of an output partition.
func keyOf(p int32) string {
	for k := 'a'; ; k++ {
		if codec.Partition([]byte(string(k)), 2) == p {
			return string(k)
		}
	}
}
