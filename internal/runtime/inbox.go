package runtime

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/millrace-io/millrace/internal/clock"
)

// inbox brings events from all goroutines to the one that steps the machine.
type inbox struct {
	mu     sync.Mutex
	events []Event
	spare  []Event
	signal chan struct{} // holds a token while there may be events
}

func newInbox() *inbox { return &inbox{signal: make(chan struct{}, 1)} }

// post adds an event; it never waits.
func (b *inbox) post(e Event) {
	b.mu.Lock()
	b.events = append(b.events, e)
	b.mu.Unlock()
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

// take returns the events so far. The slice is valid until the next call.
func (b *inbox) take() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.events
	clear(b.spare)
	b.events, b.spare = b.spare[:0], out
	return out
}

// wait returns when there is an event, or after a time.
func (b *inbox) wait(c clock.Clock, afterMs int64, timed bool) {
	if !timed {
		<-b.signal
		return
	}
	if afterMs <= 0 {
		return
	}
	t := c.NewTimer(msDuration(afterMs))
	defer t.Stop()
	select {
	case <-b.signal:
	case <-t.C():
	}
}

// notifier calls the application's listeners, in order and apart from everything else: what they do holds nobody up.
type notifier struct {
	log   *slog.Logger
	mu    sync.Mutex
	queue []func()
	wake  chan struct{}
}

func newNotifier(log *slog.Logger) *notifier {
	return &notifier{log: log, wake: make(chan struct{}, 1)}
}

// call keeps a panic of a listener from the rest.
func (n *notifier) call(f func()) {
	defer func() {
		if p := recover(); p != nil {
			n.log.Error("a listener has panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f()
}

func (n *notifier) run(ctx context.Context) {
	for {
		n.mu.Lock()
		q := n.queue
		n.queue = nil
		n.mu.Unlock()
		for _, f := range q {
			n.call(f)
		}
		if len(q) > 0 {
			continue
		}
		select {
		case <-n.wake:
		case <-ctx.Done():
			n.mu.Lock()
			rest := len(n.queue)
			n.mu.Unlock()
			if rest == 0 {
				return
			}
		}
	}
}

func (n *notifier) tell(f func()) {
	n.mu.Lock()
	n.queue = append(n.queue, f)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}
