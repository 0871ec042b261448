package op

import (
	"cmp"
	"container/heap"
	"strings"

	"github.com/millrace-io/millrace/internal/millis"
)

// dueRow is a row of a store that is to be looked at when a time has come.
type dueRow struct {
	atMs     int64 // the time that orders it
	secondMs int64 // orders rows of one time
	key      string
}

func (a dueRow) compare(b dueRow) int {
	return cmp.Or(cmp.Compare(a.atMs, b.atMs), cmp.Compare(a.secondMs, b.secondMs), strings.Compare(a.key, b.key))
}

// dueIndex finds the rows of a store in the order of a time, where any millisecond may have some (sliding windows by their
// start, sessions by their end). It holds those up to a horizon in memory. When the time that is asked for passes the
// horizon, the rows of the next span are read from the store: each once, so the cost for each row is bounded, and the memory
// is that of one span, not of all open windows. Nothing has to be rebuilt when a task is made.
type dueIndex struct {
	spanMs    int64
	horizonMs int64 // rows below it are in the heap
	rows      dueHeap
	// load reports the rows of the store whose time lies within the bounds, both included, in any order.
	load func(fromMs, toMs int64, add func(atMs, secondMs int64, key []byte)) error
}

// newDueIndex makes the index of rows from a time on; those before it have been dealt with.
func newDueIndex(fromMs, spanMs int64, load func(fromMs, toMs int64, add func(atMs, secondMs int64, key []byte)) error) *dueIndex {
	return &dueIndex{spanMs: max(1, spanMs), horizonMs: max(0, fromMs), load: load}
}

// add tells of a row that was not in the store before. Telling of one twice does no harm; one that is deleted again must be
// passed over by whoever takes it from next.
func (d *dueIndex) add(atMs, secondMs int64, key []byte) {
	if atMs < d.horizonMs {
		heap.Push(&d.rows, dueRow{atMs: atMs, secondMs: secondMs, key: string(key)})
	}
}

// next takes the first row whose time is at most upToMs; ok is false if there is none.
func (d *dueIndex) next(upToMs int64) (r dueRow, ok bool, err error) {
	if upToMs >= d.horizonMs {
		toMs := millis.Add(upToMs/d.spanMs*d.spanMs, d.spanMs-1)
		err := d.load(d.horizonMs, toMs, func(atMs, secondMs int64, key []byte) {
			d.rows = append(d.rows, dueRow{atMs: atMs, secondMs: secondMs, key: string(key)})
		})
		if err != nil {
			return r, false, err
		}
		d.horizonMs = millis.Add(toMs, 1)
		heap.Init(&d.rows)
	}
	if len(d.rows) == 0 || d.rows[0].atMs > upToMs {
		return r, false, nil
	}
	r = heap.Pop(&d.rows).(dueRow)
	for len(d.rows) > 0 && d.rows[0] == r {
		heap.Pop(&d.rows)
	}
	return r, true, nil
}

// dueHeap is a heap of rows, the first on top.
type dueHeap []dueRow

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(dueRow)) }
func (h *dueHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = dueRow{}
	*h = old[:len(old)-1]
	return r
}
