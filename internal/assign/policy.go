package assign

import (
	"github.com/millrace-io/millrace/internal/broker"
)

// Policy is how the tasks of a group are given out. The leader's counts, in a group whose members differ. The zero Policy
// keeps no standbys and moves tasks at once.
type Policy struct {
	// AcceptableLag is how many records of its changelogs a copy of a task's state may be behind, to count as level: a member
	// with such a copy can take the task at once. Kafka property: acceptable.recovery.lag.
	AcceptableLag int64
	// MaxWarmups bounds the copies that are being made for tasks to move to, in the whole group and beside Standbys. A task
	// whose new member is not level stays where it is until then. With 0 it moves at once, and is away until its state is
	// restored. Kafka property: max.warmup.replicas.
	MaxWarmups int
	// Standbys is how many copies of its state each stateful task has beside the active one, as far as there are members.
	// Kafka property: num.standby.replicas.
	Standbys int
	// RackTags are the tags by which the copies of a task are to differ, so that they do not fail together. Kafka property:
	// rack.aware.assignment.tags.
	RackTags []string
	// Traffic is whether tasks are placed near the replicas of what they read.
	Traffic Traffic
}

// Round is one round of the group: a broker.Assignor.
//
// A task stays with its member as long as balance allows. Where it is to move, it does so when its new member has a copy of
// its state that is level; until then the copy is a warm-up there. Where nobody runs it, the member goes first that has a
// copy, the more level the sooner. What a member holds and is to lose, it gives up before another one gets it ([HandOver]).
//
// In Kafka Streams: HighAvailabilityTaskAssignor (KIP-441). There the group is asked again by the clock
// (probing.rebalance.interval.ms) whether warm-ups are level; here the member with a warm-up joins again when it is.
func (p Policy) Round(members []broker.GroupMember, tasks []broker.GroupTask) map[string]broker.GroupAssignment {
	holders := Holders(claims(members))
	g := newGroup(p, withOwned(members, holders), tasks)
	target := g.target()
	g.nearReplicas(target)
	active, warm := g.catchUp(target)
	copies := g.copies(active, warm)

	now, moving := HandOver(g.byMember(active), holders)
	out := make(map[string]broker.GroupAssignment, len(now))
	for id, ts := range now {
		out[id] = broker.GroupAssignment{Tasks: ts}
	}
	for _, t := range moving {
		a := out[holders[t].MemberID]
		a.GiveUp = append(a.GiveUp, t)
		out[holders[t].MemberID] = a
	}
	g.keepWarm(moving, active, copies)
	for m := range g.members {
		a := out[g.members[m].ID]
		for t := range g.tasks {
			switch copies[t][m] {
			case standbyCopy:
				a.Standbys = append(a.Standbys, g.tasks[t].ID)
			case warmupCopy:
				a.Warmups = append(a.Warmups, g.tasks[t].ID)
			}
		}
		out[g.members[m].ID] = a
	}
	return out
}

// Round is the round of the zero Policy.
func Round(members []broker.GroupMember, tasks []broker.GroupTask) map[string]broker.GroupAssignment {
	return Policy{}.Round(members, tasks)
}

// claims is what the members say that they run, those who say it in some generation.
func claims(members []broker.GroupMember) map[string]Claim {
	out := make(map[string]Claim)
	for _, m := range members {
		if m.Generation >= 0 {
			out[m.ID] = Claim{Generation: m.Generation, Tasks: m.Owned}
		}
	}
	return out
}

// withOwned gives the members with Owned as it was settled.
func withOwned(members []broker.GroupMember, holders map[broker.TaskID]Holder) []broker.GroupMember {
	has := make(map[string][]broker.TaskID)
	for t, h := range holders {
		has[h.MemberID] = append(has[h.MemberID], t)
	}
	out := make([]broker.GroupMember, len(members))
	for i, m := range members {
		m.Owned = has[m.ID]
		out[i] = m
	}
	return out
}

// keepWarm lets a member that gets a task as soon as it is given up elsewhere keep its copy until then.
func (g *group) keepWarm(moving []broker.TaskID, active []int, copies [][]copyKind) {
	for _, id := range moving {
		t := g.index[id]
		m := active[t]
		if g.tasks[t].Stateful && (g.state[t][m].running || g.policy.MaxWarmups > 0) {
			copies[t][m] = warmupCopy
		}
	}
}
