package kgoclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// Groups lists the groups of the cluster that this client may know of.
func (a *Admin) Groups(ctx context.Context) ([]broker.GroupListing, error) {
	var out []broker.GroupListing
	err := a.c.retry(ctx, func() error {
		out = out[:0]
		resp, err := kmsg.NewPtrListGroupsRequest().RequestWith(ctx, a.c.Client) // to every broker
		if err != nil {
			return err
		}
		if err := codeErr(resp.ErrorCode); err != nil {
			return err
		}
		for _, g := range resp.Groups {
			l := broker.GroupListing{Name: g.Group, Type: broker.GroupType(strings.ToLower(g.GroupType)), State: g.GroupState}
			if l.Type == broker.GroupNone {
				l.Type = broker.GroupClassic
			}
			out = append(out, l)
		}
		return nil
	})
	if err != nil {
		return nil, a.c.fail("list groups", err)
	}
	slices.SortFunc(out, func(x, y broker.GroupListing) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

// DescribeGroup tells the state of a group of the given type and who is in it. Each type has a request of its own; a broker
// answers that of another type as if the group did not exist, which is the state "Dead".
func (a *Admin) DescribeGroup(ctx context.Context, group string, t broker.GroupType) (broker.GroupDetail, error) {
	d := broker.GroupDetail{State: "Dead"}
	err := a.c.retry(ctx, func() (err error) {
		d = broker.GroupDetail{State: "Dead"}
		switch t {
		case broker.GroupStreams:
			err = a.describeStreams(ctx, group, &d)
		case broker.GroupConsumer:
			err = a.describeConsumer(ctx, group, &d)
		default:
			err = a.describeClassic(ctx, group, &d)
		}
		return err
	})
	if err != nil {
		return broker.GroupDetail{}, a.c.fail("describe group "+group, err)
	}
	slices.SortFunc(d.Members, func(x, y broker.MemberInfo) int {
		return cmp.Or(strings.Compare(x.ClientID, y.ClientID), strings.Compare(x.MemberID, y.MemberID))
	})
	return d, nil
}

// described takes the outcome for one group; ok is false if there is no such group.
func described(code int16, text *string) (ok bool, err error) {
	err = codeErr(code)
	if errors.Is(err, broker.CodeGroupIDNotFound) {
		return false, nil
	}
	if err != nil {
		return false, withText(err, text)
	}
	return true, nil
}

// tell notes what a broker says of one group, if there is such a group. member gives the i-th of its members.
func tell(d *broker.GroupDetail, t broker.GroupType, code int16, text *string, state string, members int, member func(i int) broker.MemberInfo) error {
	ok, err := described(code, text)
	if err != nil || !ok {
		return err
	}
	d.Type, d.State = t, state
	for i := range members {
		d.Members = append(d.Members, member(i))
	}
	return nil
}

func memberInfo(id string, instance *string, client, host string) broker.MemberInfo {
	return broker.MemberInfo{MemberID: id, InstanceID: deref(instance), ClientID: client, Host: host}
}

func (a *Admin) describeClassic(ctx context.Context, group string, d *broker.GroupDetail) error {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, a.c.Client)
	if err != nil {
		return err
	}
	for _, g := range resp.Groups {
		if g.ErrorCode == 0 && g.State == d.State {
			continue // there is none
		}
		if err := tell(d, broker.GroupClassic, g.ErrorCode, g.ErrorMessage, g.State, len(g.Members), func(i int) broker.MemberInfo {
			m := &g.Members[i]
			return memberInfo(m.MemberID, m.InstanceID, m.ClientID, m.ClientHost)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (a *Admin) describeConsumer(ctx context.Context, group string, d *broker.GroupDetail) error {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, a.c.Client)
	if err != nil {
		return err
	}
	for _, g := range resp.Groups {
		if err := tell(d, broker.GroupConsumer, g.ErrorCode, g.ErrorMessage, g.State, len(g.Members), func(i int) broker.MemberInfo {
			m := &g.Members[i]
			return memberInfo(m.MemberID, m.InstanceID, m.ClientID, m.ClientHost)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (a *Admin) describeStreams(ctx context.Context, group string, d *broker.GroupDetail) error {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, a.c.Client)
	if err != nil {
		return err
	}
	for _, g := range resp.Groups {
		if err := tell(d, broker.GroupStreams, g.ErrorCode, g.ErrorMessage, g.State, len(g.Members), func(i int) broker.MemberInfo {
			m := &g.Members[i]
			return memberInfo(m.MemberID, m.InstanceID, m.ClientID, m.ClientHost)
		}); err != nil {
			return err
		}
	}
	return nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// RemoveMembers takes members out of a classic group, static ones by their instance id. Who is gone already is no error.
func (a *Admin) RemoveMembers(ctx context.Context, group, reason string, members ...broker.MemberInfo) error {
	if len(members) == 0 {
		return nil
	}
	err := a.c.retry(ctx, func() error {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = group
		for _, m := range members {
			rm := kmsg.NewLeaveGroupRequestMember()
			rm.MemberID, rm.Reason = m.MemberID, kmsg.StringPtr(reason)
			if m.InstanceID != "" {
				rm.InstanceID = kmsg.StringPtr(m.InstanceID)
			}
			req.Members = append(req.Members, rm)
		}
		if len(members) == 1 {
			req.MemberID = members[0].MemberID // up to v2
		}
		resp, err := req.RequestWith(ctx, a.c.Client)
		if err != nil {
			return err
		}
		if err := codeErr(resp.ErrorCode); err != nil && !gone(err) {
			return err
		}
		for _, m := range resp.Members {
			if err := codeErr(m.ErrorCode); err != nil && !gone(err) {
				return fmt.Errorf("member %s: %w", m.MemberID, err)
			}
		}
		return nil
	})
	return a.c.fail("group "+group+": remove members", err)
}

func gone(err error) bool {
	return errors.Is(err, broker.CodeUnknownMemberID) || errors.Is(err, broker.CodeGroupIDNotFound)
}

// AllCommitted gives every offset that a group has committed, once no open transaction can change it any more. topics are
// all topics of the cluster: newer brokers name them by their ids alone, and offsets of others are left out.
func (a *Admin) AllCommitted(ctx context.Context, group string, topics []broker.TopicInfo) (map[broker.TopicPartition]broker.OffsetMeta, error) {
	names := make(map[[16]byte]string, len(topics))
	for _, t := range topics {
		names[t.ID] = t.Name
	}
	var out map[broker.TopicPartition]broker.OffsetMeta
	err := a.c.retry(ctx, func() error {
		out = make(map[broker.TopicPartition]broker.OffsetMeta)
		req := kmsg.NewPtrOffsetFetchRequest()
		req.RequireStable = true
		req.Group, req.Topics = group, nil // up to v7; no topics are all
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group, rg.MemberEpoch, rg.Topics = group, -1, nil
		req.Groups = append(req.Groups, rg)
		resp, err := req.RequestWith(ctx, a.c.Client)
		if err != nil {
			return err
		}
		take := func(topic string, id [16]byte, p int32, code int16, offset int64, epoch int32, metadata *string) error {
			if topic == "" {
				topic = names[id]
			}
			if err := codeErr(code); err != nil {
				return fmt.Errorf("%s-%d: %w", topic, p, err)
			}
			if topic != "" && offset >= 0 {
				out[broker.TopicPartition{Topic: topic, Partition: p}] = broker.OffsetMeta{Offset: offset, Epoch: epoch, Metadata: deref(metadata)}
			}
			return nil
		}
		if _, err := described(resp.ErrorCode, nil); err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := take(t.Topic, [16]byte{}, p.Partition, p.ErrorCode, p.Offset, p.LeaderEpoch, p.Metadata); err != nil {
					return err
				}
			}
		}
		for _, g := range resp.Groups {
			if _, err := described(g.ErrorCode, nil); err != nil {
				return err
			}
			for _, t := range g.Topics {
				for _, p := range t.Partitions {
					if err := take(t.Topic, t.TopicID, p.Partition, p.ErrorCode, p.Offset, p.LeaderEpoch, p.Metadata); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, a.c.fail("group "+group+": fetch committed offsets", err)
	}
	return out, nil
}

// DeleteOffsets deletes offsets that a group has committed. Those that it has not, and those of topics that are gone, are no
// error.
func (a *Admin) DeleteOffsets(ctx context.Context, group string, tps ...broker.TopicPartition) error {
	if len(tps) == 0 {
		return nil
	}
	err := a.c.retry(ctx, func() error {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group
		topics, partitions := byTopic(tps)
		for _, t := range topics {
			rt := kmsg.NewOffsetDeleteRequestTopic()
			rt.Topic = t
			for _, p := range partitions[t] {
				rp := kmsg.NewOffsetDeleteRequestTopicPartition()
				rp.Partition = p
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		resp, err := req.RequestWith(ctx, a.c.Client)
		if err != nil {
			return err
		}
		if ok, err := described(resp.ErrorCode, nil); err != nil || !ok {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := codeErr(p.ErrorCode); err != nil && !errors.Is(err, broker.ErrUnknownTopic) {
					return fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err)
				}
			}
		}
		return nil
	})
	return a.c.fail("group "+group+": delete committed offsets", err)
}

// DeleteTopics deletes topics and returns when the cluster no longer shows them. Those that do not exist are no error; what
// was refused is in the error, topic by topic, and the others are deleted.
func (a *Admin) DeleteTopics(ctx context.Context, names ...string) error {
	open := slices.Clone(names)
	refused := make(map[string]error)
	err := a.c.retry(ctx, func() error {
		if len(open) == 0 {
			return nil
		}
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis = int32(a.c.cfg.RequestTimeout.Milliseconds())
		req.TopicNames = open // up to v5
		for _, n := range open {
			rt := kmsg.NewDeleteTopicsRequestTopic()
			rt.Topic = kmsg.StringPtr(n)
			req.Topics = append(req.Topics, rt)
		}
		resp, err := req.RequestWith(ctx, a.c.Client)
		if err != nil {
			return err
		}
		var again error
		open = nil
		for _, t := range resp.Topics {
			name, err := deref(t.Topic), codeErr(t.ErrorCode)
			var code broker.Code
			switch {
			case err == nil || errors.Is(err, broker.ErrUnknownTopic):
			case errors.As(err, &code) && code.Retriable():
				open = append(open, name)
				again = fmt.Errorf("topic %s: %w", name, withText(err, t.ErrorMessage))
			default:
				refused[name] = withText(err, t.ErrorMessage)
			}
		}
		return again
	})
	if err != nil {
		return a.c.fail("delete topics", err)
	}
	var failed []error
	gone := make([]string, 0, len(names))
	for _, n := range names {
		if err := refused[n]; err != nil {
			failed = append(failed, a.c.fail("delete topic "+n, err))
			continue
		}
		gone = append(gone, n)
	}
	if err := a.awaitGone(ctx, gone); err != nil {
		failed = append(failed, a.c.fail("delete topics", err))
	}
	return errors.Join(failed...)
}

// awaitGone waits until the cluster shows none of the topics.
func (a *Admin) awaitGone(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return a.c.retry(ctx, func() error {
		if err := a.meta.load(ctx, a.meta.last(), names...); err != nil {
			return err
		}
		for _, n := range names {
			if err := a.meta.topic(n).err; err == nil {
				return fmt.Errorf("topic %s is still shown: %w", n, broker.CodeLeaderNotAvailable) // not heard of yet
			} else if !errors.Is(err, broker.ErrUnknownTopic) {
				return err
			}
		}
		return nil
	})
}
