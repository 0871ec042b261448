package op

import (
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
)

// Replayer says what a record of a source topic was to its task, for a store whose changelog that topic is: a restore must
// not bring back what the source skipped. Only records below a committed offset are asked about, so one that does not decode
// was passed over by the deserialization handler.
type Replayer interface {
	// Replay returns the record's event time, and whether its value is a null; ok is false if it was skipped.
	Replay(raw *broker.Record) (tsMs int64, null, ok bool)
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

func (r *replayer[K, V]) Replay(raw *broker.Record) (tsMs int64, null, ok bool) {
	tsMs, ok, err := r.head.read(raw, r.partitionTimeMs)
	if err != nil || !ok || r.head.rec.NullKey {
		return 0, false, false
	}
	r.partitionTimeMs = max(r.partitionTimeMs, tsMs)
	return tsMs, r.head.rec.NullValue, true
}
