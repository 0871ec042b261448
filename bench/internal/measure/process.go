package measure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/internal/side"
)

// clockTicks is the unit of CPU time in /proc: a hundredth of a second on every Linux that Go runs on.
const clockTicks = 100

// process is a side that runs.
type process struct {
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	started  time.Time
	readings chan side.Reading // closed at the end of the output
	last     side.Reading      // the last one taken from readings
	restored atomic.Pointer[side.Restored]
	copies   atomic.Pointer[side.Copies]
	stderr   tail
}

// start runs a side's command with the configuration behind it.
func start(ctx context.Context, command []string, c side.Config) (*process, error) {
	args := append(append([]string(nil), command[1:]...), c.Args()...)
	p := &process{cmd: exec.CommandContext(ctx, command[0], args...), readings: make(chan side.Reading, 64)}
	p.cmd.Stderr = &p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil { // its end ends the side when this process is gone
		return nil, fmt.Errorf("bench: start side: %w", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("bench: start side: %w", err)
	}
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: start side: %w", err)
	}
	go func() {
		defer close(p.readings)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if r, ok := side.ParseRestored(lines.Text()); ok {
				p.restored.Store(&r)
			} else if c, ok := side.ParseCopies(lines.Text()); ok {
				p.copies.Store(&c)
			} else if r, ok := side.ParseReading(lines.Text()); ok {
				p.tell(r)
			}
		}
	}()
	return p, nil
}

// tell passes a reading on. Where nobody takes them the oldest is dropped: a side must not wait for who watches it.
func (p *process) tell(r side.Reading) {
	for {
		select {
		case p.readings <- r:
			return
		default:
		}
		select {
		case <-p.readings:
		default:
		}
	}
}

// await returns the first reading that satisfies.
func (p *process) await(ctx context.Context, satisfies func(side.Reading) bool) (side.Reading, error) {
	for {
		select {
		case r, ok := <-p.readings:
			if !ok {
				return r, fmt.Errorf("bench: the side has ended early: %v\n%s", p.cmd.Wait(), p.stderr.String())
			}
			p.last = r
			if satisfies(r) {
				return r, nil
			}
		case <-ctx.Done():
			return side.Reading{}, fmt.Errorf("bench: waiting for the side: %w\n%s", context.Cause(ctx), p.stderr.String())
		}
	}
}

// cpu is the CPU time that the process has used so far, in user and kernel mode.
func (p *process) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("bench: CPU time of the side (measured on Linux only): %w", err)
	}
	return parseCPU(stat)
}

// parseCPU reads utime and stime, the 14th and 15th field. The second may contain blanks and ends with a parenthesis.
func parseCPU(stat []byte) (time.Duration, error) {
	at := bytes.LastIndex(stat, []byte(") "))
	if at < 0 {
		return 0, fmt.Errorf("bench: unexpected /proc stat %q", stat)
	}
	fields := strings.Fields(string(stat[at+2:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("bench: unexpected /proc stat %q", stat)
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("bench: unexpected /proc stat %q: %w", stat, err)
	}
	return time.Duration(user+system) * (time.Second / clockTicks), nil
}

// peakRSS is the most memory that the process has had resident, in bytes.
func (p *process) peakRSS() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("bench: memory of the side (measured on Linux only): %w", err)
	}
	return parsePeakRSS(status)
}

func parsePeakRSS(status []byte) (int64, error) {
	for line := range strings.Lines(string(status)) {
		value, ok := strings.CutPrefix(line, "VmHWM:")
		if !ok {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("bench: unexpected line %q in /proc status", line)
		}
		return kb << 10, nil
	}
	return 0, errors.New("bench: no VmHWM in /proc status")
}

// stop kills the process and waits for it; its last reading is returned.
func (p *process) stop() side.Reading {
	_ = p.cmd.Process.Kill()
	for r := range p.readings {
		p.last = r
	}
	_ = p.cmd.Wait() // killed, as it should be
	p.stdin.Close()
	return p.last
}

// terminate asks the process to end, which it does in good order, and waits for that.
func (p *process) terminate(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("bench: ending the side: %w", err)
	}
	for {
		select {
		case r, ok := <-p.readings:
			if !ok {
				defer p.stdin.Close()
				if err := p.cmd.Wait(); err != nil {
					return fmt.Errorf("bench: the side did not end in good order: %w\n%s", err, p.stderr.String())
				}
				return nil
			}
			p.last = r
		case <-ctx.Done():
			return fmt.Errorf("bench: the side does not end: %w\n%s", context.Cause(ctx), p.stderr.String())
		}
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > tailBytes {
		t.text = append(t.text[:0], t.text[len(t.text)-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
