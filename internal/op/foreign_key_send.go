package op

import (
	"bytes"
	"fmt"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// SubscriptionSendSpec describes the left side's first step of a foreign-key join.
type SubscriptionSendSpec[K, V, KF any] struct {
	Topics Topics
	Left   bool // keep left rows without a right one
	// ForeignKey finds the key of the right row; ok false is a null key.
	ForeignKey func(k K, v V) (key KF, ok bool, err error)
	Key        serde.Serde[K]
	Value      serde.Serde[V]
	Foreign    serde.Serde[KF]
}

// NewSubscriptionSend makes the step that tells the right side which of its rows each left row wants.
//
// In Kafka Streams: SubscriptionSendProcessorSupplier.
func NewSubscriptionSend[K, V, KF any](spec SubscriptionSendSpec[K, V, KF]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[KF, Registration](step, children)
		if err != nil {
			return nil, err
		}
		topic := env.TopicName(spec.Topics.Registration)
		s := &subscriptionSend[K, V, KF]{
			guard: newGuard(env, step), spec: spec, next: next,
			nullForeign: env.counter(step, metrics.NullForeignKey), stale: env.counter(step, metrics.Stale),
		}
		if s.key, err = bind(spec.Key, topic+primaryKeyTopic, true); err != nil {
			return nil, err
		}
		if s.value, err = bind(spec.Value, topic+valueHashTopic, false); err != nil {
			return nil, err
		}
		s.foreign, err = newForeignKeys(spec.ForeignKey, spec.Foreign, topic)
		return s, err
	})
}

type subscriptionSend[K, V, KF any] struct {
	guard
	spec        SubscriptionSendSpec[K, V, KF]
	key         serde.Serde[K]
	value       serde.Serde[V]
	foreign     foreignKeys[K, V, KF]
	next        Sink[KF, Registration]
	nullForeign *metrics.Counter
	stale       *metrics.Counter

	was, is foreignKey[KF] // of the row as it was and as it is
	primary []byte
	scratch []byte
	sends   [2]send[KF]
	out     processor.Record[KF, Registration]
}

// send is a message to the right side.
type send[KF any] struct {
	to          *foreignKey[KF]
	instruction codec.Instruction
}

func (s *subscriptionSend[K, V, KF]) Process(r *processor.Record[K, Change[V]]) error {
	if r.Value.Stale {
		s.stale.Inc()
		return nil
	}
	if !r.Value.HasNew && !r.Value.HasOld {
		return nil
	}
	for attempt := 1; ; attempt++ {
		hash, err := s.call(r)
		if err == nil {
			return s.send(r, hash)
		}
		if retry, err := s.failed(err, attempt); !retry {
			return err
		}
	}
}

// call finds and encodes what is to be sent, before any of it is.
func (s *subscriptionSend[K, V, KF]) call(r *processor.Record[K, Change[V]]) (hash codec.Hash128, err error) {
	defer recovered(&err)
	c := &r.Value
	s.was.ok, s.is.ok = false, false
	if c.HasOld {
		if err = s.foreign.find(&s.was, r.Key, c.Old); err != nil {
			return hash, err
		}
	}
	if c.HasNew {
		if err = s.foreign.find(&s.is, r.Key, c.New); err != nil {
			return hash, err
		}
		if s.scratch, err = s.value.Append(s.scratch[:0], c.New); err != nil {
			return hash, fmt.Errorf("the value of the row with key %v does not encode: %w", r.Key, err)
		}
		hash = codec.Murmur3(s.scratch)
	}
	if s.primary, err = s.key.Append(s.primary[:0], r.Key); err != nil {
		return hash, fmt.Errorf("the key %v does not encode: %w", r.Key, err)
	}
	return hash, nil
}

// send forwards what the rows before and after an update ask for. Foreign keys are the same if their bytes are.
func (s *subscriptionSend[K, V, KF]) send(r *processor.Record[K, Change[V]], hash codec.Hash128) error {
	for _, m := range s.messages(&r.Value) {
		reg := Registration{
			ForeignKey: m.to.enc,
			Subscription: codec.Subscription{
				Instruction: m.instruction, HasHash: r.Value.HasNew, Hash: hash, PrimaryKey: s.primary,
				Partition: s.env.Task.Partition, HasPartition: true,
			},
		}
		s.out = processor.Record[KF, Registration]{
			Key: m.to.key, NullKey: !m.to.ok, Value: reg, TimestampMs: r.TimestampMs, Headers: r.Headers,
		}
		if err := s.next.Process(&s.out); err != nil {
			return err
		}
	}
	return nil
}

func (s *subscriptionSend[K, V, KF]) messages(c *Change[V]) []send[KF] {
	sends := s.sends[:0]
	changed := s.was.ok && (!s.is.ok || !bytes.Equal(s.was.enc, s.is.enc))
	if s.spec.Left {
		if changed {
			sends = append(sends, send[KF]{&s.was, codec.Unsubscribe})
		}
		return append(sends, send[KF]{&s.is, codec.SubscribeAndAnswer}) // under a null key where there is none
	}
	switch {
	case !s.is.ok:
		if c.HasNew {
			s.nullForeign.Inc()
		}
		if s.was.ok {
			sends = append(sends, send[KF]{&s.was, codec.UnsubscribeAndAnswer})
		}
	case changed:
		// The result of the row as it was must go even if the right side has nothing for it as it is.
		sends = append(sends, send[KF]{&s.was, codec.Unsubscribe}, send[KF]{&s.is, codec.SubscribeAndAnswer})
	default:
		sends = append(sends, send[KF]{&s.is, codec.SubscribeAndAnswerIfFound})
	}
	return sends
}
