package millrace

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/runtime"
	"github.com/millrace-io/millrace/processor"
)

// MetricsSnapshot is what an App has counted, at one moment. Counts are of this instance and since Run began; they never
// go down.
type MetricsSnapshot struct {
	State State
	// Paused says that the App takes no records, see App.Pause.
	Paused bool
	// Processed is the number of input records taken.
	Processed int64
	// Commits is the number of units that were committed.
	Commits int64
	// TasksGivenUp is the number of tasks given up because a record or timer passed its deadline.
	TasksGivenUp int64
	// TasksReplaced is the number of times that a task began again because the policy of OnUncaughtError said so.
	TasksReplaced int64
	// StateDropped is the number of tasks whose state was deleted from the disk, since they had moved away for StateCleanupDelay.
	StateDropped int64
	// RecordsOversized is the number of records and timers that alone sent more than a task should gather between two commits.
	// They are let through, up to MemoryLimit, where their task fails.
	RecordsOversized int64
	// Drops counts every record that was skipped, late or dropped, by step and reason.
	Drops []DropCount
	// Tasks are those that this instance has.
	Tasks []TaskMetrics
	// Standbys are the copies of tasks of other instances that this one keeps.
	Standbys []StandbyMetrics
	// Restoring are the stores that are being restored.
	Restoring []RestoreProgress
}

// StandbyMetrics is what is known of a copy of a task's state.
type StandbyMetrics struct {
	Task processor.TaskID
	// WarmUp says that this instance is to get the task as soon as the copy is level.
	WarmUp bool
	// Behind is how many records of the changelogs, about, the copy lacks; -1 while that is not known.
	Behind int64
}

// DropCount is the number of records that a step dropped for a reason.
type DropCount struct {
	Step   string
	Reason DropReason
	Topic  string // where the step tells topics apart
	Count  int64
}

// Dropped returns how many records a step has dropped for a reason. It is 0 too for a step that the topology does not have: what a
// snapshot knows of steps is what they have counted. Topology.Describe shows the names of the steps (that of a windowed count
// with As("clicks") is clicks), and Drops what has been counted under which name.
func (m MetricsSnapshot) Dropped(step string, reason DropReason) (n int64) {
	for _, d := range m.Drops {
		if d.Step == step && d.Reason == reason {
			n += d.Count
		}
	}
	return n
}

// DroppedFor returns how many records all steps have dropped for a reason.
func (m MetricsSnapshot) DroppedFor(reason DropReason) (n int64) {
	for _, d := range m.Drops {
		if d.Reason == reason {
			n += d.Count
		}
	}
	return n
}

// TaskMetrics is what is known of one task.
type TaskMetrics struct {
	Task processor.TaskID
	// Phase is waiting, restoring, opening, running or closing.
	Phase     string
	Processed int64
	// StreamTime is the highest event time taken; zero before the first record.
	StreamTime time.Time
	Inputs     []InputMetrics
}

// InputMetrics is what is known of one input partition of a task.
type InputMetrics struct {
	Topic     string
	Partition int32
	// Position is the next offset to fetch, Committed the one that is committed, End that of the log as the last fetch told
	// it; -1 where unknown.
	Position, Committed, End int64
	// Buffered is the number of records fetched and not processed.
	Buffered int
	Paused   bool
}

// Lag is the number of offsets between what is committed and the end; -1 where unknown.
func (i InputMetrics) Lag() int64 {
	if i.End < 0 || i.Committed < 0 {
		return -1
	}
	return max(0, i.End-i.Committed)
}

// RestoreProgress tells how far the restore of one store is.
type RestoreProgress struct {
	Task  string
	Store string
	// Topic and Partition are the changelog's.
	Topic     string
	Partition int32
	// Start, At and End are offsets: where it began, where it is, where it is done.
	Start, At, End int64
	Records        int64
	Elapsed        time.Duration
	Rate           float64       // offsets a second, those of compacted records too
	ETA            time.Duration // 0 where it is not known
	Done           bool
}

func restoreProgress(p restore.Progress) RestoreProgress {
	return RestoreProgress{
		Task: p.Task, Store: p.Store, Topic: p.Log.Topic, Partition: p.Log.Partition, Start: p.Start, At: p.At, End: p.End,
		Records: p.Records, Elapsed: p.Elapsed, Rate: p.Rate(), ETA: p.ETA(), Done: p.Done,
	}
}

func (a *App) snapshot() MetricsSnapshot {
	m := MetricsSnapshot{State: a.State(), Paused: a.Paused()}
	counted := a.metrics.Snapshot()
	m.Processed = a.stats.Processed()
	m.Commits, m.TasksGivenUp = counted.Counter(metrics.Commits), counted.Counter(metrics.TasksGivenUp)
	m.TasksReplaced = counted.Counter(metrics.TasksReplaced)
	m.StateDropped = counted.Counter(metrics.StateDropped)
	m.RecordsOversized = counted.Counter(metrics.RecordsOversized)
	for _, d := range counted.Drops {
		m.Drops = append(m.Drops, DropCount{Step: d.Step, Reason: DropReason(d.Reason), Topic: d.Topic, Count: d.Count})
	}
	for _, t := range a.stats.Tasks() {
		tm := TaskMetrics{Task: processor.TaskID{Subtopology: t.Task.Subtopology, Partition: t.Task.Partition}, Phase: t.Phase, Processed: t.Processed}
		if t.StreamTimeMs >= 0 {
			tm.StreamTime = time.UnixMilli(t.StreamTimeMs).UTC()
		}
		for _, in := range t.Inputs {
			tm.Inputs = append(tm.Inputs, InputMetrics{
				Topic: in.Topic, Partition: in.Partition, Position: in.Position, Committed: in.Committed, End: in.End,
				Buffered: in.Buffered, Paused: in.Paused,
			})
		}
		m.Tasks = append(m.Tasks, tm)
	}
	for _, s := range a.stats.Standbys() {
		m.Standbys = append(m.Standbys, StandbyMetrics{
			Task: processor.TaskID{Subtopology: s.Task.Subtopology, Partition: s.Task.Partition}, WarmUp: s.WarmUp, Behind: s.Behind,
		})
	}
	for _, p := range a.stats.Restores() {
		m.Restoring = append(m.Restoring, restoreProgress(p))
	}
	return m
}

// PartitionLag is how far the application is in one partition.
type PartitionLag struct {
	Topic     string
	Partition int32
	// Committed is the offset up to which everything is processed and committed, -1 if nothing is.
	Committed int64
	// Start and End are the first offset kept and the end of the log: what is read there, so under read_committed the
	// last stable offset.
	Start, End int64
}

// Lag is the number of offsets that are not committed yet.
func (p PartitionLag) Lag() int64 { return max(0, p.End-max(p.Committed, p.Start)) }

// Lags are the lags of all partitions that a topology reads, sorted by topic and partition.
type Lags []PartitionLag

// Total sums the lags.
func (l Lags) Total() (n int64) {
	for _, p := range l {
		n += p.Lag()
	}
	return n
}

func (a *App) lag(ctx context.Context, admin broker.Admin, r *runtime.Runner) (Lags, error) {
	at, err := r.Offsets(ctx, admin)
	if err != nil {
		return nil, fmt.Errorf("millrace: lag: %w", err)
	}
	lags := make(Lags, 0, len(at))
	for _, o := range at {
		lags = append(lags, PartitionLag{Topic: o.Topic, Partition: o.Partition, Committed: o.Committed, Start: o.Start, End: o.End})
	}
	return lags, nil
}
