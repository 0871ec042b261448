// Package assign decides which member of a group runs which task. It is pure: the same members and tasks, in any order,
// give the same result, which matters because every difference costs the group a rebalance.
//
// [Round] is what the group's leader calls. It settles who has what, looks for the best assignment ([Assign]) and goes
// there in two steps where a task moves ([HandOver]).
package assign

import (
	"cmp"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
)

// Assign gives every task to one member and returns the tasks of each member id, sorted; a member without a task has an
// entry too. It does not look at generations: Owned is taken at its word. A member that has a task's state (Stored) is
// preferred where nobody owns the task, and ties are settled by process ids, so that a group that starts again as a whole
// finds the same assignment.
//
// Balance comes first: the numbers of tasks of two members differ by at most one, and so do the numbers of their stateful
// tasks. Within that, as few tasks as possible leave the member that owns them: stateful ones are settled first, for
// themselves, because only they cost a restore. Where there is a choice left, the tasks of one sub-topology are spread
// over the members, since they tend to be equally heavy. A task owned by two members is taken to be owned by the first
// one in the order of process and member id; the caller settles such claims by generation where it can.
//
// A member gets no task that it refuses. Where that leaves no room within the balance, another one gets more than its share;
// a task that all refuse is left out.
//
// It takes O(tasks x members) steps.
//
// In Kafka Streams: StickyTaskAssignor and HighAvailabilityTaskAssignor, which count threads instead of members.
func Assign(members []broker.GroupMember, tasks []broker.GroupTask) map[string][]broker.TaskID {
	g := newGroup(Policy{}, members, tasks)
	return g.byMember(g.target())
}

// assigner looks for the target: who runs which task once every copy is level.
type assigner struct {
	*group
	result [][]int // member -> tasks
	spread []map[int]int
}

// target gives every task to one member; -1 for a task that all refuse.
func (g *group) target() []int {
	target := make([]int, len(g.tasks))
	for t := range target {
		target[t] = -1
	}
	n := len(g.members)
	if n == 0 {
		return target
	}
	a := &assigner{group: g, result: make([][]int, n), spread: make([]map[int]int, n)}
	for m := range a.spread {
		a.spread[m] = make(map[int]int)
	}
	a.settle(a.statefulQuotas(), true)
	a.settle(a.statelessQuotas(), false)
	for m, ts := range a.result {
		for _, t := range ts {
			target[t] = m
		}
	}
	a.keepWhatNeedNotMove(target)
	return target
}

// keepWhatNeedNotMove gives tasks back to the members that own them where the numbers are as even afterwards. Shares are
// planned as if everybody took every task; where some are refused, a plan that is not fulfilled could move a task to and fro.
func (a *assigner) keepWhatNeedNotMove(target []int) {
	count := make([][2]int, len(a.members)) // stateful, all
	for t, m := range target {
		if m >= 0 {
			count[m][1]++
			if a.tasks[t].Stateful {
				count[m][0]++
			}
		}
	}
	for again := true; again; {
		again = false
		for t, m := range target {
			o := a.owner[t]
			if o < 0 || o == m || m < 0 || count[o][1] >= count[m][1] || a.tasks[t].Stateful && count[o][0] >= count[m][0] {
				continue
			}
			target[t], again = o, true
			count[o][1], count[m][1] = count[o][1]+1, count[m][1]-1
			if a.tasks[t].Stateful {
				count[o][0], count[m][0] = count[o][0]+1, count[m][0]-1
			}
		}
	}
}

// count is how many tasks of one kind a member owns, and how many more it has the state of.
func (a *assigner) count(m int, stateful bool) (owned int) {
	for _, t := range a.owned[m] {
		if a.tasks[t].Stateful == stateful {
			owned++
		}
	}
	return owned
}

// stored counts, for each member, the stateful tasks without an owner of which it has the best copy, and those of which it
// has one.
func (a *assigner) stored() (best, any []int) {
	best, any = make([]int, len(a.members)), make([]int, len(a.members))
	for t := range a.tasks {
		if a.owner[t] >= 0 || !a.tasks[t].Stateful {
			continue
		}
		first := -1
		for m := range a.members {
			if !a.state[t][m].stored || !a.takes(m, t) {
				continue
			}
			any[m]++
			if first < 0 || a.compareCopies(t, m, first) < 0 {
				first = m
			}
		}
		if first >= 0 {
			best[first]++
		}
	}
	return best, any
}

func (a *assigner) total(stateful bool) (n int) {
	for _, t := range a.tasks {
		if t.Stateful == stateful {
			n++
		}
	}
	return n
}

// order lists the members by a key, greatest first, ties in the members' own order.
func (a *assigner) order(key func(m int) []int) []int {
	keys := make([][]int, len(a.members))
	ms := make([]int, len(a.members))
	for m := range ms {
		ms[m], keys[m] = m, key(m)
	}
	slices.SortStableFunc(ms, func(x, y int) int { return slices.Compare(keys[y], keys[x]) })
	return ms
}

// statefulQuotas shares out the stateful tasks. The odd ones go to members that would lose a task otherwise, or would not get one
// of which they have the best copy, then any copy: one that comes back to its disk takes up what it had. Then they go to those that
// own most, and to those with few stateless ones, which would have to make room.
func (a *assigner) statefulQuotas() []int {
	total, n := a.total(true), len(a.members)
	quotas := make([]int, n)
	best, any := a.stored()
	over := func(tasks int) int {
		if tasks > total/n {
			return 1
		}
		return 0
	}
	for i, m := range a.order(func(m int) []int {
		owned := a.count(m, true)
		return []int{over(owned), over(owned + best[m]), over(owned + any[m]), owned, best[m], any[m], -a.count(m, false)}
	}) {
		quotas[m] = total / n
		if i < total%n {
			quotas[m]++
		}
	}
	return quotas
}

// statelessQuotas fills each member up to its share of all tasks. Members with a stateful task above the lower share must
// have one of the larger shares; there are always enough of them, as there are at least as many odd tasks in all.
func (a *assigner) statelessQuotas() []int {
	total, n := len(a.tasks), len(a.members)
	base := total / n
	quotas := make([]int, n)
	for i, m := range a.order(func(m int) []int {
		stateful := len(a.result[m])
		forced := 0
		if stateful > base {
			forced = 1
		}
		return []int{forced, a.count(m, false) - (base - stateful)}
	}) {
		quotas[m] = base - len(a.result[m])
		if i < total%n {
			quotas[m]++
		}
		quotas[m] = max(0, quotas[m]) // it may have more stateful ones, because others refuse them
	}
	return quotas
}

// settle assigns the tasks of one kind, as many to each member as its quota says.
func (a *assigner) settle(quotas []int, stateful bool) {
	var free []int
	for t := range a.tasks {
		if a.tasks[t].Stateful == stateful && a.owner[t] < 0 {
			free = append(free, t)
		}
	}
	left := slices.Clone(quotas)
	for m := range a.members {
		keep := a.surplus(m, stateful, quotas[m], &free)
		for _, t := range keep {
			a.give(t, m, left)
		}
	}
	slices.Sort(free)
	rest := free[:0]
	for _, t := range free {
		if m := a.pick(t, a.nearest(t, left), left); m >= 0 {
			a.give(t, m, left)
			continue
		}
		rest = append(rest, t)
	}
	all := make([]int, len(a.members))
	for m := range all {
		all[m] = m
	}
	for _, t := range rest {
		m := a.pick(t, all, left)
		if m < 0 {
			m = a.anyone(t)
		}
		if m >= 0 {
			a.give(t, m, left)
		}
	}
}

// nearest lists the members with room that have the best copy there is of a task; nobody if there is none.
func (a *assigner) nearest(t int, left []int) (best []int) {
	for m := range a.members {
		if !a.state[t][m].stored || left[m] <= 0 || !a.takes(m, t) {
			continue
		}
		if len(best) > 0 {
			order := a.compareCopies(t, m, best[0])
			if order > 0 {
				continue
			}
			if order < 0 {
				best = best[:0]
			}
		}
		best = append(best, m)
	}
	return best
}

// anyone finds the member with fewest tasks that does not refuse one, whatever its share is; -1 if all do.
func (a *assigner) anyone(t int) int {
	best := -1
	for m := range a.members {
		if a.takes(m, t) && (best < 0 || len(a.result[m]) < len(a.result[best])) {
			best = m
		}
	}
	return best
}

// surplus splits what a member owns of one kind: it returns what it keeps and adds the rest to free. It gives up tasks of
// which another member has the best copies (one that has come back, say, or one that was warmed up for it), then those of
// which most have one, then those of the sub-topologies of which it has most.
func (a *assigner) surplus(m int, stateful bool, quota int, free *[]int) []int {
	var keep []int
	per := make(map[int]int)
	for _, t := range a.owned[m] {
		if a.tasks[t].Stateful == stateful {
			keep = append(keep, t)
			per[a.tasks[t].ID.Subtopology]++
		}
	}
	for len(keep) > quota {
		drop := 0
		for i, t := range keep { // tasks are sorted: of equals it is the last one
			d := keep[drop]
			tc, tn := a.elsewhere(t, m)
			dc, dn := a.elsewhere(d, m)
			if cmp.Or(cmp.Compare(dc, tc), cmp.Compare(tn, dn),
				cmp.Compare(per[a.tasks[t].ID.Subtopology], per[a.tasks[d].ID.Subtopology])) >= 0 {
				drop = i
			}
		}
		per[a.tasks[keep[drop]].ID.Subtopology]--
		*free = append(*free, keep[drop])
		keep = slices.Delete(keep, drop, drop+1)
	}
	return keep
}

// elsewhere is the class of the best copy that other members have of a task, and how many have one.
func (a *assigner) elsewhere(t, m int) (class, n int) {
	class = noCopyClass
	for x := range a.members {
		if x != m && a.state[t][x].stored {
			class = min(class, a.class(x, t))
			n++
		}
	}
	return class, n
}

// pick chooses among members with room the one that has fewest tasks of the same sub-topology, then most room.
func (a *assigner) pick(t int, among []int, left []int) int {
	best := -1
	sub := a.tasks[t].ID.Subtopology
	for _, m := range among {
		if left[m] <= 0 || !a.takes(m, t) {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(a.spread[m][sub], a.spread[best][sub]), cmp.Compare(left[best], left[m])) < 0 {
			best = m
		}
	}
	return best
}

func (a *assigner) give(t, m int, left []int) {
	a.result[m] = append(a.result[m], t)
	a.spread[m][a.tasks[t].ID.Subtopology]++
	left[m]--
}
