package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/processor"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// underBoth runs a test under both guarantees, as parallel subtests.
func underBoth(t *testing.T, b kafkatest.Broker, test func(t *testing.T, b kafkatest.Broker, g millrace.AppOption, exactly bool)) {
	t.Helper()
	for name, g := range map[string]millrace.ProcessingGuarantee{"at least once": millrace.AtLeastOnce, "exactly once": millrace.ExactlyOnceV2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, kafkatest.Renamed(t, b), millrace.Guarantee(g), g == millrace.ExactlyOnceV2)
		})
	}
}

// A failure between the update of a store and the commit: under exactly-once the store does not count again what is processed
// again. Nothing of it has reached the brokers, so that readers of uncommitted records do not see it twice either, as they do of
// Kafka Streams. Under at-least-once it is counted again, and nothing is missing.
func TestC090_FailureBetweenStateAndCommit(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		underBoth(t, b, func(t *testing.T, b kafkatest.Broker, g millrace.AppOption, exactly bool) {
			app := b.Name("c090")
			in, out := kafkatest.CreateTopic(t, b, "in", 1), kafkatest.CreateTopic(t, b, "out", 1)
			var failed atomic.Bool
			topology := func() *millrace.Topology {
				bld := millrace.NewBuilder()
				counts := millrace.Count(millrace.From(bld, texts(in)).GroupByKey(), millrace.As("c"), millrace.WithoutCache()).ToStream()
				behind := millrace.TryMapValues(counts, func(_ context.Context, n int64) (int64, error) {
					if n >= 3 && failed.CompareAndSwap(false, true) {
						return 0, errors.New("boom")
					}
					return n, nil
				}, millrace.NodeName("behind"))
				behind.To(numbers(out))
				return buildTopology(t, bld)
			}
			kafkatest.Load(t, b, in, at("a", "x", 1), at("a", "x", 2), at("a", "boom", 3))
			dir := filepath.Join(t.TempDir(), "state")
			opts := []millrace.AppOption{g, millrace.StateDir(dir), millrace.CommitInterval(30 * time.Second),
				millrace.FromProperties(map[string]string{"transaction.timeout.ms": "60000"})}
			says(t, start(t, b, app, topology(), opts...).fails(), "boom", "step behind", in+"-0@2")

			second := start(t, b, app, topology(), opts...)
			second.until("the three records are processed", func() bool { return second.app.Metrics().Processed == 3 })
			second.stop()
			changelog := app + "-c-changelog"
			if exactly {
				for _, topic := range []string{out, changelog} {
					equal(t, topic+", committed", shownNumbers(t, kafkatest.ReadStable(t, b, topic)), "a=1@1 a=2@2 a=3@3")
					equal(t, topic+", uncommitted", shownNumbers(t, kafkatest.ReadAll(t, b, topic, kafkatest.Uncommitted)), "a=1@1 a=2@2 a=3@3")
				}
			} else {
				got := shownNumbers(t, kafkatest.ReadStable(t, b, out))
				// How far the changelog had got when the application ended is a matter of time.
				if got != "a=1@1 a=2@2 a=3@3 a=4@3 a=5@3" && got != "a=1@1 a=2@2 a=4@3 a=5@3 a=6@3" {
					t.Errorf("out holds %s", got)
				}
			}
			if at := kafkatest.GroupOffsets(t, b, app)[in][0].At; at != 3 {
				t.Errorf("the committed offset is %d, want 3", at)
			}
		})
	})
}

// A transaction that would always time out before it is committed is refused when the application is made.
func TestC094_TransactionTimeoutBelowTheCommitInterval(t *testing.T) {
	bld := millrace.NewBuilder()
	copyTopology(bld, childTopics{In: "in", Out: "out"})
	_, err := millrace.NewApp(buildTopology(t, bld), millrace.ApplicationID("c094"), millrace.Brokers("127.0.0.1:9"),
		millrace.Guarantee(millrace.ExactlyOnceV2), millrace.FromProperties(map[string]string{
			"commit.interval.ms": "30000", "transaction.timeout.ms": "10000",
		}))
	says(t, err, "transaction.timeout.ms", `"10000"`, "commit.interval.ms", "30000")
}

// asked is a production handler that drops what it is asked about, and notes it.
type asked struct {
	mu       sync.Mutex
	failures []string
}

func (a *asked) drop(f processor.Failure) processor.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, fmt.Sprintf("%s %s@%d for %s", f.Stage, f.Key, f.Origin.Offset, f.OutputTopic))
	return processor.Response{Action: processor.Continue}
}

func (a *asked) all() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.failures, ", ")
}

// A record that is too large, for the client or for the topic, reaches the handler alone and once; its neighbours are written
// and committed. That a topic takes less than before is known to its brokers only, who refuse all that was sent with the record.
func TestC113_RecordTooLarge(t *testing.T) {
	t.Parallel()
	for _, limit := range []struct {
		name      string
		client    string
		topic     string // before the application starts
		lowered   string // while it runs
		realKafka bool
	}{
		{name: "of the client", client: "20000"},
		{name: "of the topic", topic: "2000", realKafka: true},
		{name: "of the topic, lowered", lowered: "2000", realKafka: true},
	} {
		t.Run(limit.name, func(t *testing.T) {
			kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
				if limit.realKafka && !b.Real() {
					t.Skip("the embedded broker has no such limit")
				}
				underBoth(t, b, func(t *testing.T, b kafkatest.Broker, g millrace.AppOption, _ bool) {
					app := b.Name("c113")
					settings := make(map[string]string)
					if limit.topic != "" {
						settings["max.message.bytes"] = limit.topic
					}
					topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 1), Out: kafkatest.CreateTopic(t, b, "out", 1, settings)}
					opts := []millrace.AppOption{g}
					if limit.client != "" {
						opts = append(opts, millrace.FromProperties(map[string]string{"max.request.size": limit.client}))
					}
					handler := &asked{}
					r := startKind(t, b, app, "copy", topics, append(opts, millrace.OnProductionError(handler.drop))...)
					r.untilRunning()
					want := "a=small1 c=small2"
					offset := int64(0)
					if limit.lowered != "" {
						kafkatest.Load(t, b, topics.In, at("z", "before", 0))
						readN(t, b, topics.Out, 1) // by now the application knows the topic, and what it takes
						kafkatest.AlterTopic(t, b, topics.Out, map[string]string{"max.message.bytes": limit.lowered})
						await(t, "the topic takes less", patience, func() bool {
							return kafkatest.TopicConfig(t, b, topics.Out)["max.message.bytes"] == limit.lowered
						})
						want, offset = "z=before "+want, 1
					}
					kafkatest.Load(t, b, topics.In, at("a", "small1", 1), at("b", noise(50_000), 2), at("c", "small2", 3))
					r.untilDone()
					r.stop()
					equal(t, "out", shown(kafkatest.ReadStable(t, b, topics.Out)), want)
					equal(t, "the handler was asked for", handler.all(), fmt.Sprintf("producing b@%d for %s", offset+1, topics.Out))
					if at := kafkatest.GroupOffsets(t, b, app)[topics.In][0].At; at != offset+3 {
						t.Errorf("the committed offset is %d, want %d", at, offset+3)
					}
				})
			})
		})
	}
}

// noise is a text that no compression makes shorter by much.
func noise(n int) string {
	random := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.IntN(256))
	}
	return string(b)
}
