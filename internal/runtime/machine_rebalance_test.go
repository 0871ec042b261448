package runtime

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/restore"
)

// C098: what is given away is committed first, whatever the commit interval.
func TestC098_commitBeforeGivingAway(t *testing.T) {
	s := ran(t)
	s.member.Revoke(t1)
	s.settle()
	if s.member.Revoking() {
		t.Fatal("the revocation is not done")
	}
	s.wantCommitted(-1, 1)
	if s.machine.find(t1) != nil || s.machine.find(t0) == nil {
		t.Error("the wrong task is gone")
	}
	for _, x := range s.fetch.Assigned() {
		if x == tp("in", 1) {
			t.Error("in-1 is still fetched")
		}
	}
}

// Revoked and assigned back to back, before anything of the first is carried out.
func TestRebalance_backToBack(t *testing.T) {
	s := ran(t)
	s.auto = false
	s.group.BeginRebalance()
	s.group.CompleteJoin()
	s.group.Sync(map[*brokertest.Membership][]broker.TaskID{s.member: {t0}})
	s.group.Assign(map[*brokertest.Membership][]broker.TaskID{s.member: {t0, t1}})
	s.settle()
	s.auto = true
	s.settle()
	s.wantState(StateRunning)
	s.wantCommitted(-1, 1)
	s.cluster.Append(tp("in", 1), kv("c", "3"))
	s.settle()
	s.advance(100 * time.Millisecond)
	wantOutputs(t, s.cluster, "a=1", "b=2", "c=3")
	s.wantCommitted(1, 2)
}

// Revoked while the task is restored: the restore is given up, nothing is committed, and the group does not wait.
func TestRebalance_revokedWhileRestoring(t *testing.T) {
	c := cluster()
	s := newStepper(t, c, countTopology(t))
	s.settle()
	s.auto = false
	s.assign(t0, t1)
	if len(s.restores) != 2 {
		t.Fatalf("%d restores run", len(s.restores))
	}
	s.member.Revoke(t0)
	s.settle()
	if s.member.Revoking() {
		t.Fatal("the revocation waits for a restore")
	}
	if len(s.restores) != 1 {
		t.Errorf("%d restores are left, want that of the other task", len(s.restores))
	}
	s.auto = true
	s.settle()
	s.wantState(StateRunning)
}

// A restore may take longer than any timeout: the group is none the wiser, and other tasks run.
func TestRebalance_longRestore(t *testing.T) {
	c := cluster()
	s := newStepper(t, c, countTopology(t))
	s.settle()
	s.auto = false
	s.assign(t0, t1)
	s.restore(0)
	s.settle()
	for len(s.works) > 0 {
		s.work(0)
		s.settle()
	}
	c.Append(tp("in", 0), kv("a", "1"))
	for range 100 {
		s.advance(10 * time.Second)
		for len(s.works) > 0 {
			s.work(0)
			s.settle()
		}
		s.prod.Deliver()
		for len(s.releases) > 0 {
			s.release(0)
		}
		s.prod.Deliver()
		s.settle()
		for len(s.commits) > 0 {
			s.commit(0)
			s.settle()
		}
	}
	s.wantCommitted(1, -1)
	s.wantState(StateRebalancing)
	s.auto = true
	s.settle()
	s.wantState(StateRunning)
}

// Revoked while a worker is inside the task: the hand-over follows the turn.
func TestRebalance_revokedWhileWorking(t *testing.T) {
	s := ran(t)
	s.auto = false
	s.cluster.Append(tp("in", 1), kv("c", "3"))
	s.settle()
	if len(s.works) != 1 {
		t.Fatalf("%d turns run, want 1", len(s.works))
	}
	s.member.Revoke(t1)
	s.settle()
	if !s.member.Revoking() {
		t.Fatal("the revocation is done although the task is at work")
	}
	s.auto = true
	s.settle()
	if s.member.Revoking() {
		t.Fatal("the revocation is not done")
	}
	s.wantCommitted(-1, 2)
}

// A task that does not come back in time is given up, and its partition released without a commit.
func TestRebalance_revocationRunsOut(t *testing.T) {
	s := ran(t)
	s.auto = false
	s.cluster.Append(tp("in", 1), kv("c", "3"))
	s.settle()
	w := s.works[0]
	s.member.Revoke(t1)
	s.settle()
	s.advance(2 * time.Second) // a third of the rebalance timeout
	if s.member.Revoking() {
		t.Fatal("the revocation waits for a task inside user code")
	}
	if s.machine.find(t1) != nil {
		t.Error("the task is still there")
	}
	// The worker comes back late: nothing of it leaves, and nothing is committed.
	before := s.prod.Unacknowledged()
	s.works = s.works[1:]
	s.step(Worked{Done: w.Do()})
	s.auto = true
	s.settle()
	if s.prod.Unacknowledged() != before || len(outputs(s.cluster)) != 2 {
		t.Errorf("a task that was given up has written: %v", outputs(s.cluster))
	}
	s.wantCommitted(1, -1) // the other task's interval was over
	if len(s.machine.lingers) != 0 {
		t.Error("the task lingers")
	}
}

// The group takes everything away without asking: nothing is committed.
func TestRebalance_lost(t *testing.T) {
	s := ran(t)
	s.member.Lose(true)
	s.settle()
	s.wantCommitted(-1, -1)
	s.wantState(StateRebalancing)
	if n := len(s.fetch.Assigned()); n != 0 {
		t.Errorf("%d partitions are still fetched", n)
	}
	s.assign(t0, t1)
	wantOutputs(t, s.cluster, "a=1", "a=1", "b=2", "b=2")
}

// Lost and assigned again while records are on their way: the new life of a task begins when the old one's records are
// settled, so that its replay sees them.
func TestRebalance_lostWithRecordsOnTheirWay(t *testing.T) {
	c := cluster()
	c.Append(tp("in", 0), kv("a", "1"))
	s := newStepper(t, c, countTopology(t))
	s.settle()
	s.prod.Hold()
	s.assign(t0)
	s.member.Lose(true)
	s.assign(t0)
	if len(s.restores) != 0 || s.machine.find(t0).phase != phaseWaiting {
		t.Fatalf("the task began again in phase %v with records of its former life on their way", s.machine.find(t0).phase)
	}
	s.prod.Release()
	s.settle()
	s.wantState(StateRunning)
	s.advance(100 * time.Millisecond)
	s.wantCommitted(1)
}

// The end of a lost commit's answer comes after the loss.
func TestRebalance_lostWithACommitUnderWay(t *testing.T) {
	s := ran(t)
	s.auto = false
	s.advance(100 * time.Millisecond)
	for len(s.works) > 0 {
		s.work(0)
		s.settle()
	}
	if len(s.commits) != 1 {
		t.Fatalf("%d commits are under way, want 1", len(s.commits))
	}
	s.member.Lose(true)
	s.settle()
	s.auto = true
	s.commits = s.commits[:1]
	s.settle()
	s.assign(t0, t1)
	s.wantState(StateRunning)
	if s.machine.commit != nil {
		t.Error("a commit is under way for ever")
	}
}

// Stopping drains from whatever state the instance is in.
func TestDrain_fromEveryState(t *testing.T) {
	for name, prepare := range map[string]func(*stepper){
		"not assigned": func(*stepper) {},
		"restoring":    func(s *stepper) { s.assign(t0, t1) },
		"opening": func(s *stepper) {
			s.assign(t0, t1)
			s.restore(0)
			s.restore(0)
			s.settle()
		},
		"working": func(s *stepper) {
			s.auto = true
			s.assign(t0, t1)
			s.auto = false
			s.cluster.Append(tp("in", 0), kv("x", "y"))
			s.settle()
		},
		"committing": func(s *stepper) {
			s.auto = true
			s.assign(t0, t1)
			s.auto = false
			s.advance(100 * time.Millisecond)
			for len(s.works) > 0 {
				s.work(0)
				s.settle()
			}
			s.prod.Deliver()
			s.settle()
		},
		"revoking": func(s *stepper) {
			s.auto = true
			s.assign(t0, t1)
			s.auto = false
			s.member.Revoke(t0)
			s.settle()
		},
		"lost": func(s *stepper) {
			s.auto = true
			s.assign(t0, t1)
			s.auto = false
			s.member.Lose(true)
			s.settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster()
			c.Append(tp("in", 0), kv("a", "1"))
			s := newStepper(t, c, countTopology(t))
			s.settle()
			s.auto = false
			prepare(s)
			s.step(Stop{})
			s.settle()
			s.auto = true
			s.settle()
			if !s.finished || s.err != nil {
				t.Fatalf("finished %t, error %v; phase of the tasks %v", s.finished, s.err, s.machine.slots)
			}
			s.wantState(StateStopped)
			if left, _ := s.member.Left(); !left {
				t.Error("the group was not left")
			}
			if n := len(s.fetch.Assigned()); n != 0 {
				t.Errorf("%d partitions are still fetched", n)
			}
		})
	}
}

// An end that is asked for during a turn that hands over and then takes more records: those are handed over too.
func TestDrain_duringATurnThatHandsOverAndGoesOn(t *testing.T) {
	s := ran(t)
	s.cluster.Append(tp("in", 1), kv("c", "3"))
	s.settle() // taken, and not committed yet
	s.auto = false
	s.cluster.Append(tp("in", 1), kv("d", "4"))
	if err := s.clock.Advance(100 * time.Millisecond); err != nil { // the commit is due with the batch
		t.Fatal(err)
	}
	s.settle()
	if !slices.ContainsFunc(s.works, func(w *Work) bool { return w.handOver && len(w.batches) > 0 }) {
		t.Fatal("no turn hands over and goes on")
	}
	s.step(Stop{})
	s.auto = true
	s.settle()
	if !s.finished || s.err != nil {
		t.Fatalf("finished %t err %v", s.finished, s.err)
	}
	s.wantCommitted(1, 3)
}

// A drain is bounded: what hangs is left behind.
func TestDrain_bounded(t *testing.T) {
	s := ran(t)
	s.prod.Hold()
	s.cluster.Append(tp("in", 0), kv("c", "3"))
	s.settle()
	s.step(Stop{})
	s.settle()
	if s.finished {
		t.Fatal("it ended without the last records being written")
	}
	s.advance(10 * time.Second)
	if !s.finished || s.err != nil {
		t.Errorf("finished %t, error %v", s.finished, s.err)
	}
	s.wantCommitted(-1, 1)
}

func TestAbandon_commitsNothing(t *testing.T) {
	s := ran(t)
	s.step(Abandon{})
	s.settle()
	if !s.finished {
		t.Fatal("not finished")
	}
	s.wantCommitted(-1, -1)
	if left, stay := s.member.Left(); !left || !stay {
		t.Errorf("left %t, stay %t", left, stay)
	}
}

// What a partition's log has lost is read on from where it begins, or as the source's policy says.
func TestFetch_outOfRange(t *testing.T) {
	s := ran(t)
	s.advance(100 * time.Millisecond)
	s.wantCommitted(1, 1)
	s.cluster.Append(tp("in", 0), kv("c", "3"), kv("d", "4"))
	s.cluster.Inject(brokertest.Fault{Op: brokertest.OpFetch, Err: &broker.OffsetRangeError{TopicPartition: tp("in", 0), Offset: 1, LogStart: 2, End: 3},
		When: func(c brokertest.Call) bool { return c.Partitions[0] == tp("in", 0) }})
	s.cluster.Truncate(tp("in", 0), 2)
	s.settle()
	s.advance(500 * time.Millisecond)
	s.advance(100 * time.Millisecond)
	wantOutputs(t, s.cluster, "a=1", "b=2", "d=4")
	s.wantCommitted(3, 1)
}

func TestFetch_noOffsetAndPolicyNone(t *testing.T) {
	c := cluster()
	s := newStepper(t, c, copyTopology(t), func(c *Config, _ *stepper) { c.Settings.Reset = restore.Reset{Kind: restore.ResetNone} })
	s.settle()
	s.assign(t0)
	if !s.finished || s.err == nil {
		t.Fatalf("finished %t, error %v", s.finished, s.err)
	}
}

// A partition of which enough waits is paused, and goes on when there is room.
func TestFetch_backpressure(t *testing.T) {
	c := cluster()
	s := newStepper(t, c, copyTopology(t), func(c *Config, _ *stepper) { c.Settings.HighRecords = 10 })
	s.settle()
	s.assign(t0)
	s.auto = false
	for i := range 40 {
		c.Append(tp("in", 0), kv("k", string(rune('a'+i%26))))
	}
	s.fetch.SetLimit(8)
	s.settle()
	if len(s.fetch.Paused()) != 1 {
		t.Fatalf("paused %v with %d records waiting", s.fetch.Paused(), s.machine.find(t0).inputs[0].records)
	}
	if n := s.machine.find(t0).inputs[0].records; n > 16 {
		t.Errorf("%d records wait", n)
	}
	s.auto = true
	s.settle()
	if len(s.fetch.Paused()) != 0 {
		t.Error("still paused")
	}
	if n := len(outputs(c)); n != 40 {
		t.Errorf("%d records were written, want 40", n)
	}
}
