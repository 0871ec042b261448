package integration_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// eachProtocol runs a test on each broker under each group protocol that it has: the embedded one has no streams protocol.
func eachProtocol(t *testing.T, test func(t *testing.T, b kafkatest.Broker, p millrace.GroupProtocolKind)) {
	t.Helper()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		for _, p := range []millrace.GroupProtocolKind{millrace.Classic, millrace.Streams} {
			if p == millrace.Streams && !b.Real() {
				continue
			}
			t.Run(p.String(), func(t *testing.T) { test(t, kafkatest.Renamed(t, b), p) })
		}
	})
}

// An application changes its group protocol, both ways, when all its instances have stopped: what is committed stays.
func TestGroupProtocol_change(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	app := b.Name("change")
	topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 3), Out: kafkatest.CreateTopic(t, b, "out", 1)}
	for i, p := range []millrace.GroupProtocolKind{millrace.Classic, millrace.Streams, millrace.Classic, millrace.Streams} {
		r := startKind(t, b, app, "count", topics, millrace.GroupProtocol(p), millrace.CacheBytes(0))
		r.untilRunning()
		kafkatest.Load(t, b, topics.In, at("k", "x", 1), at("l", "x", 1), at("m", "x", 1))
		awaitCommitted(t, b, app, topics.In, int64(3*(i+1)))
		r.stop()
	}
	if d := cmp.Diff(map[string]int64{"k": 4, "l": 4, "m": 4}, highest(t, readN(t, b, topics.Out, 12))); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
}

// While members of one protocol are in the group, those of the other are kept out, and told what to do.
func TestGroupProtocol_mixed(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	for first, second := range map[millrace.GroupProtocolKind]millrace.GroupProtocolKind{millrace.Classic: millrace.Streams, millrace.Streams: millrace.Classic} {
		t.Run(first.String()+" first", func(t *testing.T) {
			t.Parallel()
			b := kafkatest.Renamed(t, b)
			app := b.Name("mixed")
			topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 2), Out: kafkatest.CreateTopic(t, b, "out", 1)}
			r := startKind(t, b, app, "copy", topics, millrace.GroupProtocol(first))
			r.untilRunning()
			other := startKind(t, b, app, "copy", topics, millrace.GroupProtocol(second), millrace.SessionTimeout(2*time.Second))
			other.until("it says that it waits", func() bool { return other.logged("WARN", app, "group.protocol="+first.String()) })
			r.stop()
			other.untilRunning()
			other.stop()
		})
	}
}

// A consumer group of another kind keeps the application out.
func TestGroupProtocol_groupOfAnotherKind(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	app := b.Name("kind")
	topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 2), Out: kafkatest.CreateTopic(t, b, "out", 1)}
	assigned := make(chan struct{})
	once := sync.OnceFunc(func() { close(assigned) })
	kafkatest.NewClient(t, b, kgo.ConsumerGroup(app), kgo.ConsumeTopics(topics.In), kgo.ServerSideBalancer(), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { once() }))
	select {
	case <-assigned:
	case <-time.After(patience):
		t.Fatal("the consumer is not let into the group")
	}
	err := startKind(t, b, app, "copy", topics, millrace.GroupProtocol(millrace.Streams)).fails()
	if !errors.Is(err, millrace.ErrMixedGroup) {
		t.Errorf("the error is %v", err)
	}
	says(t, err, app, "group of another kind", "choose another application.id")
}

// Brokers give standbys where the group is set up so, and one takes over.
func TestGroupProtocol_standbys(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	app := b.Name("standby")
	topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 4), Out: kafkatest.CreateTopic(t, b, "out", 1)}
	groupConfig(t, b, app, map[string]string{"streams.num.standby.replicas": "1"})
	one := startKind(t, b, app, "count", topics, millrace.GroupProtocol(millrace.Streams), millrace.CacheBytes(0))
	two := startKind(t, b, app, "count", topics, millrace.GroupProtocol(millrace.Streams), millrace.CacheBytes(0))
	for _, r := range []*running{one, two} {
		r.until("it has two tasks and copies of the others", func() bool { return runningTasks(r.app) == 2 && len(r.app.Metrics().Standbys) == 2 })
	}
	kafkatest.Load(t, b, topics.In, numbered("v", 40)...)
	awaitCommitted(t, b, app, topics.In, 40)
	one.stop()
	two.until("it has all tasks", func() bool { return runningTasks(two.app) == 4 })
	two.stop()
}

// groupConfig sets configs of a group.
func groupConfig(t *testing.T, b kafkatest.Broker, group string, configs map[string]string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for name, value := range configs {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value, c.Op = name, &value, kmsg.IncrementalAlterConfigOpSet
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(t.Context(), kafkatest.NewClient(t, b))
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
