package task

import (
	"fmt"
	"math"
	"slices"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/topology"
)

// StoreSpecs says which byte stores the tasks of a sub-topology need.
func StoreSpecs(sub *topology.Subtopology) ([]state.Spec, error) {
	specs := make([]state.Spec, 0, len(sub.Stores))
	for _, s := range sub.Stores {
		spec := state.Spec{Name: s.Name, Persistent: s.Persistent, Logged: s.Logged || s.SourceTopic != ""}
		switch s.Kind {
		case topology.KeyValue, topology.Buffer:
			spec.Kind = state.KeyValue
		case topology.Window:
			spec.Kind, spec.RetentionMs = state.Window, s.RetentionMs
			if s.JoinWindow {
				// Both ends of a join's window are included: a row that is as old as the retention may still be met.
				spec.RetentionMs++
			}
		case topology.Session:
			spec.Kind, spec.RetentionMs = state.Session, sessionRetentionMs(s)
		case topology.Versioned:
			spec.Kind, spec.RetentionMs = state.Versioned, s.HistoryMs
		default:
			return nil, fmt.Errorf("millrace: store %s is of the kind %s, which tasks cannot hold yet", s.Name, s.Kind)
		}
		if o, ok := s.Op.(op.Ranged); ok {
			spec.Ordered = o.Ranged()
		}
		if o, ok := s.Op.(op.Segmented); ok {
			spec.SegmentMs = o.Segment()
		}
		if o, ok := s.Op.(op.HeaderKeeper); ok {
			spec.KeepHeaders = o.KeepsHeaders()
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// SourceReplay finds the step that reads a source topic which is the changelog of a store: a restore asks it what it skipped.
func SourceReplay(sub *topology.Subtopology, topic string) op.ReplayerFactory {
	for _, n := range sub.Sources {
		if f, ok := n.Op.(op.ReplayerFactory); ok && slices.Contains(n.Topics, topic) {
			return f
		}
	}
	return nil
}

// sessionRetentionMs is how far behind the highest end of a session the store of a step keeps one: one gap longer than it
// shows it to anybody. After a crash the changelog, and with it the store, may be ahead of the input: results that are to be
// sent once more when their sessions close must still be there.
func sessionRetentionMs(s *topology.StateStore) int64 {
	gapMs, graceMs := s.WindowSizeMs, s.GraceMs
	if gapMs == 0 || gapMs > (math.MaxInt64-graceMs)/2-1 {
		return s.RetentionMs
	}
	return max(s.RetentionMs, 2*gapMs+graceMs+1)
}
