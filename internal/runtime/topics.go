package runtime

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
)

// topicBook knows the topics that tasks write: their partitions and the size of a record that they take. Tasks ask it on
// their workers; a topic that it does not know yet is looked up then, so that the first record of a topic that is chosen
// for each record may wait for the cluster.
type topicBook struct {
	admin   broker.Admin
	ctx     context.Context
	timeout time.Duration
	// clientLimit is the largest record that the producer sends, 0 none. brokerLimits says whether the topics' own limits
	// can be told beforehand: they hold for compressed bytes.
	clientLimit  int
	brokerLimits bool

	mu    sync.Mutex
	known map[string]topicEntry
}

type topicEntry struct {
	partitions  int32
	maxBytes    int
	retentionMs int64 // by the records' own time; 0: for ever
}

func newTopicBook(ctx context.Context, admin broker.Admin, timeout time.Duration, clientLimit int, brokerLimits bool) *topicBook {
	return &topicBook{admin: admin, ctx: ctx, timeout: timeout, clientLimit: clientLimit, brokerLimits: brokerLimits, known: make(map[string]topicEntry)}
}

// learn takes topics up, those that the cluster has.
func (b *topicBook) learn(ctx context.Context, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	infos, err := b.admin.Topics(ctx, names...)
	if err != nil {
		return err
	}
	var exist []string
	for _, n := range names {
		if i := infos[n]; i.Exists && i.Err == nil && i.Partitions > 0 {
			exist = append(exist, n)
		}
	}
	var configs map[string]map[string]string
	if len(exist) > 0 {
		// Who may write a topic need not be allowed to describe its settings: then the broker's refusal has to do.
		configs, _ = b.admin.TopicConfigs(ctx, exist...)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range exist {
		e := topicEntry{partitions: infos[n].Partitions, maxBytes: b.clientLimit}
		c := configs[n]
		if v, err := strconv.Atoi(c["max.message.bytes"]); err == nil && b.brokerLimits && (e.maxBytes == 0 || v < e.maxBytes) {
			e.maxBytes = v
		}
		if v, err := strconv.ParseInt(c["retention.ms"], 10, 64); err == nil && v > 0 && strings.Contains(c["cleanup.policy"], "delete") {
			e.retentionMs = v
		}
		b.known[n] = e
	}
	return nil
}

// partitions tells how many partitions a topic has.
func (b *topicBook) partitions(topic string) (int32, error) {
	if e, ok := b.find(topic); ok {
		return e.partitions, nil
	}
	ctx, cancel := context.WithTimeout(b.ctx, b.timeout)
	defer cancel()
	if err := b.learn(ctx, topic); err != nil {
		return 0, fmt.Errorf("topic %s: %w", topic, err)
	}
	if e, ok := b.find(topic); ok {
		return e.partitions, nil
	}
	return 0, fmt.Errorf("topic %q is not present in the cluster's metadata: create it: %w", topic, broker.ErrUnknownTopic)
}

// maxRecord tells how large a record for a topic may be, 0 if that is not known.
func (b *topicBook) maxRecord(topic string) int {
	e, ok := b.find(topic)
	if !ok {
		return b.clientLimit
	}
	return e.maxBytes
}

// retention tells for how long a topic keeps records by their own time, 0 for ever or if that is not known.
func (b *topicBook) retention(topic string) int64 {
	e, _ := b.find(topic)
	return e.retentionMs
}

// forget makes the book look at all topics again: one of them was not there.
func (b *topicBook) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.known)
}

func (b *topicBook) find(topic string) (topicEntry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.known[topic]
	return e, ok
}
