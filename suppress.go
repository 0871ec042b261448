package millrace

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/window"
)

// Suppression says for how long Table.Suppress holds the updates of a key back, and how many updates it may hold:
// UntilTimeLimit or UntilWindowCloses.
//
// In Kafka Streams: Suppressed.
type Suppression struct {
	closes bool
	wait   time.Duration
	buffer Buffer
	verb   string
}

// UntilTimeLimit sends the last update of a key once d has passed since the first one that is held back. Time is that of
// the records which reach the step, of any key; the wait does not begin again with each update. Deletions are sent too.
//
// A full buffer sends its oldest rows early, unless the buffer says FailWhenFull.
//
// In Kafka Streams: Suppressed.untilTimeLimit.
func UntilTimeLimit(d time.Duration, b Buffer) Suppression {
	return Suppression{wait: d, buffer: b, verb: "UntilTimeLimit"}
}

// UntilWindowCloses sends one result for each key and window of a windowed table, the final one: once time has passed the
// window's end by the grace period of the windowed step before it (of sessions, by the gap and the grace period; where
// several windowed steps lead to the table, by the longest of them). A session, or a sliding window, to which its end belongs,
// leaves once time is beyond that: a record of that very time can still join it. No record joins a session that has
// left: one that comes after that, and is not late, begins another session; unless the step before says Retain, which reopens
// the sessions that it keeps, as in Kafka Streams. A final result that is a deletion is not sent: nobody has seen a value.
//
// An early result would not be final, so the buffer must be Unbounded or say FailWhenFull.
//
// In Kafka Streams: Suppressed.untilWindowCloses.
func UntilWindowCloses(b Buffer) Suppression {
	return Suppression{closes: true, buffer: b, verb: "UntilWindowCloses"}
}

// Buffer bounds what a suppression holds: MaxRecords, MaxBytes or Unbounded. Rows lie in a store of the task, on disk
// unless the step says InMemory; in memory there is only an index, of about 40 bytes and the key for each row.
//
// In Kafka Streams: Suppressed.BufferConfig.
type Buffer struct {
	rows, bytes     int64
	byRows, byBytes bool
	unbounded       bool
	early, failing  bool
}

// MaxRecords bounds a buffer to n rows, one for each key.
//
// In Kafka Streams: BufferConfig.maxRecords.
func MaxRecords(n int64) Buffer { return Buffer{rows: n, byRows: true} }

// MaxBytes bounds a buffer to about n bytes of keys, values and headers, counted as Kafka Streams counts them. It is not
// the memory that the rows take, which lie in a store.
//
// In Kafka Streams: BufferConfig.maxBytes.
func MaxBytes(n int64) Buffer { return Buffer{bytes: n, byBytes: true} }

// Unbounded lets a buffer grow as it must.
//
// In Kafka Streams: BufferConfig.unbounded.
func Unbounded() Buffer { return Buffer{unbounded: true} }

// AndMaxRecords adds a bound in rows to one in bytes; the buffer is full when it passes either.
//
// In Kafka Streams: BufferConfig#withMaxRecords.
func (b Buffer) AndMaxRecords(n int64) Buffer {
	b.rows, b.byRows = n, true
	return b
}

// AndMaxBytes adds a bound in bytes to one in rows; the buffer is full when it passes either.
//
// In Kafka Streams: BufferConfig#withMaxBytes.
func (b Buffer) AndMaxBytes(n int64) Buffer {
	b.bytes, b.byBytes = n, true
	return b
}

// EmitEarlyWhenFull sends the rows that have waited longest before their time when the buffer is full. It is the default
// of a buffer with a bound.
//
// In Kafka Streams: BufferConfig#emitEarlyWhenFull.
func (b Buffer) EmitEarlyWhenFull() Buffer {
	b.early = true
	return b
}

// FailWhenFull makes it an error if the buffer is full, which the processing handler judges; without one the application
// stops. A handler that says Continue keeps the row that was too much: the buffer then grows beyond its bound, and nothing
// is lost.
//
// In Kafka Streams: BufferConfig#shutDownWhenFull.
func (b Buffer) FailWhenFull() Buffer {
	b.failing = true
	return b
}

// String spells the buffer as it was declared.
func (b Buffer) String() string {
	var calls []string
	if b.unbounded {
		calls = append(calls, "Unbounded()")
	}
	if b.byRows {
		calls = append(calls, fmt.Sprintf("MaxRecords(%d)", b.rows))
	}
	if b.byBytes {
		calls = append(calls, fmt.Sprintf("MaxBytes(%d)", b.bytes))
	}
	if b.early {
		calls = append(calls, "EmitEarlyWhenFull()")
	}
	if b.failing {
		calls = append(calls, "FailWhenFull()")
	}
	return strings.Join(calls, ".")
}

// leastRowBytes is what any row counts for: the fixed parts of its context and its time.
const leastRowBytes = 8 + 8 + 8 + 4

// check refuses what cannot be.
func (b Buffer) check(s *step, sup Suppression) {
	bounded := b.byRows || b.byBytes
	switch {
	case !bounded && !b.unbounded:
		s.errorf("Suppress: %s needs a buffer: millrace.MaxRecords(n), MaxBytes(n) or Unbounded()", sup.verb)
	case bounded && b.unbounded:
		s.errorf("Suppress: the buffer %s is both bounded and not; leave one out", b)
	case b.byRows && b.rows < 0 || b.byBytes && b.bytes < 0:
		s.errorf("Suppress: the buffer %s has a negative bound", b)
	case b.early && b.failing:
		s.errorf("Suppress: the buffer %s is to emit early and to fail; leave one out", b)
	case b.unbounded && (b.early || b.failing):
		s.errorf("Suppress: the buffer %s is never full; leave out what it is to do then, or give it a bound", b)
	case b.failing && b.byRows && b.rows == 0:
		s.errorf("Suppress: the buffer %s holds no row and would fail at the first record", b)
	case b.failing && b.byBytes && b.bytes < leastRowBytes:
		s.errorf("Suppress: the buffer %s is too small for any row, which counts for %d bytes and more, and would fail at the first record", b, leastRowBytes)
	case sup.closes && bounded && !b.failing:
		s.errorf("Suppress: %s with the buffer %s could emit a result before it is final; use millrace.Unbounded(), or add FailWhenFull()", sup.verb, b)
	}
}

// Suppress holds the updates of a table back, so that only the last one of each key is sent on, once it has waited long
// enough: see UntilTimeLimit and UntilWindowCloses. It must not follow a versioned table.
//
// Time is the highest timestamp that has reached the step, of any key: on a topic that falls silent nothing is sent,
// unless its source has an idle timeout. It is restored after a restart, as is what was held back. Updates leave in the
// order of the time from which they wait (the end of the window, or the first update's timestamp), then of their keys'
// bytes. Each carries the timestamp and headers of the update itself, not those of the record that released it. Steps that
// group the table take out again what was sent last of a key, and nothing where nothing was sent.
//
// Steps that look rows up in the suppressed table find what has been sent: of a row that is held back, the value that it
// had before.
//
// It has a store for the rows with a changelog topic, and the table before it keeps its rows too. Both need a name: with
// As(n) the step is n and its store n-store. Each record costs a read and a write of the store, and a place in an index.
// A full buffer that is to fail is an error that goes to the processing handler, see Buffer.FailWhenFull.
//
// Options: As, or StoreName, or AutoName; NodeName, InMemory, LogConfig, WithoutLog, WithKey, WithValue.
//
// In Kafka Streams: KTable#suppress.
func (t Table[K, V]) Suppress(sup Suppression, opts ...StepOption) Table[K, V] {
	s := t.t.b.begin("Suppress", opts, optAs, optNode, optStore, optAuto, optMemory, optLogConfig, optNoLog, optKey, optValue)
	// A given name uses up no number here.
	node := s.nodeGiven()
	if node == "" {
		node = s.b.t.NextName("KTABLE-SUPPRESS-")
	}
	store := s.store
	if store == "" && s.as != "" {
		store = s.as + "-store"
	}
	auto := store == ""
	if auto {
		store = s.b.t.NextStoreName("KTABLE-SUPPRESS-")
	}
	s.requireName(!auto, "a store")
	key, value := keySerde(s, t.t.key), valueSerde(s, t.t.value)
	out := &table[K, V]{
		b: s.b, node: node, sources: t.t.sources, key: key, value: value, spec: &op.TableSpec{Store: store},
		upstream: t.t.lineage(), before: t.t.needBefore,
	}
	spec := op.SuppressSpec[K, V]{
		Table: out.spec, Key: key, Value: value, WaitMs: sup.wait.Milliseconds(),
		MaxRows: math.MaxInt64, MaxBytes: math.MaxInt64, Fail: sup.buffer.failing, Bound: sup.buffer.String(),
	}
	if sup.buffer.byRows {
		spec.MaxRows = sup.buffer.rows
	}
	if sup.buffer.byBytes {
		spec.MaxBytes = sup.buffer.bytes
	}
	switch {
	case sup.verb == "":
		s.errorf("Suppress: say for how long: millrace.UntilTimeLimit or millrace.UntilWindowCloses")
	case sup.closes:
		sup.buffer.check(s, sup)
		spec.StartMs, spec.DropDeletions = windowEnd[K](), true
		wait, chain, ok := s.b.closesAfter(t.t.node)
		switch {
		case spec.StartMs == nil:
			s.errorf("Suppress: UntilWindowCloses needs a table whose keys have windows (window.Key), as a windowed aggregation makes it; this one has keys of type %T", *new(K))
		case !ok:
			s.errorf("Suppress: UntilWindowCloses does not know when windows close: no windowed aggregation stands before %s", chain)
		case wait == neverCloses:
			s.errorf("Suppress: an unlimited window never closes, so UntilWindowCloses would send nothing; use millrace.UntilTimeLimit")
		}
		spec.WaitMs = wait
	default:
		sup.buffer.check(s, sup)
		if sup.wait < 0 {
			s.errorf("Suppress: UntilTimeLimit has a negative time, %s", sup.wait)
		}
		if sup.wait%time.Millisecond != 0 {
			s.errorf("Suppress: UntilTimeLimit takes whole milliseconds, not %s: timestamps have no finer parts", sup.wait)
		}
	}
	if t.t.versioned() {
		s.errorf("Suppress: a versioned table, or one derived from it without a store of its own, cannot be suppressed: its updates speak of the past too, and holding them back would mix times; suppress a table that keeps its rows in a plain store")
	}
	t.t.oldValues(s)
	parent, parentStores := t.t.lookup(s)
	s.b.t.AddProcessor(topology.Processor{Name: node, Parents: []string{t.t.node}, Op: op.NewSuppress(spec), Pos: s.pos})
	s.checkSerde("store "+store, key, value)
	if key == nil || value == nil {
		s.storeSerdes(store, key == nil, value == nil)
	} else {
		s.b.t.AddStore(topology.Store{
			Name: store, Kind: topology.Buffer, Persistent: !s.inMemory, Logged: !s.noLog, TopicConfigs: maps.Clone(s.topicConfig),
			Auto: auto, Pos: s.pos, Def: out.spec, HoldsBack: true,
			Op: &op.BufferFactory{Spec: op.StoreSpec{Name: store, Logged: !s.noLog}},
		}, node)
	}
	out.lookup = func(*step) (op.GetterFactory[K, V], []string) {
		return op.SuppressGetter(store, key, value, parent), append([]string{store}, parentStores...)
	}
	out.sendOld = func() bool {
		out.spec.SendOld = true
		return true
	}
	return Table[K, V]{t: out}
}

// windowEnd finds the end of the window of a key; nil where keys have none.
func windowEnd[K any]() func(k *K) int64 {
	type bounded interface{ Bounds() window.Window }
	if _, ok := any(new(K)).(bounded); !ok {
		return nil
	}
	return func(k *K) int64 { return any(k).(bounded).Bounds().EndMs }
}

// neverCloses stands for windows without an end.
const neverCloses = math.MaxInt64

// closesAfter finds how long after its end the windows of a node's results are closed, by the windowed steps before it,
// on every path that leads to it; the longest of them counts. Where a path has none, ok is false and chain shows it.
//
// In Kafka Streams: GraphGraceSearchUtil.
func (b *Builder) closesAfter(node string) (ms int64, chain string, ok bool) {
	if ms, ok := b.closeMs[node]; ok {
		return ms, "", true
	}
	parents := b.t.Parents(node)
	for _, p := range parents {
		up, above, ok := b.closesAfter(p)
		if !ok {
			return 0, above + " -> " + node, false
		}
		ms = max(ms, up)
	}
	return ms, node, len(parents) > 0
}
