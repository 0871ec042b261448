package state

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Kind tells the kinds of stores apart.
type Kind uint8

const (
	// KeyValue is a store of one value for each key. Its changelog key is the key.
	KeyValue Kind = iota + 1
	// Window is a store of one value for each key, window start and sequence number. Its changelog key is
	// key | start int64 | sequence uint32, big-endian.
	Window
	// Session is a store of one value for each key, session end and session start. Its changelog key is
	// key | end int64 | start int64, big-endian.
	Session
	// Versioned is a store of several versions of a value for each key. Its changelog key is the key, and the timestamp of a
	// changelog record is that of the version.
	Versioned
)

// String names the kind as error texts and the catalogue of a state directory do.
func (k Kind) String() string {
	switch k {
	case KeyValue:
		return "key-value"
	case Window:
		return "window"
	case Session:
		return "session"
	case Versioned:
		return "versioned"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Cut tells whether the changelog of such a store is cut by retention, so that what it has lost from its start is expired.
func (k Kind) Cut() bool { return k == Window || k == Session }

// minSegmentMs is the least segment length that is chosen by itself, as in Kafka Streams.
const minSegmentMs = 60_000

// Spec describes one store of a task.
type Spec struct {
	// Name is unique within the task.
	Name string
	Kind Kind

	// Persistent stores live in the DB's directory; the others in memory only.
	Persistent bool

	// Logged stores have a changelog, from which they are restored. A persistent store without one is empty again after
	// an unclean stop, and OpenReport says so.
	Logged bool

	// KeepHeaders says that values begin with the headers of the record that set them, in front of their timestamp: see
	// codec.AppendHeaders. A store on disk that changes in this is emptied. Not for versioned stores.
	KeepHeaders bool

	// RetentionMs is how far behind the highest start that the store has seen (highest end for sessions) a row is kept:
	// a row is visible if, and only if, its start is greater than the highest one minus the retention. In a versioned store
	// it is the history: how far behind the highest timestamp a version may be put, and is still found. Not for key-value
	// stores; in all others it must be positive, in a versioned store at least 0.
	RetentionMs int64

	// SegmentMs is the span of time whose rows are dropped together. Zero chooses the greater of half the retention and
	// a minute. A reader of all rows of a short span of time (FetchAll) reads whole segments: where that is the usual
	// access, short segments pay. A store that is on disk already keeps the length that it was created with.
	SegmentMs int64

	// Ordered says that range scans over all or many keys are expected: key-value stores then keep their overlays, and
	// their base where that is memory, in a B-tree. Otherwise they are hash maps, and a range scan sorts what it needs
	// first. Window and session stores find the rows of one key without it, and ignore it.
	Ordered bool
}

// windowed tells whether the store has rows in segments, which expire.
func (s Spec) windowed() bool { return s.Kind != KeyValue }

// hasPoints tells whether the store has one entry for each key.
func (s Spec) hasPoints() bool { return s.Kind == KeyValue || s.Kind == Versioned }

// complete checks the description and fills in what was left open.
func (s Spec) complete() (Spec, error) {
	if s.Name == "" {
		return s, errors.New("millrace: a state store needs a name")
	}
	if !utf8.ValidString(s.Name) {
		return s, fmt.Errorf("millrace: the name of state store %q is not valid UTF-8", s.Name)
	}
	switch s.Kind {
	case KeyValue:
		return s, nil
	case Window, Session, Versioned:
	default:
		return s, fmt.Errorf("millrace: state store %q has the unknown kind %d", s.Name, s.Kind)
	}
	if s.RetentionMs < 0 || s.RetentionMs == 0 && s.Kind != Versioned {
		return s, fmt.Errorf("millrace: %s store %q needs a positive retention, not %d ms", s.Kind, s.Name, s.RetentionMs)
	}
	if s.SegmentMs < 0 {
		return s, fmt.Errorf("millrace: %s store %q has a negative segment length of %d ms", s.Kind, s.Name, s.SegmentMs)
	}
	if s.SegmentMs == 0 {
		s.SegmentMs = max(s.RetentionMs/2, minSegmentMs)
	}
	return s, nil
}

// completeAll checks the stores of one task.
func completeAll(specs []Spec) ([]Spec, error) {
	out := make([]Spec, 0, len(specs))
	seen := make(map[string]bool, len(specs))
	for _, s := range specs {
		s, err := s.complete()
		if err != nil {
			return nil, err
		}
		if seen[s.Name] {
			return nil, fmt.Errorf("millrace: two state stores of one task have the name %q", s.Name)
		}
		seen[s.Name] = true
		out = append(out, s)
	}
	return out, nil
}

// Position is a place in a changelog partition.
type Position struct {
	Offset int64 // the next offset to read: everything below it is in the state
	Epoch  int32 // leader epoch of the last record below Offset, -1 unknown
}

// NoTime stands for a time that is not known: no row has been seen yet.
const NoTime int64 = -1

var (
	// ErrClosed is returned by every use of a Set, store or iterator that was closed or abandoned, and of a DB that was
	// closed.
	ErrClosed = errors.New("millrace: the state store is closed")

	// ErrSuperseded is returned by the handle of a store that was opened again later or dropped: only the newest handle
	// reads and writes.
	ErrSuperseded = errors.New("millrace: the state store was opened again or dropped elsewhere")

	// ErrDiskFull is wrapped by errors that say that the state directory's file system is short of space. Nothing was
	// written and nothing is lost; the call may be repeated once there is room.
	ErrDiskFull = errors.New("millrace: too little space for the state directory")

	// ErrCorrupt is wrapped by errors that say that files of the state directory are damaged. The next OpenDB moves the
	// database aside and starts from an empty one.
	ErrCorrupt = errors.New("millrace: the state directory is damaged (the next start moves the database aside and rebuilds its stores from the changelogs)")

	// ErrFailed is wrapped by every error after the database has met a fatal one: nothing more is written, and the
	// directory must be opened anew.
	ErrFailed = errors.New("millrace: the state database has failed")

	// ErrInUse is wrapped by the error of OpenDB when another process, or another DB of this one, holds the directory.
	ErrInUse = errors.New("millrace: the state directory is in use")

	// ErrForeign is wrapped by the error of OpenDB when the directory belongs to another cluster or application.
	ErrForeign = errors.New("millrace: the state directory belongs to another cluster or application")
)
