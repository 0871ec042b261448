// Package window holds event-time windows: their specifications and the arithmetic of which windows a timestamp falls
// in and when one closes. It is pure: no clock, no state.
package window

import "time"

// Window is a span of event time. A tumbling or hopping window is half-open, [Start, End); the end of a session belongs to
// it, [Start, End].
//
// In Kafka Streams: org.apache.kafka.streams.kstream.Window.
type Window struct {
	StartMs int64 `json:"start_ms"` // milliseconds since the Unix epoch
	EndMs   int64 `json:"end_ms"`   // milliseconds since the Unix epoch
}

// Start returns the window's start in UTC.
func (w Window) Start() time.Time { return time.UnixMilli(w.StartMs).UTC() }

// End returns the window's end in UTC.
func (w Window) End() time.Time { return time.UnixMilli(w.EndMs).UTC() }

// Key is a key in a window: the key of a windowed table.
//
// In Kafka Streams: Windowed.
type Key[K any] struct {
	Key    K      `json:"key"`
	Window Window `json:"window"`
}

// Bounds is the window of the key. It serves code that does not know the type of the key within.
func (k Key[K]) Bounds() Window { return k.Window }

// Late is the value of a late stream: a record that missed at least one window of a windowed step because it arrived
// after the window's grace period. The record's key, headers and timestamp are those of the record itself.
//
// Kafka Streams has no twin: it drops such records and counts them in dropped-records.
type Late[V any] struct {
	Value V `json:"value"`

	// NullValue says that the record's value is null in Kafka's sense; Value is the zero value then.
	NullValue bool `json:"null_value,omitempty"`

	// ObservedTimeMs is the highest timestamp that the step had seen when it judged the record, in milliseconds since
	// the Unix epoch.
	ObservedTimeMs int64 `json:"observed_time_ms"`

	// Missed holds the windows that had closed, in ascending order of their start.
	Missed []Window `json:"missed"`

	// Accepted says that the record still counted in other windows (hopping windows overlap).
	Accepted bool `json:"accepted"`
}
