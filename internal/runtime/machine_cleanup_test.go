package runtime

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/metrics"
)

// stored lets a stepper have state on disk of tasks, and takes it away when it is dropped.
func stored(tasks ...string) stepOption {
	return func(cfg *Config, s *stepper) {
		cfg.Settings.CleanupDelayMs = 600_000
		cfg.Stored = func() []string { return tasks }
		s.drop = func(task string) error {
			s.dropped = append(s.dropped, task)
			if s.dropErr != nil {
				return s.dropErr
			}
			tasks = slices.DeleteFunc(tasks, func(t string) bool { return t == task })
			return nil
		}
	}
}

// State of a task that moved away is deleted when the task has been away for the delay, and not before; that of tasks that are here,
// or of which a copy is here, stays. Each return begins the time anew.
func TestCleanup_stateOfTasksThatMovedAway(t *testing.T) {
	s := newStepper(t, cluster(), countTopology(t), stored("0_0", "0_1", "7_3"))
	s.settle()
	for range 30 { // it is given nothing yet: nobody knows who has what
		s.advance(time.Minute)
	}
	s.assign(t0, t1)
	s.settle()
	for range 9 {
		s.advance(time.Minute)
	}
	if len(s.dropped) > 0 {
		t.Fatalf("dropped %v after nine minutes", s.dropped)
	}
	for range 3 {
		s.advance(time.Minute)
	}
	wantDropped(t, s, "7_3") // of a topology that is no more
	s.assign(t0)             // 0_1 goes
	s.settle()
	for range 8 {
		s.advance(time.Minute)
	}
	s.assign(t0, t1) // and comes back
	s.settle()
	for range 20 {
		s.advance(time.Minute)
	}
	s.member.Copies([]broker.TaskID{t1}, nil)
	s.assign(t0)
	s.settle()
	for range 20 {
		s.advance(time.Minute)
	}
	wantDropped(t, s, "7_3")
	s.member.Copies(nil, nil)
	s.group.Assign(map[*brokertest.Membership][]broker.TaskID{s.member: {t0}})
	s.settle()
	for range 9 {
		s.advance(time.Minute)
	}
	wantDropped(t, s, "7_3")
	for range 3 {
		s.advance(time.Minute)
	}
	wantDropped(t, s, "7_3", "0_1")
	if n := s.machine.cfg.Task.Metrics.Snapshot().Counter(metrics.StateDropped); n != 2 {
		t.Errorf("%d counted", n)
	}
}

// What cannot be deleted is tried again; 0 never deletes.
func TestCleanup_failsAndOff(t *testing.T) {
	s := newStepper(t, cluster(), countTopology(t), stored("0_1"))
	s.dropErr = errPoison
	s.settle()
	s.assign(t0)
	s.settle()
	for range 15 {
		s.advance(time.Minute)
	}
	if n := len(s.dropped); n < 3 {
		t.Fatalf("tried %d times", n)
	}
	s.dropErr, s.dropped = nil, nil
	s.advance(time.Minute)
	s.advance(time.Minute)
	wantDropped(t, s, "0_1")

	off := newStepper(t, cluster(), countTopology(t), stored("0_1"), func(cfg *Config, _ *stepper) { cfg.Settings.CleanupDelayMs = 0 })
	off.settle()
	off.assign(t0)
	off.settle()
	for range 60 {
		off.advance(time.Minute)
	}
	wantDropped(t, off)
}

func wantDropped(t *testing.T, s *stepper, want ...string) {
	t.Helper()
	if !slices.Equal(s.dropped, want) {
		t.Fatalf("dropped %v, want %v", s.dropped, want)
	}
}
