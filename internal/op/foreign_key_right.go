package op

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// SubscriptionReceiveSpec describes the right side's first step of a foreign-key join.
type SubscriptionReceiveSpec[KF any] struct {
	Topics  Topics
	Store   string
	Foreign serde.Serde[KF]
}

// NewSubscriptionReceive makes the step that keeps and forgets subscriptions, and passes them on.
//
// In Kafka Streams: SubscriptionReceiveProcessorSupplier.
func NewSubscriptionReceive[KF any](spec SubscriptionReceiveSpec[KF]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[KF, codec.Subscription](step, children)
		if err != nil {
			return nil, err
		}
		s := &subscriptionReceive[KF]{
			guard: newGuard(env, step), next: next,
			nullForeign: env.counter(step, metrics.NullForeignKey), nullValue: env.counter(step, metrics.NullValue),
		}
		if s.store, err = typedStore[*subscriptionStore](env, step, spec.Store); err != nil {
			return nil, err
		}
		s.foreign, err = bind(spec.Foreign, env.TopicName(spec.Topics.Registration)+foreignKeyTopic, true)
		return s, err
	})
}

type subscriptionReceive[KF any] struct {
	guard
	foreign                serde.Serde[KF]
	store                  *subscriptionStore
	next                   Sink[KF, codec.Subscription]
	nullForeign, nullValue *metrics.Counter
	key                    []byte
}

func (s *subscriptionReceive[KF]) Process(r *processor.Record[KF, codec.Subscription]) error {
	switch {
	case r.NullValue: // not from a foreign-key join
		s.nullValue.Inc()
		return nil
	case r.NullKey && r.Value.Instruction != codec.SubscribeAndAnswer:
		s.nullForeign.Inc()
		return nil
	case r.NullKey: // a left join's row without a foreign key: it is answered, and there is nothing to wait for
		return s.next.Process(r)
	}
	for attempt := 1; ; attempt++ {
		err := s.call(r)
		if err == nil {
			return s.next.Process(r)
		}
		if retry, err := s.failed(err, attempt); !retry {
			return err
		}
	}
}

func (s *subscriptionReceive[KF]) call(r *processor.Record[KF, codec.Subscription]) (err error) {
	defer recovered(&err)
	if s.key, err = s.foreign.Append(s.key[:0], r.Key); err != nil {
		return fmt.Errorf("the foreign key %v does not encode: %w", r.Key, err)
	}
	return s.store.put(s.key, &r.Value, r.TimestampMs, r.Headers)
}

// SubscriptionJoinSpec describes the right side's second step of a foreign-key join.
type SubscriptionJoinSpec[KF, V any] struct {
	Topics  Topics
	Left    bool                 // keep left rows without a right one
	Table   GetterFactory[KF, V] // the right table
	Foreign serde.Serde[KF]
	Value   serde.Serde[V]
}

// NewSubscriptionJoin makes the step that answers a subscription with the right row as it is.
//
// In Kafka Streams: SubscriptionJoinProcessorSupplier.
func NewSubscriptionJoin[KF, V any](spec SubscriptionJoinSpec[KF, V]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[[]byte, Response](step, children)
		if err != nil {
			return nil, err
		}
		s := &subscriptionJoin[KF, V]{guard: newGuard(env, step), next: next, inner: !spec.Left}
		if s.table, err = spec.Table(env, step); err != nil {
			return nil, err
		}
		if s.foreign, err = bind(spec.Foreign, env.TopicName(spec.Topics.Registration)+foreignKeyTopic, true); err != nil {
			return nil, err
		}
		s.value, err = bind(spec.Value, env.TopicName(spec.Topics.Response), false)
		return s, err
	})
}

type subscriptionJoin[KF, V any] struct {
	guard
	inner    bool
	table    Getter[KF, V]
	foreign  serde.Serde[KF]
	value    serde.Serde[V]
	next     Sink[[]byte, Response]
	key, enc []byte
	out      processor.Record[[]byte, Response]
}

func (s *subscriptionJoin[KF, V]) Process(r *processor.Record[KF, codec.Subscription]) error {
	if r.Value.Instruction == codec.Unsubscribe {
		return nil
	}
	for attempt := 1; ; attempt++ {
		answered, err := s.call(r)
		if err == nil {
			if !answered {
				return nil
			}
			return s.next.Process(&s.out)
		}
		if retry, err := s.failed(err, attempt); !retry {
			return err
		}
	}
}

func (s *subscriptionJoin[KF, V]) call(r *processor.Record[KF, codec.Subscription]) (answered bool, err error) {
	defer recovered(&err)
	var row V
	tsMs, found := r.TimestampMs, false
	if !r.NullKey {
		var rowMs int64
		if row, rowMs, found, err = s.table.Lookup(r.Key); err != nil {
			return false, err
		}
		if found {
			tsMs = max(tsMs, rowMs)
		}
	}
	switch r.Value.Instruction {
	case codec.SubscribeAndAnswerIfFound:
		if !found {
			return false, nil
		}
	case codec.UnsubscribeAndAnswer:
		found = false
	}
	s.out = processor.Record[[]byte, Response]{
		Key: r.Value.PrimaryKey, Value: answerTo(&r.Value), TimestampMs: tsMs, Headers: r.Headers,
	}
	if !found {
		if s.inner {
			if s.key, err = s.foreign.Append(s.key[:0], r.Key); err != nil {
				return false, fmt.Errorf("the foreign key %v does not encode: %w", r.Key, err)
			}
			s.out.Value.Absent, s.out.Value.ForeignKey = true, s.key
		}
		return true, nil
	}
	if s.enc, err = s.value.Append(s.enc[:0], row); err != nil {
		return false, fmt.Errorf("the right row with key %v does not encode: %w", r.Key, err)
	}
	s.out.Value.Value, s.out.Value.HasValue = s.enc, true
	return true, nil
}

// answerTo begins the answer to a subscription.
func answerTo(s *codec.Subscription) Response {
	return Response{HasHash: s.HasHash, Hash: s.Hash, Partition: s.Partition, HasPartition: s.HasPartition}
}

// ForeignJoinSpec describes the right side's step of a foreign-key join that follows the right table.
type ForeignJoinSpec[KF, V any] struct {
	Topics  Topics
	Left    bool // keep left rows without a right one
	Store   string
	Foreign serde.Serde[KF]
	Value   serde.Serde[V]
}

// NewForeignJoin makes the step that tells all subscribers of an updated right row.
//
// In Kafka Streams: ForeignTableJoinProcessorSupplier.
func NewForeignJoin[KF, V any](spec ForeignJoinSpec[KF, V]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[[]byte, Response](step, children)
		if err != nil {
			return nil, err
		}
		s := &foreignJoin[KF, V]{
			guard: newGuard(env, step), next: next, inner: !spec.Left, stale: env.counter(step, metrics.Stale),
		}
		if s.store, err = typedStore[*subscriptionStore](env, step, spec.Store); err != nil {
			return nil, err
		}
		if s.foreign, err = bind(spec.Foreign, env.TopicName(spec.Topics.Registration)+foreignKeyTopic, true); err != nil {
			return nil, err
		}
		s.value, err = bind(spec.Value, env.TopicName(spec.Topics.Response), false)
		return s, err
	})
}

type foreignJoin[KF, V any] struct {
	guard
	inner    bool
	foreign  serde.Serde[KF]
	value    serde.Serde[V]
	store    *subscriptionStore
	next     Sink[[]byte, Response]
	stale    *metrics.Counter
	key, enc []byte
	out      processor.Record[[]byte, Response]
}

func (s *foreignJoin[KF, V]) Process(r *processor.Record[KF, Change[V]]) error {
	if r.Value.Stale {
		s.stale.Inc()
		return nil
	}
	for attempt := 1; ; attempt++ {
		err := s.call(r)
		if err == nil {
			break
		}
		if retry, err := s.failed(err, attempt); !retry {
			return err
		}
	}
	return s.store.each(s.key, func(sub *codec.Subscription) error {
		s.out = processor.Record[[]byte, Response]{
			Key: sub.PrimaryKey, Value: answerTo(sub), TimestampMs: r.TimestampMs, Headers: r.Headers,
		}
		s.out.Value.Value, s.out.Value.HasValue = s.enc, r.Value.HasNew
		s.out.Value.Absent, s.out.Value.ForeignKey = s.inner && !r.Value.HasNew, s.key
		return s.next.Process(&s.out)
	})
}

// call encodes the row, once for all who wait for it.
func (s *foreignJoin[KF, V]) call(r *processor.Record[KF, Change[V]]) (err error) {
	defer recovered(&err)
	if s.key, err = s.foreign.Append(s.key[:0], r.Key); err != nil {
		return fmt.Errorf("the key %v of the right row does not encode: %w", r.Key, err)
	}
	s.enc = s.enc[:0]
	if !r.Value.HasNew {
		return nil
	}
	if s.enc, err = s.value.Append(s.enc, r.Value.New); err != nil {
		return fmt.Errorf("the right row with key %v does not encode: %w", r.Key, err)
	}
	return nil
}
