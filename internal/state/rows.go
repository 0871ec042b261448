package state

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// rows is a table of window or session rows: a layer's, or the base of a memory store. It is a hash map by key in each
// segment; the few rows of one key in one segment lie in a sorted slice.
type rows struct {
	segs  map[int64]*segment
	last  *segment // the one used last
	count int

	arena arena
	bytes int64 // keys and values that lie outside the arena
	base  bool  // each row has its own allocations, counted in bytes
}

type segment struct {
	id   int64
	keys map[string]*keyRows
}

type keyRows struct {
	key  string
	rows []row
	one  [1]row // most keys have one row in a segment
}

type row struct {
	time  int64
	extra uint64
	val   []byte
}

func (r *row) compare(time int64, extra uint64) int {
	switch {
	case r.time < time:
		return -1
	case r.time > time:
		return 1
	case r.extra < extra:
		return -1
	case r.extra > extra:
		return 1
	}
	return 0
}

func newRows() *rows { return &rows{segs: make(map[int64]*segment)} }

func (t *rows) size() int64 {
	if t == nil {
		return 0
	}
	return t.arena.held + t.bytes + int64(t.count)*entryOverhead
}

func (t *rows) segment(id int64) *segment {
	if t.last != nil && t.last.id == id {
		return t.last
	}
	s := t.segs[id]
	if s != nil {
		t.last = s
	}
	return s
}

func (t *rows) makeSegment(id int64) *segment {
	if s := t.segment(id); s != nil {
		return s
	}
	s := &segment{id: id, keys: make(map[string]*keyRows)}
	t.segs[id] = s
	t.last = s
	return s
}

// search returns the place of a row and whether it is there. Most accesses are to the last row of a key.
func (k *keyRows) search(time int64, extra uint64) (int, bool) {
	n := len(k.rows)
	if n == 0 {
		return 0, false
	}
	switch c := k.rows[n-1].compare(time, extra); {
	case c == 0:
		return n - 1, true
	case c < 0:
		return n, false
	}
	lo, hi := 0, n-1
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if k.rows[mid].compare(time, extra) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, k.rows[lo].compare(time, extra) == 0
}

// get returns a row's value; a deletion is found with a nil value.
func (t *rows) get(seg int64, key []byte, time int64, extra uint64) (val []byte, found bool) {
	if t == nil {
		return nil, false
	}
	s := t.segment(seg)
	if s == nil {
		return nil, false
	}
	k := s.keys[string(key)]
	if k == nil {
		return nil, false
	}
	i, ok := k.search(time, extra)
	if !ok {
		return nil, false
	}
	return k.rows[i].val, true
}

// put sets a copy of the value, or a deletion if it is nil. inPlace permits to overwrite the bytes of the old value.
func (t *rows) put(seg int64, key []byte, time int64, extra uint64, val []byte, inPlace bool) {
	s := t.makeSegment(seg)
	k := s.keys[string(key)]
	if k == nil {
		k = &keyRows{key: t.arena.text(key)}
		k.rows = k.one[:0]
		s.keys[k.key] = k
	}
	i, ok := k.search(time, extra)
	if ok {
		old := k.rows[i].val
		if inPlace && len(val) > 0 && len(val) <= cap(old) {
			old = old[:len(val)]
			copy(old, val)
			k.rows[i].val = old
			return
		}
	}
	if val != nil {
		val = t.arena.copy(val)
	}
	t.set(k, i, ok, row{time, extra, val})
}

func (t *rows) set(k *keyRows, i int, replace bool, r row) {
	if replace {
		k.rows[i] = r
		return
	}
	k.rows = slices.Insert(k.rows, i, r)
	t.count++
}

// adopt sets a value that is never changed again, under a key that is kept; neither is copied.
func (t *rows) adopt(seg int64, key string, r row) {
	s := t.makeSegment(seg)
	k := s.keys[key]
	if k == nil {
		k = &keyRows{key: key}
		k.rows = k.one[:0]
		s.keys[key] = k
	}
	i, ok := k.search(r.time, r.extra)
	t.set(k, i, ok, r)
}

// store sets a copy of a row in a base that lives long.
func (t *rows) store(seg int64, key string, r row, inPlace bool) {
	s := t.makeSegment(seg)
	k := s.keys[key]
	if k == nil {
		k = &keyRows{key: strings.Clone(key)}
		k.rows = k.one[:0]
		s.keys[k.key] = k
		t.bytes += int64(len(key))
	}
	i, ok := k.search(r.time, r.extra)
	if ok {
		old := k.rows[i].val
		t.bytes += int64(len(r.val) - len(old))
		if inPlace && len(r.val) > 0 && len(r.val) <= cap(old) && cap(old) <= 2*len(r.val)+64 {
			old = old[:len(r.val)]
			copy(old, r.val)
			k.rows[i].val = old
			return
		}
	} else {
		t.bytes += int64(len(r.val))
	}
	r.val = clone(r.val)
	t.set(k, i, ok, r)
}

// remove takes a row out of a base.
func (t *rows) remove(seg int64, key string, time int64, extra uint64) {
	s := t.segment(seg)
	if s == nil {
		return
	}
	k := s.keys[key]
	if k == nil {
		return
	}
	i, ok := k.search(time, extra)
	if !ok {
		return
	}
	t.bytes -= int64(len(k.rows[i].val))
	k.rows = slices.Delete(k.rows, i, i+1)
	t.count--
	if len(k.rows) == 0 {
		t.bytes -= int64(len(k.key))
		delete(s.keys, key)
	}
}

// dropBelow drops all segments before the given one.
func (t *rows) dropBelow(seg int64) {
	if t == nil {
		return
	}
	for id, s := range t.segs {
		if id >= seg {
			continue
		}
		for _, k := range s.keys {
			t.count -= len(k.rows)
			if t.base {
				t.bytes -= int64(len(k.key))
				for i := range k.rows {
					t.bytes -= int64(len(k.rows[i].val))
				}
			}
		}
		delete(t.segs, id)
	}
	if t.last != nil && t.last.id < seg {
		t.last = nil
	}
}

// ids returns the segments from one to another in ascending order.
func (t *rows) ids(from, to int64) []int64 {
	var ids []int64
	for id, s := range t.segs {
		if id >= from && id <= to && len(s.keys) > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// sorted calls fn for each row in the order of segments, keys, times.
func (t *rows) sorted(fn func(seg int64, key string, r row) error) error {
	if t == nil {
		return nil
	}
	for _, id := range t.ids(math.MinInt64, math.MaxInt64) {
		s := t.segs[id]
		for _, key := range slices.Sorted(maps.Keys(s.keys)) {
			for _, r := range s.keys[key].rows {
				if err := fn(id, key, r); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// each calls fn for each row in no order.
func (t *rows) each(fn func(seg int64, key string, r row)) {
	if t == nil {
		return
	}
	for id, s := range t.segs {
		for key, k := range s.keys {
			for _, r := range k.rows {
				fn(id, key, r)
			}
		}
	}
}

// rowQuery selects rows of a window or session store.
type rowQuery struct {
	key            []byte // of one key; nil with all set
	all            bool
	from, to       int64 // of time, both included
	fromSeg, toSeg int64
	maxExtra       uint64
	reverse        bool
	// brief says that the rows are those of one key, and that nothing is written before the iterator is closed: what lies in memory
	// is not copied then, and who takes the first row only does not pay for all.
	brief bool
}

func (q *rowQuery) wants(r *row) bool {
	return r.time >= q.from && r.time <= q.to && r.extra <= q.maxExtra
}

// cursor walks the rows that a query selects.
func (t *rows) cursor(q *rowQuery) cursor {
	if t == nil || t.count == 0 {
		return nil
	}
	if !q.all {
		return t.keyCursor(q)
	}
	var items []item
	for _, id := range t.ids(q.fromSeg, q.toSeg) {
		first := len(items)
		for _, k := range t.segs[id].keys {
			items = appendItems(items, id, k.key, k.rows, q)
		}
		slices.SortFunc(items[first:], func(a, b item) int { return compareItems(&a, &b) })
	}
	return newSortedCursor(items, q.reverse)
}

// fewSegments is up to how many segments are looked up one by one, instead of searching the list of those that there are.
const fewSegments = 16

// keyCursor walks the rows of one key.
func (t *rows) keyCursor(q *rowQuery) cursor {
	if q.brief {
		return t.briefCursor(q)
	}
	if q.toSeg-q.fromSeg >= fewSegments || q.toSeg < q.fromSeg {
		var items []item
		for _, id := range t.ids(q.fromSeg, q.toSeg) {
			if k := t.segs[id].keys[string(q.key)]; k != nil {
				items = appendItems(items, id, k.key, k.between(q.from, q.to), q)
			}
		}
		return newSortedCursor(items, q.reverse)
	}
	// The usual case, a step that reads a few segments for each record: one allocation for the rows.
	var found [fewSegments]struct {
		key  string
		rows []row
	}
	n := 0
	for id := q.fromSeg; id <= q.toSeg; id++ {
		if s := t.segment(id); s != nil {
			if k := s.keys[string(q.key)]; k != nil {
				f := &found[id-q.fromSeg]
				f.key, f.rows = k.key, k.between(q.from, q.to)
				n += len(f.rows)
			}
		}
	}
	if n == 0 {
		return nil
	}
	items := make([]item, 0, n)
	for i := range found {
		items = appendItems(items, q.fromSeg+int64(i), found[i].key, found[i].rows, q)
	}
	return newSortedCursor(items, q.reverse)
}

// between returns the rows of a span of time, both ends included.
func (k *keyRows) between(from, to int64) []row {
	lo, _ := k.search(from, 0)
	hi, found := k.search(to, math.MaxUint64)
	if found {
		hi++
	}
	return k.rows[lo:max(lo, hi)]
}

func appendItems(items []item, seg int64, key string, rows []row, q *rowQuery) []item {
	for i := range rows {
		if r := &rows[i]; q.wants(r) {
			items = append(items, item{seg, viewBytes(key), r.time, r.extra, r.val})
		}
	}
	return items
}

// briefCursor walks the rows of one key where they lie.
func (t *rows) briefCursor(q *rowQuery) cursor {
	ids := t.ids(q.fromSeg, q.toSeg)
	if q.reverse {
		slices.Reverse(ids)
	}
	return &briefCursor{t: t, q: *q, ids: ids}
}

type briefCursor struct {
	t    *rows
	q    rowQuery
	ids  []int64 // of segments not begun yet, in the order of the walk
	seg  int64
	key  string
	rows []row // of the segment, not walked yet
}

func (c *briefCursor) next(it *item) (bool, error) {
	for {
		for len(c.rows) > 0 {
			var r *row
			if n := len(c.rows) - 1; c.q.reverse {
				r, c.rows = &c.rows[n], c.rows[:n]
			} else {
				r, c.rows = &c.rows[0], c.rows[1:]
			}
			if c.q.wants(r) {
				*it = item{c.seg, viewBytes(c.key), r.time, r.extra, r.val}
				return true, nil
			}
		}
		if len(c.ids) == 0 {
			return false, nil
		}
		c.seg, c.ids = c.ids[0], c.ids[1:]
		if k := c.t.segs[c.seg].keys[string(c.q.key)]; k != nil {
			c.key, c.rows = k.key, k.between(c.q.from, c.q.to)
		}
	}
}

func (c *briefCursor) close() error {
	c.t, c.ids, c.rows = nil, nil, nil
	return nil
}
