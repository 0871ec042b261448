// Package task runs one task: a sub-topology over one partition of each of its input topics. A task is single-threaded
// and deterministic: it owns no goroutine, reads no clock but the one it is given, and what it does is a function of the
// calls made to it. The runtime, the test driver and the simulation all drive this code.
package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// ObservedMeta is the key under which a windowed operator's observed time stands beside its store.
const ObservedMeta = "observed"

// offsetMeta begins the keys under which the input offsets that a state stands for are kept, beside one store of the task.
const offsetMeta = "offset "

// Config describes a task.
type Config struct {
	ID  processor.TaskID
	Sub *topology.Subtopology
	// Inputs are the task's partitions, with the names of internal topics decorated.
	Inputs []broker.TopicPartition
	// Set holds the task's stores, restored.
	Set *state.Set
	// RestoredTimeMs holds the highest timestamp of the changelog records from which a store was just restored, by store.
	RestoredTimeMs map[string]int64
	// Committed holds the committed offset and metadata of each input; Offset -1 where there is none.
	Committed map[broker.TopicPartition]broker.OffsetMeta
	// Starts holds where reading of each input begins, if that is not its committed offset: it is not in the log any more.
	Starts map[broker.TopicPartition]int64

	// Ctx ends with the application; user functions that may wait get it.
	Ctx   context.Context
	NowMs func() int64
	// SteadyMs is a time that does not jump with the clock, in which idling is measured; nil takes NowMs.
	SteadyMs       func() int64
	Metrics        *metrics.Registry
	Handlers       op.Handlers
	Partitions     func(topic string) (int32, error)
	TopicName      func(internal string) string
	MaxRecordBytes func(topic string) int
	// PrivateBytes is what a task should gather at most; a record that sends more is let through, and counted, up to
	// EmitLimit. 0 bounds nothing.
	PrivateBytes, EmitLimit int64
	GlobalStores            map[string]any
	CacheBytes              int64
	ReadCacheBytes          int64
	// MaxIdleMs is max.task.idle.ms: how long to wait for an input that is level and empty; -1 waits for none, not even
	// for one whose records have not been fetched yet.
	MaxIdleMs int64
	// Place is told which record the task is in. May be nil.
	Place *Place
	// Slow is a record to be refused; nil if there is none.
	Slow *Slow
}

// Task is one task. It belongs to one goroutine at a time.
type Task struct {
	id     processor.TaskID
	env    *op.Env
	set    *state.Set
	queues []*queue // by topic, then partition
	byTP   map[broker.TopicPartition]*queue
	idleMs int64
	steady func() int64
	stores []string // that have observed times
	// offsetStore is the store beside which the input offsets stand that the state stands for; empty without stores.
	offsetStore string
	byHand      []ByHand

	commitNeeded bool
	idle         IdleReason
	processed    *metrics.Counter
	quiet        []quietStep // steps that the time of quiet sources moves, parents first
	enforced     *metrics.Counter
	leftOut      *metrics.Counter
	privateBytes int64
	oversized    *metrics.Counter
	closed       bool
	place        *Place
	slow         *Slow
}

// New makes a task's operators, calls Init of user-written steps, and takes up the times of the committed offsets.
func New(cfg Config) (*Task, error) {
	t := &Task{
		id: cfg.ID, set: cfg.Set, idleMs: cfg.MaxIdleMs, steady: cfg.SteadyMs,
		byTP:      make(map[broker.TopicPartition]*queue, len(cfg.Inputs)),
		processed: cfg.Metrics.Counter(metrics.RecordsProcessed, cfg.ID),
		enforced:  cfg.Metrics.Counter(metrics.EnforcedProcessing, cfg.ID),
		leftOut:   cfg.Metrics.Counter(metrics.MetadataLeftOut, cfg.ID),

		place: cfg.Place, slow: cfg.Slow,

		privateBytes: cfg.PrivateBytes, oversized: cfg.Metrics.Counter(metrics.RecordsOversized, cfg.ID),
	}
	if t.steady == nil {
		t.steady = cfg.NowMs
	}
	if t.place == nil {
		t.place = new(Place)
	}
	t.env = &op.Env{
		Task: cfg.ID, NowMs: cfg.NowMs, Metrics: cfg.Metrics, Handlers: cfg.Handlers, Partitions: cfg.Partitions,
		TopicName: cfg.TopicName, MaxRecordBytes: cfg.MaxRecordBytes, EmitLimit: cfg.EmitLimit, Set: cfg.Set,
		Stores: make(map[string]any), GlobalStores: cfg.GlobalStores,
		Ctx: cfg.Ctx, CacheBytes: cfg.CacheBytes, ReadCacheBytes: cfg.ReadCacheBytes, StreamTimeMs: codec.NoTime,
	}
	if err := t.openQueues(cfg); err != nil {
		return nil, err
	}
	t.restoreTimes(cfg)
	if err := t.wire(cfg); err != nil {
		return nil, err
	}
	if err := t.env.Init(); err != nil {
		return nil, err
	}
	t.wireQuiet(cfg.Sub)
	return t, nil
}

func (t *Task) openQueues(cfg Config) error {
	for _, in := range cfg.Inputs {
		q := &queue{in: in, offsetMeta: fmt.Sprintf("%s%s-%d", offsetMeta, in.Topic, in.Partition), position: -1, end: -1, idleSinceMs: -1, partitionTimeMs: codec.NoTime, committed: -1}
		if c, ok := cfg.Committed[in]; ok && c.Offset >= 0 {
			q.position, q.committed = c.Offset, c.Offset
		}
		t.queues = append(t.queues, q)
		t.byTP[in] = q
	}
	slices.SortFunc(t.queues, func(a, b *queue) int {
		if c := strings.Compare(a.in.Topic, b.in.Topic); c != 0 {
			return c
		}
		return int(a.in.Partition - b.in.Partition)
	})
	return nil
}

// ByHand is an input whose committed offset was not written by the application, or is not what it goes on from.
type ByHand struct {
	broker.TopicPartition
	Committed int64 // -1: none any more
	Stored    int64 // up to where the state on disk has processed it; -1 unknown
	From      int64 // where reading begins; -1: the reset policy says
	// Gone says that the application has committed it, but that it is beyond the end of the log now.
	Gone bool
}

// String shows an input of a message.
func (h ByHand) String() string {
	at := func(n int64) string {
		if n < 0 {
			return "none"
		}
		return strconv.FormatInt(n, 10)
	}
	s := fmt.Sprintf("%s-%d: committed %s", h.Topic, h.Partition, at(h.Committed))
	if h.From >= 0 && h.From != h.Committed {
		s += fmt.Sprintf(", goes on at %d", h.From)
	}
	if h.Stored >= 0 {
		s += fmt.Sprintf(", processed to %d", h.Stored)
	}
	return s
}

// OffsetsByHand tells of inputs whose offsets were set by hand. All times of the task have started unset if there is one.
func (t *Task) OffsetsByHand() []ByHand { return t.byHand }

// restoreTimes takes up partition times, stream time and the operators' observed times. An offset that stands without
// metadata, or below the one that is stored with the state, was set by hand: nothing is known of the time then, and all times
// start unset.
func (t *Task) restoreTimes(cfg Config) {
	t.env.Observed, t.env.Emitted = make(map[string]int64), make(map[string]int64)
	t.chooseOffsetStore(cfg.Sub)
	metas := t.findByHand(cfg)
	if len(t.byHand) > 0 {
		return
	}
	for i, q := range t.queues {
		m := metas[i]
		if q.committed < 0 {
			continue
		}
		q.partitionTimeMs = m.PartitionTimeMs
		t.env.StreamTimeMs = max(t.env.StreamTimeMs, m.StreamTimeMs)
		for name, at := range m.Observed {
			if old, ok := t.env.Observed[name]; !ok || at > old {
				t.env.Observed[name] = at
			}
		}
		for name, at := range m.Processor {
			if old, ok := t.env.Emitted[name]; !ok || at > old {
				t.env.Emitted[name] = at
			}
		}
	}
	// An operator whose time was left out of the metadata, or that a Java application ran before: what its store and its
	// changelog know, but not beyond the task's own time, which the changelog may be ahead of.
	told := make(map[string]bool, len(t.env.Observed))
	for name := range t.env.Observed {
		told[codec.StoreOfTime(name)] = true
	}
	t.env.Guessed = make(map[string]int64)
	for _, s := range cfg.Sub.Stores {
		if told[s.Name] || t.env.StreamTimeMs < 0 || s.Kind == topology.KeyValue {
			continue
		}
		at, known := cfg.Set.Meta(s.Name, ObservedMeta)
		if restored, ok := cfg.RestoredTimeMs[s.Name]; ok && (s.Kind == topology.Window || s.Kind == topology.Session) {
			at, known = max(at, restored), true
		}
		if known {
			t.env.Guessed[s.Name] = min(at, t.env.StreamTimeMs)
		}
	}
}

// chooseOffsetStore finds the store beside which input offsets stand: one that a restart keeps, if there is one.
func (t *Task) chooseOffsetStore(sub *topology.Subtopology) {
	for _, s := range sub.Stores {
		if t.offsetStore == "" || s.Persistent {
			t.offsetStore = s.Name
		}
		if s.Persistent {
			return
		}
	}
}

// findByHand finds the inputs that do not go on from what the application has committed, and returns the metadata of the others,
// one for each queue.
func (t *Task) findByHand(cfg Config) []codec.OffsetMetadata {
	metas := make([]codec.OffsetMetadata, len(t.queues))
	none := true // no offset at all is known
	for i, q := range t.queues {
		at := q.committed
		stored, known := cfg.Set.Meta(t.offsetStore, q.offsetMeta)
		if at < 0 && !known {
			continue
		}
		none = false
		from := at
		if start, ok := cfg.Starts[q.in]; ok {
			from = start
		}
		m, ok := codec.ParseOffsetMetadata(cfg.Committed[q.in].Metadata)
		if metas[i] = m; ok && from >= at && (!known || at >= stored) {
			continue
		}
		if !known {
			stored = -1
		}
		t.byHand = append(t.byHand, ByHand{TopicPartition: q.in, Committed: at, Stored: stored, From: from, Gone: ok && from < at})
	}
	if none && len(cfg.RestoredTimeMs) > 0 {
		for _, q := range t.queues {
			t.byHand = append(t.byHand, ByHand{TopicPartition: q.in, Committed: -1, Stored: -1, From: -1})
		}
	}
	return metas
}

// wire opens the typed stores and makes the operators, children first.
func (t *Task) wire(cfg Config) error {
	for _, s := range cfg.Sub.Stores {
		f, ok := s.Op.(op.StoreFactory)
		if !ok {
			return fmt.Errorf("millrace: task %s: store %s cannot be made: it has no factory", t, s.Name)
		}
		typed, err := f.Open(t.env)
		if err != nil {
			return fmt.Errorf("millrace: task %s: store %s: %w", t, s.Name, err)
		}
		t.env.Stores[s.Name] = typed
		t.stores = append(t.stores, s.Name)
	}
	made := make(map[*topology.Node]any, len(cfg.Sub.Nodes))
	for _, n := range slices.Backward(cfg.Sub.Nodes) {
		f, ok := n.Op.(op.Factory)
		if !ok {
			return fmt.Errorf("millrace: task %s: step %s cannot be made: it has no factory", t, n.Name)
		}
		children := make([]op.Child, 0, len(n.Children))
		for _, c := range n.Children {
			children = append(children, op.Child{Step: c.Name, Sink: made[c]})
		}
		sink, err := f.Build(t.env, n.Name, children)
		if err != nil && n.Kind == topology.SinkNode {
			return fmt.Errorf("millrace: task %s: step %s, declared at %s: %w", t, n.Name, n.Pos, err)
		}
		if err != nil {
			return fmt.Errorf("millrace: task %s: %w", t, err)
		}
		made[n] = sink
	}
	return t.connect(cfg, made)
}

// connect finds the source step of each input.
func (t *Task) connect(cfg Config, made map[*topology.Node]any) error {
	for _, q := range t.queues {
		for _, n := range cfg.Sub.Sources {
			if !t.reads(n, q.in.Topic) {
				continue
			}
			head, err := made[n].(op.Source).NewHead(&q.in)
			if err != nil {
				return fmt.Errorf("millrace: task %s: source %s: %w", t, n.Name, err)
			}
			q.head = head
			q.quiet = quietSource{node: n, timeoutMs: n.IdleMs, sinceMs: -1, heard: true}
		}
		if q.head == nil {
			return fmt.Errorf("millrace: task %s: no source reads its input %s", t, q.in.Topic)
		}
	}
	return nil
}

func (t *Task) reads(n *topology.Node, topic string) bool {
	if n.Pattern != "" {
		return n.Matches(topic)
	}
	return slices.ContainsFunc(n.Topics, func(name string) bool {
		if n.Internal {
			name = t.env.TopicName(name)
		}
		return name == topic
	})
}

// String returns the task's id as Kafka Streams writes it.
func (t *Task) String() string { return t.id.String() }

// ID returns the task's id.
func (t *Task) ID() processor.TaskID { return t.id }

// Inputs returns the task's partitions.
func (t *Task) Inputs() []broker.TopicPartition {
	in := make([]broker.TopicPartition, 0, len(t.queues))
	for _, q := range t.queues {
		in = append(in, q.in)
	}
	return in
}

// SetPosition tells where fetching of an input starts and where its log ends, -1 where unknown.
func (t *Task) SetPosition(tp broker.TopicPartition, position, end int64) {
	if q := t.byTP[tp]; q != nil {
		q.position = position
		q.end = end
	}
}

// ForgetEnd says that the end of an input is not known any more: nothing has been heard of the partition of late. Once its
// records are used up the task waits for it, until Add tells the end again.
func (t *Task) ForgetEnd(tp broker.TopicPartition) {
	if q := t.byTP[tp]; q != nil {
		q.end = -1
	}
}

// Add hands over a fetched batch. Its records must follow those added before.
func (t *Task) Add(b broker.Batch) error {
	q := t.byTP[b.TopicPartition]
	if q == nil {
		return fmt.Errorf("millrace: task %s: got records of %s-%d, which it does not read", t, b.Topic, b.Partition)
	}
	before := q.offset()
	q.add(&b)
	if q.offset() != before {
		t.commitNeeded = true // behind markers and compacted records
	}
	return nil
}

// Buffered tells how many records of an input wait, and how many bytes they take.
func (t *Task) Buffered(tp broker.TopicPartition) (records int, bytes int64) {
	if q := t.byTP[tp]; q != nil {
		return q.count, q.bytes
	}
	return 0, 0
}

// BufferedBytes is the memory that waiting records take.
func (t *Task) BufferedBytes() (n int64) {
	for _, q := range t.queues {
		n += q.bytes
	}
	return n
}

// Lag is the number of offsets of all inputs that have not been processed; known is false while an end is not known.
func (t *Task) Lag() (n int64, known bool) {
	known = true
	for _, q := range t.queues {
		l, ok := q.lag()
		known = known && ok
		n += l + int64(q.count)
	}
	return n, known
}

// StreamTimeMs is the highest timestamp that the task has taken, -1 before the first.
func (t *Task) StreamTimeMs() int64 { return t.env.StreamTimeMs }

// Store returns the typed store of that name, or nil.
func (t *Task) Store(name string) any { return t.env.Stores[name] }

// ErrClosed is returned by a task that has been closed.
var ErrClosed = errors.New("millrace: the task is closed")

// Process takes up to limit records, choosing by timestamp, and fires the timers of stream time. It returns early when no
// record may be taken yet; Idle tells why.
func (t *Task) Process(limit int) (n int, err error) {
	if t.closed {
		return 0, ErrClosed
	}
	for n < limit {
		q, err := t.choose()
		if err != nil || q == nil {
			return n, err
		}
		n++
		if err := t.take(q); err != nil {
			return n, err
		}
	}
	t.idle = IdleReason{}
	return n, nil
}

func (t *Task) take(q *queue) error {
	offset := q.peek().Offset
	t.place.enter(q, offset)
	q.pop()
	q.headReady = false
	q.partitionTimeMs = max(q.partitionTimeMs, q.headTsMs)
	t.env.StreamTimeMs = max(t.env.StreamTimeMs, q.headTsMs)
	t.commitNeeded = true
	t.processed.Inc()
	if t.slow != nil && t.slow.Offset == offset && t.slow.TopicPartition == q.in {
		if retry, err := q.head.Refuse(t.slow.Cause); err != nil || !retry {
			return err
		}
	}
	if err := q.head.Process(); err != nil {
		return err
	}
	t.countOversized()
	fired, err := t.env.FireStreamTimers()
	if fired {
		t.countOversized()
	}
	return err
}

// countOversized counts the record or the last timer in process if it alone has sent more than a task should gather.
func (t *Task) countOversized() {
	if t.privateBytes > 0 && t.env.SentBytes() > t.privateBytes {
		t.oversized.Inc()
	}
}

// Punctuate fires the wall-clock timers that are due, and lets the time of quiet sources run on.
func (t *Task) Punctuate(nowMs int64) error {
	if t.closed {
		return ErrClosed
	}
	t.place.leave()
	fired, err := t.env.FireWallTimers(nowMs)
	if t.commitNeeded = t.commitNeeded || fired; fired {
		t.countOversized()
	}
	if err != nil {
		return err
	}
	return t.advanceQuiet(nowMs)
}

// NextTimerMs is when Punctuate is to be called next; ok is false if there is no reason to.
func (t *Task) NextTimerMs() (ms int64, ok bool) {
	ms, ok = t.env.NextWallTimerMs()
	if at, quiet := t.nextQuietMs(); quiet && (!ok || at < ms) {
		return at, true
	}
	return ms, ok
}

// TakeOutputs returns what the task has emitted since the last call, in order.
func (t *Task) TakeOutputs() []op.Output { return t.env.TakeOutputs() }

// ReuseOutputs gives a slice from TakeOutputs back once its records have been handed on.
func (t *Task) ReuseOutputs(out []op.Output) { t.env.ReuseOutputs(out) }

// PendingBytes is the memory of what the task has emitted since TakeOutputs.
func (t *Task) PendingBytes() int64 { return t.env.PendingBytes() }

// FailedOutput asks the production handler about a record that could not be written.
func (t *Task) FailedOutput(o *op.Output, err error, attempt int) (retry bool, out error) {
	return t.env.FailedOutput(o, err, attempt)
}

// CommitRequested tells whether user code asked for a commit since the last unit.
func (t *Task) CommitRequested() bool { return t.env.CommitRequested }

// CommitNeeded tells whether anything happened since the last unit.
func (t *Task) CommitNeeded() bool { return t.commitNeeded }

// Close closes user-written steps. What has not been handed over is lost.
func (t *Task) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	return t.env.Close()
}
