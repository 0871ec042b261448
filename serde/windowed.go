package serde

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/window"
)

// Windowed returns the serde of the key of a windowed table: the inner key, and the start of the window in 8 bytes. The end
// is not in the bytes, so a reader must be told the size of the windows. Size 0 says that it is not known: such a serde
// writes keys, and refuses to read any. A step that knows its windows tells a serde that does not (see [WindowSizer]).
//
// With a size, a key whose window is of another size is refused when it is written: who reads it would take it for one of
// this size. A record with a windowed key goes to the partition of its inner key.
//
// It serves tumbling, hopping and sliding windows; see [WindowedBy] for those whose sizes differ. In Kafka Streams:
// WindowedSerdes.timeWindowedSerdeFrom, TimeWindowedSerde.
func Windowed[K any](inner Serde[K], size time.Duration) Serde[window.Key[K]] {
	sizeMs := size.Milliseconds()
	var fault error
	switch {
	case size < 0:
		fault = fmt.Errorf("serde: windowed keys with windows of %v; give their size, or 0 if it is not known", size)
	case size%time.Millisecond != 0:
		fault = fmt.Errorf("serde: windowed keys with windows of %v, which is not a whole number of milliseconds", size)
	}
	return newWindowed(given(inner, "Windowed"), sizeMs, nil, fault)
}

// WindowedBy is Windowed for windows of any kind: the reader asks them for the end of the window that starts where the bytes
// say. It is the one for calendar windows, for the window without an end and for windows of your own; of a tumbling window
// it is Windowed with its size. A key whose window is none of these is refused when it is written.
//
// In Kafka Streams: none; its readers take each window for one of a fixed size.
func WindowedBy[K any](inner Serde[K], w window.Windows) Serde[window.Key[K]] {
	var fault error
	if w == nil {
		fault = errors.New("serde: WindowedBy without windows; give those of the step that makes the keys")
	} else {
		fault = w.Validate()
	}
	return newWindowed(given(inner, "WindowedBy"), 0, w, fault)
}

// WindowFitter is implemented by a serde of windowed keys, with T the windowed key, that can find the end of each window.
// It is for windows what WindowSizer is for a size: where keys come from a step that knows its windows, a serde without a
// size is replaced by WithWindows when the topology is built.
type WindowFitter[T any] interface {
	Serde[T]

	// Windows returns the windows that the serde asks for the end of a window, nil if it goes by a size.
	Windows() window.Windows

	// WithWindows returns the same serde for windows of another kind.
	WithWindows(w window.Windows) Serde[T]
}

// WindowSizer is implemented by a serde of windowed keys, with T the windowed key. Where keys come from a step that knows
// its windows, the size goes into the serde by itself when the topology is built: one without a size is replaced by
// WithWindowSizeMs, and one with another size than the step's is an error.
type WindowSizer[T any] interface {
	Serde[T]

	// WindowSizeMs returns the size of the windows in milliseconds, 0 if it is not known.
	WindowSizeMs() int64

	// WithWindowSizeMs returns the same serde for windows of another size.
	WithWindowSizeMs(sizeMs int64) Serde[T]
}

func newWindowed[K any](inner Serde[K], sizeMs int64, w window.Windows, fault error) Serde[window.Key[K]] {
	s := windowed[K]{inner: inner, sizeMs: sizeMs, windows: w, fault: fault}
	if d, ok := inner.(HeaderDecoder[K]); ok {
		return windowedHeaders[K]{s, d}
	}
	if clone := cloneFunc(inner); clone != nil {
		return windowedCloner[K]{s, clone}
	}
	return s
}

type windowed[K any] struct {
	inner   Serde[K]
	sizeMs  int64          // 0: not known, or not the same for all
	windows window.Windows // nil: the size says it
	fault   error          // what is wrong with size or windows
}

var errNoWindowSize = errors.New("serde: a windowed key cannot be read without the size of its windows; " +
	"give it as in serde.Windowed(serde.String, time.Minute); for windows that differ in size, days for one, give the windows " +
	"as in serde.WindowedBy(serde.String, window.Days(time.UTC))")

func (s windowed[K]) Append(dst []byte, v window.Key[K]) ([]byte, error) {
	w := v.Window
	switch {
	case s.fault != nil:
		return dst, s.fault
	case w.StartMs < 0:
		return dst, fmt.Errorf("serde: a windowed key with the negative start %d", w.StartMs)
	case s.sizeMs > 0 && w.EndMs != windowEnd(w.StartMs, s.sizeMs):
		return dst, fmt.Errorf("serde: a key in the window [%d, %d) for a serde of windows of %d ms; "+
			"give the serde the size of the step's windows", w.StartMs, w.EndMs, s.sizeMs)
	case s.windows != nil && s.windows.WindowAt(w.StartMs) != w:
		return dst, fmt.Errorf("serde: a key in the window [%d, %d), which is none of the serde's (%v); "+
			"give the serde the windows of the step", w.StartMs, w.EndMs, s.windows)
	}
	dst, err := s.inner.Append(dst, v.Key)
	if err != nil {
		return dst, fmt.Errorf("serde: inner key of a windowed key: %w", err)
	}
	return codec.AppendWindowStart(dst, w.StartMs), nil
}

// windowEnd returns the end of a window, which stops at the largest time, as in Java.
func windowEnd(startMs, sizeMs int64) int64 {
	if startMs > math.MaxInt64-sizeMs {
		return math.MaxInt64
	}
	return startMs + sizeMs
}

func (s windowed[K]) Decode(src []byte) (window.Key[K], error) { return s.decode(src, nil, nil) }

// decode reads a key; decoder, if any, reads the inner key with the headers.
func (s windowed[K]) decode(src []byte, decoder HeaderDecoder[K], headers *Headers) (window.Key[K], error) {
	if err := s.readable(); err != nil {
		return window.Key[K]{}, err
	}
	part, startMs, err := codec.ParseWindowedKey(src)
	if err != nil {
		return window.Key[K]{}, fmt.Errorf("serde: %w", err)
	}
	w := window.Window{StartMs: startMs, EndMs: windowEnd(startMs, s.sizeMs)}
	if s.windows != nil {
		if w = s.windows.WindowAt(startMs); w.StartMs != startMs {
			return window.Key[K]{}, fmt.Errorf("serde: a windowed key with the start %d, at which none of the windows (%v) starts", startMs, s.windows)
		}
	} else if w.EndMs <= startMs {
		return window.Key[K]{}, fmt.Errorf("serde: a windowed key with the start %d, after which no time is left", startMs)
	}
	var key K
	if decoder != nil {
		key, err = decoder.DecodeWithHeaders(part, headers)
	} else {
		key, err = s.inner.Decode(part)
	}
	if err != nil {
		return window.Key[K]{}, fmt.Errorf("serde: inner key of a windowed key: %w", err)
	}
	return window.Key[K]{Key: key, Window: w}, nil
}

func (s windowed[K]) readable() error {
	if s.fault != nil {
		return s.fault
	}
	if s.sizeMs == 0 && s.windows == nil {
		return errNoWindowSize
	}
	return nil
}

func (s windowed[K]) PartitionKey(encoded []byte) []byte { return codec.WindowedKeyPart(encoded) }

func (s windowed[K]) WindowSizeMs() int64 { return s.sizeMs }

func (s windowed[K]) WithWindowSizeMs(sizeMs int64) Serde[window.Key[K]] {
	var fault error
	if sizeMs < 0 {
		fault = fmt.Errorf("serde: windowed keys with windows of %d ms", sizeMs)
	}
	return newWindowed(s.inner, sizeMs, nil, fault)
}

func (s windowed[K]) Windows() window.Windows { return s.windows }

func (s windowed[K]) WithWindows(w window.Windows) Serde[window.Key[K]] {
	return WindowedBy(s.inner, w)
}

func (s windowed[K]) ForTopic(topic string, key bool) (Serde[window.Key[K]], error) {
	inner, err := bind(s.inner, topic, key)
	if err != nil {
		return nil, err
	}
	return newWindowed(inner, s.sizeMs, s.windows, s.fault), nil
}

func (s windowed[K]) Check() error {
	if s.fault != nil {
		return s.fault
	}
	return check(s.inner)
}

// windowedHeaders is windowed where inner decodes with headers.
type windowedHeaders[K any] struct {
	windowed[K]
	decoder HeaderDecoder[K]
}

func (s windowedHeaders[K]) DecodeWithHeaders(src []byte, headers *Headers) (window.Key[K], error) {
	return s.decode(src, s.decoder, headers)
}

// windowedCloner is windowed where an inner key can be copied.
type windowedCloner[K any] struct {
	windowed[K]
	clone func(K) K
}

func (s windowedCloner[K]) Clone(v window.Key[K]) window.Key[K] {
	v.Key = s.clone(v.Key)
	return v
}
