package op

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/window"
)

// Fetch walks the windows of one key, by their start.
func (s *WindowStore[K, V]) Fetch(k K, fromMs, toMs int64) (store.Iterator[window.Key[K], V], error) {
	key, err := s.appendKey(nil, k)
	if err != nil {
		return nil, err
	}
	return s.iterate(key, false, fromMs, toMs)
}

// FetchAll walks the windows of all keys.
func (s *WindowStore[K, V]) FetchAll(fromMs, toMs int64) (store.Iterator[window.Key[K], V], error) {
	return s.iterate(nil, true, fromMs, toMs)
}

// waitingRow is a write that still waits in the cache.
type waitingRow[K, V any] struct {
	key  []byte
	k    window.Key[K]
	v    V
	has  bool
	tsMs int64

	headers serde.Headers
}

// iterate walks the byte store and the writes that wait above it. Reading writes nothing out: what a query asks for must
// not change what the steps downstream see.
func (s *WindowStore[K, V]) iterate(key []byte, all bool, fromMs, toMs int64) (store.Iterator[window.Key[K], V], error) {
	var waiting []waitingRow[K, V]
	fromMs = s.fromMs(fromMs)
	err := s.cache.Waiting(func(enc string, k window.Key[K], v V, has bool, tsMs int64) error {
		own := []byte(enc)[:len(enc)-startBytes]
		if k.Window.StartMs >= fromMs && k.Window.StartMs <= toMs && (all || bytes.Equal(own, key)) {
			w := waitingRow[K, V]{key: own, k: k, v: v, has: has, tsMs: tsMs}
			var err error
			w.headers, err = s.cache.Headers([]byte(enc))
			waiting = append(waiting, w)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(waiting, func(a, b waitingRow[K, V]) int {
		return s.compare(a.key, a.k.Window.StartMs, b.key, b.k.Window.StartMs)
	})
	var base *state.Iterator
	if all {
		base, err = s.w.FetchAll(fromMs, toMs, false)
	} else {
		base, err = s.w.Fetch(key, fromMs, toMs, false)
	}
	if err != nil {
		return nil, s.env.fault(s.name, err)
	}
	return &windowIterator[K, V]{s: s, base: base, waiting: waiting}, nil
}

// compare is the order in which the byte store hands out rows: by segment, key, start.
func (s *WindowStore[K, V]) compare(aKey []byte, aMs int64, bKey []byte, bMs int64) int {
	segment := s.w.Spec().SegmentMs
	if c := cmp.Compare(aMs/segment, bMs/segment); c != 0 {
		return c
	}
	if c := bytes.Compare(aKey, bKey); c != 0 {
		return c
	}
	return cmp.Compare(aMs, bMs)
}

type windowIterator[K, V any] struct {
	shown[window.Key[K], V]
	s       *WindowStore[K, V]
	base    *state.Iterator
	waiting []waitingRow[K, V]

	begun  bool
	baseOK bool // base stands on a row not yet returned
	closed bool
}

func (it *windowIterator[K, V]) Next() bool {
	if it.closed && it.err == nil {
		it.err = fmt.Errorf("millrace: the iterator is closed")
	}
	if it.err != nil {
		return false
	}
	if !it.begun {
		it.begun = true
		it.baseOK = it.base.Next()
	}
	for len(it.waiting) > 0 {
		w := it.waiting[0]
		order := -1
		if it.baseOK {
			order = it.s.compare(w.key, w.k.Window.StartMs, it.base.Key(), it.base.StartMs())
		}
		if order > 0 {
			break
		}
		it.waiting = it.waiting[1:]
		if order == 0 {
			it.baseOK = it.base.Next()
		}
		if w.has {
			it.k, it.v, it.tsMs, it.headers = w.k, w.v, w.tsMs, w.headers
			return true
		}
	}
	if !it.baseOK {
		it.err = it.s.env.fault(it.s.name, it.base.Err())
		return false
	}
	k, err := it.s.key.Decode(it.base.Key())
	if err != nil {
		it.err = it.s.damaged(err)
		return false
	}
	it.k = it.s.windowed(k, it.base.StartMs())
	if it.v, it.tsMs, it.err = it.s.cache.Decode(it.base.Value()); it.err != nil {
		return false
	}
	if it.headers, it.err = it.s.cache.DecodeHeaders(it.base.Value()); it.err != nil {
		return false
	}
	it.baseOK = it.base.Next()
	return true
}

// damaged is the error of a stored key that does not decode.
func (s *WindowStore[K, V]) damaged(err error) error {
	return fmt.Errorf("millrace: store %s: a stored key does not decode: %w; has the serde of the store changed?", s.name, err)
}

func (it *windowIterator[K, V]) Close() error {
	if it.closed {
		return nil
	}
	it.closed = true
	return it.base.Close()
}
