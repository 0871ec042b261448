package runtime

import (
	"sync"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/task"
)

// outbox is a task's way to the producer. It counts what is on its way, in segments: all records that the task sent
// between two hand-overs. A unit may be committed once its segment and all before it are acknowledged.
type outbox struct {
	producer broker.Producer
	stores   []string
	// wake tells the machine that there is something to look at. It is called without the lock, by any goroutine.
	wake func()

	mu   sync.Mutex
	shut bool // nothing leaves any more
	// solo sends one record after the other, each when the one before has its answer: a broker that refuses a batch for its
	// size does not say for which record.
	solo        bool
	queue       []*sent // waiting for their turn
	flying      bool    // one of them is on its way, or waits for a verdict
	segs        []*segment
	outstanding int // records without an answer
	failed      []*sent
	told        bool // wake was called and the machine has not looked yet
}

// segment counts the records between two hand-overs.
type segment struct {
	pending int
	closed  bool
	unit    *task.Unit
	next    []int64 // by store: the offset behind its last acknowledged changelog record, 0 none
}

// sent is a record on its way.
type sent struct {
	op.Output
	box     *outbox
	seg     *segment
	store   int // index into outbox.stores, -1 if it is no changelog record
	attempt int
	err     error
	queued  bool // sent one by one
}

// readyUnit is a unit that may be committed, with the changelog positions that its writes stand for.
type readyUnit struct {
	unit      *task.Unit
	positions map[string]state.Position
}

func newOutbox(p broker.Producer, stores []string, wake func()) *outbox {
	return &outbox{producer: p, stores: stores, wake: wake, segs: []*segment{{}}}
}

// current is the segment that new records belong to.
func (b *outbox) current() *segment {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.segs[len(b.segs)-1]
}

// expect counts n records before they are handed to the producer. It is false if nothing may leave any more.
func (b *outbox) expect(seg *segment, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut {
		return false
	}
	seg.pending += n
	b.outstanding += n
	return true
}

// settle ends a record without the producer's help: it was dropped before it was sent, or its failure was judged.
func (b *outbox) settle(s *sent) {
	b.mu.Lock()
	tell := b.settled(s)
	b.mu.Unlock()
	if tell {
		b.wake()
	}
	b.pump()
}

// produce hands a counted record to the producer, or puts it into the queue.
func (b *outbox) produce(s *sent) {
	b.mu.Lock()
	wait := b.solo || len(b.queue) > 0 || b.flying
	if wait {
		s.queued = true
		b.queue = append(b.queue, s)
	}
	b.mu.Unlock()
	if wait {
		b.pump()
		return
	}
	b.producer.Produce(s.ProduceRecord, s.done)
}

// pump sends the next of the queue if it is its turn.
func (b *outbox) pump() {
	b.mu.Lock()
	if b.flying || len(b.queue) == 0 {
		b.mu.Unlock()
		return
	}
	s := b.queue[0]
	b.queue[0] = nil
	b.queue = b.queue[1:]
	b.flying = true
	b.mu.Unlock()
	b.producer.Produce(s.ProduceRecord, s.done)
}

// setSolo turns sending one by one on or off. What is queued keeps its order.
func (b *outbox) setSolo(on bool) {
	b.mu.Lock()
	b.solo = on
	b.mu.Unlock()
}

// alone tells whether records are sent one by one.
func (b *outbox) alone() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.solo
}

func (b *outbox) settled(s *sent) (tell bool) {
	s.seg.pending--
	b.outstanding--
	if s.queued {
		b.flying = false
	}
	return b.tell(b.outstanding == 0 || s.seg.closed && s.seg.pending == 0)
}

func (b *outbox) tell(cause bool) bool {
	if !cause || b.told {
		return false
	}
	b.told = true
	return true
}

// done is the producer's answer.
func (s *sent) done(offset int64, err error) {
	b := s.box
	b.mu.Lock()
	var tell bool
	switch {
	case err == nil:
		if s.store >= 0 && offset >= 0 {
			if s.seg.next == nil {
				s.seg.next = make([]int64, len(b.stores))
			}
			s.seg.next[s.store] = max(s.seg.next[s.store], offset+1)
		}
		tell = b.settled(s)
	case b.shut:
		tell = b.settled(s)
	default:
		s.err = err
		b.failed = append(b.failed, s)
		tell = b.tell(true)
	}
	b.mu.Unlock()
	if tell {
		b.wake()
	}
	if s.queued {
		b.pump()
	}
}

// closeSegment ends the current segment with a unit.
func (b *outbox) closeSegment(u *task.Unit) {
	b.mu.Lock()
	seg := b.segs[len(b.segs)-1]
	seg.closed, seg.unit = true, u
	b.segs = append(b.segs, &segment{})
	tell := b.tell(seg.pending == 0)
	b.mu.Unlock()
	if tell {
		b.wake()
	}
}

// look takes what has happened since the last look: units that may be committed, in order, and records that failed.
func (b *outbox) look() (ready []readyUnit, failed []*sent, outstanding int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = false
	for len(b.segs) > 0 && b.segs[0].closed && b.segs[0].pending == 0 {
		seg := b.segs[0]
		b.segs[0] = nil
		b.segs = b.segs[1:]
		u := readyUnit{unit: seg.unit}
		for i, next := range seg.next {
			if next > 0 {
				if u.positions == nil {
					u.positions = make(map[string]state.Position)
				}
				u.positions[b.stores[i]] = state.Position{Offset: next, Epoch: -1}
			}
		}
		ready = append(ready, u)
	}
	failed, b.failed = b.failed, nil
	return ready, failed, b.outstanding
}

// shutDown lets nothing more leave, and forgets failures: what is on its way is only waited for.
func (b *outbox) shutDown() {
	b.mu.Lock()
	b.shut = true
	for _, s := range b.failed {
		s.seg.pending--
		b.outstanding--
	}
	b.failed = nil
	for _, s := range b.queue {
		s.seg.pending--
		b.outstanding--
	}
	b.queue = nil
	b.mu.Unlock()
}

func (b *outbox) isShut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shut
}
