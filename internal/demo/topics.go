package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topicSpec is a topic that the demo makes.
type topicSpec struct {
	name    string
	configs map[string]string
}

// topicSpecs lists the input and the derived topics. All keep their records for ever: their event times are of 2013, and a
// broker deletes records that are older than the retention time within minutes.
func topicSpecs() []topicSpec {
	spec := func(name, policy string) topicSpec {
		return topicSpec{name, map[string]string{
			"cleanup.policy":         policy,
			"message.timestamp.type": "CreateTime",
			"retention.ms":           "-1",
		}}
	}
	specs := []topicSpec{spec(FlightsTopic, "delete"), spec(ArrivalsTopic, "delete"), spec(WeatherTopic, "delete"), spec(PlanesTopic, "compact"), spec(AirlinesTopic, "compact")}
	for _, d := range DerivedTopics() {
		specs = append(specs, spec(d.Name, "delete"))
	}
	return specs
}

// EnsureTopics makes the input and derived topics that do not exist yet, each with the given partition count, and checks
// those that do: a topic with another partition count, or with settings under which the records of 2013 would be lost or
// restamped, is an error that says how to go on.
func EnsureTopics(ctx context.Context, client *kgo.Client, partitions int32) error {
	admin := kadm.NewClient(client)
	specs := topicSpecs()
	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i] = spec.name
		configs := make(map[string]*string, len(spec.configs))
		for k, v := range spec.configs {
			configs[k] = &v
		}
		const brokersDefault = -1 // replication factor
		r, err := admin.CreateTopic(ctx, partitions, brokersDefault, configs, spec.name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			if r.ErrMessage != "" {
				err = fmt.Errorf("%w (%s)", err, r.ErrMessage)
			}
			return fmt.Errorf("millrace: demo: cannot create topic %s: %w", spec.name, err)
		}
	}
	if err := waitForTopics(ctx, admin, names); err != nil {
		return err
	}
	return checkTopics(ctx, admin, specs, names, partitions)
}

func checkTopics(ctx context.Context, admin *kadm.Client, specs []topicSpec, names []string, partitions int32) error {
	topics, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("millrace: demo: cannot look at the topics: %w", err)
	}
	configs, err := admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return fmt.Errorf("millrace: demo: cannot look at the settings of the topics: %w", err)
	}
	for _, spec := range specs {
		if n := len(topics[spec.name].Partitions); n != int(partitions) {
			return fmt.Errorf("millrace: demo: topic %s has %d partitions, not %d; run with --partitions %d, or delete the topic",
				spec.name, n, partitions, n)
		}
		got, err := configs.On(spec.name, nil)
		if err == nil {
			err = got.Err
		}
		if err != nil {
			return fmt.Errorf("millrace: demo: cannot look at the settings of topic %s: %w", spec.name, err)
		}
		for _, c := range got.Configs {
			want, ok := spec.configs[c.Key]
			if ok && c.Value != nil && *c.Value != want {
				return fmt.Errorf("millrace: demo: topic %s has %s=%s; the demo's records, which are of 2013, need %s=%s: set "+
					"that, or delete the topic", spec.name, c.Key, *c.Value, c.Key, want)
			}
		}
	}
	return nil
}

// waitForTopics waits until every partition has a leader: a cluster tells its brokers of a new topic one by one.
func waitForTopics(ctx context.Context, admin *kadm.Client, names []string) error {
	for {
		topics, err := admin.ListTopics(ctx, names...)
		if err != nil {
			return fmt.Errorf("millrace: demo: cannot look at the topics: %w", err)
		}
		missing := ""
		for _, name := range names {
			t := topics[name]
			if t.Err != nil || len(t.Partitions) == 0 {
				missing = name
			}
			for _, p := range t.Partitions {
				if p.Leader < 0 {
					missing = name
				}
			}
		}
		if missing == "" {
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("millrace: demo: topic %s has no leader yet: %w", missing, err)
		}
	}
}
