package op

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// PartitionFunc chooses a partition of an internal topic for a key. Nil: by the key's bytes.
type PartitionFunc[K any] func(k K, partitions int32) (int32, error)

// NewRegistrationSink makes the step that writes subscriptions to the registration topic, into the partition where the
// right row lies. A null key, for which there is no right row, may go anywhere.
func NewRegistrationSink[KF any](topics Topics, key serde.Serde[KF], choose PartitionFunc[KF]) Factory {
	return FactoryFunc(func(env *Env, step string, _ []Child) (any, error) {
		s := &registrationSink[KF]{}
		err := s.init(env, step, topics.Registration, key, choose)
		return s, err
	})
}

// internalSink is what both sinks of a foreign-key join have in common.
type internalSink[K any] struct {
	guard
	topic       string
	key         serde.Serde[K]
	partitioner partitioner
	choose      PartitionFunc[K]
}

func (s *internalSink[K]) init(env *Env, step, topic string, key serde.Serde[K], choose PartitionFunc[K]) (err error) {
	s.guard, s.topic, s.choose = newGuard(env, step), env.TopicName(topic), choose
	if s.key, err = bind(key, s.topic, true); err != nil {
		return err
	}
	s.partitioner, err = env.newPartitioner(s.topic, s.key)
	return err
}

func (s *internalSink[K]) check(p int32, who string) (int32, error) {
	if n := s.partitioner.partitions; p < 0 || p >= n {
		return 0, fmt.Errorf("%s partition %d, topic %s has %d", who, p, s.topic, n)
	}
	return p, nil
}

// chosen asks the user's function.
func (s *internalSink[K]) chosen(k K) (p int32, err error) {
	defer recovered(&err)
	if p, err = s.choose(k, s.partitioner.partitions); err != nil {
		return 0, err
	}
	return s.check(p, "the partitioner chose")
}

func (s *internalSink[K]) emit(key, value []byte, partition int32, headers serde.Headers, tsMs int64) {
	s.env.Emit(Output{
		ProduceRecord: broker.ProduceRecord{
			Topic: s.topic, Partition: partition, Key: key, Value: value, Headers: headers, TimestampMs: tsMs,
		},
		Step: s.step,
	})
}

// copied puts bytes where they stay until the record is acknowledged.
func (s *internalSink[K]) copied(b []byte) []byte {
	return s.env.keep(append(s.env.alloc(len(b)), b...))
}

type registrationSink[KF any] struct{ internalSink[KF] }

func (s *registrationSink[KF]) Process(r *processor.Record[KF, Registration]) error {
	var key []byte
	if !r.NullKey {
		key = s.copied(r.Value.ForeignKey)
	}
	partition := s.partitioner.of(key, r.NullKey)
	if s.choose != nil && !r.NullKey {
		for attempt := 1; ; attempt++ {
			var err error
			if partition, err = s.chosen(r.Key); err == nil {
				break
			}
			if retry, err := s.failed(err, attempt); !retry {
				return err
			}
		}
	}
	value := codec.AppendSubscription(s.env.alloc(32+len(r.Value.PrimaryKey)), &r.Value.Subscription)
	s.emit(key, s.env.keep(value), partition, r.Headers, r.TimestampMs)
	return s.env.overflow(s.step)
}

// NewResponseSink makes the step that writes answers to the response topic, into the partition that the left row came from.
func NewResponseSink[K any](topics Topics, key serde.Serde[K], choose PartitionFunc[K]) Factory {
	return FactoryFunc(func(env *Env, step string, _ []Child) (any, error) {
		s := &responseSink[K]{}
		err := s.init(env, step, topics.Response, key, choose)
		return s, err
	})
}

type responseSink[K any] struct{ internalSink[K] }

func (s *responseSink[K]) Process(r *processor.Record[[]byte, Response]) error {
	var partition int32
	for attempt := 1; ; attempt++ {
		var err error
		if partition, err = s.partition(r); err == nil {
			break
		}
		if retry, err := s.failed(err, attempt); !retry {
			return err
		}
	}
	headers := r.Headers
	if r.Value.HasValue && len(r.Value.Value) == 0 {
		headers = headers.With(emptyValueHeader, nil)
	}
	if r.Value.Absent {
		headers = headers.With(absentHeader, s.copied(r.Value.ForeignKey))
	}
	key := s.copied(r.Key)
	m := codec.SubscriptionResponse{HasHash: r.Value.HasHash, Hash: r.Value.Hash, Value: r.Value.Value}
	value := codec.AppendSubscriptionResponse(s.env.alloc(32+len(m.Value)), &m)
	s.emit(key, s.env.keep(value), partition, headers, r.TimestampMs)
	return s.env.overflow(s.step)
}

func (s *responseSink[K]) partition(r *processor.Record[[]byte, Response]) (p int32, err error) {
	if s.choose != nil {
		k, err := s.decode(r.Key)
		if err != nil {
			return 0, err
		}
		return s.chosen(k)
	}
	if r.Value.HasPartition {
		return s.check(r.Value.Partition, "the left row lies in")
	}
	return s.partitioner.of(r.Key, false), nil // a subscription of before 3.2
}

func (s *responseSink[K]) decode(key []byte) (k K, err error) {
	defer recovered(&err)
	if k, err = s.key.Decode(key); err != nil {
		return k, fmt.Errorf("the key of a left row does not decode: %w", err)
	}
	return k, nil
}
