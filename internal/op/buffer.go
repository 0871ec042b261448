package op

import (
	"bytes"
	"fmt"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/serde"
)

// BufferFactory makes the time-ordered buffers below suppressions and below joins with a grace period.
type BufferFactory struct {
	Spec StoreSpec
	// Stream says that the rows are the records of a stream that waits for its table: each has a key of its own, which begins
	// with its time, and is logged when it comes and when it goes. Otherwise there is one row for a key, and what has changed
	// of it is logged once, when the task hands over, under the version of its layout. So does Kafka Streams.
	Stream bool
}

// Open makes the buffer of one task. The rows are those of the store; the index over them is made anew.
func (f *BufferFactory) Open(env *Env) (any, error) {
	kv, err := env.Set.KeyValue(f.Spec.Name)
	if err != nil {
		return nil, err
	}
	b := &timeBuffer{env: env, name: f.Spec.Name, kv: kv, log: newChangelog(env, f.Spec), stream: f.Stream}
	if err := b.rebuild(); err != nil {
		return nil, env.fault(b.name, err)
	}
	if b.log.logged && !b.stream {
		b.isDirty = make(map[string]struct{})
		env.OnFlush(b.logDirty)
	}
	return b, nil
}

// timeBuffer holds rows back until their time has come. The rows stand in a key-value store of the task, so they live
// where its state lives and share its fate: an abort drops what was not handed over, and the task is made anew from the
// rest. Beside the store there is only an index of times and keys.
//
// In Kafka Streams: TimeOrderedKeyValueBuffer, with InMemoryTimeOrderedKeyValueChangeBuffer and
// RocksDBTimeOrderedKeyValueBuffer.
type timeBuffer struct {
	env    *Env
	name   string
	kv     *state.KV
	log    changelog
	stream bool

	index bufferIndex
	bytes int64 // what the rows count for against a bound in bytes

	dirty   []string // keys that have changed since they were last logged, in the order of the first change
	isDirty map[string]struct{}

	origin *broker.TopicPartition // of the row sent last
	topic  []byte                 // of the record that came last
	local  []byte
	heads  []byte
	key    []byte
	isOut  bool // the row of key is being sent
}

// rebuild makes the index from the store.
func (b *timeBuffer) rebuild() error {
	it, err := b.kv.Range(nil, nil, false)
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }()
	for it.Next() {
		row, err := b.parse(it.Key(), it.Value())
		if err != nil {
			return err
		}
		timeMs := row.TimeMs
		if b.stream {
			if timeMs, err = graceTime(it.Key()); err != nil {
				return fmt.Errorf("millrace: buffer %s: key %x: %w", b.name, it.Key(), err)
			}
		}
		b.index = append(b.index, bufferedRow{timeMs: timeMs, key: string(it.Key())})
		b.bytes += row.Memory(it.Key())
	}
	if err := it.Err(); err != nil {
		return err
	}
	b.index.order()
	return nil
}

// rows is the number of rows that wait.
func (b *timeBuffer) rows() int64 { return int64(len(b.index)) }

// firstMs is the time of the row that leaves next.
func (b *timeBuffer) firstMs() (ms int64, ok bool) {
	if len(b.index) == 0 {
		return 0, false
	}
	return b.index[0].timeMs, true
}

// get finds the row of a key. What it returns is valid until the next call on the task's state.
func (b *timeBuffer) get(key []byte) (row codec.Buffered, ok bool, err error) {
	local, ok, err := b.kv.Get(key)
	if err != nil || !ok {
		return row, false, b.env.fault(b.name, err)
	}
	row, err = b.parse(key, local)
	return row, err == nil, b.env.fault(b.name, err)
}

func (b *timeBuffer) parse(key, local []byte) (row codec.Buffered, err error) {
	_, value, err := codec.ParseStamped(local)
	if err == nil {
		row, err = codec.ParseBuffered(value)
	}
	if err != nil {
		return row, fmt.Errorf("millrace: buffer %s: the row of key %x cannot be read: %w", b.name, key, err)
	}
	return row, nil
}

// put lets a row wait. One that waits under its key already is replaced, and keeps its place in the order and its prior
// value: the wait does not begin again.
func (b *timeBuffer) put(key []byte, row *codec.Buffered) error {
	var was codec.Buffered
	var replaces bool
	timeMs := row.TimeMs
	if b.stream {
		timeMs = row.TimestampMs // which its key begins with
	} else {
		var err error
		if was, replaces, err = b.get(key); err != nil {
			return err
		}
	}
	if replaces {
		row.TimeMs, row.Prior = was.TimeMs, was.Prior
		b.bytes -= was.Memory(key)
	}
	b.bytes += row.Memory(key)
	b.local = codec.AppendBuffered(codec.AppendStamp(b.local[:0], row.TimestampMs), row)
	if err := b.kv.Put(key, b.local); err != nil {
		return b.env.fault(b.name, err)
	}
	if !replaces {
		b.index.push(bufferedRow{timeMs: timeMs, key: string(key)})
	}
	return b.changed(key, b.local)
}

// evict sends rows in the order of time, then key, for as long as due says so. A row leaves the buffer after it has been
// sent: until then the steps behind see it wait. An error of send ends it, with the row in its place.
func (b *timeBuffer) evict(due func() bool, send func(key []byte, row *codec.Buffered) error) error {
	for len(b.index) > 0 && due() {
		b.key = append(b.key[:0], b.index[0].key...)
		row, ok, err := b.get(b.key)
		if err != nil {
			return err
		}
		if !ok {
			return b.env.fault(b.name, fmt.Errorf("millrace: buffer %s: the row of key %x is in the index and not in the store", b.name, b.key))
		}
		memory := row.Memory(b.key)
		b.isOut = true
		err = send(b.key, &row)
		b.isOut = false
		if err != nil {
			return err
		}
		if err := b.kv.Delete(b.key); err != nil {
			return b.env.fault(b.name, err)
		}
		b.index.pop()
		b.bytes -= memory
		if err := b.changed(b.key, nil); err != nil {
			return err
		}
	}
	return nil
}

// sends tells whether the row of a key is being sent.
func (b *timeBuffer) sends(key []byte) bool { return b.isOut && bytes.Equal(b.key, key) }

// changed logs a change of a key, or notes that it is to be logged. Either way it is part of what the record in process sends.
func (b *timeBuffer) changed(key, local []byte) error {
	switch {
	case !b.log.logged:
	case b.stream:
		b.write(key, local, nil)
	default:
		b.env.owe(len(key) + len(local))
		if _, noted := b.isDirty[string(key)]; !noted {
			k := string(key)
			b.isDirty[k] = struct{}{}
			b.dirty = append(b.dirty, k)
		}
	}
	return b.env.overflow(b.name)
}

// bufferHeaders tell the layout of a suppression's rows.
var bufferHeaders = serde.Headers{{Key: codec.BufferedVersionHeader, Value: []byte{codec.BufferedVersion}}}

// logDirty logs what has become of the keys that have changed. It comes before the task hands over, after everything that
// flows into the buffer.
func (b *timeBuffer) logDirty() error {
	for _, k := range b.dirty {
		b.key = append(b.key[:0], k...)
		local, ok, err := b.kv.Get(b.key)
		if err != nil {
			return b.env.fault(b.name, err)
		}
		if ok {
			b.write(b.key, local, bufferHeaders)
		} else {
			b.write(b.key, nil, nil)
		}
	}
	clear(b.isDirty)
	b.dirty = b.dirty[:0]
	return nil
}

func (b *timeBuffer) write(key, local []byte, headers serde.Headers) {
	k := b.env.keep(append(b.env.alloc(len(key)), key...))
	if local == nil {
		b.log.logWith(k, nil, nil, max(b.env.cur.tsMs, 0))
		return
	}
	tsMs, value, _ := codec.ParseStamped(local)
	v := b.env.keep(append(b.env.alloc(len(value)), value...))
	b.log.logWith(k, v, headers, tsMs)
}

// row makes the row of the record in process. The headers are written to a buffer of this one's.
func (b *timeBuffer) row(headers serde.Headers, tsMs int64) codec.Buffered {
	row := codec.Buffered{TimestampMs: tsMs, Offset: -1, Partition: -1, HeaderCount: len(headers)}
	if in := b.env.cur.in; in != nil {
		if string(b.topic) != in.Topic {
			b.topic = []byte(in.Topic)
		}
		row.Topic, row.Partition, row.Offset = b.topic, in.Partition, b.env.cur.offset
	}
	b.heads = b.heads[:0]
	for _, h := range headers {
		b.heads = codec.AppendBufferedHeader(b.heads, h.Key, h.Value)
	}
	row.Headers = b.heads
	return row
}

// context is that of the record which a row came from. Nothing in it lies in the store.
func (b *timeBuffer) context(row *codec.Buffered) current {
	c := current{offset: row.Offset, tsMs: row.TimestampMs}
	if row.HeaderCount > 0 {
		c.headers = make(serde.Headers, 0, row.HeaderCount)
		own := append([]byte(nil), row.Headers...)
		for len(own) > 0 {
			var k, v []byte
			k, v, own = codec.NextBufferedHeader(own)
			c.headers = append(c.headers, serde.Header{Key: string(k), Value: v})
		}
	}
	if len(row.Topic) > 0 {
		if b.origin == nil || b.origin.Topic != string(row.Topic) || b.origin.Partition != row.Partition {
			b.origin = &broker.TopicPartition{Topic: string(row.Topic), Partition: row.Partition}
		}
		c.in = b.origin
	}
	return c
}
