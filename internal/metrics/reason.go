package metrics

// Reason says why a record was dropped, skipped or noted at a step. Its text is what metrics and documentation print.
//
// In Kafka Streams all drops are one metric of the task, dropped-records; only the log says why.
type Reason string

const (
	// NullKey: the step needs a key and the record has none.
	NullKey Reason = "null-key"
	// NullValue: the step needs a value and the record has none.
	NullValue Reason = "null-value"
	// NegativeTimestamp: the record has a negative timestamp, or its extractor gave one.
	NegativeTimestamp Reason = "negative-timestamp"
	// Deserialization: the record did not decode, and the handler said to continue.
	Deserialization Reason = "deserialization"
	// Processing: a step's function failed on the record, and the handler said to continue.
	Processing Reason = "processing"
	// Production: a result could not be encoded or written, and the handler said to continue.
	Production Reason = "production"
	// Late: a window that the record belongs to had closed. It is counted once for each such window, and whether the late
	// stream is used or not.
	Late Reason = "late"
	// JoinClosed: a record of a stream-stream join met a row of the other side that had its final result already, because its
	// window had closed. The two are not joined. It is counted once for each such row.
	JoinClosed Reason = "join-closed"
	// NoWindow: the record belongs to no window of the step: it is before the start of an unlimited window, or in a gap
	// between windows of the user's own.
	NoWindow Reason = "no-window"
	// ExpiredOnPut: a window store was given a window that is past its retention, or a versioned store a version that is
	// older than its history.
	ExpiredOnPut Reason = "expired-on-put"
	// Stale: an update came out of order, a newer version of its row was there already, and the step acts on the newest only.
	Stale Reason = "stale"
	// NullForeignKey: a row of the left table of a foreign-key join leads to no row of the right one.
	NullForeignKey Reason = "null-foreign-key"
	// StaleResponse: the right side of a foreign-key join answered for a left row that has changed since.
	StaleResponse Reason = "stale-response"
	// DeadLetter: a dead letter was written for the record. The record is counted under the reason of its failure too.
	DeadLetter Reason = "dead-letter"
)

// Reasons returns all reasons, in the order in which they are documented.
func Reasons() []Reason {
	return []Reason{
		NullKey, NullValue, NegativeTimestamp, Deserialization, Processing, Production, Late, JoinClosed, NoWindow, ExpiredOnPut, Stale,
		NullForeignKey, StaleResponse, DeadLetter,
	}
}

// IsDrop says whether a record counted under the reason, or a part of what it leads to, is not in the results. A dead letter
// is a note: its record is counted as dropped under another reason.
func (r Reason) IsDrop() bool { return r != DeadLetter }

// Name names a counter or gauge of a task or of the application.
type Name string

// Counters.
const (
	// RecordsProcessed counts input records that were taken. In Kafka Streams: process-total.
	RecordsProcessed Name = "records-processed"
	// EnforcedProcessing counts the times that a task went on although an input had no record. In Kafka Streams:
	// enforced-processing-total.
	EnforcedProcessing Name = "enforced-processing"
	// MetadataLeftOut counts observed times that did not fit into the metadata of a committed offset. Kafka Streams stores
	// none.
	MetadataLeftOut Name = "metadata-left-out"
	// Commits counts commits that succeeded. In Kafka Streams: commit-total.
	Commits Name = "commits"
	// CommitsFailed counts commits that did not. In Kafka Streams they are seen in the log.
	CommitsFailed Name = "commits-failed"
	// TimersFired counts calls of timers. In Kafka Streams: punctuate-total.
	TimersFired Name = "timers-fired"
	// TasksOpened counts tasks that were opened. In Kafka Streams: task-created-total.
	TasksOpened Name = "tasks-opened"
	// TasksClosed counts tasks that were closed. In Kafka Streams: task-closed-total.
	TasksClosed Name = "tasks-closed"
	// TasksGivenUp counts tasks that were given up for a record or timer past its deadline.
	TasksGivenUp Name = "tasks-given-up"
	// TasksReplaced counts tasks that had failed and began again because the policy for uncaught errors said so. In Kafka Streams:
	// failed-stream-threads, whatever became of them.
	TasksReplaced Name = "tasks-replaced"
	// StateDropped counts tasks whose state was deleted from the disk because they had moved away.
	StateDropped Name = "state-dropped"
	// RecordsOversized counts records and timers that alone sent more than a task should gather between two hand-overs.
	RecordsOversized Name = "records-oversized"
	// RecordsRestored counts changelog records that were replayed. In Kafka Streams: restore-total.
	RecordsRestored Name = "records-restored"
)

// Gauges.
const (
	// Lag is the number of input offsets that have not been processed. In Kafka Streams: records-lag of the consumer.
	Lag Name = "lag"
	// BufferedRecords is the number of records fetched and not processed. In Kafka Streams: active-buffer-count.
	BufferedRecords Name = "buffered-records"
	// BufferedBytes is their size.
	BufferedBytes Name = "buffered-bytes"
	// CacheBytes is the size of the record caches. In Kafka Streams: cache-size-bytes-total.
	CacheBytes Name = "cache-bytes"
	// RestoreRemaining is the number of changelog offsets that are still to be replayed. In Kafka Streams:
	// restore-remaining-records-total.
	RestoreRemaining Name = "restore-remaining"
	// StreamTimeMs is the highest timestamp taken, in milliseconds since the Unix epoch. Of several tasks it is that of the
	// one furthest behind, since that is what a reader of results waits for.
	StreamTimeMs Name = "stream-time-ms"
)

// merge puts two values of a gauge together.
func (n Name) merge(a, b int64) int64 {
	if n == StreamTimeMs {
		return min(a, b)
	}
	return a + b
}
