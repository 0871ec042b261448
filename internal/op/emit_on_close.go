package op

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// windowCloser emits the results of windows that lie fixed on the time line when they have closed: each once, by start and
// then by the bytes of the key. It keeps no list of open windows. Windows close in the order of their starts, so what has
// closed since the last time is a range of starts, which the store reads; and whether there can be any follows from the
// windows alone, so that a record that closes none costs a comparison.
//
// In Kafka Streams: AbstractKStreamTimeWindowAggregateProcessor#maybeForwardFinalResult, without its throttle by the wall
// clock.
type windowCloser[K, A any] struct {
	out     *windowOut[K, A]
	windows window.Enumerable
	time    window.Time
	isTime  bool
	// emittedMs is the close time up to which all has been emitted, -1 before the first. It is part of the committed offset.
	emittedMs int64
	// nextMs is a close time below which nothing closes that has not been emitted. Unused for tumbling and hopping windows,
	// whose emittedMs moves exactly when Java's does.
	nextMs int64

	gapMs int64 // two windows start at least so far apart

	in   []window.Window
	rows closedRows
}

// calendarGapMs is less than the length of any calendar window: no clocks are set forward by half a day.
const calendarGapMs = 12 * 60 * 60 * 1000

// CloseSegmentMs is how long the segments of a store should be from which windows of a kind are emitted on close: so short
// that one holds a single start, whose rows then stand in the order in which they leave; but not below a second, because
// segments expire one by one. 0 leaves it to the engine.
func CloseSegmentMs(w window.Windows) int64 {
	const leastMs = 1000
	switch w := w.(type) {
	case window.Time:
		advance := w.AdvanceMs()
		if advance < 1 {
			return 0
		}
		return (max(advance, leastMs) + advance - 1) / advance * advance
	case window.CalendarWindows:
		return calendarGapMs
	}
	return 0
}

// newWindowCloser makes the closer of a step. What it has emitted before is known from the committed offset.
func newWindowCloser[K, A any](out *windowOut[K, A], w window.Enumerable) *windowCloser[K, A] {
	c := &windowCloser[K, A]{out: out, windows: w}
	c.time, c.isTime = w.(window.Time)
	switch w := w.(type) {
	case window.Time:
		c.gapMs = w.AdvanceMs()
	case window.CalendarWindows:
		c.gapMs = calendarGapMs
	}
	out.env.EmitProgress(out.store.name, &c.emittedMs)
	return c
}

// emit sends what has closed at a close time.
func (c *windowCloser[K, A]) emit(closeMs int64, headers serde.Headers) error {
	if !c.due(closeMs) {
		return nil
	}
	// Everything that starts before the first window that is still open has closed.
	from, _, err := c.firstOpen(c.emittedMs)
	if err != nil {
		return err
	}
	open, endMs, err := c.firstOpen(closeMs)
	if err != nil {
		return err
	}
	c.emittedMs, c.nextMs = closeMs, endMs
	if from >= open {
		return nil
	}
	return c.send(from, open-1, headers)
}

// due tells whether windows may have closed that have not been emitted.
func (c *windowCloser[K, A]) due(closeMs int64) bool {
	if !c.isTime {
		return closeMs > c.emittedMs && closeMs >= c.nextMs
	}
	lastMs := closeMs - c.time.SizeMs() // the last start that can have closed
	switch {
	case lastMs < 0 || c.emittedMs >= closeMs:
		return false
	case c.emittedMs < 0:
		return true
	}
	// As in Kafka Streams, where both belong to the same windows nothing has closed in between, and the progress stays.
	return !c.sameWindows(lastMs, max(0, c.emittedMs-c.time.SizeMs()))
}

func (c *windowCloser[K, A]) sameWindows(aMs, bMs int64) bool {
	size, advance := c.time.SizeMs(), c.time.AdvanceMs()
	return aMs/advance == bMs/advance && max(0, aMs-size+advance)/advance == max(0, bMs-size+advance)/advance
}

// firstOpen returns the lowest start that a window can have that is open at a close time, and a time before which no other
// closes.
func (c *windowCloser[K, A]) firstOpen(closeMs int64) (startMs, endMs int64, err error) {
	if closeMs < 0 {
		return 0, 0, nil
	}
	if builtIn(c.windows) {
		c.in = c.windows.AppendWindows(c.in[:0], closeMs)
	} else if c.in, err = appendForeign(c.in[:0], c.windows, closeMs); err != nil {
		return 0, 0, c.out.env.fault(c.out.step, err)
	}
	if len(c.in) == 0 {
		return closeMs, closeMs + 1, nil
	}
	return c.in[0].StartMs, c.in[0].EndMs, nil
}

// send sends the results of the windows whose starts lie within the bounds. Rows come by segment, then by key: those of a
// segment are put in order first, unless it holds one start only.
func (c *windowCloser[K, A]) send(fromMs, toMs int64, headers serde.Headers) (err error) {
	s := c.out.store
	it, err := s.w.FetchAll(fromMs, toMs, false)
	if err != nil {
		return s.env.fault(s.name, err)
	}
	defer func() {
		if cerr := it.Close(); err == nil {
			err = s.env.fault(s.name, cerr)
		}
	}()
	segment := s.w.Spec().SegmentMs
	if segment <= c.gapMs {
		for it.Next() {
			if err := c.out.sendClosed(it.Key(), it.StartMs(), it.Value(), headers); err != nil {
				return err
			}
		}
		return s.env.fault(s.name, it.Err())
	}
	for more := it.Next(); more; {
		at := it.StartMs() / segment
		c.rows.reset()
		for ; more && it.StartMs()/segment == at; more = it.Next() {
			c.rows.add(it.Key(), it.StartMs(), it.Value())
		}
		c.rows.sort()
		for i := range c.rows.rows {
			key, startMs, local := c.rows.at(i)
			if err := c.out.sendClosed(key, startMs, local, headers); err != nil {
				return err
			}
		}
	}
	return s.env.fault(s.name, it.Err())
}

// sendClosed sends the result of a closed window, given as it is stored.
func (o *windowOut[K, A]) sendClosed(key []byte, startMs int64, local []byte, headers serde.Headers) error {
	s := o.store
	k, err := s.key.Decode(key)
	if err != nil {
		return s.env.fault(s.name, s.damaged(err))
	}
	c := Change[A]{HasNew: true}
	var tsMs int64
	if c.New, tsMs, err = s.cache.Decode(local); err != nil {
		return s.env.fault(s.name, err)
	}
	return o.forward(s.windowed(k, startMs), headers, c, tsMs)
}

// closedRows are rows of one segment, in one piece of memory.
type closedRows struct {
	bytes []byte
	rows  []closedRow
}

type closedRow struct {
	startMs        int64
	at, key, value int
}

func (c *closedRows) reset() { c.bytes, c.rows = c.bytes[:0], c.rows[:0] }

func (c *closedRows) add(key []byte, startMs int64, value []byte) {
	c.rows = append(c.rows, closedRow{startMs: startMs, at: len(c.bytes), key: len(key), value: len(value)})
	c.bytes = append(append(c.bytes, key...), value...)
}

func (c *closedRows) at(i int) (key []byte, startMs int64, value []byte) {
	r := c.rows[i]
	return c.bytes[r.at : r.at+r.key], r.startMs, c.bytes[r.at+r.key : r.at+r.key+r.value]
}

func (c *closedRows) sort() {
	slices.SortFunc(c.rows, func(a, b closedRow) int {
		if order := cmp.Compare(a.startMs, b.startMs); order != 0 {
			return order
		}
		return bytes.Compare(c.bytes[a.at:a.at+a.key], c.bytes[b.at:b.at+b.key])
	})
}
