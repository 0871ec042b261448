package op

import (
	"slices"
)

// waitingStarts knows which windows of a key have writes that wait in the cache, so that a record need not look through all
// that waits.
type waitingStarts[K, A any] struct {
	out    *windowOut[K, A]
	byKey  map[string][]int64 // ascending
	highMs int64              // the highest start put; -1 before the first
	found  []int64
}

func newWaitingStarts[K, A any](out *windowOut[K, A]) *waitingStarts[K, A] {
	w := &waitingStarts[K, A]{out: out, byKey: make(map[string][]int64), highMs: -1}
	out.env.OnFlush(func() error {
		if err := out.store.FlushCache(); err != nil {
			return err
		}
		clear(w.byKey)
		return nil
	})
	return w
}

func (w *waitingStarts[K, A]) add(key []byte, startMs int64) {
	w.highMs = max(w.highMs, startMs)
	starts := w.byKey[string(key)]
	i, found := slices.BinarySearch(starts, startMs)
	if !found {
		w.byKey[string(key)] = slices.Insert(starts, i, startMs)
	}
}

// starts returns the starts of the key's windows within the bounds, ascending: those in the store and those that wait, some
// of which may be deletions or written by now.
func (w *waitingStarts[K, A]) starts(key []byte, fromMs, toMs int64) ([]int64, error) {
	s := w.out.store
	// A write that waits moves the store's time already.
	fromMs = max(fromMs, max(w.highMs, s.w.ObservedStartMs())-s.w.Spec().RetentionMs+1)
	w.found = w.found[:0]
	it, err := s.w.Fetch(key, fromMs, toMs, false)
	if err != nil {
		return nil, s.env.fault(s.name, err)
	}
	for it.Next() {
		w.found = append(w.found, it.StartMs())
	}
	err = it.Err()
	if cerr := it.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, s.env.fault(s.name, err)
	}
	waiting := w.byKey[string(key)]
	i, _ := slices.BinarySearch(waiting, fromMs)
	for ; i < len(waiting) && waiting[i] <= toMs; i++ {
		w.found = append(w.found, waiting[i])
	}
	slices.Sort(w.found)
	w.found = slices.Compact(w.found)
	return w.found, nil
}
