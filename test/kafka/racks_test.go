package kafkatest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/kgoclient"
	"github.com/millrace-io/millrace/serde"
	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// racks are those of the three brokers.
var racks = [...]string{"east", "west", "north"}

func startWithRacks(t *testing.T) (*kafkatest.Cluster, kafkatest.Broker) {
	t.Helper()
	c := kafkatest.Start(t, kafkatest.Options{Brokers: 3, HeapMB: 256, Racks: racks[:],
		Config: map[string]string{"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}})
	return c, kafkatest.OnCluster(t, c)
}

// placed makes a topic with a chosen list of brokers, from 0, for each partition.
func placed(t *testing.T, b kafkatest.Broker, name string, replicas ...[]int32) {
	t.Helper()
	client := kafkatest.NewClient(t, b)
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, -1, -1
	for p, brokers := range replicas {
		ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		ra.Partition = int32(p)
		for _, n := range brokers {
			ra.Replicas = append(ra.Replicas, n+1)
		}
		rt.ReplicaAssignment = append(rt.ReplicaAssignment, ra)
	}
	retention, inSync := kmsg.NewCreateTopicsRequestTopicConfig(), kmsg.NewCreateTopicsRequestTopicConfig()
	retention.Name, retention.Value = "retention.ms", kmsg.StringPtr("-1")
	inSync.Name, inSync.Value = "min.insync.replicas", kmsg.StringPtr("1")
	rt.Configs = append(rt.Configs, retention, inSync)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("create %s: %v %+v", name, err, resp)
	}
}

// bytesFrom counts what is read from each address.
type bytesFrom struct {
	mu sync.Mutex
	n  map[string]*atomic.Int64
}

type countedConn struct {
	net.Conn
	n *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func (b *bytesFrom) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return countedConn{c, b.of(address)}, nil
}

func (b *bytesFrom) of(address string) *atomic.Int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n == nil {
		b.n = make(map[string]*atomic.Int64)
	}
	if b.n[address] == nil {
		b.n[address] = new(atomic.Int64)
	}
	return b.n[address]
}

// Input and changelogs are read from the replica in the client's rack, and from the leader when that is gone.
func TestRacks_readFromTheReplicaNearBy(t *testing.T) {
	c, b := startWithRacks(t)
	const topic, far, near = "in", 0, 1
	placed(t, b, topic, []int32{far, near})
	random := rand.NewChaCha8([32]byte{})
	load := func(n int) {
		t.Helper()
		var rs []*kgo.Record
		for range n {
			value := make([]byte, 10_000) // that no compression makes smaller
			_, _ = random.Read(value)
			rs = append(rs, &kgo.Record{Value: value})
		}
		kafkatest.LoadPartition(t, b, topic, 0, rs...)
	}
	load(200)
	if err := c.AwaitInSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tp := broker.TopicPartition{Topic: topic}
	client := func(from *bytesFrom) kgoclient.Config {
		return kgoclient.Config{Bootstrap: c.Bootstrap(), Dialer: from.dial, MetadataMinAge: 50 * time.Millisecond,
			Fetch: kgoclient.FetchConfig{Rack: racks[near], MaxBytes: 200_000, MaxPartitionBytes: 200_000}}
	}
	wantNear := func(who string, from *bytesFrom) {
		t.Helper()
		leader, replica := from.of(c.Bootstrap()[far]).Load(), from.of(c.Bootstrap()[near]).Load()
		if replica < 1_500_000 || leader > 200_000 {
			t.Errorf("%s: %d bytes from the leader, %d from the replica near by", who, leader, replica)
		}
	}

	var byFetcher, byReader bytesFrom
	f, err := kgoclient.NewFetcher(client(&byFetcher), true)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Assign(tp, 0, 1)
	got := 0
	poll := func(until int) {
		t.Helper()
		for got < until {
			batches := f.Poll(ctx)
			if len(batches) == 0 {
				t.Fatalf("only %d of %d records came", got, until)
			}
			for _, batch := range batches {
				if batch.Err != nil {
					t.Fatal(batch.Err)
				}
				got += len(batch.Records)
			}
		}
	}
	poll(200)
	wantNear("fetcher", &byFetcher)

	r, err := kgoclient.NewReader(client(&byReader))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	read := func(at, end int64) {
		t.Helper()
		for at < end {
			batch, err := r.Read(ctx, tp, at, 200_000, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			at = batch.Position
		}
	}
	read(0, 200)
	wantNear("reader", &byReader)

	if err := c.Kill(near); err != nil {
		t.Fatal(err)
	}
	load(20)
	poll(220)
	read(200, 220)
	if n := byFetcher.of(c.Bootstrap()[far]).Load(); n < 100_000 {
		t.Errorf("%d bytes from the leader after the replica had gone", n)
	}
}

// Each instance gets the tasks whose partitions are in its rack.
func TestRacks_assignmentFollowsThem(t *testing.T) {
	c, b := startWithRacks(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// As many as there are tasks for each instance, in an order that no other rule would find.
	at := []int32{1, 0, 0, 1, 0, 1}
	var replicas [][]int32
	for _, n := range at {
		replicas = append(replicas, []int32{n})
	}
	placed(t, b, "in", replicas...)
	kafkatest.CreateTopicNamed(t, b, "out", 1)
	ended := make(chan error, 2)
	running, stop := context.WithCancel(ctx)
	defer stop()
	for _, rack := range racks[:2] {
		builder := millrace.NewBuilder()
		in := millrace.From(builder, millrace.NewTopic("in", serde.String, serde.String))
		millrace.MapValues(in, func(v string) string { return v + " in " + rack }).To(millrace.NewTopic("out", serde.String, serde.String))
		topology, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		app, err := millrace.NewApp(topology, millrace.ApplicationID(b.Name("app")), millrace.Brokers(c.Bootstrap()...), millrace.StateDir(t.TempDir()),
			millrace.Rack(rack), millrace.FromProperties(map[string]string{"rack.aware.assignment.strategy": "min_traffic", "linger.ms": "0"}))
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- app.Run(running) }()
	}
	client := kafkatest.NewClient(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"out": {0: kgo.NewOffset().At(0)}}))
	for round := 0; ; round++ {
		for p := range at {
			r := &kgo.Record{Topic: "in", Partition: int32(p), Value: fmt.Appendf(nil, "%d: partition %d", round, p)}
			if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		var wrong []string
		for n := 0; n < len(at); {
			f := client.PollFetches(ctx)
			if err := f.Err(); err != nil {
				t.Fatalf("round %d, last time %q: %v", round, wrong, err)
			}
			f.EachRecord(func(r *kgo.Record) {
				var in, p int
				var rack string
				if _, err := fmt.Sscanf(string(r.Value), "%d: partition %d in %s", &in, &p, &rack); err != nil || in != round {
					return // once more from an earlier round
				}
				n++
				if rack != racks[at[p]] {
					wrong = append(wrong, strings.SplitN(string(r.Value), ": ", 2)[1])
				}
			})
		}
		if len(wrong) == 0 {
			break
		}
	}
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
