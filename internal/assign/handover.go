package assign

import (
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
)

// Holder is the member that runs a task at the moment, by its own word.
type Holder struct {
	MemberID   string
	Generation int32 // of the group when it was given the task
}

// Holders finds who runs each task from the claims of all members. Where two claim one task, the claim of the later
// generation stands: the other member missed that it lost the task. Of two claims of one generation neither stands: no
// generation gives a task to two members, so one of them is mistaken and neither can be trusted.
func Holders(claims map[string]Claim) map[broker.TaskID]Holder {
	out := make(map[broker.TaskID]Holder)
	contested := make(map[broker.TaskID]int32)
	for member, c := range claims {
		for _, t := range c.Tasks {
			h, ok := out[t]
			switch {
			case !ok || c.Generation > h.Generation:
				out[t] = Holder{MemberID: member, Generation: c.Generation}
			case c.Generation == h.Generation:
				contested[t] = c.Generation
			}
		}
	}
	for t, generation := range contested {
		if out[t].Generation == generation {
			delete(out, t)
		}
	}
	return out
}

// Claim is what one member says that it runs.
type Claim struct {
	Generation int32
	Tasks      []broker.TaskID
}

// HandOver is the first of the two steps in which a task moves: of a target assignment it leaves out each task that
// another present member still holds. That member sees that it has lost the task, commits, gives it up and joins again;
// then nobody holds it and the next round gives it to its new member. So only what moves is ever interrupted, and no task
// runs twice. The second result is what was held back, sorted.
//
// In Kafka Streams and the consumer's cooperative protocol the same is done by partition.
func HandOver(target map[string][]broker.TaskID, holders map[broker.TaskID]Holder) (now map[string][]broker.TaskID, moving []broker.TaskID) {
	now = make(map[string][]broker.TaskID, len(target))
	for member, tasks := range target {
		now[member] = slices.DeleteFunc(slices.Clone(tasks), func(t broker.TaskID) bool {
			h, held := holders[t]
			_, present := target[h.MemberID]
			if held && present && h.MemberID != member {
				moving = append(moving, t)
				return true
			}
			return false
		})
	}
	broker.SortTasks(moving)
	return now, moving
}
