package kafkatest_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// row is a record as the tests compare it.
type row struct {
	Partition   int32
	Offset      int64
	Key, Value  string
	NullKey     bool
	NullValue   bool
	TimestampMs int64
	Headers     string
}

func rows(records []*kgo.Record) []row {
	var out []row
	for _, r := range records {
		var headers bytes.Buffer
		for _, h := range r.Headers {
			fmt.Fprintf(&headers, "%s=%s;", h.Key, h.Value)
		}
		out = append(out, row{
			Partition: r.Partition, Offset: r.Offset,
			Key: string(r.Key), NullKey: r.Key == nil,
			Value: string(r.Value), NullValue: r.Value == nil,
			TimestampMs: r.Timestamp.UnixMilli(), Headers: headers.String(),
		})
	}
	return out
}

func record(key, value string) *kgo.Record {
	return &kgo.Record{Key: []byte(key), Value: []byte(value)}
}

func TestLoadedRecordsAreReadBackWhole(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		topic := kafkatest.CreateTopic(t, b, "in", 2)
		old := time.UnixMilli(1_000_000) // a broker with a retention would drop it
		kafkatest.LoadPartition(t, b, topic, 1,
			&kgo.Record{Key: []byte("a"), Value: []byte("1"), Timestamp: old, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}}},
			&kgo.Record{Value: []byte("2"), Timestamp: old.Add(time.Second)},
			&kgo.Record{Key: []byte("a"), Timestamp: old.Add(2 * time.Second)},
		)
		want := []row{
			{Partition: 1, Offset: 0, Key: "a", Value: "1", TimestampMs: 1_000_000, Headers: "h=x;"},
			{Partition: 1, Offset: 1, NullKey: true, Value: "2", TimestampMs: 1_001_000},
			{Partition: 1, Offset: 2, Key: "a", NullValue: true, TimestampMs: 1_002_000},
		}
		for _, isolation := range []kafkatest.Isolation{kafkatest.Committed, kafkatest.Uncommitted} {
			if diff := cmp.Diff(want, rows(kafkatest.ReadAll(t, b, topic, isolation))); diff != "" {
				t.Errorf("isolation %d (-want +got):\n%s", isolation, diff)
			}
		}
	})
}

func TestLoadPartitionsByKeyAsKafkaDoes(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		topic := kafkatest.CreateTopic(t, b, "in", 3)
		kafkatest.Load(t, b, topic, record("21", ""), record("foobar", ""), record("abc", ""))
		// murmur2 of the keys, from the tests of Kafka's own Utils class, without the sign and modulo 3.
		want := map[string]int32{"21": partition(-973932308, 3), "foobar": partition(-790332482, 3), "abc": partition(479470107, 3)}
		got := make(map[string]int32)
		for _, r := range kafkatest.ReadAll(t, b, topic, kafkatest.Committed) {
			got[string(r.Key)] = r.Partition
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func partition(hash int32, partitions int32) int32 { return (hash & 0x7fffffff) % partitions }

func TestIsolationOfTransactions(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		topic := kafkatest.CreateTopic(t, b, "out", 1)
		client := kafkatest.NewClient(t, b, kgo.TransactionalID(b.Name("txn")), kgo.DefaultProduceTopic(topic))
		transaction := func(value string, end kgo.TransactionEndTry) {
			t.Helper()
			if err := client.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := client.ProduceSync(t.Context(), record("k", value)).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := client.EndTransaction(t.Context(), end); err != nil {
				t.Fatal(err)
			}
		}
		transaction("committed", kgo.TryCommit)
		transaction("aborted", kgo.TryAbort) // the log now ends with a marker, which no consumer shows
		// The marker of a transaction may be written after its end was acknowledged.
		all := kafkatest.ReadUntil(t, b, topic, kafkatest.Committed, func(rs []*kgo.Record) bool {
			return kafkatest.EndOffsets(t, b, topic, kafkatest.Committed)[0] == 4
		})
		if len(all) != 1 || string(all[0].Value) != "committed" {
			t.Errorf("committed: got %v", rows(all))
		}

		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(t.Context(), record("k", "open")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if got := kafkatest.EndOffsets(t, b, topic, kafkatest.Committed)[0]; got != 4 {
			t.Errorf("last stable offset under an open transaction is %d, want 4", got)
		}
		var values []string
		for _, r := range kafkatest.ReadAll(t, b, topic, kafkatest.Uncommitted) {
			values = append(values, string(r.Value))
		}
		if diff := cmp.Diff([]string{"committed", "aborted", "open"}, values); diff != "" {
			t.Errorf("uncommitted: %s", diff)
		}
		if err := client.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Error(err)
		}
	})
}

func TestGroupOffsetsWithMetadata(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		topic := kafkatest.CreateTopic(t, b, "in", 2)
		group := b.Name("group")
		if got := kafkatest.GroupOffsets(t, b, group); len(got) != 0 {
			t.Errorf("offsets of a group that never was: %v", got)
		}
		var offsets kadm.Offsets
		offsets.Add(kadm.Offset{Topic: topic, Partition: 1, At: 7, LeaderEpoch: -1, Metadata: "AgAA"})
		admin := kadm.NewClient(kafkatest.NewClient(t, b))
		if err := admin.CommitAllOffsets(t.Context(), group, offsets); err != nil {
			t.Fatal(err)
		}
		want := map[string]map[int32]kafkatest.GroupOffset{topic: {1: {At: 7, LeaderEpoch: -1, Metadata: "AgAA"}}}
		if diff := cmp.Diff(want, kafkatest.GroupOffsets(t, b, group)); diff != "" {
			t.Error(diff)
		}
		kafkatest.AwaitGroupEmpty(t, b, group)
	})
}

func TestTopicSettings(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		topic := kafkatest.CreateTopic(t, b, "in", 1, map[string]string{"cleanup.policy": "compact"})
		check := func(key, want string) {
			t.Helper()
			if got := kafkatest.TopicConfig(t, b, topic)[key]; got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		check("cleanup.policy", "compact")
		check("retention.ms", "-1")
		kafkatest.AlterTopic(t, b, topic, map[string]string{"cleanup.policy": "delete"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for kafkatest.TopicConfig(t, b, topic)["cleanup.policy"] != "delete" && ctx.Err() == nil {
		}
		check("cleanup.policy", "delete")
		check("retention.ms", "-1")

		if diff := cmp.Diff([]string{topic}, kafkatest.Topics(t, b, b.Name(""))); diff != "" {
			t.Errorf("topics: %s", diff)
		}
		kafkatest.DeleteTopics(t, b, topic, b.Name("never-was"))
		for len(kafkatest.Topics(t, b, b.Name(""))) != 0 && ctx.Err() == nil {
		}
		if got := kafkatest.Topics(t, b, b.Name("")); len(got) != 0 {
			t.Errorf("topics after deletion: %v", got)
		}
	})
}

func TestNamesDiffer(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		first := b.Name("app")
		t.Run("inner", func(t *testing.T) {
			fake := kafkatest.Embedded(t)
			if second := fake.Name("app"); second == first {
				t.Errorf("two tests were given the name %q", first)
			}
		})
		if again := b.Name("app"); again != first {
			t.Errorf("one test was given %q, then %q", first, again)
		}
	})
}

func TestQuickCompaction(t *testing.T) {
	b := kafkatest.OnCluster(t, kafkatest.Start(t, kafkatest.Options{Config: kafkatest.QuickCleaner()}))
	topic := kafkatest.CreateTopic(t, b, "changelog", 1, kafkatest.QuickCompaction())
	for i := range 20 {
		kafkatest.Load(t, b, topic, record("a", fmt.Sprint(i)), record("b", fmt.Sprint(i)))
	}
	// All but the newest segment, which has at least one record, is compacted down to the newest record of each key.
	got := kafkatest.ReadUntil(t, b, topic, kafkatest.Committed, func(rs []*kgo.Record) bool { return len(rs) <= 4 })
	last := make(map[string]string)
	for _, r := range got {
		last[string(r.Key)] = string(r.Value)
	}
	if diff := cmp.Diff(map[string]string{"a": "19", "b": "19"}, last); diff != "" {
		t.Error(diff)
	}
}

func TestSmallSegments(t *testing.T) {
	b := kafkatest.Shared(t)
	c := kafkatest.SharedCluster(t)
	topic := kafkatest.CreateTopic(t, b, "segments", 1, kafkatest.SmallSegments(1024))
	for range 4 {
		value := make([]byte, 600)
		rand.Read(value) // compression would make short work of anything else
		kafkatest.Load(t, b, topic, &kgo.Record{Value: value})
	}
	if got := segments(t, c.DataDir(0), topic+"-0"); got < 2 {
		t.Errorf("%d segments of 1,024 bytes hold four records of 600", got)
	}
}
