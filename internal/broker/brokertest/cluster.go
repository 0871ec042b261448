// Package brokertest is a scripted cluster in memory that implements the interfaces of package broker, for tests that
// step an instance through any order of events.
//
// It starts no goroutine and waits for nothing (unless [Blocking] is asked for): every call takes effect at once or is
// held until the test lets it go on, so one goroutine can play the instance, the brokers and the other members, and the
// same script gives the same run. What is there to script:
//
//   - logs, with open, committed and aborted transactions, compaction gaps and a log start that moves: [Cluster.Append],
//     [Cluster.AppendTxn], [Cluster.EndTxn], [Cluster.Remove], [Cluster.Truncate];
//   - produced records that are written, acknowledged, held back, refused or written without an answer: [Producer];
//   - transactions whose producer is fenced, whose coordinator gives them up, whose markers come late and one by one:
//     [Transactions], [AsyncMarkers];
//   - groups that rebalance, expire members and hand out member ids behind a member's back: [Group];
//   - leaders that move: [Cluster.MoveLeader];
//   - any request that fails, hangs, takes effect and loses its answer, or takes effect long after it was given up, or again:
//     [Cluster.Inject].
//
// All methods may also be called from several goroutines.
package brokertest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"github.com/millrace-io/millrace/internal/broker"
)

// Cluster is a whole cluster: topics, groups and the faults to come.
type Cluster struct {
	mu        sync.Mutex
	id        string
	blocking  bool
	async     bool       // markers of transactions wait for WriteMarker
	changed   *sync.Cond // broadcast after every change, for Blocking
	topics    map[string]*topic
	groups    map[string]*Group
	faults    []*Fault
	late      []lateRequest
	calls     []Call
	producers []*Producer
	txns      map[string]*coordinated // by transactional id
	nextID    int
}

type topic struct {
	name    string
	id      [16]byte
	configs map[string]string
	logs    []*partitionLog
}

// Option sets up a Cluster.
type Option func(*Cluster)

// Blocking makes Poll, Read and CommittedOffsets wait for their context as the real clients do, for tests that run an
// instance on goroutines. Without it they return at once with what is there.
func Blocking() Option { return func(c *Cluster) { c.blocking = true } }

// AsyncMarkers lets the markers of each transaction, and its offsets, reach their partitions one by one, when the test says so:
// see [Cluster.Markers].
func AsyncMarkers() Option { return func(c *Cluster) { c.async = true } }

// ClusterID sets the cluster's id; it is "test-cluster" otherwise.
func ClusterID(id string) Option { return func(c *Cluster) { c.id = id } }

// New makes an empty cluster.
func New(opts ...Option) *Cluster {
	c := &Cluster{id: "test-cluster", topics: make(map[string]*topic), groups: make(map[string]*Group), txns: make(map[string]*coordinated)}
	c.changed = sync.NewCond(&c.mu)
	for _, o := range opts {
		o(c)
	}
	return c
}

// AddTopic creates a topic. It replaces one of the same name, which then has another id and empty logs.
func (c *Cluster) AddTopic(name string, partitions int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addTopic(name, partitions, nil)
}

func (c *Cluster) addTopic(name string, partitions int32, configs map[string]string) {
	c.nextID++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", name, c.nextID))
	t := &topic{name: name, configs: configs}
	copy(t.id[:], sum[:16])
	c.topics[name] = t
	t.grow(partitions)
	c.changed.Broadcast()
}

func (t *topic) grow(partitions int32) {
	for int32(len(t.logs)) < partitions {
		t.logs = append(t.logs, &partitionLog{})
	}
}

// AddPartitions gives a topic more partitions, so that it has n.
func (c *Cluster) AddPartitions(name string, n int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.topics[name]; t != nil {
		t.grow(n)
		c.changed.Broadcast()
	}
}

// DeleteTopic removes a topic and its records.
func (c *Cluster) DeleteTopic(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.topics, name)
	c.changed.Broadcast()
}

// Partitions lists all partitions, sorted.
func (c *Cluster) Partitions() []broker.TopicPartition {
	c.mu.Lock()
	defer c.mu.Unlock()
	var tps []broker.TopicPartition
	for _, t := range c.topics {
		for p := range t.logs {
			tps = append(tps, TP(t.name, int32(p)))
		}
	}
	broker.SortPartitions(tps)
	return tps
}

// log finds a partition's log; nil if the cluster does not have it.
func (c *Cluster) log(tp broker.TopicPartition) *partitionLog {
	t := c.topics[tp.Topic]
	if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.logs) {
		return nil
	}
	return t.logs[tp.Partition]
}

// TP is a short form for tests.
func TP(topic string, partition int32) broker.TopicPartition {
	return broker.TopicPartition{Topic: topic, Partition: partition}
}

// Call is one request that an instance has sent, in the order of sending.
type Call struct {
	Op         Op
	Group      string
	Topic      string // the topic of CreateTopic and of reads
	Identity   broker.Identity
	Txn        string                                      // the transactional id
	Commit     bool                                        // of OpEndTxn
	Offsets    map[broker.TopicPartition]broker.OffsetMeta // of CommitOffsets, plain or in a transaction
	Before     map[broker.TopicPartition]int64             // of DeleteRecords
	Partitions []broker.TopicPartition
	Err        error // what was answered
}

// Calls returns the requests sent so far; ops limits them to some kinds.
func (c *Cluster) Calls(ops ...Op) []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Call
	for _, x := range c.calls {
		if len(ops) == 0 || slices.Contains(ops, x.Op) {
			out = append(out, x)
		}
	}
	return out
}
