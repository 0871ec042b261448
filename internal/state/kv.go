package state

// KV is a key-value store. Keys and values are bytes; a value may be empty but not nil.
type KV struct{ s *store }

// Get returns the value of a key. The value is valid until the next call on the Set and must not be changed. A hit in the
// layers costs a look-up in each of them and allocates nothing; a miss goes to the base, for a persistent store a read of
// a microsecond or three.
func (k *KV) Get(key []byte) (value []byte, ok bool, err error) { return k.s.getPoint(key) }

// Put sets the value of a key in the private layer. It copies both. A nil value is stored as an empty one.
func (k *KV) Put(key, value []byte) error {
	if value == nil {
		value = empty
	}
	return k.s.putPoint(key, value)
}

// Delete removes a key. Removing one that is not there is no error.
func (k *KV) Delete(key []byte) error { return k.s.putPoint(key, nil) }

// Range walks the keys with from <= key < to in the order of their bytes, or in the opposite order; a nil bound is open.
// The iterator shows the store as it is now: later writes do not show. See Iterator.
func (k *KV) Range(from, to []byte, reverse bool) (*Iterator, error) {
	return k.s.rangePoints(from, to, reverse)
}

// ApproximateEntries is the number of keys: exact for a store in memory and for a small one on disk, otherwise estimated
// from the sizes of files. Entries that are not yet in the base count as new keys unless the base is memory.
func (k *KV) ApproximateEntries() (int64, error) { return k.s.approximateEntries() }

// Spec describes the store.
func (k *KV) Spec() Spec { return k.s.spec }

func (s *store) rangePoints(from, to []byte, reverse bool) (*Iterator, error) {
	if err := s.set.check(); err != nil {
		return nil, err
	}
	it := newIterator(s, reverse)
	it.add(s.private.points.cursor(from, to, reverse))
	for i := len(s.pending) - 1; i >= 0; i-- {
		it.add(s.pending[i].points.cursor(from, to, reverse))
	}
	it.add(s.sealed.points.cursor(from, to, reverse))
	c, err := s.base.points(from, to, reverse)
	if err != nil {
		_ = it.Close()
		return nil, err
	}
	it.add(c)
	return it, nil
}

func (s *store) approximateEntries() (int64, error) {
	if err := s.set.check(); err != nil {
		return 0, err
	}
	n, err := s.base.count()
	if err != nil {
		return 0, err
	}
	if s.memory == nil {
		n += int64(s.sealed.points.len() + s.private.points.len())
		for _, l := range s.pending {
			n += int64(l.points.len())
		}
		return n, nil
	}
	// Count what the layers add to a base in memory: each key is judged where it is newest.
	layers := append([]*layer{s.private}, reversed(s.pending)...)
	for i, l := range layers {
		l.points.each(func(key string, val []byte) {
			for _, newer := range layers[:i] {
				if _, found := newer.points.get(viewBytes(key)); found {
					return
				}
			}
			switch _, inBase := s.memory.p.get(viewBytes(key)); {
			case val != nil && !inBase:
				n++
			case val == nil && inBase:
				n--
			}
		})
	}
	return n, nil
}

func reversed(layers []*layer) []*layer {
	out := make([]*layer, 0, len(layers))
	for i := len(layers) - 1; i >= 0; i-- {
		out = append(out, layers[i])
	}
	return out
}
