package millrace

import (
	"github.com/millrace-io/millrace/internal/runtime"
	"github.com/millrace-io/millrace/processor"
)

// UncaughtError is an error or panic that has ended a task: no handler took it, and it will not pass by itself.
type UncaughtError struct {
	Task processor.TaskID
	// Err is what Run would return. A RecordError among what it wraps says at which step and at which record it happened; where
	// the task could not be opened, restored or read there is none.
	Err error
	// Times is how often in a row the task has failed, this time included: at the same record, or at another one before it had
	// run for five seconds.
	Times int
}

// UncaughtAction is the answer to an UncaughtError.
//
// In Kafka Streams: StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.
type UncaughtAction uint8

const (
	// StopInstance drains this instance and has Run return the error. Others take its tasks over, and may meet the same error.
	//
	// In Kafka Streams: SHUTDOWN_CLIENT.
	StopInstance UncaughtAction = iota
	// ReplaceTask starts the task again from its last commit; all other tasks go on meanwhile. What it did since then is done
	// again: what it had sent is sent twice under AtLeastOnce, and never seen by who reads committed under ExactlyOnceV2. The
	// pause before that is 0.5 s, and doubles up to 5 s while the task fails again and again: a record that fails each time
	// holds up its own task and does not keep the processors busy. To get past such a record a handler has to drop it, see
	// OnProcessingError.
	//
	// In Kafka Streams: REPLACE_THREAD.
	ReplaceTask
	// StopApplication stops all instances: each one that is a member of the group drains, and its Run returns an error that is
	// ErrApplicationStopped and says who has asked for the end and why. Run of this one returns the error itself. Who starts
	// later runs as ever.
	//
	// In Kafka Streams: SHUTDOWN_APPLICATION.
	StopApplication
)

// OnUncaughtError decides what happens when a task fails for an error or panic that no handler took: one of a step, of a timer, of
// the opening or the restore of the task, or trouble that has lasted for task.timeout.ms. Without it, and where it panics, the
// instance stops. It is asked on a goroutine of its own, for several tasks at once if several fail; its task waits for the answer,
// nothing else does. What concerns the instance as a whole (refused access, another topology in the group, a state directory that
// cannot be written, a global table) stops it without a question.
//
// In Kafka Streams: KafkaStreams#setUncaughtExceptionHandler.
func OnUncaughtError(f func(UncaughtError) UncaughtAction) AppOption {
	return appOption(func(o *appOptions) { o.uncaught = f })
}

// uncaughtPolicy is the policy as the runtime takes it; nil without one.
func (a *App) uncaughtPolicy() func(runtime.Uncaught) runtime.Verdict {
	f := a.opts.uncaught
	if f == nil {
		return nil
	}
	return func(u runtime.Uncaught) runtime.Verdict {
		switch f(UncaughtError{Task: processor.TaskID{Subtopology: u.Task.Subtopology, Partition: u.Task.Partition}, Err: u.Err, Times: u.Times}) {
		case ReplaceTask:
			return runtime.ReplaceTask
		case StopApplication:
			return runtime.StopApplication
		}
		return runtime.StopInstance
	}
}
