package millrace

import "github.com/millrace-io/millrace/processor"

// Partitioner chooses the partition of a record among those of a topic, from 0 on. A result below 0 leaves it to the key, as
// without a Partitioner; one that the topic has not, or an error, goes to the processing handler. It must give equal results
// for equal keys where a later step works by key, and is called by several tasks at once.
//
// In Kafka Streams: StreamPartitioner, which can also choose several partitions, or none: write to the topic in several steps,
// or filter before.
type Partitioner[K, V any] func(topic string, r processor.Record[K, V], partitions int) (int, error)

// PartitionBy lets a function choose the partition of each record that a step writes.
//
// In Kafka Streams: Produced.withStreamPartitioner, Repartitioned.withStreamPartitioner.
func PartitionBy[K, V any](p Partitioner[K, V]) StepOption {
	return stepOption(func(o *stepOptions) {
		o.partition = p
		o.nilFunc = o.nilFunc || p == nil
		o.given(optPartitionBy)
	})
}

// partitioner returns the step's own partitioner for an operator, nil if it has none.
func partitioner[K, V any](s *step) func(topic string, r *processor.Record[K, V], partitions int32) (int32, error) {
	if s.partition == nil {
		return nil
	}
	p, ok := s.partition.(Partitioner[K, V])
	if !ok {
		s.errorf("%s writes keys of type %T and values of type %T, but PartitionBy gives a function of other types", s.verb, *new(K), *new(V))
		return nil
	}
	return func(topic string, r *processor.Record[K, V], partitions int32) (int32, error) {
		n, err := p(topic, *r, int(partitions))
		return int32(max(n, -1)), err
	}
}
