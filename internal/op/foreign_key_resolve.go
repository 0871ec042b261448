package op

import (
	"bytes"
	"fmt"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// ResponseResolverSpec describes the left side's last step of a foreign-key join.
type ResponseResolverSpec[K, V, KF, VF, R any] struct {
	Topics Topics
	Left   bool // keep left rows without a right one
	Table  GetterFactory[K, V]
	Value  serde.Serde[V]
	// ForeignKey finds the key of the right row; ok false is a null key.
	ForeignKey func(k K, v V) (key KF, ok bool, err error)
	Foreign    serde.Serde[KF]
	Join       func(v V, row VF, found bool) (R, error)
}

// NewResponseResolver makes the step that joins an answer with the left row, if that is still the one that asked.
//
// In Kafka Streams: ResponseJoinProcessorSupplier.
func NewResponseResolver[K, V, KF, VF, R any](spec ResponseResolverSpec[K, V, KF, VF, R]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[K, R](step, children)
		if err != nil {
			return nil, err
		}
		s := &responseResolver[K, V, KF, VF, R]{
			guard: newGuard(env, step), spec: spec, next: next, nilValue: nilness.Checker[R](),
			nullKey: env.counter(step, metrics.NullKey), nullValue: env.counter(step, metrics.NullValue),
			stale: env.counter(step, metrics.StaleResponse),
		}
		if s.table, err = spec.Table(env, step); err != nil {
			return nil, err
		}
		registration := env.TopicName(spec.Topics.Registration)
		if s.foreign, err = newForeignKeys(spec.ForeignKey, spec.Foreign, registration+foreignKeyTopic); err != nil {
			return nil, err
		}
		s.value, err = bind(spec.Value, registration+valueHashTopic, false)
		return s, err
	})
}

type responseResolver[K, V, KF, VF, R any] struct {
	guard
	spec                      ResponseResolverSpec[K, V, KF, VF, R]
	table                     Getter[K, V]
	value                     serde.Serde[V]
	foreign                   foreignKeys[K, V, KF]
	is                        foreignKey[KF] // of the left row
	next                      Sink[K, R]
	nilValue                  func(*R) bool
	nullKey, nullValue, stale *metrics.Counter
	enc                       []byte
	out                       processor.Record[K, R]
}

func (s *responseResolver[K, V, KF, VF, R]) Process(r *processor.Record[K, Answer[VF]]) error {
	switch { // neither is from a foreign-key join
	case r.NullKey:
		s.nullKey.Inc()
		return nil
	case r.NullValue:
		s.nullValue.Inc()
		return nil
	}
	for attempt := 1; ; attempt++ {
		current, err := s.call(r)
		if err == nil {
			if !current {
				s.stale.Inc()
				return nil
			}
			return s.next.Process(&s.out)
		}
		if retry, err := s.failed(err, attempt); !retry {
			return err
		}
	}
}

// call makes the result. current is false if the left row is not the one that asked.
func (s *responseResolver[K, V, KF, VF, R]) call(r *processor.Record[K, Answer[VF]]) (current bool, err error) {
	defer recovered(&err)
	v, found, err := s.asked(r.Key)
	if err != nil {
		return false, err
	}
	a := &r.Value
	s.out = processor.Record[K, R]{Key: r.Key, TimestampMs: r.TimestampMs, Headers: r.Headers, NullValue: true}
	if !found && !a.HasHash {
		return true, nil
	}
	current = found == a.HasHash
	if current {
		if s.enc, err = s.value.Append(s.enc[:0], v); err != nil {
			return false, fmt.Errorf("the value of the row with key %v does not encode: %w", r.Key, err)
		}
		current = codec.Murmur3(s.enc) == a.Hash
	}
	if !current {
		return s.unasked(r, v, found)
	}
	if !a.HasValue && !s.spec.Left {
		return true, nil
	}
	if s.out.Value, err = s.spec.Join(v, a.Value, a.HasValue); err != nil {
		return false, err
	}
	s.out.NullValue = s.nilValue != nil && s.nilValue(&s.out.Value)
	return true, nil
}

// asked returns the left row that the right side was told of last. One that still waits in a cache has asked for nothing yet,
// and never will if it is gone again before the cache is flushed: it must not make the answer to the row before it stale.
func (s *responseResolver[K, V, KF, VF, R]) asked(k K) (v V, found bool, err error) {
	v, found, state, err := before(s.table, k)
	if err != nil || state == waiting {
		return v, found, err
	}
	v, _, found, err = s.table.Lookup(k)
	return v, found, err
}

// unasked tells whether a response that another row asked for tells a deletion all the same. That is so in an inner join
// whose left row asks for nothing more, because it has no foreign key or is gone, or is not answered because the right row
// is absent: the answer to the row before it is then the last. Kafka Streams drops it, and the result stays for ever.
func (s *responseResolver[K, V, KF, VF, R]) unasked(r *processor.Record[K, Answer[VF]], v V, found bool) (bool, error) {
	if s.spec.Left || r.Value.HasValue {
		return false, nil
	}
	if !found {
		return true, nil
	}
	if err := s.foreign.find(&s.is, r.Key, v); err != nil {
		return false, err
	}
	// If the right side has, or had, the row after all, its answer was sent after this one, and so it comes after it.
	return !s.is.ok || r.Value.Absent && bytes.Equal(s.is.enc, r.Value.Foreign), nil
}
