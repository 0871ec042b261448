package state

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tidwall/btree"
)

// item is one row on its way through an iterator. Rows of key-value stores have a key only; those of window and session
// stores are ordered by segment first.
type item struct {
	seg   int64
	key   []byte
	time  int64  // window start or session end
	extra uint64 // sequence number, or session start in sortable form
	val   []byte // nil is a deletion in this layer
}

// compareItems orders rows as Pebble holds them.
func compareItems(a, b *item) int {
	if c := cmp.Compare(a.seg, b.seg); c != 0 {
		return c
	}
	if c := bytes.Compare(a.key, b.key); c != 0 {
		return c
	}
	if c := cmp.Compare(a.time, b.time); c != 0 {
		return c
	}
	return cmp.Compare(a.extra, b.extra)
}

// cursor walks the rows of one layer in order. It shows the layer as it was when the cursor was made.
type cursor interface {
	// next moves to the next row and fills it in. Its slices are valid until the following call.
	next(it *item) (bool, error)
	close() error
}

// sliceCursor walks rows that were gathered beforehand.
type sliceCursor struct {
	items []item
	at    int
}

// newSliceCursor sorts the rows and walks them.
func newSliceCursor(items []item, reverse bool) cursor {
	slices.SortFunc(items, func(a, b item) int { return compareItems(&a, &b) })
	return newSortedCursor(items, reverse)
}

// newSortedCursor walks rows that are in ascending order already. It is nil if there are none.
func newSortedCursor(items []item, reverse bool) cursor {
	if len(items) == 0 {
		return nil
	}
	if reverse {
		slices.Reverse(items)
	}
	return &sliceCursor{items: items}
}

func (c *sliceCursor) next(it *item) (bool, error) {
	if c.at == len(c.items) {
		return false, nil
	}
	*it = c.items[c.at]
	c.at++
	return true, nil
}

func (c *sliceCursor) close() error {
	c.items = nil
	c.at = 0
	return nil
}

// treeCursor walks a B-tree. While the tree is not changed it walks the tree itself; before the first change it is moved
// to a copy.
type treeCursor struct {
	table          *points // nil once closed
	detached       bool    // walks a copy
	tree           *btree.Map[string, *pointEntry]
	iter           btree.MapIter[string, *pointEntry]
	from, to       string
	hasFrom, hasTo bool
	reverse        bool
	started        bool
	done           bool
	last           string // the key returned last
}

func (c *treeCursor) next(it *item) (bool, error) {
	if c.done {
		return false, nil
	}
	if !c.advance() {
		c.done = true
		return false, nil
	}
	e := c.iter.Value()
	if !c.reverse && c.hasTo && e.key >= c.to || c.reverse && c.hasFrom && e.key < c.from {
		c.done = true
		return false, nil
	}
	c.last = e.key
	*it = item{key: viewBytes(e.key), val: e.val}
	return true, nil
}

func (c *treeCursor) advance() bool {
	if c.started {
		if c.reverse {
			return c.iter.Prev()
		}
		return c.iter.Next()
	}
	c.started = true
	c.iter = c.tree.Iter()
	switch {
	case !c.reverse && c.hasFrom:
		return c.iter.Seek(c.from)
	case !c.reverse:
		return c.iter.First()
	case c.hasTo:
		if c.iter.Seek(c.to) { // the first key that is not below the bound
			return c.iter.Prev()
		}
		return c.iter.Last()
	default:
		return c.iter.Last()
	}
}

// detach makes the cursor go on in a copy of its tree.
func (c *treeCursor) detach(tree *btree.Map[string, *pointEntry]) {
	c.detached = true
	c.tree = tree
	if c.started && !c.done {
		c.iter = tree.Iter()
		c.iter.Seek(c.last) // the copy holds it
	}
}

func (c *treeCursor) close() error {
	switch {
	case c.table == nil:
	case c.detached:
		c.table.copies--
	default:
		c.table.cursors = slices.DeleteFunc(c.table.cursors, func(o *treeCursor) bool { return o == c })
	}
	c.table = nil
	c.tree = nil
	c.iter = btree.MapIter[string, *pointEntry]{}
	c.done = true
	return nil
}
