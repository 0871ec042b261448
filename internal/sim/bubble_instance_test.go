//go:build synctests

package sim_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
)

// trace is what happened, each line with the time of the bubble.
type trace struct {
	begin time.Time

	mu    sync.Mutex
	lines []string
}

func (tr *trace) note(format string, args ...any) {
	line := fmt.Sprintf("%9.3f  ", time.Since(tr.begin).Seconds()) + fmt.Sprintf(format, args...)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lines = append(tr.lines, line)
}

// print gives the trace to the test's log.
func (tr *trace) print(t *testing.T) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, l := range tr.lines {
		t.Log(l)
	}
}

// appLog writes what an App logs into the trace.
type appLog struct {
	slog.Handler
	name string
	tr   *trace
}

func (h *appLog) Enabled(_ context.Context, level slog.Level) bool { return level >= traceLevel }

func (h *appLog) Handle(_ context.Context, r slog.Record) error {
	text := ""
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	h.tr.note("%s: %s: %s%s", h.name, r.Level, r.Message, text)
	return nil
}

func (h *appLog) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *appLog) WithGroup(string) slog.Handler      { return h }

// traceLevel is from which level on Apps' logs are in the trace: MILLRACE_TRACE=debug shows everything.
var traceLevel = func() slog.Level {
	if os.Getenv("MILLRACE_TRACE") == "debug" {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}()

// process is one life of an instance: an App with its link and its state directory.
type process struct {
	name    string
	dir     string // "" keeps its state in memory
	link    *link
	app     *millrace.App
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // of Run, once done is closed
	killed  bool
	stopped bool // it was told to stop
}

// start runs an App. ended is told when its Run has returned.
func (b *bubble) start(name, dir string, more ...millrace.AppOption) *process {
	b.t.Helper()
	p := &process{name: name, dir: dir, done: make(chan struct{})}
	p.link = newLink(&b.vn, name, b.rng.Uint64(), b.latency, b.trace.note)
	p.link.sprung = func(*trap) { b.trapped <- p }
	opts := []millrace.AppOption{
		millrace.ApplicationID(appID), millrace.Brokers(b.k.ListenAddrs()...), millrace.DialContext(p.link.Dial), millrace.ClientID(name),
		millrace.Logger(slog.New(&appLog{name: name, tr: b.trace})), millrace.SessionTimeout(sessionTimeout), millrace.FromProperties(b.properties),
	}
	if dir == "" {
		opts = append(opts, millrace.InMemoryState())
	} else {
		opts = append(opts, millrace.StateDir(dir))
	}
	topology, err := b.work.topology()
	if err == nil {
		p.app, err = millrace.NewApp(topology, append(opts, more...)...)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	where := dir
	if dir == "" {
		where = "in memory"
	} else {
		where = filepath.Base(dir)
	}
	b.trace.note("%s: starts, state %s", name, where)
	go func() {
		p.err = p.app.Run(ctx)
		b.trace.note("%s: Run returned: %v", name, p.err)
		close(p.done)
		b.ended <- p
	}()
	b.processes = append(b.processes, p)
	return p
}

// alive tells whether the process runs and was not killed.
func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return !p.killed
	}
}

// kill ends a process as SIGKILL does: nothing gets through any more, nothing that it does later counts. It returns the state
// directory as it was then.
func (b *bubble) kill(p *process) (dir string) {
	b.t.Helper()
	b.trace.note("%s: killed", p.name)
	p.killed = true
	p.link.end()
	synctest.Wait()
	dir = p.dir
	if dir != "" {
		dir = b.newDir()
		if err := os.CopyFS(dir, os.DirFS(p.dir)); err != nil {
			b.t.Fatal(err)
		}
	}
	p.cancel()
	return dir
}

func (b *bubble) newDir() string {
	b.t.Helper()
	b.dirs++
	dir := filepath.Join(b.tmp, fmt.Sprint("state-", b.dirs))
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.t.Fatal(err)
	}
	return dir
}

// stop drains a process and checks that it takes no longer than it may.
func (b *bubble) stop(p *process) {
	b.t.Helper()
	b.trace.note("%s: told to stop", p.name)
	p.cancel()
	b.await(p, stopWithin)
	if p.err != nil {
		b.t.Errorf("%s: Run returned %v after it was told to stop", p.name, p.err)
	}
}

// await waits for Run to return.
func (b *bubble) await(p *process, within time.Duration) {
	b.t.Helper()
	end := time.NewTimer(within)
	defer end.Stop()
	select {
	case <-p.done:
	case <-end.C:
		b.t.Fatalf("%s: Run does not return within %v", p.name, within)
	}
}
