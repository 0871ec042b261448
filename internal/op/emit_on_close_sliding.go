package op

import (
	"github.com/millrace-io/millrace/serde"
)

// slidingCloser emits the results of sliding windows that have closed: those whose end is before the close time.
type slidingCloser[K, A any] struct {
	out       *windowOut[K, A]
	diffMs    int64
	emittedMs int64 // see windowCloser
	due       *dueIndex
}

func newSlidingCloser[K, A any](out *windowOut[K, A], diffMs int64) *slidingCloser[K, A] {
	c := &slidingCloser[K, A]{out: out, diffMs: diffMs}
	out.env.EmitProgress(out.store.name, &c.emittedMs)
	c.due = newDueIndex(c.emittedMs-diffMs, out.store.w.Spec().SegmentMs, c.load)
	return c
}

func (c *slidingCloser[K, A]) load(fromMs, toMs int64, add func(atMs, secondMs int64, key []byte)) (err error) {
	s := c.out.store
	it, err := s.w.FetchAll(fromMs, toMs, false)
	if err != nil {
		return s.env.fault(s.name, err)
	}
	for it.Next() {
		add(it.StartMs(), 0, it.Key())
	}
	err = it.Err()
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	return s.env.fault(s.name, err)
}

func (c *slidingCloser[K, A]) emit(closeMs int64, headers serde.Headers) error {
	lastMs := closeMs - c.diffMs - 1 // the last start that has closed
	if lastMs < 0 || closeMs <= c.emittedMs {
		return nil
	}
	c.emittedMs = closeMs
	for {
		row, ok, err := c.due.next(lastMs)
		if !ok || err != nil {
			return err
		}
		s := c.out.store
		local, ok, err := s.w.Get([]byte(row.key), row.atMs, 0)
		if err != nil {
			return s.env.fault(s.name, err)
		}
		if !ok {
			continue // its aggregate was deleted
		}
		if err := c.out.sendClosed([]byte(row.key), row.atMs, local, headers); err != nil {
			return err
		}
	}
}
