package runtime

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
)

// txnStage is where the transaction of a round of commits stands. It has no meaning under at-least-once.
type txnStage uint8

const (
	stageOpen   txnStage = iota // it takes units and sends their records
	stageCommit                 // the offsets are on their way into it
	stageEnding                 // it is being committed; nobody can hold that up
	stageAborting
	stageAborted // it waits until every record of it has an answer
)

// exactlyOnce is what a machine knows about its transactional producer.
type exactlyOnce struct {
	wanted    bool  // a commit is asked for
	wantedMs  int64 // since when
	broken    bool  // nothing may be sent before the transactional id is proved again
	proving   bool
	tries     int   // of proving, in a row
	triesMs   int64 // since when
	againMs   int64 // the next one
	foreignMs int64 // when somebody else was last found to have used the transactional id, 0 never
	away      bool  // the membership was lost since the id was proved: the leader may have taken the id then
	// suspect is the member id under which the id was taken from this instance, until the group has said whether that is still
	// a member: the leader of the group ends the transaction of one that is not.
	suspect    string
	suspectErr error
	suspectGen int32  // of the group, as it was known then: what it said before confirms nothing
	suspectAsk uint64 // the ask whose answer says it
}

// wantCommit asks for the end of the open transaction, once those who were asked for a unit have answered.
func (m *Machine) wantCommit() {
	if m.set.ExactlyOnce && !m.eos.wanted {
		m.eos.wanted, m.eos.wantedMs = true, m.nowMs
	}
}

// tryTransaction does what can be done about transactions now. One is under way at a time: of the next one nothing leaves
// before the end of this one is known.
func (m *Machine) tryTransaction() {
	if m.over || m.eos.proving {
		return
	}
	if c := m.commit; c != nil && c.stage == stageAborted {
		if slices.ContainsFunc(c.slots, func(s *slot) bool { return !s.looked }) {
			return
		}
		m.dropRound(c)
	}
	if m.eos.broken {
		if m.commit == nil && m.nowMs >= m.eos.againMs {
			m.eos.proving = true
			m.do(Prove{})
		}
		return
	}
	c := m.commit
	if c == nil {
		c = newCommitRound(m.nowMs)
	}
	switch c.stage {
	case stageOpen:
		if m.claim(c); len(c.slots) == 0 {
			return
		}
		if m.commit == nil {
			m.round++
			c.id, m.commit = m.round, c
		}
		m.sendClaimed(c)
		if !c.shut && m.mayShut(c) {
			c.shut, m.eos.wanted = true, false
		}
		if c.shut && !slices.ContainsFunc(c.slots, func(s *slot) bool { return s.awaiting > 0 }) {
			c.stage, c.sinceMs = stageCommit, m.nowMs
			m.sendTransactionOffsets()
		}
	case stageCommit:
		if c.retryMs > 0 && m.nowMs >= c.retryMs {
			c.retryMs = 0
			m.sendTransactionOffsets()
		}
		if m.set.Broken.SendAhead && c.began {
			m.sendAhead(c)
		}
	}
}

// claim takes what the tasks have handed over into a round that is open.
func (m *Machine) claim(c *commitRound) {
	for _, s := range slices.Concat(m.slots, m.lingers) {
		in := slices.Contains(c.slots, s)
		if !in && (s.closing == closeDirty || s.closing == closeRetry) {
			continue
		}
		if c.others(s) {
			continue
		}
		if !c.shut && s.unclaimed > 0 && s.closing != closeRetry && s.closing != closeDirty {
			s.unclaimed = 0
			n, records := s.life.box.claim()
			if n > 0 {
				c.claimed = append(c.claimed, records...)
				s.claimed, s.awaiting = true, s.awaiting+n
				m.lookAt(s) // units without records are ready at once
			}
		}
		if !s.claimed && len(s.units) == 0 {
			continue
		}
		c.take(s)
	}
}

// sendClaimed sends the records of the units that were claimed.
func (m *Machine) sendClaimed(c *commitRound) {
	if len(c.claimed) == 0 {
		return
	}
	m.send(c, c.claimed)
	c.claimed = nil
}

// send sends records in the transaction of a round, and begins it with the first of them, or without any.
func (m *Machine) send(c *commitRound, records []*sent) {
	m.do(Send{Round: c.id, Begin: !c.began, Records: records})
	if !c.began {
		c.began, c.beganMs, c.beganWallMs = true, m.nowMs, m.cfg.Task.NowMs()
	}
}

// mayShut tells whether the open transaction is to be committed now: somebody wants it, everything that was sent has an
// answer, and nobody who was asked for a unit will answer soon. A task inside a slow record is not waited for.
func (m *Machine) mayShut(c *commitRound) bool {
	if !m.eos.wanted && !slices.ContainsFunc(c.slots, func(s *slot) bool { return s.closing != closeNot }) {
		return false
	}
	soon := func(s *slot) bool {
		asked := s.closing == closeClean && !s.handed ||
			s.closing == closeNot && (s.wantUnit || s.working != nil && s.working.handOver)
		return s.phase == phaseRunning && asked && !s.heldUp
	}
	return m.nowMs-m.eos.wantedMs >= heldUpMs || !slices.ContainsFunc(m.slots, soon)
}

// sendTransactionOffsets makes the offsets of the round part of its transaction. A round in which nothing was sent has one too:
// nothing would keep a plain commit that gets no answer from arriving late, behind the offsets of a later transaction.
func (m *Machine) sendTransactionOffsets() {
	c := m.commit
	if !m.identify(c) {
		m.transactionOffsetsAnswered(CommitAnswered{Round: c.id})
		return
	}
	offsets := maps.Clone(c.offsets)
	if !c.began && m.set.Broken.PlainCommits {
		m.do(Commit{Round: c.id, Identity: c.identity, Offsets: offsets})
		return
	}
	if !c.began {
		m.send(c, nil)
	}
	m.do(CommitInTransaction{Round: c.id, Identity: c.identity, Offsets: offsets})
}

func (m *Machine) transactionOffsetsAnswered(e CommitAnswered) {
	c := m.commit
	if c == nil || c.id != e.Round || c.stage != stageCommit {
		return
	}
	course := broker.CourseOf(e.Err)
	if !e.Sent {
		course = m.notSent(c)
	}
	if course == broker.CourseNone && !c.began { // see Broken.PlainCommits
		m.roundCommitted(c)
		return
	}
	if course == broker.CourseNone {
		c.stage = stageEnding
		m.do(EndTransaction{Round: c.id, Commit: true})
		return
	}
	m.log.Debug("commit refused", "course", course.String(), "error", e.Err)
	if m.retryCommit(c, e, course) {
		return
	}
	m.abort(c, course, m.refusalOf(c, e))
}

// roundCommitted takes everything of a round as committed.
func (m *Machine) roundCommitted(c *commitRound) {
	m.commit = nil
	for _, s := range c.slots {
		s.claimed = false
		m.committed(s)
	}
}

// transactionEnded takes how a transaction has ended.
func (m *Machine) transactionEnded(e TransactionEnded) {
	c := m.commit
	if c == nil || c.id != e.Round {
		return
	}
	switch {
	case c.stage == stageEnding && e.Err == nil:
		m.roundCommitted(c)
	case c.stage == stageEnding && m.set.Broken.UnknownIsCommitted && broker.CourseOf(e.Err) == broker.CourseUnknown:
		m.eos.broken = true
		m.roundCommitted(c)
	case c.stage == stageEnding:
		// Whether it was committed is known to the coordinator alone: nobody goes on from what is in memory.
		m.abort(c, max(broker.CourseUnknown, broker.CourseOf(e.Err)), e.Err)
	case c.stage == stageAborting:
		if e.Err != nil {
			m.log.Warn("a transaction could not be aborted: the transactional id is proved again, which ends it", "error", e.Err)
			m.eos.broken = true
		}
		c.stage = stageAborted
	}
}

// abort drops a round. The tasks in it go back to what is committed.
func (m *Machine) abort(c *commitRound, course broker.Course, err error) {
	if c.stage == stageAborting || c.stage == stageAborted {
		return
	}
	m.count(metrics.CommitsFailed, 1)
	m.log.Error("a transaction is aborted: what its tasks did since their last commit is done again", "course", course.String(), "error", err)
	ended := c.stage == stageEnding
	c.stage = stageAborted
	switch {
	case course == broker.CourseUnknown, course == broker.CourseRebuild:
		m.eos.broken = true
	case c.began && !ended:
		c.stage = stageAborting
		m.do(EndTransaction{Round: c.id})
	}
	c.claimed = nil
	for _, s := range slices.Clone(c.slots) {
		if s.life != nil {
			s.life.box.cut()
		}
		if s.closing == closeNot || s.closing == closeClean {
			m.troubled(s, err)
		}
	}
	switch course {
	case broker.CourseLost:
		m.commitLost(c, err)
	case broker.CourseStop:
		m.fail(fmt.Errorf("millrace: a transaction cannot be committed: %w", err))
	case broker.CourseRebuild:
		m.fenced(c, err)
	}
}

// fenced deals with a transactional id that is not this instance's any more: it was away for longer than the timeout of a
// transaction, or somebody else has taken the id. Nothing of what is in memory is gone on from.
func (m *Machine) fenced(c *commitRound, err error) {
	for _, s := range slices.Clone(m.slots) {
		if s.closing == closeNot && s.phase == phaseRunning {
			m.troubled(s, err)
		}
	}
	id, member := m.cfg.Identity()
	// Of a machine that was asleep nothing but the clock on the wall tells how long it was away.
	late := max(m.nowMs-c.beganMs, m.cfg.Task.NowMs()-c.beganWallMs) >= m.set.TransactionTimeoutMs
	if late || m.eos.away || !member || id.MemberID != c.memberID || !errors.Is(err, broker.CodeProducerFenced) && !errors.Is(err, broker.CodeInvalidProducerEpoch) {
		return
	}
	if tx, ok := m.cfg.Producer.(broker.Transactions); ok && tx.Stray() {
		return // it may have been a request of its own
	}
	// The group may have put this member out without its knowing: it is asked.
	m.eos.suspect, m.eos.suspectErr, m.eos.suspectGen, m.eos.suspectAsk = c.memberID, err, id.Generation, m.asks+1
	if m.drain == nil {
		m.ask(Rejoin{})
	}
}

// fencedBy decides, once the group has answered, who has taken the transactional id: the leader of the group, if this instance
// was put out, or somebody else, if it was a member all the time.
//
// after is how many asks of this instance the answer takes into account, where that does not show by its generation.
func (m *Machine) fencedBy(id broker.Identity, after uint64) {
	suspect, err := m.eos.suspect, m.eos.suspectErr
	if suspect == "" || suspect == id.MemberID && id.Generation <= m.eos.suspectGen && after < m.eos.suspectAsk { // it was on its way before
		return
	}
	m.eos.suspect, m.eos.suspectErr = "", nil
	if suspect != id.MemberID {
		return
	}
	if m.eos.foreignMs > 0 && m.nowMs-m.eos.foreignMs < fencedWithinMs && !m.set.Broken.IgnoreTwins {
		m.fail(fmt.Errorf("millrace: another instance writes under the same transactional id, and both take it from each other: has the state directory been copied? Remove identity.json from the copy, which keeps its state: %w", err))
		return
	}
	m.eos.foreignMs = m.nowMs
	m.log.Warn("somebody else has taken the transactional id of this instance, which was a member of its group all the time: once more within ten minutes stops the application", "error", err)
}

// roundLoses takes out of the round under way a task whose partitions are not this instance's any more: nothing of it may be
// committed, and the coordinator would not refuse it. It is too late once the end of the transaction has been sent; then the
// next owner waits for it when it asks for the offsets.
func (m *Machine) roundLoses(s *slot) {
	c := m.commit
	if !m.set.ExactlyOnce || m.set.Broken.KeepReleased || c == nil || !slices.Contains(c.slots, s) || c.stage != stageOpen && c.stage != stageCommit {
		return
	}
	if c.began {
		m.abort(c, broker.CourseAbort, fmt.Errorf("millrace: task %s was taken away before its part of the transaction was committed", s.name))
		return
	}
	c.slots = slices.DeleteFunc(c.slots, func(x *slot) bool { return x == s })
	for _, in := range s.inputs {
		delete(c.offsets, in.tp)
	}
	s.leaveRound()
	if len(c.slots) == 0 {
		m.commit = nil
	}
	m.advance(s)
}

// dropRound ends a round that was aborted.
func (m *Machine) dropRound(c *commitRound) {
	m.commit = nil
	for _, s := range c.slots {
		if m.set.Broken.KeepStaged {
			s.sealNow(slices.Concat(s.inCommit, s.units))
		}
		s.leaveRound()
	}
	m.advanceAll()
}

// leaveRound drops the task's part of a round that is not committed.
func (s *slot) leaveRound() { s.claimed, s.awaiting, s.inCommit, s.units = false, 0, nil, nil }

// proved takes the answer of the coordinator to the question who has the transactional id.
func (m *Machine) proved(err error) {
	m.eos.proving = false
	if err == nil {
		m.eos.broken, m.eos.tries, m.eos.away = false, 0, false
		m.advanceAll()
		return
	}
	if m.eos.tries == 0 {
		m.eos.triesMs = m.nowMs
	}
	m.eos.tries++
	if broker.CourseOf(err) == broker.CourseStop || m.nowMs-m.eos.triesMs >= m.set.TaskTimeoutMs {
		m.fail(fmt.Errorf("millrace: the transactional id cannot be taken: %w", err))
	} else {
		m.log.Error("the transactional id cannot be taken, it is tried again", "attempt", m.eos.tries, "error", err)
	}
	m.eos.againMs = m.nowMs + m.set.BackoffMs
}

// sendFailed takes a transaction that could not even be begun.
func (m *Machine) sendFailed(e Sent) {
	if c := m.commit; c != nil && c.id == e.Round {
		m.abort(c, broker.CourseRebuild, e.Err)
	}
}

// recordsFailed takes records of a task that could not be written in a transaction: it can only be aborted. Where the broker
// refuses a record for what it is, the replay asks the production handler about it before it is sent again.
func (m *Machine) recordsFailed(s *slot, failed []*sent) {
	if len(failed) == 0 {
		return
	}
	course, first := broker.CourseAbort, failed[0]
	for _, f := range failed {
		switch broker.ProduceClassOf(f.err) {
		case broker.ProduceRefused:
			if !errors.Is(f.err, broker.ErrRecordTooLarge) || s.life.box.alone() {
				s.refused = append(s.refused, newRefusal(f.ProduceRecord, f.err))
			} else {
				s.solo = true // a batch was too large: which of its records is to blame shows when they are sent one by one
			}
		case broker.ProduceBroken:
			course = max(course, broker.CourseRebuild)
		case broker.ProduceForbidden:
			course = broker.CourseStop
		}
	}
	err := fmt.Errorf("millrace: task %s: step %s: %w", s.name, first.Step, first.err)
	m.settleFailures(s, failed)
	if c := m.commit; c != nil && slices.Contains(c.slots, s) {
		m.abort(c, course, err)
	}
}

// refusal is a record that a broker has refused for what it is.
type refusal struct {
	record broker.ProduceRecord
	err    error
}

func newRefusal(r broker.ProduceRecord, err error) refusal {
	r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), nil
	return refusal{record: r, err: err}
}

func (f *refusal) same(r *broker.ProduceRecord) bool {
	x := &f.record
	return x.Topic == r.Topic && x.Partition == r.Partition && x.TimestampMs == r.TimestampMs && bytes.Equal(x.Key, r.Key) && bytes.Equal(x.Value, r.Value)
}
