package kgoclient

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// OffsetsAt gives for each partition the first offset whose record has a timestamp at or after a time, the end of the log
// where there is none. All partitions are in the answer or there is an error.
func (a *Admin) OffsetsAt(ctx context.Context, tsMs int64, tps ...broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	out := make(map[broker.TopicPartition]int64, len(tps))
	if len(tps) == 0 {
		return out, nil
	}
	ends, err := a.ListOffsets(ctx, broker.HighWatermark, tps...)
	if err != nil {
		return nil, err
	}
	err = a.c.retry(ctx, func() error {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		topics, partitions := byTopic(tps)
		for _, t := range topics {
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = t
			for _, p := range partitions[t] {
				rp := kmsg.NewListOffsetsRequestTopicPartition()
				rp.Partition, rp.Timestamp = p, tsMs
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		resp, err := req.RequestWith(ctx, a.c.Client)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				tp := broker.TopicPartition{Topic: t.Topic, Partition: p.Partition}
				if err := codeErr(p.ErrorCode); err != nil {
					return fmt.Errorf("%s-%d: %w", tp.Topic, tp.Partition, err)
				}
				if out[tp] = p.Offset; p.Offset < 0 {
					out[tp] = ends[tp]
				}
			}
		}
		for _, tp := range tps {
			if _, ok := out[tp]; !ok {
				return fmt.Errorf("%s-%d: %w", tp.Topic, tp.Partition, broker.CodeUnknownTopicOrPartition)
			}
		}
		return nil
	})
	if err != nil {
		return nil, a.c.fail(fmt.Sprintf("find offsets at time %d", tsMs), err)
	}
	return out, nil
}
