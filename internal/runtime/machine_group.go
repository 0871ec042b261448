package runtime

import (
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/topology"
)

// revocation is a Revoked event that is not done.
type revocation struct {
	slots      []*slot
	done       func()
	deadlineMs int64
}

func (m *Machine) member(e broker.MembershipEvent) {
	switch e.Kind {
	case broker.Assigned:
		m.take(e)
		m.do(Call{Func: e.Done})
	case broker.Revoked:
		m.revoked(e)
	case broker.Lost:
		m.lost(e)
		m.do(Call{Func: e.Done})
	case broker.MembershipFail:
		m.do(Call{Func: e.Done})
		if errors.Is(e.Err, broker.ErrApplicationStopped) {
			m.telling = false
		}
		if memberFatal(e.Err) {
			if errors.Is(e.Err, broker.CodeFencedInstanceID) {
				e.Err = instanceTaken(e.Err)
			}
			m.fail(e.Err)
			return
		}
		m.sayGroupError(e.Err)
	}
}

// sayGroupError tells an error of the group: the first one, and those that follow at growing distances while none is a minute apart.
func (m *Machine) sayGroupError(err error) {
	g := &m.groupErrors
	if g.lastMs == 0 || m.nowMs-g.lastMs >= 60_000 {
		*g = groupErrors{firstMs: m.nowMs}
	}
	if g.lastMs = m.nowMs; m.nowMs < g.nextMs {
		g.left++
		return
	}
	attrs := []any{"group", m.cfg.AppID, "error", broker.OnePrefix(err)}
	if g.left > 0 {
		attrs = append(attrs, "not_told_since", g.left)
	}
	g.left, g.nextMs = 0, m.nowMs+max(1000, m.nowMs-g.firstMs)
	m.log.Error("the group reports an error", attrs...)
}

// groupErrors are those that follow each other.
type groupErrors struct {
	firstMs, lastMs, nextMs int64
	left                    int // since the last one that was told
}

// instanceTaken says what it means that somebody else has this instance's id in the group.
func instanceTaken(err error) error {
	return fmt.Errorf("millrace: another process runs under the instance id of this one and has taken its place in the group: has the state directory been copied? Remove identity.json from the copy, which keeps its state, or give each process a group.instance.id of its own: %w", err)
}

func memberFatal(err error) bool {
	return errors.Is(err, broker.ErrTopologyMismatch) || errors.Is(err, broker.ErrMixedGroup) || errors.Is(err, broker.ErrUnauthorized) ||
		errors.Is(err, broker.CodeFencedInstanceID) || errors.Is(err, broker.CodeInconsistentGroupProtocol) ||
		errors.Is(err, broker.ErrApplicationStopped) || errors.Is(err, broker.ErrGroupProtocol)
}

// take compares the whole new assignment with what is there.
func (m *Machine) take(e broker.MembershipEvent) {
	if m.drain != nil {
		return // they will be given back when the group is left
	}
	m.assigned = true
	if m.fencedBy(e.Identity, e.After); m.drain != nil {
		return
	}
	e.Tasks = m.given(e)
	for _, s := range slices.Clone(m.slots) {
		switch {
		case !slices.Contains(e.Tasks, s.id):
			// It should have been revoked before; whoever has it now may run already.
			m.closeSlot(s, closeDirty, "it is not in the new assignment, and was not revoked")
		case s.memberID != e.Identity.MemberID:
			m.closeSlot(s, closeDirty, "the instance is another member of its group now")
		case !sameInputs(s, e.Inputs[s.id]):
			// A pattern matches another topic now: the task begins again with all its inputs, from what it commits here.
			m.closeSlot(s, closeClean, "its inputs are others now")
		}
	}
	var added []string
	for _, id := range e.Tasks {
		old := m.find(id)
		if old != nil && (old.closing != closeDirty && old.closing != closeClean || old.stuck && !old.orphan) {
			continue // or it is about to be released
		}
		s, err := m.newSlot(id, e)
		if err != nil {
			m.fail(err)
			return
		}
		if old != nil {
			m.linger(old)
			s.after = old
		} else {
			s.after = m.lingering(id)
		}
		at, _ := slices.BinarySearchFunc(m.slots, id, func(s *slot, id broker.TaskID) int { return s.id.Compare(id) })
		m.slots = slices.Insert(m.slots, at, s)
		added = append(added, s.name)
	}
	m.log.Info("assigned", "tasks", len(e.Tasks), "new", added, "generation", e.Identity.Generation)
	for _, s := range slices.Clone(m.slots) {
		m.advance(s)
	}
	m.takeStandbys(e)
}

func sameInputs(s *slot, tps []broker.TopicPartition) bool {
	if len(tps) == 0 {
		return true
	}
	tps = slices.Clone(tps)
	broker.SortPartitions(tps)
	return slices.EqualFunc(s.inputs, slices.Compact(tps), func(in *input, tp broker.TopicPartition) bool { return in.tp == tp })
}

// lingering is the newest task of that id that is gone from the assignment and not closed yet.
func (m *Machine) lingering(id broker.TaskID) *slot {
	for _, s := range slices.Backward(m.lingers) {
		if s.id == id {
			return s
		}
	}
	return nil
}

// linger takes a slot out of the assigned ones; it is kept until it is closed.
func (m *Machine) linger(s *slot) {
	if i := slices.Index(m.slots, s); i >= 0 {
		m.slots = slices.Delete(m.slots, i, i+1)
		m.lingers = append(m.lingers, s)
	}
}

func (m *Machine) newSlot(id broker.TaskID, e broker.MembershipEvent) (*slot, error) {
	s := &slot{id: id, name: taskName(id), sub: m.cfg.Topology.Subtopology(id.Subtopology), memberID: e.Identity.MemberID, looked: true, streamMs: -1}
	if s.sub == nil {
		return nil, fmt.Errorf("millrace: the group assigned the task %s, which this topology does not have: another topology runs under application id %q", s.name, m.cfg.AppID)
	}
	tps := e.Inputs[id]
	if len(tps) == 0 && m.cfg.Plan.Plan != nil {
		for _, t := range m.cfg.Plan.Tasks {
			if t.Subtopology == id.Subtopology && t.Partition == id.Partition {
				for _, in := range t.Inputs {
					tps = append(tps, in.TopicPartition)
				}
			}
		}
	}
	tps = slices.Clone(tps)
	broker.SortPartitions(tps)
	for _, tp := range slices.Compact(tps) {
		in := &input{slot: s, tp: tp, node: m.sourceOf(s.sub, tp.Topic), position: -1, end: -1, committed: -1}
		if in.node == nil {
			return nil, fmt.Errorf("millrace: the group gave topic %q to the task %s, where this topology does not read it: another topology runs under application id %q", tp.Topic, s.name, m.cfg.AppID)
		}
		s.inputs = append(s.inputs, in)
	}
	return s, nil
}

// sourceOf finds the step that reads a topic.
func (m *Machine) sourceOf(sub *topology.Subtopology, topic string) *topology.Node {
	for _, n := range sub.Sources {
		if n.Pattern != "" && n.Matches(topic) {
			return n
		}
		for _, name := range n.Topics {
			if n.Internal {
				name = topology.DecoratedTopic(m.cfg.AppID, name)
			}
			if name == topic {
				return n
			}
		}
	}
	return nil
}

// internal tells whether a topic is one of the application's own, which are always read committed.
func (in *input) internal() bool { return in.node.Internal }

func (m *Machine) resetOf(n *topology.Node) restore.Reset {
	switch n.Reset {
	case topology.ResetEarliest:
		return restore.Reset{Kind: restore.ResetEarliest, Own: true}
	case topology.ResetLatest:
		return restore.Reset{Kind: restore.ResetLatest, Own: true}
	case topology.ResetNone:
		return restore.Reset{Kind: restore.ResetNone, Own: true}
	case topology.ResetByDuration:
		return restore.Reset{Kind: restore.ResetBack, BackMs: n.ResetBackMs, Own: true}
	}
	if n.Internal {
		return restore.Reset{Kind: restore.ResetEarliest, Own: true}
	}
	return m.set.Reset
}

// revoked asks the tasks for their last units, and bounds the time for it.
func (m *Machine) revoked(e broker.MembershipEvent) {
	r := &revocation{done: e.Done, deadlineMs: m.nowMs + m.handOverMs()}
	var names []string
	for _, id := range e.Tasks {
		if s := m.find(id); s != nil {
			names = append(names, s.name)
			r.slots = append(r.slots, s)
		}
	}
	m.log.Info("revoked", "tasks", names)
	m.revocations = append(m.revocations, r)
	for _, s := range r.slots {
		m.closeSlot(s, closeClean, "revoked")
	}
}

// checkRevocations answers those that are done, and gives up what is not when the time is over.
func (m *Machine) checkRevocations() {
	m.revocations = slices.DeleteFunc(m.revocations, func(r *revocation) bool {
		if m.nowMs >= r.deadlineMs {
			for _, s := range r.slots {
				if s.phase != phaseClosed && !s.orphan {
					m.log.Warn("a task could not be committed before its partitions had to be released: what it did since its last commit is done again by its next owner",
						"task", s.name, "phase", s.phase.String())
					m.giveUp(s)
				}
			}
		} else if slices.ContainsFunc(r.slots, func(s *slot) bool { return s.phase != phaseClosed && !s.orphan }) {
			return false
		}
		m.do(Call{Func: r.done})
		return true
	})
}

// lost closes everything: nothing of it may be committed.
func (m *Machine) lost(e broker.MembershipEvent) {
	m.log.Warn("lost the membership in the group: all tasks are closed, and what they did since their last commit is done again", "tasks", len(e.Tasks))
	m.notAMember()
	for _, s := range slices.Clone(m.slots) {
		m.closeSlot(s, closeDirty, "lost")
	}
}

// notAMember takes note that the group has put this instance out. From here on its leader may end what is open under the
// transactional id, and take the id.
func (m *Machine) notAMember() {
	m.assigned, m.eos.away = false, true
	m.fencedBy(broker.Identity{}, 0)
}

// giveUp lets go of a task without waiting for anybody: its worker may still be inside user code. Nothing leaves it any
// more, and its stores are closed under it.
func (m *Machine) giveUp(s *slot) {
	m.closeSlot(s, closeDirty, "given up")
	if s.phase == phaseClosed {
		return
	}
	if s.life != nil && s.working != nil && s.life.set != nil {
		s.life.set.Abandon()
		s.toSeal = nil // a replay brings it back
	}
	m.linger(s)
}

// drain is the way to the end.
type drain struct {
	deadlineMs int64
	left       bool // Leave is on its way
	abandoned  bool
	sinceMs    int64
	sayMs      int64 // when the log is told next what it waits for
}

// beginDrain hands everything over and leaves; at once if abandon is set.
func (m *Machine) beginDrain(abandon bool) {
	if m.drain == nil {
		m.drain = &drain{deadlineMs: m.nowMs + m.set.DrainTimeoutMs, sinceMs: m.nowMs, sayMs: m.nowMs + drainSayMs}
		m.report(StateDraining)
		if !abandon {
			m.log.Info("draining: the tasks hand over what they have done, and it is committed", "tasks", len(m.slots), "for_at_most", msDuration(m.set.DrainTimeoutMs))
		}
	}
	if abandon && !m.drain.abandoned {
		m.drain.abandoned, m.drain.deadlineMs = true, m.nowMs
	}
	mode := closeClean
	if m.drain.abandoned {
		mode = closeDirty
	}
	for _, s := range slices.Clone(m.slots) {
		m.closeSlot(s, mode, "the application stops")
	}
	m.advanceStandbys()
}

func (m *Machine) checkDrain() {
	if m.drain == nil || m.over || m.drain.left {
		return
	}
	if m.nowMs >= m.drain.deadlineMs {
		for _, s := range slices.Clone(m.slots) {
			if !m.drain.abandoned {
				m.log.Warn("a task could not be committed in time before the end: what it did since its last commit is done again at the next start",
					"task", s.name, "phase", s.phase.String())
			}
			m.giveUp(s)
		}
	}
	waits := func(s *slot) bool {
		if s.orphan && s.working != nil {
			return false
		}
		return s.phase != phaseClosed && (m.nowMs < m.drain.deadlineMs || s.working == nil && s.phase == phaseRestoring)
	}
	others := len(m.standbys) > 0 || len(m.asked) > 0 || m.telling
	if slices.ContainsFunc(m.slots, waits) || slices.ContainsFunc(m.lingers, waits) || others && m.nowMs < m.drain.deadlineMs {
		m.sayDrain(waits)
		return
	}
	m.drain.left = true
	if !m.joined {
		m.left(nil)
		return
	}
	// A member that failed leaves in any case, so that others take its tasks at once.
	m.do(Leave{Stay: m.drain.abandoned || m.set.StayInGroup && m.err == nil})
}

// drainSayMs is when a drain that waits tells for the first time what for; each time after that comes at twice the time since its
// beginning.
const drainSayMs = 1000

// sayDrain tells which tasks a drain waits for, and what these do.
func (m *Machine) sayDrain(waits func(*slot) bool) {
	if m.nowMs < m.drain.sayMs {
		return
	}
	waited := m.nowMs - m.drain.sinceMs
	m.drain.sayMs = m.nowMs + waited
	var tasks []string
	for _, s := range slices.Concat(m.slots, m.lingers) {
		if waits(s) {
			tasks = append(tasks, s.name+": "+m.does(s))
		}
	}
	for _, sb := range m.standbys {
		tasks = append(tasks, sb.slot.name+": the copy is closed")
	}
	for _, q := range m.asked {
		tasks = append(tasks, q.slot.name+": the policy for uncaught errors has not answered")
	}
	if m.telling {
		tasks = append(tasks, "the group: it has not told all instances to stop")
	}
	m.log.Info("draining: still waiting", "for", tasks, "waited", msDuration(waited), "at_most_for", msDuration(m.drain.deadlineMs-m.nowMs))
}

// does tells what a task that is to end is at.
func (m *Machine) does(s *slot) string {
	switch {
	case s.working != nil && s.life.progressMs.Load() > 0:
		if at, ok := s.life.place.Record(); ok && m.nowMs-s.life.progressMs.Load() >= heldUpMs {
			return "inside the record " + at.String()
		}
		return "at work"
	case !s.looked:
		return "records without an answer from a broker"
	case s.phase == phaseRunning && !m.committedAll(s):
		return "not committed"
	}
	return s.phase.String()
}

func (m *Machine) left(err error) {
	if m.over {
		return
	}
	if err != nil {
		m.log.Warn("the group was not left in order: it waits for the session timeout before others take the tasks", "error", err)
	}
	for _, r := range m.revocations {
		m.do(Call{Func: r.done})
	}
	m.revocations = nil
	if m.err == nil && len(m.asked) > 0 && !m.drain.abandoned {
		m.err = m.asked[0].uncaught.Err // nobody has said that it is to be got over
	}
	m.over = true
	if m.err != nil {
		m.report(StateFailed)
	} else {
		m.report(StateStopped)
	}
	m.do(Finish{Err: m.err})
}
