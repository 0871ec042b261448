package assign

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-io/millrace/internal/broker"
)

// There is no assignment with the same numbers of tasks that costs less: all of them are tried.
func TestNearReplicas_costsLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		racks := []string{"a", "b", "c"}
		strategy := rapid.SampledFrom([]TrafficStrategy{MinTraffic, BalanceSubtopology}).Draw(t, "strategy")
		p := Policy{Traffic: Traffic{strategy, rapid.IntRange(0, 10).Draw(t, "per partition"), rapid.IntRange(0, 10).Draw(t, "per move")}}
		ms := memberNames(rapid.IntRange(1, 3).Draw(t, "members"))
		for i := range ms {
			ms[i].Rack = rapid.SampledFrom(racks).Draw(t, "rack")
		}
		var tasks []broker.GroupTask
		for i := range rapid.IntRange(1, 6).Draw(t, "tasks") {
			task := broker.GroupTask{ID: broker.TaskID{Subtopology: i % 2, Partition: int32(i)}, Stateful: i%2 == 0}
			for range rapid.IntRange(0, 2).Draw(t, "partitions") {
				task.Racks = append(task.Racks, rapid.SliceOfN(rapid.SampledFrom(racks), 1, 2).Draw(t, "replicas"))
			}
			tasks = append(tasks, task)
			if m := rapid.IntRange(-1, len(ms)-1).Draw(t, "owner"); m >= 0 {
				ms[m].Owned = append(ms[m].Owned, task.ID)
			}
		}
		g := newGroup(p, ms, tasks)
		target := g.target()
		numbers := g.numbers(target)
		g.nearReplicas(target)
		if got := g.numbers(target); got != numbers {
			t.Fatalf("tasks per member %s, were %s", got, numbers)
		}
		least := never
		try := make([]int, len(tasks))
		var all func(t int)
		all = func(t int) {
			if t == len(tasks) {
				if g.numbers(try) == numbers {
					least = min(least, g.sum(try))
				}
				return
			}
			for m := range ms {
				try[t] = m
				all(t + 1)
			}
		}
		all(0)
		if got := g.sum(target); got != least {
			t.Fatalf("it costs %d, and could cost %d", got, least)
		}
	})
}

// numbers says how many tasks of each class each member has.
func (g *group) numbers(target []int) string {
	n := make(map[[2]int]int)
	for t, m := range target {
		class := g.tasks[t].ID.Subtopology // here all tasks of a sub-topology are of one kind, and of another kind than the rest
		n[[2]int{class, m}]++
	}
	return fmt.Sprint(n)
}

func (g *group) sum(target []int) (sum int) {
	for t, m := range target {
		c, _ := g.cost(t, m)
		sum += c
	}
	return sum
}

// A member that does not know its rack makes nothing of it.
func TestNearReplicas_needsAllRacks(t *testing.T) {
	ms := memberNames(2)
	ms[0].Rack = "a"
	tasks := []broker.GroupTask{{ID: broker.TaskID{Partition: 0}, Racks: [][]string{{"a"}}}, {ID: broker.TaskID{Partition: 1}, Racks: [][]string{{"b"}}}}
	ms[0].Owned, ms[1].Owned = []broker.TaskID{tasks[1].ID}, []broker.TaskID{tasks[0].ID}
	p := Policy{Traffic: Traffic{MinTraffic, 10, 1}}
	if got := p.Round(ms, tasks); len(got["m00"].GiveUp) != 0 {
		t.Errorf("%+v", got)
	}
	ms[1].Rack = "b"
	if got := p.Round(ms, tasks); len(got["m00"].GiveUp) != 1 || len(got["m01"].GiveUp) != 1 {
		t.Errorf("%+v", got)
	}
}
