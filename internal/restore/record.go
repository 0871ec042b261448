package restore

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/state"
)

// Record makes what a store is given of a record of its changelog. The rows of a suppression may be in the layout of an
// older release of Kafka Streams: a header says so, and the store gets them in today's.
func (l *Log) Record(r *broker.Record) (state.RestoreRecord, error) {
	rec := state.RestoreRecord{Key: r.Key, Value: r.Value, TimestampMs: r.TimestampMs, Headers: r.Headers}
	if !l.Buffered || r.Value == nil {
		return rec, nil
	}
	version, _ := r.Headers.Last(codec.BufferedVersionHeader)
	context := codec.Buffered{
		TimestampMs: r.TimestampMs, Offset: r.Offset, Topic: []byte(l.Topic), Partition: l.Partition, HeaderCount: len(r.Headers),
	}
	for _, h := range r.Headers {
		context.Headers = codec.AppendBufferedHeader(context.Headers, h.Key, h.Value)
	}
	var err error
	if rec.Value, err = codec.UpgradeBuffered(version, r.Value, context); err != nil {
		return rec, fmt.Errorf("store %s: record %s-%d@%d of its changelog cannot be read: %w; was it written by a newer release? It holds updates of a suppression that are not sent yet",
			l.Store, l.Topic, l.Partition, r.Offset, err)
	}
	return rec, nil
}
