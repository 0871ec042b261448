package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// Within a commit interval the updates of a key become one in the cache; it has the timestamp and headers of the last.
func TestC121_ResultsWithAndWithoutACache(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		in := kafkatest.CreateTopic(t, b, "in", 1)
		var records []*kgo.Record
		for i, key := range []string{"a", "b", "a", "b", "a", "b"} {
			r := at(key, "x", int64(i))
			r.Headers = headers("n", fmt.Sprint(i))
			records = append(records, r)
		}
		kafkatest.Load(t, b, in, records...)
		count := func(name string, opts ...millrace.AppOption) string {
			t.Helper()
			topics := childTopics{In: in, Out: kafkatest.CreateTopic(t, b, name, 1)}
			r := startKind(t, b, b.Name("c121-"+name), "count", topics, opts...)
			r.untilDone()
			r.stop()
			var headers string
			got := kafkatest.ReadAll(t, b, topics.Out, kafkatest.Committed)
			for _, rec := range got {
				headers += " " + shownHeaders(rec)
			}
			return shownNumbers(t, got) + headers
		}
		equal(t, "with a cache", count("cached", millrace.CacheBytes(1<<20), millrace.CommitInterval(2500*time.Millisecond)),
			"a=3@4 b=3@5 n=4 n=5")
		equal(t, "without", count("plain", millrace.CacheBytes(0)),
			"a=1@0 b=1@1 a=2@2 b=2@3 a=3@4 b=3@5 n=0 n=1 n=2 n=3 n=4 n=5")
	})
}

// Two stores behind each other are flushed parents first: all of it reaches the sink with one commit.
func TestC121_ChainedStores(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("c121")
		in, out := kafkatest.CreateTopic(t, b, "in", 1), kafkatest.CreateTopic(t, b, "out", 1)
		bld := millrace.NewBuilder()
		first := millrace.Count(millrace.From(bld, texts(in)).GroupByKey(), millrace.As("first")).ToStream()
		second := millrace.Count(millrace.MapValues(first, func(n int64) string { return fmt.Sprint(n) }).
			GroupByKey(millrace.WithValue[string](serde.String)), millrace.As("second"))
		second.ToStream().To(numbers(out))
		for i := range 6 {
			kafkatest.Load(t, b, in, at("a", "x", int64(i)))
		}
		r := start(t, b, app, buildTopology(t, bld), millrace.CacheBytes(1<<20), millrace.CommitInterval(time.Second))
		r.untilDone()
		if n := r.app.Metrics().Commits; n != 1 {
			t.Errorf("%d commits, want 1", n)
		}
		equal(t, "out", shownNumbers(t, kafkatest.ReadAll(t, b, out, kafkatest.Committed)), "a=1@5")
		r.stop()
	})
}
