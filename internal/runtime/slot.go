package runtime

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// phase is where a task stands between its assignment and its end.
type phase uint8

const (
	phaseWaiting   phase = iota // for its time, for a place among the restores, or for the end of what was before it
	phaseRestoring              // offsets are fetched, changelogs replayed
	phaseOpening                // its steps are made
	phaseRunning
	phaseClosing // on its last turn
	phaseClosed
)

func (p phase) String() string {
	return [...]string{"waiting", "restoring", "opening", "running", "closing", "closed"}[p]
}

// closeMode says why and how a task is to be ended. A later one replaces an earlier one only if it is greater.
type closeMode uint8

const (
	closeNot   closeMode = iota
	closeClean           // revoked or drained: hand over, commit, close
	closeRetry           // trouble: drop what is not committed, and begin again from there
	closeDirty           // lost, or given up: drop what is not committed
)

// slot is a task that the group has given to the instance.
type slot struct {
	id       broker.TaskID
	name     string // "0_1"
	sub      *topology.Subtopology
	inputs   []*input // sorted
	memberID string   // under which it was assigned

	phase   phase
	closing closeMode
	life    *life
	result  restore.Result // of the restore, until the task is open
	kept    *state.Set     // stores that stay open for a replay of the gap
	after   *slot          // what must be closed before this one begins
	looked  bool           // everything that it sent has an answer

	retryMs int64 // not before
	tries   int   // in a row that failed
	sinceMs int64 // the first of them
	quietMs int64 // since when it runs with an answer to everything that it sent, 0 if it does not

	asked    *question          // to the application's policy, about an error that has ended its life
	failures int                // of that kind, in a row
	failedAt processor.Metadata // the record that the last one was about
	openedMs int64              // when its last life began to run

	solo bool // until the next commit records are sent one by one

	queued  bool  // in Machine.ready
	working *Work // on a worker
	heldUp  bool  // that worker is not counted any more

	stuck     bool  // past the deadline of one record; see machine_stuck.go
	releaseMs int64 // until when what it has handed over is committed
	orphan    bool  // released, while its worker may still be inside user code
	hopeless  bool  // for too long

	more     bool  // there is more to take
	waitMs   int64 // the idling time ends then
	timerMs  int64 // next timer of the wall clock
	flushMs  int64 // sealed state is to be written then
	dirty    bool  // there is something to commit
	streamMs int64 // highest timestamp taken, -1 before the first
	wantUnit bool  // a hand-over is asked for
	handed   bool  // the last hand-over before a clean end has been done
	unacked  int   // units that wait for acknowledgements
	// For transactions alone: units that were handed over since the last claim, whether a part of the round under way is the
	// task's, how many units of that part have records without an answer, and what brokers have refused.
	unclaimed int
	claimed   bool
	awaiting  int
	refused   []refusal
	units     []readyUnit
	inCommit  []readyUnit
	toSeal    []sealing
	failed    []*sent
}

// input is a partition that a task reads.
type input struct {
	slot  *slot
	tp    broker.TopicPartition
	node  *topology.Node
	epoch uint64 // under which it is fetched, 0 while it is not

	paused bool
	// stale says that nothing was heard of the partition since it was assigned or paused: what is known of its end is old.
	stale   bool
	queue   []broker.Batch // fetched, not handed to the task yet
	records int            // in queue
	bytes   int64
	inTask  buffered // waiting in the task as it last told, plus what was handed over since

	position, end int64
	committed     int64
	retryMs       int64  // after an error of the partition
	badMs         int64  // since when it has had nothing but errors, 0 if it has not
	answers       uint64 // when it was last asked whether the partition is heard of
}

// taskName writes an id as Kafka Streams does.
func taskName(id broker.TaskID) string { return fmt.Sprintf("%d_%d", id.Subtopology, id.Partition) }

// wakeMs is when the task wants to be looked at, 0 if not by time.
func (s *slot) wakeMs() int64 {
	if s.phase == phaseWaiting {
		return s.retryMs
	}
	if s.phase != phaseRunning || s.closing != closeNot || s.working != nil || s.queued {
		return 0
	}
	at := int64(0)
	for _, t := range []int64{s.waitMs, s.timerMs, s.flushMs} {
		if t > 0 && (at == 0 || t < at) {
			at = t
		}
	}
	for _, in := range s.inputs {
		if in.retryMs > 0 && (at == 0 || in.retryMs < at) {
			at = in.retryMs
		}
	}
	return at
}

// settled tells whether nothing of the task is undecided: no record without an answer, no commit or transaction under way.
func (s *slot) settled() bool { return s.looked && len(s.inCommit) == 0 && !s.claimed }

const batchOverhead = 96

// batchBytes is the memory that a batch's records take, about.
func batchBytes(b *broker.Batch) int64 {
	n := int64(len(b.Records)) * batchOverhead
	for i := range b.Records {
		r := &b.Records[i]
		n += int64(len(r.Key) + len(r.Value))
		for j := range r.Headers {
			n += int64(len(r.Headers[j].Key) + len(r.Headers[j].Value))
		}
	}
	return n
}
