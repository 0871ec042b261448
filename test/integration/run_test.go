package integration_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// patience bounds every wait of a test. It is met only by a test that fails.
const patience = 3 * time.Minute

// tellWithin is how long it may take to tell that brokers refuse, or are not there, with a connection timeout of a second. It is a
// bound against waiting for ever, and not for how fast a machine is.
const tellWithin = 45 * time.Second

// await polls a condition of the cluster or of another process. There is nothing there that would tell of a change.
func await(t *testing.T, what string, within time.Duration, done func() bool) {
	t.Helper()
	end := time.Now().Add(within)
	for !done() {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("the test is over before %s", what)
		}
	}
}

// awaitCommitted waits until a group has committed at least n records of a topic in all.
func awaitCommitted(t *testing.T, b kafkatest.Broker, group, topic string, n int64) {
	t.Helper()
	await(t, "enough records of "+topic+" are committed", patience, func() bool {
		sum := int64(0)
		for _, o := range kafkatest.GroupOffsets(t, b, group)[topic] {
			sum += o.At
		}
		return sum >= n
	})
}

// running is an App that runs beside the test.
type running struct {
	t       *testing.T
	b       kafkatest.Broker
	app     *millrace.App
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
	changed chan struct{} // holds a token after each line of the log and each change of state

	mu    sync.Mutex
	lines []string
}

// start runs a topology until the test ends or stop is called. Options given later win.
func start(t *testing.T, b kafkatest.Broker, appID string, topology *millrace.Topology, opts ...millrace.AppOption) *running {
	t.Helper()
	r, err := tryStart(t, b, appID, topology, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tryStart is start where NewApp may refuse.
func tryStart(t *testing.T, b kafkatest.Broker, appID string, topology *millrace.Topology, opts ...millrace.AppOption) (*running, error) {
	t.Helper()
	r := &running{t: t, b: b, done: make(chan struct{}), changed: make(chan struct{}, 1)}
	all := append([]millrace.AppOption{
		millrace.ApplicationID(appID), millrace.Brokers(b.Bootstrap()...), millrace.StateDir(filepath.Join(t.TempDir(), "state")),
		millrace.CommitInterval(100 * time.Millisecond),
		millrace.Logger(slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelInfo}))),
		millrace.OnState(func(millrace.State) { r.signal() }),
	}, opts...)
	var err error
	if r.app, err = millrace.NewApp(topology, all...); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() {
		r.err = r.app.Run(ctx)
		close(r.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
		if t.Failed() {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, l := range r.lines {
				t.Log(strings.TrimSpace(l))
			}
		}
	})
	return r, nil
}

// startKind starts one of childTopologies in this process.
func startKind(t *testing.T, b kafkatest.Broker, appID, kind string, topics childTopics, opts ...millrace.AppOption) *running {
	t.Helper()
	bld := millrace.NewBuilder()
	childTopologies[kind](bld, topics)
	return start(t, b, appID, buildTopology(t, bld), opts...)
}

// Write takes the App's log.
func (r *running) Write(p []byte) (int, error) {
	r.mu.Lock()
	r.lines = append(r.lines, string(p))
	r.mu.Unlock()
	r.signal()
	return len(p), nil
}

func (r *running) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// logged tells whether a line of the log holds all the texts.
func (r *running) logged(texts ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.lines, func(l string) bool {
		return !slices.ContainsFunc(texts, func(x string) bool { return !strings.Contains(l, x) })
	})
}

// until waits for a condition, which is looked at when the App tells something, and now and then besides: metrics change
// without a word.
func (r *running) until(what string, cond func() bool) {
	r.t.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !cond() {
		select {
		case <-r.changed:
		case <-look.C:
		case <-r.done:
			if !cond() {
				r.t.Fatalf("the application ended (%v) before %s", r.err, what)
			}
		case <-end.C:
			r.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func (r *running) untilRunning() {
	r.t.Helper()
	r.until("it runs", func() bool { return r.app.State() == millrace.Running })
}

// untilDone waits until everything that is in the input now is processed and committed, by whichever instance.
func (r *running) untilDone() {
	r.t.Helper()
	r.until("all input is committed", func() bool {
		lags, err := r.app.Lag(r.t.Context())
		return err == nil && len(lags) > 0 && lags.Total() == 0
	})
}

// stop drains the application and fails the test if it ends with an error.
func (r *running) stop() {
	r.t.Helper()
	r.cancel()
	<-r.done
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		r.t.Fatalf("the application ended with %v", r.err)
	}
}

// fails waits for the application to end by itself, and returns why.
func (r *running) fails() error {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatal("the application runs on, it should have failed")
	}
	if r.err == nil {
		r.t.Fatal("the application ended without an error")
	}
	if s := r.app.State(); s != millrace.Failed {
		r.t.Errorf("the state is %v after a failure", s)
	}
	return r.err
}

func buildTopology(t *testing.T, b *millrace.Builder) *millrace.Topology {
	t.Helper()
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// says checks that an error tells everything that its reader needs.
func says(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("there is no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
	for line := range strings.Lines(err.Error()) {
		if strings.Count(line, "millrace: ") > 1 {
			t.Errorf("the error says twice whose it is: %s", line)
		}
	}
	if strings.Contains(err.Error(), "goroutine ") {
		t.Errorf("the error shows a stack: %v", err)
	}
}
