package state

// Iterator walks rows of one store over all its layers, as they were when it was made.
//
//	for it.Next() { use(it.Key(), it.Value()) }
//	err := it.Err()
//
// Key and Value are valid until the next call of Next or Close and must not be changed. An iterator must be closed, once
// or more often; after Close, Next returns false and Err ErrClosed. One that is left open costs memory, and slows down
// the writes of its store.
type Iterator struct {
	s       *store
	reverse bool
	closed  bool
	err     error
	cursors []cursor
	heads   []item // of each cursor
	live    []bool // whether the cursor has a row in heads
	started bool
	row     item

	room [4]cursor // for the usual number of layers
	hold [4]item
	has  [4]bool
}

func newIterator(s *store, reverse bool) *Iterator {
	it := &Iterator{s: s, reverse: reverse}
	it.cursors, it.heads, it.live = it.room[:0], it.hold[:0], it.has[:0]
	s.iters++
	return it
}

// add appends a layer, newest first. A nil cursor is one without rows.
func (it *Iterator) add(c cursor) {
	if c == nil {
		return
	}
	it.cursors = append(it.cursors, c)
	it.heads = append(it.heads, item{})
	it.live = append(it.live, false)
}

// Next moves to the next row. It returns false at the end and after an error, which Err returns.
func (it *Iterator) Next() bool {
	if it.step() {
		return true
	}
	it.row = item{}
	return false
}

func (it *Iterator) step() bool {
	if it.closed {
		it.err = ErrClosed
	}
	if it.err != nil {
		return false
	}
	if it.err = it.s.set.check(); it.err != nil {
		return false
	}
	if !it.started {
		it.started = true
		for i := range it.cursors {
			if !it.advance(i) {
				return false
			}
		}
	} else if !it.advancePast() {
		return false
	}
	for {
		best := it.best()
		if best < 0 {
			return false
		}
		it.row = it.heads[best]
		if it.row.val != nil {
			return true
		}
		if !it.advancePast() {
			return false
		}
	}
}

// advance moves one cursor.
func (it *Iterator) advance(i int) bool {
	it.live[i], it.err = it.cursors[i].next(&it.heads[i])
	return it.err == nil
}

// advancePast moves all cursors beyond the current row. The row's own one comes last: its memory holds the key that the
// others are compared with.
func (it *Iterator) advancePast() bool {
	own := -1
	for i := range it.cursors {
		if !it.live[i] || compareItems(&it.heads[i], &it.row) != 0 {
			continue
		}
		if own >= 0 && !it.advance(i) {
			return false
		}
		if own < 0 {
			own = i
		}
	}
	return own < 0 || it.advance(own)
}

// best returns the cursor whose row is next; of equal rows, that of the newest layer.
func (it *Iterator) best() int {
	best := -1
	for i := range it.cursors {
		if !it.live[i] {
			continue
		}
		if best < 0 {
			best = i
			continue
		}
		c := compareItems(&it.heads[i], &it.heads[best])
		if it.reverse {
			c = -c
		}
		if c < 0 {
			best = i
		}
	}
	return best
}

// Key is the row's key.
func (it *Iterator) Key() []byte { return it.row.key }

// Value is the row's value.
func (it *Iterator) Value() []byte { return it.row.val }

// StartMs is the start of the row's window or session; 0 for a key-value store.
func (it *Iterator) StartMs() int64 {
	if it.s.spec.Kind == Session {
		if it.row.key == nil {
			return 0
		}
		return unsortable(it.row.extra)
	}
	return it.row.time
}

// EndMs is the end of the row's session; 0 for the other stores, which know starts only.
func (it *Iterator) EndMs() int64 {
	if it.s.spec.Kind == Session {
		return it.row.time
	}
	return 0
}

// Seq is the row's sequence number; 0 unless the store is a window store.
func (it *Iterator) Seq() uint32 {
	if it.s.spec.Kind == Window {
		return uint32(it.row.extra)
	}
	return 0
}

// Err is the error that ended the walk, nil at a regular end.
func (it *Iterator) Err() error { return it.err }

// Close ends the walk. Closing again does nothing.
func (it *Iterator) Close() error {
	if it.closed {
		return nil
	}
	it.closed = true
	it.s.iters--
	it.row = item{}
	var first error
	for _, c := range it.cursors {
		if err := c.close(); err != nil && first == nil {
			first = err
		}
	}
	it.cursors, it.heads, it.live = nil, nil, nil
	it.room, it.hold, it.has = [4]cursor{}, [4]item{}, [4]bool{}
	return first
}
