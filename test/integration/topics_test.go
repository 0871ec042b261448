package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

func TestC070_NamesPartitionsAndConfigsOfInternalTopics(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("c070")
		ta, tb := kafkatest.CreateTopic(t, b, "a", 3), kafkatest.CreateTopic(t, b, "b", 2)
		out := kafkatest.CreateTopic(t, b, "out", 1)
		bld := millrace.NewBuilder()
		merged := millrace.From(bld, texts(ta)).Merge(millrace.From(bld, texts(tb)))
		group := func(name string) millrace.Grouped[string, string] {
			return millrace.GroupBy(merged, func(_, v string) string { return v },
				millrace.RepartitionName(name), millrace.WithKey(serde.String), millrace.WithValue(serde.String))
		}
		millrace.Count(group("g"), millrace.StoreName("cnt"))
		millrace.CountWindows(group("gw").WindowBy(window.Tumbling(time.Hour).Grace(30*time.Minute)),
			millrace.StoreName("wcnt"), millrace.Retain(6*time.Hour))
		millrace.CountSessions(group("gs").SessionBy(window.Session(10*time.Minute).Grace(5*time.Minute)), millrace.StoreName("scnt"))
		millrace.TableFrom(bld, texts(kafkatest.CreateTopic(t, b, "t", 2)), millrace.StoreName("ver"), millrace.Versioned(2*time.Hour))
		millrace.From(bld, texts(ta)).Repartition(millrace.As("five"), millrace.Partitions(5)).To(texts(out))
		r := start(t, b, app, buildTopology(t, bld))
		kafkatest.Load(t, b, ta, &kgo.Record{Key: []byte("k"), Value: []byte("v")})
		awaitCommitted(t, b, app, ta, 1)
		r.stop()

		want := map[string]struct {
			partitions int
			configs    map[string]string
		}{
			"g-repartition":    {3, map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800"}},
			"gw-repartition":   {3, map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800"}},
			"five-repartition": {5, map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800"}},
			"cnt-changelog":    {3, map[string]string{"cleanup.policy": "compact"}},
			"gs-repartition":   {3, map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800"}},
			"wcnt-changelog":   {3, map[string]string{"retention.ms": "108000000"}},
			"scnt-changelog":   {3, map[string]string{"retention.ms": "87300000"}},
			"ver-changelog":    {2, map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "93600000"}},
		}
		for name, w := range want {
			topic := app + "-" + name
			configs := kafkatest.TopicConfig(t, b, topic)
			for k, v := range w.configs {
				if configs[k] != v {
					t.Errorf("%s: %s is %q, want %q", name, k, configs[k], v)
				}
			}
			if configs["message.timestamp.type"] != "CreateTime" {
				t.Errorf("%s: message.timestamp.type is %q", name, configs["message.timestamp.type"])
			}
			if got := len(kafkatest.EndOffsets(t, b, topic, kafkatest.Committed)); got != w.partitions {
				t.Errorf("%s has %d partitions, want %d", name, got, w.partitions)
			}
		}
		for _, name := range []string{"wcnt-changelog", "scnt-changelog"} {
			policy := kafkatest.TopicConfig(t, b, app+"-"+name)["cleanup.policy"]
			if policy != "compact,delete" && policy != "delete,compact" {
				t.Errorf("%s: cleanup.policy is %q, want compact,delete", name, policy)
			}
		}
	})
}

func TestC069_JoinAcrossPartitionCounts(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		ta, tb := kafkatest.CreateTopic(t, b, "a", 2), kafkatest.CreateTopic(t, b, "b", 3)
		out := kafkatest.CreateTopic(t, b, "out", 1)
		join := func(v, row string) string { return v + row }

		t.Run("refused", func(t *testing.T) {
			bld := millrace.NewBuilder()
			table := millrace.TableFrom(bld, texts(tb), millrace.As("b"))
			millrace.JoinTable(millrace.From(bld, texts(ta)), table, join).To(texts(out))
			err := start(t, b, b.Name("c069"), buildTopology(t, bld)).fails()
			for _, part := range []string{ta, tb, "2", "3"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not name %s: %v", part, err)
				}
			}
		})
		t.Run("repartitioned", func(t *testing.T) {
			app := b.Name("c069r")
			bld := millrace.NewBuilder()
			table := millrace.TableFrom(bld, texts(tb), millrace.As("b"))
			keyed := millrace.SelectKey(millrace.From(bld, texts(ta)), func(_, v string) string { return v })
			millrace.JoinTable(keyed, table, join, millrace.As("joined"), millrace.WithKey(serde.String)).To(texts(out))
			r := start(t, b, app, buildTopology(t, bld))
			kafkatest.Load(t, b, ta, &kgo.Record{Key: []byte("k"), Value: []byte("v")})
			awaitCommitted(t, b, app, ta, 1)
			r.stop()
			if got := len(kafkatest.EndOffsets(t, b, app+"-joined-repartition", kafkatest.Committed)); got != 3 {
				t.Errorf("the repartition topic has %d partitions, want the table's 3", got)
			}
		})
		t.Run("global", func(t *testing.T) {
			app := b.Name("c069g")
			bld := millrace.NewBuilder()
			table := millrace.GlobalTableFrom(bld, texts(tb), millrace.As("b"))
			millrace.JoinGlobal(millrace.From(bld, texts(ta)), table, func(_, v string) string { return v }, join).To(texts(out))
			r := start(t, b, app, buildTopology(t, bld))
			kafkatest.Load(t, b, ta, &kgo.Record{Key: []byte("k"), Value: []byte("v")})
			awaitCommitted(t, b, app, ta, 1)
			r.stop()
		})
	})
}
