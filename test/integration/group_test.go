package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// Two topologies under one application id: the second says so and ends; the first goes on.
func TestC103_TwoTopologiesUnderOneID(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, b kafkatest.Broker, p millrace.GroupProtocolKind) {
		underBoth(t, b, func(t *testing.T, b kafkatest.Broker, g millrace.AppOption, _ bool) {
			app := b.Name("c103")
			t1, t2, t3 := kafkatest.CreateTopic(t, b, "t1", 2), kafkatest.CreateTopic(t, b, "t2", 2), kafkatest.CreateTopic(t, b, "t3", 2)
			out := kafkatest.CreateTopic(t, b, "out", 1)
			bld := millrace.NewBuilder()
			millrace.From(bld, texts(t1)).To(texts(out))
			millrace.From(bld, texts(t2)).To(texts(out))
			first := start(t, b, app, buildTopology(t, bld), g, millrace.GroupProtocol(p))
			first.untilRunning()

			err := startKind(t, b, app, "copy", childTopics{In: t3, Out: out}, g, millrace.GroupProtocol(p)).fails()
			if !errors.Is(err, millrace.ErrTopologyMismatch) {
				t.Errorf("the error is %v", err)
			}
			says(t, err, app, t1, t2, t3, "give one of the two another application.id")

			kafkatest.Load(t, b, t1, at("a", "1", 1))
			kafkatest.Load(t, b, t2, at("b", "2", 2))
			kafkatest.Load(t, b, t3, at("c", "3", 3))
			awaitCommitted(t, b, app, t1, 1)
			awaitCommitted(t, b, app, t2, 1)
			first.stop()
			if o := kafkatest.GroupOffsets(t, b, app)[t3]; len(o) != 0 {
				t.Errorf("something has committed offsets of %s: %v", t3, o)
			}
			if got := len(kafkatest.ReadStable(t, b, out)); got != 2 {
				t.Errorf("%d records were written, want 2", got)
			}
		})
	})
}

// A group that holds plain consumers, or any other kind of member, is refused: after it was waited for as long as a member
// that has stopped may be in it, which is why everything here runs at once.
func TestMixedGroup_isRefused(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		t.Parallel()
		apps := make(map[string]*running)
		for name, balancer := range map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer()} {
			topics := childTopics{In: kafkatest.CreateTopic(t, b, name+"-in", 2), Out: kafkatest.CreateTopic(t, b, name+"-out", 1)}
			plainConsumer(t, b, b.Name(name), topics.In, balancer)
			apps[name] = startKind(t, b, b.Name(name), "copy", topics, millrace.SessionTimeout(2*time.Second))
		}
		for name, r := range apps {
			r.until("it says that it waits", func() bool { return r.logged("WARN", b.Name(name), "waiting for them to leave") })
		}
		for name, r := range apps {
			err := r.fails()
			if !errors.Is(err, millrace.ErrMixedGroup) {
				t.Errorf("the error is %v", err)
			}
			says(t, err, b.Name(name), "assignor "+name, "stop the other application, or choose another application id")
		}
	})
}

// Members of another kind that leave are waited for.
func TestMixedGroup_isWaitedOut(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("waited")
		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 2), Out: kafkatest.CreateTopic(t, b, "out", 1)}
		leave := plainConsumer(t, b, app, topics.In, kgo.RangeBalancer())
		r := startKind(t, b, app, "copy", topics)
		r.until("it says that it waits", func() bool { return r.logged("WARN", app, "waiting for them to leave") })
		leave()
		r.untilRunning()
		r.stop()
	})
}

// A plain consumer that comes later is refused by the brokers, and the application does not notice.
func TestMixedGroup_plainConsumerComesLater(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("later")
		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 2), Out: kafkatest.CreateTopic(t, b, "out", 1)}
		r := startKind(t, b, app, "copy", topics)
		r.untilRunning()
		client := kafkatest.NewClient(t, b, kgo.ConsumerGroup(app), kgo.ConsumeTopics(topics.In), kgo.Balancers(kgo.RangeBalancer()))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var got error
		for got == nil && ctx.Err() == nil {
			for _, e := range client.PollFetches(ctx).Errors() {
				got = e.Err
			}
		}
		if !errors.Is(got, kerr.InconsistentGroupProtocol) {
			t.Errorf("the consumer is told %v", got)
		}
		kafkatest.Load(t, b, topics.In, numbered("v", 10)...)
		awaitCommitted(t, b, app, topics.In, 10)
		if n := runningTasks(r.app); n != 2 {
			t.Errorf("%d tasks run, want 2", n)
		}
		r.stop()
	})
}

// plainConsumer joins a group as any consumer does, and waits until it is in it. It leaves when told, or with the test.
func plainConsumer(t *testing.T, b kafkatest.Broker, group, topic string, balancer kgo.GroupBalancer) (leave func()) {
	t.Helper()
	assigned := make(chan struct{}, 1)
	client := kafkatest.NewClient(t, b, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Balancers(balancer), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
			select {
			case assigned <- struct{}{}:
			default:
			}
		}))
	select {
	case <-assigned:
	case <-time.After(patience):
		t.Fatal("a plain consumer is not let into the group")
	}
	return client.Close
}
