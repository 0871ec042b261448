package child

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/millrace-io/millrace"
)

// specEnv holds a Spec in a process that a test binary starts of itself.
const specEnv = "MILLRACE_TEST_CHILD"

// Spec is what a child runs: one of the Topologies, with settings by Java's names. T is what the topology has to be told.
type Spec[T any] struct {
	Topology string
	Topics   T
	Settings map[string]string
}

// Status is what a child answers to a line on its standard input.
type Status struct {
	State     string
	Tasks     int // all of them
	Ready     int // those that run
	Processed int64
}

// Topologies are what the children of a test binary can run, by name.
type Topologies[T any] map[string]func(*millrace.Builder, T)

// Main runs the application and does not return if this process is a child. Otherwise it does nothing.
func (m Topologies[T]) Main() {
	text, ok := os.LookupEnv(specEnv)
	if !ok {
		return
	}
	if err := m.run(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run runs an application until it is told to stop by a signal.
func (m Topologies[T]) run(text string) error {
	// From here on SIGTERM is a request, and no longer the end of the process: Start waits for the line that says so.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(Status{State: "started"}); err != nil {
		return fmt.Errorf("child: %w", err)
	}
	var spec Spec[T]
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return fmt.Errorf("child: %s: %w", specEnv, err)
	}
	build, ok := m[spec.Topology]
	if !ok {
		return fmt.Errorf("child: there is no topology %q", spec.Topology)
	}
	b := millrace.NewBuilder()
	build(b, spec.Topics)
	topology, err := b.Build()
	if err != nil {
		return err
	}
	app, err := millrace.NewApp(topology, millrace.FromProperties(spec.Settings), millrace.Logger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	if err != nil {
		return err
	}
	go answer(app, out)
	return app.Run(ctx)
}

// answer tells the parent, for each line that it writes, how the App is.
func answer(app *millrace.App, out *json.Encoder) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		m := app.Metrics()
		s := Status{State: m.State.String(), Tasks: len(m.Tasks), Processed: m.Processed}
		for _, t := range m.Tasks {
			if t.Phase == "running" {
				s.Ready++
			}
		}
		if err := out.Encode(s); err != nil {
			break
		}
	}
	// The parent holds the other end, and is gone: a child never outlives it.
	os.Exit(3)
}
