package runtime

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/clock"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
)

// jumping is a clock of a machine that is set back and forth. As with the system's, the difference of two of its times is what
// has passed.
type jumping struct {
	*clock.Fake
	byMs int64
}

func (j *jumping) NowMs() int64 { return j.Fake.NowMs() + j.byMs }

// A clock that is set an hour back or forth stalls no commit and no idling, takes no deadline for over, and does not make the
// instance spin.
func TestClock_jumps(t *testing.T) {
	topo := build(t, func(b *topology.Builder) {
		str := op.SourceSpec[string, string]{Key: serde.String, Value: serde.String}
		b.AddSource(topology.Source{Name: "one", Topics: []string{"in"}, Op: op.NewSource(str)})
		b.AddSource(topology.Source{Name: "two", Topics: []string{"other"}, Op: op.NewSource(str)})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"one", "two"}, Op: op.NewSink(op.SinkSpec[string, string]{
			Topic: "out", Key: serde.String, Value: serde.String})})
	})
	for name, byMs := range map[string]int64{"back": -3_600_000, "forth": 3_600_000} {
		t.Run(name, func(t *testing.T) {
			guarantees(t, func(t *testing.T, eos bool) {
				c := cluster()
				c.AddTopic("other", 2)
				var opts []stepOption
				if eos {
					opts = append(opts, transactional("app-x"))
				}
				var wall *jumping
				s := newStepper(t, c, topo, append(opts, func(c *Config, s *stepper) {
					wall = &jumping{Fake: s.clock}
					c.Task.MaxIdleMs, c.Task.NowMs, c.Task.SteadyMs = 1000, wall.NowMs, clock.Steady(wall)
				})...)
				s.machine.shared.clock, s.machine.shared.steady = wall, clock.Steady(wall)
				s.settle()
				s.assign(t0, t1)
				s.settle()
				c.Append(tp("in", 0), kv("a", "1"))
				s.settle()
				s.auto = false
				c.Append(tp("in", 1), kv("b", "2"))
				s.settle()
				works := len(s.works)
				wall.byMs = byMs
				s.advance(500 * time.Millisecond)
				if tasks, _ := s.member.Refused(); len(tasks) != 0 || s.finished {
					t.Fatalf("given up %v, finished %t (%v), %d works", tasks, s.finished, s.err, works)
				}
				s.auto = true
				s.settle()
				s.advance(500 * time.Millisecond) // the idle time of both is over
				s.advance(time.Second)
				s.advance(100 * time.Millisecond)
				s.advance(100 * time.Millisecond)
				s.wantCommitted(1, 1)
				if at, ok := s.machine.NextWakeMs(); ok && at <= s.machine.nowMs {
					t.Errorf("it wants to be woken at %d, it is %d", at, s.machine.nowMs)
				}
			})
		})
	}
}

// Timers of the wall clock go by the clock as it is: one that is set forth makes them due, and one that is set back does not make
// the instance spin.
func TestClock_timers(t *testing.T) {
	fired := 0
	topo := timerTopology(t, time.Second, func(time.Time) { fired++ })
	var wall *jumping
	s := newStepper(t, cluster(), topo, func(c *Config, s *stepper) {
		wall = &jumping{Fake: s.clock}
		c.Task.NowMs, c.Task.SteadyMs = wall.NowMs, clock.Steady(wall)
	})
	s.machine.shared.clock, s.machine.shared.steady = wall, clock.Steady(wall)
	s.settle()
	s.assign(t0)
	s.advance(time.Second)
	if fired != 1 {
		t.Fatalf("fired %d times in a second", fired)
	}
	wall.byMs = 3_600_000
	s.advance(time.Second)
	if fired != 2 {
		t.Errorf("fired %d times, want once more", fired)
	}
	wall.byMs = 3_600_000 - 500
	for range 3 {
		s.advance(time.Second)
		if at, ok := s.machine.NextWakeMs(); ok && at <= s.machine.nowMs {
			t.Errorf("it wants to be woken at %d, it is %d", at, s.machine.nowMs)
		}
	}
	if fired < 4 {
		t.Errorf("fired %d times", fired)
	}
}
