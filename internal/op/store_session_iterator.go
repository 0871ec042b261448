package op

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/window"
)

// Fetch walks all sessions of one key, by their end.
func (s *SessionStore[K, V]) Fetch(k K) (store.Iterator[window.Key[K], V], error) {
	return s.FindSessions(k, math.MinInt64, math.MaxInt64)
}

// FindSessions walks the sessions of one key that end and start within bounds, by their end.
func (s *SessionStore[K, V]) FindSessions(k K, earliestEndMs, latestStartMs int64) (store.Iterator[window.Key[K], V], error) {
	key, err := s.appendKey([]byte{}, k)
	if err != nil {
		return nil, err
	}
	it := new(sessionIterator[K, V])
	it.cursor.s = s
	if err := it.cursor.open(sessionQuery{key: key, fromMs: earliestEndMs, toMs: math.MaxInt64, latestStartMs: latestStartMs}); err != nil {
		return nil, err
	}
	return it, nil
}

// FindAll walks the sessions of all keys that end within bounds.
func (s *SessionStore[K, V]) FindAll(fromEndMs, toEndMs int64) (store.Iterator[window.Key[K], V], error) {
	it := new(sessionIterator[K, V])
	it.cursor.s = s
	if err := it.cursor.open(sessionQuery{all: true, fromMs: fromEndMs, toMs: toEndMs, latestStartMs: math.MaxInt64}); err != nil {
		return nil, err
	}
	return it, nil
}

// sessionQuery selects sessions of one key, or of all.
type sessionQuery struct {
	key           []byte
	all           bool
	fromMs, toMs  int64 // of the end, both included
	latestStartMs int64
}

func (q *sessionQuery) wants(startMs, endMs int64) bool {
	return endMs >= q.fromMs && endMs <= q.toMs && startMs <= q.latestStartMs
}

// sessionRow is a session as a cursor finds it.
type sessionRow[V any] struct {
	key            []byte // encoded
	startMs, endMs int64
	v              V
	tsMs           int64
	headers        serde.Headers
	below          bool // the byte store has it, in this or an older form
	gone           bool
}

// sessionCursor walks the byte store and what waits above it. Reading writes nothing out: what a query asks for must not
// change what the steps downstream see. It may be opened again once it is closed.
type sessionCursor[K, V any] struct {
	s       *SessionStore[K, V]
	key     []byte // asked for; nil: all
	base    *state.Iterator
	waiting []sessionRow[V] // in order
	at      int             // of waiting
	baseRow sessionRow[V]
	baseOK  bool // baseRow is a row not yet returned
	err     error
	row     sessionRow[V] // valid until the next call
}

func (c *sessionCursor[K, V]) open(q sessionQuery) error {
	s := c.s
	q.fromMs = s.fromMs(q.fromMs)
	c.key, c.waiting, c.at, c.err = q.key, c.waiting[:0], 0, nil
	if q.all {
		for key := range s.waiting {
			if err := c.gather(&q, []byte(key)); err != nil {
				return err
			}
		}
	} else if err := c.gather(&q, q.key); err != nil {
		return err
	}
	slices.SortFunc(c.waiting, func(a, b sessionRow[V]) int { return s.compare(&a, &b) })
	var err error
	if q.all {
		c.base, err = s.w.FindAll(q.fromMs, q.toMs, false)
	} else {
		c.base, err = s.w.Find(q.key, q.fromMs, q.latestStartMs, false)
	}
	if err != nil {
		return s.env.fault(s.name, err)
	}
	c.advance()
	return nil
}

// gather takes the waiting sessions of a key that a query wants.
func (c *sessionCursor[K, V]) gather(q *sessionQuery, key []byte) error {
	list := c.s.waiting[string(key)]
	at, _ := slices.BinarySearchFunc(list, q.fromMs, func(w waitingSession, fromMs int64) int { return cmp.Compare(w.endMs, fromMs) })
	for _, w := range list[at:] {
		if !q.wants(w.startMs, w.endMs) {
			continue
		}
		row := sessionRow[V]{key: key, startMs: w.startMs, endMs: w.endMs, below: w.below, gone: w.gone}
		if !w.gone {
			b := append(c.s.buf[:0], key...)
			c.s.buf = codec.AppendSessionSuffix(b, w.startMs, w.endMs)
			var ok bool
			var err error
			if row.v, row.tsMs, ok, err = c.s.cache.Get(c.s.buf); err != nil {
				return err
			}
			if row.gone = !ok; ok {
				if row.headers, err = c.s.cache.Headers(c.s.buf); err != nil {
					return err
				}
			}
		}
		c.waiting = append(c.waiting, row)
	}
	return nil
}

// advance moves to the next row of the byte store.
func (c *sessionCursor[K, V]) advance() {
	if c.baseOK = c.base.Next(); c.baseOK {
		c.baseRow = sessionRow[V]{key: c.base.Key(), startMs: c.base.StartMs(), endMs: c.base.EndMs(), below: true}
	} else {
		c.err = c.s.env.fault(c.s.name, c.base.Err())
	}
}

// next moves to the next session, which is row then.
func (c *sessionCursor[K, V]) next() bool {
	for c.err == nil && c.at < len(c.waiting) {
		w := &c.waiting[c.at]
		order := -1
		if c.baseOK {
			order = c.s.compare(w, &c.baseRow)
		}
		if order > 0 {
			break
		}
		c.at++
		if order == 0 {
			c.advance()
		}
		if !w.gone {
			c.row = *w
			return c.err == nil
		}
	}
	if c.err != nil || !c.baseOK {
		return false
	}
	c.row = c.baseRow
	if c.row.key = c.key; c.key == nil {
		c.row.key = bytes.Clone(c.baseRow.key)
	}
	if c.row.v, c.row.tsMs, c.err = c.s.cache.Decode(c.base.Value()); c.err != nil {
		return false
	}
	if c.row.headers, c.err = c.s.cache.DecodeHeaders(c.base.Value()); c.err != nil {
		return false
	}
	c.advance()
	return true
}

func (c *sessionCursor[K, V]) close() error {
	if c.base == nil {
		return nil
	}
	err := c.base.Close()
	c.base, c.baseOK = nil, false
	clear(c.waiting)
	return c.s.env.fault(c.s.name, err)
}

// sessionIterator is the cursor as user code sees it.
type sessionIterator[K, V any] struct {
	shown[window.Key[K], V]
	cursor sessionCursor[K, V]
	closed bool
}

func (it *sessionIterator[K, V]) Next() bool {
	if it.closed && it.err == nil {
		it.err = fmt.Errorf("millrace: the iterator is closed")
	}
	if it.err != nil {
		return false
	}
	if !it.cursor.next() {
		it.err = it.cursor.err
		return false
	}
	row := &it.cursor.row
	k, err := it.cursor.s.key.Decode(row.key)
	if err != nil {
		it.err = it.cursor.s.damaged(err)
		return false
	}
	it.k = window.Key[K]{Key: k, Window: window.Window{StartMs: row.startMs, EndMs: row.endMs}}
	it.v, it.tsMs, it.headers = row.v, row.tsMs, row.headers
	return true
}

func (it *sessionIterator[K, V]) Close() error {
	if it.closed {
		return nil
	}
	it.closed = true
	return it.cursor.close()
}
