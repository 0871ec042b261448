package window

// Enumerable is a kind of windows that lie fixed on the time line: a timestamp alone says which windows a record belongs
// to, and a start alone says which window it is. [Time] is one. Calendar days in a time zone and one window without an
// end are others that this interface leaves room for; sliding and session windows, whose bounds follow from the records
// seen, are not.
//
// An Enumerable is immutable, and safe for use by several goroutines at once. Times are milliseconds since the Unix
// epoch.
type Enumerable interface {
	// Validate tells what is wrong with the specification. No other method may be relied on before it has returned nil.
	Validate() error

	// AppendWindows appends the windows that a record of that timestamp belongs to, in ascending order of their start,
	// and returns the longer slice. No window starts before the epoch, and a negative timestamp belongs to none.
	AppendWindows(dst []Window, tsMs int64) []Window

	// WindowAt returns the window that starts at startMs. Stores and topics keep only the start.
	WindowAt(startMs int64) Window

	// GraceMs is how long after its end a window still takes records.
	GraceMs() int64

	// CloseTimeMs turns the observed time of a step, its highest timestamp so far, into the close time: a window whose
	// EndMs is at or below it is closed.
	CloseTimeMs(observedMs int64) int64

	// RetentionMs is how long a store keeps a window, counted from the window's start, where nothing else is set.
	RetentionMs() int64

	// CheckRetentionMs tells why a retention is too short for the windows.
	CheckRetentionMs(retentionMs int64) error
}

var _ Enumerable = Time{}
