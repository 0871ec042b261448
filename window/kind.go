package window

// Windows is what every kind of windows has whose steps aggregate a stream by key and window: windows that lie fixed on
// the time line ([Enumerable]) and sliding windows ([SlidingWindows]). Session windows, whose two ends move, are not one.
//
// A Windows is immutable, and safe for use by several goroutines at once. Times are milliseconds since the Unix epoch.
type Windows interface {
	// Validate tells what is wrong with the specification. No other method may be relied on before it has returned nil.
	Validate() error

	// WindowAt returns the window that starts at startMs. Stores and topics keep only the start.
	WindowAt(startMs int64) Window

	// GraceMs is how long after its end a window still takes records.
	GraceMs() int64

	// RetentionMs is the least time that a store must keep a window, counted from the window's start: the length of the
	// longest window plus grace. It is also what a store keeps where nothing else is set.
	RetentionMs() int64
}

// Enumerable is a kind of windows that lie fixed on the time line: a timestamp alone says which windows a record belongs
// to, and a start alone says which window it is. [Time], [UnlimitedWindows] and [CalendarWindows] are such kinds, and a
// type of your own is one if it has these methods. What a type of your own returns is checked for each record: a window
// that does not hold the timestamp, a start before the epoch, or starts out of order are errors of that record, which go to
// the processing handler. A later start must not have an earlier end.
//
// In Kafka Streams: Windows, which a program may extend.
type Enumerable interface {
	Windows

	// AppendWindows appends the windows that a record of that timestamp belongs to, [StartMs, EndMs), in ascending order
	// of their start, and returns the longer slice. No window starts before the epoch. A record that belongs to none is
	// dropped and counted.
	AppendWindows(dst []Window, tsMs int64) []Window
}

var (
	_ Enumerable = Time{}
	_ Enumerable = UnlimitedWindows{}
	_ Enumerable = CalendarWindows{}
	_ Windows    = SlidingWindows{}
)
