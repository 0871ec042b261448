package kgoclient

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// Fetcher and Reader send Fetch requests of their own. franz-go's consumer would do for records, but it shows a position
// only with the next record behind it: one that stands behind a compacted batch at the end of a log, which a deleted last
// key leaves there, is never shown, and a task that waits for this partition to be caught up would wait for ever. It also
// throws away what it has fetched when a partition is paused or another one is removed.

// fetchPart is what is asked of one partition.
type fetchPart struct {
	broker.TopicPartition
	id          [16]byte
	offset      int64
	leaderEpoch int32 // the leader's, so that a broker that is not (or not yet) leader says so
	lastEpoch   int32 // of the record before offset, so that the leader says if it has another one there; -1 unknown
	maxBytes    int32
	replica     bool // it is asked of a broker that is not the leader
}

// fetched is the answer for one partition.
type fetched struct {
	part      fetchPart
	batch     broker.Batch
	lastEpoch int32
	preferred int32 // the replica to read from instead, named by a leader; -1 none
	err       error
}

type isolation int8

const (
	readUncommitted isolation = 0
	readCommitted   isolation = 1
)

// fetch asks one broker for partitions. The answer has an entry for each partition that the broker answered for. With a rack, a
// leader may name another replica instead of answering.
func (c *conn) fetch(ctx context.Context, d kgo.Decompressor, node int32, rack string, level isolation, wait time.Duration, minBytes, maxBytes int32, parts []fetchPart) ([]fetched, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis = int32(wait.Milliseconds())
	req.MinBytes, req.MaxBytes = minBytes, maxBytes
	req.IsolationLevel = int8(level)
	req.Rack = rack
	req.SessionEpoch = -1 // no fetch session: each request is complete
	at := make(map[broker.TopicPartition]fetchPart, len(parts))
	names := make(map[[16]byte]string, len(parts))
	for _, p := range parts {
		at[p.TopicPartition] = p
		names[p.id] = p.Topic
		n := len(req.Topics)
		if n == 0 || req.Topics[n-1].Topic != p.Topic {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = p.Topic, p.id
			req.Topics = append(req.Topics, t)
			n++
		}
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p.Partition, p.offset, p.maxBytes
		rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = p.leaderEpoch, p.lastEpoch
		req.Topics[n-1].Partitions = append(req.Topics[n-1].Partitions, rp)
	}
	kresp, err := c.Broker(int(node)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := codeErr(resp.ErrorCode); err != nil {
		return nil, err
	}
	out := make([]fetched, 0, len(parts))
	for i := range resp.Topics {
		t := &resp.Topics[i]
		name := t.Topic
		if resp.Version >= 13 {
			name = names[t.TopicID]
		}
		for j := range t.Partitions {
			tp := broker.TopicPartition{Topic: name, Partition: t.Partitions[j].Partition}
			if p, ok := at[tp]; ok {
				delete(at, tp) // an answer that names a partition twice counts once
				f := answerOf(d, level, p, &t.Partitions[j])
				if named := t.Partitions[j].PreferredReadReplica; !p.replica && named != node {
					f.preferred = named
				}
				out = append(out, f)
			}
		}
	}
	return out, nil
}

func answerOf(d kgo.Decompressor, level isolation, p fetchPart, rp *kmsg.FetchResponseTopicPartition) fetched {
	f := fetched{part: p, lastEpoch: p.lastEpoch, preferred: -1}
	f.batch = broker.Batch{
		TopicPartition: p.TopicPartition, Position: p.offset,
		LastEpoch: -1, HighWater: rp.HighWatermark, StableEnd: rp.LastStableOffset, LogStart: rp.LogStartOffset,
	}
	if f.err = codeErr(rp.ErrorCode); f.err != nil {
		return f
	}
	if rp.DivergingEpoch.EndOffset >= 0 {
		f.err = &broker.TruncatedError{TopicPartition: p.TopicPartition, Offset: p.offset, End: rp.DivergingEpoch.EndOffset}
		return f
	}
	dec := decoder{
		decompressor: d, topic: p.Topic, partition: p.Partition, offset: p.offset, lastEpoch: p.lastEpoch,
		committed: level == readCommitted,
	}
	f.err = dec.decode(rp)
	f.batch.Records, f.batch.Position, f.lastEpoch = dec.records, dec.offset, dec.lastEpoch
	if dec.offset > p.offset {
		f.batch.LastEpoch = dec.lastEpoch
	}
	return f
}

// moved reports whether an error says that somebody else leads the partition now (or nobody, for the moment), or that the
// broker has not heard of it yet: look at the metadata and try again.
func moved(err error) bool {
	var c broker.Code
	return errors.As(err, &c) && c.Retriable()
}

// rangeError fills in where the log starts and ends, which the broker does not say with the error itself.
func (c *conn) rangeError(ctx context.Context, tp broker.TopicPartition, offset int64) error {
	e := &broker.OffsetRangeError{TopicPartition: tp, Offset: offset, LogStart: -1, End: -1}
	tps := []broker.TopicPartition{tp}
	if m, err := c.listOffsets(ctx, broker.Earliest, tps); err == nil {
		e.LogStart = m[tp]
	}
	if m, err := c.listOffsets(ctx, broker.HighWatermark, tps); err == nil {
		e.End = m[tp]
	}
	return e
}
