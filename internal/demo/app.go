package demo

import (
	"context"
	"time"

	"github.com/millrace-io/millrace"
)

// Settings of the demo's application.
const (
	// commitInterval is short, so that the topics are seen to fill and a run ends soon after its last record.
	commitInterval = 100 * time.Millisecond

	// sessionTimeout is how long a demo that was killed keeps its tasks from the next one.
	sessionTimeout = 10 * time.Second

	// maxTaskIdle is how long a task waits for an input that has nothing at the moment. Partitions are fetched from several
	// brokers, and a month goes by in seconds here: without it, weather that was fetched a blink earlier would run days
	// ahead of the flights, which would then be too late for their join.
	maxTaskIdle = 500 * time.Millisecond

	// keepWindows is added to the retention of windowed changelogs, which a broker counts from its own time: windows of
	// 2013 would be deleted at its next look.
	keepWindows = 100 * 365 * 24 * time.Hour
)

// NewApp makes the millrace application that runs the demo's topology. It is a [NewEngine].
func NewApp(cfg EngineConfig) (Engine, error) {
	topology, err := Topology(cfg.Grace)
	if err != nil {
		return nil, err
	}
	guarantee := millrace.ExactlyOnceV2
	if cfg.AtLeastOnce {
		guarantee = millrace.AtLeastOnce
	}
	app, err := millrace.NewApp(topology,
		millrace.ApplicationID(ApplicationID),
		millrace.Guarantee(guarantee),
		millrace.Brokers(cfg.Brokers...),
		millrace.StateDir(cfg.StateDir),
		millrace.CommitInterval(commitInterval),
		millrace.SessionTimeout(sessionTimeout),
		millrace.MaxTaskIdle(maxTaskIdle),
		millrace.Logger(cfg.Logger),
		millrace.AdditionalRetention(keepWindows),
	)
	if err != nil {
		return nil, err
	}
	return application{app}, nil
}

// application is a millrace application as an Engine.
type application struct{ app *millrace.App }

func (a application) Run(ctx context.Context) error { return a.app.Run(ctx) }

func (a application) Dropped() int64 {
	return a.app.Metrics().Dropped(PlanesByHourTopic, millrace.DroppedLate)
}
