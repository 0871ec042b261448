package task

import "github.com/millrace-io/millrace/internal/broker"

// IdleReason says why a task takes no record.
type IdleReason struct {
	// Empty: no input has a record.
	Empty bool
	// Waiting is the input that the task waits for, because its records may be older than those at hand.
	Waiting broker.TopicPartition
	// UntilMs is when it stops waiting; 0: not before records come or the input's lag is known to be none.
	UntilMs int64
}

// Idle tells why the last Process stopped before its limit.
func (t *Task) Idle() IdleReason { return t.idle }

// choose returns the queue whose first record has the smallest timestamp, ties by topic, then partition; nil if no record
// may be taken. While an input is empty a record of another may only be taken if none can be older: the input's lag is
// known to be none, and it has been so for max.task.idle.ms.
//
// In Kafka Streams: PartitionGroup#readyToProcess and #nextRecord.
func (t *Task) choose() (*queue, error) {
	var best *queue
	var blocked *queue
	var untilMs int64
	enforced := false
	for _, q := range t.queues {
		if err := t.ready(q); err != nil {
			return nil, err
		}
		if q.headReady {
			if best == nil || q.headTsMs < best.headTsMs {
				best = q
			}
			continue
		}
		if t.idleMs < 0 || blocked != nil {
			enforced = enforced || t.idleMs < 0
			continue
		}
		lag, known := q.lag()
		if !known || lag > 0 {
			blocked, untilMs = q, 0
			continue
		}
		now := t.steady()
		if q.idleSinceMs < 0 {
			q.idleSinceMs = now
		}
		if end := q.idleSinceMs + q.quiet.bound(t.idleMs); now < end {
			blocked, untilMs = q, end
			continue
		}
		enforced = true
	}
	switch {
	case best == nil:
		t.idle = IdleReason{Empty: true}
		return nil, nil
	case blocked != nil:
		t.idle = IdleReason{Waiting: blocked.in, UntilMs: untilMs}
		return nil, nil
	}
	if enforced {
		t.enforced.Inc()
	}
	return best, nil
}

// ready decodes the first record of a queue. Records that are skipped are taken on the way; they move the offset but no
// time.
func (t *Task) ready(q *queue) error {
	for !q.headReady {
		r := q.peek()
		if r == nil {
			return nil
		}
		ts, ok, err := q.head.Decode(r, q.partitionTimeMs)
		if err != nil {
			return err
		}
		if ok {
			q.headReady, q.headTsMs = true, ts
			return nil
		}
		q.pop()
		t.commitNeeded = true
	}
	return nil
}
