package runtime

import (
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
)

// Action is something to do. Those that say so are answered by an event.
type Action interface{ action() }

type (
	// Assign starts to fetch a partition.
	Assign struct {
		broker.TopicPartition
		Offset int64
		Epoch  uint64
	}
	// Unassign stops to fetch partitions.
	Unassign struct{ Partitions []broker.TopicPartition }
	// Pause and Resume hold fetching of partitions up.
	Pause  struct{ Partitions []broker.TopicPartition }
	Resume struct{ Partitions []broker.TopicPartition }
	// Restore makes a task ready; answered by Restored.
	Restore struct {
		life *life
		Job  *restore.Job
	}
	// CancelRestore ends a restore early; Restored still comes.
	CancelRestore struct{ life *life }
	// Follow keeps a copy of a task's state level; Levelled tells when it first is. It goes on until Unfollow, or until it fails:
	// Unfollowed tells it then.
	Follow struct {
		standby *standby
		Job     *restore.Standby
	}
	// Unfollow ends that; answered by Unfollowed. Keep leaves the stores open and hands them over.
	Unfollow struct {
		standby *standby
		Keep    bool
	}
	// CloseSet closes stores that nobody needs.
	CloseSet struct {
		Task string
		Set  *state.Set
	}
	// Run runs work of a task; answered by Worked.
	Run struct{ Work *Work }
	// Commit commits offsets under an identity, outside of a transaction; answered by CommitAnswered with Sent true.
	Commit struct {
		Round    uint64
		Identity broker.Identity
		Offsets  map[broker.TopicPartition]broker.OffsetMeta
	}
	// Send produces records, in a transaction that is begun first if Begin is set; a transaction of offsets alone is begun without
	// any. Each one is answered to its outbox; if the transaction cannot be begun, Sent comes with the error.
	Send struct {
		Round   uint64
		Begin   bool
		Records []*sent
	}
	// CommitInTransaction makes offsets part of the transaction; answered by CommitAnswered with Sent true.
	CommitInTransaction struct {
		Round    uint64
		Identity broker.Identity
		Offsets  map[broker.TopicPartition]broker.OffsetMeta
	}
	// EndTransaction commits or aborts; answered by TransactionEnded.
	EndTransaction struct {
		Round  uint64
		Commit bool
	}
	// Prove takes the transactional id again; answered by Proved.
	Prove struct{}
	// Flush sends what lingers in the producer for fuller batches: a commit waits for it.
	Flush struct{}
	// Purge deletes records of repartition topics; answered by Purged.
	Purge struct {
		Before map[broker.TopicPartition]int64
	}
	// Maintain does what the state directory needs by time.
	Maintain struct{}
	// DropState deletes what is on disk of tasks, at once: before a later action opens it again; answered by StateDropped.
	DropState struct{ Tasks []string }
	// Subscribe tells the group what the instance reads.
	Subscribe struct{ Topology broker.GroupTopology }
	// Rejoin asks the group for a new assignment.
	Rejoin struct{}
	// StopAll asks the group for the end of all its members.
	StopAll struct{ Why string }
	// Ask asks the application's policy what is to become of a task that has failed; answered by Judged.
	Ask struct{ question *question }
	// Refuse tells the group which tasks the instance cannot run for now.
	Refuse struct{ Tasks []broker.TaskID }
	// Call runs a function that returns at once: a group event's Done, a fetcher's Taken.
	Call struct{ Func func() }
	// Report tells of a change of state.
	Report struct{ State State }
	// Leave leaves the group; answered by Left.
	Leave struct{ Stay bool }
	// Finish says that the machine is done. Err is the first fatal error.
	Finish struct{ Err error }
)

func (Assign) action()        {}
func (Unassign) action()      {}
func (Pause) action()         {}
func (Resume) action()        {}
func (Restore) action()       {}
func (CancelRestore) action() {}
func (Follow) action()        {}
func (Unfollow) action()      {}
func (CloseSet) action()      {}
func (Run) action()           {}
func (Commit) action()        {}
func (Flush) action()         {}

func (Send) action()                {}
func (CommitInTransaction) action() {}
func (EndTransaction) action()      {}
func (Prove) action()               {}

func (Purge) action()     {}
func (Maintain) action()  {}
func (DropState) action() {}
func (Subscribe) action() {}
func (Rejoin) action()    {}
func (Refuse) action()    {}
func (StopAll) action()   {}
func (Ask) action()       {}
func (Call) action()      {}
func (Report) action()    {}
func (Leave) action()     {}
func (Finish) action()    {}

// State is what an instance does as a whole.
//
// In Kafka Streams: KafkaStreams.State.
type State uint8

// The states. docs/state-machine.md draws the ways between them.
const (
	StateCreated     State = iota // made, not run yet
	StateStarting                 // finds the cluster, makes internal topics, fills global tables
	StateRebalancing              // waits for an assignment, or restores tasks
	StateRunning                  // every task that it was given runs
	StateDraining                 // hands its tasks over and commits
	StateStopped                  // ended without an error
	StateFailed                   // ended with an error
)

// String names the state.
func (s State) String() string {
	switch s {
	case StateCreated:
		return "created"
	case StateStarting:
		return "starting"
	case StateRebalancing:
		return "rebalancing"
	case StateRunning:
		return "running"
	case StateDraining:
		return "draining"
	case StateStopped:
		return "stopped"
	case StateFailed:
		return "failed"
	}
	return "invalid"
}
