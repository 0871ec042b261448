package runtime

import (
	"slices"
	"sync"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/restore"
)

// Stats is what the outside may read of a running instance. Its methods are safe for concurrent use, and those that the
// machine calls do nothing on a nil one.
type Stats struct {
	mu        sync.Mutex
	processed int64
	tasks     map[broker.TaskID]TaskStats
	restores  map[restoreKey]restore.Progress
	standbys  []standbyStats
}

// standbyStats is what is known of a copy when it is published, and the copy, of which the rest is read.
type standbyStats struct {
	StandbyStats
	of *standby
}

// StandbyStats is what is known of a copy of a task that another instance runs.
type StandbyStats struct {
	Task   broker.TaskID
	WarmUp bool
	// Position is the sum of the positions in the changelogs, Behind how many offsets are missing up to their ends; -1 until the
	// ends were first asked for.
	Position, Behind int64
}

type restoreKey struct{ task, store string }

// TaskStats is what is known of one task.
type TaskStats struct {
	Task      broker.TaskID
	Phase     string
	Processed int64
	// StreamTimeMs is the highest timestamp taken, -1 before the first.
	StreamTimeMs int64
	Inputs       []InputStats
}

// InputStats is what is known of one input partition of a task.
type InputStats struct {
	broker.TopicPartition
	Position  int64 // next offset to fetch, -1 unknown
	Committed int64 // -1 none
	End       int64 // of the log as far as the last fetch told, -1 unknown
	Buffered  int   // records fetched and not processed
	Paused    bool
}

// NewStats makes empty Stats.
func NewStats() *Stats {
	return &Stats{tasks: make(map[broker.TaskID]TaskStats), restores: make(map[restoreKey]restore.Progress)}
}

// Processed returns the number of records that this instance has taken.
func (st *Stats) Processed() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.processed
}

// Tasks returns what is known of the tasks, sorted.
func (st *Stats) Tasks() []TaskStats {
	st.mu.Lock()
	defer st.mu.Unlock()
	out := make([]TaskStats, 0, len(st.tasks))
	for _, t := range st.tasks {
		t.Inputs = slices.Clone(t.Inputs)
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b TaskStats) int { return a.Task.Compare(b.Task) })
	return out
}

// Restores returns how far the restores are that run, sorted by task and store.
func (st *Stats) Restores() []restore.Progress {
	st.mu.Lock()
	defer st.mu.Unlock()
	out := make([]restore.Progress, 0, len(st.restores))
	for _, p := range st.restores {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b restore.Progress) int {
		if a.Task != b.Task {
			if a.Task < b.Task {
				return -1
			}
			return 1
		}
		if a.Store < b.Store {
			return -1
		}
		return 1
	})
	return out
}

// Standbys returns what is known of the copies of tasks, sorted.
func (st *Stats) Standbys() []StandbyStats {
	st.mu.Lock()
	defer st.mu.Unlock()
	out := make([]StandbyStats, 0, len(st.standbys))
	for _, s := range st.standbys {
		s.Position, s.Behind = s.of.at.Load(), s.of.behind.Load()
		out = append(out, s.StandbyStats)
	}
	return out
}

// Restoring notes the progress of a restore.
func (st *Stats) Restoring(p restore.Progress) {
	if st == nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	k := restoreKey{p.Task, p.Store}
	if p.Done {
		delete(st.restores, k)
		return
	}
	st.restores[k] = p
}

func (st *Stats) worked(s *slot, d *Done) {
	if st == nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.processed += int64(d.Processed)
	t := st.tasks[s.id]
	t.Task = s.id
	t.Processed += int64(d.Processed)
	if d.work.finish == goOn && d.Err == nil {
		t.StreamTimeMs = d.streamMs
	}
	st.tasks[s.id] = t
}

// publish shows the tasks as they are now.
func (st *Stats) publish(slots []*slot, standbys []*standby) {
	if st == nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.standbys = st.standbys[:0]
	for _, sb := range standbys {
		st.standbys = append(st.standbys, standbyStats{StandbyStats{Task: sb.slot.id, WarmUp: sb.warm}, sb})
	}
	old := st.tasks
	st.tasks = make(map[broker.TaskID]TaskStats, len(slots))
	for _, s := range slots {
		t := old[s.id]
		t.Task, t.Phase = s.id, s.phase.String()
		t.Inputs = t.Inputs[:0]
		for _, in := range s.inputs {
			t.Inputs = append(t.Inputs, InputStats{
				TopicPartition: in.tp, Position: in.position, Committed: in.committed, End: in.end,
				Buffered: in.records + in.inTask.records, Paused: in.paused,
			})
		}
		st.tasks[s.id] = t
	}
	for k := range st.restores {
		if !slices.ContainsFunc(slots, func(s *slot) bool { return s.name == k.task && s.phase == phaseRestoring }) {
			delete(st.restores, k)
		}
	}
}
