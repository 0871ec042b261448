// Package broker holds the narrow client interfaces that the engine needs, in the engine's own types. Package kgoclient
// below it implements them with franz-go and is the engine's only importer of that library; brokertest implements them
// over a scripted in-memory log.
//
// Nothing here starts work by itself as far as the engine can see: every method either returns at once and answers
// through a callback or an event, or blocks on the context that it is given.
package broker

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/serde"
)

// TopicPartition names one partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Record is a fetched record. Its slices belong to the batch it came with and are never changed.
type Record struct {
	Key         []byte // nil is null
	Value       []byte // nil is null
	Headers     serde.Headers
	TimestampMs int64
	Offset      int64
	LeaderEpoch int32
}

// Batch is what one fetch brought of one partition, in offset order. Control records are never in Records; they only
// move Position.
type Batch struct {
	TopicPartition
	Epoch     uint64   // the epoch under which the partition was assigned to the Fetcher: older ones are dropped
	Records   []Record // may be empty
	Position  int64    // the next offset to read, behind markers and compacted gaps too
	LastEpoch int32    // of a Reader: the leader epoch of the last batch before Position, markers included, -1 if nothing moved it
	HighWater int64    // high watermark, -1 unknown
	StableEnd int64    // last stable offset, -1 unknown
	LogStart  int64    // first offset kept, -1 unknown
	Err       error    // a partition error; Records is empty then. ErrOffsetOutOfRange: the offset is not in the log (any more)
}

// Fetcher reads partitions that the engine chose, apart from any group. Its methods are called by the poll goroutine
// only.
type Fetcher interface {
	// Assign starts reading a partition at an offset under an epoch; assigning again moves it.
	Assign(tp TopicPartition, offset int64, epoch uint64)
	// Unassign stops reading; a buffered batch of the partition is dropped.
	Unassign(tps ...TopicPartition)
	// Pause and Resume stop and go on fetching without losing the position; what was fetched and not polled comes after
	// Resume. Assign, Unassign, Pause and Resume take effect with the next Poll.
	Pause(tps ...TopicPartition)
	Resume(tps ...TopicPartition)
	// Poll waits for at least one batch or error, or for the context, and returns all that is there, in the order of topic
	// and partition. A batch without records tells that the position or an end of the log has moved: after Assign, and after
	// Resume, each partition is told once, even if it is empty. A batch that was fetched before a Pause and comes after the
	// Resume tells no ends, which would be old.
	Poll(ctx context.Context) []Batch
	// Answers counts the answers without an error that a partition has had since it was assigned, those included that told
	// nothing new. It is 0 while something waits to be polled. Any goroutine may call it.
	Answers(tp TopicPartition) uint64
	Close()
}

// ProduceRecord is one record to write.
type ProduceRecord struct {
	Topic       string
	Partition   int32 // -1: any (the client's sticky choice)
	Key         []byte
	Value       []byte
	Headers     serde.Headers
	TimestampMs int64
}

// Producer writes records. Order is kept for each partition.
type Producer interface {
	// Produce queues a record and returns at once; only at the hard bound of what the client may queue does it wait for
	// room, so keep BufferedBytes well below. The slices belong to the producer until done is called. done is called
	// once, on a goroutine of the client, in order for each partition; it must return quickly. offset is that of the
	// written record, -1 with an error, which is a *ProduceError. A record that the client itself refuses (too large, no
	// such partition, a timestamp out of range) may be answered before earlier ones, and within Produce.
	Produce(r ProduceRecord, done func(offset int64, err error))
	// BufferedBytes is the size of what is queued and not yet acknowledged.
	BufferedBytes() int64
	// Flush sends at once what lingers in the hope of a fuller batch. It does not wait for acknowledgements: those are
	// counted by done. The error is the context's, or ErrClosed.
	Flush(ctx context.Context) error
	// Close fails what is not acknowledged with ErrClosed and returns when every done has been called.
	Close()
}

// Identity is who the instance is in its group. It is read once and put into each commit, so a commit made under an old
// one is refused by the broker.
type Identity struct {
	MemberID   string
	InstanceID string // static membership; empty if none
	Generation int32
}

// OffsetMeta is an offset to commit, or a committed one, with its metadata string.
type OffsetMeta struct {
	Offset   int64 // -1: none committed
	Metadata string
	Epoch    int32 // leader epoch, -1 unknown
}

// ListOffset asks for one end of a partition.
type ListOffset uint8

const (
	Earliest      ListOffset = iota
	HighWatermark            // the end as read uncommitted
	StableEnd                // the last stable offset
)

// TopicInfo is what the cluster says of a topic.
type TopicInfo struct {
	Name       string
	ID         [16]byte
	Partitions int32
	Exists     bool
	Err        error // other than unknown topic
}

// TopicSpec is a topic to create.
type TopicSpec struct {
	Name              string
	Partitions        int32
	ReplicationFactor int16 // -1: the broker's default
	Configs           map[string]string
}

// Admin asks and changes what the cluster holds. Calls retry what is worth retrying until the context ends; errors name
// the topic, partition or group they are about.
type Admin interface {
	ClusterID(ctx context.Context) (string, error)
	// Topics describes topics by name; one that does not exist is reported with Exists false.
	Topics(ctx context.Context, names ...string) (map[string]TopicInfo, error)
	// MatchTopics lists the topics whose whole name matches a regular expression, internal Kafka topics left out.
	MatchTopics(ctx context.Context, pattern string) ([]TopicInfo, error)
	// CreateTopic creates a topic and returns when the cluster shows it. An existing topic is ErrTopicExists; a refused
	// configuration keeps the broker's own words.
	CreateTopic(ctx context.Context, t TopicSpec) error
	// TopicConfigs gives the settings in force of each topic, defaults included. A topic that does not exist is left out.
	TopicConfigs(ctx context.Context, names ...string) (map[string]map[string]string, error)
	// ListOffsets gives one end of each partition. All partitions are in the answer or there is an error.
	ListOffsets(ctx context.Context, which ListOffset, tps ...TopicPartition) (map[TopicPartition]int64, error)
	// DeleteRecords deletes what lies before the offset given for each partition.
	DeleteRecords(ctx context.Context, before map[TopicPartition]int64) error
	// EpochEnds asks, for a leader epoch of each partition, which is the greatest epoch not above it in the log and where
	// that one ends. A record read under the epoch is still there if its offset is below End and Epoch is the one asked
	// for; otherwise the log was truncated since. Epoch and End are -1 if the log knows no such epoch.
	EpochEnds(ctx context.Context, epochs map[TopicPartition]int32) (map[TopicPartition]EpochEnd, error)
	// CommittedOffsets waits for pending transactions (RequireStable). A partition without a commit has offset -1.
	CommittedOffsets(ctx context.Context, group string, tps ...TopicPartition) (map[TopicPartition]OffsetMeta, error)
	// CommitOffsets sends one plain OffsetCommit under exactly the identity given; it does not retry a refusal. Each
	// refused partition is in the error, see CommitError. An error that matches ErrNoAnswer leaves it open whether the
	// commit took effect.
	CommitOffsets(ctx context.Context, group string, id Identity, offsets map[TopicPartition]OffsetMeta) error
	// Group tells the state of a group, its protocol type and assignor, and who is in it, to refuse a mixed group. A group
	// that does not exist has the state "Dead" and no members.
	Group(ctx context.Context, group string) (GroupInfo, error)
	Close()
}

// EpochEnd is where a leader epoch ends in a log.
type EpochEnd struct {
	Epoch int32
	End   int64
}

// GroupInfo describes a group.
type GroupInfo struct {
	State        string
	ProtocolType string
	Protocol     string
	Members      []string // client ids, with member id and host where known
}

// Reader reads single partitions by requests of its own, for restore and standbys: its position moves behind markers and
// compacted batches, which a consumer hides. Reads are read-committed.
type Reader interface {
	// Read fetches from an offset; it waits at most wait for data. One call at a time for each partition; calls for
	// different partitions may run side by side. An offset outside the log is an *OffsetRangeError, which matches
	// ErrOffsetOutOfRange; leader changes and unreachable brokers are retried until the context ends.
	Read(ctx context.Context, tp TopicPartition, offset int64, maxBytes int32, wait time.Duration) (Batch, error)
	Close()
}
