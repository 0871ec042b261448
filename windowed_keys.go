package millrace

import (
	"fmt"

	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// keyWindows is what a serde says of the windows of its keys.
type keyWindows struct {
	kind   string // empty: the keys have no windows, or the serde is not known
	sizeMs int64  // of timeKeys; 0: not known
	text   string // of ownKeys
}

const (
	sessionKeys = "sessions"
	timeKeys    = "windows of one size"
	ownKeys     = "windows of different sizes"
)

func windowsOf[K any](s serde.Serde[K]) keyWindows {
	if _, ok := s.(serde.SessionKeyer); ok {
		return keyWindows{kind: sessionKeys}
	}
	if f, ok := s.(serde.WindowFitter[K]); ok {
		switch w := f.Windows().(type) {
		case nil:
		case window.Time:
			return keyWindows{kind: timeKeys, sizeMs: w.SizeMs()}
		case window.SlidingWindows:
			return keyWindows{kind: timeKeys, sizeMs: w.DifferenceMs()}
		case window.CalendarWindows:
			return keyWindows{kind: ownKeys, text: fmt.Sprint(w.Grace(0))} // grace is not a part of the key
		default:
			return keyWindows{kind: ownKeys, text: fmt.Sprintf("%T", w)}
		}
	}
	if f, ok := s.(serde.WindowSizer[K]); ok {
		return keyWindows{kind: timeKeys, sizeMs: f.WindowSizeMs()}
	}
	return keyWindows{}
}

// fits tells whether keys of one kind may be those of the other. A size that is not known fits all that lie fixed in time.
func (w keyWindows) fits(other keyWindows) bool {
	anySize := func(x keyWindows) bool { return x.kind == timeKeys && x.sizeMs == 0 }
	switch {
	case w.kind == "" || other.kind == "":
		return true
	case w.kind == sessionKeys || other.kind == sessionKeys:
		return w.kind == other.kind
	case anySize(w) || anySize(other):
		return true
	}
	return w == other
}

func (w keyWindows) String() string {
	switch {
	case w.kind == timeKeys && w.sizeMs == 0:
		return "windows"
	case w.kind == timeKeys:
		return fmt.Sprintf("windows of %d ms", w.sizeMs)
	case w.kind == ownKeys:
		return fmt.Sprintf("windows that differ in size (%s)", w.text)
	}
	return w.kind
}

// hint names the serde for keys of these windows.
func (w keyWindows) hint() string {
	switch w.kind {
	case sessionKeys:
		return "the end of a session is a part of its key: give the topic serde.SessionWindowed"
	case ownKeys:
		return "give the topic serde.WindowedBy with the windows of the step"
	}
	if w.sizeMs == 0 {
		return "give the topic serde.Windowed with the size of the windows"
	}
	return fmt.Sprintf("give the topic serde.Windowed with the size of the step's windows, or 0 to take it over (a reader needs it: %d ms)", w.sizeMs)
}
