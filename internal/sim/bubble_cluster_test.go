//go:build synctests

package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/sim"
)

const (
	appID          = "app"
	sessionTimeout = 10 * time.Second
	// stopWithin is how long a Run may take to return once it was told to: the commit timeout, and what leaving takes.
	stopWithin = 90 * time.Second
)

// bubble is a cluster of three brokers and Apps on it, within one bubble of virtual time.
type bubble struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	trace *trace
	tmp   string
	dirs  int

	vn      kfake.VirtualNetwork
	k       *kfake.Cluster
	cl      *kgo.Client // feeds, on a network without faults
	adm     *kadm.Client
	latency time.Duration

	work       work
	guarantee  millrace.ProcessingGuarantee
	properties map[string]string
	processes  []*process
	lives      int
	faults     []*kfake.FaultHandle
	fenced     bool          // an answer has said so
	ended      chan *process // whose Run has returned
	trapped    chan *process // killed by a trap
}

// inBubble runs f in a bubble on a new cluster. The trace is printed if it fails.
func inBubble(t *testing.T, seed uint64, guarantee millrace.ProcessingGuarantee, w func(b *bubble) work, f func(b *bubble)) {
	t.Helper()
	tmp := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{
			t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), trace: &trace{begin: time.Now()}, tmp: tmp, guarantee: guarantee,
			latency: 4 * time.Millisecond,
			ended:   make(chan *process, 1000), trapped: make(chan *process, 1000),
			properties: map[string]string{
				"processing.guarantee": guarantee.String(), "statestore.cache.max.bytes": "0", "commit.interval.ms": "200",
				"request.timeout.ms": "5000", "transaction.timeout.ms": "10000", "linger.ms": "5", "repartition.purge.interval.ms": "10000",
				"millrace.rebalance.timeout.ms": strconv.FormatInt(rebalanceTimeout.Milliseconds(), 10), "metadata.max.age.ms": "10000",
			},
		}
		defer func() {
			if t.Failed() || os.Getenv("MILLRACE_TRACE") != "" {
				b.trace.print(t)
			}
		}()
		b.work = w(b)
		inputs, outputs := b.work.topics()
		opts := []kfake.Opt{kfake.ListenFn(b.vn.Listen), kfake.NumBrokers(3), kfake.Ports(9092, 9093, 9094)}
		for _, topic := range slices.Concat(inputs, outputs) {
			opts = append(opts, kfake.SeedTopics(topic.Partitions, topic.Name))
		}
		var err error
		b.k, err = kfake.NewCluster(opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer b.k.Close()
		b.cl = b.client()
		defer b.cl.Close()
		b.adm = kadm.NewClient(b.cl)
		defer b.coordinate()()
		defer b.abandon()
		f(b)
	})
}

// client opens a client on a network without faults.
func (b *bubble) client(more ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.k.ListenAddrs()...), kgo.Dialer(b.vn.DialContext), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	}, more...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	return cl
}

// abandon ends what a test that has failed has left running, so that the bubble can end.
func (b *bubble) abandon() {
	for _, p := range b.processes {
		p.cancel()
		p.link.clear()
		p.link.end()
	}
	for _, p := range b.processes {
		end := time.NewTimer(10 * time.Minute)
		select {
		case <-p.done:
		case <-end.C:
			b.t.Errorf("%s: Run does not return at all", p.name)
		}
		end.Stop()
	}
	time.Sleep(slowestCall) // Run leaves a worker behind that is inside user code
}

// checkEnd looks at the cluster after everything is over: no transaction is open, and what was read is committed. A process that
// was killed is a member until its session has timed out, and so is its transaction open.
func (b *bubble) checkEnd() {
	b.t.Helper()
	end := time.Now().Add(sessionTimeout + 5*time.Second)
	for len(b.members())+len(b.openTransactions()) > 0 && time.Now().Before(end) {
		time.Sleep(time.Second)
	}
	if all := b.members(); len(all) > 0 {
		b.t.Errorf("the group has still members: %v", all)
	}
	if all := b.openTransactions(); len(all) > 0 {
		b.t.Errorf("transactions are open: %v", all)
	}
	for _, topic := range b.topics() {
		for _, p := range b.k.PartitionInfos(topic) {
			if p.LastStableOffset != p.HighWatermark {
				b.t.Errorf("%s-%d: last stable offset %d, high watermark %d", topic, p.Partition, p.LastStableOffset, p.HighWatermark)
			}
		}
	}
	// Under at-least-once a member that the group has put out while it was stopping could not commit.
	if behind := b.behind(); behind != "" && b.guarantee == millrace.ExactlyOnceV2 {
		b.t.Errorf("all results are there, but not all offsets: %s", behind)
	}
}

func (b *bubble) members() (ids []string) {
	if info := b.k.GroupInfo(appID); info != nil {
		for _, m := range info.Members {
			ids = append(ids, m.MemberID)
		}
	}
	return ids
}

func (b *bubble) openTransactions() (ids []string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	list, err := b.adm.ListTransactions(ctx, nil, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, x := range list {
		if !strings.HasPrefix(x.State, "Complete") && x.State != "Empty" {
			ids = append(ids, x.TxnID+" "+x.State)
		}
	}
	return ids
}

// topics lists what topics there are.
func (b *bubble) topics() []string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	all, err := b.adm.ListTopics(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	names := all.Names()
	slices.Sort(names)
	return names
}

// behind says of which input not everything is committed, "" if all is.
func (b *bubble) behind() string {
	b.t.Helper()
	info := b.k.GroupInfo(appID)
	if info == nil {
		return "there is no group"
	}
	inputs, _ := b.work.topics()
	for _, topic := range b.topics() {
		fed := slices.ContainsFunc(inputs, func(t sim.Topic) bool { return t.Name == topic })
		if !fed && !strings.HasSuffix(topic, "-repartition") {
			continue
		}
		for _, p := range b.k.PartitionInfos(topic) {
			c := info.Commits[topic][p.Partition].Offset
			if c < p.HighWatermark && (fed || c < p.HighWatermark-b.markers(topic, p)) {
				return fmt.Sprintf("%s-%d: %d is committed, it ends at %d", topic, p.Partition, c, p.HighWatermark)
			}
		}
	}
	return ""
}

// markers is by how much the committed offset of a partition may be below its end: transaction markers behind the last record
// move a position only when something is committed anyway.
func (b *bubble) markers(topic string, p *kfake.PartitionInfo) int64 {
	last := p.LogStartOffset - 1
	cl := b.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {p.Partition: kgo.NewOffset().AtStart()}}),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	for at := p.LogStartOffset; at < p.HighWatermark; {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			b.t.Fatalf("%s-%d cannot be read: %v", topic, p.Partition, fs.Errors())
		}
		fs.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			if !r.Attrs.IsControl() {
				last = r.Offset
			}
		})
	}
	return p.HighWatermark - (last + 1)
}

func (b *bubble) String() string { return fmt.Sprintf("seed %d, %v", b.seed, b.guarantee) }
