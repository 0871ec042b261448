package kgoclient

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/internal/broker"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The pools of the compression libraries have no owner to close them.
		goleak.IgnoreAnyFunction("github.com/klauspost/compress/zstd.(*blockDec).startDecoder"),
	)
}

const testTimeout = 20 * time.Second

// testCtx ends before the test binary would.
func testCtx(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// startCluster runs brokers on 127.0.0.1 until the test ends.
func startCluster(t testing.TB, opts ...kfake.Opt) (*kfake.Cluster, Config) {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.ListenFn(net.Listen), kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(10 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, Config{
		Bootstrap:      c.ListenAddrs(),
		ClientID:       t.Name(),
		MetadataMinAge: 10 * time.Millisecond,
		RetryBackoff:   5 * time.Millisecond, RetryBackoffMax: 20 * time.Millisecond,
		Fetch:   FetchConfig{MaxWait: 50 * time.Millisecond},
		Produce: ProduceConfig{Linger: -1},
	}
}

func topic(t testing.TB, c *kfake.Cluster, name string, partitions int32, configs map[string]string) {
	t.Helper()
	if err := c.CreateTopic(name, partitions, configs); err != nil {
		t.Fatal(err)
	}
}

// rawClient is a franz-go client as another program would use it.
func rawClient(t testing.TB, cfg Config, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(cfg.Bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(10 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func produceRaw(t testing.TB, cl *kgo.Client, tp broker.TopicPartition, values ...string) {
	t.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: tp.Topic, Partition: tp.Partition, Key: []byte(v), Value: []byte(v)}
		if err := cl.ProduceSync(testCtx(t), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// writeTxn produces values in one transaction and ends it.
func writeTxn(t testing.TB, cfg Config, tp broker.TopicPartition, commit kgo.TransactionEndTry, values ...string) {
	t.Helper()
	cl := rawClient(t, cfg, kgo.TransactionalID(fmt.Sprintf("txn-%s-%v", values[0], commit)))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produceRaw(t, cl, tp, values...)
	if err := cl.EndTransaction(testCtx(t), commit); err != nil {
		t.Fatal(err)
	}
}

func tp(topic string, partition int32) broker.TopicPartition {
	return broker.TopicPartition{Topic: topic, Partition: partition}
}

func newFetcher(t testing.TB, cfg Config, committed bool) *Fetcher {
	t.Helper()
	f, err := NewFetcher(cfg, committed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func newReader(t testing.TB, cfg Config) *Reader {
	t.Helper()
	r, err := NewReader(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func newProducer(t testing.TB, cfg Config) *Producer {
	t.Helper()
	p, err := NewProducer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func newAdmin(t testing.TB, cfg Config) *Admin {
	t.Helper()
	a, err := NewAdmin(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func valuesOf(rs []broker.Record) []string {
	var out []string
	for _, r := range rs {
		out = append(out, string(r.Value))
	}
	return out
}
