package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// Admin implements broker.Admin.
type Admin struct {
	c    *conn
	meta *metadata // ids of topics, for commits
}

var _ broker.Admin = (*Admin)(nil)

// NewAdmin opens an administering client.
func NewAdmin(cfg Config) (*Admin, error) {
	c, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	return &Admin{c: c, meta: newMetadata(c)}, nil
}

// Close implements broker.Admin.
func (a *Admin) Close() { a.c.Close() }

// retry calls f until it succeeds, fails for good, or the context ends; the last error is given then. An error that
// carries a retriable code, of a response or of the search for the right broker, is worth another try.
func (c *conn) retry(ctx context.Context, f func() error) error {
	for n := 1; ; n++ {
		err := f()
		var ke *kerr.Error
		if errors.As(err, &ke) {
			err = broker.Code(ke.Code) // franz-go's own search for the right broker failed
		}
		// A broker that cannot be connected to is not the only one: the search for another one begins anew.
		var ne net.Error
		dial := errors.As(err, &ne) && ctx.Err() == nil
		var code broker.Code
		if err == nil || !dial && (!errors.As(err, &code) || !code.Retriable() || errors.Is(err, broker.ErrUnknownTopic) && n > unknownTries) {
			return err
		}
		t := time.NewTimer(c.cfg.backoff(n))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

// ClusterID implements broker.Admin.
func (a *Admin) ClusterID(ctx context.Context) (string, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := req.RequestWith(ctx, a.c.Client)
	if err != nil {
		return "", a.c.fail("ask for the cluster id", err)
	}
	if resp.ClusterID == nil {
		return "", errors.New("millrace: the cluster does not tell its id: brokers before 0.10.1 are not supported")
	}
	return *resp.ClusterID, nil
}

// Topics implements broker.Admin.
func (a *Admin) Topics(ctx context.Context, names ...string) (map[string]broker.TopicInfo, error) {
	out := make(map[string]broker.TopicInfo, len(names))
	if len(names) == 0 {
		return out, nil
	}
	if err := a.meta.load(ctx, a.meta.last(), names...); err != nil {
		return nil, a.c.fail("describe topics "+strings.Join(names, ", "), err)
	}
	for _, n := range names {
		t := a.meta.topic(n)
		info := broker.TopicInfo{Name: n, ID: t.id, Partitions: int32(len(t.partitions)), Exists: t.err == nil}
		if t.err != nil && !errors.Is(t.err, broker.ErrUnknownTopic) {
			info.Exists = true // as far as one may know
			info.Err = fmt.Errorf("millrace: topic %s: %w", n, t.err)
		}
		out[n] = info
	}
	return out, nil
}

// MatchTopics implements broker.Admin.
func (a *Admin) MatchTopics(ctx context.Context, pattern string) ([]broker.TopicInfo, error) {
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil {
		return nil, fmt.Errorf("millrace: topic pattern %q: %w", pattern, err)
	}
	req := kmsg.NewPtrMetadataRequest() // no topics: all
	req.Topics = nil
	resp, err := req.RequestWith(ctx, a.c.Client)
	if err != nil {
		return nil, a.c.fail(fmt.Sprintf("list topics for pattern %q", pattern), err)
	}
	var out []broker.TopicInfo
	for _, t := range resp.Topics {
		if t.Topic == nil || t.IsInternal || strings.HasPrefix(*t.Topic, "__") || !re.MatchString(*t.Topic) {
			continue
		}
		info := broker.TopicInfo{Name: *t.Topic, ID: t.TopicID, Partitions: int32(len(t.Partitions)), Exists: true}
		if err := codeErr(t.ErrorCode); err != nil {
			if errors.Is(err, broker.ErrUnknownTopic) {
				continue // deleted just now
			}
			info.Err = fmt.Errorf("millrace: topic %s: %w", info.Name, err)
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(x, y broker.TopicInfo) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

// CreateTopic implements broker.Admin.
func (a *Admin) CreateTopic(ctx context.Context, spec broker.TopicSpec) error {
	what := "create topic " + spec.Name
	err := a.c.retry(ctx, func() error {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = int32(a.c.cfg.RequestTimeout.Milliseconds())
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = spec.Name, spec.Partitions, spec.ReplicationFactor
		for _, k := range slices.Sorted(maps.Keys(spec.Configs)) {
			c := kmsg.NewCreateTopicsRequestTopicConfig()
			c.Name, c.Value = k, kmsg.StringPtr(spec.Configs[k])
			t.Configs = append(t.Configs, c)
		}
		req.Topics = append(req.Topics, t)
		resp, err := req.RequestWith(ctx, a.c.Client)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			if err := codeErr(t.ErrorCode); err != nil {
				return withText(err, t.ErrorMessage)
			}
		}
		return nil
	})
	if err != nil {
		return a.c.fail(what, err)
	}
	// The controller has it; wait until the brokers show it, with a leader for each partition.
	err = a.c.retry(ctx, func() error {
		if err := a.meta.load(ctx, a.meta.last(), spec.Name); err != nil {
			return err
		}
		t := a.meta.topic(spec.Name)
		if t.err != nil && !errors.Is(t.err, broker.ErrUnknownTopic) {
			return t.err
		}
		if t.err != nil {
			return broker.CodeLeaderNotAvailable // not heard of yet
		}
		for _, l := range t.partitions {
			if l.node < 0 {
				return broker.CodeLeaderNotAvailable
			}
		}
		return nil
	})
	return a.c.fail(what, err)
}

// withText adds what the broker had to say to its code.
func withText(err error, text *string) error {
	if text == nil || *text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, *text)
}

// TopicConfigs implements broker.Admin.
func (a *Admin) TopicConfigs(ctx context.Context, names ...string) (map[string]map[string]string, error) {
	out := make(map[string]map[string]string, len(names))
	if len(names) == 0 {
		return out, nil
	}
	err := a.c.retry(ctx, func() error {
		req := kmsg.NewPtrDescribeConfigsRequest()
		for _, n := range names {
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, n
			req.Resources = append(req.Resources, r)
		}
		resp, err := req.RequestWith(ctx, a.c.Client)
		if err != nil {
			return err
		}
		for _, r := range resp.Resources {
			err := codeErr(r.ErrorCode)
			if errors.Is(err, broker.ErrUnknownTopic) {
				continue
			}
			if err != nil {
				return fmt.Errorf("topic %s: %w", r.ResourceName, withText(err, r.ErrorMessage))
			}
			m := make(map[string]string, len(r.Configs))
			for _, c := range r.Configs {
				if c.Value != nil {
					m[c.Name] = *c.Value
				}
			}
			out[r.ResourceName] = m
		}
		return nil
	})
	if err != nil {
		return nil, a.c.fail("describe the configuration of topics", err)
	}
	return out, nil
}

// byTopic groups partitions, both in order, so that requests are the same each time.
func byTopic(tps []broker.TopicPartition) (topics []string, partitions map[string][]int32) {
	sorted := slices.Clone(tps)
	broker.SortPartitions(sorted)
	sorted = slices.Compact(sorted)
	partitions = make(map[string][]int32)
	for _, tp := range sorted {
		if len(partitions[tp.Topic]) == 0 {
			topics = append(topics, tp.Topic)
		}
		partitions[tp.Topic] = append(partitions[tp.Topic], tp.Partition)
	}
	return topics, partitions
}

// ListOffsets implements broker.Admin.
func (a *Admin) ListOffsets(ctx context.Context, which broker.ListOffset, tps ...broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	m, err := a.c.listOffsets(ctx, which, tps)
	if err != nil {
		return nil, a.c.fail("list offsets", err)
	}
	return m, nil
}

func (c *conn) listOffsets(ctx context.Context, which broker.ListOffset, tps []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	out := make(map[broker.TopicPartition]int64, len(tps))
	err := c.retry(ctx, func() error {
		var open []broker.TopicPartition
		for _, tp := range tps {
			if _, ok := out[tp]; !ok {
				open = append(open, tp)
			}
		}
		if len(open) == 0 {
			return nil
		}
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		at := int64(-1)
		switch which {
		case broker.Earliest:
			at = -2
		case broker.StableEnd:
			req.IsolationLevel = 1
		}
		topics, partitions := byTopic(open)
		for _, t := range topics {
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = t
			for _, p := range partitions[t] {
				rp := kmsg.NewListOffsetsRequestTopicPartition()
				rp.Partition, rp.Timestamp = p, at
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		resp, err := req.RequestWith(ctx, c.Client)
		if err != nil {
			return err
		}
		var failed error
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := codeErr(p.ErrorCode); err != nil {
					failed = fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err)
					continue
				}
				out[broker.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = p.Offset
			}
		}
		if failed == nil && len(out) < len(slices.Compact(sortedPartitions(tps))) {
			failed = fmt.Errorf("%d of %d partitions answered: %w", len(out), len(tps), broker.CodeUnknownTopicOrPartition)
		}
		return failed
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func sortedPartitions(tps []broker.TopicPartition) []broker.TopicPartition {
	s := slices.Clone(tps)
	broker.SortPartitions(s)
	return s
}

// DeleteRecords implements broker.Admin.
func (a *Admin) DeleteRecords(ctx context.Context, before map[broker.TopicPartition]int64) error {
	if len(before) == 0 {
		return nil
	}
	err := a.c.retry(ctx, func() error {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis = int32(a.c.cfg.RequestTimeout.Milliseconds())
		topics, partitions := byTopic(slices.Collect(maps.Keys(before)))
		for _, t := range topics {
			rt := kmsg.NewDeleteRecordsRequestTopic()
			rt.Topic = t
			for _, p := range partitions[t] {
				rp := kmsg.NewDeleteRecordsRequestTopicPartition()
				rp.Partition, rp.Offset = p, before[broker.TopicPartition{Topic: t, Partition: p}]
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		resp, err := req.RequestWith(ctx, a.c.Client)
		if err != nil {
			return err
		}
		var failed error
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := codeErr(p.ErrorCode); err != nil {
					tp := broker.TopicPartition{Topic: t.Topic, Partition: p.Partition}
					failed = errors.Join(failed, fmt.Errorf("%s-%d before %d: %w", tp.Topic, tp.Partition, before[tp], err))
				}
			}
		}
		return failed
	})
	return a.c.fail("delete records", err)
}

// EpochEnds implements broker.Admin.
func (a *Admin) EpochEnds(ctx context.Context, epochs map[broker.TopicPartition]int32) (map[broker.TopicPartition]broker.EpochEnd, error) {
	out := make(map[broker.TopicPartition]broker.EpochEnd, len(epochs))
	if len(epochs) == 0 {
		return out, nil
	}
	err := a.c.retry(ctx, func() error {
		req := kmsg.NewPtrOffsetForLeaderEpochRequest()
		req.ReplicaID = -1
		topics, partitions := byTopic(slices.Collect(maps.Keys(epochs)))
		for _, t := range topics {
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic = t
			for _, p := range partitions[t] {
				rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
				rp.Partition, rp.LeaderEpoch = p, epochs[broker.TopicPartition{Topic: t, Partition: p}]
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
				if err := codeErr(p.ErrorCode); err != nil {
					return fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err)
				}
				out[broker.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = broker.EpochEnd{Epoch: p.LeaderEpoch, End: p.EndOffset}
			}
		}
		return nil
	})
	if err != nil {
		return nil, a.c.fail("ask for the ends of leader epochs", err)
	}
	return out, nil
}

// Group implements broker.Admin.
func (a *Admin) Group(ctx context.Context, group string) (broker.GroupInfo, error) {
	info, err := a.c.describeGroup(ctx, group)
	if err == nil && info.State == "Dead" {
		info, err = a.c.describeStreamsGroup(ctx, group)
	}
	if err != nil {
		return broker.GroupInfo{}, a.c.fail("describe group "+group, err)
	}
	return info, nil
}

func (c *conn) describeGroup(ctx context.Context, group string) (info broker.GroupInfo, err error) {
	err = c.retry(ctx, func() error {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{group}
		resp, err := req.RequestWith(ctx, c.Client)
		if err != nil {
			return err
		}
		for _, g := range resp.Groups {
			switch err := codeErr(g.ErrorCode); {
			case errors.Is(err, broker.CodeGroupIDNotFound):
				info = broker.GroupInfo{State: "Dead"}
				return nil
			case err != nil:
				return withText(err, g.ErrorMessage)
			}
			info = broker.GroupInfo{State: g.State, ProtocolType: g.ProtocolType, Protocol: g.Protocol}
			for _, m := range g.Members {
				info.Members = append(info.Members, m.ClientID+" ("+m.MemberID+" at "+m.ClientHost+")")
			}
			slices.Sort(info.Members)
		}
		return nil
	})
	return info, err
}
