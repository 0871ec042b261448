package state

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// diskBase is the base of a persistent store: a handle on one incarnation in Pebble. Only the newest handle of an
// incarnation is alive.
//
// Its mutex guards every access to Pebble, so that Abandon, DropStore and DB.Close can take the handle away from the
// goroutine that owns the set.
type diskBase struct {
	db   *DB
	spec Spec
	task string
	inc  incarnation

	mu      sync.Mutex
	gone    error                    // set once the handle is closed
	open    map[*diskCursor]struct{} // cursors that walk Pebble
	idle    []*pebble.Iterator       // over the row table, as new as the last write of this store
	epoch   int                      // counts the writes, which make iterators stale
	key     []byte                   // scratch
	val     []byte                   // what point and row returned last
	numbers map[string]int64         // all of tableMeta
	head    Header                   // as on disk
	segs    []int64                  // segments that may hold rows, ascending
}

const maxIdleIterators = 3

func (b *diskBase) errorf(format string, args ...any) error {
	return fmt.Errorf("millrace: store %q of task %s in %s: "+format, append([]any{b.spec.Name, b.task, b.db.opts.Dir}, args...)...)
}

// load reads what is kept in memory: header, metadata, segments. It is called once, before the handle is shared.
func (b *diskBase) load() (err error) {
	b.head = noHeader()
	b.numbers = make(map[string]int64)
	b.open = make(map[*diskCursor]struct{})
	start, end := b.inc.span()
	it, err := b.db.p.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return b.wrap("open", err)
	}
	defer func() {
		if e := it.Close(); e != nil && err == nil {
			err = b.wrap("open", e)
		}
	}()
	if it.SeekGE(b.inc.headerKey()) && len(it.Key()) == incarnationLen+1 && it.Key()[tableAt] == tableHeader {
		v, err := it.ValueAndErr()
		if err != nil {
			return b.wrap("read the header", err)
		}
		if b.head, err = parseHeader(v); err != nil {
			return b.errorf("%w", err)
		}
	}
	for ok := it.SeekGE(b.inc.appendTable(nil, tableMeta)); ok && it.Key()[tableAt] == tableMeta; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return b.wrap("read metadata", err)
		}
		if len(v) != 8 {
			return b.errorf("%w: a number of the metadata has %d bytes", ErrCorrupt, len(v))
		}
		b.numbers[string(it.Key()[tableAt+1:])] = int64(binary.BigEndian.Uint64(v))
	}
	if b.spec.windowed() {
		table := b.inc.appendTable(nil, tableOf(b.spec.Kind))
		for ok := it.SeekGE(table); ok && len(it.Key()) >= rowKeyAt; {
			seg := unsortable(binary.BigEndian.Uint64(it.Key()[tableAt+1:]))
			b.segs = append(b.segs, seg)
			ok = it.SeekGE(appendSegment(slices.Clone(table), seg+1))
		}
	}
	return b.wrap("open", it.Error())
}

// wrap names the store in an error of Pebble and marks damage.
func (b *diskBase) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	if pebble.IsCorruptionError(err) {
		return b.errorf("%s: %w: %w", doing, ErrCorrupt, damage{err})
	}
	return b.errorf("%s: %w", doing, err)
}

// damage is Pebble's error about a damaged file, in one line: the further ones carry details for programs.
type damage struct{ error }

func (d damage) Error() string {
	line, _, _ := strings.Cut(d.error.Error(), "\n")
	return line
}

func (d damage) Unwrap() error { return d.error }

// close closes the handle; later uses return err. It waits for a call that is inside Pebble.
func (b *diskBase) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone != nil {
		return
	}
	b.gone = err
	b.dropIdle()
	for c := range b.open {
		_ = c.it.Close()
		c.it = nil
		delete(b.open, c)
	}
}

// lost returns the error of a handle that was closed.
func (b *diskBase) lost() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gone
}

// dropIdle closes the idle iterators. The caller holds the mutex.
func (b *diskBase) dropIdle() {
	for i, it := range b.idle {
		_ = it.Close()
		b.idle[i] = nil
	}
	b.idle = b.idle[:0]
}

// release closes the idle iterators, unless the handle is in use.
func (b *diskBase) release() {
	if b.mu.TryLock() {
		b.dropIdle()
		b.mu.Unlock()
	}
}

// wrote makes iterators from before a write stale. The caller holds the mutex.
func (b *diskBase) wrote() {
	b.epoch++
	b.dropIdle()
}

// borrow takes an iterator over the row table. The caller holds the mutex.
func (b *diskBase) borrow() (*pebble.Iterator, error) {
	if b.gone != nil {
		return nil, b.gone
	}
	if n := len(b.idle); n > 0 {
		it := b.idle[n-1]
		b.idle[n-1] = nil
		b.idle = b.idle[:n-1]
		return it, nil
	}
	from, to := tablesOf(b.spec.Kind)
	it, err := b.db.p.NewIter(&pebble.IterOptions{
		LowerBound:   b.inc.appendTable(nil, from),
		UpperBound:   b.inc.appendTable(nil, to),
		UseL6Filters: true,
	})
	if err != nil {
		return nil, b.wrap("read", err)
	}
	return it, nil
}

// giveBack returns an iterator that was borrowed in an epoch. The caller holds the mutex.
func (b *diskBase) giveBack(it *pebble.Iterator, epoch int) error {
	if b.gone != nil || epoch != b.epoch || len(b.idle) >= maxIdleIterators || it.Error() != nil {
		return it.Close()
	}
	b.idle = append(b.idle, it)
	return nil
}

func (b *diskBase) point(key []byte) ([]byte, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.key = append(b.inc.appendTable(b.key[:0], tablePoint), key...)
	return b.get()
}

func (b *diskBase) row(seg int64, key []byte, time int64, extra uint64) ([]byte, bool, error) {
	if _, found := slices.BinarySearch(b.segs, seg); !found {
		return nil, false, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.key = b.inc.appendTable(b.key[:0], tableOf(b.spec.Kind))
	b.key = appendLocalRow(b.key, b.spec.Kind, seg, key, time, extra)
	return b.get()
}

// get reads the key in b.key by a prefix seek, which the Bloom filters answer where the key is absent. The caller holds
// the mutex.
func (b *diskBase) get() (val []byte, ok bool, err error) {
	it, err := b.borrow()
	if err != nil {
		return nil, false, err
	}
	if it.SeekPrefixGE(b.key) && string(it.Key()) == string(b.key) {
		var v []byte
		if v, err = it.ValueAndErr(); err == nil {
			b.val = append(b.val[:0], v...)
			val, ok = b.val, true
			if len(val) == 0 {
				val = empty
			}
		}
	} else {
		err = it.Error()
	}
	if e := b.giveBack(it, b.epoch); err == nil {
		err = e
	}
	if err != nil {
		return nil, false, b.wrap("read", err)
	}
	return val, ok, nil
}

func (b *diskBase) meta(key string) (int64, bool) {
	v, ok := b.numbers[key]
	return v, ok
}

func (b *diskBase) metas(fn func(string, int64)) {
	for k, v := range b.numbers {
		fn(k, v)
	}
}

func (b *diskBase) observed() int64 { return b.head.observed }

func (b *diskBase) size() int64 { return 0 }

// countExactly is up to how many rows are counted one by one.
const countExactly = 10_000

func (b *diskBase) count() (n int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	it, err := b.borrow()
	if err != nil {
		return 0, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n > countExactly {
			break
		}
	}
	err = it.Error()
	if e := b.giveBack(it, b.epoch); err == nil {
		err = e
	}
	if err != nil || n <= countExactly {
		return n, b.wrap("count", err)
	}
	est, err := b.estimate()
	return max(n, est), b.wrap("count", err)
}

// estimate derives the number of rows from the tables on disk. A table that holds other stores too counts for the share
// of its bytes.
func (b *diskBase) estimate() (int64, error) {
	start, end := b.inc.span()
	levels, err := b.db.p.SSTables(pebble.WithProperties(), pebble.WithKeyRangeFilter(start, end),
		pebble.WithApproximateSpanBytes())
	if err != nil {
		return 0, err
	}
	var n float64
	for _, level := range levels {
		for i := range level {
			t := &level[i]
			if t.Properties == nil || t.Size == 0 {
				continue
			}
			rows := float64(t.Properties.NumEntries) - 2*float64(t.Properties.NumDeletions)
			n += rows * min(1, float64(t.ApproximateSpanBytes)/float64(t.Size))
		}
	}
	return max(0, int64(n)), nil
}
