package kgoclient

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/assign"
	"github.com/millrace-io/millrace/internal/broker"
)

// copies plays what an instance has of tasks' state.
type copies struct {
	mu sync.Mutex
	at map[broker.TaskID]int64
}

func (c *copies) set(at int64, tasks ...broker.TaskID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range tasks {
		c.at[t] = at
	}
}

func (c *copies) positions() map[broker.TaskID]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[broker.TaskID]int64)
	for t, at := range c.at {
		out[t] = at
	}
	return out
}

// A second member makes copies before it gets tasks: the first one runs them all until then, and keeps copies of those that
// it has given up.
func TestMembership_warmupsComeBeforeTasks(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 4, nil)
	topic(t, c, "log", 4, nil)
	cl := rawClient(t, cfg)
	for p := range int32(4) {
		var values []string
		for i := range 50 {
			values = append(values, fmt.Sprint(i))
		}
		produceRaw(t, cl, tp("log", p), values...)
	}
	topology := reads("s", []string{"in"})
	topology.Subtopologies[0].Changelogs = []broker.GroupChangelog{{Topic: "log"}}
	start := func() (*member, *copies) {
		has := &copies{at: make(map[broker.TaskID]int64)}
		mcfg := fast()
		mcfg.Assign, mcfg.Lags, mcfg.Copies = assign.Policy{MaxWarmups: 2, Standbys: 1, AcceptableLag: 10}.Round, true, has.positions
		return join(t, cfg, mcfg, topology), has
	}
	a, _ := start()
	first := a.until(broker.Assigned, hasTasks(4))
	if len(first.Standbys) != 0 || len(first.Warmups) != 0 {
		t.Errorf("alone it is to keep copies of %v and %v", first.Standbys, first.Warmups)
	}
	b, has := start()
	e := b.until(broker.Assigned, func(e broker.MembershipEvent) bool { return len(e.Warmups) > 0 })
	if len(e.Tasks) != 0 || len(e.Warmups)+len(e.Standbys) != 4 || len(e.Warmups) != 2 {
		t.Fatalf("the second member got %v, standbys %v, warm-ups %v", e.Tasks, e.Standbys, e.Warmups)
	}
	has.set(39, e.Warmups...) // 11 behind
	b.Rejoin()
	if again := b.until(broker.Assigned, nil); len(again.Tasks) != 0 || !slices.Equal(again.Warmups, e.Warmups) {
		t.Fatalf("not level yet it got %v, warm-ups %v", again.Tasks, again.Warmups)
	}
	has.set(40, e.Warmups...)
	b.Rejoin()
	settle(t, 4, a, b)
	if !slices.Equal(b.owned, e.Warmups) {
		t.Errorf("it runs %v, and had made copies of %v", b.owned, e.Warmups)
	}
	for !slices.Equal(a.copies, e.Warmups) { // of what it has given up
		a.until(broker.Assigned, nil)
	}
}

// The leader cannot find out where changelogs end: tasks stay where they are.
func TestMembership_unknownEndsMoveNothing(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 2, nil)
	topology := reads("s", []string{"in"})
	topology.Subtopologies[0].Changelogs = []broker.GroupChangelog{{Topic: "missing"}}
	mcfg := fast()
	mcfg.Assign, mcfg.Lags, mcfg.RebalanceTimeout = assign.Policy{MaxWarmups: 1}.Round, true, 600*time.Millisecond
	a := join(t, cfg, mcfg, topology)
	a.until(broker.Assigned, hasTasks(2))
	b := join(t, cfg, mcfg, topology)
	e := b.until(broker.Assigned, nil)
	if len(e.Tasks) != 0 || len(e.Warmups) != 1 {
		t.Errorf("the second member got %v, warm-ups %v", e.Tasks, e.Warmups)
	}
}

// The state of a table that is restored from its source topic is level at the committed offset, however long the topic is.
func TestMembership_endOfAnInputIsItsCommittedOffset(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	cl := rawClient(t, cfg)
	produceRaw(t, cl, tp("in", 0), "a", "b", "c", "d", "e")
	topology := reads("s", []string{"in"})
	topology.Subtopologies[0].Changelogs = []broker.GroupChangelog{{Topic: "in", Input: true}}
	ends := make(chan int64, 100)
	mcfg := fast()
	mcfg.Lags = true
	mcfg.Assign = func(members []broker.GroupMember, tasks []broker.GroupTask) map[string]broker.GroupAssignment {
		ends <- tasks[0].End
		return assign.Round(members, tasks)
	}
	a := join(t, cfg, mcfg, topology)
	e := a.until(broker.Assigned, hasTasks(1))
	if end := <-ends; end != 0 {
		t.Errorf("nothing is committed, and the end is %d", end)
	}
	if err := newAdmin(t, cfg).CommitOffsets(testCtx(t), "app", e.Identity, map[broker.TopicPartition]broker.OffsetMeta{tp("in", 0): {Offset: 3, Epoch: -1}}); err != nil {
		t.Fatal(err)
	}
	a.Rejoin()
	a.until(broker.Assigned, hasTasks(1))
	if end := <-ends; end != 3 {
		t.Errorf("3 is committed, and the end is %d", end)
	}
}
