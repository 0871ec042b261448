package task

import (
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/op"
)

// queue holds the fetched records of one input partition, in offset order.
type queue struct {
	in broker.TopicPartition
	// offsetMeta is the key under which the offset stands with the state.
	offsetMeta string
	head       op.Head

	batches [][]broker.Record // the first one from next on
	next    int
	count   int
	bytes   int64

	position    int64 // next offset to fetch; -1 unknown
	end         int64 // last stable offset or high watermark; -1 unknown
	headReady   bool
	headTsMs    int64
	idleSinceMs int64 // when it was first seen empty and level; -1

	partitionTimeMs int64 // highest timestamp taken; -1
	quiet           quietSource
	committed       int64 // offset of the last unit; -1
}

func recordBytes(r *broker.Record) int64 {
	n := int64(len(r.Key) + len(r.Value) + recordOverhead)
	for i := range r.Headers {
		n += int64(len(r.Headers[i].Key) + len(r.Headers[i].Value))
	}
	return n
}

// recordOverhead is what a record costs beside its bytes.
const recordOverhead = 96

func (q *queue) add(b *broker.Batch) {
	q.position = b.Position
	if b.StableEnd >= 0 {
		q.end = b.StableEnd
	} else if b.HighWater >= 0 {
		q.end = b.HighWater
	}
	if len(b.Records) == 0 {
		return
	}
	q.batches = append(q.batches, b.Records)
	q.count += len(b.Records)
	for i := range b.Records {
		q.bytes += recordBytes(&b.Records[i])
	}
	q.idleSinceMs = -1
	q.quiet.broken()
}

// peek returns the first record that has not been taken.
func (q *queue) peek() *broker.Record {
	if q.count == 0 {
		return nil
	}
	return &q.batches[0][q.next]
}

// pop takes the first record.
func (q *queue) pop() {
	q.bytes -= recordBytes(&q.batches[0][q.next])
	q.count--
	q.next++
	if q.next == len(q.batches[0]) {
		q.batches[0] = nil
		q.batches = q.batches[1:]
		q.next = 0
		if len(q.batches) == 0 {
			q.batches = nil
		}
	}
}

// offset is where a restart would go on: at the first record that has not been taken, else behind all that was fetched.
func (q *queue) offset() int64 {
	if r := q.peek(); r != nil {
		return r.Offset
	}
	return q.position
}

// lag tells how many offsets of the partition have not been fetched; known is false until the end is known.
func (q *queue) lag() (n int64, known bool) {
	if q.end < 0 || q.position < 0 {
		return 0, false
	}
	return max(0, q.end-q.position), true
}
