package millrace

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// StepOption is an option of one step of a topology. An option that a step has no use for is a build error.
type StepOption interface {
	applyStep(*stepOptions)
}

type stepOption func(*stepOptions)

func (f stepOption) applyStep(o *stepOptions) { f(o) }

// stepOptions collects the options of a step, and their names, so that those that a step has no use for can be refused.
type stepOptions struct {
	as          string
	node        string
	store       string
	repartition string
	auto        bool

	inMemory    bool
	retention   time.Duration
	topicConfig map[string]string
	versioned   bool
	history     time.Duration // of a versioned store
	sourceTopic string        // that is the changelog of the step's store
	noLog       bool
	noCache     bool
	emitOnClose bool
	keepHeaders bool

	key        any // a serde.Serde of the step's key type
	value      any // a serde.Serde of the step's value type
	otherValue any // a serde.Serde of the value type of a join's other side
	partitions int
	reset      reset
	resetBack  time.Duration
	idle       time.Duration
	extract    any // an op.Extractor of the step's types
	stores     []storeDefinition
	partition  any // a Partitioner of the step's types
	joinGrace  time.Duration

	partitionLeft  any // an op.PartitionFunc of the left table's key type
	partitionRight any // an op.PartitionFunc of the right table's key type

	nilFunc bool     // the step was given a nil function
	set     []string // names of the options given, for errors
}

// given marks the options of a step that is given a nil function, which is a build error like any other.
func given(opts []StepOption, all ...bool) []StepOption {
	if !slices.Contains(all, false) {
		return opts
	}
	return append(slices.Clone(opts), stepOption(func(o *stepOptions) { o.nilFunc = true }))
}

// contradictions reports options that cannot be meant as they stand.
func (o *stepOptions) contradictions(report func(what string)) {
	var starts []string
	for i, name := range o.set {
		if slices.Contains(o.set[:i], name) && slices.Contains(singleOptions, name) {
			report(name + " is given twice; which one counts is not said")
		}
		if slices.Contains(startOptions, name) && !slices.Contains(starts, name) {
			starts = append(starts, name)
		}
	}
	if len(starts) > 1 {
		report(strings.Join(starts, " and ") + " contradict each other")
	}
	if o.noLog && slices.Contains(o.set, optLogConfig) {
		report("LogConfig has no use beside WithoutLog: without a log there is no topic to set up")
	}
	if slices.Contains(o.set, optRetain) {
		switch {
		case o.retention <= 0:
			report(fmt.Sprintf("Retain is given %s; what is kept for no time could not be used", o.retention))
		case o.retention%time.Millisecond != 0:
			report(fmt.Sprintf("Retain takes whole milliseconds, not %s: timestamps have no finer parts", o.retention))
		}
	}
	if slices.Contains(o.set, optPartitions) && (o.partitions < 1 || o.partitions > math.MaxInt32) {
		report(fmt.Sprintf("Partitions is given %d; a topic has at least one, and at most %d", o.partitions, math.MaxInt32))
	}
}

func (o *stepOptions) given(name string) { o.set = append(o.set, name) }

// As names a step: its node, its store, and the repartition topic that it may need are called so. Names keep state apart
// from the shape of the topology: a topology can be edited without losing what a named step has stored.
//
// In Kafka Streams: Named, Materialized.as, Grouped.as, Joined.as and Repartitioned.as in one.
func As(name string) StepOption {
	return stepOption(func(o *stepOptions) { o.as = name; o.given("As") })
}

// NodeName names the node of a step alone: descriptions and metrics print it.
//
// In Kafka Streams: Named.as.
func NodeName(name string) StepOption {
	return stepOption(func(o *stepOptions) { o.node = name; o.given("NodeName") })
}

// StoreName names the store of a step alone, and with it the changelog topic.
//
// In Kafka Streams: Materialized.as.
func StoreName(name string) StepOption {
	return stepOption(func(o *stepOptions) { o.store = name; o.given("StoreName") })
}

// RepartitionName names the repartition topic of a step alone.
//
// In Kafka Streams: Grouped.as.
func RepartitionName(name string) StepOption {
	return stepOption(func(o *stepOptions) { o.repartition = name; o.given("RepartitionName") })
}

// AutoName accepts the numbered names that Kafka Streams would give. They change when a step is added or removed before
// this one, and the state is then not found again: use it to take over an application that has such names.
//
// In Kafka Streams: what is done where no name is given.
func AutoName() StepOption {
	return stepOption(func(o *stepOptions) { o.auto = true; o.given("AutoName") })
}

// InMemory keeps a step's store in memory instead of on disk. It is restored from its changelog at every start.
//
// In Kafka Streams: Materialized.withStoreType(IN_MEMORY).
func InMemory() StepOption {
	return stepOption(func(o *stepOptions) { o.inMemory = true; o.given("InMemory") })
}

// Retain sets how long a windowed step's store keeps what it has: windows from their start, sessions from their end, the
// records of a join from their timestamp. It is at least what the step needs, which is the default: size plus grace of a
// window, twice the difference plus grace of sliding ones, gap plus grace of sessions, before plus after plus grace of a join.
// With a longer one for sessions, a record may still merge one that has closed, whose result is then not final.
//
// In Kafka Streams: Materialized.withRetention.
func Retain(d time.Duration) StepOption {
	return stepOption(func(o *stepOptions) { o.retention = d; o.given("Retain") })
}

// LogConfig sets configurations of the changelog topic of a step's store, as Kafka names them.
//
// In Kafka Streams: Materialized.withLoggingEnabled.
func LogConfig(configs map[string]string) StepOption {
	return stepOption(func(o *stepOptions) { o.topicConfig = configs; o.given("LogConfig") })
}

// WithoutLog keeps a step's store without a changelog: after an unclean stop or a move to another instance it is empty.
//
// In Kafka Streams: Materialized.withLoggingDisabled.
func WithoutLog() StepOption {
	return stepOption(func(o *stepOptions) { o.noLog = true; o.given("WithoutLog") })
}

// WithoutCache makes a step forward each update at once, instead of the last one for each key at a commit.
//
// In Kafka Streams: Materialized.withCachingDisabled.
func WithoutCache() StepOption {
	return stepOption(func(o *stepOptions) { o.noCache = true; o.given("WithoutCache") })
}

// EmitOnClose makes a windowed step send the result of each window once, when it closes, instead of each update: once the
// step has seen a timestamp of at least the window's end plus grace. Results leave in the order of their windows' starts, and
// of their keys' bytes within one; they carry the timestamp of the aggregate, and the headers of the record that closed the
// window. A step that does so has no cache. How far it has emitted is part of the committed offset, so a window is not
// emitted again after a restart.
//
// In Kafka Streams: EmitStrategy.onWindowClose. It looks for closed windows once a second of wall-clock time at most, and
// loses some whose store has moved past them; millrace emits each.
func EmitOnClose() StepOption {
	return stepOption(func(o *stepOptions) { o.emitOnClose = true; o.given("EmitOnClose") })
}

// WithKey gives a step the serde of its keys, where it cannot know it: after a step that changed the type.
//
// In Kafka Streams: Grouped.with, Materialized.withKeySerde, Repartitioned.withKeySerde, Joined.keySerde.
func WithKey[K any](s serde.Serde[K]) StepOption {
	return stepOption(func(o *stepOptions) { o.key = s; o.given("WithKey") })
}

// WithValue gives a step the serde of its values, where it cannot know it: after a step that changed the type.
//
// In Kafka Streams: Grouped.with, Materialized.withValueSerde, Repartitioned.withValueSerde, Joined.valueSerde.
func WithValue[V any](s serde.Serde[V]) StepOption {
	return stepOption(func(o *stepOptions) { o.value = s; o.given("WithValue") })
}

// WithOtherValue gives a join of two streams the serde of the right stream's values, where it cannot know it; WithValue gives
// that of the left stream's.
//
// In Kafka Streams: StreamJoined.withOtherValueSerde.
func WithOtherValue[V any](s serde.Serde[V]) StepOption {
	return stepOption(func(o *stepOptions) { o.otherValue = s; o.given("WithOtherValue") })
}

// Partitions sets the number of partitions of a repartition topic. Without it, it takes that of a topic that it is joined
// with, else the largest of the topics upstream.
//
// In Kafka Streams: Repartitioned.withNumberOfPartitions.
func Partitions(n int) StepOption {
	return stepOption(func(o *stepOptions) { o.partitions = n; o.given("Partitions") })
}

type reset uint8

const (
	resetDefault reset = iota
	resetEarliest
	resetLatest
	resetNone
	resetBack
)

// StartEarliest makes a source without a committed offset start at the oldest record.
//
// In Kafka Streams: AutoOffsetReset.earliest.
func StartEarliest() StepOption {
	return stepOption(func(o *stepOptions) { o.reset = resetEarliest; o.given("StartEarliest") })
}

// StartLatest makes a source without a committed offset start at the records written from now on.
//
// In Kafka Streams: AutoOffsetReset.latest.
func StartLatest() StepOption {
	return stepOption(func(o *stepOptions) { o.reset = resetLatest; o.given("StartLatest") })
}

// StartBack makes a source without a committed offset start at the records younger than d.
//
// In Kafka Streams: AutoOffsetReset.byDuration.
func StartBack(d time.Duration) StepOption {
	return stepOption(func(o *stepOptions) { o.reset, o.resetBack = resetBack, d; o.given("StartBack") })
}

// NoStart makes it an error if a source has no committed offset.
//
// In Kafka Streams: AutoOffsetReset.none.
func NoStart() StepOption {
	return stepOption(func(o *stepOptions) { o.reset = resetNone; o.given("NoStart") })
}

// Extractor finds the event time of a source record in milliseconds since the Unix epoch. partitionTimeMs is the highest
// one taken of the record's partition so far, -1 before the first. A negative result skips the record, which is counted;
// an error goes to the deserialization handler.
//
// In Kafka Streams: TimestampExtractor.
type Extractor[K, V any] func(r processor.Record[K, V], m processor.Metadata, partitionTimeMs int64) (int64, error)

// Timestamps sets how a source finds the event time of its records. Without it the record's own timestamp counts, and a
// negative one is an error.
//
// In Kafka Streams: Consumed.withTimestampExtractor.
func Timestamps[K, V any](e Extractor[K, V]) StepOption {
	return stepOption(func(o *stepOptions) { o.extract = e; o.nilFunc = o.nilFunc || e == nil; o.given("Timestamps") })
}

// IdleTimeout makes a source count as idle once it has been without records, and level with the end of its partition, for d.
// From then on its time runs on by the wall clock: from its last timestamp by the time that has passed since it became level,
// but never beyond the present. Windows close, suppressed results and unmatched rows of joins come out, and timers of stream time fire
// although no record comes; a record that comes after all is judged by the time that has passed. Where several sources lead
// to a step, its time runs on only while all of them are idle, so each needs the option; a repartition topic takes the
// longest timeout of the sources before it. A source that cannot be read, or that is being restored, is not idle.
//
// Without it, time stands still until records come, as it always does in Kafka Streams. Use it where the timestamps of
// records are close to the present, and choose d well above the usual pause between two records and above the delay between
// an event and its record: what is later than that finds its windows closed. Time runs on in steps of d, or of a second
// where d is longer. Each step is committed with the offsets, so what has come out stays out after a crash.
//
// In Kafka Streams: nothing of the kind.
func IdleTimeout(d time.Duration) StepOption {
	return stepOption(func(o *stepOptions) { o.idle = d; o.given("IdleTimeout") })
}

// JoinGrace makes the records of a stream wait until time has passed them by d before they are joined with a versioned
// table, so that rows of the table which come later than the records that they are for are found. See JoinTable.
//
// In Kafka Streams: Joined.withGracePeriod.
func JoinGrace(d time.Duration) StepOption {
	return stepOption(func(o *stepOptions) { o.joinGrace = d; o.given("JoinGrace") })
}
