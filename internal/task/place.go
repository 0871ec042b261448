package task

import (
	"fmt"
	"sync/atomic"

	"github.com/millrace-io/millrace/internal/broker"
)

// Place tells other goroutines which record a task is in. The zero value is in none.
type Place struct {
	queue  atomic.Pointer[queue]
	offset atomic.Int64
}

// Position is a record by its place in Kafka.
type Position struct {
	broker.TopicPartition
	Offset int64
}

// String writes it as errors do.
func (p Position) String() string { return fmt.Sprintf("%s-%d@%d", p.Topic, p.Partition, p.Offset) }

// Record is the record that the task is in; ok is false if it is in none: in a timer of the wall clock, or while it is opened.
func (p *Place) Record() (at Position, ok bool) {
	q := p.queue.Load()
	if q == nil {
		return Position{}, false
	}
	return Position{TopicPartition: q.in, Offset: p.offset.Load()}, true
}

// enter notes the record that is taken. Its topic is written only when it changes.
func (p *Place) enter(q *queue, offset int64) {
	p.offset.Store(offset)
	if p.queue.Load() != q {
		p.queue.Store(q)
	}
}

// leave notes that the task is in no record.
func (p *Place) leave() { p.queue.Store(nil) }

// Slow is a record that has been too slow too often: its task asks the policy about it instead of calling user code.
type Slow struct {
	Position
	Cause error
}
