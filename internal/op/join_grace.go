package op

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// GraceJoinSpec describes a join of a stream with a versioned table in which the stream's records wait.
type GraceJoinSpec[K, V, VT, R any] struct {
	Join    LookupJoinSpec[K, V, K, VT, R]
	Store   string // names the buffer
	GraceMs int64
	Key     serde.Serde[K]
	Value   serde.Serde[V]
}

// NewGraceJoin joins stream records with a versioned table once time has passed them by the grace period, so that rows of
// the table which come late are found. Time is the highest timestamp of the records that came to wait. A record that is
// late by more than the grace period is joined at once, and so is, in a left join, one without a key, which no row can
// meet; neither moves time. Records leave in the order of their timestamps, then of their keys' bytes, then as they came.
//
// In Kafka Streams: KStreamKTableJoinProcessor with a grace period. It fails on a null key of a left join.
func NewGraceJoin[K, V, VT, R any](spec GraceJoinSpec[K, V, VT, R]) Factory {
	inner := NewLookupJoin(spec.Join)
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		sink, err := inner.Build(env, step, children)
		if err != nil {
			return nil, err
		}
		join, ok := sink.(Sink[K, V])
		if !ok {
			return nil, fmt.Errorf("millrace: step %s does not take the records of its stream", step)
		}
		b, err := typedStore[*timeBuffer](env, step, spec.Store)
		if err != nil {
			return nil, err
		}
		j := &graceJoin[K, V]{
			guard: newGuard(env, step), join: join, left: spec.Join.Left, graceMs: spec.GraceMs,
			keySerde: guarded(spec.Key), value: guarded(spec.Value), buffer: b, seq: b.lastSeq(),
		}
		j.due, j.sending = j.isDue, j.send
		env.ObserveTime(spec.Store, &j.observedMs)
		env.OnAdvance(step, j.advance)
		return j, nil
	})
}

type graceJoin[K, V any] struct {
	guard
	join       Sink[K, V] // the join itself, which also judges records without key or value
	left       bool
	graceMs    int64
	keySerde   serde.Serde[K]
	value      serde.Serde[V]
	buffer     *timeBuffer
	seq        uint32 // of the record that came last
	observedMs int64

	due     func() bool
	sending func(key []byte, row *codec.Buffered) error
	key     []byte
	val     []byte
	out     processor.Record[K, V]
}

func (j *graceJoin[K, V]) Process(r *processor.Record[K, V]) error {
	if r.NullKey || r.NullValue || r.TimestampMs < j.observedMs-j.graceMs {
		return j.join.Process(r)
	}
	for attempt := 1; ; attempt++ {
		err := j.hold(r)
		if err == nil {
			break
		}
		if retry, err := j.failed(err, attempt); !retry {
			return err
		}
	}
	return j.advance(r.TimestampMs)
}

// The key of a row in the buffer and its changelog is graceKeyPrefix | timestamp int64 | key | sequence number uint32, in
// big endian, so that the bytes of keys have the order in which rows leave.
//
// In Kafka Streams: PrefixedWindowKeySchemas.TimeFirstWindowKeySchema.
const (
	graceKeyPrefix = 0
	graceKeyHead   = 1 + 8
	graceKeyTail   = 4
	graceSeqMask   = 1<<31 - 1
)

func (j *graceJoin[K, V]) hold(r *processor.Record[K, V]) (err error) {
	k := binary.BigEndian.AppendUint64(append(j.key[:0], graceKeyPrefix), uint64(r.TimestampMs))
	if k, err = j.keySerde.Append(k, r.Key); err != nil {
		return fmt.Errorf("millrace: store %s: key does not encode: %w", j.buffer.name, err)
	}
	v, err := j.value.Append(j.val[:0], r.Value)
	if err != nil {
		return fmt.Errorf("millrace: store %s: value does not encode: %w", j.buffer.name, err)
	}
	if v == nil {
		v = []byte{}
	}
	j.val = v
	j.seq = (j.seq + 1) & graceSeqMask
	j.key = binary.BigEndian.AppendUint32(k, j.seq)
	row := j.buffer.row(r.Headers, r.TimestampMs)
	row.New = v
	return j.buffer.put(j.key, &row)
}

// advance joins the records that have waited long enough.
func (j *graceJoin[K, V]) advance(toMs int64) error {
	j.observedMs = max(j.observedMs, toMs)
	return j.buffer.evict(j.due, j.sending)
}

func (j *graceJoin[K, V]) isDue() bool {
	first, ok := j.buffer.firstMs()
	return ok && first <= j.observedMs-j.graceMs
}

func (j *graceJoin[K, V]) send(key []byte, row *codec.Buffered) error {
	c := j.buffer.context(row)
	return j.env.withContext(c, func() error {
		for attempt := 1; ; attempt++ {
			err := j.decode(key, row)
			if err == nil {
				j.out.TimestampMs, j.out.Headers = c.tsMs, c.headers
				return j.join.Process(&j.out)
			}
			if retry, err := j.failed(err, attempt); !retry {
				return err
			}
		}
	})
}

func (j *graceJoin[K, V]) decode(key []byte, row *codec.Buffered) (err error) {
	j.out = processor.Record[K, V]{}
	if j.out.Key, err = j.keySerde.Decode(key[graceKeyHead : len(key)-graceKeyTail]); err != nil {
		return fmt.Errorf("millrace: store %s: a stored key does not decode: %w; has the serde of the stream changed?", j.buffer.name, err)
	}
	if j.out.Value, err = j.value.Decode(row.New); err != nil {
		return fmt.Errorf("millrace: store %s: a stored value does not decode: %w; has the serde of the stream changed?", j.buffer.name, err)
	}
	return nil
}

// graceTime is the timestamp in the key of a row.
func graceTime(key []byte) (ms int64, err error) {
	if len(key) < graceKeyHead+graceKeyTail || key[0] != graceKeyPrefix {
		return 0, fmt.Errorf("it is no key of a buffer of stream records")
	}
	return int64(binary.BigEndian.Uint64(key[1:])), nil
}

// lastSeq is the highest sequence number of the rows that wait: what comes goes on from there.
func (b *timeBuffer) lastSeq() (seq uint32) {
	for _, w := range b.index {
		seq = max(seq, binary.BigEndian.Uint32([]byte(w.key[len(w.key)-graceKeyTail:])))
	}
	return seq
}
