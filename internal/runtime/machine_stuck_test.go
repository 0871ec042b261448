package runtime

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// slowTopology copies in to out, and calls slow inside the record of that key, while its worker is in user code.
func slowTopology(t testing.TB, slow func()) *topology.Topology {
	return failingTopology(t, func() error {
		slow()
		return nil
	})
}

// failingTopology copies in to out, and asks bad inside the records of the key "slow" what its step is to return.
func failingTopology(t testing.TB, bad func() error) *topology.Topology {
	return build(t, func(b *topology.Builder) {
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "copy", Parents: []string{"source"}, Op: op.NewPeek(func(r *processor.Record[string, string]) error {
			if r.Key == "slow" {
				return bad()
			}
			return nil
		})})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"copy"}, Op: op.NewSink(op.SinkSpec[string, string]{Topic: "out", Key: serde.String, Value: serde.String})})
	})
}

// slowRun is an instance of two tasks with a record of the second that is slow as the test says.
func slowRun(t *testing.T, eos bool, slow func(s *stepper), opts ...stepOption) *stepper {
	t.Helper()
	var s *stepper
	topo := slowTopology(t, func() { slow(s) })
	if eos {
		opts = append([]stepOption{transactional("app-x")}, opts...)
	}
	s = newStepper(t, cluster(), topo, opts...)
	s.settle()
	s.assign(t0, t1)
	s.settle()
	s.wantState(StateRunning)
	return s
}

func guarantees(t *testing.T, f func(t *testing.T, eos bool)) {
	for name, eos := range map[string]bool{"at least once": false, "exactly once": true} {
		t.Run(name, func(t *testing.T) { f(t, eos) })
	}
}

// While one task is inside a record of 30 s, the results of the other are committed as quickly as ever; and so is what the slow
// one has handed over before.
func TestStuck_slowRecordLeavesTheOthersTheirLatency(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		n := 0
		s := slowRun(t, eos, func(s *stepper) {
			for i := range 30 * 10 {
				s.cluster.Append(tp("in", 0), kv("quick", fmt.Sprint(i)))
				s.settle()
				s.advance(100 * time.Millisecond)
				s.advance(heldUpMs * time.Millisecond) // a commit waits as long for an answer of a task that it has asked
				if i > 0 {
					s.wantCommitted(int64(i+1), 1)
				}
				n++
			}
		})
		s.cluster.Append(tp("in", 1), kv("before", "0"))
		s.settle()
		// The hand-over and the slow record are of one turn.
		if err := s.clock.Advance(100 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		s.cluster.Append(tp("in", 1), kv("slow", "1"))
		s.step(Tick{})
		s.settle()
		s.advance(100 * time.Millisecond)
		if n != 300 {
			t.Fatalf("%d steps inside the slow record", n)
		}
		s.wantCommitted(300, 2)
		if tasks, times := s.member.Refused(); len(tasks) != 0 || times != 0 {
			t.Errorf("refused %v, %d times", tasks, times)
		}
	})
}

// An assignment that was on its way when a task was refused does not bring the task back, neither while its orphan is about nor
// when that has returned: the group may have given it to another member since. The next one does.
func TestStuck_anAssignmentOnItsWayWhenATaskWasRefused(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		var stale broker.MembershipEvent
		slow := true
		s := slowRun(t, eos, func(s *stepper) {
			if !slow {
				return
			}
			slow = false
			id, _ := s.member.Identity()
			stale = broker.MembershipEvent{Kind: broker.Assigned, Tasks: []broker.TaskID{t0, t1}, Identity: id, Done: func() {}}
			s.advance(300 * time.Second)
			s.advance(time.Second)
			s.advance(time.Second)
			if tasks, _ := s.member.Refused(); !cmp.Equal(tasks, []broker.TaskID{t1}) {
				t.Fatalf("refused %v, want the slow task", tasks)
			}
			s.step(MemberEvent{stale})
			s.settle()
			if s.machine.find(t1) != nil {
				t.Error("a task that was refused is back, and waits for its orphan")
			}
			s.wantState(StateRunning)
		})
		s.cluster.Append(tp("in", 1), kv("slow", "1"))
		s.settle()
		s.advance(100 * time.Millisecond)
		if tasks, _ := s.member.Refused(); slow || len(tasks) != 0 {
			t.Fatalf("refused %v after the return of the orphan", tasks)
		}
		s.step(MemberEvent{stale})
		s.settle()
		if s.machine.find(t1) != nil {
			t.Error("a task that was refused runs again by an assignment from before")
		}
		s.wantCommitted(-1, -1)
		s.assign(t0, t1)
		s.settle()
		for range 3 {
			s.advance(100 * time.Millisecond)
		}
		s.wantCommitted(-1, 1)
		s.wantState(StateRunning)
	})
}

// Past the deadline of a record its task is given up alone: what it has handed over is committed, another member gets it, and
// the rest of the instance goes on. When the orphan returns, nothing of it leaves, and the instance may have the task again.
func TestC101_slowTaskIsGivenUpAlone(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		var other *stepper
		s := slowRun(t, eos, func(s *stepper) {
			if other != nil {
				return // the second time it is quick
			}
			s.advance(299 * time.Second)
			if tasks, _ := s.member.Refused(); len(tasks) != 0 {
				t.Fatalf("refused %v before the deadline", tasks)
			}
			s.advance(time.Second)
			s.advance(time.Second)
			if tasks, _ := s.member.Refused(); !cmp.Equal(tasks, []broker.TaskID{t1}) {
				t.Fatalf("refused %v past the deadline, want the slow task", tasks)
			}
			s.wantCommitted(-1, 1)
			s.wantState(StateRunning)

			opts := []stepOption{}
			if eos {
				opts = append(opts, transactional("app-y"))
			}
			other = newStepperAt(t, s.cluster, slowTopology(t, func() {}), s.clock, opts...)
			s.group.Assign(map[*brokertest.Membership][]broker.TaskID{s.member: {t0}, other.member: {t1}})
			other.settle()
			s.settle()
			s.cluster.Append(tp("in", 0), kv("quick", "2"))
			for range 3 {
				s.settle()
				s.advance(100 * time.Millisecond)
				other.advance(100 * time.Millisecond)
			}
			s.wantCommitted(1, 2)
		})
		s.cluster.Append(tp("in", 1), kv("before", "0"))
		s.settle()
		if err := s.clock.Advance(100 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		s.cluster.Append(tp("in", 1), kv("slow", "1"))
		s.step(Tick{})
		s.settle()
		if other == nil {
			t.Fatal("nobody was inside the slow record")
		}
		s.advance(100 * time.Millisecond)
		if tasks, times := s.member.Refused(); len(tasks) != 0 || times != 2 {
			t.Errorf("refused %v after the return of the orphan, %d changes, want 2", tasks, times)
		}
		if len(s.machine.lingers)+len(s.machine.stuck) != 0 || s.machine.busy != 0 {
			t.Errorf("%d tasks linger, %d are stuck, %d workers are busy", len(s.machine.lingers), len(s.machine.stuck), s.machine.busy)
		}
		s.wantState(StateRunning)
		s.wantCommitted(1, 2)
		wantOutputs(t, s.cluster, "before=0", "quick=2", "slow=1")
		// And back again.
		s.group.Assign(map[*brokertest.Membership][]broker.TaskID{s.member: {t0}, other.member: nil})
		other.settle()
		s.settle()
		s.group.Assign(map[*brokertest.Membership][]broker.TaskID{s.member: {t0, t1}, other.member: nil})
		s.cluster.Append(tp("in", 1), kv("after", "3"))
		s.settle()
		s.advance(100 * time.Millisecond)
		s.wantCommitted(1, 3)
		wantOutputs(t, s.cluster, "after=3", "before=0", "quick=2", "slow=1")
	})
}

// A member that is alone gets its task back when the orphan has returned, and not before: two of one task would write at once.
func TestStuck_aloneInTheGroup(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		times := 0
		s := slowRun(t, eos, func(s *stepper) {
			if times++; times > 1 {
				return
			}
			s.advance(301 * time.Second)
			s.assign(t0, t1)
			if s.machine.find(t1) != nil {
				t.Error("the task is back while its orphan is about")
			}
		})
		s.cluster.Append(tp("in", 1), kv("slow", "1"))
		s.settle()
		s.assign(t0, t1)
		s.advance(100 * time.Millisecond)
		s.wantCommitted(-1, 1)
		wantOutputs(t, s.cluster, "slow=1")
		if times != 2 {
			t.Errorf("the record was taken %d times, want 2", times)
		}
	})
}

// An orphan that does not return within the timeout of a task stops the instance: the others are committed first.
func TestStuck_orphanThatNeverReturns(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		s := slowRun(t, eos, func(s *stepper) {
			s.advance(300 * time.Second)
			s.cluster.Append(tp("in", 0), kv("quick", "2"))
			s.settle()
			s.advance(59 * time.Second)
			if s.finished {
				t.Fatalf("it ended too early: %v", s.err)
			}
			s.cluster.Append(tp("in", 0), kv("quick", "3"))
			s.settle()
			s.advance(time.Second)
			s.advance(time.Millisecond)
			if !s.finished || s.err == nil {
				t.Fatalf("finished %t, error %v", s.finished, s.err)
			}
			for _, word := range []string{"task 0_1", "max.poll.interval.ms (300000)", "task.timeout.ms (60000)"} {
				if !strings.Contains(s.err.Error(), word) {
					t.Errorf("%q does not say %q", s.err, word)
				}
			}
			s.wantCommitted(2, -1)
		})
		s.cluster.Append(tp("in", 1), kv("slow", "1"))
		s.settle()
		if !s.finished {
			t.Error("it has not ended")
		}
		wantOutputs(t, s.cluster, "quick=2", "quick=3")
	})
}

// A record that is too slow each time is told with its place and how often; when it has been so for task.timeout.ms the processing
// error handler is asked about it, and user code does not see it again: dropped, or the application stops.
func TestStuck_tooSlowEachTime(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		for name, handler := range map[string]processor.Handler{
			"no handler": nil,
			"continue":   func(processor.Failure) processor.Response { return processor.Response{Action: processor.Continue} },
			"retry":      func(processor.Failure) processor.Response { return processor.Response{Action: processor.Retry} },
		} {
			t.Run(name, func(t *testing.T) {
				var log bytes.Buffer
				var asked []processor.Failure
				times := 0
				s := slowRun(t, eos, func(s *stepper) {
					if times++; times < 4 {
						s.advance(301 * time.Second)
					}
				}, logged(&log), func(c *Config, _ *stepper) {
					c.Settings.TaskTimeoutMs = 500_000 // the second time comes after 301 s, the third after 602 s
					c.Inside = func(*life) string { return "main.enrich (app.go:7)" }
					if handler != nil {
						c.Task.Handlers.Processing = func(f processor.Failure) processor.Response {
							asked = append(asked, f)
							return handler(f)
						}
					}
				})
				s.cluster.Append(tp("in", 1), kv("before", "0"), kv("slow", "1"), kv("after", "2"))
				for range 6 {
					s.settle()
					if !s.finished {
						s.assign(t0, t1)
					}
					s.advance(100 * time.Millisecond)
				}
				for i := range 3 {
					want := fmt.Sprintf("task=0_1 topic=in partition=1 offset=1 inside=\"main.enrich (app.go:7)\" seconds=301 times=%d max.poll.interval.ms=300000 task.timeout.ms=500000", i+1)
					if strings.Count(log.String(), want) != 1 {
						t.Errorf("the log does not say once %q:\n%s", want, &log)
					}
				}
				wantTimes, wantAsked := 3, 1
				switch name {
				case "no handler":
					wantAsked = 0
					if !s.finished || !errors.Is(s.err, op.ErrTooSlow) || !strings.Contains(s.err.Error(), "step source, record in-1@1") {
						t.Fatalf("finished %t, error %v", s.finished, s.err)
					}
					if !eos { // in a transaction it goes the way of all that its task had not handed over
						wantOutputs(t, s.cluster, "before=0")
					}
				case "continue":
					s.wantCommitted(-1, 3)
					wantOutputs(t, s.cluster, "after=2", "before=0")
					if n := s.machine.cfg.Task.Metrics.Dropped("source", metrics.Processing).Value(); n != 1 {
						t.Errorf("%d counted as dropped", n)
					}
				case "retry":
					wantTimes = 4
					s.wantCommitted(-1, 3)
					wantOutputs(t, s.cluster, "after=2", "before=0", "slow=1")
				}
				if times != wantTimes || len(asked) != wantAsked {
					t.Errorf("user code was called %d times, want %d; the handler %d times, want %d", times, wantTimes, len(asked), wantAsked)
				}
				for _, f := range asked {
					if f.Origin != (processor.Metadata{Topic: "in", Partition: 1, Offset: 1}) || f.Stage != processor.Processing || string(f.Key) != "slow" {
						t.Errorf("asked about %+v", f)
					}
				}
			})
		}
	})
}

// A drain says that it begins, and, while it waits, what for: after one second, and then at growing distances.
func TestDrain_tellsWhatItWaitsFor(t *testing.T) {
	var log bytes.Buffer
	lines := func() int { return strings.Count(log.String(), "draining: still waiting") }
	s := slowRun(t, false, func(s *stepper) {
		s.step(Stop{})
		s.settle()
		for second, want := range []int{0, 1, 2, 2, 3, 3, 3, 3, 4} {
			if n := lines(); n != want {
				t.Errorf("after %d s it was told %d times, want %d:\n%s", second, n, want, &log)
			}
			s.advance(time.Second)
		}
	}, logged(&log))
	s.cluster.Append(tp("in", 1), kv("slow", "1"))
	s.settle()
	for _, want := range []string{`msg="draining: the tasks hand over`, "tasks=2 for_at_most=10s", `for="[0_1: inside the record in-1@0]" waited=4s at_most_for=6s`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, &log)
		}
	}
	if !s.finished || s.err != nil {
		t.Errorf("finished %t, error %v", s.finished, s.err)
	}
}

// It says so of what is no task as well: a policy that has not answered, a group that has not told all its members, a copy. And it
// ends when its time is over.
func TestDrain_tellsOfOthersThanTasks(t *testing.T) {
	for name, c := range map[string]struct {
		verdict Verdict
		begin   func(s *stepper)
		want    string
	}{
		"policy": {ReplaceTask, func(s *stepper) {
			s.keep = true
			s.cluster.Append(tp("in", 1), kv("slow", "1"))
			s.settle()
		}, "0_1: the policy for uncaught errors has not answered"},
		"group": {StopApplication, func(s *stepper) {
			s.cluster.Append(tp("in", 1), kv("slow", "1"))
			s.settle()
		}, "the group: it has not told all instances to stop"},
		"copy": {ReplaceTask, func(s *stepper) {
			s.member.Copies([]broker.TaskID{t1}, nil)
			s.assign(t0)
			s.settle()
			s.follows = nil // nobody lets go of it
		}, "0_1: the copy is closed"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			var asked []Uncaught
			s := poisoned(t, false, func() error { return errPoison }, func(Uncaught) Verdict { return c.verdict }, &asked, logged(&log))
			c.begin(s)
			s.step(Stop{})
			s.settle()
			for range 10 {
				if s.finished {
					t.Fatalf("it has ended, with %v", s.err)
				}
				s.advance(time.Second)
			}
			if !s.finished {
				t.Error("the drain has no end")
			}
			if n := strings.Count(log.String(), fmt.Sprintf("for=\"[%s]\" waited=4s at_most_for=6s", c.want)); n != 1 {
				t.Errorf("told %d times that it waits for %s:\n%s", n, c.want, &log)
			}
		})
	}
}

// A hard limit of workers does not let an orphan keep the other tasks from running.
func TestStuck_hardLimit(t *testing.T) {
	s := slowRun(t, true, func(s *stepper) {
		s.cluster.Append(tp("in", 0), kv("quick", "2"))
		s.advance(299 * time.Second)
		s.wantCommitted(-1)
		s.advance(time.Second)
		s.advance(100 * time.Millisecond)
		s.wantCommitted(1)
	}, func(c *Config, _ *stepper) { c.Settings.Workers, c.Settings.HardWorkers = 1, true })
	s.cluster.Append(tp("in", 1), kv("slow", "1"))
	s.settle()
	wantOutputs(t, s.cluster, "quick=2")
	if s.machine.busy != 0 {
		t.Errorf("%d workers count as busy", s.machine.busy)
	}
}

// What a stuck task has handed over and cannot be committed does not keep its partition: the time for it is bounded. Nor does
// a revocation or a loss meanwhile.
func TestStuck_lastUnitCannotBeCommitted(t *testing.T) {
	for name, during := range map[string]func(*stepper){
		"deadline": func(s *stepper) { s.advance(2 * time.Second) },
		"revoked": func(s *stepper) {
			s.member.Revoke(t1)
			s.settle()
			s.advance(2 * time.Second)
			if s.member.Revoking() {
				s.t.Error("the revocation waits for an orphan")
			}
		},
		"lost": func(s *stepper) {
			s.member.Lose(true)
			s.settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			guarantees(t, func(t *testing.T, eos bool) {
				s := slowRun(t, eos, func(s *stepper) {
					s.auto = false // the coordinator is silent
					s.advance(300 * time.Second)
					during(s)
					if tasks, _ := s.member.Refused(); !cmp.Equal(tasks, []broker.TaskID{t1}) {
						t.Errorf("refused %v, want the slow task", tasks)
					}
				})
				s.cluster.Append(tp("in", 1), kv("before", "0"))
				s.settle()
				if err := s.clock.Advance(100 * time.Millisecond); err != nil {
					t.Fatal(err)
				}
				s.cluster.Append(tp("in", 1), kv("slow", "1"))
				s.prod.HoldAcks()
				s.step(Tick{})
				s.settle()
				s.prod.Release()
				s.auto = true
				s.settle()
				s.group.Assign(map[*brokertest.Membership][]broker.TaskID{s.member: nil})
				s.settle()
				if len(s.machine.lingers)+len(s.machine.stuck) != 0 {
					t.Errorf("%d tasks linger, %d are stuck", len(s.machine.lingers), len(s.machine.stuck))
				}
			})
		})
	}
}

// A record of a stuck task that could not be written has nobody to judge it: the unit behind it must not be committed.
func TestStuck_failedRecordOfItsLastUnit(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		s := slowRun(t, eos, func(s *stepper) {
			s.prod.Fail(brokertest.ProduceFault{Err: broker.CodeInvalidRecord})
			s.prod.Fail(brokertest.ProduceFault{Err: broker.CodeInvalidRecord})
			s.auto = true
			s.advance(300 * time.Second)
			s.advance(5 * time.Second)
		})
		s.cluster.Append(tp("in", 1), kv("before", "0"))
		s.auto = false
		s.settle()
		for len(s.works) > 0 {
			s.work(0)
			s.settle()
		}
		if err := s.clock.Advance(100 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		s.cluster.Append(tp("in", 1), kv("slow", "1"))
		s.step(Tick{})
		s.settle()
		for len(s.works) > 0 {
			s.work(0)
			s.settle()
		}
		s.wantCommitted(-1, -1)
		wantOutputs(t, s.cluster)
		if tasks, times := s.member.Refused(); len(tasks) != 0 || times != 2 {
			t.Errorf("refused %v, %d changes", tasks, times)
		}
	})
}
