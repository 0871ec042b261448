package runtime

import (
	"slices"

	"github.com/millrace-io/millrace/internal/metrics"
)

// State of tasks that have moved away stays on disk, for the case that they come back: what is missing is replayed then. What has not
// been of use for the time of state.cleanup.delay.ms is deleted. Of use is the state of every task that is here, as a task or as a
// copy. Time counts while this instance is a member that knows what it was given, and from when it was started at the earliest.

// cleanup is what a machine knows of state whose task is not here.
type cleanup struct {
	nextMs    int64
	awaySince map[string]int64 // by task
}

// cleanupEveryMs is how often the directory is looked through at most.
const cleanupEveryMs = 60_000

// cleanDue looks for state that has not been of use for long.
func (m *Machine) cleanDue() {
	c := &m.cleanup
	if m.set.CleanupDelayMs <= 0 || m.cfg.Stored == nil || m.nowMs < c.nextMs {
		return
	}
	c.nextMs = m.nowMs + max(maintainEveryMs, min(cleanupEveryMs, m.set.CleanupDelayMs/4))
	if !m.assigned {
		c.awaySince = nil
		return
	}
	away := make(map[string]int64)
	var gone []string
	for _, task := range m.cfg.Stored() {
		if m.hasHere(task) {
			continue
		}
		since, known := c.awaySince[task]
		if !known {
			since = m.nowMs
		}
		away[task] = since
		if m.nowMs-since >= m.set.CleanupDelayMs {
			gone = append(gone, task)
		}
	}
	c.awaySince = away
	if len(gone) > 0 {
		m.do(DropState{Tasks: gone})
	}
}

// hasHere tells whether a task, or a copy of it, is here.
func (m *Machine) hasHere(task string) bool {
	named := func(s *slot) bool { return s.name == task }
	return slices.ContainsFunc(m.slots, named) || slices.ContainsFunc(m.lingers, named) ||
		slices.ContainsFunc(m.standbys, func(sb *standby) bool { return sb.slot.name == task })
}

// stateDropped hears what has become of DropState for one task. What could not be deleted is tried again the next time.
func (m *Machine) stateDropped(e StateDropped) {
	if e.Err != nil {
		m.log.Warn("state of a task that has moved away cannot be deleted, it is tried again", "task", e.Task, "error", e.Err)
		return
	}
	m.count(metrics.StateDropped, 1)
	m.log.Info("state of a task that has moved away is deleted: it has not come back", "task", e.Task,
		"away_for", msDuration(m.nowMs-m.cleanup.awaySince[e.Task]), "state.cleanup.delay.ms", m.set.CleanupDelayMs)
	delete(m.cleanup.awaySince, e.Task)
}
