package assign

import (
	"cmp"
	"math"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
)

// group is a round's members and tasks, in an order that does not depend on how they came, and what is known of them.
// Members and tasks are numbers from here on.
type group struct {
	policy  Policy
	members []broker.GroupMember // sorted
	tasks   []broker.GroupTask   // sorted
	index   map[broker.TaskID]int
	owned   [][]int        // member -> tasks, sorted
	owner   []int          // task -> member, -1 nobody
	state   [][]copyState  // task -> member
	refused []map[int]bool // member -> tasks that it refuses; nil for most
	near    bool           // racks count
}

// copyState is what a member has of a task's state.
type copyState struct {
	stored  bool  // something, at least
	running bool  // as a standby or warm-up, which is still being kept up
	behind  int64 // how many records of the changelogs it lacks; math.MaxInt64 if that is unknown
}

func newGroup(p Policy, members []broker.GroupMember, tasks []broker.GroupTask) *group {
	g := &group{policy: p, members: slices.Clone(members), tasks: slices.Clone(tasks)}
	slices.SortFunc(g.members, func(x, y broker.GroupMember) int {
		return cmp.Or(cmp.Compare(x.ProcessID, y.ProcessID), cmp.Compare(x.ID, y.ID))
	})
	seen := make(map[string]bool, len(members))
	g.members = slices.DeleteFunc(g.members, func(m broker.GroupMember) bool {
		dup := seen[m.ID]
		seen[m.ID] = true
		return dup
	})
	slices.SortStableFunc(g.tasks, func(x, y broker.GroupTask) int { return x.ID.Compare(y.ID) })
	g.tasks = slices.CompactFunc(g.tasks, func(x, y broker.GroupTask) bool { return x.ID == y.ID })

	n := len(g.members)
	g.index = make(map[broker.TaskID]int, len(g.tasks))
	g.owner = make([]int, len(g.tasks))
	g.state = make([][]copyState, len(g.tasks))
	all := make([]copyState, len(g.tasks)*n)
	for t, task := range g.tasks {
		g.index[task.ID] = t
		g.owner[t] = -1
		g.state[t] = all[t*n : (t+1)*n : (t+1)*n]
		for m := range g.members {
			g.state[t][m].behind = lag(task, 0)
		}
	}
	g.owned, g.refused = make([][]int, n), make([]map[int]bool, n)
	for m := range g.members {
		g.enter(m)
	}
	g.near = g.racksCount()
	return g
}

// enter notes what a member says of itself.
func (g *group) enter(m int) {
	who := g.members[m]
	for _, id := range who.Refused {
		if t, ok := g.index[id]; ok {
			if g.refused[m] == nil {
				g.refused[m] = make(map[int]bool)
			}
			g.refused[m][t] = true
		}
	}
	note := func(ids []broker.TaskID, running bool) {
		for _, id := range ids {
			if t, ok := g.index[id]; ok && !g.refused[m][t] {
				s := &g.state[t][m]
				s.stored, s.running = true, s.running || running
				s.behind = lag(g.tasks[t], who.Positions[id])
			}
		}
	}
	note(who.Stored, false)
	note(who.Standbys, true)
	for _, id := range who.Owned {
		if t, ok := g.index[id]; ok && g.owner[t] < 0 && !g.refused[m][t] {
			g.owner[t] = m
			g.owned[m] = append(g.owned[m], t)
			g.state[t][m] = copyState{stored: true, running: true}
		}
	}
	slices.Sort(g.owned[m])
}

// lag is how far a position is behind the end of a task's changelogs. Who does not say how far a copy is, is at 0.
func lag(t broker.GroupTask, at int64) int64 {
	if !t.Stateful {
		return 0
	}
	if t.End < 0 {
		return math.MaxInt64
	}
	return max(0, t.End-at)
}

// level tells whether a member could take a task at once.
func (g *group) level(m, t int) bool { return g.state[t][m].behind <= g.policy.AcceptableLag }

// class orders the copies of a task: the lower, the sooner it is to be used.
func (g *group) class(m, t int) int {
	s := g.state[t][m]
	switch {
	case s.running && g.level(m, t):
		return 0
	case s.stored && g.level(m, t):
		return 1
	case s.running:
		return 2
	case s.stored:
		return 3
	default:
		return noCopyClass
	}
}

// noCopyClass is the class where there is no copy.
const noCopyClass = 4

// compareCopies orders two members by their copies of a task, the better one first.
func (g *group) compareCopies(t, x, y int) int {
	return cmp.Or(cmp.Compare(g.class(x, t), g.class(y, t)), cmp.Compare(g.state[t][x].behind, g.state[t][y].behind))
}

// takes tells whether a member may have a task or a copy of it.
func (g *group) takes(m, t int) bool { return !g.refused[m][t] }

// byMember turns an assignment around. A member without a task has an entry too.
func (g *group) byMember(active []int) map[string][]broker.TaskID {
	out := make(map[string][]broker.TaskID, len(g.members))
	for _, m := range g.members {
		out[m.ID] = []broker.TaskID{}
	}
	for t, m := range active {
		if m >= 0 {
			id := g.members[m].ID
			out[id] = append(out[id], g.tasks[t].ID)
		}
	}
	return out
}
