package integration_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// shownBytes prints records as "key=value@timestamp[headers]" in hexadecimal, "~" for null.
func shownBytes(records []*kgo.Record) string {
	text := func(b []byte) string {
		if b == nil {
			return "~"
		}
		return hex.EncodeToString(b)
	}
	var out []string
	for _, r := range records {
		out = append(out, fmt.Sprintf("%s=%s@%d[%s]", text(r.Key), text(r.Value), r.Timestamp.UnixMilli(), shownHeaders(r)))
	}
	return strings.Join(out, " ")
}

// A changelog record has the value's timestamp, the highest of the key so far, and neither a timestamp in its value nor
// headers.
func TestC080_ChangelogOfACount(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("c080")
		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 1), Out: kafkatest.CreateTopic(t, b, "out", 1)}
		first := at("ab", "x", 1000)
		first.Headers = headers("h", "1")
		kafkatest.Load(t, b, topics.In, first, at("ab", "y", 500))
		r := startKind(t, b, app, "count", topics, millrace.CacheBytes(0))
		awaitCommitted(t, b, app, topics.In, 2)
		r.stop()
		equal(t, "changelog", shownBytes(kafkatest.ReadAll(t, b, app+"-counts-changelog", kafkatest.Committed)),
			"6162=0000000000000001@1000[] 6162=0000000000000002@1000[]")
		// What goes downstream has the headers of the record that led to it.
		equal(t, "sink", shownBytes(kafkatest.ReadAll(t, b, topics.Out, kafkatest.Committed)),
			"6162=0000000000000001@1000[h=1] 6162=0000000000000002@1000[]")
	})
}

// A row is written with its own bytes and timestamp, and a deletion as a null with the timestamp of the record that led to it.
func TestC080_ChangelogOfAReduce(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("c080")
		in := kafkatest.CreateTopic(t, b, "in", 1)
		bld := millrace.NewBuilder()
		text := serde.Nullable(serde.String)
		rows := millrace.From(bld, millrace.NewTopic(in, serde.String, text)).GroupByKey().Reduce(func(agg, v *string) *string {
			if *v == "del" {
				return nil
			}
			s := *agg + *v
			return &s
		}, millrace.As("rows"), millrace.WithoutCache())
		rows.ToStream().ForEach(func(string, *string) {})
		kafkatest.Load(t, b, in, at("k", "a", 10), at("k", "b", 30), at("k", "del", 20), at("k", "c", 5))
		r := start(t, b, app, buildTopology(t, bld))
		awaitCommitted(t, b, app, in, 4)
		r.stop()
		equal(t, "changelog", shownBytes(kafkatest.ReadAll(t, b, app+"-rows-changelog", kafkatest.Committed)),
			"6b=61@10[] 6b=6162@30[] 6b=~@20[] 6b=63@5[]")
	})
}

// The key of a window is written with its start, and in the changelog with a sequence number of four bytes behind it.
func TestC127_WindowedKeys(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("c127")
		in, out := kafkatest.CreateTopic(t, b, "in", 1), kafkatest.CreateTopic(t, b, "out", 1)
		bld := millrace.NewBuilder()
		const size = 100 * time.Millisecond
		counts, _ := millrace.CountWindows(
			millrace.From(bld, texts(in)).GroupByKey().WindowBy(window.Tumbling(size).Grace(time.Minute)),
			millrace.As("counts"), millrace.WithoutCache())
		counts.ToStream().To(millrace.NewTopic(out, serde.Windowed(serde.String, size), serde.Int64))
		kafkatest.Load(t, b, in, at("ab", "x", 1000), at("ab", "x", 950))
		r := start(t, b, app, buildTopology(t, bld))
		awaitCommitted(t, b, app, in, 2)
		r.stop()
		equal(t, "sink", shownBytes(kafkatest.ReadAll(t, b, out, kafkatest.Committed)),
			"616200000000000003e8=0000000000000001@1000[] 61620000000000000384=0000000000000001@950[]")
		equal(t, "changelog", shownBytes(kafkatest.ReadAll(t, b, app+"-counts-changelog", kafkatest.Committed)),
			"616200000000000003e800000000=0000000000000001@1000[] 6162000000000000038400000000=0000000000000001@950[]")
	})
}

// The metadata of a committed offset are Kafka Streams' byte for byte: version 2, the partition's time, and no entries of
// processors.
func TestC131_MetadataOfCommittedOffsets(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("c131")
		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 2), Out: kafkatest.CreateTopic(t, b, "out", 1)}
		kafkatest.LoadPartition(t, b, topics.In, 0, at("a", "x", 5))
		kafkatest.LoadPartition(t, b, topics.In, 1, at("a", "x", 100), at("a", "x", 50))
		r := startKind(t, b, app, "copy", topics)
		awaitCommitted(t, b, app, topics.In, 3)
		r.stop()
		for p, want := range map[int32]string{0: "AgAAAAAAAAAF", 1: "AgAAAAAAAABk"} {
			if got := kafkatest.GroupOffsets(t, b, app)[topics.In][p].Metadata; got != want {
				t.Errorf("partition %d has the metadata %q, want %q", p, got, want)
			}
		}
	})
}

// Metadata of others, of a later version or of a tool, do not keep the application from going on at the offset.
func TestC131_ForeignMetadata(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		for i, metadata := range []string{"", "set by hand", "fwAAAAAAAAAF", "AQAAAAAAAAAF", "AgAA"} {
			t.Run(fmt.Sprintf("%q", metadata), func(t *testing.T) {
				app := b.Name(fmt.Sprint("c131-", i))
				topics := childTopics{
					In:  kafkatest.CreateTopic(t, b, fmt.Sprint("in-", i), 1),
					Out: kafkatest.CreateTopic(t, b, fmt.Sprint("out-", i), 1),
				}
				kafkatest.Load(t, b, topics.In, at("k", "a", 1), at("k", "b", 2), at("k", "c", 3))
				var offsets kadm.Offsets
				offsets.Add(kadm.Offset{Topic: topics.In, Partition: 0, At: 1, LeaderEpoch: -1, Metadata: metadata})
				if err := kadm.NewClient(kafkatest.NewClient(t, b)).CommitAllOffsets(t.Context(), app, offsets); err != nil {
					t.Fatal(err)
				}
				r := startKind(t, b, app, "copy", topics)
				awaitCommitted(t, b, app, topics.In, 3)
				r.stop()
				equal(t, "out", shown(kafkatest.ReadAll(t, b, topics.Out, kafkatest.Committed)), "k=b k=c")
			})
		}
	})
}
