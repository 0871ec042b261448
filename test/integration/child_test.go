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
)

// childEnv holds a childSpec in a process that this test binary starts of itself.
const childEnv = "MILLRACE_INTEGRATION_CHILD"

// shortSession is the session timeout, in milliseconds, of a process that is to be killed: others wait for as long.
const shortSession = "3000"

// childSpec is what a child process runs: a topology of childTopologies, with settings by Java's names.
type childSpec struct {
	Topology string
	Topics   childTopics
	Settings map[string]string
}

// childTopics are the topics of a child's topology.
type childTopics struct{ In, Out, Late string }

// childStatus is what a child answers to a line on its standard input.
type childStatus struct {
	State     string
	Tasks     int // all of them
	Ready     int // those that run
	Processed int64
}

// childMain runs the application of the childSpec until it is told to stop by a signal.
func childMain() int {
	var spec childSpec
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	app, err := childApp(spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go answer(app)
	if err := app.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func childApp(spec childSpec) (*millrace.App, error) {
	build, ok := childTopologies[spec.Topology]
	if !ok {
		return nil, fmt.Errorf("there is no topology %q", spec.Topology)
	}
	b := millrace.NewBuilder()
	build(b, spec.Topics)
	topology, err := b.Build()
	if err != nil {
		return nil, err
	}
	return millrace.NewApp(topology, millrace.FromProperties(spec.Settings))
}

// answer tells the parent, for each line that it writes, how the App is.
func answer(app *millrace.App) {
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		m := app.Metrics()
		s := childStatus{State: m.State.String(), Tasks: len(m.Tasks), Processed: m.Processed}
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

// child is a running child process.
type child struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	read  *json.Decoder
	done  chan struct{}
	err   error
	mu    sync.Mutex
	lines []string
}

// startChild starts this test binary as a process of an application. The settings are added to what every child needs; its
// state directory is one of its own if there is none among them.
func startChild(t *testing.T, name string, spec childSpec) *child {
	t.Helper()
	settings := map[string]string{"commit.interval.ms": "100", "state.dir": filepath.Join(t.TempDir(), name)}
	for k, v := range spec.Settings {
		settings[k] = v
	}
	spec.Settings = settings
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
	stdout, err := cmd.StdoutPipe()
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
	c := &child{t: t, name: name, cmd: cmd, stdin: stdin, read: json.NewDecoder(stdout), done: make(chan struct{})}
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

// status asks the process how its App is.
func (c *child) status() childStatus {
	c.t.Helper()
	var s childStatus
	if _, err := fmt.Fprintln(c.stdin); err != nil {
		c.t.Fatalf("%s has ended: %v", c.name, err)
	}
	if err := c.read.Decode(&s); err != nil {
		c.t.Fatalf("%s does not answer: %v", c.name, err)
	}
	return s
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
	case <-time.After(patience):
		c.t.Fatalf("%s does not stop within %v of SIGTERM", c.name, patience)
	}
	if c.err != nil {
		c.t.Fatalf("%s was asked to stop and ended with %v", c.name, c.err)
	}
}
