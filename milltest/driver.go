// Package milltest runs a topology in a test, without a broker and in milliseconds. It drives the code that runs in
// production, one record at a time, on a virtual clock.
//
//	d := milltest.New(t, topology)
//	in, out := milltest.Input(d, Clicks), milltest.Output(d, Views)
//	in.PipeAt("alice", Click{URL: "/"}, 12*time.Second)
//	got := out.ReadAll()
//
// After each record the driver processes everything that follows from it, also through repartition topics, and commits, so
// that what waits in caches comes out. With ManualCommit nothing is committed before Commit is called.
//
// In Kafka Streams: TopologyTestDriver. Unlike it the driver can run several partitions, restart its tasks, and run them
// side by side.
package milltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// Driver runs one topology. It is for one goroutine.
type Driver struct {
	tb    reporter
	opts  options
	graph *topology.Topology
	plan  *topology.Plan

	nowMs   int64
	diskNow atomic.Int64 // nowMs, for the goroutines of the on-disk engine
	ctx     context.Context
	cancel  context.CancelFunc
	metrics *metrics.Registry
	logs    map[broker.TopicPartition]*partitionLog
	disk    *state.DB        // nil without OnDisk
	mu      sync.Mutex       // guards topics: tasks that run side by side make topics appear
	topics  map[string]int32 // partitions by name in the cluster
	reads   map[string]int   // how far each output topic has been read
	written map[string][]Raw // all records of each topic in the order of writing
	tasks   []*testTask
	globals *globals
	seq     int // of records delivered to tasks
	closed  bool
	failed  error
}

// partitionLog is one partition of the driver's cluster.
type partitionLog struct {
	records   []broker.Record
	committed broker.OffsetMeta
}

type options struct {
	appID      string
	partitions int32
	perTopic   map[string]int32
	start      time.Time
	cacheBytes int64
	readCache  int64
	maxIdleMs  int64
	manual     bool
	concurrent bool
	onDisk     bool
	handlers   op.Handlers
}

// Option is an option of a Driver.
type Option func(*options)

// ApplicationID sets the application id, which is part of the names of internal topics. The default is "test".
func ApplicationID(id string) Option { return func(o *options) { o.appID = id } }

// Partitions sets the number of partitions of every topic that the topology reads or writes and does not make itself. The
// default is 1.
func Partitions(n int) Option { return func(o *options) { o.partitions = int32(n) } }

// TopicPartitions sets the number of partitions of one topic.
func TopicPartitions(topic string, n int) Option {
	return func(o *options) { o.perTopic[topic] = int32(n) }
}

// StartAt sets the wall clock at the start. The default is the Unix epoch.
func StartAt(t time.Time) Option { return func(o *options) { o.start = t } }

// CacheBytes sets the size of the deduplicating cache of each store; 0 turns it off. The default is 10 MB. Updates collapse
// with ManualCommit only, since otherwise each record is committed. What shows in any case is what a cache makes of
// deletions: one of a row that nobody has seen is not sent on.
func CacheBytes(n int64) Option { return func(o *options) { o.cacheBytes = n } }

// ReadCacheBytes sets the size of the read cache of each store; it never changes a result.
func ReadCacheBytes(n int64) Option { return func(o *options) { o.readCache = n } }

// MaxTaskIdle sets max.task.idle.ms. The driver knows the end of every partition, so the default of 0 never waits.
func MaxTaskIdle(d time.Duration) Option { return func(o *options) { o.maxIdleMs = d.Milliseconds() } }

// ManualCommit commits only when Commit is called, as an application does between commit intervals.
func ManualCommit() Option { return func(o *options) { o.manual = true } }

// Concurrently runs the tasks side by side, each on a goroutine of its own, so that the race detector finds user functions
// that share state between tasks. The order of outputs of different tasks is then that of their partitions.
func Concurrently() Option { return func(o *options) { o.concurrent = true } }

// OnDisk keeps persistent stores in the on-disk engine, over a file system in memory. The default is to keep all stores in
// memory, which is faster.
func OnDisk() Option { return func(o *options) { o.onDisk = true } }

// OnDeserializationError sets what becomes of records that do not decode; the default fails.
func OnDeserializationError(h processor.Handler) Option {
	return func(o *options) { o.handlers.Deserialization = h }
}

// OnProcessingError sets what becomes of records at which a user function fails; the default fails.
func OnProcessingError(h processor.Handler) Option {
	return func(o *options) { o.handlers.Processing = h }
}

// OnProductionError sets what becomes of records that cannot be encoded; the default fails.
func OnProductionError(h processor.Handler) Option {
	return func(o *options) { o.handlers.Production = h }
}

// New starts a driver for a test and closes it when the test ends. A failure of the topology fails the test; the Try
// methods return it instead.
func New(tb testing.TB, t *millrace.Topology, opts ...Option) *Driver {
	tb.Helper()
	d, err := NewDriver(t, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	d.tb = tb
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

// NewDriver starts a driver outside of a test. Its methods without Try panic at a failure of the topology. Close it.
func NewDriver(t *millrace.Topology, opts ...Option) (*Driver, error) {
	o := options{appID: "test", partitions: 1, perTopic: make(map[string]int32), start: time.UnixMilli(0), cacheBytes: 10 << 20, readCache: 1 << 20}
	for _, f := range opts {
		f(&o)
	}
	if t == nil {
		return nil, errors.New("milltest: NewDriver is given no topology; has Build returned an error?")
	}
	d := &Driver{
		tb: panics{}, opts: o, graph: t.Internal(), metrics: metrics.New(),
		logs: make(map[broker.TopicPartition]*partitionLog), topics: make(map[string]int32),
		reads: make(map[string]int), written: make(map[string][]Raw),
	}
	d.setNow(o.start.UnixMilli())
	d.ctx, d.cancel = context.WithCancel(context.Background())
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Driver) open() error {
	if err := d.checkOptions(); err != nil {
		return err
	}
	if d.opts.onDisk {
		var err error
		if d.disk, err = state.OpenMemoryDB(d.opts.appID, d.diskNow.Load); err != nil {
			return err
		}
	}
	if err := d.resolve(); err != nil {
		return err
	}
	if err := d.openGlobals(); err != nil {
		return err
	}
	return d.openTasks()
}

// resolve finds the tasks. It runs again when a topic appears that a pattern matches.
func (d *Driver) resolve() error {
	cluster := make(map[string]int32)
	for _, name := range append(d.graph.SourceTopics(), d.graph.GlobalTopics()...) {
		cluster[name] = d.count(name)
	}
	matched := make(map[string][]string)
	for name, n := range d.topics {
		if _, ok := cluster[name]; !ok {
			cluster[name] = n
		}
	}
	for _, p := range d.graph.Patterns() {
		matched[p] = sortedKeys(d.topics)
	}
	internal := d.graph.InternalTopicNames(d.opts.appID)
	for _, name := range internal {
		delete(cluster, name)
	}
	plan, err := d.graph.Resolve(d.opts.appID, cluster, matched, topology.DefaultResolveConfig())
	if err != nil {
		return err
	}
	d.plan = plan
	for name, n := range cluster {
		d.topics[name] = n
	}
	for _, t := range plan.Repartitions {
		d.topics[t.Name] = t.Partitions
	}
	for _, t := range plan.Changelogs {
		d.topics[t.Name] = t.Partitions
	}
	return nil
}

// appear makes a topic that a pattern matches come into being.
func (d *Driver) appear(name string) error {
	d.partitionsOf(name)
	if len(d.graph.Patterns()) == 0 {
		return nil
	}
	return d.Restart()
}

func (d *Driver) count(topic string) int32 {
	if n, ok := d.opts.perTopic[topic]; ok {
		return n
	}
	return d.opts.partitions
}

// partitionsOf makes a topic appear when it is first written to.
func (d *Driver) partitionsOf(topic string) int32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.topics[topic]
	if !ok {
		n = d.count(topic)
		d.topics[topic] = n
	}
	return n
}

func (d *Driver) log(tp broker.TopicPartition) *partitionLog {
	l := d.logs[tp]
	if l == nil {
		l = &partitionLog{committed: broker.OffsetMeta{Offset: -1, Epoch: -1}}
		d.logs[tp] = l
	}
	return l
}

// Now returns the driver's wall clock.
func (d *Driver) Now() time.Time { return time.UnixMilli(d.nowMs).UTC() }

func (d *Driver) setNow(ms int64) {
	d.nowMs = ms
	d.diskNow.Store(ms)
}

// AdvanceTime moves the wall clock on. Timers of wall-clock time fire on their cadence, each at the moment it is due.
func (d *Driver) AdvanceTime(by time.Duration) {
	d.tb.Helper()
	d.must(d.advance(by))
}

func (d *Driver) advance(by time.Duration) error {
	end := d.nowMs + by.Milliseconds()
	for {
		next := end
		for _, t := range d.tasks {
			if at, ok := t.task.NextTimerMs(); ok && at < next {
				next = max(at, d.nowMs)
			}
			if at := t.task.Idle().UntilMs; t.stalled && at > d.nowMs && at < next {
				next = at // it has waited long enough for older records
			}
		}
		d.setNow(next)
		if err := d.punctuate(); err != nil {
			return err
		}
		if next == end {
			return nil
		}
	}
}

// JumpTime moves the wall clock on at once, as for a process that stood still: a timer that missed several beats fires
// once. With AdvanceTime it fires for each.
//
// In Kafka Streams: TopologyTestDriver#advanceWallClockTime.
func (d *Driver) JumpTime(by time.Duration) {
	d.tb.Helper()
	d.setNow(d.nowMs + by.Milliseconds())
	d.must(d.punctuate())
}

func (d *Driver) punctuate() error {
	if err := d.usable(); err != nil {
		return err
	}
	for _, t := range d.tasks {
		t.stalled = false // time has moved
		if err := t.task.Punctuate(d.nowMs); err != nil {
			return d.fail(err)
		}
	}
	return d.settle()
}

// Commit flushes the caches of all tasks and commits, as an application does at each commit interval. What comes out through
// a repartition topic then waits in the caches of the tasks behind it, for the next Commit.
func (d *Driver) Commit() {
	d.tb.Helper()
	d.must(d.commit())
}

// Dropped returns how many records a step has dropped, skipped or set aside for a reason. A store counts under its own name.
func (d *Driver) Dropped(step string, reason millrace.DropReason) int64 {
	return d.metrics.Dropped(step, metrics.Reason(reason)).Value()
}

// Topics returns the names of all topics that have been written to, sorted.
//
// In Kafka Streams: TopologyTestDriver#producedTopicNames.
func (d *Driver) Topics() []string {
	return sortedKeys(d.written)
}

// StreamTime returns the stream time of a task; ok is false if there is no such task, or it has seen no record.
func (d *Driver) StreamTime(subtopology int, partition int32) (t time.Time, ok bool) {
	for _, x := range d.tasks {
		if x.task.ID() == (processor.TaskID{Subtopology: subtopology, Partition: partition}) && x.task.StreamTimeMs() >= 0 {
			return time.UnixMilli(x.task.StreamTimeMs()).UTC(), true
		}
	}
	return time.Time{}, false
}

// Close closes the tasks and their processors.
func (d *Driver) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	d.cancel()
	err := errors.Join(d.closeTasks(), d.closeGlobals())
	if d.disk != nil {
		err = errors.Join(err, d.disk.Close())
	}
	return err
}

var errClosed = errors.New("milltest: the driver is closed")

func (d *Driver) usable() error {
	if d.closed {
		return errClosed
	}
	if d.failed != nil {
		return fmt.Errorf("milltest: the topology has failed before: %w", d.failed)
	}
	return nil
}

// fail remembers the first failure of the topology: an application would have stopped.
func (d *Driver) fail(err error) error {
	if d.failed == nil {
		d.failed = err
	}
	return err
}

// reporter is the part of a test that the driver needs. Each method that may fail calls Helper itself, which marks its caller
// alone, so that a failure names the line of the test.
type reporter interface {
	Helper()
	Fatal(args ...any)
}

// panics is the reporter of a driver outside of a test.
type panics struct{}

func (panics) Helper() {}

func (panics) Fatal(args ...any) { panic(args[0]) }

func (d *Driver) must(err error) {
	if err == nil {
		return
	}
	d.tb.Helper()
	d.tb.Fatal(err)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
