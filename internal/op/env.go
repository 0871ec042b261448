package op

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// Env is what the operators of one task share: the record in process, the way out, stores, time, and the policies for
// records that fail. It belongs to the task's goroutine.
type Env struct {
	Task     processor.TaskID
	NowMs    func() int64
	Metrics  *metrics.Registry
	Handlers Handlers
	// Partitions tells how many partitions a topic has. Asked once for each topic at wiring, and for dynamic topics at
	// their first record.
	Partitions func(topic string) (int32, error)
	// Set holds the bytes of the task's stores.
	Set *state.Set
	// Stores holds the typed stores of the task by name, and GlobalStores those of the application.
	Stores       map[string]any
	GlobalStores map[string]any
	// CacheBytes bounds the deduplicating cache of each store; 0 turns it off.
	CacheBytes int64
	// ReadCacheBytes bounds the read cache of each store.
	ReadCacheBytes int64
	// TopicName decorates the name of an internal topic.
	TopicName func(internal string) string
	// Observed holds the operators' observed times as they were at the committed offset, by operator.
	Observed map[string]int64
	// Emitted holds how far steps with emit-on-close have emitted, by store, as it stood in the metadata of the committed
	// offset. What belongs to no step of this topology is kept and written back.
	Emitted map[string]int64
	// Guessed holds, by store, those that the committed offsets do not know: of all operators of the store.
	Guessed map[string]int64
	// Ctx ends with the application; user functions that may wait get it.
	Ctx context.Context
	// CommitRequested is set when user code asked for a commit.
	CommitRequested bool
	// MaxRecordBytes tells how large a record for a topic may be; 0 where it is not known.
	MaxRecordBytes func(topic string) int
	// EmitLimit bounds the bytes that one record or timer may send; 0 does not.
	EmitLimit int64

	StreamTimeMs int64 // highest timestamp taken by the task; -1 before the first

	global bool // it fills global stores, for no task: see NewGlobalEnv

	cur     current
	outputs []Output
	pending int64 // bytes of outputs
	sent    int64 // bytes that the record or timer in process has sent
	usual   int   // about how many outputs are taken at once, so that the list need not grow each time
	slab    []byte
	timers  timers
	// sendingNo and sendingDepth: see beginSending.
	sendingNo    int64
	sendingDepth int
	inits        []func() error
	flushers     []func() error
	commits      []func()
	closers      []func() error
	observed     []observedTime
	emitted      []observedTime
	advances     []Advance
}

// current is the context of the record in process.
type current struct {
	in      *broker.TopicPartition // nil inside a timer
	offset  int64
	raw     *broker.Record // the source record; nil inside a timer and while a cache is flushed
	headers serde.Headers
	tsMs    int64
}

// Output is a record on its way out.
type Output struct {
	broker.ProduceRecord
	Step string // who wrote it
	// Store names the store whose changelog this is; empty for all other records.
	Store string
	// Origin is the source record that led to it, if any, for handlers and dead letters.
	In     *broker.TopicPartition
	Offset int64
	Raw    *broker.Record
}

// Handlers are the application's policies for records that fail; nil fails.
type Handlers struct {
	Deserialization processor.Handler
	Processing      processor.Handler
	Production      processor.Handler // Serializing and Producing
	// FailProcessing says that Processing lets no record pass: what is done for the sake of going on can be saved.
	FailProcessing bool
}

// passOver tells whether the application may go on behind a record that fails.
func (h *Handlers) passOver() bool { return h.Processing != nil && !h.FailProcessing }

const slabBytes = 64 << 10

// alloc returns a zero-length slice with room for n bytes from the task's current slab. What is appended must be kept
// with keep, or it is overwritten by the next.
func (e *Env) alloc(n int) []byte {
	if e.slab == nil || cap(e.slab)-len(e.slab) < n {
		size := slabBytes
		if n > size {
			size = n
		}
		e.slab = make([]byte, 0, size)
	}
	return e.slab[len(e.slab):len(e.slab):cap(e.slab)]
}

// keep takes what was appended to a slice from alloc out of the slab.
func (e *Env) keep(b []byte) []byte {
	if len(b) == 0 {
		return b[:0:0]
	}
	used := len(e.slab)
	if cap(e.slab)-used >= len(b) && &e.slab[:used+1][used] == &b[0] {
		e.slab = e.slab[:used+len(b)]
	}
	return b[:len(b):len(b)]
}

// Emit queues a record for its topic. Its slices must stay as they are until it is acknowledged.
func (e *Env) Emit(o Output) {
	o.In, o.Offset, o.Raw = e.cur.in, e.cur.offset, e.cur.raw
	if e.outputs == nil && e.usual > 0 {
		e.outputs = make([]Output, 0, e.usual)
	}
	e.outputs = append(e.outputs, o)
	n := int64(len(o.Key)+len(o.Value)) + outputOverhead
	e.pending += n
	e.sent += n
}

// owe counts bytes that the record or timer in process leaves to be sent at the next hand-over.
func (e *Env) owe(n int) { e.sent += int64(n) + outputOverhead }

// outputOverhead is the memory of a record on its way beside its bytes, about.
const outputOverhead = 200

// PendingBytes is the memory of what was emitted and not taken, about.
func (e *Env) PendingBytes() int64 { return e.pending }

// SentBytes is the memory of what the record or timer in process has sent.
func (e *Env) SentBytes() int64 { return e.sent }

// ErrTooMuch is inside the error of a record or timer that sends more than the memory holds.
var ErrTooMuch = errors.New("one record or timer sends more than MemoryLimit")

// overflow is an error once the record or timer in process has sent more than it may; step is who sent the last part.
func (e *Env) overflow(step string) error {
	if e.EmitLimit <= 0 || e.sent <= e.EmitLimit {
		return nil
	}
	return e.fault(step, fmt.Errorf("%w (%d bytes): a unit of work is committed as a whole, so all of it must fit; let the step send less at a time, or raise MemoryLimit", ErrTooMuch, e.EmitLimit))
}

// TakeOutputs returns what was emitted since the last call. The slice is valid until the next Emit after a call of
// ReuseOutputs.
func (e *Env) TakeOutputs() []Output {
	out := e.outputs
	e.outputs, e.pending = nil, 0
	e.usual = max(len(out), e.usual-e.usual/8)
	return out
}

// ReuseOutputs gives a slice from TakeOutputs back for reuse.
func (e *Env) ReuseOutputs(out []Output) {
	if e.outputs == nil {
		clear(out)
		e.outputs = out[:0]
	}
}

// PendingOutputs is the number of records emitted and not taken.
func (e *Env) PendingOutputs() int { return len(e.outputs) }

// SetRecord makes a source record the one in process.
func (e *Env) SetRecord(in *broker.TopicPartition, raw *broker.Record, headers serde.Headers, tsMs int64) {
	e.cur = current{in: in, offset: raw.Offset, raw: raw, headers: headers, tsMs: tsMs}
	e.sent = 0
}

// SetTimer makes a timer the thing in process: there is no record, and what it forwards carries its time.
func (e *Env) SetTimer(nowMs int64) { e.cur, e.sent = current{tsMs: nowMs, offset: -1}, 0 }

// Headers returns the headers of the record in process.
func (e *Env) Headers() serde.Headers { return e.cur.headers }

// TimestampMs returns the event time of the record in process, or the time of the timer.
func (e *Env) TimestampMs() int64 { return e.cur.tsMs }

// Origin tells where the record in process came from; ok is false inside a timer.
func (e *Env) Origin() (m processor.Metadata, ok bool) {
	if e.cur.in == nil {
		return processor.Metadata{Partition: -1, Offset: -1}, false
	}
	return processor.Metadata{Topic: e.cur.in.Topic, Partition: e.cur.in.Partition, Offset: e.cur.offset}, true
}

// OnInit registers what must run once after all operators of the task are made.
func (e *Env) OnInit(f func() error) { e.inits = append(e.inits, f) }

// Init runs what was registered with OnInit. A task makes its operators children first; from here on everything goes
// parents first.
func (e *Env) Init() error {
	slices.Reverse(e.inits)
	slices.Reverse(e.flushers)
	slices.Reverse(e.closers)
	slices.Reverse(e.advances)
	for _, f := range e.inits {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// OnFlush registers the cache of a store.
func (e *Env) OnFlush(f func() error) { e.flushers = append(e.flushers, f) }

// OnCommit registers what must be written to the task's state before a unit is handed over.
func (e *Env) OnCommit(f func()) { e.commits = append(e.commits, f) }

// OnClose registers what must be closed with the task.
func (e *Env) OnClose(f func() error) { e.closers = append(e.closers, f) }

// Flush empties the caches of all stores, so that everything that steps have written is logged and forwarded.
func (e *Env) Flush() error {
	saved, limit := e.cur, e.EmitLimit
	e.EmitLimit = 0 // what many records have left behind
	defer func() { e.cur, e.EmitLimit = saved, limit }()
	for _, f := range e.flushers {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// BeforeHandOver writes what stands beside the stores (observed times) into the task's state.
func (e *Env) BeforeHandOver() {
	for _, f := range e.commits {
		f()
	}
}

// Close closes the operators in the order in which they were made. All are closed, the first error is returned.
func (e *Env) Close() error {
	var first error
	for _, f := range e.closers {
		if err := f(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// observedTime is the observed time of one windowed operator.
type observedTime struct {
	name string
	at   *int64
}

// ObserveTime registers a windowed operator's observed time, which stands for an input offset: it is restored from the
// metadata of the committed offset, and travels in it. The value pointed to is set here, to -1 where none is known. The name
// is that of the operator's store, or made of it by codec.InputTime where several share one.
func (e *Env) ObserveTime(name string, at *int64) {
	*at = -1
	if t, ok := e.Observed[name]; ok {
		*at = t
	} else if t, ok := e.Guessed[codec.StoreOfTime(name)]; ok {
		*at = t
	}
	e.observed = append(e.observed, observedTime{name: name, at: at})
}

// Advance is how the time of a quiet source reaches a step that holds results back until time has passed.
type Advance struct {
	Step string // as named in the topology: the sources upstream of it decide
	// To raises the step's observed time to at least toMs and sends what has become due. There is no record in process: what
	// it sends has no origin and no headers of its own.
	To func(toMs int64) error
}

// OnAdvance registers a step that can send results when only time passes. Steps are told in the order of their
// declaration, parents first.
func (e *Env) OnAdvance(step string, to func(toMs int64) error) {
	e.advances = append(e.advances, Advance{Step: step, To: to})
}

// Advance tells a step that its time has come to toMs while no record was in process.
func (e *Env) Advance(a Advance, toMs int64) error {
	saved := e.cur
	defer func() { e.cur = saved }()
	e.SetTimer(toMs)
	return a.To(toMs)
}

// Advances returns what OnAdvance registered, in the order in which the steps were made: children first until Init has run.
func (e *Env) Advances() []Advance { return e.advances }

// ObservedTimes returns the observed times of all operators that have seen a record.
func (e *Env) ObservedTimes() map[string]int64 {
	if len(e.observed) == 0 {
		return nil
	}
	m := make(map[string]int64, len(e.observed))
	for _, o := range e.observed {
		if *o.at >= 0 {
			m[o.name] = *o.at
		}
	}
	return m
}

// EmitProgress registers up to which close time a step with emit-on-close has emitted the windows of a store. Like an
// observed time it stands for an input offset, and travels in its metadata, under the name and with the meaning that Kafka
// Streams gives it. The value pointed to is set here, to -1 where none is known.
func (e *Env) EmitProgress(store string, at *int64) {
	*at = -1
	if t, ok := e.Emitted[store]; ok {
		*at = t
	}
	e.emitted = append(e.emitted, observedTime{name: store, at: at})
}

// EmittedTimes returns how far all steps with emit-on-close have emitted.
func (e *Env) EmittedTimes() map[string]int64 {
	if len(e.emitted) == 0 {
		return e.Emitted
	}
	m := make(map[string]int64, len(e.Emitted)+len(e.emitted))
	maps.Copy(m, e.Emitted)
	for _, o := range e.emitted {
		if *o.at >= 0 {
			m[o.name] = *o.at
		}
	}
	return m
}

// withContext runs f under the context that a cached record had when it was last written.
func (e *Env) withContext(c current, f func() error) error {
	saved := e.cur
	e.cur = c
	err := f()
	e.cur = saved
	return err
}

// partitioner finds the partition of a key for one topic.
type partitioner struct {
	partitions int32
	keyer      serde.PartitionKeyer
}

func (e *Env) newPartitioner(topic string, key any) (partitioner, error) {
	n, err := e.Partitions(topic)
	if err != nil {
		return partitioner{}, err
	}
	keyer, _ := key.(serde.PartitionKeyer)
	return partitioner{partitions: n, keyer: keyer}, nil
}

func (p partitioner) of(key []byte, null bool) int32 {
	if null || p.partitions <= 0 {
		return -1
	}
	if p.keyer != nil {
		key = p.keyer.PartitionKey(key)
	}
	return codec.Partition(key, p.partitions)
}

// now returns the wall-clock time.
func (e *Env) now() time.Time { return time.UnixMilli(e.NowMs()).UTC() }

// counter finds the counter of a step and reason.
func (e *Env) counter(step string, reason metrics.Reason) *metrics.Counter {
	return e.Metrics.Dropped(step, reason)
}

// typedStore finds a store of the task by name.
func typedStore[S any](e *Env, step, name string) (S, error) {
	s, ok := e.Stores[name]
	if !ok {
		var zero S
		return zero, fmt.Errorf("millrace: step %s: there is no store %s in its task; connect the store to the step", step, name)
	}
	typed, ok := s.(S)
	if !ok {
		return typed, fmt.Errorf("millrace: step %s: store %s has other types than those asked for", step, name)
	}
	return typed, nil
}
