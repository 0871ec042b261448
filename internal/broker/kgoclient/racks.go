package kgoclient

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// replicaRacks finds the racks of the replicas of topics. A partition that has a replica on a broker of no rack, or on one that is
// away, has none: where it could be read is not known. It gives nothing if that cannot be found out in time.
func (m *Membership) replicaRacks(topics []string) map[broker.TopicPartition][]string {
	ctx, cancel := context.WithTimeout(m.ctx, min(endsWait, m.cfg.RebalanceTimeout/3))
	defer cancel()
	racks, err := m.client().racks(ctx, topics)
	if err != nil && m.ctx.Err() == nil {
		m.cfg.Logger.Warn("the leader of the group does not know where replicas are: tasks are assigned without regard to racks",
			"group", m.cfg.Group, "error", err)
	}
	return racks
}

func (c *conn) racks(ctx context.Context, topics []string) (map[broker.TopicPartition][]string, error) {
	var resp *kmsg.MetadataResponse
	err := c.retry(ctx, func() (err error) {
		req := kmsg.NewPtrMetadataRequest()
		for _, name := range topics {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(name)
			req.Topics = append(req.Topics, t)
		}
		resp, err = req.RequestWith(ctx, c.Client)
		return err
	})
	if err != nil {
		return nil, err
	}
	of := make(map[int32]string, len(resp.Brokers))
	for _, b := range resp.Brokers {
		of[b.NodeID] = deref(b.Rack)
	}
	out := make(map[broker.TopicPartition][]string)
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		for _, p := range t.Partitions {
			var racks []string
			for _, node := range p.Replicas {
				racks = append(racks, of[node])
			}
			slices.Sort(racks)
			if racks = slices.Compact(racks); len(racks) > 0 && racks[0] != "" {
				out[broker.TopicPartition{Topic: *t.Topic, Partition: p.Partition}] = racks
			}
		}
	}
	return out, nil
}
