package state

import (
	"bytes"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// diskCursor walks rows in Pebble. It copies what it returns, so that a row stays intact when the handle is taken away.
type diskCursor struct {
	base  *diskBase
	it    *pebble.Iterator // nil once closed
	epoch int
	mode  cursorMode
	begun bool
	done  bool

	q    rowQuery // of keyRowsMode and allRowsMode
	user []byte   // q.key, copied
	segs []int64  // of keyRowsMode: segments not yet visited, in the order of the walk
	// seek is the key sought, and prefix that of all rows of the key in the segment.
	seek, prefix []byte
	// beyond says that the rest of the key's rows in this segment lies outside the query.
	beyond bool

	key, val []byte
}

type cursorMode uint8

const (
	pointsMode  cursorMode = iota // all within the iterator's bounds
	allRowsMode                   // all within the bounds that the query wants
	keyRowsMode                   // the rows of one key, segment by segment
)

func (b *diskBase) points(from, to []byte, reverse bool) (cursor, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, err := b.cursor(pointsMode)
	if err != nil {
		return nil, err
	}
	c.q.reverse = reverse
	lower, upper := b.inc.appendTable(nil, tablePoint), b.inc.appendTable(nil, tablePoint+1)
	if from != nil {
		lower = append(lower, from...)
	}
	if to != nil {
		upper = append(b.inc.appendTable(nil, tablePoint), to...)
	}
	if bytes.Compare(lower, upper) >= 0 {
		c.done = true
		return c, nil
	}
	c.it.SetBounds(lower, upper)
	return c, nil
}

func (b *diskBase) rows(q *rowQuery) (cursor, error) {
	lo, _ := slices.BinarySearch(b.segs, q.fromSeg)
	hi, found := slices.BinarySearch(b.segs, q.toSeg)
	if found {
		hi++
	}
	if lo >= hi {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	mode := keyRowsMode
	if q.all {
		mode = allRowsMode
	}
	c, err := b.cursor(mode)
	if err != nil {
		return nil, err
	}
	c.q = *q
	segs := b.segs[lo:hi]
	if q.all {
		table := b.inc.appendTable(nil, tableOf(b.spec.Kind))
		c.it.SetBounds(appendSegment(slices.Clone(table), segs[0]), appendSegment(table, segs[len(segs)-1]+1))
		return c, nil
	}
	c.user = append(c.user, q.key...)
	c.segs = slices.Clone(segs)
	if q.reverse {
		slices.Reverse(c.segs)
	}
	return c, nil
}

// cursor makes a cursor with an iterator over the row table. The caller holds the mutex.
func (b *diskBase) cursor(mode cursorMode) (*diskCursor, error) {
	it, err := b.borrow()
	if err != nil {
		return nil, err
	}
	c := &diskCursor{base: b, it: it, epoch: b.epoch, mode: mode}
	b.open[c] = struct{}{}
	return c, nil
}

func (c *diskCursor) next(out *item) (bool, error) {
	if c.done {
		return false, nil
	}
	b := c.base
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.it == nil {
		return false, b.gone
	}
	for {
		if !c.move() {
			c.done = true
			return false, b.wrap("read", c.it.Error())
		}
		wanted, err := c.read(out)
		if err != nil || wanted {
			return wanted, err
		}
	}
}

// move steps the iterator to the next row of the walk.
func (c *diskCursor) move() bool {
	if c.mode == keyRowsMode {
		return c.moveInKey()
	}
	first := !c.begun
	c.begun = true
	switch {
	case first && c.q.reverse:
		return c.it.Last()
	case first:
		return c.it.First()
	case c.q.reverse:
		return c.it.Prev()
	default:
		return c.it.Next()
	}
}

// moveInKey steps within the rows of one key, and on to the next segment where they end.
func (c *diskCursor) moveInKey() bool {
	if c.begun && !c.beyond {
		if c.q.reverse && c.it.Prev() && c.inKey() || !c.q.reverse && c.it.Next() {
			return true
		}
	}
	c.beyond = false
	for c.it.Error() == nil && len(c.segs) > 0 {
		seg := c.segs[0]
		c.segs = c.segs[1:]
		c.begun = true
		b := c.base
		c.prefix = b.inc.appendTable(c.prefix[:0], tableOf(b.spec.Kind))
		c.prefix = appendEscaped(appendSegment(c.prefix, seg), c.user)
		c.seek = append(c.seek[:0], c.prefix...)
		if !c.q.reverse {
			c.seek = appendSuffix(c.seek, b.spec.Kind, c.q.from, 0)
			if c.it.SeekPrefixGE(c.seek) { // such an iterator stays within the prefix
				return true
			}
			continue
		}
		c.seek = appendRowsEnd(c.seek, b.spec.Kind, c.q.to)
		if c.it.SeekLT(c.seek) && c.inKey() {
			return true
		}
	}
	return false
}

// inKey tells whether the row is of the segment and key that were sought.
func (c *diskCursor) inKey() bool {
	return bytes.HasPrefix(c.it.Key(), c.prefix)
}

// read copies the row, if it is one that the query wants.
func (c *diskCursor) read(out *item) (wanted bool, err error) {
	b := c.base
	k := c.it.Key()
	*out = item{}
	if c.mode == pointsMode {
		c.key = append(c.key[:0], k[tableAt+1:]...)
	} else {
		c.key, out.seg, out.time, out.extra, err = parseRowKey(c.key[:0], k, b.spec.Kind)
		if err != nil {
			return false, b.errorf("%w", err)
		}
		if !c.q.wants(&row{time: out.time, extra: out.extra}) {
			c.beyond = !c.q.reverse && out.time > c.q.to || c.q.reverse && out.time < c.q.from
			return false, nil
		}
	}
	v, err := c.it.ValueAndErr()
	if err != nil {
		return false, b.wrap("read", err)
	}
	c.val = append(c.val[:0], v...)
	out.key, out.val = c.key, c.val
	if out.key == nil {
		out.key = empty
	}
	if out.val == nil {
		out.val = empty
	}
	return true, nil
}

func (c *diskCursor) close() error {
	c.done = true
	b := c.base
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.it == nil {
		return nil
	}
	it := c.it
	c.it = nil
	delete(b.open, c)
	if c.mode != keyRowsMode && c.epoch == b.epoch {
		from, to := tablesOf(b.spec.Kind)
		it.SetBounds(b.inc.appendTable(nil, from), b.inc.appendTable(nil, to))
	}
	return b.wrap("close an iterator", b.giveBack(it, c.epoch))
}
