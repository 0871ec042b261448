package op

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// GlobalFactory makes the one store of a global table.
type GlobalFactory interface {
	OpenGlobal() GlobalStore
}

// GlobalStore is a table that every instance holds whole. One goroutine writes it, all tasks read it.
type GlobalStore interface {
	// Check decodes a record as a reader would, so that what cannot be read is judged when it comes in.
	Check(r *broker.Record) error
	// Apply takes a record of the table's topic. Records without a key are for the caller to count and skip.
	Apply(r *broker.Record)
}

// GlobalTable is the GlobalStore of one table, kept in memory by the encoded key.
type GlobalTable[K, V any] struct {
	key   serde.Serde[K]
	value serde.Serde[V]

	mu   sync.RWMutex
	rows map[string][]byte // 8 bytes of timestamp, then the encoded value
}

// GlobalTableFactory makes GlobalTables.
type GlobalTableFactory[K, V any] struct {
	Key   serde.Serde[K]
	Value serde.Serde[V]
}

// OpenGlobal makes an empty table.
func (f *GlobalTableFactory[K, V]) OpenGlobal() GlobalStore {
	return &GlobalTable[K, V]{key: f.Key, value: f.Value, rows: make(map[string][]byte)}
}

// Check decodes key and value.
func (g *GlobalTable[K, V]) Check(r *broker.Record) (err error) {
	defer recovered(&err)
	if _, err := g.key.Decode(r.Key); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if r.Value != nil {
		if _, err := g.value.Decode(r.Value); err != nil {
			return fmt.Errorf("value: %w", err)
		}
	}
	return nil
}

// Apply sets or deletes a row. The last record that arrives wins.
func (g *GlobalTable[K, V]) Apply(r *broker.Record) {
	var local []byte
	if r.Value != nil {
		local = make([]byte, 0, 8+len(r.Value))
		local = binary.BigEndian.AppendUint64(local, uint64(r.TimestampMs))
		local = append(local, r.Value...)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if local == nil {
		delete(g.rows, string(r.Key))
	} else {
		g.rows[string(r.Key)] = local
	}
}

// Len returns the number of rows.
func (g *GlobalTable[K, V]) Len() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return len(g.rows)
}

// GlobalGetter reads a global table.
func GlobalGetter[K, V any](name string) GetterFactory[K, V] {
	return func(env *Env, step string) (Getter[K, V], error) {
		g, ok := env.GlobalStores[name].(*GlobalTable[K, V])
		if !ok {
			return nil, fmt.Errorf("millrace: step %s: there is no global table %s of its types", step, name)
		}
		return &globalGetter[K, V]{table: g}, nil
	}
}

// globalGetter is one task's view: the key buffer is its own.
type globalGetter[K, V any] struct {
	table *GlobalTable[K, V]
	buf   []byte
}

func (g *globalGetter[K, V]) Lookup(k K) (v V, tsMs int64, ok bool, err error) {
	b, err := g.table.key.Append(g.buf[:0], k)
	if err != nil {
		return v, 0, false, err
	}
	g.buf = b
	g.table.mu.RLock()
	local, ok := g.table.rows[string(b)]
	g.table.mu.RUnlock()
	if !ok {
		return v, 0, false, nil
	}
	// A row is never changed once it is in the map, so it can be decoded outside the lock.
	v, err = g.table.value.Decode(local[8:])
	return v, int64(binary.BigEndian.Uint64(local)), err == nil, err
}

// Get reads a row: for tests and queries.
func (g *GlobalTable[K, V]) Get(k K) (v V, ok bool, err error) {
	v, _, ok, err = (&globalGetter[K, V]{table: g}).Lookup(k)
	return v, ok, err
}

// GlobalApply is a record on its way into a global table.
type GlobalApply struct {
	Store   GlobalStore
	Step    string
	In      broker.TopicPartition
	Record  *broker.Record
	Handler processor.Handler // of deserialization
	Metrics *metrics.Registry
}

// ApplyGlobal takes a record into a global table. Records with a null key are dropped and counted; those that do not decode
// go to the deserialization handler, so that a row that no reader could read never gets in, at start or later. Dead letters
// are not written for global tables, as in Kafka Streams. applied tells whether the table changed.
func ApplyGlobal(a GlobalApply) (applied bool, err error) {
	if a.Record.Key == nil {
		a.Metrics.Dropped(a.Step, metrics.NullKey).Inc()
		return false, nil
	}
	cause := a.Store.Check(a.Record)
	if cause == nil {
		a.Store.Apply(a.Record)
		return true, nil
	}
	origin := processor.Metadata{Topic: a.In.Topic, Partition: a.In.Partition, Offset: a.Record.Offset}
	fatal := &FatalError{
		Stage: processor.Deserializing, Step: a.Step, Task: processor.TaskID{Subtopology: -1, Partition: -1}, Origin: origin,
		Err: cause, Hint: "the deserialization error handler decides (millrace.OnDeserializationError): Continue skips the record and counts it",
	}
	if a.Handler == nil {
		return false, fatal
	}
	r, herr := callHandler(a.Handler, processor.Failure{
		Stage: processor.Deserializing, Step: a.Step, Task: fatal.Task, Origin: origin, TimestampMs: a.Record.TimestampMs,
		Headers: a.Record.Headers, Key: a.Record.Key, Value: a.Record.Value, Attempt: 1, Err: cause,
	})
	if herr != nil {
		fatal.Err = fmt.Errorf("%w; and its handler failed: %w", cause, herr)
		return false, fatal
	}
	if r.Action != processor.Continue {
		return false, fatal
	}
	a.Metrics.Dropped(a.Step, metrics.Deserialization).Inc()
	return false, nil
}
