package op

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/tidwall/btree"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// GlobalFactory makes a global store of an instance, with what fills it.
type GlobalFactory interface {
	OpenGlobal(env *Env, step string) (GlobalFeed, error)
}

// GlobalFeed fills a store that every instance holds whole. One goroutine fills it, all tasks read it.
type GlobalFeed interface {
	// Take takes a record of the store's topic. What cannot be read is judged when it comes in, so that a row that no
	// reader could read never gets in, at start or later.
	Take(in *broker.TopicPartition, r *broker.Record) error
	// Store is the store: a GlobalTable.
	Store() any
}

// globalRows are the rows of a global store, by encoded key. A row is never changed once it is there, so it can be read
// outside of the lock.
type globalRows struct {
	mu   sync.RWMutex
	rows map[string][]byte // 8 bytes of timestamp, then the encoded value
	// ordered has the rows in the order of their keys, from the first walk on: most stores are never walked.
	ordered *btree.Map[string, []byte]
}

func (g *globalRows) get(key []byte) (local []byte, ok bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	local, ok = g.rows[string(key)]
	return local, ok
}

// set sets a row, or deletes it if value is nil.
func (g *globalRows) set(key, value []byte, tsMs int64) {
	var local []byte
	if value != nil {
		local = make([]byte, 0, 8+len(value))
		local = binary.BigEndian.AppendUint64(local, uint64(tsMs))
		local = append(local, value...)
	}
	k := string(key)
	g.mu.Lock()
	defer g.mu.Unlock()
	if local == nil {
		delete(g.rows, k)
		if g.ordered != nil {
			g.ordered.Delete(k)
		}
		return
	}
	g.rows[k] = local
	if g.ordered != nil {
		g.ordered.Set(k, local)
	}
}

// snapshot returns the rows as they are now, in order. Copies share what is not changed later.
func (g *globalRows) snapshot() *btree.Map[string, []byte] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ordered == nil {
		g.ordered = new(btree.Map[string, []byte])
		for k, v := range g.rows {
			g.ordered.Set(k, v)
		}
	}
	return g.ordered.Copy()
}

func (g *globalRows) len() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.rows)
}

// GlobalTable is a key-value store that every instance holds whole, in memory.
type GlobalTable[K, V any] struct {
	name  string
	key   serde.Serde[K]
	value serde.Serde[V]
	rows  globalRows
}

func newGlobalTable[K, V any](name string, key serde.Serde[K], value serde.Serde[V]) *GlobalTable[K, V] {
	return &GlobalTable[K, V]{name: name, key: guarded(key), value: guarded(value), rows: globalRows{rows: make(map[string][]byte)}}
}

// Len returns the number of rows.
func (g *GlobalTable[K, V]) Len() int { return g.rows.len() }

// Get reads a row: for tests and queries.
func (g *GlobalTable[K, V]) Get(k K) (v V, ok bool, err error) {
	return (&globalView[K, V]{table: g}).Get(k)
}

// View is the store as a user-written step sees it: it can be read. Each step has a view of its own.
func (g *GlobalTable[K, V]) View() any { return &globalView[K, V]{table: g} }

// GlobalGetter reads a global table.
func GlobalGetter[K, V any](name string) GetterFactory[K, V] {
	return func(env *Env, step string) (Getter[K, V], error) {
		g, ok := env.GlobalStores[name].(*GlobalTable[K, V])
		if !ok {
			return nil, fmt.Errorf("millrace: step %s: there is no global table %s of its types", step, name)
		}
		return &globalView[K, V]{table: g}, nil
	}
}

// globalView reads a global store; the key buffer is its own.
type globalView[K, V any] struct {
	table *GlobalTable[K, V]
	buf   []byte
}

var _ store.KeyValue[string, string] = (*globalView[string, string])(nil)

func (g *globalView[K, V]) encode(k K) ([]byte, error) {
	b, err := g.append(g.buf[:0], k)
	if err != nil {
		return nil, err
	}
	g.buf = b
	return b, nil
}

func (g *globalView[K, V]) append(dst []byte, k K) ([]byte, error) {
	b, err := g.table.key.Append(dst, k)
	if err != nil {
		return dst, fmt.Errorf("millrace: global store %s: key does not encode: %w", g.table.name, err)
	}
	return b, nil
}

// Lookup makes a view a Getter.
func (g *globalView[K, V]) Lookup(k K) (v V, tsMs int64, ok bool, err error) {
	b, err := g.encode(k)
	if err != nil {
		return v, 0, false, err
	}
	local, ok := g.table.rows.get(b)
	if !ok {
		return v, 0, false, nil
	}
	v, tsMs, err = g.table.decode(local)
	return v, tsMs, err == nil, err
}

func (g *GlobalTable[K, V]) decode(local []byte) (v V, tsMs int64, err error) {
	if v, err = g.value.Decode(local[8:]); err != nil {
		return v, 0, fmt.Errorf("millrace: global store %s: a stored value does not decode: %w", g.name, err)
	}
	return v, int64(binary.BigEndian.Uint64(local)), nil
}

// Get returns the value of a key.
func (g *globalView[K, V]) Get(k K) (v V, ok bool, err error) {
	v, _, ok, err = g.Lookup(k)
	return v, ok, err
}

// GetStamped returns the value of a key with its timestamp.
func (g *globalView[K, V]) GetStamped(k K) (store.Stamped[V], bool, error) {
	v, ts, ok, err := g.Lookup(k)
	return store.Stamped[V]{Value: v, TimestampMs: ts}, ok, err
}

// Range walks the keys between two keys, both included, in the order of their bytes.
func (g *globalView[K, V]) Range(from, to K) (store.Iterator[K, V], error) {
	lo, err := g.append(nil, from)
	if err != nil {
		return nil, err
	}
	hi, err := g.append(nil, to)
	if err != nil {
		return nil, err
	}
	it := g.iterator()
	it.from, it.to, it.bounded = string(lo), string(hi), true
	return it, nil
}

// All walks all keys in the order of their bytes.
func (g *globalView[K, V]) All() (store.Iterator[K, V], error) { return g.iterator(), nil }

func (g *globalView[K, V]) iterator() *globalIterator[K, V] {
	return &globalIterator[K, V]{table: g.table, rows: g.table.rows.snapshot().Iter()}
}

func (g *globalView[K, V]) refuse() error {
	return fmt.Errorf("millrace: global store %s is filled from its topic alone: write to the topic instead", g.table.name)
}

// Put is refused.
func (g *globalView[K, V]) Put(K, V) error { return g.refuse() }

// PutStamped is refused.
func (g *globalView[K, V]) PutStamped(K, V, int64, ...serde.Header) error { return g.refuse() }

// Delete is refused.
func (g *globalView[K, V]) Delete(K) error { return g.refuse() }

// globalIterator walks a snapshot.
type globalIterator[K, V any] struct {
	shown[K, V]
	table    *GlobalTable[K, V]
	rows     btree.MapIter[string, []byte]
	from, to string
	bounded  bool
	begun    bool
	closed   bool
}

func (it *globalIterator[K, V]) Next() bool {
	switch {
	case it.closed && it.err == nil:
		it.err = fmt.Errorf("millrace: the iterator is closed")
		return false
	case it.closed || it.err != nil || !it.step() || it.bounded && it.rows.Key() > it.to:
		return false
	}
	if it.k, it.err = it.table.key.Decode([]byte(it.rows.Key())); it.err != nil {
		it.err = fmt.Errorf("millrace: global store %s: a stored key does not decode: %w", it.table.name, it.err)
		return false
	}
	it.v, it.tsMs, it.err = it.table.decode(it.rows.Value())
	return it.err == nil
}

func (it *globalIterator[K, V]) step() bool {
	switch {
	case it.begun:
		return it.rows.Next()
	case it.bounded:
		it.begun = true
		return it.rows.Seek(it.from)
	}
	it.begun = true
	return it.rows.First()
}

func (it *globalIterator[K, V]) Close() error {
	it.closed = true
	return nil
}

// GlobalTableFactory makes a global table: a store that holds its topic's records as they are.
type GlobalTableFactory[K, V any] struct {
	Name  string
	Key   serde.Serde[K]
	Value serde.Serde[V]
}

// OpenGlobal makes an empty table.
func (f *GlobalTableFactory[K, V]) OpenGlobal(env *Env, step string) (GlobalFeed, error) {
	return &globalCopy[K, V]{
		env: env, step: step, table: newGlobalTable(f.Name, f.Key, f.Value),
		nullKey: env.counter(step, metrics.NullKey), failed: env.counter(step, metrics.Deserialization),
	}, nil
}

// globalCopy copies records into a global table.
type globalCopy[K, V any] struct {
	env             *Env
	step            string
	table           *GlobalTable[K, V]
	nullKey, failed *metrics.Counter
}

func (c *globalCopy[K, V]) Store() any { return c.table }

// Take sets or deletes a row: the last record that arrives wins. Records with a null key are dropped and counted; those that
// do not decode go to the deserialization handler.
func (c *globalCopy[K, V]) Take(in *broker.TopicPartition, r *broker.Record) error {
	if r.Key == nil {
		c.nullKey.Inc()
		return nil
	}
	if err := c.check(r); err != nil {
		return c.env.rejectRecord(c.step, in, r, err, c.failed)
	}
	c.table.rows.set(r.Key, r.Value, r.TimestampMs)
	return nil
}

// check decodes key and value.
func (c *globalCopy[K, V]) check(r *broker.Record) error {
	if _, err := c.table.key.Decode(r.Key); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if r.Value != nil {
		if _, err := c.table.value.Decode(r.Value); err != nil {
			return fmt.Errorf("value: %w", err)
		}
	}
	return nil
}
