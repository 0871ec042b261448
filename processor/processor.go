// Package processor is the low-level API: user-written steps that see whole records, keep state and set timers.
package processor

import (
	"strconv"
	"time"

	"github.com/millrace-io/millrace/serde"
)

// Record is one record between two steps.
//
// In Kafka Streams: org.apache.kafka.streams.processor.api.Record.
type Record[K, V any] struct {
	Key         K
	Value       V
	TimestampMs int64 // event time, milliseconds since the Unix epoch
	Headers     serde.Headers

	// NullKey and NullValue say that the key or value is null in Kafka's sense; the field then holds the zero value.
	NullKey   bool
	NullValue bool
}

// Time returns the record's event time in UTC.
func (r Record[K, V]) Time() time.Time { return time.UnixMilli(r.TimestampMs).UTC() }

// Metadata says where the record that is being processed came from.
//
// In Kafka Streams: RecordMetadata.
type Metadata struct {
	Topic     string
	Partition int32
	Offset    int64
}

// TaskID names a task: a sub-topology and a partition.
//
// In Kafka Streams: TaskId.
type TaskID struct {
	Subtopology int
	Partition   int32
}

// String writes it as the log and Kafka Streams do: "0_1" is sub-topology 0, partition 1.
func (t TaskID) String() string {
	return strconv.Itoa(t.Subtopology) + "_" + strconv.Itoa(int(t.Partition))
}

// TimeKind says which time a timer follows.
//
// In Kafka Streams: PunctuationType.
type TimeKind uint8

const (
	// StreamTime is event time: the highest timestamp that the task has seen. Such a timer fires only when a record, or the
	// passing of time on idle sources (millrace.IdleTimeout), moves it: first at the first known time, and then on the grid of
	// its interval; missed beats are skipped.
	StreamTime TimeKind = iota
	// WallClock is the time of day. Such a timer first fires one interval after it was set.
	WallClock
)

// Cancel stops a timer. It may be called from inside the timer, and more than once.
type Cancel func()

// StoreContext is the part of a Context from which a store definition takes its store.
type StoreContext interface {
	// StateStore returns the store of that name if it was connected to the step. User code calls the From method of
	// the store's definition instead.
	StateStore(name string) (any, error)
}

// StepContext is what every user-written step knows about where it runs. It belongs to one task and must be used only while
// a method of the step, or a timer, is called.
//
// In Kafka Streams: ProcessingContext.
type StepContext interface {
	StoreContext

	// Schedule calls fn each time that the interval has passed in the time of that kind. fn gets the current time, not
	// the scheduled one. Intervals below a millisecond are an error.
	Schedule(interval time.Duration, kind TimeKind, fn func(now time.Time) error) (Cancel, error)

	// ScheduleAt is Schedule on the grid of times that starts at start, in the time of that kind: so that a timer comes at
	// the full hour, say, after a restart too. If start is past, the first call is at the next time of the grid.
	//
	// In Kafka Streams: ProcessorContext#schedule(Instant, Duration, PunctuationType, Punctuator).
	ScheduleAt(start time.Time, interval time.Duration, kind TimeKind, fn func(now time.Time) error) (Cancel, error)

	// RequestCommit asks for a commit soon. It does not wait for it.
	RequestCommit()

	// Metadata tells the origin of the record in process; ok is false inside a timer.
	Metadata() (m Metadata, ok bool)

	// StreamTime returns the task's highest timestamp, or how far idle sources have let it run on; ok is false before the
	// first record.
	StreamTime() (t time.Time, ok bool)

	// Now returns the wall-clock time, which is virtual in tests.
	Now() time.Time

	// Task returns the id of the task that the step belongs to.
	Task() TaskID

	// Step returns the name of the step.
	Step() string
}

// Context is what a Processor knows about where it runs, and how it sends records on. It belongs to one task and must be used
// only inside Init, Process, a timer or Close.
//
// In Kafka Streams: ProcessorContext.
type Context[K, V any] interface {
	StepContext

	// Forward hands a record to every following step, in the order in which they were declared, and returns after they
	// have processed it. A negative timestamp is an error. An error must be returned to the caller of the step.
	Forward(r Record[K, V]) error

	// ForwardTo hands a record to the following step of that name only.
	ForwardTo(step string, r Record[K, V]) error
}

// Processor is a user-written step from records of one type to records of another. One is made for each task; it is
// called by one goroutine at a time.
//
// In Kafka Streams: org.apache.kafka.streams.processor.api.Processor.
type Processor[KIn, VIn, KOut, VOut any] interface {
	// Init is called once before the first record. It takes stores from the context and sets timers.
	Init(ctx Context[KOut, VOut]) error
	// Process handles one record and forwards any number of results.
	Process(r Record[KIn, VIn]) error
	// Close is called once when the task is closed. It must not forward.
	Close() error
}

// ValueContext is the Context of a ValueProcessor: it forwards values only, so the key stays what it is.
//
// In Kafka Streams: FixedKeyProcessorContext.
type ValueContext[V any] interface {
	StepContext

	// Forward sends a value on under the key of the record in process, with its timestamp and headers. Inside a timer
	// there is no record and the call is an error.
	Forward(v V) error

	// ForwardAt is Forward with another timestamp, in milliseconds since the Unix epoch.
	ForwardAt(v V, timestampMs int64) error
}

// ValueProcessor is a user-written step that cannot change the key, so no repartition follows from it.
//
// In Kafka Streams: FixedKeyProcessor.
type ValueProcessor[K, VIn, VOut any] interface {
	// Init is called once before the first record. It takes stores from the context and sets timers.
	Init(ctx ValueContext[VOut]) error
	// Process handles one record and forwards any number of values.
	Process(r Record[K, VIn]) error
	// Close is called once when the task is closed. It must not forward.
	Close() error
}
