package topology

import (
	"fmt"
	"path/filepath"
)

// Pos is where in the user's program a part of the topology was declared. The zero Pos is an unknown place.
type Pos struct {
	File string // as runtime.Caller gives it
	Line int
}

// IsZero reports whether the place is unknown.
func (p Pos) IsZero() bool { return p == Pos{} }

// String prints the place as "file.go:12", without the folder, or "(unknown place)".
func (p Pos) String() string {
	if p.IsZero() {
		return "(unknown place)"
	}
	return fmt.Sprintf("%s:%d", filepath.Base(p.File), p.Line)
}

// BuildError is one fault of a topology, with the place of the call that made it. Build joins all of them into one
// error; errors.As finds the first.
//
// In Kafka Streams: TopologyException.
type BuildError struct {
	Pos Pos
	Msg string
	Err error // Msg as an error that wraps its causes; nil if there are none
}

// Error prints "file.go:12: what is wrong".
func (e *BuildError) Error() string {
	if e.Pos.IsZero() {
		return "topology: " + e.Msg
	}
	return e.Pos.String() + ": " + e.Msg
}

// Unwrap leads to the causes, if the error was made with %w.
func (e *BuildError) Unwrap() error { return e.Err }
