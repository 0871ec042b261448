package op

import (
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/serde"
)

// Replayer says what a record of a source topic was to its task, for a store whose changelog that topic is: a restore must
// not bring back what the source skipped. Only records below a committed offset are asked about, so one that does not decode
// was passed over by the deserialization handler.
type Replayer interface {
	// Replay returns what the source made of a record; ok is false if it was skipped.
	Replay(raw *broker.Record) (r Replayed, ok bool)
}

// Replayed is what a source made of a record, beside its key and value.
type Replayed struct {
	TimestampMs int64 // its event time
	Null        bool  // its value is a null
	Headers     serde.Headers
}

// ReplayerFactory is implemented by the factory of a source step.
type ReplayerFactory interface {
	NewReplayer(in broker.TopicPartition) (Replayer, error)
}

// NewReplayer makes the Replayer of one partition.
func (f *sourceFactory[K, V]) NewReplayer(in broker.TopicPartition) (Replayer, error) {
	s := &source[K, V]{spec: f.spec}
	h, err := s.newHead(&in)
	if err != nil {
		return nil, err
	}
	return &replayer[K, V]{head: h, partitionTimeMs: codec.NoTime}, nil
}

type replayer[K, V any] struct {
	head            *head[K, V]
	partitionTimeMs int64
}

func (r *replayer[K, V]) Replay(raw *broker.Record) (rec Replayed, ok bool) {
	tsMs, ok, err := r.head.read(raw, r.partitionTimeMs)
	if err != nil || !ok || r.head.rec.NullKey {
		return rec, false
	}
	r.partitionTimeMs = max(r.partitionTimeMs, tsMs)
	return Replayed{TimestampMs: tsMs, Null: r.head.rec.NullValue, Headers: r.head.rec.Headers}, true
}
