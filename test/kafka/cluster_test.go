package kafkatest_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// segments counts the segment files of a partition.
func segments(t *testing.T, dataDir, partition string) int {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dataDir, partition, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	return len(logs)
}

func TestOneBrokerBounced(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{})
	b := kafkatest.OnCluster(t, c)
	topic := kafkatest.CreateTopic(t, b, "in", 1)
	check := func(want int) {
		t.Helper()
		if got := len(kafkatest.ReadAll(t, b, topic, kafkatest.Committed)); got != want {
			t.Errorf("%d records, want %d", got, want)
		}
	}
	kafkatest.Load(t, b, topic, record("k", "1"))
	check(1)

	if err := c.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if c.Running(0) {
		t.Error("the broker runs after Stop")
	}
	if conn, err := net.Dial("tcp", c.Bootstrap()[0]); err == nil {
		conn.Close()
		t.Error("the broker accepts connections after Stop")
	}
	if err := c.Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	check(1)
	kafkatest.Load(t, b, topic, record("k", "2"))

	if err := c.Kill(0); err != nil {
		t.Fatal(err)
	}
	if c.Running(0) {
		t.Error("the broker runs after Kill")
	}
	if err := c.Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	check(2)

	root := c.Root()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Errorf("data is left after Close: %v", err)
	}
}

func TestThreeBrokersOutliveALeader(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{Brokers: 3})
	b := kafkatest.OnCluster(t, c)
	if got := len(c.Bootstrap()); got != 3 {
		t.Fatalf("%d addresses", got)
	}
	topic := kafkatest.CreateTopic(t, b, "in", 3)
	kafkatest.Load(t, b, topic, record("a", "1"), record("b", "1"), record("c", "1"))

	victim, err := c.Leader(t.Context(), topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(victim); err != nil {
		t.Fatal(err)
	}
	// The two that are left are a quorum and enough replicas in sync.
	kafkatest.LoadPartition(t, b, topic, 0, record("a", "2"))
	if leader, err := c.Leader(t.Context(), topic, 0); err != nil || leader == victim {
		t.Errorf("leader is broker %d (%v), which was killed", leader, err)
	}
	for _, find := range []func(context.Context, string) (int, error){c.GroupCoordinator, c.TxnCoordinator} {
		if _, err := find(t.Context(), b.Name("x")); err != nil {
			t.Error(err)
		}
	}
	if err := c.Restart(t.Context(), victim); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitInSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(kafkatest.ReadAll(t, b, topic, kafkatest.Committed)); got != 4 {
		t.Errorf("%d records, want 4", got)
	}
}

func TestBrokerSettings(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{
		Config:   map[string]string{"num.partitions": "5"},
		Features: map[string]int{"transaction.version": 1},
	})
	if err := c.AlterBrokers(t.Context(), map[string]string{"message.max.bytes": "2000000"}); err != nil {
		t.Fatal(err)
	}
	configs, err := c.Admin().DescribeBrokerConfigs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, r := range configs {
		for _, s := range r.Configs {
			got[s.Key] = s.MaybeValue()
		}
	}
	for key, want := range map[string]string{"num.partitions": "5", "message.max.bytes": "2000000", "auto.create.topics.enable": "false"} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	resp, err := kafkatest.NewClient(t, kafkatest.OnCluster(t, c)).Request(t.Context(), &kmsg.ApiVersionsRequest{
		Version: 3, ClientSoftwareName: "millrace", ClientSoftwareVersion: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	levels := make(map[string]int16)
	for _, f := range resp.(*kmsg.ApiVersionsResponse).FinalizedFeatures {
		levels[f.Name] = f.MaxVersionLevel
	}
	if got := levels["transaction.version"]; got != 1 {
		t.Errorf("transaction.version is %d, want 1", got)
	}
}

func TestAProducerRidesOutABounce(t *testing.T) {
	c := kafkatest.Start(t, kafkatest.Options{})
	b := kafkatest.OnCluster(t, c)
	topic := kafkatest.CreateTopic(t, b, "in", 1)
	client := kafkatest.NewClient(t, b, kgo.DefaultProduceTopic(topic))
	if err := client.ProduceSync(t.Context(), record("k", "1")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(0); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	client.Produce(t.Context(), record("k", "2"), func(_ *kgo.Record, err error) { done <- err })
	if err := c.Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the record was not acknowledged after the restart")
	}
	if got := len(kafkatest.ReadAll(t, b, topic, kafkatest.Committed)); got != 2 {
		t.Errorf("%d records, want 2", got)
	}
}
