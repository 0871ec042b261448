package millrace

import "github.com/millrace-io/millrace/internal/metrics"

// DropReason says why a step dropped, skipped or set aside a record. Everything that does not go its usual way is counted
// under one of them.
type DropReason string

// The reasons. In Kafka Streams all are one metric, dropped-records, but for DroppedJoinClosed, DroppedNoWindow and DeadLettered,
// which are not counted.
const (
	// DroppedNullKey: the step needs a key and the record has none.
	DroppedNullKey = DropReason(metrics.NullKey)
	// DroppedNullValue: the step needs a value and the record has none.
	DroppedNullValue = DropReason(metrics.NullValue)
	// DroppedNegativeTimestamp: the timestamp extractor gave a negative time.
	DroppedNegativeTimestamp = DropReason(metrics.NegativeTimestamp)
	// DroppedDeserialization: the record did not decode, and the handler chose to continue.
	DroppedDeserialization = DropReason(metrics.Deserialization)
	// DroppedProcessing: the step's function failed, and the handler chose to continue.
	DroppedProcessing = DropReason(metrics.Processing)
	// DroppedProduction: the result could not be encoded or written, and the handler chose to continue.
	DroppedProduction = DropReason(metrics.Production)
	// DroppedLate: a window that the record belongs to had closed; counted once for each window.
	DroppedLate = DropReason(metrics.Late)
	// DroppedJoinClosed: a record of a left or outer join of streams met a row whose window had closed, so that its final result
	// is out; counted once for each such row.
	DroppedJoinClosed = DropReason(metrics.JoinClosed)
	// DroppedNoWindow: the record belongs to no window of the step.
	DroppedNoWindow = DropReason(metrics.NoWindow)
	// DroppedExpired: a window store was given a window past its retention, a session store a session, or a versioned store a version older than its
	// history.
	DroppedExpired = DropReason(metrics.ExpiredOnPut)
	// DroppedStale: an update of a versioned table came out of order, and the step takes none but the latest.
	DroppedStale = DropReason(metrics.Stale)
	// DroppedNullForeignKey: a row of the left table of an inner foreign-key join has no foreign key.
	DroppedNullForeignKey = DropReason(metrics.NullForeignKey)
	// DroppedStaleResponse: the right side of a foreign-key join answered for a left row that has changed since. A newer
	// answer is on its way.
	DroppedStaleResponse = DropReason(metrics.StaleResponse)
	// DeadLettered: a dead letter was written for the record. It is counted under its own reason too.
	DeadLettered = DropReason(metrics.DeadLetter)
)
