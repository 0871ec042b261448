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

// commit is what a plain offset commit and one in a transaction have in common: which topics are named how, and what was
// refused.
type commit struct {
	meta    *metadata
	group   string
	id      broker.Identity
	offsets map[broker.TopicPartition]broker.OffsetMeta
	topics  []commitTopic // to be sent
	names   map[[16]byte]string
	refused map[broker.TopicPartition]broker.Code
}

type commitTopic struct {
	name       string
	id         [16]byte
	partitions []int32
}

func (m *metadata) commit(ctx context.Context, group string, id broker.Identity, offsets map[broker.TopicPartition]broker.OffsetMeta) (*commit, error) {
	topics, partitions := byTopic(slices.Collect(maps.Keys(offsets)))
	if err := m.identify(ctx, topics); err != nil {
		return nil, err
	}
	c := &commit{
		meta: m, group: group, id: id, offsets: offsets,
		names:   make(map[[16]byte]string, len(topics)),
		refused: make(map[broker.TopicPartition]broker.Code),
	}
	for _, t := range topics {
		meta := m.topic(t)
		if meta.id == [16]byte{} && meta.err != nil {
			for _, p := range partitions[t] {
				c.refused[broker.TopicPartition{Topic: t, Partition: p}] = broker.CodeUnknownTopicOrPartition
			}
			continue
		}
		c.names[meta.id] = t
		c.topics = append(c.topics, commitTopic{name: t, id: meta.id, partitions: partitions[t]})
	}
	return c, nil
}

func (c *commit) offset(topic string, p int32) broker.OffsetMeta {
	return c.offsets[broker.TopicPartition{Topic: topic, Partition: p}]
}

// instance is the instance id of the request.
func (c *commit) instance() *string {
	if c.id.InstanceID == "" {
		return nil
	}
	return kmsg.StringPtr(c.id.InstanceID)
}

// answer notes what a partition got. The topic is named by its id where the response has no names.
func (c *commit) answer(byID bool, topic string, id [16]byte, p int32, code int16) {
	if code == 0 {
		return
	}
	if byID {
		topic = c.names[id]
	}
	refused := broker.Code(code)
	c.refused[broker.TopicPartition{Topic: topic, Partition: p}] = refused
	if refused.Is(broker.ErrUnknownTopic) {
		// Deleted, or created again: its old offsets are void, so this commit is not tried under the new id.
		c.meta.forget(topic)
	}
}

func (c *commit) err() error {
	if len(c.refused) == 0 {
		return nil
	}
	return &broker.CommitError{Group: c.group, Identity: c.id, Partitions: c.refused}
}

// CommitOffsets implements broker.Admin.
func (a *Admin) CommitOffsets(ctx context.Context, group string, id broker.Identity, offsets map[broker.TopicPartition]broker.OffsetMeta) error {
	if len(offsets) == 0 {
		return nil
	}
	what := fmt.Sprintf("group %s: commit offsets of %d partitions", group, len(offsets))
	c, err := a.meta.commit(ctx, group, id, offsets)
	if err != nil {
		return a.c.fail(what, err)
	}
	if len(c.topics) == 0 {
		return c.err()
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = group, id.MemberID, c.instance(), id.Generation
	for _, t := range c.topics {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = t.name, t.id
		for _, p := range t.partitions {
			o := c.offset(t.name, p)
			rp := kmsg.NewOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, o.Offset, o.Epoch, kmsg.StringPtr(o.Metadata)
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, a.c.Client)
	if err != nil {
		return a.c.fail(what, err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			c.answer(resp.Version >= 10, t.Topic, t.TopicID, p.Partition, p.ErrorCode)
		}
	}
	return c.err()
}

// CommittedOffsets implements broker.Admin.
func (a *Admin) CommittedOffsets(ctx context.Context, group string, tps ...broker.TopicPartition) (map[broker.TopicPartition]broker.OffsetMeta, error) {
	out := make(map[broker.TopicPartition]broker.OffsetMeta, len(tps))
	if len(tps) == 0 {
		return out, nil
	}
	err := a.c.retry(ctx, func() error { return a.fetchCommitted(ctx, group, tps, out, true) })
	if err != nil {
		return nil, a.c.fail("group "+group+": fetch committed offsets", err)
	}
	return out, nil
}

// fetchCommitted fetches offsets; stable refuses those that an open transaction may still change.
func (a *Admin) fetchCommitted(ctx context.Context, group string, tps []broker.TopicPartition, out map[broker.TopicPartition]broker.OffsetMeta, stable bool) error {
	topics, partitions := byTopic(tps)
	if err := a.meta.identify(ctx, topics); err != nil {
		return err
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = stable
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
