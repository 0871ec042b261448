package integration_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// childEnv holds a childSpec in a process that this test binary starts of itself.
const childEnv = "MILLRACE_INTEGRATION_CHILD"

// childSpec is what a child process runs.
type childSpec struct {
	Brokers   []string
	App       string
	StateDir  string
	In, Out   string
	SessionMs int
	CommitMs  int
}

// countTopology counts records by key.
func countTopology(in, out string) (*millrace.Topology, error) {
	b := millrace.NewBuilder()
	src := millrace.NewTopic(in, serde.String, serde.String)
	counts := millrace.Count(millrace.From(b, src).GroupByKey(), millrace.As("counts"))
	counts.ToStream().To(millrace.NewTopic(out, serde.String, serde.Int64))
	return b.Build()
}

// childMain runs the application of the childSpec until it is told to stop, by a signal or the end of its input.
func childMain() int {
	var spec childSpec
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	topology, err := countTopology(spec.In, spec.Out)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		// The parent holds the other end: a child never outlives it.
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	app, err := millrace.NewApp(topology,
		millrace.ApplicationID(spec.App), millrace.Brokers(spec.Brokers...), millrace.StateDir(spec.StateDir),
		millrace.CommitInterval(time.Duration(spec.CommitMs)*time.Millisecond),
		millrace.FromProperties(map[string]string{"session.timeout.ms": fmt.Sprint(spec.SessionMs)}),
	)
	if err == nil {
		err = app.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is a running child process.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	done  chan struct{}
	err   error
	mu    sync.Mutex
	lines []string
}

// startChild starts this test binary as a process of an application.
func startChild(t *testing.T, name string, spec childSpec) *child {
	t.Helper()
	spec.StateDir = filepath.Join(t.TempDir(), name)
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+string(text), "GOMAXPROCS=2")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd, stdin: stdin, done: make(chan struct{})}
	go func() {
		s := bufio.NewScanner(stderr)
		for s.Scan() {
			c.mu.Lock()
			c.lines = append(c.lines, s.Text())
			c.mu.Unlock()
		}
		c.err = cmd.Wait()
		close(c.done)
	}()
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, l := range c.lines {
				t.Logf("%s: %s", name, l)
			}
		}
	})
	return c
}

// kill ends the process with SIGKILL.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// stop asks the process to drain, and waits for it.
func (c *child) stop() {
	c.t.Helper()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(time.Minute):
		c.t.Fatal("a process does not stop within a minute of SIGTERM")
	}
	if c.err != nil {
		c.t.Fatalf("a process that was asked to stop ended with %v", c.err)
	}
}
