package runtime

import (
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/task"
)

// A task whose user code does not return is let go of in two steps. First nothing more is taken from it, and what it has
// handed over is committed; then it is an orphan: its stores are closed under it, and the group is told that this instance
// cannot run the task, so that another one gets it. When the orphan returns it is closed, and the instance may have the task
// again.

// watchStuck finds the tasks that are past the deadline of one record or timer.
func (m *Machine) watchStuck(s *slot, heldMs int64) {
	if m.set.MaxPollIntervalMs <= 0 || heldMs < m.set.MaxPollIntervalMs {
		return
	}
	if !s.stuck {
		m.stick(s, heldMs)
	}
	if s.orphan && !s.hopeless && heldMs >= m.set.MaxPollIntervalMs+m.set.TaskTimeoutMs {
		s.hopeless = true
		m.fail(fmt.Errorf("millrace: task %s has been in one record or timer for %d s: it was given up at max.poll.interval.ms (%d), and its user code has not returned within task.timeout.ms (%d) since: the application stops, because the goroutine and what it holds can only be freed with the process",
			s.name, heldMs/1000, m.set.MaxPollIntervalMs, m.set.TaskTimeoutMs))
	}
}

// stick is the first step.
func (m *Machine) stick(s *slot, heldMs int64) {
	s.stuck = true
	m.stuck = append(m.stuck, s)
	m.count(metrics.TasksGivenUp, 1)
	m.tellStuck(s, heldMs)
	if !s.heldUp { // with a hard limit too: an orphan must not keep the others from running
		s.heldUp = true
		m.busy--
	}
	if s.phase != phaseRunning || s.closing == closeDirty || s.closing == closeRetry {
		m.closeSlot(s, closeDirty, "stuck")
		return
	}
	s.releaseMs = m.nowMs + m.handOverMs()
	s.closing = closeClean
	m.unassign(s)
	s.life.box.endIntake()
	m.wantCommit()
	m.lookAt(s)
}

// slowRecord is what a task was given up for the last time.
type slowRecord struct {
	at      task.Position
	record  bool // it was in a record: the one at that place
	times   int  // in a row that it was this one
	sinceMs int64
	over    bool // for too long
}

// String names it.
func (r *slowRecord) String() string {
	if r.record {
		return "the record " + r.at.String()
	}
	return "a timer or the opening of the task"
}

// tellStuck notes what a task is given up for, and tells it: the place in Kafka, the user code, and how often it has happened. A
// record that this happens to again and again for task.timeout.ms is judged like one that fails; see ADR 22.
func (m *Machine) tellStuck(s *slot, heldMs int64) {
	at, record := s.life.place.Record()
	r := m.slow[s.id]
	if r == nil || r.at != at || r.record != record {
		r = &slowRecord{at: at, record: record, sinceMs: m.nowMs}
		m.slow[s.id] = r
	}
	r.times++
	r.over = m.nowMs-r.sinceMs >= m.set.TaskTimeoutMs
	next := "It is tried again by whoever gets the task, and this repeats if it takes so long each time: make it faster, or raise max.poll.interval.ms. After task.timeout.ms of this the processing error handler is asked about the record, and without one the application stops"
	switch {
	case r.over && record:
		next = "It has been so for task.timeout.ms: when this instance gets the task again, the processing error handler is asked about the record, and without one the application stops"
	case r.over:
		next = "It has been so for task.timeout.ms: the application stops"
	}
	where := []any{"task", s.name}
	if record {
		where = append(where, "topic", at.Topic, "partition", at.Partition, "offset", at.Offset)
	}
	if m.cfg.Inside != nil {
		if code := m.cfg.Inside(s.life); code != "" {
			where = append(where, "inside", code)
		}
	}
	m.log.Error("a task is past the deadline of one record or timer: its user code has not returned. The task is given up: what it has handed over is committed, what it did since then is done again, and the other tasks go on. "+next,
		append(where, "seconds", heldMs/1000, "times", r.times, "max.poll.interval.ms", m.set.MaxPollIntervalMs, "task.timeout.ms", m.set.TaskTimeoutMs)...)
	if r.over && !record {
		m.fail(fmt.Errorf("millrace: task %s: user code was in %s for longer than max.poll.interval.ms (%d), %d times in %d s (task.timeout.ms = %d): make it faster, or raise max.poll.interval.ms",
			s.name, r, m.set.MaxPollIntervalMs, r.times, (m.nowMs-r.sinceMs)/1000, m.set.TaskTimeoutMs))
	}
}

// refusal is the record that a task is to be asked about before user code sees it again.
func (m *Machine) refusal(s *slot) *task.Slow {
	r := m.slow[s.id]
	if r == nil || !r.over || !r.record {
		return nil
	}
	return &task.Slow{Position: r.at, Cause: fmt.Errorf("%w: given up %d times, max.poll.interval.ms = %d, task.timeout.ms = %d", op.ErrTooSlow, r.times,
		m.set.MaxPollIntervalMs, m.set.TaskTimeoutMs)}
}

// handOverMs is how long a task whose partitions are to be released is waited for.
func (m *Machine) handOverMs() int64 { return min(m.set.CommitTimeoutMs, m.set.RebalanceTimeoutMs/3) }

// checkStuck takes the second step for tasks of which everything is committed, or cannot be in time.
func (m *Machine) checkStuck() {
	for _, s := range slices.Clone(m.stuck) {
		if s.orphan {
			continue
		}
		if s.looked && m.committedAll(s) || s.closing == closeDirty || m.nowMs >= s.releaseMs {
			s.orphan = true
			m.giveUp(s)
			m.tellRefused()
		}
	}
}

// unstick forgets a stuck task, which is closed now.
func (m *Machine) unstick(s *slot) {
	i := slices.Index(m.stuck, s)
	if i < 0 {
		return
	}
	m.stuck = slices.Delete(m.stuck, i, i+1)
	m.log.Info("the user code of a task that was given up has returned", "task", s.name)
	m.tellRefused()
}

// tellRefused tells the group which tasks this instance cannot run: those whose orphans are still about.
func (m *Machine) tellRefused() {
	if m.drain != nil {
		return
	}
	var tasks []broker.TaskID
	for _, s := range m.stuck {
		if s.orphan {
			tasks = append(tasks, s.id)
		}
	}
	broker.SortTasks(tasks)
	tasks = slices.Compact(tasks)
	if slices.Equal(tasks, m.refused) {
		return
	}
	if id, member := m.cfg.Identity(); member {
		for _, task := range tasks {
			if !slices.Contains(m.refused, task) {
				m.refusedAs[task] = refusedAs{id, m.asks + 1}
			}
		}
	}
	m.refused = tasks
	m.ask(Refuse{Tasks: tasks})
}

// refusedAs is who the instance was when it refused a task, and which of its asks that was.
type refusedAs struct {
	broker.Identity
	ask uint64
}

// ask asks the group for something: Rejoin or Refuse.
func (m *Machine) ask(a Action) {
	m.asks++
	m.do(a)
}

// given leaves out of an assignment what was refused since it was made: it was on its way, and the next one may have given the task to
// another member already.
func (m *Machine) given(e broker.MembershipEvent) []broker.TaskID {
	return slices.DeleteFunc(slices.Clone(e.Tasks), func(id broker.TaskID) bool {
		as, ok := m.refusedAs[id]
		if ok && as.MemberID == e.Identity.MemberID && e.Identity.Generation <= as.Generation && e.After < as.ask {
			return true
		}
		delete(m.refusedAs, id)
		return false
	})
}
