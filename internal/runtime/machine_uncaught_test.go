package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
)

var errPoison = errors.New("poison")

// poisoned is an instance of two tasks whose step fails on records of the key "slow" while the test says so. What the policy was
// asked goes to asked.
func poisoned(t *testing.T, eos bool, bad func() error, verdict func(Uncaught) Verdict, asked *[]Uncaught, opts ...stepOption) *stepper {
	t.Helper()
	s := poisonedAtStart(t, eos, bad, verdict, asked, opts...)
	s.settle()
	s.assign(t0, t1)
	s.settle()
	s.wantState(StateRunning)
	return s
}

// poisonedAtStart is one that has not joined its group.
func poisonedAtStart(t *testing.T, eos bool, bad func() error, verdict func(Uncaught) Verdict, asked *[]Uncaught, opts ...stepOption) *stepper {
	t.Helper()
	policy := func(cfg *Config, _ *stepper) {
		cfg.Uncaught = func(u Uncaught) Verdict {
			*asked = append(*asked, u)
			return verdict(u)
		}
	}
	topo := failingTopology(t, bad)
	opts = append([]stepOption{policy}, opts...)
	if eos {
		opts = append([]stepOption{transactional("app-x")}, opts...)
	}
	return newStepper(t, cluster(), topo, opts...)
}

func replace(Uncaught) Verdict { return ReplaceTask }

// A task that fails is replaced, with pauses that grow, for as long as the policy says so; the other one goes on, and when the
// record is good the task goes on with it.
func TestUncaught_replace(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		var asked []Uncaught
		bad := true
		s := poisoned(t, eos, func() error {
			if bad {
				return errPoison
			}
			return nil
		}, replace, &asked)
		s.cluster.Append(tp("in", 1), kv("before", "0"), kv("slow", "1"), kv("after", "2"))
		s.settle()
		for i, pause := range []time.Duration{500, 1000, 2000, 4000, 4000} {
			if len(asked) != i+1 {
				t.Fatalf("the policy was asked %d times after %d failures", len(asked), i+1)
			}
			s.advance(pause*time.Millisecond - 1)
			if len(asked) != i+1 {
				t.Fatalf("the task was tried again before %d ms had passed", pause)
			}
			s.cluster.Append(tp("in", 0), kv("a", fmt.Sprint(i)))
			s.advance(1)
		}
		u := asked[3]
		var at *op.FatalError
		if u.Task != t1 || u.Times != 4 || !errors.Is(u.Err, errPoison) || !errors.As(u.Err, &at) || at.Origin.Topic != "in" || at.Origin.Offset != 1 {
			t.Errorf("asked %+v", u)
		}
		s.advance(100 * time.Millisecond)
		s.wantCommitted(5, -1)
		if n := s.machine.cfg.Task.Metrics.Snapshot().Counter(metrics.TasksReplaced); n != int64(len(asked)) {
			t.Errorf("%d tasks counted as replaced, want %d", n, len(asked))
		}
		bad = false
		s.advance(4 * time.Second)
		s.advance(100 * time.Millisecond)
		s.advance(heldUpMs * time.Millisecond)
		s.wantCommitted(5, 3)
		s.wantState(StateRunning)
		s.step(Stop{})
		s.settle()
		if !s.finished || s.err != nil {
			t.Fatalf("finished %t err %v", s.finished, s.err)
		}
		if !eos {
			return
		}
		var out []string
		for p := range int32(2) {
			for _, r := range s.cluster.Committed(tp("out", p), 0).Records {
				if k := string(r.Key); k != "a" {
					out = append(out, k)
				}
			}
		}
		if !slices.Equal(out, []string{"before", "slow", "after"}) {
			t.Errorf("results %q", out)
		}
	})
}

// While the policy thinks, the other task goes on and the failed one does not begin again.
func TestUncaught_policyThatThinks(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		var asked []Uncaught
		s := poisoned(t, eos, func() error { return errPoison }, replace, &asked)
		s.keep = true // the question waits
		s.cluster.Append(tp("in", 1), kv("slow", "1"))
		s.settle()
		for i := range 100 {
			s.cluster.Append(tp("in", 0), kv("a", fmt.Sprint(i)))
			s.advance(time.Second)
		}
		if len(s.asks) != 1 || len(asked) != 0 {
			t.Fatalf("%d questions wait, %d were answered", len(s.asks), len(asked))
		}
		s.advance(100 * time.Millisecond)
		s.wantCommitted(100, -1)
		// Told to stop, it waits for the answer as long as a drain may take, and then the error counts.
		s.step(Stop{})
		s.settle()
		if s.finished {
			t.Fatal("it did not wait for the policy")
		}
		s.advance(10 * time.Second)
		if !s.finished || !errors.Is(s.err, errPoison) {
			t.Fatalf("finished %t err %v", s.finished, s.err)
		}
	})
}

// A revocation does not wait for the policy, and a task that comes back begins at once, whatever the answer to its former life was.
func TestUncaught_revokedMeanwhile(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		var asked []Uncaught
		bad := true
		s := poisoned(t, eos, func() error {
			if bad {
				return errPoison
			}
			return nil
		}, replace, &asked)
		s.keep = true
		s.cluster.Append(tp("in", 1), kv("slow", "1"))
		s.settle()
		s.assign(t0)
		s.settle()
		if s.member.Revoking() {
			t.Fatal("the revocation waits")
		}
		bad = false
		s.assign(t0, t1)
		s.keep = false
		s.settle()
		s.advance(100 * time.Millisecond)
		s.advance(heldUpMs * time.Millisecond)
		s.wantCommitted(-1, 1)
		s.wantState(StateRunning)
		if n := s.machine.cfg.Task.Metrics.Snapshot().Counter(metrics.TasksReplaced); n != 0 {
			t.Errorf("%d tasks counted as replaced", n)
		}
	})
}

// The other verdicts, a policy that panics, and no policy.
func TestUncaught_stop(t *testing.T) {
	for name, c := range map[string]struct {
		policy func(Uncaught) Verdict
		want   []string
	}{
		"stop the instance": {func(Uncaught) Verdict { return StopInstance }, []string{"poison", "in-1@1"}},
		"panic":             {func(Uncaught) Verdict { panic("the policy is confused") }, []string{"poison", "the policy is confused"}},
	} {
		t.Run(name, func(t *testing.T) {
			guarantees(t, func(t *testing.T, eos bool) {
				var asked []Uncaught
				s := poisoned(t, eos, func() error { return errPoison }, c.policy, &asked)
				s.cluster.Append(tp("in", 0), kv("a", "1"))
				s.cluster.Append(tp("in", 1), kv("b", "1"), kv("slow", "2"))
				s.settle()
				for range 20 {
					s.advance(100 * time.Millisecond)
				}
				if !s.finished || !errors.Is(s.err, errPoison) {
					t.Fatalf("finished %t err %v", s.finished, s.err)
				}
				for _, text := range c.want {
					if !strings.Contains(s.err.Error(), text) {
						t.Errorf("the error does not say %q: %v", text, s.err)
					}
				}
				s.wantCommitted(1, -1)
				if left, stays := s.member.Left(); !left || stays || s.member.StopsAll() != "" {
					t.Errorf("left %t stays %t, asked all to stop: %q", left, stays, s.member.StopsAll())
				}
			})
		})
	}
}

// An instance that asks for the end of the application drains, and leaves when the group has told everybody, or when it cannot
// wait any longer.
func TestUncaught_stopApplication(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		for name, told := range map[string]bool{"told": true, "not told": false} {
			t.Run(name, func(t *testing.T) {
				var asked []Uncaught
				s := poisoned(t, eos, func() error { return errPoison }, func(Uncaught) Verdict { return StopApplication }, &asked)
				s.cluster.Append(tp("in", 0), kv("a", "1"))
				s.cluster.Append(tp("in", 1), kv("slow", "1"))
				s.settle()
				s.advance(100 * time.Millisecond)
				s.advance(heldUpMs * time.Millisecond)
				s.wantCommitted(1, -1)
				if why := s.member.StopsAll(); !strings.Contains(why, "poison") || !strings.Contains(why, "in-1@0") {
					t.Errorf("all were asked to stop for %q", why)
				}
				if left, _ := s.member.Left(); left {
					t.Fatal("the group was left before it has said so to all")
				}
				if told {
					s.member.Fail(fmt.Errorf("group app: %w: member x: poison", broker.ErrApplicationStopped))
					s.settle()
				} else {
					s.advance(10 * time.Second)
				}
				if left, stays := s.member.Left(); !left || stays {
					t.Errorf("left %t stays %t", left, stays)
				}
				if !s.finished || !errors.Is(s.err, errPoison) || errors.Is(s.err, broker.ErrApplicationStopped) {
					t.Fatalf("finished %t err %v", s.finished, s.err)
				}
			})
		}
	})
}

// Whoever hears that the application is to stop drains, and says who has asked.
func TestUncaught_toldToStop(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		var asked []Uncaught
		s := poisoned(t, eos, func() error { return nil }, replace, &asked)
		s.cluster.Append(tp("in", 0), kv("a", "1"))
		s.settle()
		s.member.Fail(fmt.Errorf("group app: %w: member x: poison", broker.ErrApplicationStopped))
		s.settle()
		s.advance(heldUpMs * time.Millisecond)
		s.wantCommitted(1, -1)
		if !s.finished || !errors.Is(s.err, broker.ErrApplicationStopped) || !strings.Contains(s.err.Error(), "member x: poison") {
			t.Fatalf("finished %t err %v", s.finished, s.err)
		}
	})
}

// A step that panics is asked about as one that fails; so is a task that cannot be opened.
func TestUncaught_panicsAndOpening(t *testing.T) {
	var asked []Uncaught
	s := poisoned(t, false, func() error { panic("boom") }, replace, &asked)
	s.cluster.Append(tp("in", 1), kv("slow", "1"))
	s.settle()
	var p *op.PanicError
	if len(asked) != 1 || !errors.As(asked[0].Err, &p) {
		t.Fatalf("asked %+v", asked)
	}
	s.cluster.Inject(brokertest.Fault{Op: brokertest.OpCommittedOffsets, Err: broker.CodeGroupAuthorizationFailed, Times: 1})
	s.advance(500 * time.Millisecond)
	if len(asked) != 2 || !errors.Is(asked[1].Err, broker.ErrUnauthorized) || asked[1].Times != 2 {
		t.Fatalf("asked %+v", asked)
	}
}
