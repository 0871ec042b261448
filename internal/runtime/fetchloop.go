package runtime

import (
	"context"
	"sync"

	"github.com/millrace-io/millrace/internal/broker"
)

// fetchLoop is the one goroutine that uses a fetcher: it carries out what the machine orders, and polls.
type fetchLoop struct {
	fetcher broker.Fetcher
	post    func(Event)

	mu        sync.Mutex
	orders    []func(broker.Fetcher)
	interrupt context.CancelFunc // of the poll under way
}

// order queues something to do with the fetcher, and ends a poll that is under way.
func (l *fetchLoop) order(f func(broker.Fetcher)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders = append(l.orders, f)
	if l.interrupt != nil {
		l.interrupt()
	}
}

func (l *fetchLoop) run(ctx context.Context) {
	taken := make(chan struct{}, 1)
	for ctx.Err() == nil {
		l.mu.Lock()
		orders := l.orders
		l.orders = nil
		var pollCtx context.Context
		pollCtx, l.interrupt = context.WithCancel(ctx)
		stop := l.interrupt
		l.mu.Unlock()
		for _, f := range orders {
			f(l.fetcher)
		}
		batches := l.fetcher.Poll(pollCtx)
		stop()
		if len(batches) == 0 {
			continue
		}
		// The machine sees them before the next poll, so that what it pauses is paused then.
		l.post(Fetched{Batches: batches, Taken: func() { taken <- struct{}{} }})
		select {
		case <-taken:
		case <-ctx.Done():
		}
	}
}
