package processor

import "github.com/millrace-io/millrace/serde"

// Stage tells where a record failed.
type Stage uint8

const (
	// Deserializing is the decoding of a source record, its timestamp included.
	Deserializing Stage = iota
	// Processing is a step's user function: an error that it returned, or its panic.
	Processing
	// Serializing is the encoding of a result.
	Serializing
	// Producing is the writing of a result to Kafka.
	Producing
)

// String returns the stage's name as errors and metrics print it.
func (s Stage) String() string {
	switch s {
	case Deserializing:
		return "deserializing"
	case Processing:
		return "processing"
	case Serializing:
		return "serializing"
	case Producing:
		return "producing"
	}
	return "unknown stage"
}

// Failure describes one failed record to a Handler.
//
// In Kafka Streams: ErrorHandlerContext and the exception beside it.
type Failure struct {
	Stage       Stage
	Step        string
	Task        TaskID
	Origin      Metadata // the source record that led to it; Topic is empty inside a timer
	TimestampMs int64    // event time of the source record, -1 where it is not known yet
	Headers     serde.Headers
	Key, Value  []byte // the source record's original bytes; nil is null, or not at hand any more after a cache
	// OutputTopic is the topic that was written to (Serializing and Producing).
	OutputTopic string
	Attempt     int // 1 at the first try
	Err         error
}

// Action is what becomes of a failed record.
type Action uint8

const (
	// Fail stops the task with the error.
	Fail Action = iota
	// Continue drops the record where it failed and counts it; what it led to before stays.
	Continue
	// Retry tries the failed thing again: the user function, or the write. Decoding is never retried.
	Retry
)

// DeadLetter is a record to write to a dead-letter topic through the application's own producer, so that it is committed
// together with the offsets of its source.
type DeadLetter struct {
	Topic       string
	Key, Value  []byte
	Headers     serde.Headers
	TimestampMs int64
}

// Response is a Handler's verdict.
type Response struct {
	Action      Action
	DeadLetters []DeadLetter
}

// Handler decides what becomes of a failed record. It may be called by several tasks at once.
//
// In Kafka Streams: DeserializationExceptionHandler, ProcessingExceptionHandler and ProductionExceptionHandler.
type Handler func(Failure) Response
