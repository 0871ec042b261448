package millrace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/config"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// RecordError is the error of a record that ended the App: where it came from, at which step and why. Run's error wraps
// it.
//
// In Kafka Streams: StreamsException.
type RecordError = op.FatalError

// PanicError is a panic of user code, with its stack. It is the cause in a RecordError, and the Err of a Failure.
type PanicError = op.PanicError

// MissingTopicsError names the source topics that the cluster does not have.
//
// In Kafka Streams: MissingSourceTopicException.
type MissingTopicsError = topology.MissingTopicsError

// CopartitionError names topics that are joined and have different numbers of partitions.
//
// In Kafka Streams: TopologyException.
type CopartitionError = topology.CopartitionError

// NoOffsetError says that a source whose policy is not to choose one has no committed offset.
//
// In Kafka Streams: NoOffsetForPartitionException.
type NoOffsetError = restore.NoOffsetError

// Errors that Run's error wraps; test for them with errors.Is.
var (
	// ErrUnreachable: no broker could be spoken to. The text says for each address why.
	ErrUnreachable = broker.ErrUnreachable
	// ErrTooSlow: user code took longer for a record than max.poll.interval.ms, each time for task.timeout.ms.
	// It is in a RecordError that names the record, and what the handler of OnProcessingError is asked with.
	ErrTooSlow = op.ErrTooSlow
	// ErrUnauthorized: the brokers do not allow this principal to do what is needed.
	ErrUnauthorized = broker.ErrUnauthorized
	// ErrUnknownTopic: a topic that is needed does not exist.
	ErrUnknownTopic = broker.ErrUnknownTopic
	// ErrMixedGroup: the group has members of another kind, a Kafka Streams application for example.
	ErrMixedGroup = broker.ErrMixedGroup
	// ErrTopologyMismatch: another topology runs under the same application id.
	ErrTopologyMismatch = broker.ErrTopologyMismatch
	// ErrApplicationStopped: another instance has asked for the end of all of them, see StopApplication. The text says which one and why.
	ErrApplicationStopped = broker.ErrApplicationStopped
	// ErrGroupProtocol: the brokers do not let the instance into its group, by what they are or how they are set up.
	ErrGroupProtocol = broker.ErrGroupProtocol
	// ErrStateDirInUse: another process has the state directory.
	ErrStateDirInUse = state.ErrInUse
	// ErrForeignState: the state directory belongs to another cluster or application.
	ErrForeignState = state.ErrForeign
)

// LogAndFail is a handler that ends the App with the error. It is what holds where no handler is set.
//
// In Kafka Streams: LogAndFailExceptionHandler.
func LogAndFail() processor.Handler {
	return func(processor.Failure) processor.Response { return processor.Response{Action: processor.Fail} }
}

// LogAndContinue is a handler that drops the record where it failed. The App logs and counts it.
//
// In Kafka Streams: LogAndContinueExceptionHandler.
func LogAndContinue() processor.Handler {
	return func(processor.Failure) processor.Response { return processor.Response{Action: processor.Continue} }
}

// DeadLetters is a handler that drops the record where it failed and writes its source record to a topic: the original
// bytes of key and value, the original headers in their order, and behind them these, all texts:
//
//	__streams.errors.exception   the kind of the error
//	__streams.errors.message     what it says
//	__streams.errors.stacktrace  what is known of where it came from
//	__streams.errors.topic       where the record stands
//	__streams.errors.partition
//	__streams.errors.offset
//
// The record is written by the App's producer before the offset of its source is committed. The topic is not created.
// Give it as OnDeserializationError, OnProcessingError or OnProductionError.
//
// In Kafka Streams: errors.dead.letter.queue.topic.name with LogAndContinueExceptionHandler.
func DeadLetters(topic string) processor.Handler {
	return func(f processor.Failure) processor.Response {
		return processor.Response{Action: processor.Continue, DeadLetters: []processor.DeadLetter{deadLetter(topic, f)}}
	}
}

// defaultPolicy is the handler of a policy that was set by property.
func defaultPolicy(p config.ErrorPolicy, deadLetters string) processor.Handler {
	return func(f processor.Failure) processor.Response {
		r := processor.Response{Action: processor.Fail}
		if p == config.ContinueOnError {
			r.Action = processor.Continue
		}
		if deadLetters != "" {
			r.DeadLetters = []processor.DeadLetter{deadLetter(deadLetters, f)}
		}
		return r
	}
}

func deadLetter(topic string, f processor.Failure) processor.DeadLetter {
	h := make(serde.Headers, len(f.Headers), len(f.Headers)+6)
	copy(h, f.Headers)
	add := func(name, value string) {
		h = append(h, serde.Header{Key: "__streams.errors." + name, Value: []byte(value)})
	}
	add("exception", errorKind(f.Err))
	add("message", f.Err.Error())
	add("stacktrace", errorTrace(f.Err))
	add("topic", f.Origin.Topic)
	add("partition", strconv.Itoa(int(f.Origin.Partition)))
	add("offset", strconv.FormatInt(f.Origin.Offset, 10))
	return processor.DeadLetter{Topic: topic, Key: f.Key, Value: f.Value, Headers: h, TimestampMs: f.TimestampMs}
}

// errorKind is the type of the innermost error: what Java's class name tells.
func errorKind(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return strings.TrimPrefix(fmt.Sprintf("%T", err), "*")
		}
		err = next
	}
}

// errorTrace is the stack of a panic, or else the chain of errors, outermost first.
func errorTrace(err error) string {
	var p *PanicError
	if errors.As(err, &p) {
		return string(p.Stack)
	}
	var b strings.Builder
	for ; err != nil; err = errors.Unwrap(err) {
		fmt.Fprintf(&b, "%T: %v\n", err, err)
	}
	return b.String()
}

// logged writes each verdict of a handler to the log.
func (a *App) logged(h processor.Handler) processor.Handler {
	return func(f processor.Failure) processor.Response {
		r := h(f)
		level, what := slog.LevelError, "a record has failed"
		switch r.Action {
		case processor.Continue:
			level, what = slog.LevelWarn, "a record has failed and is dropped there"
		case processor.Retry:
			level, what = slog.LevelWarn, "a record has failed and is tried again"
		}
		attrs := []any{"stage", f.Stage.String(), "step", f.Step, "task", f.Task.String(), "topic", f.Origin.Topic, "partition", f.Origin.Partition,
			"offset", f.Origin.Offset}
		if f.OutputTopic != "" {
			attrs = append(attrs, "output_topic", f.OutputTopic)
		}
		attrs = append(attrs, "attempt", f.Attempt)
		if n := len(r.DeadLetters); n > 0 {
			attrs = append(attrs, "dead_letters", n)
		}
		a.log.Log(context.Background(), level, what, append(attrs, "error", f.Err)...)
		return r
	}
}
