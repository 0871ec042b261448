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
	a := newAssigner(members, tasks)
	out := make(map[string][]broker.TaskID, len(a.members))
	if len(a.members) == 0 {
		return out
	}
	a.settle(a.statefulQuotas(), true)
	a.settle(a.statelessQuotas(), false)
	for m := range a.members {
		ids := make([]broker.TaskID, len(a.result[m]))
		for i, t := range a.result[m] {
			ids[i] = a.tasks[t].ID
		}
		broker.SortTasks(ids)
		out[a.members[m].ID] = ids
	}
	return out
}

type assigner struct {
	members []broker.GroupMember // sorted
	tasks   []broker.GroupTask   // sorted
	owned   [][]int              // member -> tasks, sorted
	owner   []int                // task -> member, -1 nobody
	stored  [][]int              // task -> members that have its state, sorted
	refused []map[int]bool       // member -> tasks that it refuses; nil for most
	result  [][]int              // member -> tasks
	spread  []map[int]int
}

func newAssigner(members []broker.GroupMember, tasks []broker.GroupTask) *assigner {
	a := &assigner{members: slices.Clone(members), tasks: slices.Clone(tasks)}
	slices.SortFunc(a.members, func(x, y broker.GroupMember) int {
		return cmp.Or(cmp.Compare(x.ProcessID, y.ProcessID), cmp.Compare(x.ID, y.ID))
	})
	seen := make(map[string]bool, len(members))
	a.members = slices.DeleteFunc(a.members, func(m broker.GroupMember) bool {
		dup := seen[m.ID]
		seen[m.ID] = true
		return dup
	})
	slices.SortStableFunc(a.tasks, func(x, y broker.GroupTask) int { return x.ID.Compare(y.ID) })
	a.tasks = slices.CompactFunc(a.tasks, func(x, y broker.GroupTask) bool { return x.ID == y.ID })

	index := make(map[broker.TaskID]int, len(a.tasks))
	a.owner = make([]int, len(a.tasks))
	a.stored = make([][]int, len(a.tasks))
	for i, t := range a.tasks {
		index[t.ID] = i
		a.owner[i] = -1
	}
	n := len(a.members)
	a.owned, a.result, a.spread = make([][]int, n), make([][]int, n), make([]map[int]int, n)
	a.refused = make([]map[int]bool, n)
	for m, mem := range a.members {
		a.spread[m] = make(map[int]int)
		for _, id := range mem.Refused {
			if t, ok := index[id]; ok {
				if a.refused[m] == nil {
					a.refused[m] = make(map[int]bool)
				}
				a.refused[m][t] = true
			}
		}
		for _, id := range mem.Owned {
			if t, ok := index[id]; ok && a.owner[t] < 0 && !a.refused[m][t] {
				a.owner[t] = m
				a.owned[m] = append(a.owned[m], t)
			}
		}
		slices.Sort(a.owned[m])
	}
	for m, mem := range a.members {
		for _, id := range mem.Stored {
			if t, ok := index[id]; ok && !a.refused[m][t] && !slices.Contains(a.stored[t], m) {
				a.stored[t] = append(a.stored[t], m)
			}
		}
	}
	return a
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

func (a *assigner) storedCount(m int) (n int) {
	for t := range a.tasks {
		if a.owner[t] < 0 && a.tasks[t].Stateful && slices.Contains(a.stored[t], m) {
			n++
		}
	}
	return n
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

// statefulQuotas shares out the stateful tasks. The odd ones go to the members that own (then: have the state of) most,
// because there they need not move; then to those with few stateless ones, which would have to make room.
func (a *assigner) statefulQuotas() []int {
	total, n := a.total(true), len(a.members)
	quotas := make([]int, n)
	for i, m := range a.order(func(m int) []int {
		return []int{a.count(m, true), a.storedCount(m), -a.count(m, false)}
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
		if m := a.pick(t, a.stored[t], left); m >= 0 {
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

// anyone finds the member with fewest tasks that does not refuse one, whatever its share is; -1 if all do.
func (a *assigner) anyone(t int) int {
	best := -1
	for m := range a.members {
		if !a.refused[m][t] && (best < 0 || len(a.result[m]) < len(a.result[best])) {
			best = m
		}
	}
	return best
}

// surplus splits what a member owns of one kind: it returns what it keeps and adds the rest to free. It gives up tasks
// whose state another member has on disk (one that has come back, say), then those of the sub-topologies of which it has
// most.
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
			if cmp.Or(cmp.Compare(a.elsewhere(t, m), a.elsewhere(d, m)),
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

// elsewhere counts the other members that have a task's state.
func (a *assigner) elsewhere(t, m int) (n int) {
	for _, x := range a.stored[t] {
		if x != m {
			n++
		}
	}
	return n
}

// pick chooses among members with room the one that has fewest tasks of the same sub-topology, then most room.
func (a *assigner) pick(t int, among []int, left []int) int {
	best := -1
	sub := a.tasks[t].ID.Subtopology
	for _, m := range among {
		if left[m] <= 0 || a.refused[m][t] {
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
