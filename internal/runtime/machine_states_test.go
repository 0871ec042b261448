package runtime

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/op"
)

// drawnStates are the ways between the states of an instance that docs/state-machine.md draws.
func drawnStates(t *testing.T) map[[2]string]bool {
	t.Helper()
	page, err := os.ReadFile("../../docs/state-machine.md")
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile("(?s)## The instance.*?```mermaid(.*?)```").FindSubmatch(page)
	if section == nil {
		t.Fatal("docs/state-machine.md draws no states of the instance")
	}
	drawn := make(map[[2]string]bool)
	for _, m := range regexp.MustCompile(`(?m)^\s*(\w+) --> (\w+)`).FindAllSubmatch(section[1], -1) {
		drawn[[2]string{string(m[1]), string(m[2])}] = true
	}
	for s := StateCreated; s <= StateFailed; s++ {
		known := false
		for way := range drawn {
			known = known || way[0] == s.String() || way[1] == s.String()
		}
		if !known {
			t.Errorf("state %v is not drawn", s)
		}
	}
	return drawn
}

// An instance to which anything happens in any order goes the ways that are drawn and no others; it says that it runs when all its
// tasks do, and ends stopped without an error and failed with one.
func TestStates_randomWalk(t *testing.T) {
	drawn := drawnStates(t)
	gone := make(map[[2]string]int)
	seeds := make([]uint64, 0, 200)
	for i := range uint64(200) {
		seeds = append(seeds, i+1)
	}
	if *randomSeed != 0 {
		seeds = []uint64{*randomSeed}
	}
	for _, seed := range seeds {
		walkStates(t, seed, drawn, gone)
		if t.Failed() {
			t.Fatalf("run it again with go test -run %s ./internal/runtime -seed %d", t.Name(), seed)
		}
	}
	// What is drawn of the machine's part happens. The start is not stepped.
	for way := range drawn {
		if way[0] != "created" && !(way[0] == "starting" && way[1] != "rebalancing") && gone[way] == 0 && *randomSeed == 0 {
			t.Errorf("nobody has gone from %s to %s", way[0], way[1])
		}
	}
}

func walkStates(t *testing.T, seed uint64, drawn map[[2]string]bool, gone map[[2]string]int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 11))
	var asked []Uncaught
	verdict := func(Uncaught) Verdict {
		return []Verdict{ReplaceTask, ReplaceTask, ReplaceTask, StopInstance, StopApplication}[rng.IntN(5)]
	}
	bad := func() error {
		if rng.IntN(3) == 0 {
			return nil
		}
		return errPoison
	}
	s := poisonedAtStart(t, rng.IntN(2) == 0, bad, verdict, &asked)
	at, last := "starting", 0
	check := func(what string) {
		t.Helper()
		for ; last < len(s.states); last++ {
			way := [2]string{at, s.states[last].String()}
			if !drawn[way] {
				t.Errorf("seed %d: from %s to %s, after %s", seed, way[0], way[1], what)
			}
			gone[way]++
			at = way[1]
		}
		if at != s.machine.State().String() {
			t.Errorf("seed %d: it has told %s and is %v", seed, at, s.machine.State())
		}
		if at == "running" {
			for _, task := range s.machine.slots {
				if task.phase != phaseRunning || task.closing != closeNot {
					t.Errorf("seed %d: it runs, and task %s is %v", seed, task.name, task.phase)
				}
			}
		}
	}
	tasks := func() (all []broker.TaskID) {
		for p := range int32(2) {
			if rng.IntN(3) > 0 {
				all = append(all, broker.TaskID{Partition: p})
			}
		}
		return all
	}
	for range 60 {
		what := ""
		switch n := rng.IntN(16); {
		case n < 3 && !s.member.Revoking():
			if left, _ := s.member.Left(); !left {
				what = "an assignment"
				s.group.Assign(map[*brokertest.Membership][]broker.TaskID{s.member: tasks()})
			}
		case n < 6:
			what = "records"
			key := []string{"a", "a", "a", "slow"}[rng.IntN(4)]
			s.cluster.Append(tp("in", int32(rng.IntN(2))), kv(key, "1"))
		case n == 6:
			what = "a loss"
			if left, _ := s.member.Left(); !left && !s.member.Revoking() {
				s.member.Lose(true)
			}
		case n == 7:
			what = "pause"
			s.step(Hold{})
		case n < 10:
			what = "resume"
			s.step(GoOn{})
		case n == 10 && rng.IntN(8) == 0:
			what = "a stop"
			s.step(Stop{})
		case n == 11 && rng.IntN(20) == 0:
			what = "an end at once"
			s.step(Abandon{})
		case n == 12 && rng.IntN(10) == 0:
			what = "an error of the group"
			s.member.Fail([]error{broker.ErrTopologyMismatch, broker.ErrApplicationStopped, broker.ErrUnreachable}[rng.IntN(3)])
		case n == 13:
			what = "questions that wait"
			s.keep = !s.keep
		default:
			what = "time"
			if err := s.clock.Advance(time.Duration(rng.IntN(2000)) * time.Millisecond); err != nil {
				t.Fatal(err)
			}
			s.step(Tick{})
		}
		check(what)
		for range rng.IntN(40) {
			if !s.once() {
				break
			}
			check("what followed from " + what)
		}
		if s.finished {
			break
		}
	}
	s.keep = false
	s.step(GoOn{})
	s.step(Stop{})
	for range 200 {
		s.settle()
		check("the end")
		if s.finished {
			break
		}
		s.advance(100 * time.Millisecond)
	}
	if !s.finished {
		t.Errorf("seed %d: it does not end", seed)
		return
	}
	if want := map[bool]string{true: "stopped", false: "failed"}[s.err == nil]; at != want {
		t.Errorf("seed %d: it has ended %s, with %v", seed, at, s.err)
	}
	var fatal *op.FatalError
	if s.err != nil && !errors.As(s.err, &fatal) && !errors.Is(s.err, broker.ErrTopologyMismatch) && !errors.Is(s.err, broker.ErrApplicationStopped) {
		t.Error(fmt.Errorf("seed %d: %w", seed, s.err))
	}
}

// An instance that cannot even be started says so to whoever listens.
func TestRunner_cannotRun(t *testing.T) {
	var at, told []State
	NewRunner(RunnerConfig{
		SetState: func(s State) { at = append(at, s) }, OnState: func(s State) { told = append(told, s) },
	}).CannotRun(errors.New("no memory"))
	if len(at) != 1 || len(told) != 1 || at[0] != StateFailed || told[0] != StateFailed {
		t.Errorf("state %v, told %v", at, told)
	}
}
