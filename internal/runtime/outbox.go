package runtime

import (
	"sync"
	"sync/atomic"

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

	mu    sync.Mutex
	shut  bool // nothing leaves any more
	hasty bool // see Broken.Unacknowledged
	over  bool // nothing more is taken; what was handed over before may still leave
	// hold keeps records back until a transaction claims their segment.
	hold   bool
	staged int64         // bytes held back
	total  *atomic.Int64 // bytes held back by all tasks
	// solo sends one record after the other, each when the one before has its answer: a broker that refuses a batch for its
	// size does not say for which record.
	solo        bool
	queue       []*sent // waiting for their turn
	flying      bool    // one of them is on its way, or waits for a verdict
	segs        []*segment
	outstanding int // records without an answer
	handed      int // units that were handed over since the last look
	free        []*slab
	failed      []*sent
	told        bool // wake was called and the machine has not looked yet

	// ordered has changelog records wait for the outputs of their turn and of those before it; see turn. onDue is called, without
	// the lock, when release has something to do.
	ordered             bool
	onDue               func(*outbox)
	firstTurn, lastTurn *turn
	spare               *turn // for use again
	due, releasing      bool
}

// segment counts the records between two hand-overs.
type segment struct {
	pending int
	held    []*sent // of them, those that wait to be claimed
	closed  bool
	claimed bool // by a transaction
	dropped bool // it will never be claimed
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
	queued  bool  // sent one by one
	claimed bool  // by a transaction
	turn    *turn // of an output that turn waits for; nil for any other record
	next    *sent // that waits behind it
	slab    *slab
	answer  func(offset int64, err error) // done, bound once
}

// slab holds records that were sent together. It is used again when all of them have an answer, so that a record on its
// way costs no allocation.
type slab struct {
	recs []sent
	left int // without an answer
}

// slabSize is how many records a slab holds.
const slabSize = 256

// freeSlabs is how many idle slabs an outbox keeps.
const freeSlabs = 64

// take returns an empty slab, counted for n records.
func (b *outbox) take(n int) *slab {
	b.mu.Lock()
	if k := len(b.free); k > 0 {
		s := b.free[k-1]
		b.free[k-1] = nil
		b.free = b.free[:k-1]
		b.mu.Unlock()
		s.left = n
		return s
	}
	b.mu.Unlock()
	s := &slab{recs: make([]sent, slabSize), left: n}
	for i := range s.recs {
		r := &s.recs[i]
		r.box, r.slab = b, s
		r.answer = r.done
	}
	return s
}

// giveBack ends a record's use of its slab. The lock is held.
func (b *outbox) giveBack(s *sent) {
	if s.slab == nil {
		return
	}
	s.slab.left--
	if s.slab.left > 0 || len(b.free) >= freeSlabs {
		return
	}
	for i := range s.slab.recs {
		r := &s.slab.recs[i]
		*r = sent{box: b, slab: s.slab, answer: r.answer}
	}
	b.free = append(b.free, s.slab)
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

// expect counts n records before they are handed to the producer. It is false if nothing may leave any more. What is held back is
// counted when it is claimed: until it has been produced user code may be asked about it, for which no transaction waits.
func (b *outbox) expect(seg *segment, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut || b.over {
		return false
	}
	if !b.hold {
		seg.pending += n
		b.outstanding += n
	}
	return true
}

// settle ends a record without the producer's help: it was dropped before it was sent, or its failure was judged.
func (b *outbox) settle(s *sent) {
	b.mu.Lock()
	tell := b.settled(s)
	due := b.nowDue()
	b.mu.Unlock()
	if tell {
		b.wake()
	}
	if due {
		b.onDue(b)
	}
	b.pump()
}

// forfeit ends a failed record that nobody judges, because its task is dropped to its last commit: the changelog must not tell of
// what its turn has done.
func (b *outbox) forfeit(s *sent) {
	b.mu.Lock()
	s.turn = nil // which waits for ever
	b.mu.Unlock()
	b.settle(s)
}

// uncount takes back what was expected and will not be sent.
func (b *outbox) uncount(seg *segment, n int) {
	if b.hold {
		return
	}
	b.mu.Lock()
	seg.pending -= n
	b.outstanding -= n
	tell := b.tell(b.outstanding == 0)
	b.mu.Unlock()
	if tell {
		b.wake()
	}
}

// produce hands a record to the producer, or holds it back. What was expected before the end and comes here behind it is dropped:
// sent now, it would be part of a transaction of others.
func (b *outbox) produce(s *sent, t *turn) {
	b.mu.Lock()
	if b.shut || b.over {
		tell := b.settled(s)
		b.mu.Unlock()
		if tell {
			b.wake()
		}
		return
	}
	if b.hold {
		s.seg.held = append(s.seg.held, s)
		n := s.bytes()
		b.staged += n
		b.total.Add(n)
		b.mu.Unlock()
		return
	}
	if t != nil && b.join(t, s) {
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	b.send(s)
}

// claim makes the units that wait part of a transaction. It returns how many they are, and their records, which are to be
// sent in this order.
func (b *outbox) claim() (units int, all []*sent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, seg := range b.segs {
		if seg.claimed {
			continue
		}
		if !seg.closed || b.shut {
			break
		}
		seg.claimed = true
		units++
		for _, s := range seg.held {
			s.claimed = true
		}
		seg.pending += len(seg.held)
		b.outstanding += len(seg.held)
		all = append(all, seg.held...)
		b.unstage(seg)
	}
	return units, all
}

// unstage forgets what a segment holds back. The lock is held.
func (b *outbox) unstage(seg *segment) {
	for _, s := range seg.held {
		n := s.bytes()
		b.staged -= n
		b.total.Add(-n)
	}
	seg.held = nil
}

// stagedBytes is the size of what is held back.
func (b *outbox) stagedBytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.staged
}

// bytes is what a record takes in memory, about.
func (s *sent) bytes() int64 {
	n := int64(recordOverhead + len(s.Key) + len(s.Value))
	for i := range s.Headers {
		n += int64(len(s.Headers[i].Key) + len(s.Headers[i].Value))
	}
	return n
}

// send hands a record to the producer, or puts it into the queue.
func (b *outbox) send(s *sent) {
	b.mu.Lock()
	wait := b.enqueue(s)
	b.mu.Unlock()
	if wait {
		b.pump()
		return
	}
	b.producer.Produce(s.ProduceRecord, s.answer)
}

// enqueue puts a record into the queue if it must not be sent at once. The lock is held.
func (b *outbox) enqueue(s *sent) (wait bool) {
	if !b.solo && len(b.queue) == 0 && !b.flying {
		return false
	}
	s.queued = true
	b.queue = append(b.queue, s)
	return true
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
	b.producer.Produce(s.ProduceRecord, s.answer)
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

// settled ends a record; it must not be used afterwards. The lock is held.
func (b *outbox) settled(s *sent) (tell bool) {
	seg := s.seg
	if b.hold && !s.claimed { // it was never counted
		b.giveBack(s)
		return false
	}
	seg.pending--
	b.outstanding--
	if s.queued {
		b.flying = false
	}
	if s.turn != nil {
		s.turn.outs--
		s.turn = nil
	}
	b.giveBack(s)
	return b.tell(b.outstanding == 0 || seg.closed && seg.pending == 0)
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
	queued := s.queued
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
	case b.shut && !b.hold: // in a transaction every failure counts, to whose end ever it comes
		tell = b.settled(s)
	default:
		s.err = err
		b.failed = append(b.failed, s)
		tell = b.tell(true)
	}
	due := b.nowDue()
	b.mu.Unlock()
	if tell {
		b.wake()
	}
	if due {
		b.onDue(b)
	}
	if queued {
		b.pump()
	}
}

// closeSegment ends the current segment with a unit, which is refused if nothing is taken any more.
func (b *outbox) closeSegment(u *task.Unit) {
	b.mu.Lock()
	seg := b.segs[len(b.segs)-1]
	if b.shut || b.over {
		b.mu.Unlock()
		return
	}
	seg.closed, seg.unit = true, u
	b.segs = append(b.segs, &segment{})
	b.handed++
	tell := b.tell(true) // the turn may go on for long
	b.mu.Unlock()
	if tell {
		b.wake()
	}
}

// endIntake takes nothing more. What belongs to no unit yet is dropped unless it has left already; units that were handed
// over before go their way.
func (b *outbox) endIntake() {
	b.mu.Lock()
	b.over = true
	if seg := b.segs[len(b.segs)-1]; b.hold && !seg.closed {
		held := seg.held
		b.unstage(seg)
		for _, s := range held {
			b.settled(s)
		}
	}
	b.dropWaiting(false)
	b.told = false // the machine looks by itself
	b.mu.Unlock()
}

// look takes what has happened since the last look: how many units were handed over, units that may be committed, in order,
// and records that failed.
func (b *outbox) look() (handed int, ready []readyUnit, failed []*sent, outstanding int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = false
	handed, b.handed = b.handed, 0
	for len(b.segs) > 0 && b.segs[0].closed && (b.segs[0].pending == 0 || b.hasty) {
		seg := b.segs[0]
		if b.hold && !seg.claimed && !seg.dropped {
			break
		}
		b.segs[0] = nil
		b.segs = b.segs[1:]
		if seg.dropped {
			continue
		}
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
	return handed, ready, failed, b.outstanding
}

// shutDown lets nothing more leave, and forgets failures: what is on its way is only waited for. What no transaction has
// claimed is dropped.
func (b *outbox) shutDown() {
	b.mu.Lock()
	b.shut = true
	for _, seg := range b.segs {
		if !b.hold || seg.claimed {
			continue
		}
		held := seg.held
		seg.dropped = true
		b.unstage(seg)
		for _, s := range held {
			b.settled(s)
		}
	}
	if !b.hold {
		for _, s := range b.failed {
			b.settled(s)
		}
		b.failed = nil
		b.dropQueue()
		b.dropWaiting(true)
	}
	b.told = false // the machine looks by itself
	b.mu.Unlock()
}

// cut drops what a transaction has claimed and what waits for its turn, because the transaction is aborted.
func (b *outbox) cut() {
	b.mu.Lock()
	b.dropQueue()
	b.told = false
	b.mu.Unlock()
}

// dropQueue settles what waits for its turn. The lock is held.
func (b *outbox) dropQueue() {
	for _, s := range b.queue {
		s.queued = false // it is not the one on its way
		b.settled(s)
	}
	b.queue = nil
}

// takes tells whether what the task does may still leave.
func (b *outbox) takes() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.shut && !b.over
}
