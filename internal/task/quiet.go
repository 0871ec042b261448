package task

import (
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
)

// A source is idle once it has been level with its log, and without records, for its idle timeout. From then on its time
// runs on from its last value by the wall time that has passed since, and never beyond the present. A step is told of it
// when all sources upstream of it are idle: one that is not may still bring records as old as its own time. The time of a
// step is the highest of its sources, as with records.
//
// What is told moves the step's own observed time, which is committed like the time that records bring. The time of the
// source itself is not committed: after a restart it runs on from its last record again, and is behind what the steps know
// by as much as it had run.

// quietTickMs is how often the time of an idle source runs on at most.
const quietTickMs = 1000

// quietSource is what a task knows of one input in which nothing happens.
type quietSource struct {
	node      *topology.Node
	timeoutMs int64 // 0: it never counts as idle
	sinceMs   int64 // since when it is level and without records; -1
	tickMs    int64 // when its time runs on next
	// heard says that its partition was read successfully of late, so that it can be known that there is nothing.
	heard bool
}

// broken ends the quiet: records have come.
func (s *quietSource) broken() { s.sinceMs = -1 }

// bound bounds how long a task waits for records of the source: not beyond its idle timeout.
func (s *quietSource) bound(waitMs int64) int64 {
	if s.timeoutMs > 0 && s.timeoutMs < waitMs {
		return s.timeoutMs
	}
	return waitMs
}

// stepMs is the distance between two ticks.
func (s *quietSource) stepMs() int64 { return min(s.timeoutMs, quietTickMs) }

// quietStep is a step that results can come out of while only time passes; a step without a name is the task's own stream
// time, which timers follow.
type quietStep struct {
	op.Advance
	sources []*queue
	atMs    int64 // what it was told last
}

// wireQuiet finds the sources upstream of each step that the passing of time concerns.
func (t *Task) wireQuiet(sub *topology.Subtopology) {
	for _, a := range t.env.Advances() {
		for _, n := range sub.Nodes {
			if n.Name == a.Step {
				t.addQuiet(a, t.upstream(n))
			}
		}
	}
	t.addQuiet(op.Advance{To: t.advanceStreamTime}, t.queues)
}

func (t *Task) addQuiet(a op.Advance, sources []*queue) {
	for _, q := range sources {
		if q.quiet.timeoutMs == 0 {
			return
		}
	}
	if len(sources) > 0 {
		t.quiet = append(t.quiet, quietStep{Advance: a, sources: sources, atMs: codec.NoTime})
	}
}

func (t *Task) upstream(n *topology.Node) []*queue {
	seen := make(map[*topology.Node]bool)
	var up func(n *topology.Node)
	up = func(n *topology.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, p := range n.Parents {
			up(p)
		}
	}
	up(n)
	var found []*queue
	for _, q := range t.queues {
		if seen[q.quiet.node] {
			found = append(found, q)
		}
	}
	return found
}

// SetHeard tells whether an input was read successfully since the last call. One that was not is never taken for idle:
// nobody knows what stands in it.
func (t *Task) SetHeard(tp broker.TopicPartition, heard bool) {
	if q := t.byTP[tp]; q != nil {
		q.quiet.heard = heard
	}
}

// IdleInputs returns the inputs that have an idle timeout.
func (t *Task) IdleInputs() (tps []broker.TopicPartition) {
	for _, q := range t.queues {
		if q.quiet.timeoutMs > 0 {
			tps = append(tps, q.in)
		}
	}
	return tps
}

// level tells whether an input has no records and its log none that were not fetched, and notes since when.
func (t *Task) level(q *queue) bool {
	if lag, known := q.lag(); q.count > 0 || !known || lag > 0 {
		q.quiet.broken()
		return false
	}
	if q.quiet.sinceMs < 0 {
		q.quiet.sinceMs = t.env.NowMs()
		q.quiet.tickMs = q.quiet.sinceMs + q.quiet.timeoutMs
	}
	return true
}

// nextQuietMs is when the time of an idle source runs on next.
func (t *Task) nextQuietMs() (ms int64, ok bool) {
	for i := range t.quiet {
		for _, q := range t.quiet[i].sources {
			if t.level(q) && (!ok || q.quiet.tickMs < ms) {
				ms, ok = q.quiet.tickMs, true
			}
		}
	}
	return ms, ok
}

// advanceQuiet lets the time of idle sources run on, and tells the steps.
func (t *Task) advanceQuiet(nowMs int64) error {
	if !t.tickQuiet(nowMs) {
		return nil
	}
	for i := range t.quiet {
		s := &t.quiet[i]
		at, idle := quietTime(s.sources, nowMs)
		if !idle || at <= s.atMs {
			continue
		}
		// What waits in caches above the step belongs to the time before.
		if err := t.env.Flush(); err != nil {
			return err
		}
		s.atMs = at
		t.commitNeeded = true
		if err := t.env.Advance(s.Advance, at); err != nil {
			return err
		}
	}
	return nil
}

// tickQuiet tells whether the time of any source is to run on now, and sets when it is again.
func (t *Task) tickQuiet(nowMs int64) (due bool) {
	for i := range t.quiet {
		for _, q := range t.quiet[i].sources {
			if t.level(q) && nowMs >= q.quiet.tickMs {
				due = true
				q.quiet.tickMs = nowMs + q.quiet.stepMs()
			}
		}
	}
	return due
}

// quietTime is the time of sources that are all idle: the highest of them. idle is false if one of them is not, and the time
// is NoTime if none of them has ever had a record.
func quietTime(sources []*queue, nowMs int64) (atMs int64, idle bool) {
	atMs = codec.NoTime
	for _, q := range sources {
		if q.quiet.sinceMs < 0 || !q.quiet.heard {
			return 0, false
		}
		passed := nowMs - q.quiet.sinceMs
		if passed < q.quiet.timeoutMs {
			return 0, false
		}
		if q.partitionTimeMs >= 0 {
			atMs = max(atMs, q.partitionTimeMs, min(q.partitionTimeMs+passed, nowMs))
		}
	}
	return atMs, true
}

// advanceStreamTime moves the task's stream time, once all of its sources are idle.
func (t *Task) advanceStreamTime(toMs int64) error {
	if toMs <= t.env.StreamTimeMs {
		return nil
	}
	t.env.StreamTimeMs = toMs
	_, err := t.env.FireStreamTimers()
	return err
}
