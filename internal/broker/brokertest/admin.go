package brokertest

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/internal/broker"
)

// Admin implements broker.Admin.
type Admin struct {
	c        *Cluster
	unstable bool
}

var _ broker.Admin = (*Admin)(nil)

// Admin opens an administering client.
func (c *Cluster) Admin() *Admin { return &Admin{c: c} }

// Unstable makes it give committed offsets without regard to transactions that hold others, as no broker.Admin may: to show
// that somebody would notice.
func (a *Admin) Unstable() *Admin {
	a.unstable = true
	return a
}

// Close implements broker.Admin.
func (a *Admin) Close() {}

// ClusterID implements broker.Admin.
func (a *Admin) ClusterID(ctx context.Context) (id string, err error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	err = a.c.do(ctx, Call{Op: OpClusterID}, func() error { id = a.c.id; return nil })
	return id, err
}

func (t *topic) info() broker.TopicInfo {
	return broker.TopicInfo{Name: t.name, ID: t.id, Partitions: int32(len(t.logs)), Exists: true}
}

// Topics implements broker.Admin.
func (a *Admin) Topics(ctx context.Context, names ...string) (out map[string]broker.TopicInfo, err error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	err = a.c.do(ctx, Call{Op: OpTopics, Topic: strings.Join(names, ",")}, func() error {
		out = make(map[string]broker.TopicInfo, len(names))
		for _, n := range names {
			if t := a.c.topics[n]; t != nil {
				out[n] = t.info()
			} else {
				out[n] = broker.TopicInfo{Name: n}
			}
		}
		return nil
	})
	return out, err
}

// MatchTopics implements broker.Admin.
func (a *Admin) MatchTopics(ctx context.Context, pattern string) (out []broker.TopicInfo, err error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	err = a.c.do(ctx, Call{Op: OpMatchTopics, Topic: pattern}, func() error {
		re, err := regexp.Compile("^(?:" + pattern + ")$")
		if err != nil {
			return fmt.Errorf("millrace: topic pattern %q: %w", pattern, err)
		}
		for _, n := range slices.Sorted(maps.Keys(a.c.topics)) {
			if re.MatchString(n) && !strings.HasPrefix(n, "__") {
				out = append(out, a.c.topics[n].info())
			}
		}
		return nil
	})
	return out, err
}

// CreateTopic implements broker.Admin.
func (a *Admin) CreateTopic(ctx context.Context, t broker.TopicSpec) error {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	return a.c.do(ctx, Call{Op: OpCreateTopic, Topic: t.Name}, func() error {
		if a.c.topics[t.Name] != nil {
			return fmt.Errorf("millrace: create topic %s: %w", t.Name, broker.ErrTopicExists)
		}
		a.c.addTopic(t.Name, t.Partitions, maps.Clone(t.Configs))
		return nil
	})
}

// TopicConfigs implements broker.Admin. It gives what CreateTopic or SetConfig set; no defaults are filled in.
func (a *Admin) TopicConfigs(ctx context.Context, names ...string) (out map[string]map[string]string, err error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	err = a.c.do(ctx, Call{Op: OpTopicConfigs, Topic: strings.Join(names, ",")}, func() error {
		out = make(map[string]map[string]string)
		for _, n := range names {
			if t := a.c.topics[n]; t != nil {
				out[n] = maps.Clone(t.configs)
			}
		}
		return nil
	})
	return out, err
}

// SetConfig changes one setting of a topic. max.message.bytes is enforced against the bytes of key, value and headers.
func (c *Cluster) SetConfig(name, key, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.topics[name]; t != nil {
		if t.configs == nil {
			t.configs = make(map[string]string)
		}
		t.configs[key] = value
	}
}

// ListOffsets implements broker.Admin.
func (a *Admin) ListOffsets(ctx context.Context, which broker.ListOffset, tps ...broker.TopicPartition) (out map[broker.TopicPartition]int64, err error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	err = a.c.do(ctx, Call{Op: OpListOffsets, Partitions: tps}, func() error {
		out = make(map[broker.TopicPartition]int64, len(tps))
		for _, tp := range tps {
			l := a.c.log(tp)
			if l == nil {
				return fmt.Errorf("millrace: list offsets of %s-%d: %w", tp.Topic, tp.Partition, broker.CodeUnknownTopicOrPartition)
			}
			switch which {
			case broker.Earliest:
				out[tp] = l.start
			case broker.StableEnd:
				out[tp] = l.stableEnd()
			default:
				out[tp] = l.end
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// DeleteRecords implements broker.Admin.
func (a *Admin) DeleteRecords(ctx context.Context, before map[broker.TopicPartition]int64) error {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	return a.c.do(ctx, Call{Op: OpDeleteRecords, Before: maps.Clone(before)}, func() error {
		for tp, offset := range before {
			l := a.c.log(tp)
			if l == nil {
				return fmt.Errorf("millrace: delete records of %s-%d: %w", tp.Topic, tp.Partition, broker.CodeUnknownTopicOrPartition)
			}
			if offset > l.end {
				return fmt.Errorf("millrace: delete records of %s-%d before %d: %w", tp.Topic, tp.Partition, offset, broker.CodeOffsetOutOfRange)
			}
			l.truncate(offset)
		}
		return nil
	})
}

// EpochEnds implements broker.Admin. Epochs are raised by CutEnd.
func (a *Admin) EpochEnds(ctx context.Context, epochs map[broker.TopicPartition]int32) (out map[broker.TopicPartition]broker.EpochEnd, err error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	err = a.c.do(ctx, Call{Op: OpEpochEnds, Partitions: slices.Collect(maps.Keys(epochs))}, func() error {
		out = make(map[broker.TopicPartition]broker.EpochEnd, len(epochs))
		for tp, epoch := range epochs {
			l := a.c.log(tp)
			if l == nil {
				return fmt.Errorf("millrace: epochs of %s-%d: %w", tp.Topic, tp.Partition, broker.CodeUnknownTopicOrPartition)
			}
			out[tp] = l.epochEnd(epoch)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// CommittedOffsets implements broker.Admin. A pending transaction makes it fail with UNSTABLE_OFFSET_COMMIT, or wait in a
// Blocking cluster.
func (a *Admin) CommittedOffsets(ctx context.Context, group string, tps ...broker.TopicPartition) (out map[broker.TopicPartition]broker.OffsetMeta, err error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	g := a.c.group(group)
	stable := func() bool {
		return a.unstable || !slices.ContainsFunc(tps, func(tp broker.TopicPartition) bool { return g.pending(tp) })
	}
	ok := a.c.await(ctx, stable)
	err = a.c.do(ctx, Call{Op: OpCommittedOffsets, Group: group, Partitions: tps}, func() error {
		if !ok {
			return fmt.Errorf("millrace: group %s: fetch committed offsets: %w", group, broker.CodeUnstableOffsetCommit)
		}
		out = make(map[broker.TopicPartition]broker.OffsetMeta, len(tps))
		for _, tp := range tps {
			out[tp] = g.committedOrNone(tp)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// CommitOffsets implements broker.Admin.
func (a *Admin) CommitOffsets(ctx context.Context, group string, id broker.Identity, offsets map[broker.TopicPartition]broker.OffsetMeta) error {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	g := a.c.group(group)
	return a.c.do(ctx, Call{Op: OpCommitOffsets, Group: group, Identity: id, Offsets: maps.Clone(offsets)}, func() error {
		return g.commit(id, offsets, func(tp broker.TopicPartition, o broker.OffsetMeta) { g.committed[tp] = o })
	})
}

// Group implements broker.Admin.
func (a *Admin) Group(ctx context.Context, group string) (info broker.GroupInfo, err error) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	err = a.c.do(ctx, Call{Op: OpGroup, Group: group}, func() error {
		g := a.c.groups[group]
		if g == nil {
			info = broker.GroupInfo{State: "Dead"}
			return nil
		}
		if g.info != nil {
			info = *g.info
			return nil
		}
		info = broker.GroupInfo{State: g.state.String(), ProtocolType: "consumer", Protocol: "millrace"}
		for _, id := range slices.Sorted(maps.Keys(g.members)) {
			info.Members = append(info.Members, g.members[id].clientID)
		}
		return nil
	})
	return info, err
}
