package child

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a child may take to drain. It is met only by a test that fails.
const patience = 3 * time.Minute

// keptLines is how much of a child's log is kept to be shown when the test fails: its last lines.
const keptLines = 2000

// Process is a child that was started.
type Process struct {
	name  string
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	read  *json.Decoder
	done  chan struct{}
	err   error

	mu    sync.Mutex
	lines []string
}

// Start starts this test binary as a process of an application, and returns when the process heeds SIGTERM: before that a Stop
// would end it as it ends any program. The settings are added to a commit interval of 100 ms and a state directory of the
// child's own.
func Start[T any](t testing.TB, name string, spec Spec[T]) *Process {
	t.Helper()
	settings := map[string]string{"commit.interval.ms": "100"}
	for k, v := range spec.Settings {
		settings[k] = v
	}
	if settings["state.dir"] == "" {
		settings["state.dir"] = filepath.Join(t.TempDir(), name)
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
	cmd.Env = append(os.Environ(), specEnv+"="+string(text), "GOMAXPROCS=2")
	p := StartCommand(t, name, cmd)
	var started Status
	if err := p.read.Decode(&started); err != nil {
		t.Fatalf("%s does not start: %v", name, err)
	}
	return p
}

// StartCommand starts any program that behaves as a child has to. It is killed when the test ends, and the end of its log is
// shown if the test has failed.
func StartCommand(t testing.TB, name string, cmd *exec.Cmd) *Process {
	t.Helper()
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
	p := &Process{name: name, t: t, cmd: cmd, stdin: stdin, read: json.NewDecoder(stdout), done: make(chan struct{})}
	go func() {
		s := bufio.NewScanner(stderr)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			p.keep(s.Text())
		}
		_, _ = io.Copy(io.Discard, stderr) // after a line beyond all bounds: nobody may wait for a reader
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", name, p.Log())
		}
	})
	return p
}

func (p *Process) keep(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == keptLines {
		p.lines = p.lines[keptLines/2:]
	}
	p.lines = append(p.lines, line)
}

// Name is what Start was given.
func (p *Process) Name() string { return p.name }

// ID is the process id.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Log is the end of what the process has written on its standard error.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// Status asks the process how its application is.
func (p *Process) Status() Status {
	p.t.Helper()
	var s Status
	if _, err := fmt.Fprintln(p.stdin); err != nil {
		p.t.Fatalf("%s has ended: %v", p.name, err)
	}
	if err := p.read.Decode(&s); err != nil {
		p.t.Fatalf("%s does not answer: %v", p.name, err)
	}
	return s
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process has ended. It may be asked once Done is closed.
func (p *Process) Err() error { return p.err }

// Kill ends the process with SIGKILL, and waits until it is gone. One that has ended is left alone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop asks the process to drain, and waits for it.
func (p *Process) Stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%s does not stop within %v of SIGTERM", p.name, patience)
	}
	if p.err != nil {
		p.t.Fatalf("%s was asked to stop and ended with %v", p.name, p.err)
	}
}
