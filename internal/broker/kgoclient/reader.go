package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/internal/broker"
)

// Reader implements broker.Reader. Reads of different partitions of one broker that wait at the same time travel in one
// request: a broker answers the requests of a connection one after the other, so a read at the end of its log would
// otherwise hold up all the others.
type Reader struct {
	c     *conn
	meta  *metadata
	near  *nearby
	dec   kgo.Decompressor
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu     sync.Mutex
	queues map[int32][]*readCall
	busy   map[int32]bool
	closed bool
	left   map[broker.TopicPartition]readMark // where the last read of a partition has ended
}

// readMark is what is known of the log below a position that was read up to. Who goes on there goes on in that log: if it was
// truncated meanwhile, or its topic made anew, what comes next does not belong to what was read.
type readMark struct {
	offset int64
	epoch  int32 // -1 unknown
	from   int32 // the leader's epoch, under which it was read
	id     [16]byte
}

type readCall struct {
	part  fetchPart
	wait  time.Duration
	reply chan readReply // holds one
}

type readReply struct {
	fetched
	replica bool  // it was asked of a broker that is not the leader
	err     error // of the whole request
}

var _ broker.Reader = (*Reader)(nil)

// NewReader opens a reading client.
func NewReader(cfg Config) (*Reader, error) {
	c, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	r := &Reader{
		c: c, meta: newMetadata(c), near: newNearby(c.cfg.Fetch.Rack, c.cfg.MetadataMaxAge), dec: kgo.DefaultDecompressor(),
		queues: make(map[int32][]*readCall), busy: make(map[int32]bool), left: make(map[broker.TopicPartition]readMark),
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r, nil
}

// Read implements broker.Reader.
func (r *Reader) Read(ctx context.Context, tp broker.TopicPartition, offset int64, maxBytes int32, wait time.Duration) (broker.Batch, error) {
	none := broker.Batch{TopicPartition: tp, Position: offset, LastEpoch: -1, HighWater: -1, StableEnd: -1, LogStart: -1}
	var last error // other than the end of the context
	for failures := 0; ; {
		reply, err := r.try(ctx, tp, offset, maxBytes, wait)
		if err == nil {
			err = reply.err
		}
		if err == nil {
			err = reply.fetched.err
		}
		switch {
		case err == nil && reply.preferred >= 0 && reply.batch.Position == offset:
			r.near.prefer(tp, reply.preferred)
			continue
		case err == nil:
			r.mark(&reply.fetched)
			return reply.batch, nil
		case reply.replica && ctx.Err() == nil && r.ctx.Err() == nil:
			r.near.failed(tp) // the leader has the word
			continue
		}
		failures++
		if ctx.Err() == nil || last == nil {
			last = err
		}
		var code broker.Code
		switch {
		case errors.As(err, &code) && code == broker.CodeOffsetOutOfRange:
			return none, r.c.rangeError(ctx, tp, offset)
		case errors.As(err, new(*broker.TruncatedError)):
			r.unmark(tp)
			return none, r.c.fail(fmt.Sprintf("read %s-%d@%d", tp.Topic, tp.Partition, offset), err)
		case errors.Is(err, broker.ErrUnknownTopic) && failures > unknownTries,
			errors.As(err, &code) && !code.Retriable(),
			errors.Is(err, kgo.ErrClientClosed), r.ctx.Err() != nil, ctx.Err() != nil,
			errors.Is(err, errCorrupt):
			return none, r.c.fail(fmt.Sprintf("read %s-%d@%d", tp.Topic, tp.Partition, offset), last)
		}
		r.meta.forget(tp.Topic)
		r.near.forget(tp)
		select {
		case <-time.After(r.c.cfg.backoff(failures)):
		case <-ctx.Done():
		case <-r.ctx.Done():
		}
	}
}

// try sends one read to the leader and waits for the answer.
func (r *Reader) try(ctx context.Context, tp broker.TopicPartition, offset int64, maxBytes int32, wait time.Duration) (readReply, error) {
	l, t, ok := r.meta.leaderOf(tp)
	if !ok {
		if err := r.meta.load(ctx, t.version, tp.Topic); err != nil {
			return readReply{}, err
		}
		l, t, ok = r.meta.leaderOf(tp)
	}
	switch {
	case t.err != nil:
		return readReply{}, t.err
	case int(tp.Partition) >= len(t.partitions):
		return readReply{}, broker.CodeUnknownTopicOrPartition
	case !ok:
		return readReply{}, broker.CodeLeaderNotAvailable
	}
	before := r.marked(tp, offset)
	if before.id != t.id && before.id != [16]byte{} && t.id != [16]byte{} {
		return readReply{}, &broker.TruncatedError{TopicPartition: tp, Offset: offset, Remade: true}
	}
	// Another leader than the one under which it was read has to compare epochs first. Any leader may, but is asked to only where
	// it answers itself: see nearby.
	compare := before.epoch >= 0 && before.from != l.epoch
	node := l.node
	if !compare {
		node = r.near.node(tp, l.node)
		if r.near.rack != "" {
			before.epoch = -1
		}
	}
	call := &readCall{
		part: fetchPart{
			TopicPartition: tp, id: t.id, offset: offset, leaderEpoch: l.epoch, lastEpoch: before.epoch, maxBytes: maxBytes, replica: node != l.node,
		},
		wait:  wait,
		reply: make(chan readReply, 1),
	}
	if !r.enqueue(node, call) {
		return readReply{}, kgo.ErrClientClosed
	}
	select {
	case reply := <-call.reply:
		return reply, nil
	case <-ctx.Done():
		return readReply{}, ctx.Err()
	case <-r.ctx.Done():
		return readReply{}, kgo.ErrClientClosed
	}
}

// mark notes where a read has ended.
func (r *Reader) mark(f *fetched) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := readMark{f.batch.Position, f.lastEpoch, f.part.leaderEpoch, f.part.id}
	if old, ok := r.left[f.part.TopicPartition]; ok && m.epoch < 0 && old.offset == m.offset && old.id == m.id {
		m.epoch = old.epoch // nothing was read: what lies below is what it was
	}
	r.left[f.part.TopicPartition] = m
}

func (r *Reader) unmark(tp broker.TopicPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.left, tp)
}

// marked is what is known of the log below an offset: something only for who goes on where the last read has ended.
func (r *Reader) marked(tp broker.TopicPartition, offset int64) readMark {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.left[tp]; ok && m.offset == offset && offset > 0 {
		return m
	}
	return readMark{epoch: -1}
}

func (r *Reader) enqueue(node int32, call *readCall) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.queues[node] = append(r.queues[node], call)
	if !r.busy[node] {
		r.busy[node] = true
		r.tasks.Add(1)
		go r.serve(node)
	}
	return true
}

// serve sends what is queued for a broker until nothing is.
func (r *Reader) serve(node int32) {
	defer r.tasks.Done()
	for {
		r.mu.Lock()
		calls := r.queues[node]
		delete(r.queues, node)
		if len(calls) == 0 || r.closed {
			r.busy[node] = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		r.send(node, calls)
	}
}

func (r *Reader) send(node int32, calls []*readCall) {
	slices.SortFunc(calls, func(a, b *readCall) int { return a.part.Compare(b.part.TopicPartition) })
	wait, total := calls[0].wait, int64(0)
	parts := make([]fetchPart, len(calls))
	for i, c := range calls {
		parts[i] = c.part
		wait = min(wait, c.wait)
		total += int64(c.part.maxBytes)
	}
	answers, err := r.c.fetch(r.ctx, r.dec, node, r.near.rackFor(parts), readCommitted, wait, 1, int32(min(total, int64(r.c.cfg.Fetch.MaxBytes))), parts)
	byPartition := make(map[broker.TopicPartition]fetched, len(answers))
	for _, a := range answers {
		byPartition[a.part.TopicPartition] = a
	}
	for _, c := range calls {
		a, ok := byPartition[c.part.TopicPartition]
		reply := readReply{fetched: a, replica: c.part.replica, err: err}
		if err == nil && !ok {
			reply.err = broker.CodeUnknownTopicID // the broker does not know the topic by this id (yet)
		}
		c.reply <- reply
	}
}

// Close implements broker.Reader: reads under way fail with ErrClosed.
func (r *Reader) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.near.close()
	r.stop()
	r.c.Close()
	r.tasks.Wait()
}
