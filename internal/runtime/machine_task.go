package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/task"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// closeSlot begins to end a task. A stricter end replaces one that is under way. After a dirty end nothing of it may be
// committed any more.
func (m *Machine) closeSlot(s *slot, mode closeMode, why string) {
	if m.endSlot(s, mode, why); mode == closeDirty {
		m.roundLoses(s)
	}
}

// endSlot is closeSlot for a task that ends for an error of its own: what it has handed over before may still be committed.
func (m *Machine) endSlot(s *slot, mode closeMode, why string) {
	switch {
	case s.closing == closeRetry && mode == closeClean, s.closing == closeClean && mode == closeRetry:
		// It goes away, and trouble has dropped what could have been handed over.
		mode = closeDirty
	case s.closing != closeNot && mode <= s.closing:
		return
	}
	if s.phase == phaseClosed {
		return
	}
	s.closing = mode
	m.log.Debug("closing task", "task", s.name, "phase", s.phase.String(), "why", why)
	m.unassign(s)
	if mode != closeClean && s.life != nil {
		m.settleFailures(s, s.failed)
		if s.failed = nil; !s.claimed {
			s.units = nil
		}
		s.life.box.shutDown()
		m.lookAt(s)
	}
	m.advance(s)
}

// settleFailures ends failed records that nobody will judge.
func (m *Machine) settleFailures(s *slot, failed []*sent) {
	for _, f := range failed {
		s.life.box.forfeit(f)
	}
}

// unassign stops fetching of a task and drops what was fetched.
func (m *Machine) unassign(s *slot) {
	var tps []broker.TopicPartition
	for _, in := range s.inputs {
		if in.epoch != 0 {
			delete(m.byEpoch, in.epoch)
			in.epoch = 0
			tps = append(tps, in.tp)
		}
		in.queue, in.records, in.bytes, in.paused, in.retryMs = nil, 0, 0, false, 0
	}
	if len(tps) > 0 {
		m.do(Unassign{Partitions: tps})
	}
}

// advance does what can be done for a task now.
func (m *Machine) advance(s *slot) {
	switch s.phase {
	case phaseWaiting:
		m.advanceWaiting(s)
	case phaseRestoring:
		if s.closing != closeNot {
			m.do(CancelRestore{life: s.life})
		}
	case phaseOpening, phaseRunning, phaseClosing:
		if s.working == nil && !s.queued && m.wantsWork(s) {
			s.queued = true
			m.ready = append(m.ready, s)
		}
	}
}

func (m *Machine) advanceWaiting(s *slot) {
	if s.closing == closeClean || s.closing == closeDirty {
		if s.kept == nil {
			m.closed(s)
			return
		}
		// Stores that were kept for a replay must still be closed, on a worker.
		s.phase = phaseClosing
		m.advance(s)
		return
	}
	if m.nowMs < s.retryMs || s.asked != nil {
		return
	}
	s.retryMs = 0
	if s.after != nil {
		if s.after.phase != phaseClosed {
			return
		}
		s.after = nil
	}
	if sb := m.standbyOf(s.id); sb != nil {
		m.advanceStandby(sb) // the task begins with its stores
		if m.standbyOf(s.id) != nil {
			return
		}
	}
	if m.restores >= m.set.Restores || m.drain != nil || m.eos.broken || !s.settled() && !m.set.Broken.Unsettled {
		return
	}
	m.beginRestore(s)
}

func (m *Machine) beginRestore(s *slot) {
	s.closing = closeNot
	s.phase = phaseRestoring
	m.restores++
	l := &life{slot: s, name: s.name, kept: s.kept}
	var stores []string
	logged, follows := false, m.set.ChangelogsFollow
	for _, st := range s.sub.Stores {
		stores = append(stores, st.Name)
		logged = logged || st.Logged && st.SourceTopic == ""
		follows = follows || st.HoldsBack
	}
	l.box = m.newOutbox(stores, func() { m.cfg.Wake(Looked{life: l}) })
	l.box.ordered = logged && follows && !m.set.ExactlyOnce && !m.set.Broken.Together
	l.refused = s.refused
	l.box.setSolo(s.solo)
	s.life = l
	cfg := m.restoreConfig(s)
	cfg.Set, s.kept = s.kept, nil
	m.do(Restore{life: l, Job: restore.New(cfg)})
}

func (m *Machine) newOutbox(stores []string, wake func()) *outbox {
	b := newOutbox(m.cfg.Producer, stores, wake)
	b.hold, b.total, b.hasty = m.set.ExactlyOnce, &m.staged, m.set.Broken.Unacknowledged
	b.onDue = m.cfg.Release
	return b
}

func (m *Machine) readsCommitted(in *input) bool { return m.set.ReadCommitted || in.internal() }

// logsOf lists the changelogs of a task's stores.
func (m *Machine) logsOf(s *slot) []restore.Log {
	var logs []restore.Log
	for _, st := range s.sub.Stores {
		log := restore.Log{Store: st.Name, Kind: state.KeyValue}
		switch st.Kind {
		case topology.KeyValue:
		case topology.Buffer:
			log.Buffered = true
		case topology.Versioned:
			log.Kind = state.Versioned
		default:
			log.Kind = state.Window
		}
		switch {
		case st.SourceTopic != "":
			log.TopicPartition = broker.TopicPartition{Topic: st.SourceTopic, Partition: s.id.Partition}
			log.Reused, log.Source = true, task.SourceReplay(s.sub, st.SourceTopic)
		case st.Logged:
			log.TopicPartition = broker.TopicPartition{Topic: topology.ChangelogTopic(m.cfg.AppID, st.Name), Partition: s.id.Partition}
		default:
			continue
		}
		logs = append(logs, log)
	}
	return logs
}

func (m *Machine) restored(e Restored) {
	s := e.life.slot
	m.restores--
	s.result = e.Result
	e.life.set = e.Result.Set
	defer m.advanceAll()
	if e.Err != nil {
		// The job has closed what it opened, and left alone what it was given.
		s.life, s.kept = nil, e.life.kept
		s.phase = phaseWaiting
		if s.closing == closeNot || s.closing == closeRetry {
			if errors.Is(e.Err, context.Canceled) {
				return // cancelled from outside: the instance ends
			}
			m.trouble(s, e.Err)
		}
		return
	}
	if s.closing != closeNot {
		s.phase = phaseClosing
		return
	}
	s.phase = phaseOpening
	if m.set.Broken.Remember {
		for _, in := range s.inputs {
			s.result.Start[in.tp] = max(s.result.Start[in.tp], in.position)
		}
	}
}

// advanceAll looks at all tasks: a place among the restores is free, or something was closed.
func (m *Machine) advanceAll() {
	m.advanceStandbys()
	for _, s := range slices.Clone(m.lingers) {
		m.advance(s)
	}
	for _, s := range slices.Clone(m.slots) {
		m.advance(s)
	}
}

// taskConfig describes the task to make.
func (m *Machine) taskConfig(s *slot) *task.Config {
	cfg := m.cfg.Task
	cfg.ID = processor.TaskID{Subtopology: s.id.Subtopology, Partition: s.id.Partition}
	cfg.Sub = s.sub
	cfg.Inputs = nil
	for _, in := range s.inputs {
		cfg.Inputs = append(cfg.Inputs, in.tp)
	}
	cfg.Set = s.life.set
	cfg.Committed, cfg.Starts = s.result.Committed, s.result.Start
	cfg.RestoredTimeMs = s.result.HighestTimestampMs
	cfg.Place, cfg.Slow = &s.life.place, m.refusal(s)
	if m.set.Broken.ForgetTimes {
		cfg.Committed, cfg.RestoredTimeMs = withoutTimes(cfg.Committed), nil
	}
	return &cfg
}

// opened begins to fetch for a task whose steps are made.
func (m *Machine) opened(s *slot) {
	s.phase = phaseRunning
	if s.closing != closeNot {
		return
	}
	for _, in := range s.inputs {
		in.position, in.end = s.result.Start[in.tp], s.result.End[in.tp]
		in.committed = s.result.Committed[in.tp].Offset
		in.inTask = buffered{}
		m.assign(in)
	}
	s.result, s.openedMs = restore.Result{}, m.nowMs
	m.count(metrics.TasksOpened, 1)
	m.log.Info("task runs", "task", s.name)
}

func (m *Machine) assign(in *input) {
	m.epoch++
	in.epoch = m.epoch
	in.paused, in.stale = false, true
	m.byEpoch[in.epoch] = in
	m.do(Assign{TopicPartition: in.tp, Offset: in.position, Epoch: in.epoch})
}

// trouble deals with an error of a task: passing trouble drops it to what is committed and tries again, about anything else the
// application's policy is asked.
func (m *Machine) trouble(s *slot, err error) {
	var fatal *op.FatalError
	if !passing(err) {
		if !errors.As(err, &fatal) && s.phase != phaseRunning {
			err = fmt.Errorf("millrace: task %s cannot be started: %w", s.name, err)
		}
		m.uncaught(s, closeDirty, "failed", err)
		return
	}
	if s.quietMs > 0 && m.nowMs-s.quietMs > m.set.BackoffMaxMs {
		s.tries = 0 // it was well in between
	}
	s.quietMs = 0
	if errors.Is(err, broker.ErrUnknownTopic) && m.cfg.ForgetTopics != nil {
		m.cfg.ForgetTopics()
	}
	if s.tries == 0 {
		s.sinceMs = m.nowMs
	}
	s.tries++
	if m.nowMs-s.sinceMs >= m.set.TaskTimeoutMs {
		tries := s.tries
		s.tries = 0 // whoever replaces it begins to count anew
		m.uncaught(s, closeDirty, "failed for too long", fmt.Errorf("millrace: task %s has failed %d times in %d s (task.timeout.ms = %d): %w",
			s.name, tries, (m.nowMs-s.sinceMs)/1000, m.set.TaskTimeoutMs, err))
		return
	}
	wait := m.set.BackoffMs
	for i := 1; i < s.tries && wait < m.set.BackoffMaxMs; i++ {
		wait *= 2
	}
	wait = min(wait, m.set.BackoffMaxMs)
	m.log.Error("a task has failed: nothing of it is committed, it is tried again from its last commit", "task", s.name, "attempt", s.tries,
		"again_in_ms", wait, "error", broker.OnePrefix(err))
	s.retryMs = m.nowMs + wait
	if s.phase == phaseWaiting {
		s.closing = closeNot
		return
	}
	m.endSlot(s, closeRetry, "trouble")
}

// closed ends a task.
func (m *Machine) closed(s *slot) {
	s.phase, s.queued = phaseClosed, false
	s.life, s.kept = nil, nil
	m.unassign(s)
	if i := slices.Index(m.slots, s); i >= 0 {
		m.slots = slices.Delete(m.slots, i, i+1)
	}
	if i := slices.Index(m.lingers, s); i >= 0 {
		m.lingers = slices.Delete(m.lingers, i, i+1)
	}
	if i := slices.Index(m.ready, s); i >= 0 {
		m.ready = slices.Delete(m.ready, i, i+1)
	}
	m.unstick(s)
	m.count(metrics.TasksClosed, 1)
	if m.cfg.Task.Metrics != nil && m.find(s.id) == nil {
		m.cfg.Task.Metrics.Task(processor.TaskID{Subtopology: s.id.Subtopology, Partition: s.id.Partition}).Close()
	}
	m.log.Debug("task closed", "task", s.name)
	m.advanceAll()
}
