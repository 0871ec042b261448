package op

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// Extractor finds the event time of a source record: its own timestamp by default. partitionTimeMs is the highest
// timestamp taken of the record's partition so far, -1 before the first. A negative result skips the record.
type Extractor[K, V any] func(r *processor.Record[K, V], m processor.Metadata, partitionTimeMs int64) (int64, error)

// SourceSpec describes a source step.
type SourceSpec[K, V any] struct {
	Key     serde.Serde[K]
	Value   serde.Serde[V]
	Extract Extractor[K, V] // nil: the record's own timestamp, an error where it is negative
}

// Source is a source step of one task as the task sees it, without its types.
type Source interface {
	// NewHead makes the decoder of one input partition.
	NewHead(in *broker.TopicPartition) (Head, error)
}

// Head holds the decoded first record of one input partition.
type Head interface {
	// Decode decodes a record and finds its event time. ok is false if the record is to be skipped; it has been counted
	// then.
	Decode(raw *broker.Record, partitionTimeMs int64) (tsMs int64, ok bool, err error)
	// Process sends the decoded record into the topology.
	Process() error
	// Refuse asks the policy about the decoded record in place of sending it into the topology. retry says that it is to be
	// processed all the same.
	Refuse(cause error) (retry bool, err error)
}

// ErrTooSlow is the cause where user code was inside a record past the deadline of one record again and again.
var ErrTooSlow = errors.New("user code takes longer for the record than max.poll.interval.ms, again and again")

// ErrNegativeTimestamp is the cause where a record's timestamp is negative and nothing says what to do with it.
var ErrNegativeTimestamp = errors.New("the record has a negative timestamp; use a timestamp extractor that gives it one, or that skips it")

type source[K, V any] struct {
	env  *Env
	step string
	spec SourceSpec[K, V]
	next Sink[K, V]
}

// NewSource makes a source step.
func NewSource[K, V any](spec SourceSpec[K, V]) Factory {
	return &sourceFactory[K, V]{spec: spec}
}

type sourceFactory[K, V any] struct{ spec SourceSpec[K, V] }

func (f *sourceFactory[K, V]) Build(env *Env, step string, children []Child) (any, error) {
	next, err := Downstream[K, V](step, children)
	if err != nil {
		return nil, err
	}
	return &source[K, V]{env: env, step: step, spec: f.spec, next: next}, nil
}

func (s *source[K, V]) NewHead(in *broker.TopicPartition) (Head, error) {
	h, err := s.newHead(in)
	if err != nil {
		return nil, err
	}
	h.failed, h.negative = s.env.counter(s.step, metrics.Deserialization), s.env.counter(s.step, metrics.NegativeTimestamp)
	h.slow = s.env.counter(s.step, metrics.Processing)
	return h, nil
}

func (s *source[K, V]) newHead(in *broker.TopicPartition) (*head[K, V], error) {
	key, err := bind(s.spec.Key, in.Topic, true)
	if err != nil {
		return nil, err
	}
	value, err := bind(s.spec.Value, in.Topic, false)
	if err != nil {
		return nil, err
	}
	h := &head[K, V]{source: s, in: in, key: key, value: value}
	h.nilKey, h.nilValue = nilness.Checker[K](), nilness.Checker[V]()
	h.keyHeaders, _ = key.(serde.HeaderDecoder[K])
	h.valueHeaders, _ = value.(serde.HeaderDecoder[V])
	return h, nil
}

// bind gives a serde that depends on the topic the topic.
func bind[T any](s serde.Serde[T], topic string, key bool) (serde.Serde[T], error) {
	b, ok := s.(serde.TopicBinder[T])
	if !ok {
		return s, nil
	}
	bound, err := b.ForTopic(topic, key)
	if err != nil {
		return nil, fmt.Errorf("millrace: serde for topic %s: %w", topic, err)
	}
	return bound, nil
}

type head[K, V any] struct {
	*source[K, V]
	in           *broker.TopicPartition
	key          serde.Serde[K]
	value        serde.Serde[V]
	keyHeaders   serde.HeaderDecoder[K]
	valueHeaders serde.HeaderDecoder[V]
	nilKey       func(*K) bool
	nilValue     func(*V) bool
	failed       *metrics.Counter
	negative     *metrics.Counter
	slow         *metrics.Counter

	raw *broker.Record
	rec processor.Record[K, V]
}

func (h *head[K, V]) Decode(raw *broker.Record, partitionTimeMs int64) (int64, bool, error) {
	ts, ok, err := h.read(raw, partitionTimeMs)
	if err != nil {
		return 0, false, h.reject(raw, err, h.failed)
	}
	if !ok {
		h.negative.Inc()
	}
	return ts, ok, nil
}

// read decodes a record and finds its event time; ok is false where that is negative.
func (h *head[K, V]) read(raw *broker.Record, partitionTimeMs int64) (tsMs int64, ok bool, err error) {
	h.raw = raw
	h.rec = processor.Record[K, V]{
		TimestampMs: raw.TimestampMs, Headers: raw.Headers, NullKey: raw.Key == nil, NullValue: raw.Value == nil,
	}
	if err := h.decode(raw); err != nil {
		return 0, false, err
	}
	tsMs, err = h.extract(raw, partitionTimeMs)
	if err != nil || tsMs < 0 {
		return 0, false, err
	}
	h.rec.TimestampMs = tsMs
	return tsMs, true, nil
}

func (h *head[K, V]) decode(raw *broker.Record) (err error) {
	defer recovered(&err)
	if h.keyHeaders != nil || h.valueHeaders != nil {
		h.rec.Headers = raw.Headers.Clone()
	}
	if raw.Key != nil {
		if h.keyHeaders != nil {
			h.rec.Key, err = h.keyHeaders.DecodeWithHeaders(raw.Key, &h.rec.Headers)
		} else {
			h.rec.Key, err = h.key.Decode(raw.Key)
		}
		if err != nil {
			return fmt.Errorf("key: %w", err)
		}
		// A decoded nil (of JSON's null, say) is a null too.
		h.rec.NullKey = h.nilKey != nil && h.nilKey(&h.rec.Key)
	}
	if raw.Value != nil {
		if h.valueHeaders != nil {
			h.rec.Value, err = h.valueHeaders.DecodeWithHeaders(raw.Value, &h.rec.Headers)
		} else {
			h.rec.Value, err = h.value.Decode(raw.Value)
		}
		if err != nil {
			return fmt.Errorf("value: %w", err)
		}
		h.rec.NullValue = h.nilValue != nil && h.nilValue(&h.rec.Value)
	}
	return nil
}

func (h *head[K, V]) extract(raw *broker.Record, partitionTimeMs int64) (ts int64, err error) {
	if h.spec.Extract == nil {
		if raw.TimestampMs < 0 {
			return 0, ErrNegativeTimestamp
		}
		return raw.TimestampMs, nil
	}
	defer recovered(&err)
	return h.spec.Extract(&h.rec, processor.Metadata{Topic: h.in.Topic, Partition: h.in.Partition, Offset: raw.Offset}, partitionTimeMs)
}

// reject asks the policy about a record that does not decode. The context of the record in process is not touched:
// decoding happens ahead of processing.
func (h *head[K, V]) reject(raw *broker.Record, err error, dropped *metrics.Counter) error {
	return h.env.rejectRecord(h.step, h.in, raw, err, dropped)
}

// rejectRecord asks the policy about a record that a step cannot decode.
func (e *Env) rejectRecord(step string, in *broker.TopicPartition, raw *broker.Record, err error, dropped *metrics.Counter) error {
	saved := e.cur
	defer func() { e.cur = saved }()
	e.SetRecord(in, raw, raw.Headers, raw.TimestampMs)
	_, out := e.judge(e.Handlers.Deserialization, processor.Deserializing, step, "", err, 1, dropped,
		"the deserialization error handler decides (millrace.OnDeserializationError): Continue skips the record and counts it")
	return out
}

func (h *head[K, V]) Process() error {
	h.env.SetRecord(h.in, h.raw, h.rec.Headers, h.rec.TimestampMs)
	return h.next.Process(&h.rec)
}

func (h *head[K, V]) Refuse(cause error) (bool, error) {
	h.env.SetRecord(h.in, h.raw, h.rec.Headers, h.rec.TimestampMs)
	return h.env.judge(h.env.Handlers.Processing, processor.Processing, h.step, "", cause, 1, h.slow,
		"make its step faster, raise max.poll.interval.ms, or let the processing error handler decide (millrace.OnProcessingError): Continue drops the record and counts it")
}
