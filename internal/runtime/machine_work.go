package runtime

import (
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/state"
)

// heldUpMs is how long a worker may be inside one record before another one takes its place.
const heldUpMs = 50

// wantsWork tells whether a task has a reason to run.
func (m *Machine) wantsWork(s *slot) bool {
	switch s.phase {
	case phaseOpening, phaseClosing:
		return true
	case phaseRunning:
	default:
		return false
	}
	if len(s.toSeal) > 0 {
		return true
	}
	switch s.closing {
	case closeRetry, closeDirty:
		return s.settled() || m.set.Broken.Unsettled
	case closeClean:
		if s.stuck { // it is only waited until what it has handed over is committed
			return false
		}
		return len(s.failed) > 0 || !s.handed || m.committedAll(s)
	}
	if len(s.failed) > 0 || s.wantUnit || s.flushMs > 0 && m.nowMs >= s.flushMs {
		return true
	}
	if m.full || m.held {
		return false
	}
	if s.more || s.waitMs > 0 && m.nowMs >= s.waitMs || s.timerMs > 0 && m.nowMs >= s.timerMs {
		return true
	}
	return slices.ContainsFunc(s.inputs, func(in *input) bool { return len(in.queue) > 0 })
}

// committedAll tells whether everything that was handed over is committed.
func (m *Machine) committedAll(s *slot) bool {
	return s.unacked == 0 && len(s.units) == 0 && len(s.inCommit) == 0
}

// schedule gives work to free workers.
func (m *Machine) schedule() {
	if !m.full && m.set.ProducerBytes > 0 && m.outgoing() >= m.set.ProducerBytes {
		m.full = true
		if m.set.ExactlyOnce {
			m.commitDue() // what the tasks keep for a transaction is what fills the memory
		}
	}
	for len(m.ready) > 0 && m.busy < m.set.Workers {
		s := m.ready[0]
		m.ready = slices.Delete(m.ready, 0, 1)
		s.queued = false
		if s.working != nil || !m.wantsWork(s) {
			continue
		}
		w := m.work(s)
		s.working, s.heldUp = w, false
		s.life.progressMs.Store(m.nowMs)
		m.busy++
		m.running = append(m.running, s)
		m.do(Run{Work: w})
	}
}

// outgoing is the size of what is on its way to the brokers, or waits to be.
func (m *Machine) outgoing() int64 { return m.cfg.Producer.BufferedBytes() + m.staged.Load() }

// work takes together what a task has to do.
func (m *Machine) work(s *slot) *Work {
	if s.life == nil { // only stores that were kept are to be closed
		s.life = &life{slot: s, name: s.name, set: s.kept, box: m.newOutbox(nil, func() {})}
		s.kept = nil
	}
	w := &Work{life: s.life, shared: m.shared}
	if s.phase == phaseOpening && s.closing == closeNot {
		w.open = m.taskConfig(s)
		for _, in := range s.inputs {
			w.starts = append(w.starts, startAt{tp: in.tp, from: s.result.Start[in.tp], to: s.result.End[in.tp]})
		}
		w.process = !m.held // timers
		return w
	}
	w.seal, s.toSeal = s.toSeal, nil
	w.failed, s.failed = s.failed, nil
	s.flushMs = 0
	switch {
	case s.closing == closeNot:
		w.handOver, s.wantUnit = s.wantUnit, false
		if !m.full && !m.held {
			m.takeBatches(s, w)
			w.process = true
			if s.timerMs > 0 && m.nowMs >= s.timerMs {
				w.timerMs = s.timerMs
				m.listen(s, w)
			}
			s.more, s.waitMs, s.timerMs = false, 0, 0
		}
	case s.closing == closeClean && s.stuck && s.phase == phaseRunning: // only to seal
	case s.closing == closeClean && s.phase == phaseRunning:
		if !s.handed {
			w.handOver = true
		} else if m.committedAll(s) && len(w.failed) == 0 {
			w.finish = finishClean
			s.phase = phaseClosing
		}
	case s.phase == phaseRunning && !s.settled() && !m.set.Broken.Unsettled: // only to seal
	case s.closing == closeRetry && m.keepsStores(s):
		w.finish = finishKeep
		s.phase = phaseClosing
	default:
		w.finish = finishDirty
		s.phase = phaseClosing
	}
	return w
}

// listen tells a task, when a timer is due, which of its inputs with an idle timeout have been heard of since the last one:
// those alone can be known to have nothing new.
func (m *Machine) listen(s *slot, w *Work) {
	for _, in := range s.inputs {
		if in.node.IdleMs == 0 {
			continue
		}
		n := uint64(0)
		if in.epoch != 0 && !in.paused {
			n = m.cfg.Answers(in.tp)
		}
		w.heard = append(w.heard, heard{tp: in.tp, ok: n > 0 && n != in.answers})
		in.answers = n
	}
}

// keepsStores tells whether a replay of the gap is worth keeping the stores open: those in memory would have to be filled
// anew otherwise.
func (m *Machine) keepsStores(s *slot) bool {
	for _, st := range s.sub.Stores {
		if !st.Persistent || m.cfg.Headers == nil {
			return true
		}
	}
	return false
}

func (m *Machine) worked(d *Done) {
	s := d.work.life.slot
	if s.working != d.work {
		return
	}
	s.working = nil
	if i := slices.Index(m.running, s); i >= 0 {
		m.running = slices.Delete(m.running, i, i+1)
	}
	if !s.heldUp {
		m.busy--
	}
	m.cfg.Stats.worked(s, d)
	switch {
	case d.work.finish != goOn:
		m.finished(s, d)
		return
	case d.Err != nil:
		m.settleFailures(s, d.work.failed)
		if s.closing == closeDirty || s.closing == closeRetry || s.stuck {
			m.log.Debug("a task failed while it was closing", "task", s.name, "error", d.Err)
			break
		}
		if s.phase == phaseOpening {
			s.phase = phaseRunning // for what follows, an end like any other
		}
		m.trouble(s, d.Err)
	case d.work.open != nil:
		m.opened(s)
	}
	if s.phase == phaseRunning {
		m.observe(s, d)
	}
	m.lookAt(s)
	m.advance(s)
}

// observe takes over what a turn has told.
func (m *Machine) observe(s *slot, d *Done) {
	// A turn that began before the end was asked for may have taken records behind its hand-over.
	if d.handed && s.closing == closeClean && !d.work.process {
		s.handed = true
	}
	if d.Err != nil || s.closing != closeNot {
		return
	}
	// A turn that was not to process, because the producer had no room, knows nothing of what is left to take.
	s.more = d.more || s.more && !d.work.process
	s.waitMs, s.timerMs = d.idle.UntilMs, d.timerMs
	s.dirty = d.commit
	s.streamMs = d.streamMs
	if d.commit && (d.request || m.set.CommitIntervalMs == 0) {
		s.wantUnit = true
		m.wantCommit()
	}
	if at := m.nowMs + d.flushInMs; d.flushInMs > 0 && (s.flushMs == 0 || at < s.flushMs) {
		s.flushMs = at
	}
	for _, b := range d.buffered {
		if in := s.input(b.tp); in != nil {
			in.inTask = b
			m.throttle(in)
		}
	}
}

// flushEveryMs is when sealed state is looked at again; the state decides whether it is written then.
const flushEveryMs = 2000

func (s *slot) input(tp broker.TopicPartition) *input {
	for _, in := range s.inputs {
		if in.tp == tp {
			return in
		}
	}
	return nil
}

// finished takes the end of a task's last turn.
func (m *Machine) finished(s *slot, d *Done) {
	if d.Err != nil && !(s.closing == closeDirty && errors.Is(d.Err, state.ErrClosed)) { // its stores were closed under it
		m.log.Warn("closing a task reported an error", "task", s.name, "error", d.Err)
	}
	if d.work.finish == finishKeep && d.Err == nil {
		s.kept = d.work.life.set
	}
	if s.closing == closeRetry || s.kept != nil {
		closing := s.closing
		s.again()
		if closing != closeRetry {
			s.closing = closing // asked for meanwhile: only the stores are left to close
		}
		m.advance(s)
		return
	}
	// What a full disk did not take is committed: it comes back from the changelog.
	if d.Err != nil && d.work.finish == finishClean && s.closing == closeClean && !passing(d.Err) {
		m.closed(s)
		m.fail(fmt.Errorf("millrace: task %s: close: %w", s.name, d.Err))
		return
	}
	m.closed(s)
}

// again puts a slot back to where it was when it was assigned, with the count of its failures.
func (s *slot) again() {
	s.phase, s.closing, s.life = phaseWaiting, closeNot, nil
	s.more, s.dirty, s.wantUnit, s.handed = false, false, false, false
	s.waitMs, s.timerMs, s.flushMs, s.unacked = 0, 0, 0, 0
	s.units, s.inCommit, s.toSeal, s.failed = nil, nil, nil, nil
	s.unclaimed, s.claimed, s.awaiting = 0, false, 0
	s.looked = true
}

// watchWorkers lets other tasks run beside those that are inside a slow record, and reports tasks that are past the
// deadline of one.
func (m *Machine) watchWorkers() {
	for _, s := range slices.Clone(m.running) {
		since := s.life.progressMs.Load()
		if since == 0 {
			continue
		}
		held := m.nowMs - since
		if !s.heldUp && held >= heldUpMs && !m.set.HardWorkers {
			s.heldUp = true
			m.busy--
		}
		m.watchStuck(s, held)
	}
}

// look takes the news of an outbox.
func (m *Machine) look(l *life) {
	s := l.slot
	if s.life != l {
		return
	}
	m.lookAt(s)
	m.advance(s)
}

func (m *Machine) lookAt(s *slot) {
	if s.life == nil {
		return
	}
	handed, ready, failed, outstanding := s.life.box.look()
	s.looked = outstanding == 0
	if handed > 0 {
		s.unclaimed += handed
		m.flush = !m.set.ExactlyOnce
	}
	s.unacked += handed - len(ready)
	if m.set.ExactlyOnce {
		if s.claimed {
			s.units = append(s.units, ready...)
			s.awaiting -= len(ready)
			if m.set.Broken.SealEarly {
				s.sealNow(ready)
			}
		}
		m.recordsFailed(s, failed)
		m.noteQuiet(s)
		return
	}
	if s.closing == closeDirty || s.closing == closeRetry {
		m.settleFailures(s, failed)
		return
	}
	s.units = append(s.units, ready...)
	if s.stuck && len(failed) > 0 {
		// Its worker, which would judge them, does not come. The units behind them must not be committed.
		m.settleFailures(s, failed)
		m.closeSlot(s, closeDirty, "a record of a task that is given up could not be written")
		return
	}
	for i, f := range failed {
		refused := broker.ProduceClassOf(f.err) == broker.ProduceRefused
		alone := !errors.Is(f.err, broker.ErrRecordTooLarge) || s.life.box.alone()
		if refused && alone {
			s.failed = append(s.failed, f)
			continue
		}
		// A batch was too large, and which of its records is to blame is not known: they are made and sent again one by one.
		s.solo = s.solo || refused
		err := fmt.Errorf("millrace: task %s: step %s: %w", s.name, f.Step, f.err)
		m.settleFailures(s, failed[i:])
		if refused {
			m.troubled(s, err)
		} else {
			m.trouble(s, err)
		}
		return
	}
	m.noteQuiet(s)
}

// noteQuiet notes since when a task runs with an answer to everything: its earlier trouble is over after a while of it.
func (m *Machine) noteQuiet(s *slot) {
	switch {
	case !s.looked || s.phase != phaseRunning || s.closing != closeNot:
		s.quietMs = 0
	case s.quietMs == 0:
		s.quietMs = m.nowMs
	}
}
