package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/runtime"
)

// trouble is a kind of things that go wrong.
type trouble struct {
	name string
	// exactly says that it happens under exactly-once alone: under at-least-once it does what nobody promises anything about.
	exactly bool
	weight  int
	strike  func(w *world)
}

// troubles are all kinds. One that is added at the end changes what seeds mean.
func troubles() []trouble {
	return []trouble{
		{"kill", false, 6, (*world).killOne},
		{"requests that get no answer", false, 6, (*world).loseAnswer},
		{"requests that arrive late, or twice", false, 4, (*world).delayRequest},
		{"requests that are refused for now", false, 5, (*world).moveCoordinator},
		{"a late request arrives", false, 6, (*world).arrive},
		{"a leader moves", false, 2, (*world).moveLeader},
		{"records fail", false, 3, (*world).failRecord},
		{"a member is put out", false, 4, (*world).putOut},
		{"a member gets another id, and is not told", true, 3, (*world).renameSilently},
		{"rebalances follow each other", false, 3, (*world).storm},
		{"a commit is refused", false, 4, (*world).refuseCommit},
		{"a producer is fenced", true, 3, (*world).fence},
		{"the clock jumps", false, 3, (*world).jump},
		{"a disk is full", false, 2, (*world).fillDisk},
		{"reading fails", false, 2, (*world).failReads},
		{"an instance is stopped", false, 2, (*world).stopOne},
		{"records are held up", true, 3, (*world).holdRecords},
		{"writes to a disk fail", false, 2, (*world).breakDisk},
		{"another one has the instance id", true, 1, (*world).takeInstanceID},
		{"another one has the transactional id", true, 1, (*world).takeTransactionalID},
	}
}

// somethingGoesWrong draws a trouble.
func (w *world) somethingGoesWrong() {
	all := slices.DeleteFunc(troubles(), func(t trouble) bool { return t.exactly && !w.exactly || w.alone && t.name != w.often })
	sum := 0
	for i := range all {
		if all[i].name == w.often {
			all[i].weight *= 10
		}
		sum += all[i].weight
	}
	n := w.rng.IntN(sum)
	for _, t := range all {
		if n -= t.weight; n < 0 {
			t.strike(w)
			return
		}
	}
}

// someone draws an instance that is up; nil if none is.
func (w *world) someone() *place {
	p := w.places[w.rng.IntN(len(w.places))]
	if !p.up || !p.started {
		return nil
	}
	return p
}

func (w *world) killOne() {
	if p := w.someone(); p != nil {
		w.fault("place %d is killed", p.index)
		p.kill()
	}
}

// inject makes requests fail, and remembers it so that it ends.
func (w *world) inject(f brokertest.Fault) { w.injected = append(w.injected, w.cluster.Inject(f)) }

// commitOps are the requests of a commit.
func (w *world) commitOps() []brokertest.Op {
	if !w.exactly {
		return []brokertest.Op{brokertest.OpCommitOffsets}
	}
	if ops := w.lateOps(); slices.Contains(ops, brokertest.OpProve) {
		return ops
	}
	return append(w.lateOps(), brokertest.OpProve)
}

func pick[T any](w *world, all []T) T { return all[w.rng.IntN(len(all))] }

func (w *world) loseAnswer() {
	op, applied := pick(w, w.commitOps()), w.rng.IntN(2) == 0
	w.fault("no answer to %q, applied %t", op, applied)
	w.inject(brokertest.Fault{Op: op, Err: broker.ErrNoAnswer, Applied: applied})
}

// lateOps are the requests of a commit that may arrive late.
func (w *world) lateOps() []brokertest.Op {
	switch {
	case !w.exactly:
		return []brokertest.Op{brokertest.OpCommitOffsets}
	case w.broken.engine.PlainCommits:
		return []brokertest.Op{brokertest.OpTxnOffsets, brokertest.OpEndTxn, brokertest.OpCommitOffsets}
	}
	return []brokertest.Op{brokertest.OpTxnOffsets, brokertest.OpEndTxn, brokertest.OpProve}
}

// delayRequest lets a request arrive long after it was given up, or once more after it was answered. The coordinator of
// transactions knows such requests by their epoch. Nothing knows a plain commit of the same generation: it sets offsets back, and
// under at-least-once what follows is processed again by whoever reads them.
func (w *world) delayRequest() {
	op := pick(w, w.lateOps())
	if w.rng.IntN(2) == 0 {
		w.fault("%q arrives late", op)
		w.inject(brokertest.Fault{Op: op, Err: broker.ErrNoAnswer, Late: true, Do: w.delayed})
		return
	}
	w.fault("%q arrives twice", op)
	w.inject(brokertest.Fault{Op: op, Applied: true, Late: true, Do: w.delayed})
}

// lateProof is a request for a transactional id that is on its way, of a life of an instance.
type lateProof struct {
	txn  string
	life int
}

// delayed notes such a request. That of a process which has died is that of a stranger for the next one.
func (w *world) delayed(c brokertest.Call) {
	if p := w.placeOf(c.Txn); p != nil && c.Op == brokertest.OpProve {
		w.lateProofs = append(w.lateProofs, lateProof{c.Txn, p.lives})
	}
}

// placeOf finds the instance that writes under a transactional id; nil without one.
func (w *world) placeOf(txn string) *place {
	for _, p := range w.places {
		if p.txnID != "" && p.txnID == txn {
			return p
		}
	}
	return nil
}

// proofArrived counts a request for a transactional id that has arrived late.
func (w *world) proofArrived(txn string) {
	i := slices.IndexFunc(w.lateProofs, func(l lateProof) bool { return l.txn == txn })
	if i < 0 {
		return
	}
	if p := w.placeOf(txn); p != nil && p.lives != w.lateProofs[i].life {
		p.usurped.txn++
	}
	w.lateProofs = slices.Delete(w.lateProofs, i, i+1)
}

func callText(c brokertest.Call) string {
	return fmt.Sprintf("%s of %s%s commit %t generation %d: %v", c.Op, c.Txn, c.Group, c.Commit, c.Identity.Generation, c.Err)
}

func (w *world) arrive() {
	if n := w.cluster.Late(); n > 0 {
		w.fault("a late request arrives: %s", callText(w.applyLate(w.rng.IntN(n))))
	}
}

func (w *world) applyLate(i int) brokertest.Call {
	c := w.cluster.ApplyLate(i)
	w.setBack = w.setBack || c.Op == brokertest.OpCommitOffsets && c.Err == nil
	if c.Op == brokertest.OpProve {
		w.proofArrived(c.Txn)
	}
	return c
}

func (w *world) moveCoordinator() {
	ops := append(w.commitOps(), brokertest.OpCommittedOffsets)
	code := pick(w, []broker.Code{broker.CodeNotCoordinator, broker.CodeCoordinatorLoadInProgress, broker.CodeCoordinatorNotAvailable})
	times := 1 + w.rng.IntN(3)
	w.fault("the coordinators move: %d requests of each kind get %v", times, code)
	for _, op := range ops {
		w.inject(brokertest.Fault{Op: op, Err: code, Times: times})
	}
}

func (w *world) moveLeader() {
	tp := pick(w, w.cluster.Partitions())
	w.fault("the leader of %s-%d moves", tp.Topic, tp.Partition)
	w.cluster.MoveLeader(tp)
	if w.rng.IntN(2) == 0 {
		w.inject(brokertest.Fault{Op: brokertest.OpFetch, Err: broker.CodeNotLeaderForPartition, When: func(c brokertest.Call) bool {
			return slices.Contains(c.Partitions, tp)
		}})
	}
}

func (w *world) failRecord() {
	p := w.someone()
	if p == nil {
		return
	}
	written := w.rng.IntN(2) == 0
	w.fault("a record of place %d fails, written %t", p.index, written)
	p.producer.Fail(brokertest.ProduceFault{Err: broker.CodeRequestTimedOut, Written: written})
}

// putOut lets the group forget a member that lives. Under exactly-once it may hear of it much later.
func (w *world) putOut() {
	p := w.someone()
	if p == nil || p.member == nil || p.leaves() {
		return
	}
	w.coord.Forget(p.member)
	if !w.exactly {
		w.fault("the member of place %d is put out, and told", p.index)
		p.member.Lose(true)
		p.hearGroup()
		p.producer.Write(-1)
		return
	}
	w.fault("the member of place %d is put out", p.index)
	w.group.Expire(p.member)
	if w.rng.IntN(2) == 0 {
		p.member.Lose(true)
		return
	}
	p.outMs = w.clock.NowMs() + w.rng.Int64N(1_000)
}

func (w *world) renameSilently() {
	p := w.someone()
	if p == nil || p.member == nil || p.leaves() {
		return
	}
	w.fault("the member of place %d gets another id, and is not told", p.index)
	w.coord.Forget(p.member)
	p.member.SilentlyRejoin()
	w.due = true // it has joined
}

func (w *world) storm() {
	w.fault("rebalances follow each other")
	for range 3 {
		w.rebalance()
		for range 3 + w.rng.IntN(4) {
			w.groupStep()
			w.carry(w.places[w.rng.IntN(len(w.places))])
		}
	}
}

func (w *world) refuseCommit() {
	code := pick(w, []broker.Code{
		broker.CodeIllegalGeneration, broker.CodeRebalanceInProgress, broker.CodeUnstableOffsetCommit, broker.CodeOffsetMetadataTooLarge,
		broker.CodeConcurrentTransactions, broker.CodeTransactionAbortable,
	})
	op := brokertest.OpCommitOffsets
	if w.exactly {
		op = brokertest.OpTxnOffsets
	}
	w.fault("%q gets %v", op, code)
	all := make(map[broker.TopicPartition]broker.Code)
	for _, tp := range w.cluster.Partitions() {
		all[tp] = code
	}
	w.inject(brokertest.Fault{Op: op, Err: &broker.CommitError{Group: appID, Partitions: all}})
}

// fence lets somebody else take a transactional id for a moment, as a process does that was thought dead.
func (w *world) fence() {
	if p := w.someone(); p != nil && p.producer != nil {
		w.fault("the producer of place %d gets INVALID_TXN_STATE", p.index)
		w.inject(brokertest.Fault{Op: pick(w, []brokertest.Op{brokertest.OpTxnOffsets, brokertest.OpEndTxn, brokertest.OpBegin}), Err: broker.CodeInvalidTxnState})
	}
}

func (w *world) jump() {
	d := time.Duration(1+w.rng.IntN(2*transactionTimeoutMs)) * time.Millisecond
	w.fault("the clock jumps by %v", d)
	w.advance(d)
}

func (w *world) fillDisk() {
	p := w.places[w.rng.IntN(len(w.places))]
	p.disk.full, p.disk.wasFull = !p.disk.full, true
	w.fault("the disk of place %d: full %t", p.index, p.disk.full)
}

func (w *world) failReads() {
	w.fault("reading fails")
	w.inject(brokertest.Fault{Op: brokertest.OpRead, Err: broker.ErrUnreachable, Times: 1 + w.rng.IntN(2)})
	w.inject(brokertest.Fault{Op: brokertest.OpFetch, Err: broker.ErrUnreachable, Times: 1 + w.rng.IntN(2)})
}

// holdRecords lets a broker be slow to take what an instance writes.
func (w *world) holdRecords() {
	p := w.someone()
	if p == nil || p.heldMs > 0 {
		return
	}
	d := w.rng.Int64N(4_000)
	w.fault("records of place %d are held up for %d ms", p.index, d)
	p.heldMs = w.clock.NowMs() + d
	p.producer.Hold()
}

// stopOne stops an instance in order; it starts again.
func (w *world) stopOne() {
	if p := w.someone(); p != nil {
		w.fault("place %d is stopped", p.index)
		p.stop()
	}
}

// handle pauses an instance, lets it go on, or changes how many tasks it runs at a time.
func (w *world) handle() {
	p := w.someone()
	if p == nil {
		return
	}
	switch w.rng.IntN(4) {
	case 0:
		p.say("is paused")
		p.stepper.Step(runtime.Hold{})
	case 1, 2:
		p.say("is to go on")
		p.stepper.Step(runtime.GoOn{})
	default:
		p.stepper.Step(runtime.Resize{Workers: 1 + w.rng.IntN(3), Hard: w.rng.IntN(2) == 0, PrivateBytes: 2 << 10})
	}
}

// insideRecord is called by the application's functions: now and then a record is slow, and everything else goes on.
func (w *world) insideRecord() {
	if w.calm || w.inside > 0 {
		return
	}
	if w.handled && w.rng.IntN(40) == 0 {
		w.fault("a step panics")
		panic("on purpose")
	}
	if w.rng.IntN(40) > 0 {
		return
	}
	if w.rng.IntN(2) == 0 {
		d := time.Duration(w.rng.IntN(100)) * time.Millisecond
		w.fault("a record takes %v", d)
		if err := w.clock.Advance(d); err != nil {
			w.fail(err)
		}
		return
	}
	n := 5 + w.rng.IntN(60)
	w.fault("a record is slow: %d steps happen meanwhile", n)
	w.inside++
	for i := range n {
		if i == n/2 && w.rng.IntN(3) == 0 {
			w.fault("it takes longer than a record may")
			w.advance(3 * time.Second)
		}
		if w.failure == nil {
			w.step()
		}
	}
	w.inside--
	w.note("the slow record ends")
}
