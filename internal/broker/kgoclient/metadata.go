package kgoclient

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// metadata remembers the ids of topics and the leaders of their partitions.
type metadata struct {
	c       *conn
	loading chan struct{} // has room while no request is under way: whoever waits for its turn does so no longer than its context lasts
	mu      sync.Mutex
	version uint64
	topics  map[string]topicMeta
}

type topicMeta struct {
	id         [16]byte
	partitions []leader
	err        error
	version    uint64 // of the load that this came from
}

// leader is where a partition is read and written.
type leader struct {
	node  int32 // -1 none
	epoch int32 // -1 unknown
}

func newMetadata(c *conn) *metadata {
	return &metadata{c: c, loading: make(chan struct{}, 1), topics: make(map[string]topicMeta)}
}

// topic returns what is known; the version is 0 if nothing is.
func (m *metadata) topic(name string) topicMeta {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.topics[name]
}

// leaderOf returns the leader of a partition as far as it is known.
func (m *metadata) leaderOf(tp broker.TopicPartition) (l leader, t topicMeta, ok bool) {
	t = m.topic(tp.Topic)
	if t.version == 0 || t.err != nil || tp.Partition < 0 || int(tp.Partition) >= len(t.partitions) {
		return leader{node: -1, epoch: -1}, t, false
	}
	l = t.partitions[tp.Partition]
	return l, t, l.node >= 0
}

// load asks the cluster about topics, unless somebody else has since version seen, which all must share. It waits as long
// as nobody answers and the context lasts.
func (m *metadata) load(ctx context.Context, seen uint64, names ...string) error {
	select {
	case m.loading <- struct{}{}:
		defer func() { <-m.loading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if m.newer(seen, names) {
		return nil
	}
	req := kmsg.NewPtrMetadataRequest()
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, m.c.Client)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	for _, t := range resp.Topics {
		if t.Topic != nil {
			m.topics[*t.Topic] = m.parse(t)
		}
	}
	return nil
}

func (m *metadata) newer(seen uint64, names []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range names {
		if m.topics[n].version <= seen {
			return false
		}
	}
	return true
}

func (m *metadata) parse(t kmsg.MetadataResponseTopic) topicMeta {
	tm := topicMeta{id: t.TopicID, err: codeErr(t.ErrorCode), version: m.version}
	for _, p := range t.Partitions {
		for int(p.Partition) >= len(tm.partitions) {
			tm.partitions = append(tm.partitions, leader{node: -1, epoch: -1})
		}
		tm.partitions[p.Partition] = leader{node: p.Leader, epoch: p.LeaderEpoch}
	}
	return tm
}

// forget drops a topic, so that the next look at it asks the cluster.
func (m *metadata) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.topics, name)
}

// last is the version of the latest load.
func (m *metadata) last() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version
}

// identify makes sure that the ids of topics are known.
func (m *metadata) identify(ctx context.Context, topics []string) error {
	var unknown []string
	for _, t := range topics {
		if tm := m.topic(t); tm.version == 0 || tm.err != nil {
			unknown = append(unknown, t)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return m.load(ctx, m.last(), unknown...)
}
