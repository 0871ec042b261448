package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childEnv makes the test binary a process of the demo, to be killed.
const childEnv = "MILLRACE_TEST_DEMO_CHILD"

// childSpec says what a child does.
type childSpec struct {
	Brokers  []string
	Run      bool    // a whole run until SIGTERM; else it only feeds, on topics that exist
	Rate     float64 // of a run
	StateDir string
	Grace    time.Duration

	AtLeastOnce bool
}

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		if err := childMain(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func childMain(text string) error {
	var spec childSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	d, err := Embedded()
	if err != nil {
		return err
	}
	fmt.Println("started")
	if spec.Run {
		_, err := Run(ctx, Options{Data: d, Partitions: 4, Grace: spec.Grace, Rate: spec.Rate, Brokers: spec.Brokers,
			StateDir: spec.StateDir, AtLeastOnce: spec.AtLeastOnce, NewEngine: NewApp,
			Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		if errors.Is(err, ErrInterrupted) {
			return nil
		}
		return err
	}
	in, err := NewInputs(d, 4)
	if err != nil {
		return err
	}
	client, err := Connect(ctx, spec.Brokers)
	if err != nil {
		return err
	}
	f := NewFeeder(in, client, spec.Brokers, 0, &movedClock{})
	if err := f.Resume(ctx); err != nil {
		return err
	}
	if err := f.FeedTables(ctx); err != nil {
		return err
	}
	return f.FeedLive(ctx)
}

// child is a running child.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
}

func startChild(t *testing.T, spec childSpec) child {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(out).Scan() {
		t.Fatal("the child did not start")
	}
	return child{t, cmd}
}

// end sends a signal and waits. A child that gets SIGTERM must end without an error.
func (c child) end(signal syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil && signal == syscall.SIGTERM {
		c.t.Errorf("the child that was to stop in good order: %v", err)
	}
}
