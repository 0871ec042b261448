package op

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// SinkSpec describes a sink step: the end of a path, which writes to a topic.
type SinkSpec[K, V any] struct {
	// Topic is the topic's name, decorated by Env.TopicName if Internal. Empty with Choose.
	Topic    string
	Internal bool
	// Choose picks the topic of each record.
	Choose func(r *processor.Record[K, V], m processor.Metadata) (string, error)
	// Partition picks the partition of each record. Nil, or a result below 0: by the key's bytes.
	Partition func(topic string, r *processor.Record[K, V], partitions int32) (int32, error)
	// WholeKey takes the partition from all bytes of the key, those of a window too.
	WholeKey bool
	Key      serde.Serde[K]
	Value    serde.Serde[V]
}

// NewSink makes a sink step.
func NewSink[K, V any](spec SinkSpec[K, V]) Factory {
	return FactoryFunc(func(env *Env, step string, _ []Child) (any, error) {
		s := &topicSink[K, V]{
			env: env, step: step, spec: spec, guard: newGuard(env, step), dropped: env.counter(step, metrics.Production),
		}
		if spec.Choose == nil {
			name := spec.Topic
			if spec.Internal {
				name = env.TopicName(name)
			}
			t, err := s.target(name)
			if err != nil {
				return nil, err
			}
			s.fixed = t
		} else {
			s.targets = make(map[string]*target[K, V])
		}
		return s, nil
	})
}

type target[K, V any] struct {
	topic       string
	key         serde.Serde[K]
	value       serde.Serde[V]
	partitioner partitioner
}

type topicSink[K, V any] struct {
	env     *Env
	step    string
	spec    SinkSpec[K, V]
	guard   guard
	dropped *metrics.Counter
	fixed   *target[K, V]
	targets map[string]*target[K, V]
}

func (s *topicSink[K, V]) target(topic string) (*target[K, V], error) {
	t := &target[K, V]{topic: topic}
	var err error
	if t.key, err = bind(s.spec.Key, topic, true); err != nil {
		return nil, err
	}
	if t.value, err = bind(s.spec.Value, topic, false); err != nil {
		return nil, err
	}
	if t.partitioner, err = s.env.newPartitioner(topic, t.key); err != nil {
		return nil, err
	}
	if s.spec.WholeKey {
		t.partitioner.keyer = nil
	}
	return t, nil
}

func (s *topicSink[K, V]) Process(r *processor.Record[K, V]) error {
	for attempt := 1; ; attempt++ {
		stage, topic, err := s.write(r)
		if err == nil {
			return s.env.overflow(s.step)
		}
		retry := false
		if stage == processor.Processing {
			retry, err = s.guard.failed(err, attempt)
		} else {
			retry, err = s.env.judge(s.env.Handlers.Production, processor.Serializing, s.step, topic, err, attempt, s.dropped,
				"the production error handler decides (millrace.OnProductionError): Continue drops the record and counts it")
		}
		if !retry {
			return err
		}
	}
}

func (s *topicSink[K, V]) write(r *processor.Record[K, V]) (stage processor.Stage, topic string, err error) {
	t := s.fixed
	if t == nil {
		if topic, err = s.choose(r); err != nil {
			return processor.Processing, topic, err
		}
		if t = s.targets[topic]; t == nil {
			if t, err = s.target(topic); err != nil {
				// Not the record's fault: no handler is asked, and the runtime tells what passes from what does not.
				origin, _ := s.env.Origin()
				return processor.Producing, topic, &FatalError{
					Stage: processor.Producing, Step: s.step, Task: s.env.Task, Origin: origin, Err: err,
					Hint: "create the topic, the record is then processed again",
				}
			}
			s.targets[topic] = t
		}
	}
	key, value, err := s.encode(t, r)
	if err != nil {
		return processor.Serializing, t.topic, err
	}
	partition := t.partitioner.of(key, r.NullKey)
	if s.spec.Partition != nil {
		chosen, err := s.partition(t, r)
		if err != nil {
			return processor.Processing, t.topic, err
		}
		if chosen >= 0 {
			partition = chosen
		}
	}
	s.env.Emit(Output{
		ProduceRecord: broker.ProduceRecord{
			Topic: t.topic, Partition: partition, Key: key, Value: value, Headers: r.Headers, TimestampMs: r.TimestampMs,
		},
		Step: s.step,
	})
	return 0, t.topic, nil
}

func (s *topicSink[K, V]) choose(r *processor.Record[K, V]) (topic string, err error) {
	defer recovered(&err)
	m, _ := s.env.Origin()
	topic, err = s.spec.Choose(r, m)
	if err == nil && topic == "" {
		err = fmt.Errorf("no topic was chosen")
	}
	return topic, err
}

func (s *topicSink[K, V]) partition(t *target[K, V], r *processor.Record[K, V]) (p int32, err error) {
	defer recovered(&err)
	n := t.partitioner.partitions
	p, err = s.spec.Partition(t.topic, r, n)
	if err == nil && p >= n {
		err = fmt.Errorf("partition %d was chosen, topic %s has %d", p, t.topic, n)
	}
	return p, err
}

func (s *topicSink[K, V]) encode(t *target[K, V], r *processor.Record[K, V]) (key, value []byte, err error) {
	defer recovered(&err)
	if !r.NullKey {
		b, err := t.key.Append(s.env.alloc(64), r.Key)
		if err != nil {
			return nil, nil, fmt.Errorf("key: %w", err)
		}
		key = s.env.keep(b)
	}
	if !r.NullValue {
		b, err := t.value.Append(s.env.alloc(256), r.Value)
		if err != nil {
			return nil, nil, fmt.Errorf("value: %w", err)
		}
		value = s.env.keep(b)
	}
	return key, value, nil
}
