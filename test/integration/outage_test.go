package integration_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// A broker that dies and comes back is trouble that passes: the application waits, goes on, and nothing is lost.
func TestOutage_brokerComesBack(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kafkatest.Options{})
	b := kafkatest.OnCluster(t, c)
	app := b.Name("outage")
	topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 4), Out: kafkatest.CreateTopic(t, b, "out", 4)}
	const keys, rounds = 100, 20
	r := startKind(t, b, app, "count", topics, millrace.CacheBytes(0))
	kafkatest.Load(t, b, topics.In, numbered("before", keys)...)
	awaitCommitted(t, b, app, topics.In, keys)
	for range rounds - 2 {
		kafkatest.Load(t, b, topics.In, numbered("v", keys)...)
	}
	began := time.Now()
	if err := c.Kill(0); err != nil {
		t.Fatal(err)
	}
	if err := c.Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	t.Logf("the broker was away for %v", time.Since(began))
	kafkatest.Load(t, b, topics.In, numbered("after", keys)...)
	r.untilDone()
	t.Logf("all is done %v after the kill", time.Since(began))
	r.stop()
	again := int64(0)
	for key, n := range highest(t, kafkatest.ReadAll(t, b, topics.Out, kafkatest.Committed)) {
		if n < rounds {
			t.Errorf("the count of %s is %d, want at least %d", key, n, rounds)
		}
		again += n - rounds
	}
	t.Logf("%d of %d records were counted twice", again, keys*rounds)
}

// A source topic that is deleted and created again: meanwhile the application stays up and says what is missing, and then it
// reads the new topic from its start, since offsets of the old one mean nothing there.
func TestOutage_topicIsCreatedAnew(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("anew")
		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 1), Out: kafkatest.CreateTopic(t, b, "out", 1)}
		kafkatest.Load(t, b, topics.In, numbered("old", 10)...)
		r := startKind(t, b, app, "copy", topics)
		awaitCommitted(t, b, app, topics.In, 10)
		kafkatest.DeleteTopics(t, b, topics.In)
		r.until("it says that the topic is missing", func() bool { return r.logged("ERROR", "cannot be read", "topic="+topics.In, "UNKNOWN_TOPIC") })
		kafkatest.CreateTopicNamed(t, b, topics.In, 1)
		kafkatest.Load(t, b, topics.In, numbered("new", 3)...)
		got := shown(readN(t, b, topics.Out, 13)[10:])
		equal(t, "out", got, "k0=new-0 k1=new-1 k2=new-2")
		r.stop()
	})
}
