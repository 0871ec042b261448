package kgoclient

import (
	"sync"

	"github.com/millrace-io/millrace/internal/broker"
)

// eventQueue carries events in order from the client's callbacks, which must not wait for a reader, to a channel.
type eventQueue struct {
	out    chan broker.MembershipEvent
	closed chan struct{}
	wake   chan struct{} // holds a token when something was queued
	ended  chan struct{}
	once   sync.Once

	mu    sync.Mutex
	queue []broker.MembershipEvent
}

func newEventQueue() *eventQueue {
	q := &eventQueue{
		out: make(chan broker.MembershipEvent), closed: make(chan struct{}), wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go q.run()
	return q
}

func (q *eventQueue) push(e broker.MembershipEvent) {
	q.mu.Lock()
	q.queue = append(q.queue, e)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *eventQueue) run() {
	defer close(q.ended)
	defer close(q.out)
	for {
		q.mu.Lock()
		events := q.queue
		q.queue = nil
		q.mu.Unlock()
		for _, e := range events {
			select {
			case q.out <- e:
			case <-q.closed:
				return
			}
		}
		select {
		case <-q.wake:
		case <-q.closed:
			return
		}
	}
}

// close drops what is queued and closes the channel.
func (q *eventQueue) close() {
	q.once.Do(func() { close(q.closed) })
	<-q.ended
}
