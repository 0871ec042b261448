package runtime

import (
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
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
	m.log.Error("a task is past the deadline of one record or timer: its user code has not returned. The task is given up: what it has handed over is committed, what it did since then is done again by whoever gets it, and the other tasks go on. If the record takes so long each time, this repeats: make it faster, or raise max.poll.interval.ms",
		"task", s.name, "seconds", heldMs/1000, "max.poll.interval.ms", m.set.MaxPollIntervalMs)
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
	m.refused = tasks
	m.do(Refuse{Tasks: tasks})
}
