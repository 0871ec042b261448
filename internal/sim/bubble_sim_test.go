//go:build synctests

package sim_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/sim"
)

// place is where an instance lives: what a restart finds is what the life before has left there.
type place struct {
	p    *process // nil while nothing runs there
	disk bool
	dir  string
}

// schedule is what a seed fixes: faults and when they come.
type schedule struct {
	b      *bubble
	rng    *rand.Rand
	places []*place
	oracle *watcher
}

// bubbleSeeds are those to run: MILLRACE_SEED names one; otherwise MILLRACE_SIM_SEEDS says how many, behind MILLRACE_SIM_FIRST.
func bubbleSeeds(t *testing.T, normally uint64) (all []uint64) {
	t.Helper()
	number := func(name string, otherwise uint64) uint64 {
		text := os.Getenv(name)
		if text == "" {
			return otherwise
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s=%q: want a number", name, text)
		}
		return n
	}
	if os.Getenv("MILLRACE_SEED") != "" {
		return []uint64{number("MILLRACE_SEED", 0)}
	}
	first := number("MILLRACE_SIM_FIRST", 0)
	for i := range number("MILLRACE_SIM_SEEDS", normally) {
		all = append(all, first+i+1)
	}
	return all
}

// Whole Apps go through faults that a seed chooses, under both guarantees. MILLRACE_SEED=N draws the faults of one seed again;
// how goroutines take turns is not the seed's to say, so it may take several tries to see a failure again.
func TestBubble(t *testing.T) {
	for _, seed := range bubbleSeeds(t, 6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			guarantee := millrace.ExactlyOnceV2
			if seed%3 == 0 {
				guarantee = millrace.AtLeastOnce
			}
			inBubble(t, seed, guarantee, chooseWork, runSchedule)
			if t.Failed() {
				t.Logf("again: MILLRACE_SEED=%d go test -tags synctests -count 20 -run TestBubble$ ./internal/sim", seed)
			}
		})
	}
}

const (
	// settleWithin is how long after the last fault everything may take to come out: a session or a transaction may have to
	// time out first, and tasks wait before they try again.
	settleWithin = 60 * time.Second
	feedEvery    = 250 * time.Millisecond
	feedBatch    = 8
)

// chooseWork lets the seed choose what runs.
func chooseWork(b *bubble) work {
	rng := rand.New(rand.NewPCG(b.seed, 3))
	exactly := b.guarantee == millrace.ExactlyOnceV2
	slow := &slowness{takes: make(map[int64]time.Duration)}
	for range rng.IntN(3) {
		n, d := rng.Int64N(1500), 100*time.Millisecond+time.Duration(rng.Int64N(int64(slowestCall-time.Second)))
		slow.takes[n] = d
		b.trace.note("the user's function takes %v at its call %d", d, n)
	}
	all := sim.Workloads()
	if i := rng.IntN(len(all) + 2); i < len(all) {
		cached := rng.IntN(4) == 0
		b.trace.note("%s, cached: %v", all[i].Name, cached)
		if cached {
			delete(b.properties, "statestore.cache.max.bytes")
		}
		return newShared(all[i], sim.Variant{Cached: cached, Inside: slow.inside}, rng, exactly)
	}
	w := newNumbered(6+rng.IntN(10), exactly)
	w.slow = slow
	return w
}

func runSchedule(b *bubble) {
	rng := rand.New(rand.NewPCG(b.seed, 2))
	if rng.IntN(4) == 0 {
		b.latency = 40 * time.Millisecond
	}
	b.properties["max.poll.interval.ms"] = strconv.Itoa([]int{3000, 300_000}[rng.IntN(2)])
	b.properties["commit.interval.ms"] = strconv.Itoa([]int{50, 200, 200, 1000}[rng.IntN(4)])
	s := &schedule{b: b, rng: rng}
	for range 2 + rng.IntN(2) {
		s.places = append(s.places, &place{disk: rng.IntN(4) > 0})
	}
	faultsFor := time.Duration(20+rng.IntN(30)) * time.Second
	if rng.IntN(2) == 0 {
		b.properties["num.standby.replicas"] = "1"
		b.trace.note("each task has a copy")
	}
	var unwatch func()
	s.oracle, unwatch = b.watch()
	defer unwatch()
	for _, l := range s.places {
		s.startAt(l)
	}
	stopFeed := b.feedUntil(faultsFor)
	s.faults(faultsFor)
	b.heal()
	for _, l := range s.places {
		if l.p == nil {
			s.startAt(l)
		}
	}
	stopFeed()
	s.settle("everything is processed", func() string { return b.behind() })
	if err := b.write(b.work.last()); err != nil {
		b.t.Fatal(err)
	}
	s.settle("everything has come out", func() string {
		if err := b.work.complete(); err != nil {
			return err.Error()
		}
		return ""
	})
	for _, l := range s.places {
		if l.p.alive() {
			b.stop(l.p)
		}
	}
	for _, p := range b.processes {
		b.await(p, stopWithin)
	}
	if err := s.oracle.err(); err != nil {
		b.t.Error(err)
	}
	b.checkEnd()
}

// feedUntil feeds the input beside the test. The function returned waits for its end.
func (b *bubble) feedUntil(d time.Duration) func() {
	done := make(chan error, 1)
	end := time.Now().Add(d)
	go func() {
		for time.Now().Before(end) {
			if err := b.feed(feedBatch); err != nil {
				done <- err
				return
			}
			time.Sleep(feedEvery)
		}
		done <- nil
	}()
	return func() {
		if err := <-done; err != nil {
			b.t.Fatalf("the input cannot be written: %v", err)
		}
	}
}

func (s *schedule) startAt(l *place) {
	if l.disk && l.dir == "" {
		l.dir = s.b.newDir()
	}
	l.p = s.b.start(s.b.instanceName(), l.dir)
}

// faults lets faults happen for a while.
func (s *schedule) faults(d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		next := time.NewTimer(time.Duration(1 + s.rng.ExpFloat64()*float64(1500*time.Millisecond)))
		select {
		case <-next.C:
			s.fault()
		case p := <-s.b.trapped:
			s.died(p)
		case p := <-s.b.ended:
			s.over(p)
		case <-end.C:
			next.Stop()
			return
		}
		next.Stop()
		if err := s.oracle.err(); err != nil {
			s.b.t.Fatal(err)
		}
	}
}

// settle waits until nothing is missing.
func (s *schedule) settle(what string, missing func() string) {
	b := s.b
	begin := time.Now()
	for text := missing(); text != ""; text = missing() {
		next := time.NewTimer(100 * time.Millisecond)
		select {
		case <-next.C:
		case p := <-b.trapped: // it had sprung before everything was well
			s.died(p)
			s.restart()
		case p := <-b.ended:
			s.over(p)
			s.restart()
		}
		next.Stop()
		if err := s.oracle.err(); err != nil {
			b.t.Fatal(err)
		}
		if time.Since(begin) > settleWithin {
			b.t.Fatalf("%v after the last fault it is not yet so that %s: %s; %s", settleWithin, what, text, b.standing())
		}
	}
	b.trace.note("%s, after %v", what, time.Since(begin))
}

// restart starts again where a process has ended.
func (s *schedule) restart() {
	for _, l := range s.places {
		if l.p == nil {
			s.startAt(l)
		}
	}
}

// running picks a place at which an instance runs, nil if there is none.
func (s *schedule) running() *place {
	return s.pick(func(l *place) bool { return l.p != nil && l.p.alive() })
}

func (s *schedule) pick(want func(*place) bool) *place {
	at := s.rng.IntN(len(s.places))
	for i := range s.places {
		if l := s.places[(at+i)%len(s.places)]; want(l) {
			return l
		}
	}
	return nil
}

// fault lets one fault happen.
func (s *schedule) fault() {
	b, rng := s.b, s.rng
	l := s.running()
	what := rng.IntN(100)
	switch {
	case what < 35:
		b.refuse(rng)
	case what < 45:
		b.move(rng)
	case what < 50:
		b.outage(rng)
	case l == nil || what < 60:
		if down := s.pick(func(l *place) bool { return l.p == nil }); down != nil {
			s.startAt(down)
		}
	case what < 68:
		b.trap(rng, l.p, trapCut)
	case what < 74:
		b.trap(rng, l.p, trapLate)
	case what < 78:
		b.trap(rng, l.p, trapStall)
	case what < 82:
		b.trace.note("%s: all its connections break", l.p.name)
		l.p.link.cut("")
	case what < 86:
		d := b.pause(rng)
		b.trace.note("%s: stands still for %v", l.p.name, d)
		l.p.link.stall()
		time.AfterFunc(d, l.p.link.goOn)
	case what < 92:
		b.trap(rng, l.p, trapKill)
	case what < 96:
		s.died(l.p)
	default:
		b.trace.note("%s: told to stop", l.p.name)
		l.p.cancel()
		l.p.stopped = true
	}
}

// died takes the death of a process: of its disk, what was written is still there.
func (s *schedule) died(p *process) {
	for _, l := range s.places {
		if l.p != p {
			continue
		}
		l.dir = s.b.kill(p)
		if l.dir != "" && s.rng.IntN(5) == 0 {
			s.b.trace.note("%s: its disk is lost", p.name)
			l.dir = ""
		}
		l.p = nil
		if s.rng.IntN(2) == 0 {
			s.startAt(l)
		}
	}
}

// over takes the end of a Run.
func (s *schedule) over(p *process) {
	for _, l := range s.places {
		if l.p == p {
			l.p = nil
			if p.err != nil && !s.excused(p) {
				s.b.t.Errorf("%s: Run returned by itself: %v", p.name, p.err)
			}
		}
	}
}

// excused tells whether a Run may have ended with its error.
func (s *schedule) excused(p *process) bool { return false }
