package runtime

import (
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/task"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// Settings are what a Machine decides by. Times are milliseconds.
type Settings struct {
	CommitIntervalMs   int64 // 0 commits after each turn of a task
	CommitTimeoutMs    int64
	RebalanceTimeoutMs int64
	TaskTimeoutMs      int64 // for how long a task is tried again after passing trouble; 0 not at all
	MaxPollIntervalMs  int64 // the deadline of one record or timer
	DrainTimeoutMs     int64
	PurgeIntervalMs    int64 // 0 never
	BackoffMs          int64 // before a task is tried again, doubling up to BackoffMaxMs
	BackoffMaxMs       int64

	Workers     int  // tasks that run at a time
	HardWorkers bool // Workers is a limit even where user code holds all of them up
	Restores    int  // tasks that are restored at a time
	// AcceptableLag is how many records a copy of a task's state may be behind and count as level.
	AcceptableLag int64

	HighRecords   int   // records of one partition at which it is paused
	HighBytes     int64 // and bytes
	ProducerBytes int64 // bytes on their way at which no task processes

	// ChangelogsFollow has the changelog records of each task wait for the results of their turn under at-least-once, and not of
	// those alone that hold results back. For tests.
	ChangelogsFollow bool

	// ExactlyOnce commits records, offsets and state of all tasks in transactions. The producer is a broker.Transactions then.
	ExactlyOnce          bool
	TransactionTimeoutMs int64

	Broken Broken // by a test

	ReadCommitted bool          // of the user's topics; internal ones always are
	Reset         restore.Reset // of sources that do not say it themselves
	StayInGroup   bool

	CleanupDelayMs int64 // after which the state of a task that has moved away is deleted; 0 never
	Held           bool  // begin with processing paused
}

// Config is what a Machine works with.
type Config struct {
	AppID    string
	Topology *topology.Topology
	Plan     Plan
	Settings Settings
	Producer broker.Producer
	// Identity is who the instance is in its group at the moment.
	Identity func() (broker.Identity, bool)
	// Restore is the base of the configuration of each restore: all but what is about one task.
	Restore restore.Config
	// OpenSet opens the stores of a task.
	OpenSet func(name string, specs []state.Spec, identify state.ChangelogIdentity) (*state.Set, error)
	// Headers tells what stands on disk of a task's stores; nil without a state directory.
	Headers func(name string) (map[string]state.Header, error)
	// Stored lists the tasks of which there is state on disk; nil without a state directory.
	Stored func() []string
	// Task is the base of the configuration of each task.
	Task task.Config
	// ForgetTopics makes the tasks look at their output topics again when they are opened. May be nil.
	ForgetTopics func()
	// Answers counts the answers that a partition has had, see broker.Fetcher.
	Answers func(tp broker.TopicPartition) uint64
	// Inside tells which user code the worker of a task is in; empty where that is not known. May be nil.
	Inside func(l *life) string
	// Wake hands the machine an event from another goroutine; it returns at once.
	Wake func(Event)
	// Release has an outbox release what is due in it, soon, on another goroutine than that of the caller; it returns at once.
	Release func(*outbox)
	Logger  *slog.Logger
	// Stats is told what metrics show. May be nil.
	Stats *Stats
	// Uncaught is the application's policy for errors of tasks that no handler took; nil stops the instance for each. It is
	// called on a goroutine of its own.
	Uncaught func(Uncaught) Verdict
}

// Plan is what the instance reads, as things are in the cluster.
type Plan struct {
	*topology.Plan
	Group broker.GroupTopology
}

// Machine is one instance as a state machine. It belongs to one goroutine.
type Machine struct {
	cfg    Config
	set    Settings
	shared *shared
	log    *slog.Logger

	nowMs    int64
	actions  []Action
	state    State
	joined   bool
	assigned bool  // an assignment is known, and has not been lost
	err      error // the first fatal one
	over     bool

	slots    []*slot    // the assigned tasks, sorted by id
	lingers  []*slot    // tasks that are gone from the assignment and not yet closed
	standbys []*standby // copies of tasks that others run, sorted by id
	byEpoch  map[uint64]*input
	epoch    uint64 // last fetch epoch given out
	ready    []*slot
	running  []*slot // on a worker, in the order of starting
	busy     int     // workers in use, those that are held up not counted
	restores int
	full     bool // the producer has no room
	held     bool // processing is paused
	flush    bool // a unit was handed over in this step

	nextCommitMs int64
	round        uint64
	commit       *commitRound
	eos          exactlyOnce
	staged       atomic.Int64 // bytes that wait for a transaction, or for the outputs before them
	revocations  []*revocation
	drain        *drain
	stuck        []*slot // past the deadline of one record, and not closed
	slow         map[broker.TaskID]*slowRecord
	refused      []broker.TaskID             // what the group was last told that the instance cannot run
	asked        []*question                 // that the policy has not answered
	telling      bool                        // the group was asked for the end of the application, and has not said so yet
	refusedAs    map[broker.TaskID]refusedAs // when it said so of a task, until it is given the task again
	asks         uint64                      // Rejoin and Refuse, counted together
	purge        purge
	cleanup      cleanup
	taken        taken
	groupErrors  groupErrors
	maintainMs   int64
	publishMs    int64
}

// NewMachine makes a machine that waits for Started.
func NewMachine(cfg Config, sh *shared) *Machine {
	m := &Machine{cfg: cfg, set: cfg.Settings, shared: sh, log: cfg.Logger, byEpoch: make(map[uint64]*input), refusedAs: make(map[broker.TaskID]refusedAs), slow: make(map[broker.TaskID]*slowRecord), state: StateStarting, held: cfg.Settings.Held}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	return m
}

// Step takes one event that happened at a time. Times never go back.
func (m *Machine) Step(nowMs int64, ev Event) {
	m.nowMs = max(m.nowMs, nowMs)
	if m.over {
		m.late(ev)
		return
	}
	switch e := ev.(type) {
	case Started:
		m.start()
	case MemberEvent:
		m.member(e.MembershipEvent)
	case Fetched:
		m.fetched(e)
	case Looked:
		m.look(e.life)
	case Worked:
		m.worked(e.Done)
	case Restored:
		m.restored(e)
	case Levelled:
		m.levelled(e.standby)
	case Unfollowed:
		m.unfollowed(e)
	case CommitAnswered:
		if m.set.ExactlyOnce {
			m.transactionOffsetsAnswered(e)
		} else {
			m.commitAnswered(e)
		}
	case Sent:
		m.sendFailed(e)
	case TransactionEnded:
		m.transactionEnded(e)
	case Proved:
		m.proved(e.Err)
	case Purged:
		m.purged(e.Err)
	case Judged:
		m.judged(e)
	case StateDropped:
		m.stateDropped(e)
	case TopologyChanged:
		m.cfg.Plan = e.Plan
		if m.joined {
			m.do(Subscribe{Topology: e.Plan.Group})
		}
	case Failed:
		m.fail(e.Err)
	case Tick:
	case Hold:
		m.hold()
	case GoOn:
		m.goOn()
	case Resize:
		m.resize(e)
	case Stop:
		m.beginDrain(false)
	case Abandon:
		m.beginDrain(true)
	case Left:
		m.left(e.Err)
	}
	m.timers()
	m.schedule()
	if m.set.ExactlyOnce {
		m.tryTransaction()
	} else {
		m.tryCommit()
	}
	m.checkStuck()
	m.checkRevocations()
	m.checkDrain()
	if m.flush {
		m.flush = false
		m.do(Flush{})
	}
	m.setState()
	if m.nowMs >= m.publishMs || m.over {
		m.publishMs = m.nowMs + publishEveryMs
		m.publish()
	}
}

// publish shows the outside how things are.
func (m *Machine) publish() {
	m.cfg.Stats.publish(m.slots, m.standbys)
	if m.cfg.Task.Metrics == nil {
		return
	}
	for _, s := range m.slots {
		t := m.cfg.Task.Metrics.Task(processor.TaskID{Subtopology: s.id.Subtopology, Partition: s.id.Partition})
		var lag, records, bytes int64
		for _, in := range s.inputs {
			records += int64(in.records + in.inTask.records)
			bytes += in.bytes + in.inTask.bytes
			if in.end >= 0 && in.position >= 0 {
				lag += max(0, in.end-in.position)
			}
		}
		t.Gauge(metrics.Lag).Set(lag + records)
		t.Gauge(metrics.BufferedRecords).Set(records)
		t.Gauge(metrics.BufferedBytes).Set(bytes)
		if s.streamMs >= 0 {
			t.Gauge(metrics.StreamTimeMs).Set(s.streamMs)
		}
	}
}

// publishEveryMs is how old what the metrics show may be while something happens.
const publishEveryMs = 100

// late answers what must be answered after the end.
func (m *Machine) late(ev Event) {
	switch e := ev.(type) {
	case MemberEvent:
		m.do(Call{Func: e.Done})
	case Fetched:
		if e.Taken != nil {
			m.do(Call{Func: e.Taken})
		}
	}
}

// Actions takes what is to be done now, in order.
func (m *Machine) Actions() []Action {
	a := m.actions
	m.actions = nil
	return a
}

func (m *Machine) do(a Action) { m.actions = append(m.actions, a) }

// State is what the instance does as a whole.
func (m *Machine) State() State { return m.state }

// Over tells whether Finish was among the actions.
func (m *Machine) Over() bool { return m.over }

func (m *Machine) start() {
	m.joined = true
	m.nextCommitMs = m.nowMs + m.set.CommitIntervalMs
	m.purge.nextMs = m.nowMs + m.set.PurgeIntervalMs
	m.maintainMs = m.nowMs + maintainEveryMs
	m.do(Subscribe{Topology: m.cfg.Plan.Group})
	m.report(StateRebalancing)
}

const maintainEveryMs = 1000

func (m *Machine) report(s State) {
	if s == m.state {
		return
	}
	m.state = s
	m.do(Report{State: s})
}

// setState keeps the state that the outside sees.
func (m *Machine) setState() {
	if m.state != StateRebalancing && m.state != StateRunning {
		return
	}
	s := StateRunning
	if !m.assigned || len(m.revocations) > 0 {
		s = StateRebalancing
	}
	for _, t := range m.slots {
		if t.phase != phaseRunning || t.closing != closeNot {
			s = StateRebalancing
		}
	}
	m.report(s)
}

// fail ends the instance for an error: the first one counts. What can be committed of the other tasks is committed.
func (m *Machine) fail(err error) {
	if m.err == nil {
		err = broker.OnePrefix(err)
		m.err = err
		m.log.Error("stopping for an error", "error", err)
	}
	m.beginDrain(false)
}

// count counts something of the application.
func (m *Machine) count(name metrics.Name, n int64) {
	if m.cfg.Task.Metrics != nil {
		m.cfg.Task.Metrics.Total(name).Add(n)
	}
}

// find returns the assigned task of an id.
func (m *Machine) find(id broker.TaskID) *slot {
	i, ok := slices.BinarySearchFunc(m.slots, id, func(s *slot, id broker.TaskID) int { return s.id.Compare(id) })
	if !ok {
		return nil
	}
	return m.slots[i]
}

// passing tells errors that may be over by themselves: brokers away, a topic that is missing, a full disk.
func passing(err error) bool {
	var code broker.Code
	var marked *passingError
	switch {
	case errors.As(err, &marked):
		return true
	case errors.Is(err, broker.ErrUnauthorized):
		return false
	case errors.As(err, &code):
		return code.Retriable() || errors.Is(code, broker.ErrUnknownTopic) || broker.ProduceClassOf(code) == broker.ProduceBroken
	case errors.Is(err, broker.ErrUnreachable), errors.Is(err, broker.ErrNoAnswer), errors.Is(err, broker.ErrUnknownTopic),
		errors.Is(err, state.ErrDiskFull), errors.Is(err, broker.ErrOffsetOutOfRange):
		return true
	}
	return false
}

// NextWakeMs is when the machine wants a Tick at the latest; ok is false if it waits for events only.
func (m *Machine) NextWakeMs() (ms int64, ok bool) {
	if m.over {
		return 0, false
	}
	at := func(t int64) {
		if t > 0 && (!ok || t < ms) {
			ms, ok = t, true
		}
	}
	if m.joined && m.drain == nil {
		if m.set.CommitIntervalMs > 0 && m.anyToCommit() {
			at(m.nextCommitMs)
		}
		if m.set.PurgeIntervalMs > 0 {
			at(m.purge.nextMs)
		}
	}
	if m.joined {
		at(m.maintainMs)
	}
	for _, s := range m.slots {
		at(s.wakeMs())
	}
	for _, sb := range m.standbys {
		at(m.standbyWakeMs(sb))
	}
	if len(m.running) > 0 {
		at(m.nowMs + heldUpMs)
	}
	if m.full {
		at(m.nowMs + fullCheckMs)
	}
	if m.commit != nil {
		if !m.set.ExactlyOnce || m.commit.stage == stageCommit {
			at(m.commit.retryMs) // 0 while it is under way
		}
		if m.eos.wanted && m.commit.stage == stageOpen {
			at(max(m.nowMs, m.eos.wantedMs) + heldUpMs)
		}
	}
	if m.eos.broken && !m.eos.proving && m.commit == nil {
		at(m.eos.againMs)
	}
	for _, r := range m.revocations {
		at(r.deadlineMs)
	}
	for _, s := range m.stuck {
		if !s.orphan {
			at(s.releaseMs)
		}
	}
	if m.drain != nil && m.nowMs < m.drain.deadlineMs {
		at(m.drain.deadlineMs)
		if !m.drain.left {
			at(m.drain.sayMs)
		}
	}
	return ms, ok
}

// timers does what is due by time.
func (m *Machine) timers() {
	if m.over {
		return
	}
	if m.joined && m.nowMs >= m.maintainMs {
		m.maintainMs = m.nowMs + maintainEveryMs
		m.do(Maintain{})
	}
	if m.drain == nil && m.joined {
		if m.set.CommitIntervalMs > 0 && m.nowMs >= m.nextCommitMs {
			m.commitDue()
		}
		m.purgeDue()
		m.cleanDue()
	}
	for _, s := range slices.Clone(m.slots) {
		if at := s.wakeMs(); at > 0 && m.nowMs >= at {
			m.retryFetches(s)
			m.advance(s)
			if !s.queued && s.phase == phaseRunning {
				// The producer is full: it is looked at when there is room.
				s.more = s.more || s.waitMs > 0 && m.nowMs >= s.waitMs || s.timerMs > 0 && m.nowMs >= s.timerMs
				s.waitMs, s.timerMs = later(s.waitMs, m.nowMs), later(s.timerMs, m.nowMs)
			}
		}
	}
	m.standbyTimers()
	m.watchWorkers()
	if m.full && m.outgoing() <= m.set.ProducerBytes/2 {
		m.full = false
		m.advanceAll()
	}
}

// fullCheckMs is how often a full producer is looked at.
const fullCheckMs = 5

// later keeps a time that has not come.
func later(ms, nowMs int64) int64 {
	if ms > nowMs {
		return ms
	}
	return 0
}
