package kgoclient

import (
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
)

// nearby keeps from which replica partitions are read instead of their leader (KIP-392). The leader names one in the client's
// rack, in an answer without records. It is asked again from time to time, and whenever the replica has failed.
type nearby struct {
	rack   string        // where the client runs; empty reads from leaders
	again  time.Duration // after which leaders are asked again
	mu     sync.Mutex
	at     map[broker.TopicPartition]int32
	avoid  map[broker.TopicPartition]int // read from the leader for now; how many failures ago
	timers map[*time.Timer]struct{}
	closed bool
}

// avoidReplica is how long a partition is read from its leader after another replica has failed: long enough for the leader to
// notice that the replica is gone.
const avoidReplica = 10 * time.Second

func newNearby(rack string, again time.Duration) *nearby {
	return &nearby{
		rack: rack, again: again, at: make(map[broker.TopicPartition]int32), avoid: make(map[broker.TopicPartition]int),
		timers: make(map[*time.Timer]struct{}),
	}
}

// node is the broker to read a partition from.
func (n *nearby) node(tp broker.TopicPartition, leader int32) int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if node, ok := n.at[tp]; ok {
		return node
	}
	return leader
}

// rackFor is the rack to name in a request for partitions. It is left out where a leader must answer by itself: after a replica
// has failed, and where it has to compare epochs first, which it does not do before it names a replica.
func (n *nearby) rackFor(parts []fetchPart) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range parts {
		if n.avoid[p.TopicPartition] > 0 || p.lastEpoch >= 0 {
			return ""
		}
	}
	return n.rack
}

// prefer takes the replica that the leader has named.
func (n *nearby) prefer(tp broker.TopicPartition, node int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.at) == 0 {
		n.after(n.again, func() { clear(n.at) })
	}
	n.at[tp] = node
}

// forget goes back to the leader, which may have changed.
func (n *nearby) forget(tp broker.TopicPartition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.at, tp)
}

// failed goes back to the leader, and has it name no replica for a while.
func (n *nearby) failed(tp broker.TopicPartition) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.at, tp)
	n.avoid[tp]++
	n.after(avoidReplica, func() {
		if n.avoid[tp]--; n.avoid[tp] == 0 {
			delete(n.avoid, tp)
		}
	})
}

// after calls fn under the lock when a pause is over.
func (n *nearby) after(d time.Duration, fn func()) {
	if n.closed {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.timers, t)
		fn()
	})
	n.timers[t] = struct{}{}
}

func (n *nearby) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for t := range n.timers {
		t.Stop()
	}
}
