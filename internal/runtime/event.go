package runtime

import (
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
)

// Event is something that happened. Each is told once, in the order of happening as far as the carrier knows it.
type Event interface{ event() }

type (
	// Started opens the machine: everything that is needed is there, and the group may be joined.
	Started struct{}
	// MemberEvent is a message of the group.
	MemberEvent struct{ broker.MembershipEvent }
	// Fetched brings what a poll returned. Taken, if set, is called once the machine has seen it: the fetcher polls no
	// further before, so that a pause takes effect between two polls.
	Fetched struct {
		Batches []broker.Batch
		Taken   func()
	}
	// Looked says that an outbox has news: acknowledged segments, or failures.
	Looked struct{ life *life }
	// Worked is the answer to Run.
	Worked struct{ Done *Done }
	// Restored is the answer to Restore. Err is the context's if it was cancelled.
	Restored struct {
		life   *life
		Result restore.Result
		Err    error
	}
	// Levelled tells that a copy is level for the first time since Follow.
	Levelled struct{ standby *standby }
	// Unfollowed tells that a copy is not kept any more: the answer to Unfollow, with its stores if they were to be kept, or an
	// error.
	Unfollowed struct {
		standby *standby
		Set     *state.Set
		Err     error
	}
	// CommitAnswered is the answer to Commit and to CommitInTransaction.
	CommitAnswered struct {
		Round uint64
		Sent  bool // false where the machine found by itself that it may not commit now
		Err   error
	}
	// Sent tells that the transaction of a Send could not be begun.
	Sent struct {
		Round uint64
		Err   error
	}
	// TransactionEnded is the answer to EndTransaction.
	TransactionEnded struct {
		Round uint64
		Err   error
	}
	// Proved is the answer to Prove.
	Proved struct{ Err error }
	// Purged is the answer to Purge.
	Purged struct{ Err error }
	// Judged is the answer to Ask.
	Judged struct {
		question *question
		verdict  Verdict
		err      error
	}
	// StateDropped is the answer to DropState, for each task.
	StateDropped struct {
		Task string
		Err  error
	}
	// TopologyChanged says that the cluster has other topics now that the topology reads.
	TopologyChanged struct{ Plan Plan }
	// Failed stops the instance: an error that no task can help.
	Failed struct{ Err error }
	// Tick says that the time that NextWakeMs told has come, or any other.
	Tick struct{}
	// Hold and GoOn pause and resume processing.
	Hold struct{}
	GoOn struct{}
	// Resize says how many tasks may run at a time from now on, and how much each of them may gather between two hand-overs.
	Resize struct {
		Workers      int
		Hard         bool
		PrivateBytes int64
	}
	// Stop asks for a drained end: everything is handed over and committed, then the group is left.
	Stop struct{}
	// Abandon ends at once: nothing more is committed.
	Abandon struct{}
	// Left is the answer to Leave.
	Left struct{ Err error }
)

func (Started) event()          {}
func (MemberEvent) event()      {}
func (Fetched) event()          {}
func (Looked) event()           {}
func (Worked) event()           {}
func (Restored) event()         {}
func (Levelled) event()         {}
func (Unfollowed) event()       {}
func (CommitAnswered) event()   {}
func (Sent) event()             {}
func (TransactionEnded) event() {}
func (Proved) event()           {}
func (Purged) event()           {}
func (Judged) event()           {}
func (StateDropped) event()     {}
func (TopologyChanged) event()  {}
func (Failed) event()           {}
func (Tick) event()             {}
func (Hold) event()             {}
func (GoOn) event()             {}
func (Resize) event()           {}
func (Stop) event()             {}
func (Abandon) event()          {}
func (Left) event()             {}
