package state

// base is the lowest layer of a store. Keys and values that it returns are valid until the next call on the store.
type base interface {
	point(key []byte) (val []byte, ok bool, err error)
	row(seg int64, key []byte, time int64, extra uint64) (val []byte, ok bool, err error)
	// points and rows return nil for a cursor that would find nothing.
	points(from, to []byte, reverse bool) (cursor, error)
	rows(q *rowQuery) (cursor, error)
	meta(key string) (int64, bool)
	metas(func(key string, v int64))
	observed() int64 // noObserved if none
	// count tells the number of entries, about.
	count() (int64, error)
	size() int64
}

// memoryBase is the base of a store that lives in memory only.
type memoryBase struct {
	p     *points
	r     *rows
	m     map[string]int64
	high  int64
	iters *int // open iterators of the store
}

func newMemoryBase(spec Spec, iters *int) *memoryBase {
	b := &memoryBase{m: make(map[string]int64), high: noObserved, iters: iters}
	if spec.windowed() {
		b.r = newRows()
		b.r.base = true
	}
	if spec.hasPoints() {
		b.p = newPoints(spec.Ordered, 0)
	}
	return b
}

func (b *memoryBase) point(key []byte) ([]byte, bool, error) {
	v, ok := b.p.get(key)
	return v, ok, nil
}

func (b *memoryBase) row(seg int64, key []byte, time int64, extra uint64) ([]byte, bool, error) {
	v, ok := b.r.get(seg, key, time, extra)
	return v, ok, nil
}

func (b *memoryBase) points(from, to []byte, reverse bool) (cursor, error) {
	return b.p.cursor(from, to, reverse), nil
}

func (b *memoryBase) rows(q *rowQuery) (cursor, error) { return b.r.cursor(q), nil }

func (b *memoryBase) meta(key string) (int64, bool) {
	v, ok := b.m[key]
	return v, ok
}

func (b *memoryBase) metas(fn func(string, int64)) {
	for k, v := range b.m {
		fn(k, v)
	}
}

func (b *memoryBase) observed() int64 { return b.high }

func (b *memoryBase) count() (int64, error) {
	n := int64(b.p.len())
	if b.r != nil {
		n += int64(b.r.count)
	}
	return n, nil
}

func (b *memoryBase) size() int64 { return b.p.size() + b.r.size() + int64(len(b.m))*metaOverhead }

// merge takes a decided layer in. Values are copied: a layer's memory is shared by all its entries.
func (b *memoryBase) merge(l *layer, minSeg int64) {
	inPlace := *b.iters == 0
	l.points.each(func(key string, val []byte) { b.putPoint(key, val, inPlace) })
	b.high = max(b.high, l.observed)
	for k, v := range l.metas {
		if v.deleted {
			delete(b.m, k)
		} else {
			b.m[k] = v.v
		}
	}
	if b.r == nil {
		return
	}
	b.r.dropBelow(minSeg)
	l.rows.each(func(seg int64, key string, r row) { b.putRow(seg, key, r, inPlace) })
}

func (b *memoryBase) putPoint(key string, val []byte, inPlace bool) {
	if val == nil {
		b.p.remove(key)
	} else {
		b.p.store(key, val, inPlace)
	}
}

func (b *memoryBase) putRow(seg int64, key string, r row, inPlace bool) {
	if r.val == nil {
		b.r.remove(seg, key, r.time, r.extra)
	} else {
		b.r.store(seg, key, r, inPlace)
	}
}
