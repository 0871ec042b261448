package state

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// entryOverhead is what an entry of a layer takes beside its key and value, about: slice headers and its part of a table.
const entryOverhead = 80

// pointEntry is one key of a points table. A nil value in a layer is a deletion; a base holds none.
type pointEntry struct {
	key string
	val []byte
}

// points is a table of key-value entries: a layer's, or the base of a memory store. Entries lie in a hash index over a
// slice, or in a B-tree where range scans are expected.
//
// Values are replaced in place only where the caller says that no iterator is open, and never once they were adopted from
// another table.
type points struct {
	index   map[string]uint32
	entries []pointEntry

	tree    *btree.Map[string, *pointEntry]
	slab    []pointEntry  // from which entries of the tree are taken
	cursors []*treeCursor // open on the tree; they move to a copy before the tree is changed
	copies  int           // cursors that walk a copy, which shares entries with the tree

	arena arena
	bytes int64 // keys and values that lie outside the arena
}

func newPoints(ordered bool, hint int) *points {
	p := &points{}
	if ordered {
		p.tree = new(btree.Map[string, *pointEntry])
	} else {
		p.index = make(map[string]uint32, hint)
	}
	return p
}

func (p *points) len() int {
	if p == nil {
		return 0
	}
	if p.tree != nil {
		return p.tree.Len()
	}
	return len(p.entries)
}

// size is the memory that the table holds.
func (p *points) size() int64 {
	if p == nil {
		return 0
	}
	return p.arena.held + p.bytes + int64(p.len())*entryOverhead
}

// find returns the entry of a key, nil if there is none.
func (p *points) find(key []byte) *pointEntry {
	if p.tree != nil {
		e, _ := p.tree.Get(viewText(key))
		return e
	}
	i, ok := p.index[string(key)]
	if !ok {
		return nil
	}
	return &p.entries[i]
}

// get returns a key's value; a deletion is found with a nil value.
func (p *points) get(key []byte) (val []byte, found bool) {
	if p == nil {
		return nil, false
	}
	e := p.find(key)
	if e == nil {
		return nil, false
	}
	return e.val, true
}

// put sets a copy of the value, or a deletion if it is nil, under a copy of the key. inPlace permits to overwrite the
// bytes of the old value.
func (p *points) put(key, val []byte, inPlace bool) {
	e := p.find(key)
	if e == nil {
		var v []byte
		if val != nil {
			v = p.arena.copy(val)
		}
		p.insert(p.arena.text(key), v)
		return
	}
	switch {
	case val == nil:
		p.replace(e, nil)
	case inPlace && len(val) > 0 && len(val) <= cap(e.val):
		v := e.val[:len(val)]
		copy(v, val)
		e.val = v
	default:
		p.replace(e, p.arena.copy(val))
	}
}

// adopt sets a value that is never changed again, under a key that is kept; neither is copied. bytes are accounted by the
// caller.
func (p *points) adopt(key string, val []byte) {
	if e := p.find(viewBytes(key)); e != nil {
		p.replace(e, val)
		return
	}
	p.insert(key, val)
}

// store sets a copy of a value in a base that lives long, so each entry has its own allocation.
func (p *points) store(key string, val []byte, inPlace bool) {
	e := p.find(viewBytes(key))
	if e == nil {
		p.bytes += int64(len(key) + len(val))
		p.insert(strings.Clone(key), clone(val))
		return
	}
	p.bytes += int64(len(val) - len(e.val))
	if inPlace && len(val) > 0 && len(val) <= cap(e.val) && cap(e.val) <= 2*len(val)+64 {
		v := e.val[:len(val)]
		copy(v, val)
		e.val = v
		return
	}
	p.replace(e, clone(val))
}

// remove takes a key out of a base.
func (p *points) remove(key string) {
	if p.tree != nil {
		if e, ok := p.tree.Get(key); ok {
			p.detachCursors()
			p.bytes -= int64(len(e.key) + len(e.val))
			p.tree.Delete(key)
		}
		return
	}
	i, ok := p.index[key]
	if !ok {
		return
	}
	e := p.entries[i]
	p.bytes -= int64(len(e.key) + len(e.val))
	delete(p.index, key)
	last := uint32(len(p.entries) - 1)
	if i != last {
		p.entries[i] = p.entries[last]
		p.index[p.entries[i].key] = i
	}
	p.entries[last] = pointEntry{}
	p.entries = p.entries[:last]
}

func (p *points) insert(key string, val []byte) {
	if p.tree == nil {
		p.index[key] = uint32(len(p.entries))
		p.entries = append(p.entries, pointEntry{key, val})
		return
	}
	p.detachCursors()
	p.tree.Set(key, p.treeEntry(key, val))
}

func (p *points) treeEntry(key string, val []byte) *pointEntry {
	if len(p.slab) == cap(p.slab) {
		p.slab = make([]pointEntry, 0, min(max(2*cap(p.slab), 4), 256))
	}
	p.slab = append(p.slab, pointEntry{key, val})
	return &p.slab[len(p.slab)-1]
}

// replace gives an entry another value. Cursors on copies of the tree share its entries, so while there are any the
// tree gets a new one.
func (p *points) replace(e *pointEntry, val []byte) {
	if p.tree != nil {
		p.detachCursors()
		if p.copies > 0 {
			p.tree.Set(e.key, p.treeEntry(e.key, val))
			return
		}
	}
	e.val = val
}

// detachCursors moves all cursors on the tree to a copy of it. A copy costs nothing by itself; later changes copy the
// nodes that both share.
func (p *points) detachCursors() {
	for _, c := range p.cursors {
		c.detach(p.tree.Copy())
		p.copies++
	}
	p.cursors = p.cursors[:0]
}

// sorted calls fn for each entry in the order of keys.
func (p *points) sorted(fn func(key string, val []byte) error) error {
	if p == nil {
		return nil
	}
	if p.tree != nil {
		var err error
		p.tree.Scan(func(_ string, e *pointEntry) bool {
			err = fn(e.key, e.val)
			return err == nil
		})
		return err
	}
	order := make([]uint32, len(p.entries))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return strings.Compare(p.entries[a].key, p.entries[b].key) })
	for _, i := range order {
		if err := fn(p.entries[i].key, p.entries[i].val); err != nil {
			return err
		}
	}
	return nil
}

// each calls fn for each entry in no order.
func (p *points) each(fn func(key string, val []byte)) {
	if p == nil {
		return
	}
	if p.tree != nil {
		p.tree.Scan(func(_ string, e *pointEntry) bool {
			fn(e.key, e.val)
			return true
		})
		return
	}
	for i := range p.entries {
		fn(p.entries[i].key, p.entries[i].val)
	}
}

// cursor walks the entries with from <= key < to; nil bounds are open.
func (p *points) cursor(from, to []byte, reverse bool) cursor {
	if p.len() == 0 {
		return nil
	}
	if p.tree != nil {
		c := &treeCursor{table: p, tree: p.tree, reverse: reverse}
		if from != nil {
			c.from, c.hasFrom = string(from), true
		}
		if to != nil {
			c.to, c.hasTo = string(to), true
		}
		p.cursors = append(p.cursors, c)
		return c
	}
	var items []item
	for i := range p.entries {
		e := &p.entries[i]
		if from != nil && e.key < viewText(from) || to != nil && e.key >= viewText(to) {
			continue
		}
		items = append(items, item{key: viewBytes(e.key), val: e.val})
	}
	return newSliceCursor(items, reverse)
}
