package processor

import "github.com/millrace-io/millrace/serde"

// TableContext is what a TableProcessor knows about where it runs. It belongs to one task and must be used only inside
// Init, Value, a timer or Close.
//
// In Kafka Streams: ProcessorContext, whose forward is refused there.
type TableContext interface {
	StepContext

	// Row tells the timestamp and the headers of the update or row in process; inside a timer its time, and no headers.
	Row() (timestampMs int64, headers serde.Headers)
}

// TableProcessor is a user-written step that gives each row of a table another value.
//
// In Kafka Streams: ValueTransformerWithKey.
type TableProcessor[K, VIn, VOut any] interface {
	// Init is called once before the first row. It takes stores from the context and sets timers.
	Init(ctx TableContext) error
	// Value returns the value of a row. ok is false where the table before has no row, or none any more; v is the zero value
	// then. With keep false, or a nil of a type that has a nil, the row is deleted.
	Value(k K, v VIn, ok bool) (out VOut, keep bool, err error)
	// Close is called once when the task is closed.
	Close() error
}
