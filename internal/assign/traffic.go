package assign

import (
	"math"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
)

// Traffic says how much it counts that tasks run in the rack of what they read. It takes effect if every member knows its
// rack and brokers tell theirs.
//
// In Kafka Streams: rack.aware.assignment.strategy with its two costs (KIP-925).
type Traffic struct {
	Strategy TrafficStrategy
	// PerPartition is the cost of a partition without a replica in the member's rack, per task.
	PerPartition int
	// PerMove is the cost of a task on another member than the one that runs it.
	PerMove int
}

// TrafficStrategy is what may be exchanged between members to have less traffic.
type TrafficStrategy uint8

const (
	// AnyTraffic places tasks without regard to racks.
	AnyTraffic TrafficStrategy = iota
	// MinTraffic keeps how many stateful and how many stateless tasks each member has.
	MinTraffic
	// BalanceSubtopology keeps how many tasks of each sub-topology each member has.
	BalanceSubtopology
)

// nearReplicas exchanges tasks between members, as many for as many, until no exchange makes the sum of costs smaller. Then
// there is no better assignment with the same numbers of tasks: it is a flow of least cost, found by cancelling negative
// cycles.
func (g *group) nearReplicas(target []int) {
	if !g.near {
		return
	}
	classes := make(map[int][]int)
	for t := range g.tasks {
		if target[t] < 0 {
			continue
		}
		class := g.tasks[t].ID.Subtopology
		if g.policy.Traffic.Strategy == MinTraffic {
			class = 0
			if g.tasks[t].Stateful {
				class = 1
			}
		}
		classes[class] = append(classes[class], t)
	}
	for _, tasks := range classes { // they do not touch each other
		x := &exchange{group: g, target: target, tasks: tasks}
		x.run()
	}
}

// racksCount tells whether traffic counts in this group.
func (g *group) racksCount() bool {
	return g.policy.Traffic.Strategy != AnyTraffic &&
		!slices.ContainsFunc(g.members, func(m broker.GroupMember) bool { return m.Rack == "" })
}

// traffic is the cost of what a task reads from other racks than a member's; 0 where racks do not count.
func (g *group) traffic(t, m int) (cost int) {
	if !g.near {
		return 0
	}
	for _, racks := range g.tasks[t].Racks {
		if len(racks) > 0 && !slices.Contains(racks, g.members[m].Rack) {
			cost += g.policy.Traffic.PerPartition
		}
	}
	return cost
}

// copyBonus and costUnit make a running copy settle ties, so that the target of a warm-up stays the target.
const (
	costUnit  = 2
	copyBonus = 1
)

// cost is what it costs that a member runs a task; false if it must not.
func (g *group) cost(t, m int) (int, bool) {
	if !g.takes(m, t) {
		return 0, false
	}
	cost := costUnit * g.traffic(t, m)
	if g.owner[t] >= 0 && g.owner[t] != m {
		cost += costUnit * g.policy.Traffic.PerMove
	}
	if g.state[t][m].running {
		cost -= copyBonus
	}
	return cost, true
}

// exchange is one class of tasks that may be exchanged for each other.
type exchange struct {
	*group
	target []int
	tasks  []int
	best   [][]passing // from member, to member
}

// passing is the cheapest task to pass from one member to another.
type passing struct{ task, delta int }

const never = math.MaxInt / 4

func (x *exchange) run() {
	x.best = make([][]passing, len(x.members))
	for m := range x.members {
		x.price(m)
	}
	for {
		cycle := x.negativeCycle()
		if cycle == nil {
			return
		}
		moves := make([]int, len(cycle))
		for i, from := range cycle {
			moves[i] = x.best[from][cycle[(i+1)%len(cycle)]].task
		}
		for i, t := range moves {
			x.target[t] = cycle[(i+1)%len(cycle)]
		}
		for _, m := range cycle {
			x.price(m)
		}
	}
}

// price finds the cheapest tasks to pass on from a member.
func (x *exchange) price(from int) {
	row := make([]passing, len(x.members))
	for to := range row {
		row[to] = passing{task: -1, delta: never}
	}
	for _, t := range x.tasks {
		if x.target[t] != from {
			continue
		}
		here, _ := x.cost(t, from)
		for to := range row {
			if there, ok := x.cost(t, to); ok && to != from && there-here < row[to].delta {
				row[to] = passing{task: t, delta: there - here}
			}
		}
	}
	x.best[from] = row
}

// negativeCycle finds members, each passing a task to the next one, that together save something (Bellman and Ford's way).
func (x *exchange) negativeCycle() []int {
	n := len(x.members)
	dist, before := make([]int, n), make([]int, n)
	for m := range before {
		before[m] = -1
	}
	last := -1
	for range n {
		last = -1
		for from := range n {
			for to, p := range x.best[from] {
				if p.task >= 0 && dist[from]+p.delta < dist[to] {
					dist[to], before[to] = dist[from]+p.delta, from
					last = to
				}
			}
		}
		if last < 0 {
			return nil
		}
	}
	for range n { // back into the cycle
		last = before[last]
	}
	cycle := []int{last}
	for m := before[last]; m != last; m = before[m] {
		cycle = append(cycle, m)
	}
	slices.Reverse(cycle)
	return cycle
}
