package op

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// SuppressSpec describes a step that holds the updates of a table back.
type SuppressSpec[K, V any] struct {
	Table *TableSpec // Store names the buffer
	Key   serde.Serde[K]
	Value serde.Serde[V]
	// WaitMs is how long an update waits, from Start on.
	WaitMs int64
	// StartMs is when the wait of a key begins; nil: with the first update of the key that is held back, at its timestamp.
	StartMs func(k *K) int64
	// MaxRows and MaxBytes bound the buffer; Fail says that it must not grow beyond, otherwise its first rows leave early.
	MaxRows, MaxBytes int64
	Fail              bool
	Bound             string // as declared, for errors
	// DropDeletions says that a deletion need not be sent: nobody has seen a value before it.
	DropDeletions bool
}

// NewSuppress holds the updates of a table back and sends only the last one of each key, once it has waited long enough as
// the timestamps go that have reached this step, or once the buffer is full. What is sent carries the timestamp, headers
// and origin of the update, not those of the record that released it. The old value is the one before the first update that
// was held back: the one that was sent last.
//
// In Kafka Streams: KTableSuppressProcessorSupplier.
func NewSuppress[K, V any](spec SuppressSpec[K, V]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[K, Change[V]](step, children)
		if err != nil {
			return nil, err
		}
		b, err := typedStore[*timeBuffer](env, step, spec.Table.Store)
		if err != nil {
			return nil, err
		}
		spec.Key, spec.Value = guarded(spec.Key), guarded(spec.Value)
		s := &suppress[K, V]{guard: newGuard(env, step), spec: spec, buffer: b, next: next}
		s.due, s.over = s.isDue, s.isOver
		s.sending = s.send
		env.ObserveTime(spec.Table.Store, &s.observedMs)
		env.OnAdvance(step, s.advance)
		return s, nil
	})
}

type suppress[K, V any] struct {
	guard
	spec       SuppressSpec[K, V]
	buffer     *timeBuffer
	next       Sink[K, Change[V]]
	observedMs int64
	// wasMs is the observed time before the record in process; codec.NoTime where time alone has passed.
	wasMs int64

	due, over func() bool
	sending   func(key []byte, row *codec.Buffered) error
	key       []byte
	values    []byte
	out       processor.Record[K, Change[V]]
}

func (s *suppress[K, V]) Process(r *processor.Record[K, Change[V]]) error {
	s.wasMs, s.observedMs = s.observedMs, max(s.observedMs, r.TimestampMs)
	for attempt := 1; ; attempt++ {
		err := s.hold(r)
		if err == nil {
			break
		}
		if retry, err := s.failed(err, attempt); !retry {
			return err
		}
	}
	if err := s.buffer.evict(s.due, s.sending); err != nil {
		return err
	}
	if !s.spec.Fail {
		return s.buffer.evict(s.over, s.sending)
	}
	for attempt := 1; s.isOver(); attempt++ {
		if retry, err := s.failed(s.full(r), attempt); !retry {
			return err
		}
	}
	return nil
}

// hold puts an update into the buffer.
func (s *suppress[K, V]) hold(r *processor.Record[K, Change[V]]) error {
	row := s.buffer.row(r.Headers, r.TimestampMs)
	var err error
	if s.key, err = s.spec.Key.Append(s.key[:0], r.Key); err != nil {
		return fmt.Errorf("millrace: store %s: key does not encode: %w", s.buffer.name, err)
	}
	c := &r.Value
	vals := s.values[:0]
	if c.HasOld {
		if vals, err = s.spec.Value.Append(vals, c.Old); err != nil {
			return fmt.Errorf("millrace: store %s: value does not encode: %w", s.buffer.name, err)
		}
	}
	oldLen := len(vals)
	if c.HasNew {
		if vals, err = s.spec.Value.Append(vals, c.New); err != nil {
			return fmt.Errorf("millrace: store %s: value does not encode: %w", s.buffer.name, err)
		}
	}
	if vals == nil {
		vals = []byte{}
	}
	s.values = vals
	if c.HasOld {
		row.Old = vals[:oldLen:oldLen]
	}
	if c.HasNew {
		row.New = vals[oldLen:]
	}
	row.Prior = row.Old
	row.TimeMs = r.TimestampMs
	if s.spec.StartMs != nil {
		row.TimeMs = s.spec.StartMs(&r.Key)
	}
	return s.buffer.put(s.key, &row)
}

func (s *suppress[K, V]) isDue() bool {
	first, ok := s.buffer.firstMs()
	return ok && first <= s.observedMs-s.spec.WaitMs
}

func (s *suppress[K, V]) isOver() bool {
	return s.buffer.rows() > s.spec.MaxRows || s.buffer.bytes > s.spec.MaxBytes
}

func (s *suppress[K, V]) full(r *processor.Record[K, Change[V]]) error {
	return fmt.Errorf("millrace: the buffer is full: with the update of key %v it holds %d rows and %d bytes, and %s allows no more; raise the bound, shorten the wait, or let it EmitEarlyWhenFull",
		r.Key, s.buffer.rows(), s.buffer.bytes, s.spec.Bound)
}

// advance sends what has become due because time has passed without a record.
func (s *suppress[K, V]) advance(toMs int64) error {
	s.wasMs, s.observedMs = codec.NoTime, max(s.observedMs, toMs)
	return s.buffer.evict(s.due, s.sending)
}

// send passes a row on. One that does not decode meets the policy for records that fail: dropped, it leaves the buffer.
func (s *suppress[K, V]) send(key []byte, row *codec.Buffered) error {
	if row.New == nil && s.spec.DropDeletions {
		return nil
	}
	c := s.buffer.context(row)
	return s.env.withContext(c, func() error {
		for attempt := 1; ; attempt++ {
			err := s.decode(key, row)
			if err == nil {
				s.out.TimestampMs, s.out.Headers = c.tsMs, c.headers
				return s.next.Process(&s.out)
			}
			if retry, err := s.failed(err, attempt); !retry {
				return err
			}
		}
	})
}

func (s *suppress[K, V]) decode(key []byte, row *codec.Buffered) (err error) {
	s.out = processor.Record[K, Change[V]]{}
	if s.out.Key, err = s.spec.Key.Decode(key); err != nil {
		return fmt.Errorf("millrace: store %s: a stored key does not decode: %w; has the serde of the store changed?", s.buffer.name, err)
	}
	v := &s.out.Value
	if v.New, v.HasNew, err = s.value(row.New); err != nil {
		return err
	}
	if s.spec.Table.SendOld && s.hasSent(row) {
		v.Old, v.HasOld, err = s.value(row.Prior)
	}
	return err
}

// hasSent tells whether the value before a row has been sent. With StartMs a row is sent once, when its time has come, and
// what was before it (a first update has the initial aggregate there) has not; but one whose time had come when it began to
// wait may be an update of what has left.
func (s *suppress[K, V]) hasSent(row *codec.Buffered) bool {
	return s.spec.StartMs == nil || row.TimeMs <= s.wasMs-s.spec.WaitMs
}

func (s *suppress[K, V]) value(b []byte) (v V, ok bool, err error) {
	if b == nil {
		return v, false, nil
	}
	if v, err = s.spec.Value.Decode(b); err != nil {
		return v, false, fmt.Errorf("millrace: store %s: a stored value does not decode: %w; has the serde of the store changed?", s.buffer.name, err)
	}
	return v, true, nil
}

// SuppressGetter reads a table behind a suppression as the steps behind have seen it: a row that is held back shows the
// value that it had before, without a timestamp; every other row is that of the table before.
func SuppressGetter[K, V any](store string, key serde.Serde[K], value serde.Serde[V], parent GetterFactory[K, V]) GetterFactory[K, V] {
	return func(env *Env, step string) (Getter[K, V], error) {
		b, err := typedStore[*timeBuffer](env, step, store)
		if err != nil {
			return nil, err
		}
		p, err := parent(env, step)
		if err != nil {
			return nil, err
		}
		return &suppressGetter[K, V]{buffer: b, keySerde: guarded(key), value: guarded(value), parent: p}, nil
	}
}

// suppressGetter is the Getter of a suppressed table.
//
// In Kafka Streams: KTableSuppressProcessorSupplier's KTableValueGetter, and priorValueForBuffered.
type suppressGetter[K, V any] struct {
	buffer   *timeBuffer
	keySerde serde.Serde[K]
	value    serde.Serde[V]
	parent   Getter[K, V]
	key      []byte
}

func (g *suppressGetter[K, V]) Lookup(k K) (v V, tsMs int64, ok bool, err error) {
	if g.key, err = g.keySerde.Append(g.key[:0], k); err != nil {
		return v, 0, false, fmt.Errorf("millrace: store %s: key does not encode: %w", g.buffer.name, err)
	}
	row, waits, err := g.buffer.get(g.key)
	switch {
	case err != nil:
		return v, 0, false, err
	case !waits:
		return g.parent.Lookup(k)
	case row.Prior == nil:
		return v, 0, false, nil
	}
	if v, err = g.value.Decode(row.Prior); err != nil {
		return v, 0, false, fmt.Errorf("millrace: store %s: a stored value does not decode: %w; has the serde of the store changed?", g.buffer.name, err)
	}
	return v, codec.NoTime, true, nil
}

// Before returns a row as it was sent last. One that waits shows just that already.
func (g *suppressGetter[K, V]) Before(k K) (v V, ok bool, state sentState, err error) {
	if g.key, err = g.keySerde.Append(g.key[:0], k); err != nil {
		return v, false, allSent, fmt.Errorf("millrace: store %s: key does not encode: %w", g.buffer.name, err)
	}
	_, waits, err := g.buffer.get(g.key)
	switch {
	case err != nil:
		return v, false, allSent, err
	case !waits:
		return before(g.parent, k)
	}
	v, _, ok, err = g.Lookup(k)
	if g.buffer.sends(g.key) {
		state = sending
	}
	return v, ok, state, err
}
