package runtime

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
)

// commitRound is the one commit under way: the units that were ready when it began, of one member id.
type commitRound struct {
	id       uint64
	memberID string
	identity broker.Identity // of the last try
	slots    []*slot         // that have units in it
	offsets  map[broker.TopicPartition]broker.OffsetMeta

	// Of a transaction.
	stage   txnStage
	claimed []*sent // to be sent
	began   bool    // it was begun
	shut    bool    // it takes no more units
	beganMs int64
	// beganWallMs is the same by the clock on the wall, which goes on while the machine sleeps.
	beganWallMs int64

	sinceMs  int64
	after    int32 // a generation above this one is worth trying at once; -1 any
	againMs  int64 // from when on any is worth another try
	retryMs  int64 // the next try; 0 while one is under way
	revoking bool  // it was tried once more inside a revocation
}

const (
	commitRetryMs = 50
	// commitAgainMs is after how long a commit that was refused in a rebalance is tried again with the same generation: the
	// rebalance may have been another one than the member has seen.
	commitAgainMs = 1000
)

// commitDue asks every task that has something to commit for a unit.
func (m *Machine) commitDue() {
	m.nextCommitMs = m.nowMs + m.set.CommitIntervalMs
	if m.anyToCommit() || m.commit != nil {
		m.wantCommit()
	}
	for _, s := range m.slots {
		if s.phase == phaseRunning && s.closing == closeNot && (s.dirty || s.working != nil || s.queued) {
			s.wantUnit = true
			m.advance(s)
		}
	}
}

func (m *Machine) anyToCommit() bool {
	return slices.ContainsFunc(m.slots, func(s *slot) bool { return s.dirty || s.working != nil || s.queued })
}

// tryCommit sends the units that are acknowledged, unless a commit is under way.
func (m *Machine) tryCommit() {
	if m.over {
		return
	}
	if c := m.commit; c != nil {
		if c.retryMs > 0 && m.nowMs >= c.retryMs {
			c.retryMs = 0
			m.sendCommit()
		}
		return
	}
	c := newCommitRound(m.nowMs)
	if m.gather(c); len(c.slots) == 0 {
		return
	}
	m.commit = c
	m.sendCommit()
}

func newCommitRound(nowMs int64) *commitRound {
	return &commitRound{sinceMs: nowMs, after: -1}
}

// take makes a task's units that are ready part of the round.
func (c *commitRound) take(s *slot) {
	if !slices.Contains(c.slots, s) {
		c.slots, c.memberID = append(c.slots, s), s.memberID
	}
	if c.offsets == nil { // most rounds that are looked for come to nothing
		c.offsets = make(map[broker.TopicPartition]broker.OffsetMeta)
	}
	for _, u := range s.units {
		maps.Copy(c.offsets, u.unit.Offsets)
	}
	s.inCommit = append(s.inCommit, s.units...)
	s.units = nil
}

// others tells whether the round is of another member id than the task.
func (c *commitRound) others(s *slot) bool { return len(c.slots) > 0 && c.memberID != s.memberID }

// identify finds under which identity a round is to be committed now; false if not now. It is read when the request is made
// and stays with it: should the partitions be released before it arrives, the group has a newer generation by then and
// refuses it.
func (m *Machine) identify(c *commitRound) bool {
	id, member := m.cfg.Identity()
	if !member || id.MemberID != c.memberID && !m.set.Broken.TrustIdentity || c.after >= 0 && id.Generation <= c.after && m.nowMs < c.againMs {
		return false
	}
	c.identity = id
	return true
}

// notSent is what it means that a round was not sent because of the identity.
func (m *Machine) notSent(c *commitRound) broker.Course {
	if id, member := m.cfg.Identity(); member && id.MemberID != c.memberID {
		return broker.CourseLost
	}
	return broker.CourseAwaitRebalance
}

// refusalOf is why a round failed.
func (m *Machine) refusalOf(c *commitRound, e CommitAnswered) error {
	if e.Err != nil {
		return e.Err
	}
	return fmt.Errorf("millrace: group %s: the instance is not the member %q any more", m.cfg.AppID, c.memberID)
}

// gather takes the units that are ready into a commit that is about to be sent.
func (m *Machine) gather(c *commitRound) {
	for _, s := range slices.Concat(m.slots, m.lingers) {
		if len(s.units) == 0 || s.closing == closeDirty || s.closing == closeRetry || c.others(s) {
			continue
		}
		c.take(s)
	}
}

func (m *Machine) sendCommit() {
	c := m.commit
	// What was lost or released since the last try must not be committed any more.
	c.slots = slices.DeleteFunc(c.slots, func(s *slot) bool {
		gone := s.closing == closeDirty || s.closing == closeRetry
		if gone {
			m.dropFromCommit(c, s)
		}
		return gone
	})
	if m.gather(c); len(c.slots) == 0 {
		m.commit = nil
		return
	}
	m.round++
	c.id = m.round
	if !m.identify(c) {
		m.commitAnswered(CommitAnswered{Round: c.id})
		return
	}
	m.do(Commit{Round: c.id, Identity: c.identity, Offsets: maps.Clone(c.offsets)})
}

func (m *Machine) commitAnswered(e CommitAnswered) {
	c := m.commit
	if c == nil || c.id != e.Round {
		return
	}
	var refused *broker.CommitError
	errors.As(e.Err, &refused)
	var rest []*slot
	worst := broker.CourseNone
	for _, s := range c.slots {
		course := m.courseFor(s, e, refused)
		if course == broker.CourseNone {
			m.committed(s)
			for _, in := range s.inputs {
				delete(c.offsets, in.tp)
			}
			continue
		}
		worst = max(worst, course)
		rest = append(rest, s)
	}
	// What was closed meanwhile is not tried again.
	c.slots = slices.DeleteFunc(rest, func(s *slot) bool {
		if s.closing != closeDirty && s.closing != closeRetry {
			return false
		}
		m.dropFromCommit(c, s)
		return true
	})
	if len(c.slots) == 0 {
		m.commit = nil
		return
	}
	m.log.Debug("commit refused", "course", worst.String(), "error", e.Err)
	if m.retryCommit(c, e, worst) {
		return
	}
	m.commit = nil
	m.commitFailed(c, e, worst)
}

// courseFor finds what an answer means for one task's units.
func (m *Machine) courseFor(s *slot, e CommitAnswered, refused *broker.CommitError) broker.Course {
	switch {
	case !e.Sent:
		return m.notSent(m.commit)
	case e.Err == nil:
		return broker.CourseNone
	case refused == nil:
		return broker.CourseOf(e.Err)
	}
	course := broker.CourseNone
	for _, in := range s.inputs {
		if code, ok := refused.Partitions[in.tp]; ok {
			course = max(course, code.Course())
		}
	}
	return course
}

// retryCommit arranges for another try, if the course and the time allow it.
func (m *Machine) retryCommit(c *commitRound, e CommitAnswered, course broker.Course) bool {
	if m.nowMs-c.sinceMs >= m.set.CommitTimeoutMs {
		return false
	}
	switch course {
	case broker.CourseUnknown:
		if c.began {
			return false // no call of this transaction would be taken any more: its id has to be proved first
		}
		// A plain offset commit of the same member may be sent twice: it says the same. (A lost answer leaves open whether it took
		// effect; the answer to the second settles that. Should the first arrive late, records are processed again.)
		fallthrough
	case broker.CourseRetry:
		c.after = -1
	case broker.CourseAwaitRebalance:
		if e.Sent {
			c.after, c.againMs = c.identity.Generation, m.nowMs+commitAgainMs
		}
		if slices.ContainsFunc(c.slots, func(s *slot) bool { return s.closing == closeClean && m.isRevoked(s) }) {
			// The group waits for this member: waiting for the group would be a deadlock.
			if c.revoking {
				return false
			}
			c.revoking, c.after = true, -1
			c.retryMs = 0
			if m.set.ExactlyOnce {
				m.sendTransactionOffsets()
			} else {
				m.sendCommit()
			}
			return true
		}
	default:
		return false
	}
	c.retryMs = m.nowMs + commitRetryMs
	return true
}

func (m *Machine) isRevoked(s *slot) bool {
	return slices.ContainsFunc(m.revocations, func(r *revocation) bool { return slices.Contains(r.slots, s) })
}

// committed takes the units of a task as part of its state.
func (m *Machine) committed(s *slot) {
	units := s.inCommit
	s.inCommit, s.refused = nil, nil
	s.tries = 0
	for _, u := range units {
		for _, in := range s.inputs {
			if o, ok := u.unit.Offsets[in.tp]; ok {
				in.committed = o.Offset
				if in.internal() {
					m.purge.committed(in.tp, o.Offset)
				}
			}
		}
		seal := sealing{unit: u.unit}
		for _, log := range m.logsOf(s) {
			o, ok := u.unit.Offsets[log.TopicPartition]
			if !ok || !log.Reused {
				continue
			}
			u.setPosition(log.Store, o.Offset)
			if in := s.input(log.TopicPartition); in != nil && in.end >= 0 && o.Offset >= in.end {
				seal.level = append(seal.level, log.Store)
			}
		}
		seal.positions = u.positions
		if m.set.Broken.SealEarly && m.set.ExactlyOnce {
			continue
		}
		s.toSeal = append(s.toSeal, seal)
	}
	m.count(metrics.Commits, int64(len(units)))
	s.solo = false
	if s.life != nil {
		s.life.box.setSolo(false)
	}
	m.advance(s)
}

// dropFromCommit takes a task out of a commit.
func (m *Machine) dropFromCommit(c *commitRound, s *slot) {
	for _, in := range s.inputs {
		delete(c.offsets, in.tp)
	}
	s.inCommit = nil
	m.advance(s)
}

// commitFailed drops the tasks of a commit to what is committed.
func (m *Machine) commitFailed(c *commitRound, e CommitAnswered, course broker.Course) {
	err := m.refusalOf(c, e)
	m.count(metrics.CommitsFailed, 1)
	for _, s := range c.slots {
		m.dropFromCommit(c, s)
	}
	switch course {
	case broker.CourseLost:
		m.commitLost(c, err)
	case broker.CourseStop:
		for _, s := range c.slots {
			m.closeSlot(s, closeDirty, "refused")
		}
		m.fail(fmt.Errorf("millrace: offsets cannot be committed: %w", err))
	default:
		m.log.Error("a commit failed: what the tasks did since the last one is done again", "course", course.String(), "error", err)
		for _, s := range c.slots {
			m.troubled(s, err)
		}
	}
}

// troubled drops a task to its last commit for an error that is worth another try whatever it is.
func (m *Machine) troubled(s *slot, err error) {
	if s.closing != closeNot {
		m.closeSlot(s, closeDirty, "its last commit failed")
		return
	}
	if !passing(err) {
		err = &passingError{err}
	}
	m.trouble(s, err)
}

// passingError marks an error as worth another try.
type passingError struct{ error }

func (e *passingError) Unwrap() error { return e.error }

func (e *passingError) Is(target error) bool { return target == broker.ErrNoAnswer }

// fencedWithinMs is within what time a second taken instance id says that two instances share one.
const fencedWithinMs = 10 * 60_000

// commitLost deals with a member that is not in its group any more: all its tasks are lost, and it has to be assigned anew.
func (m *Machine) commitLost(c *commitRound, err error) {
	m.log.Warn("the group has put this member out: all its tasks are closed, and what they did since their last commit is done again", "member", c.memberID, "error", err)
	m.notAMember()
	for _, s := range slices.Clone(m.slots) {
		if s.memberID == c.memberID {
			m.closeSlot(s, closeDirty, "lost")
		}
	}
	if errors.Is(err, broker.CodeFencedInstanceID) && m.takenAgain(c) && !m.set.Broken.IgnoreTwins {
		m.fail(instanceTaken(err))
		return
	}
	if m.drain == nil {
		m.ask(Rejoin{})
	}
}

// taken is when the instance id was last found taken, and from whom.
type taken struct {
	ms   int64 // 0 never
	from broker.Identity
}

// takenAgain notes that the instance id was taken from the member of a round, and tells whether that is the second time within ten
// minutes. It is not this instance's own client that has joined anew under it, which would be known by now; and what is refused
// under an identity that had lost it before, because an assignment was on its way, is the same time.
func (m *Machine) takenAgain(c *commitRound) bool {
	if id, member := m.cfg.Identity(); !member || id.MemberID != c.memberID {
		return false
	}
	last := m.taken
	again := last.ms > 0 && m.nowMs-last.ms < fencedWithinMs
	if again && c.memberID == last.from.MemberID && c.identity.Generation <= last.from.Generation {
		return false
	}
	m.taken = taken{m.nowMs, c.identity}
	return again
}
