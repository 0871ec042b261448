package runtime

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
)

// A paused instance commits what it has done and processes nothing, for longer than any deadline; it stays a member, and fetches no
// more than it has room for. When it goes on, nothing is missing and nothing is done twice.
func TestPause_processingStops(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		s := slowRun(t, eos, func(*stepper) {})
		s.cluster.Append(tp("in", 0), kv("a", "1"), kv("a", "2"))
		s.settle()
		s.step(Hold{})
		s.step(Hold{})
		s.advance(100 * time.Millisecond)
		s.advance(heldUpMs * time.Millisecond)
		s.wantCommitted(2, -1)
		for i := range 3000 {
			s.cluster.Append(tp("in", int32(i%2)), kv("b", fmt.Sprint(i)))
		}
		s.settle()
		for range 20 {
			s.advance(time.Minute)
		}
		s.wantCommitted(2, -1)
		s.wantState(StateRunning)
		if len(s.machine.stuck) > 0 || s.machine.busy > 0 {
			t.Errorf("%d stuck tasks, %d at work", len(s.machine.stuck), s.machine.busy)
		}
		for _, task := range s.machine.slots {
			if in := task.inputs[0]; in.records == 0 || in.records > 1500 {
				t.Errorf("task %s has fetched %d records", task.name, in.records)
			}
		}
		s.step(GoOn{})
		s.step(GoOn{})
		s.settle()
		s.advance(100 * time.Millisecond)
		s.advance(heldUpMs * time.Millisecond)
		s.wantCommitted(1502, 1500)
		n := 0
		for p := range int32(2) {
			n += len(s.cluster.Committed(tp("out", p), 0).Records)
		}
		if n != 3002 {
			t.Errorf("%d results, want 3002", n)
		}
	})
}

// Tasks that come while it is paused are made ready, tasks that go are handed over, and it can be stopped.
func TestPause_tasksComeAndGo(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		s := slowRun(t, eos, func(*stepper) {}, func(cfg *Config, _ *stepper) { cfg.Settings.Held = true })
		s.cluster.Append(tp("in", 0), kv("a", "1"))
		s.settle()
		s.assign(t0)
		s.settle()
		s.assign(t0, t1)
		s.settle()
		s.wantState(StateRunning)
		s.advance(time.Second)
		s.wantCommitted(-1, -1)
		s.step(GoOn{})
		s.settle()
		s.step(Hold{})
		s.assign(t1) // what was done is committed before the task goes
		s.settle()
		s.advance(heldUpMs * time.Millisecond)
		s.wantCommitted(1, -1)
		if s.member.Revoking() {
			t.Error("the revocation waits")
		}
		s.step(Stop{})
		s.settle()
		if !s.finished || s.err != nil {
			t.Fatalf("finished %t err %v", s.finished, s.err)
		}
	})
}

// Timers of the wall clock do not fire while it is paused, and once when it goes on.
func TestPause_timers(t *testing.T) {
	fired := 0
	s := newStepper(t, cluster(), timerTopology(t, time.Second, func(time.Time) { fired++ }))
	s.settle()
	s.assign(t0)
	s.settle()
	s.advance(time.Second)
	if fired != 1 {
		t.Fatalf("fired %d times in a second", fired)
	}
	s.step(Hold{})
	for range 10 {
		s.advance(time.Second)
	}
	if fired != 1 {
		t.Fatalf("fired %d times while paused", fired-1)
	}
	s.step(GoOn{})
	s.settle()
	if fired != 2 {
		t.Errorf("fired %d times when it went on", fired-1)
	}
	s.advance(time.Second)
	if fired != 3 {
		t.Errorf("fired %d times in the second after it", fired-2)
	}
}

// Copies of other instances' tasks go on while an instance is paused: one that is out of date is of no use.
func TestPause_copiesFollow(t *testing.T) {
	c := cluster()
	s := newStepper(t, c, countTopology(t), transactional("app-x"))
	s.settle()
	s.step(Hold{})
	s.member.Copies([]broker.TaskID{t1}, nil)
	s.group.Assign(map[*brokertest.Membership][]broker.TaskID{s.member: {t0}})
	s.settle()
	c.Append(tp("app-counts-changelog", 1), kv("a", "1"))
	s.advance(time.Second)
	if at := s.machine.standbys[0].at.Load(); at != 1 {
		t.Errorf("the copy is at %d of 1", at)
	}
}

// More workers run more tasks at once, fewer wait until turns have ended, and tasks stay where they are.
func TestResize(t *testing.T) {
	s := slowRun(t, false, func(*stepper) {}, func(cfg *Config, _ *stepper) { cfg.Settings.Workers, cfg.Settings.HardWorkers = 1, true })
	s.auto = false
	feed := func() {
		s.cluster.Append(tp("in", 0), kv("a", "1"))
		s.cluster.Append(tp("in", 1), kv("a", "1"))
		s.settle()
	}
	feed()
	if n := len(s.works); n != 1 {
		t.Fatalf("%d tasks run with one worker", n)
	}
	s.step(Resize{Workers: 2, Hard: true, PrivateBytes: 7})
	if n := len(s.works); n != 2 {
		t.Fatalf("%d tasks run with two workers", n)
	}
	if got := s.machine.shared.privateBytes.Load(); got != 7 {
		t.Errorf("a task may gather %d bytes", got)
	}
	s.step(Resize{Workers: 1, Hard: true, PrivateBytes: 9})
	s.work(0)
	feed()
	if n := len(s.works); n != 1 {
		t.Fatalf("%d tasks run while one of two turns is under way, and one may run", n)
	}
	s.work(0)
	if n := len(s.works); n != 1 {
		t.Fatalf("%d tasks run with one worker again", n)
	}
	// One that is held up is replaced, until the number is a hard limit.
	s.step(Resize{Workers: 1, PrivateBytes: 9})
	s.advance(heldUpMs * time.Millisecond)
	if n := len(s.works); n != 2 {
		t.Fatalf("%d tasks run beside one that is held up", n)
	}
	s.step(Resize{Workers: 1, Hard: true, PrivateBytes: 9})
	if s.machine.busy != 2 {
		t.Errorf("%d workers count", s.machine.busy)
	}
	for len(s.works) > 0 {
		s.work(0)
	}
	s.auto = true
	s.settle()
	s.wantState(StateRunning)
	if _, n := s.member.Topology(); n != 1 || s.member.Rejoins() != 0 {
		t.Errorf("subscribed %d times, asked for an assignment %d times", n, s.member.Rejoins())
	}
}
