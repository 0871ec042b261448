package runtime

import (
	"context"
	"sync"
)

// A turn is what a task sends at one go: outputs, which others read, and changelog records, which tell its own next life what
// has been done. Under at-least-once the changelog must not be ahead of the outputs: a life that is restored from it would take
// for sent what has never reached a broker, and the input that is processed again would not make it a second time. So the
// changelog records of a turn leave when the outputs of it, and of all turns before it, have their answers.
type turn struct {
	seg         *segment
	open        bool  // more may come
	outs        int   // outputs without an answer
	first, last *sent // changelog records that wait, in their order
	bytes       int64 // that they take
	next        *turn
}

// beginTurn opens the next turn; nil if changelog records wait for nothing.
func (b *outbox) beginTurn(seg *segment) *turn {
	if !b.ordered {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.spare
	if t == nil {
		t = new(turn)
	} else {
		b.spare = t.next
	}
	*t = turn{seg: seg, open: true}
	if b.lastTurn == nil {
		b.firstTurn = t
	} else {
		b.lastTurn.next = t
	}
	b.lastTurn = t
	return t
}

// endTurn closes a turn. What waits for nothing leaves at once.
func (b *outbox) endTurn(t *turn) {
	if t == nil {
		return
	}
	b.mu.Lock()
	t.open = false
	due := b.nowDue()
	b.mu.Unlock()
	if due {
		b.release()
	}
}

// join makes a record part of a turn. It is true if the record has to wait. The lock is held.
func (b *outbox) join(t *turn, s *sent) (waits bool) {
	if s.store < 0 {
		t.outs++
		s.turn = t
		return false
	}
	if t.last == nil {
		t.first = s
	} else {
		t.last.next = s
	}
	t.last = s
	n := s.bytes()
	t.bytes += n
	b.total.Add(n)
	return true
}

// nowDue tells whether the first turn has all its answers, and nobody knows yet: then it is to be released. The lock is held.
func (b *outbox) nowDue() bool {
	if b.due || b.releasing || !b.turnOver() {
		return false
	}
	b.due = true
	return true
}

func (b *outbox) turnOver() bool {
	return b.firstTurn != nil && !b.firstTurn.open && b.firstTurn.outs == 0
}

// release sends the changelog records that have waited long enough. It may have to wait for room in the producer, so it must
// not be called by what brings answers.
func (b *outbox) release() {
	b.mu.Lock()
	b.due = false
	if b.releasing { // whoever is at it takes what is due by now
		b.mu.Unlock()
		return
	}
	b.releasing = true
	flush := false
	for b.turnOver() {
		t := b.firstTurn
		if b.firstTurn = t.next; b.firstTurn == nil {
			b.lastTurn = nil
		}
		s := t.first
		t.first, t.last = nil, nil
		b.mu.Unlock()
		for s != nil {
			next := s.next
			b.releaseRecord(s) // it must not be used any more
			s = next
		}
		b.mu.Lock()
		b.total.Add(-t.bytes)
		// The machine has flushed for a commit when the unit was handed over. What comes later must not linger either.
		flush = flush || t.bytes > 0 && t.seg.closed
		*t = turn{next: b.spare}
		b.spare = t
	}
	b.releasing = false
	b.mu.Unlock()
	if flush {
		_ = b.producer.Flush(context.Background()) // it does not wait; a producer that is closed has answered everything
	}
}

// releaseRecord sends one record that has waited, or drops it if nothing leaves any more.
func (b *outbox) releaseRecord(s *sent) {
	b.mu.Lock()
	s.next = nil
	if b.shut {
		tell := b.settled(s)
		b.mu.Unlock()
		if tell {
			b.wake()
		}
		return
	}
	wait := b.enqueue(s)
	b.mu.Unlock()
	if wait {
		b.pump()
		return
	}
	b.producer.Produce(s.ProduceRecord, s.answer)
}

// dropWaiting settles the changelog records that wait: all of them, or those that belong to no unit. The lock is held.
func (b *outbox) dropWaiting(all bool) {
	for t := b.firstTurn; t != nil; t = t.next {
		if t.seg.closed && !all {
			continue
		}
		for s := t.first; s != nil; {
			next := s.next
			s.next = nil
			b.settled(s)
			s = next
		}
		b.total.Add(-t.bytes)
		t.first, t.last, t.bytes = nil, nil, 0
	}
}

// releaser releases what is due in outboxes, on a goroutine of its own: an answer must not wait for room in the producer, since
// it is answers that make room.
type releaser struct {
	mu   sync.Mutex
	due  []*outbox
	more chan struct{} // has a token if something may be due
}

func newReleaser() *releaser { return &releaser{more: make(chan struct{}, 1)} }

// add notes that something is due. It never blocks.
func (r *releaser) add(b *outbox) {
	r.mu.Lock()
	r.due = append(r.due, b)
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// take appends the outboxes in which something is due.
func (r *releaser) take(to []*outbox) []*outbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	to = append(to, r.due...)
	clear(r.due)
	r.due = r.due[:0]
	return to
}

// run releases until the context ends.
func (r *releaser) run(ctx context.Context) {
	var due []*outbox
	for {
		select {
		case <-r.more:
		case <-ctx.Done():
			return
		}
		due = r.take(due[:0])
		for _, b := range due {
			b.release()
		}
		clear(due)
	}
}
