package milltest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// Raw is a record of a topic as it stands in Kafka.
type Raw struct {
	broker.TopicPartition
	broker.Record
}

// InputTopic writes records to a topic that the topology reads.
//
// In Kafka Streams: TestInputTopic.
type InputTopic[K, V any] struct {
	d     *Driver
	topic string
	key   serde.Serde[K]
	value serde.Serde[V]
}

// Input returns an InputTopic. Topics that stand for several names or a pattern need InputNamed.
func Input[K, V any](d *Driver, t millrace.Topic[K, V]) *InputTopic[K, V] {
	d.tb.Helper()
	return InputNamed(d, t.Name(), t)
}

// InputNamed returns an InputTopic for one of the names that a topic stands for. A topic that a pattern matches comes into
// being here.
func InputNamed[K, V any](d *Driver, name string, t millrace.Topic[K, V]) *InputTopic[K, V] {
	d.tb.Helper()
	if _, ok := d.topics[name]; !ok {
		d.must(d.appear(name))
	}
	d.must(d.checkRead(name))
	return &InputTopic[K, V]{d: d, topic: name, key: t.Key(), value: t.Value()}
}

// Pipe writes a record with the driver's time.
func (in *InputTopic[K, V]) Pipe(k K, v V) {
	in.d.tb.Helper()
	in.d.must(in.TryPipe(processor.Record[K, V]{Key: k, Value: v, TimestampMs: in.d.nowMs}))
}

// PipeAt writes a record with a timestamp, given as the time since the Unix epoch.
func (in *InputTopic[K, V]) PipeAt(k K, v V, at time.Duration) {
	in.d.tb.Helper()
	in.d.must(in.TryPipe(processor.Record[K, V]{Key: k, Value: v, TimestampMs: at.Milliseconds()}))
}

// PipeAtTime is PipeAt with a point in time.
//
// In Kafka Streams: TestInputTopic#pipeInput(K, V, Instant).
func (in *InputTopic[K, V]) PipeAtTime(k K, v V, at time.Time) {
	in.d.tb.Helper()
	in.d.must(in.TryPipe(processor.Record[K, V]{Key: k, Value: v, TimestampMs: at.UnixMilli()}))
}

// PipeNull writes a record with a null value: a deletion, for a table.
func (in *InputTopic[K, V]) PipeNull(k K, at time.Duration) {
	in.d.tb.Helper()
	in.d.must(in.TryPipe(processor.Record[K, V]{Key: k, NullValue: true, TimestampMs: at.Milliseconds()}))
}

// PipeRecord writes a whole record.
func (in *InputTopic[K, V]) PipeRecord(r processor.Record[K, V]) {
	in.d.tb.Helper()
	in.d.must(in.TryPipe(r))
}

// TryPipe is PipeRecord that returns the topology's failure.
func (in *InputTopic[K, V]) TryPipe(r processor.Record[K, V]) error {
	raw := broker.Record{TimestampMs: r.TimestampMs, Headers: r.Headers, LeaderEpoch: -1}
	var err error
	if nilKey := nilness.Checker[K](); !r.NullKey && (nilKey == nil || !nilKey(&r.Key)) {
		if raw.Key, err = in.key.Append([]byte{}, r.Key); err != nil {
			return fmt.Errorf("milltest: key for topic %s: %w", in.topic, err)
		}
	}
	if nilValue := nilness.Checker[V](); !r.NullValue && (nilValue == nil || !nilValue(&r.Value)) {
		if raw.Value, err = in.value.Append([]byte{}, r.Value); err != nil {
			return fmt.Errorf("milltest: value for topic %s: %w", in.topic, err)
		}
	}
	n := in.d.partitionsOf(in.topic)
	var p int32
	if raw.Key != nil {
		hashed := raw.Key
		if k, ok := in.key.(serde.PartitionKeyer); ok {
			hashed = k.PartitionKey(hashed)
		}
		p = codec.Partition(hashed, n)
	}
	return in.d.pipe(broker.TopicPartition{Topic: in.topic, Partition: p}, raw)
}

// PipeRaw writes bytes to a partition, so that records can be tested that do not decode. A nil key or value is null.
func (d *Driver) PipeRaw(topic string, partition int32, key, value []byte, headers serde.Headers, at time.Duration) error {
	return d.pipe(broker.TopicPartition{Topic: topic, Partition: partition},
		broker.Record{Key: key, Value: value, Headers: headers, TimestampMs: at.Milliseconds(), LeaderEpoch: -1})
}

func (d *Driver) pipe(tp broker.TopicPartition, r broker.Record) error {
	if err := d.usable(); err != nil {
		return err
	}
	if err := d.checkRead(tp.Topic); err != nil {
		return err
	}
	if n := d.partitionsOf(tp.Topic); tp.Partition < 0 || tp.Partition >= n {
		return fmt.Errorf("milltest: topic %s has no partition %d, it has %d", tp.Topic, tp.Partition, n)
	}
	if err := d.append(tp, r); err != nil {
		return err
	}
	return d.settle()
}

// checkRead refuses a topic that the topology does not read: what is written to it would be lost without a trace.
func (d *Driver) checkRead(topic string) error {
	for _, t := range d.plan.Tasks {
		for _, in := range t.Inputs {
			if in.Topic == topic {
				return nil
			}
		}
	}
	if slices.Contains(d.graph.GlobalTopics(), topic) {
		return nil
	}
	return fmt.Errorf("milltest: the topology does not read the topic %s; it reads %s", topic,
		strings.Join(append(d.graph.SourceTopics(), append(d.graph.GlobalTopics(), d.graph.Patterns()...)...), ", "))
}

// OutputTopic reads the records of a topic that the topology writes.
//
// In Kafka Streams: TestOutputTopic.
type OutputTopic[K, V any] struct {
	d     *Driver
	topic string
	key   serde.Serde[K]
	value serde.Serde[V]
}

// Output returns an OutputTopic. A topic that the topology neither writes nor reads is refused, unless steps or handlers name
// topics of their own for a record.
func Output[K, V any](d *Driver, t millrace.Topic[K, V]) *OutputTopic[K, V] {
	d.tb.Helper()
	d.must(d.checkOutput(t.Name()))
	return &OutputTopic[K, V]{d: d, topic: t.Name(), key: t.Key(), value: t.Value()}
}

// Read returns the next record that has not been read; ok is false if there is none.
func (out *OutputTopic[K, V]) Read() (r processor.Record[K, V], ok bool) {
	out.d.tb.Helper()
	raw, ok := out.d.readRaw(out.topic)
	if !ok {
		return r, false
	}
	r, err := decode(raw, out.key, out.value)
	out.d.must(err)
	return r, true
}

// ReadAll returns all records that have not been read, in the order of writing.
func (out *OutputTopic[K, V]) ReadAll() []processor.Record[K, V] {
	out.d.tb.Helper()
	var all []processor.Record[K, V]
	for {
		r, ok := out.Read()
		if !ok {
			return all
		}
		all = append(all, r)
	}
}

// ReadValues returns the values of all records that have not been read, in the order of writing. Nulls are zero values.
func (out *OutputTopic[K, V]) ReadValues() []V {
	out.d.tb.Helper()
	var all []V
	for _, r := range out.ReadAll() {
		all = append(all, r.Value)
	}
	return all
}

// Empty tells whether all records have been read.
func (out *OutputTopic[K, V]) Empty() bool {
	return out.d.reads[out.topic] >= len(out.d.written[out.topic])
}

func (d *Driver) readRaw(topic string) (Raw, bool) {
	at := d.reads[topic]
	if at >= len(d.written[topic]) {
		return Raw{}, false
	}
	d.reads[topic] = at + 1
	return d.written[topic][at], true
}

// ReadRaw returns the records of a topic that have not been read, as they stand in Kafka. Internal topics can be read too,
// under their full names, such as "test-clicks-per-minute-changelog".
func (d *Driver) ReadRaw(topic string) []Raw {
	all := d.written[topic][d.reads[topic]:]
	d.reads[topic] = len(d.written[topic])
	return all
}

// Written returns all records of a topic so far, in the order of writing, whether they have been read or not.
func (d *Driver) Written(topic string) []Raw { return slices.Clone(d.written[topic]) }

// CommittedMetadata returns the text beside the committed offset of a partition; ok is false if none has been committed.
func (d *Driver) CommittedMetadata(topic string, partition int32) (text string, ok bool) {
	l := d.logs[broker.TopicPartition{Topic: topic, Partition: partition}]
	if l == nil || l.committed.Offset < 0 {
		return "", false
	}
	return l.committed.Metadata, true
}

func decode[K, V any](raw Raw, key serde.Serde[K], value serde.Serde[V]) (r processor.Record[K, V], err error) {
	r = processor.Record[K, V]{
		TimestampMs: raw.TimestampMs, Headers: raw.Headers, NullKey: raw.Key == nil, NullValue: raw.Value == nil,
	}
	if raw.Key != nil {
		if r.Key, err = key.Decode(raw.Key); err != nil {
			return r, fmt.Errorf("milltest: key of %s-%d@%d: %w", raw.Topic, raw.Partition, raw.Offset, err)
		}
	}
	if raw.Value != nil {
		if r.Value, err = value.Decode(raw.Value); err != nil {
			return r, fmt.Errorf("milltest: value of %s-%d@%d: %w", raw.Topic, raw.Partition, raw.Offset, err)
		}
	}
	return r, nil
}
