package millrace

import "github.com/millrace-io/millrace/internal/restore"

// StandbyStep is what becomes of a copy of a store.
type StandbyStep uint8

// Steps of a copy, in order. Each copy that is begun ends as promoted or as ended.
const (
	// StandbyBegun says that the copy is open and follows its changelog from At on.
	//
	// In Kafka Streams: StandbyUpdateListener#onUpdateStart.
	StandbyBegun = StandbyStep(restore.CopyBegun)
	// StandbyRead says that a chunk of the changelog was applied.
	//
	// In Kafka Streams: StandbyUpdateListener#onBatchLoaded.
	StandbyRead = StandbyStep(restore.CopyRead)
	// StandbyPromoted says that this instance runs the task now, with the copy as its store.
	//
	// In Kafka Streams: StandbyUpdateListener#onUpdateSuspended with SuspendReason.PROMOTED.
	StandbyPromoted = StandbyStep(restore.CopyPromoted)
	// StandbyEnded says that the copy is not followed any more: another instance keeps it, or this one stops. After an error it
	// begins anew.
	//
	// In Kafka Streams: StandbyUpdateListener#onUpdateSuspended with SuspendReason.MIGRATED.
	StandbyEnded = StandbyStep(restore.CopyEnded)
)

// String names the step.
func (s StandbyStep) String() string {
	switch s {
	case StandbyBegun:
		return "begun"
	case StandbyRead:
		return "read"
	case StandbyPromoted:
		return "promoted"
	case StandbyEnded:
		return "ended"
	}
	return "unknown"
}

// StandbyUpdate tells of the copy of one store of a task that another instance runs.
type StandbyUpdate struct {
	Step  StandbyStep
	Task  string
	Store string
	// Topic and Partition are the changelog's.
	Topic     string
	Partition int32
	// At is the next offset to be read, and End where the changelog ended when it was looked at last.
	At, End int64
	// Records is the number of records in the chunk, with StandbyRead. Of a compacted changelog they are fewer than its offsets.
	Records int64
}

func standbyUpdate(c restore.Copied) StandbyUpdate {
	return StandbyUpdate{
		Step: StandbyStep(c.Step), Task: c.Task, Store: c.Store, Topic: c.Log.Topic, Partition: c.Log.Partition, At: c.At, End: c.End, Records: c.Records,
	}
}
