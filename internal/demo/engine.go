package demo

import (
	"context"
	"log/slog"
	"time"
)

// Engine runs the demo's topology in this process, as one member of the group [ApplicationID]. How far it is stands in the
// group's committed offsets, which [Run] reads as any tool would.
type Engine interface {
	// Run processes records until ctx ends; then it drains, commits and returns nil. It returns the first fatal error.
	Run(ctx context.Context) error

	// Dropped returns how many late records planes-by-hour has dropped since Run began. It may be called at any time.
	Dropped() int64
}

// EngineConfig says what an Engine is to work on.
type EngineConfig struct {
	Brokers  []string      // bootstrap addresses
	StateDir string        // local state; exists
	Grace    time.Duration // of departures-by-hour and planes-by-hour
	// AtLeastOnce asks for less than exactly-once.
	AtLeastOnce bool
	Logger      *slog.Logger
}

// NewEngine makes an Engine. It may check its configuration but starts nothing.
type NewEngine func(EngineConfig) (Engine, error)
