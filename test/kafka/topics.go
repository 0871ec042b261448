package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// withAdmin runs a question to the cluster with a client of its own.
func withAdmin(b Broker, ask func(*kadm.Client) error) error {
	// What is asked again and again must not be answered from what was heard last: the default keeps it for five seconds.
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Bootstrap()...), kgo.MetadataMinAge(pollInterval))
	if err != nil {
		return fmt.Errorf("kafkatest: admin client: %w", err)
	}
	defer client.Close()
	return ask(kadm.NewClient(client))
}

// CreateTopic creates a topic under a name made of base and returns the name. Records are kept whatever their timestamp
// (retention.ms=-1), since tests load old event times; settings are added to that.
func CreateTopic(t testing.TB, b Broker, base string, partitions int32, settings ...map[string]string) string {
	t.Helper()
	name := b.Name(base)
	CreateTopicNamed(t, b, name, partitions, settings...)
	return name
}

// CreateTopicNamed is CreateTopic with the whole name given.
func CreateTopicNamed(t testing.TB, b Broker, name string, partitions int32, settings ...map[string]string) {
	t.Helper()
	if err := MakeTopic(t.Context(), b, name, partitions, settings...); err != nil {
		t.Fatal(err)
	}
}

// MakeTopic is CreateTopicNamed outside of a test. It returns when every partition has a leader.
func MakeTopic(ctx context.Context, b Broker, name string, partitions int32, settings ...map[string]string) error {
	configs := make(map[string]*string)
	for k, v := range Merge(append([]map[string]string{{"retention.ms": "-1"}}, settings...)...) {
		configs[k] = kadm.StringPtr(v)
	}
	return withAdmin(b, func(admin *kadm.Client) error {
		r, err := admin.CreateTopic(ctx, partitions, -1, configs, name)
		if err = errors.Join(err, r.Err); err != nil {
			return fmt.Errorf("kafkatest: create topic %q: %w %s", name, err, r.ErrMessage)
		}
		err = poll(ctx, func(ctx context.Context) error { return hasLeaders(ctx, admin, name, partitions) })
		if err != nil {
			return fmt.Errorf("kafkatest: topic %q: %w", name, err)
		}
		return nil
	})
}

func hasLeaders(ctx context.Context, admin *kadm.Client, name string, partitions int32) error {
	meta, err := admin.Metadata(ctx, name)
	if err != nil {
		return err
	}
	topic := meta.Topics[name]
	if topic.Err != nil {
		return topic.Err
	}
	if len(topic.Partitions) != int(partitions) {
		return fmt.Errorf("%d of %d partitions known", len(topic.Partitions), partitions)
	}
	for _, p := range topic.Partitions {
		if p.Err != nil || p.Leader < 0 {
			return fmt.Errorf("partition %d has no leader", p.Partition)
		}
	}
	return nil
}

// DeleteTopics deletes topics; one that does not exist is no error.
func DeleteTopics(t testing.TB, b Broker, names ...string) {
	t.Helper()
	if err := RemoveTopics(t.Context(), b, names...); err != nil {
		t.Fatal(err)
	}
}

// RemoveTopics is DeleteTopics outside of a test.
func RemoveTopics(ctx context.Context, b Broker, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	return withAdmin(b, func(admin *kadm.Client) error {
		rs, err := admin.DeleteTopics(ctx, names...)
		if err != nil {
			return fmt.Errorf("kafkatest: delete topics: %w", err)
		}
		for _, r := range rs.Sorted() {
			if r.Err != nil && !errors.Is(r.Err, kerr.UnknownTopicOrPartition) {
				return fmt.Errorf("kafkatest: delete topic %q: %w", r.Topic, r.Err)
			}
		}
		return nil
	})
}

// Topics lists the topics whose names start with a prefix, sorted; "" lists all but Kafka's own.
func Topics(t testing.TB, b Broker, prefix string) []string {
	t.Helper()
	names, err := ListTopics(t.Context(), b, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// ListTopics is Topics outside of a test.
func ListTopics(ctx context.Context, b Broker, prefix string) ([]string, error) {
	var names []string
	err := withAdmin(b, func(admin *kadm.Client) error {
		topics, err := admin.ListTopics(ctx)
		if err != nil {
			return fmt.Errorf("kafkatest: list topics: %w", err)
		}
		for _, name := range topics.Names() {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return nil
	})
	return names, err
}

// TopicConfig is the settings of a topic, defaults included.
func TopicConfig(t testing.TB, b Broker, topic string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := withAdmin(b, func(admin *kadm.Client) error {
		rs, err := admin.DescribeTopicConfigs(t.Context(), topic)
		if err != nil {
			return err
		}
		r, err := rs.On(topic, nil)
		if err = errors.Join(err, r.Err); err != nil {
			return err
		}
		for _, c := range r.Configs {
			out[c.Key] = c.MaybeValue()
		}
		return nil
	})
	if err != nil {
		t.Fatalf("kafkatest: settings of topic %q: %v", topic, err)
	}
	return out
}

// AlterTopic changes settings of a topic.
func AlterTopic(t testing.TB, b Broker, topic string, settings map[string]string) {
	t.Helper()
	err := withAdmin(b, func(admin *kadm.Client) error {
		rs, err := admin.AlterTopicConfigs(t.Context(), alterations(settings), topic)
		if err != nil {
			return err
		}
		r, err := rs.On(topic, nil)
		return errors.Join(err, r.Err)
	})
	if err != nil {
		t.Fatalf("kafkatest: settings of topic %q: %v", topic, err)
	}
}

// GroupOffset is what a group has committed for a partition.
type GroupOffset struct {
	At          int64
	LeaderEpoch int32
	Metadata    string
}

// GroupOffsets is what a group has committed, by topic and partition. Partitions without a commit are not in it. Offsets
// of a transaction that is still open are waited for.
func GroupOffsets(t testing.TB, b Broker, group string) map[string]map[int32]GroupOffset {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	var out map[string]map[int32]GroupOffset
	err := withAdmin(b, func(admin *kadm.Client) error {
		return poll(ctx, func(ctx context.Context) error {
			var err error
			out, err = groupOffsets(ctx, admin, group)
			return err
		})
	})
	if err != nil {
		t.Fatalf("kafkatest: offsets of group %q: %v", group, err)
	}
	return out
}

func groupOffsets(ctx context.Context, admin *kadm.Client, group string) (map[string]map[int32]GroupOffset, error) {
	out := make(map[string]map[int32]GroupOffset)
	rs, err := admin.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for _, r := range rs.Sorted() {
		if r.Err != nil {
			return nil, fmt.Errorf("%s-%d: %w", r.Topic, r.Partition, r.Err)
		}
		if r.At < 0 {
			continue
		}
		if out[r.Topic] == nil {
			out[r.Topic] = make(map[int32]GroupOffset)
		}
		out[r.Topic][r.Partition] = GroupOffset{At: r.At, LeaderEpoch: r.LeaderEpoch, Metadata: r.Metadata}
	}
	return out, nil
}

// AwaitGroupEmpty waits until a group has no member, or does not exist.
func AwaitGroupEmpty(t testing.TB, b Broker, group string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	err := withAdmin(b, func(admin *kadm.Client) error {
		return poll(ctx, func(ctx context.Context) error {
			gs, err := admin.DescribeGroups(ctx, group)
			if err != nil {
				return err
			}
			g := gs[group]
			if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
				return g.Err
			}
			if len(g.Members) > 0 {
				return fmt.Errorf("%d members, state %s", len(g.Members), g.State)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatalf("kafkatest: group %q does not get empty: %v", group, err)
	}
}
