package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// CommitOffsets implements broker.Admin.
func (a *Admin) CommitOffsets(ctx context.Context, group string, id broker.Identity, offsets map[broker.TopicPartition]broker.OffsetMeta) error {
	if len(offsets) == 0 {
		return nil
	}
	what := fmt.Sprintf("group %s: commit offsets of %d partitions", group, len(offsets))
	topics, partitions := byTopic(slices.Collect(maps.Keys(offsets)))
	if err := a.identify(ctx, topics); err != nil {
		return a.c.fail(what, err)
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, id.MemberID, id.Generation
	if id.InstanceID != "" {
		req.InstanceID = kmsg.StringPtr(id.InstanceID)
	}
	names := make(map[[16]byte]string, len(topics))
	refused := make(map[broker.TopicPartition]broker.Code)
	for _, t := range topics {
		meta := a.meta.topic(t)
		if meta.id == [16]byte{} && meta.err != nil {
			for _, p := range partitions[t] {
				refused[broker.TopicPartition{Topic: t, Partition: p}] = broker.CodeUnknownTopicOrPartition
			}
			continue
		}
		names[meta.id] = t
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = t, meta.id
		for _, p := range partitions[t] {
			o := offsets[broker.TopicPartition{Topic: t, Partition: p}]
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, o.Offset, o.Epoch, kmsg.StringPtr(o.Metadata)
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	if len(req.Topics) > 0 {
		resp, err := req.RequestWith(ctx, a.c.Client)
		if err != nil {
			return a.c.fail(what, err)
		}
		for _, t := range resp.Topics {
			name := t.Topic
			if resp.Version >= 10 {
				name = names[t.TopicID]
			}
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 {
					continue
				}
				code := broker.Code(p.ErrorCode)
				refused[broker.TopicPartition{Topic: name, Partition: p.Partition}] = code
				if code.Is(broker.ErrUnknownTopic) {
					// Deleted, or created again: its old offsets are void, so this commit is not tried under the new id.
					a.meta.forget(name)
				}
			}
		}
	}
	if len(refused) > 0 {
		return &broker.CommitError{Group: group, Identity: id, Partitions: refused}
	}
	return nil
}

// identify makes sure that the ids of topics are known.
func (a *Admin) identify(ctx context.Context, topics []string) error {
	var unknown []string
	for _, t := range topics {
		if m := a.meta.topic(t); m.version == 0 || m.err != nil {
			unknown = append(unknown, t)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return a.meta.load(ctx, a.meta.last(), unknown...)
}

// CommittedOffsets implements broker.Admin.
func (a *Admin) CommittedOffsets(ctx context.Context, group string, tps ...broker.TopicPartition) (map[broker.TopicPartition]broker.OffsetMeta, error) {
	out := make(map[broker.TopicPartition]broker.OffsetMeta, len(tps))
	if len(tps) == 0 {
		return out, nil
	}
	err := a.c.retry(ctx, func() error { return a.fetchCommitted(ctx, group, tps, out) })
	if err != nil {
		return nil, a.c.fail("group "+group+": fetch committed offsets", err)
	}
	return out, nil
}

func (a *Admin) fetchCommitted(ctx context.Context, group string, tps []broker.TopicPartition, out map[broker.TopicPartition]broker.OffsetMeta) error {
	topics, partitions := byTopic(tps)
	if err := a.identify(ctx, topics); err != nil {
		return err
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = true
	req.Group = group // up to v7
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group, rg.MemberEpoch = group, -1
	names := make(map[[16]byte]string, len(topics))
	for _, t := range topics {
		id := a.meta.topic(t).id
		names[id] = t
		old := kmsg.NewOffsetFetchRequestTopic()
		old.Topic, old.Partitions = t, partitions[t]
		req.Topics = append(req.Topics, old)
		rt := kmsg.NewOffsetFetchRequestGroupTopic()
		rt.Topic, rt.TopicID, rt.Partitions = t, id, partitions[t]
		rg.Topics = append(rg.Topics, rt)
	}
	req.Groups = append(req.Groups, rg)
	resp, err := req.RequestWith(ctx, a.c.Client)
	if err != nil {
		return err
	}
	clear(out)
	for _, tp := range tps {
		out[tp] = broker.OffsetMeta{Offset: -1, Epoch: -1}
	}
	take := func(topic string, p int32, code int16, offset int64, epoch int32, metadata *string) error {
		if err := codeErr(code); err != nil {
			if errors.Is(err, broker.ErrUnknownTopic) {
				a.meta.forget(topic) // it may have been created again, under another id
			}
			return fmt.Errorf("%s-%d: %w", topic, p, err)
		}
		o := broker.OffsetMeta{Offset: offset, Epoch: epoch}
		if metadata != nil {
			o.Metadata = *metadata
		}
		out[broker.TopicPartition{Topic: topic, Partition: p}] = o
		return nil
	}
	unknown := func(code int16) bool { return broker.Code(code) == broker.CodeGroupIDNotFound } // nothing committed
	if err := codeErr(resp.ErrorCode); err != nil && !unknown(resp.ErrorCode) {
		return err
	}
	if len(resp.Groups) == 0 {
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := take(t.Topic, p.Partition, p.ErrorCode, p.Offset, p.LeaderEpoch, p.Metadata); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, g := range resp.Groups {
		if err := codeErr(g.ErrorCode); err != nil && !unknown(g.ErrorCode) {
			return err
		}
		for _, t := range g.Topics {
			name := t.Topic
			if resp.Version >= 10 && name == "" {
				name = names[t.TopicID]
			}
			for _, p := range t.Partitions {
				if err := take(name, p.Partition, p.ErrorCode, p.Offset, p.LeaderEpoch, p.Metadata); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
