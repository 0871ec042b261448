package op

import (
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// sessionCloser emits the results of sessions that have closed: those whose end is before the close time, by end, start and
// the bytes of the key. A session that grows leaves its old bounds in the index, where the store has none any more.
//
// In Kafka Streams: KStreamSessionWindowAggregateProcessor#maybeForwardFinalResult, without its throttle by the wall clock.
type sessionCloser[K, A any] struct {
	store *SessionStore[K, A]
	// emittedMs is the close time up to which all has been emitted, -1 before the first. It is part of the committed offset.
	emittedMs int64
	due       *dueIndex
	send      func(k window.Key[K], headers serde.Headers, c Change[A]) error
}

func newSessionCloser[K, A any](s *SessionStore[K, A], send func(k window.Key[K], headers serde.Headers, c Change[A]) error) *sessionCloser[K, A] {
	c := &sessionCloser[K, A]{store: s, send: send}
	s.env.EmitProgress(s.name, &c.emittedMs)
	c.due = newDueIndex(c.emittedMs, s.w.Spec().SegmentMs, c.load)
	return c
}

func (c *sessionCloser[K, A]) load(fromMs, toMs int64, add func(atMs, secondMs int64, key []byte)) error {
	s := c.store
	it, err := s.w.FindAll(fromMs, toMs, false)
	if err != nil {
		return s.env.fault(s.name, err)
	}
	for it.Next() {
		add(it.EndMs(), it.StartMs(), it.Key())
	}
	err = it.Err()
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	return s.env.fault(s.name, err)
}

// put tells of a session that is new in the store.
func (c *sessionCloser[K, A]) put(key []byte, w window.Window) { c.due.add(w.EndMs, w.StartMs, key) }

// emit sends what has closed at a close time.
func (c *sessionCloser[K, A]) emit(closeMs int64, headers serde.Headers) error {
	if closeMs < 1 || closeMs <= c.emittedMs {
		return nil
	}
	c.emittedMs = closeMs
	for {
		row, ok, err := c.due.next(closeMs - 1)
		if !ok || err != nil {
			return err
		}
		if err := c.sendClosed([]byte(row.key), window.Window{StartMs: row.secondMs, EndMs: row.atMs}, headers); err != nil {
			return err
		}
	}
}

func (c *sessionCloser[K, A]) sendClosed(key []byte, w window.Window, headers serde.Headers) error {
	s := c.store
	local, ok, err := s.w.Get(key, w.StartMs, w.EndMs)
	if err != nil {
		return s.env.fault(s.name, err)
	}
	if !ok {
		return nil // it is part of another session by now, or was deleted
	}
	k := window.Key[K]{Window: w}
	if k.Key, err = s.key.Decode(key); err != nil {
		return s.env.fault(s.name, s.damaged(err))
	}
	change := Change[A]{HasNew: true}
	if change.New, _, err = s.cache.Decode(local); err != nil {
		return s.env.fault(s.name, err)
	}
	return c.send(k, headers, change)
}
