package brokertest

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
)

// Reader implements broker.Reader. Reads are read-committed.
type Reader struct {
	c           *Cluster
	limit       int
	uncommitted bool
}

var _ broker.Reader = (*Reader)(nil)

// Reader opens a reading client.
func (c *Cluster) Reader() *Reader { return &Reader{c: c} }

// Uncommitted makes it read uncommitted, as no broker.Reader may: to show that somebody would notice.
func (r *Reader) Uncommitted() *Reader {
	r.uncommitted = true
	return r
}

// SetLimit bounds the records of one Read; 0 takes all that is there.
func (r *Reader) SetLimit(records int) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.limit = records
}

// Read implements broker.Reader. It does not look at maxBytes; only in a Blocking cluster does it wait for the position to
// move.
func (r *Reader) Read(ctx context.Context, tp broker.TopicPartition, offset int64, _ int32, wait time.Duration) (b broker.Batch, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	err = r.c.do(ctx, Call{Op: OpRead, Topic: tp.Topic, Partitions: []broker.TopicPartition{tp}}, func() error {
		var missing bool
		r.c.await(ctx, func() bool {
			l := r.c.log(tp)
			if missing = l == nil; missing {
				return true
			}
			b = l.read(tp, offset, !r.uncommitted, r.limit)
			return b.Err != nil || b.Position > offset
		})
		if missing {
			return fmt.Errorf("millrace: read %s-%d@%d: %w", tp.Topic, tp.Partition, offset, broker.CodeUnknownTopicOrPartition)
		}
		return b.Err
	})
	if err != nil {
		return broker.Batch{TopicPartition: tp, Position: offset, LastEpoch: -1, HighWater: b.HighWater, StableEnd: b.StableEnd, LogStart: b.LogStart, Err: err}, err
	}
	return b, nil
}

// Close implements broker.Reader.
func (r *Reader) Close() {}
