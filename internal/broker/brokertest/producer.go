package brokertest

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/millrace-io/millrace/internal/broker"
)

// Producer implements broker.Producer. A record is first queued, then written to the log, then acknowledged; the test
// decides when: Deliver does both for all that is not held, Write and Ack do one step for some. done is called by the
// goroutine that calls these, never inside Produce.
type Producer struct {
	c       *Cluster
	txn     *Transactions // whose records these are, nil if none's
	queue   []*pending
	held    map[broker.TopicPartition]bool // neither written nor acknowledged
	heldAck map[broker.TopicPartition]bool // written, not acknowledged
	holdAll bool
	ackAll  bool // hold all acknowledgements
	rules   []*ProduceFault
	sticky  map[string]int32
	bytes   int64
	flushes int
	closed  bool
}

type pending struct {
	rec     broker.ProduceRecord
	done    func(int64, error)
	bytes   int64
	written bool
	offset  int64
	err     error
}

func (p *pending) tp() broker.TopicPartition { return TP(p.rec.Topic, p.rec.Partition) }

// ProduceFault makes records fail.
type ProduceFault struct {
	Topic string                          // "" is any
	When  func(broker.ProduceRecord) bool // nil is any
	Err   error                           // given to done inside a broker.ProduceError
	// Written puts the record into the log although it fails: its acknowledgement is lost.
	Written bool
	Times   int // 0 is one, below 0 is all
}

var _ broker.Producer = (*Producer)(nil)

// Producer opens a producing client.
func (c *Cluster) Producer() *Producer {
	p := &Producer{
		c: c, held: make(map[broker.TopicPartition]bool), heldAck: make(map[broker.TopicPartition]bool), sticky: make(map[string]int32),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.producers = append(c.producers, p)
	return p
}

// Produce implements broker.Producer.
func (p *Producer) Produce(r broker.ProduceRecord, done func(offset int64, err error)) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if r.Partition < 0 {
		if t := p.c.topics[r.Topic]; t != nil && len(t.logs) > 0 {
			r.Partition = p.sticky[r.Topic] % int32(len(t.logs))
		}
	}
	x := &pending{rec: r, done: done, bytes: size(r), offset: -1}
	if err := p.notNow(); err != nil {
		x.fail(err)
	} else if p.txn != nil {
		p.txn.asked = true
	}
	p.bytes += x.bytes
	p.queue = append(p.queue, x)
}

// notNow is why no record can be produced now.
func (p *Producer) notNow() error {
	if p.closed {
		return broker.ErrClosed
	}
	if p.txn != nil && (p.txn.state != txnOpen || p.txn.bare) {
		return fmt.Errorf("%w: no transaction is open that takes records", broker.CodeInvalidTxnState)
	}
	return nil
}

// fail makes an error the record's answer.
func (x *pending) fail(err error) {
	x.written, x.offset, x.err = true, -1, &broker.ProduceError{TopicPartition: x.tp(), Err: err}
}

func size(r broker.ProduceRecord) int64 {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return int64(n)
}

// BufferedBytes implements broker.Producer.
func (p *Producer) BufferedBytes() int64 {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.bytes
}

// Flush implements broker.Producer; it only counts.
func (p *Producer) Flush(context.Context) error {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.flushes++
	if p.closed {
		return broker.ErrClosed
	}
	return nil
}

// Flushes counts the calls of Flush.
func (p *Producer) Flushes() int {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.flushes
}

// Close implements broker.Producer: what is not acknowledged fails, written or not.
func (p *Producer) Close() {
	p.c.mu.Lock()
	p.closed = true
	p.c.mu.Unlock()
	p.giveUp(broker.ErrClosed)
	p.Release()
}

// giveUp answers everything that has no answer, held or not.
func (p *Producer) giveUp(err error) {
	p.c.mu.Lock()
	all := p.queue
	p.queue, p.bytes = nil, 0
	for _, x := range all {
		if x.err == nil {
			x.fail(err)
		}
		p.answered(x)
	}
	p.c.mu.Unlock()
	for _, x := range all {
		x.done(x.offset, x.err)
	}
}

// answered notes an answer before it is given. The cluster is locked.
func (p *Producer) answered(x *pending) {
	if p.txn != nil {
		p.txn.answered(x.err)
	}
}

// Hold keeps records of partitions in the queue until Release; without partitions it holds all.
func (p *Producer) Hold(tps ...broker.TopicPartition) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.holdAll = p.holdAll || len(tps) == 0
	for _, tp := range tps {
		p.held[tp] = true
	}
}

// HoldAcks lets records of partitions be written but not acknowledged until Release; without partitions it holds all.
func (p *Producer) HoldAcks(tps ...broker.TopicPartition) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	p.ackAll = p.ackAll || len(tps) == 0
	for _, tp := range tps {
		p.heldAck[tp] = true
	}
}

// Release ends Hold and HoldAcks of partitions; without partitions it ends all of them. Nothing is written or
// acknowledged by it.
func (p *Producer) Release(tps ...broker.TopicPartition) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if len(tps) == 0 {
		p.holdAll, p.ackAll = false, false
		clear(p.held)
		clear(p.heldAck)
	}
	for _, tp := range tps {
		delete(p.held, tp)
		delete(p.heldAck, tp)
	}
}

// Fail makes records to come fail.
func (p *Producer) Fail(f ProduceFault) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	p.rules = append(p.rules, &f)
}

// Queued lists what is not written yet, in order.
func (p *Producer) Queued() []broker.ProduceRecord {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	var out []broker.ProduceRecord
	for _, x := range p.queue {
		if !x.written {
			out = append(out, x.rec)
		}
	}
	return out
}

// Unacknowledged counts what is queued or written and has had no answer.
func (p *Producer) Unacknowledged() int {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return len(p.queue)
}

// Write writes the next n records that are not held to their logs (all if n is below 0) and returns how many.
func (p *Producer) Write(n int) int {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	count := 0
	for _, x := range p.queue {
		if count == n {
			break
		}
		if x.written || p.holdAll || p.held[x.tp()] || p.txn != nil && p.txn.ending() {
			continue
		}
		p.write(x)
		count++
	}
	if count > 0 {
		p.c.changed.Broadcast()
	}
	return count
}

func (p *Producer) write(x *pending) {
	x.written = true
	err, alsoWrite := p.refusal(x.rec)
	if err != nil {
		x.fail(err)
		if !alsoWrite {
			return
		}
	}
	l := p.c.log(x.tp())
	if l == nil {
		x.fail(broker.CodeUnknownTopicOrPartition)
		return
	}
	txn := ""
	if p.txn != nil {
		if code := p.txn.joins(); code != 0 {
			x.fail(code)
			return
		}
		txn = p.txn.id
	}
	offset := l.add(broker.Record{
		Key: slices.Clone(x.rec.Key), Value: slices.Clone(x.rec.Value), Headers: x.rec.Headers.Clone(), TimestampMs: x.rec.TimestampMs,
	}, txn, false)
	if x.err == nil {
		x.offset = offset
	}
	p.sticky[x.rec.Topic]++
}

func (p *Producer) refusal(r broker.ProduceRecord) (err error, alsoWrite bool) {
	for i, f := range p.rules {
		if f.Topic != "" && f.Topic != r.Topic || f.When != nil && !f.When(r) {
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				p.rules = slices.Delete(p.rules, i, i+1)
			}
		}
		return f.Err, f.Written
	}
	if t := p.c.topics[r.Topic]; t != nil {
		if limit, err := strconv.ParseInt(t.configs["max.message.bytes"], 10, 64); err == nil && size(r) > limit {
			return broker.CodeMessageTooLarge, false
		}
	}
	return nil, false
}

// Ack answers the next n written records whose acknowledgement is not held (all if n is below 0), in order, by calling
// their done; it returns how many.
func (p *Producer) Ack(n int) int {
	p.c.mu.Lock()
	var ready, rest []*pending
	blocked := make(map[broker.TopicPartition]bool) // an earlier record of the partition has no answer yet
	for _, x := range p.queue {
		tp := x.tp()
		if len(ready) == n || !x.written || p.ackAll || p.heldAck[tp] || blocked[tp] {
			blocked[tp] = true
			rest = append(rest, x)
			continue
		}
		ready = append(ready, x)
		p.bytes -= x.bytes
		p.answered(x)
	}
	p.queue = rest
	p.c.mu.Unlock()
	for _, x := range ready {
		x.done(x.offset, x.err)
	}
	return len(ready)
}

// Deliver writes and acknowledges everything that is not held, records that are produced meanwhile included, and returns
// how many were acknowledged.
func (p *Producer) Deliver() int {
	total := 0
	for {
		written := p.Write(-1)
		acked := p.Ack(-1)
		total += acked
		if written == 0 && acked == 0 {
			return total
		}
	}
}

// DeliverAll delivers for every producer of the cluster.
func (c *Cluster) DeliverAll() int {
	c.mu.Lock()
	producers := slices.Clone(c.producers)
	c.mu.Unlock()
	total := 0
	for _, p := range producers {
		total += p.Deliver()
	}
	return total
}
