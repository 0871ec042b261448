package runtime

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/topology"
)

// pair is two instances of an application in one group.
type pair struct {
	c    *brokertest.Cluster
	a, b *stepper
}

func newPair(t *testing.T, topo *topology.Topology, options func(s string) []stepOption) *pair {
	t.Helper()
	c := cluster()
	p := &pair{c: c, a: newStepper(t, c, topo, options("a")...), b: newStepper(t, c, topo, options("b")...)}
	p.settle()
	return p
}

func (p *pair) settle() {
	p.a.t.Helper()
	p.a.settle()
	p.b.settle()
}

func (p *pair) advance(d time.Duration) {
	p.a.t.Helper()
	p.a.advance(d)
	p.b.advance(d)
}

// give makes a round of the group.
func (p *pair) give(toA, toB []broker.TaskID) {
	p.a.t.Helper()
	p.a.group.Assign(map[*brokertest.Membership][]broker.TaskID{p.a.member: toA, p.b.member: toB})
	p.settle()
}

// reads counts what a store was restored with, of one partition of the changelog.
func reads(c *brokertest.Cluster) int { return len(c.Calls(brokertest.OpRead)) }

// kinds of stores and guarantees under which copies are tested.
func standbyKinds(t *testing.T, test func(t *testing.T, topo *topology.Topology, options func(string) []stepOption)) {
	for _, disk := range []bool{false, true} {
		for _, eos := range []bool{false, true} {
			name, topo := "memory", countTopology
			if disk {
				name, topo = "disk", diskTopology
			}
			if eos {
				name += ", exactly once"
			}
			t.Run(name, func(t *testing.T) {
				test(t, topo(t), func(id string) []stepOption {
					var all []stepOption
					if disk {
						all = append(all, onDisk(t, vfs.NewMem(), nil))
					}
					if eos {
						all = append(all, transactional("app-"+id))
					}
					return all
				})
			})
		}
	}
}

// A copy follows what the other instance commits, and is the task's state when the other one is gone: its restore reads
// nothing that the copy has read.
func TestStandby_takesOver(t *testing.T) {
	standbyKinds(t, func(t *testing.T, topo *topology.Topology, options func(string) []stepOption) {
		p := newPair(t, topo, options)
		k := keyOf(0)
		p.b.member.Copies([]broker.TaskID{t0}, nil)
		p.give([]broker.TaskID{t0}, nil)
		p.c.Append(tp("in", 0), kv(k, "1"))
		p.advance(100 * time.Millisecond)
		p.c.Append(tp("in", 0), kv(k, "2"))
		p.advance(100 * time.Millisecond)
		p.advance(100 * time.Millisecond)
		sb := p.b.machine.standbyOf(t0)
		if sb == nil || sb.phase != standbyFollowing || !sb.level || sb.behind.Load() != 0 {
			t.Fatalf("the copy: %+v", sb)
		}
		if end := int64(len(p.c.Records(tp("app-counts-changelog", 0)))); sb.at.Load() < end || end != 2 {
			t.Fatalf("the copy is at %d of %d", sb.at.Load(), end)
		}
		before := reads(p.c)
		p.a.group.Expire(p.a.member)
		p.b.group.Assign(map[*brokertest.Membership][]broker.TaskID{p.b.member: {t0}})
		p.b.settle()
		if n := reads(p.c) - before; n != 0 {
			t.Errorf("the changelog was read %d times to take over", n)
		}
		if v := p.b.stored(t0, k); v != "2" {
			t.Errorf("the state says %q", v)
		}
		if len(p.b.machine.standbys) != 0 {
			t.Error("the copy is there beside the task")
		}
		p.c.Append(tp("in", 0), kv(k, "3"))
		p.b.advance(100 * time.Millisecond)
		p.b.advance(100 * time.Millisecond)
		if got := outputs(p.c); !slices.Equal(got, []string{k + "=1", k + "=2", k + "=3"}) {
			t.Errorf("outputs %v", got)
		}
	})
}

// A task that moves to a copy of it leaves one behind, which follows in turn.
func TestStandby_changesPlaces(t *testing.T) {
	standbyKinds(t, func(t *testing.T, topo *topology.Topology, options func(string) []stepOption) {
		p := newPair(t, topo, options)
		k := keyOf(0)
		one := []broker.TaskID{t0}
		p.a.member.Copies(one, nil)
		p.b.member.Copies(one, nil)
		p.give(one, nil)
		for n := range 6 {
			p.c.Append(tp("in", 0), kv(k, string(rune('a'+n))))
			p.advance(100 * time.Millisecond)
			p.advance(100 * time.Millisecond)
			p.give(nil, nil) // given up first
			if n%2 == 0 {
				p.give(nil, one)
			} else {
				p.give(one, nil)
			}
		}
		p.advance(100 * time.Millisecond)
		want := []string{k + "=a", k + "=b", k + "=c", k + "=d", k + "=e", k + "=f"}
		if got := outputs(p.c); !slices.Equal(got, want) {
			t.Errorf("outputs %v", got)
		}
		if v := p.a.stored(t0, k); v != "f" {
			t.Errorf("the state says %q", v)
		}
		if sb := p.b.machine.standbyOf(t0); sb == nil || sb.phase != standbyFollowing {
			t.Errorf("the copy: %+v", sb)
		}
	})
}

// A warm-up asks for its task when it is level, and again after a while if it does not get it.
func TestStandby_warmUpAsksForItsTask(t *testing.T) {
	p := newPair(t, countTopology(t), func(string) []stepOption { return nil })
	one := []broker.TaskID{t0}
	p.c.Append(tp("in", 0), kv(keyOf(0), "1"))
	p.give(one, nil)
	p.advance(100 * time.Millisecond)
	p.b.member.Copies(nil, one)
	p.give(one, nil)
	if n := p.b.member.Rejoins(); n != 1 {
		t.Fatalf("it asked %d times when it was level", n)
	}
	p.give(one, nil) // the leader finds it behind
	p.advance(time.Second)
	if n := p.b.member.Rejoins(); n != 1 {
		t.Errorf("it asked %d times within a second", n)
	}
	p.advance(1100 * time.Millisecond)
	if n := p.b.member.Rejoins(); n != 2 {
		t.Errorf("it asked %d times in two seconds", n)
	}
	p.advance(2 * time.Second)
	if n := p.b.member.Rejoins(); n != 2 {
		t.Errorf("it asked %d times in four seconds, and waits longer each time", n)
	}
	p.b.member.Copies(one, nil) // a standby now
	p.give(one, nil)
	p.advance(time.Hour)
	if n := p.b.member.Rejoins(); n != 2 {
		t.Errorf("a standby asked: %d times", n)
	}
}

// What fails is tried again, and stops nothing.
func TestStandby_failures(t *testing.T) {
	for name, fault := range map[string]brokertest.Fault{
		"read":      {Op: brokertest.OpRead, Err: errors.New("broken"), Times: 3},
		"ends":      {Op: brokertest.OpListOffsets, Err: broker.ErrUnreachable, Times: 3},
		"committed": {Op: brokertest.OpCommittedOffsets, Err: broker.ErrUnreachable, Times: 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, countTopology(t), func(string) []stepOption { return nil })
			p.c.Append(tp("in", 0), kv(keyOf(0), "1"))
			p.give([]broker.TaskID{t0}, nil)
			p.advance(100 * time.Millisecond)
			p.c.Inject(fault)
			p.b.member.Copies([]broker.TaskID{t0}, nil)
			p.give([]broker.TaskID{t0}, nil)
			for range 10 {
				p.advance(5 * time.Second)
			}
			if sb := p.b.machine.standbyOf(t0); sb == nil || sb.phase != standbyFollowing || sb.at.Load() != 1 {
				t.Errorf("the copy: %+v", sb)
			}
			if p.b.finished {
				t.Errorf("the instance stopped: %v", p.b.err)
			}
		})
	}
}

// Whatever the group says in whatever order: a copy that is not wanted is closed, one that is wanted again goes on, and the end
// waits for all of them.
func TestStandby_wantedAndNot(t *testing.T) {
	standbyKinds(t, func(t *testing.T, topo *topology.Topology, options func(string) []stepOption) {
		p := newPair(t, topo, options)
		k := keyOf(0)
		one := []broker.TaskID{t0}
		p.c.Append(tp("in", 0), kv(k, "1"))
		p.give(one, nil)
		p.advance(100 * time.Millisecond)
		rounds := []struct {
			copies []broker.TaskID
			b      []broker.TaskID
		}{{one, nil}, {nil, nil}, {one, nil}, {nil, one}, {one, nil}, {one, one}, {one, nil}}
		p.give(nil, nil)
		p.b.auto = false // what is ordered is not carried out before the next round
		for _, r := range rounds {
			p.b.member.Copies(r.copies, nil)
			p.b.group.Assign(map[*brokertest.Membership][]broker.TaskID{p.b.member: r.b})
			for p.b.once() {
			}
		}
		p.b.auto = true
		p.b.settle()
		p.b.advance(10 * time.Second)
		if sb := p.b.machine.standbyOf(t0); sb == nil || sb.phase != standbyFollowing || sb.at.Load() < 1 {
			t.Errorf("the copy: %+v", sb)
		}
		p.b.step(Stop{})
		p.b.settle()
		if !p.b.finished || p.b.err != nil || len(p.b.machine.standbys) != 0 || len(p.b.follows) != 0 {
			t.Errorf("finished %t, error %v, copies %d; the trace ends\n%s", p.b.finished, p.b.err, len(p.b.machine.standbys),
				strings.Join(p.b.lines[max(0, len(p.b.lines)-20):], "\n"))
		}
	})
}
