//go:build synctests

package sim_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"
)

// refusals are the errors that brokers answer with, by request. They are those that a cluster gives in a life of an
// application, and from which it has to recover by itself.
var refusals = []struct {
	key    kmsg.Key
	errs   []*kerr.Error
	topics func(b *bubble) []string // nil: the request names none
}{
	{kmsg.Produce, []*kerr.Error{kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.KafkaStorageError,
		kerr.InvalidProducerEpoch, kerr.TransactionAbortable, kerr.UnknownTopicOrPartition}, (*bubble).written},
	{kmsg.Fetch, []*kerr.Error{kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.OffsetNotAvailable, kerr.KafkaStorageError,
		kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable}, (*bubble).fetched},
	{kmsg.ListOffsets, []*kerr.Error{kerr.NotLeaderForPartition, kerr.OffsetNotAvailable, kerr.LeaderNotAvailable}, (*bubble).fetched},
	{kmsg.DeleteRecords, []*kerr.Error{kerr.NotLeaderForPartition, kerr.PolicyViolation}, (*bubble).repartitioned},
	{kmsg.TxnOffsetCommit, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions, kerr.IllegalGeneration,
		kerr.RebalanceInProgress, kerr.UnknownMemberID, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.TransactionAbortable, kerr.InvalidTxnState,
		kerr.RequestTimedOut, kerr.InvalidProducerIDMapping}, nil},
	{kmsg.OffsetCommit, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.UnknownMemberID,
		kerr.RequestTimedOut}, nil},
	{kmsg.EndTxn, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions, kerr.InvalidProducerEpoch, kerr.ProducerFenced,
		kerr.TransactionAbortable, kerr.InvalidTxnState, kerr.RequestTimedOut, kerr.InvalidProducerIDMapping}, nil},
	{kmsg.InitProducerID, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions, kerr.RequestTimedOut}, nil},
	{kmsg.OffsetFetch, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.UnstableOffsetCommit}, nil},
	{kmsg.Heartbeat, []*kerr.Error{kerr.NotCoordinator, kerr.RebalanceInProgress, kerr.UnknownMemberID, kerr.IllegalGeneration}, nil},
	{kmsg.JoinGroup, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.UnknownMemberID, kerr.RebalanceInProgress}, nil},
	{kmsg.SyncGroup, []*kerr.Error{kerr.NotCoordinator, kerr.RebalanceInProgress, kerr.UnknownMemberID, kerr.IllegalGeneration}, nil},
}

// written lists the topics that Apps write.
func (b *bubble) written() []string {
	_, outputs := b.work.topics()
	return append(b.internal(""), names(outputs)...)
}

// fetched lists the topics that only Apps read.
func (b *bubble) fetched() []string {
	inputs, _ := b.work.topics()
	return append(b.internal(""), names(inputs)...)
}

func (b *bubble) repartitioned() []string { return b.internal("-repartition") }

// internal lists the internal topics that there are, those with an ending if there is one.
func (b *bubble) internal(ending string) []string {
	return slices.DeleteFunc(b.topics(), func(topic string) bool {
		return !strings.HasPrefix(topic, appID+"-") || !strings.HasSuffix(topic, ending)
	})
}

// refuse lets the brokers refuse the next requests of a kind.
func (b *bubble) refuse(rng *rand.Rand) {
	r := refusals[rng.IntN(len(refusals))]
	f := kfake.Fault{Keys: []kmsg.Key{r.key}, Err: r.errs[rng.IntN(len(r.errs))], Count: 1 + rng.IntN(3)}
	where := ""
	if r.topics != nil {
		topics := r.topics(b)
		if len(topics) == 0 {
			return
		}
		f.Topic = topics[rng.IntN(len(topics))]
		where = " of " + f.Topic
	}
	if f.Err == kerr.InvalidProducerEpoch || f.Err == kerr.ProducerFenced {
		// A second fencing by somebody else within ten minutes means a copied state directory, and stops an instance.
		if b.fenced {
			f.Err = kerr.TransactionAbortable
		}
		b.fenced, f.Count = true, 1
	}
	b.trace.note("brokers: %s%s answers %s, %d times", r.key.Name(), where, f.Err.Message, f.Count)
	b.faults = append(b.faults, b.k.Fault(f))
}

// trapped requests: those between which a death leaves different things behind.
var trapKeys = []kmsg.Key{kmsg.Produce, kmsg.Produce, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.EndTxn, kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.InitProducerID, kmsg.JoinGroup,
	kmsg.SyncGroup, kmsg.Heartbeat, kmsg.Fetch, kmsg.FindCoordinator, kmsg.Metadata, kmsg.ListOffsets}

// trap lays a fault at a request to come of a process.
func (b *bubble) trap(rng *rand.Rand, p *process, what trapKind) {
	t := &trap{key: trapKeys[rng.IntN(len(trapKeys))], nth: 1 + rng.IntN(4), answer: rng.IntN(2) == 0, what: what}
	switch what {
	case trapLate:
		t.wait = time.Duration(rng.IntN(6000)+1) * time.Millisecond
	case trapStall:
		t.wait = b.pause(rng)
	}
	b.trace.note("%s: to come: %v", p.name, t)
	p.link.lay(t)
}

// pause is how long something stands still: now and then longer than the timeouts of sessions and transactions.
func (b *bubble) pause(rng *rand.Rand) time.Duration {
	if rng.IntN(3) == 0 && b.guarantee == millrace.ExactlyOnceV2 {
		return time.Duration(9000+rng.IntN(12000)) * time.Millisecond
	}
	return time.Duration(100+rng.IntN(4000)) * time.Millisecond
}

// outage makes a broker unreachable for a while: its partitions and groups move.
func (b *bubble) outage(rng *rand.Rand) {
	addrs := b.k.ListenAddrs()
	addr, d := addrs[rng.IntN(len(addrs))], b.pause(rng)
	b.trace.note("brokers: %s is down for %v", addr, d)
	for _, p := range b.processes {
		p.link.reach(addr, false)
	}
	b.k.ShufflePartitionLeaders()
	b.k.RehashCoordinators()
	time.AfterFunc(d, func() {
		b.trace.note("brokers: %s is up", addr)
		for _, p := range b.processes {
			p.link.reach(addr, true)
		}
	})
}

// move moves leaders or coordinators.
func (b *bubble) move(rng *rand.Rand) {
	switch rng.IntN(3) {
	case 0:
		b.trace.note("brokers: all leaders move")
		b.k.ShufflePartitionLeaders()
	case 1:
		b.trace.note("brokers: coordinators move")
		b.k.RehashCoordinators()
	case 2:
		topics := b.topics()
		topic, node := topics[rng.IntN(len(topics))], int32(rng.IntN(3))
		n := int32(rng.IntN(len(b.k.PartitionInfos(topic))))
		b.trace.note("brokers: %s-%d moves to %d", topic, n, node)
		if err := b.k.MoveTopicPartition(topic, n, node); err != nil {
			b.t.Error(err)
		}
	}
}

// heal ends all faults.
func (b *bubble) heal() {
	b.trace.note("everything is well from here on")
	for _, h := range b.faults {
		h.Remove()
	}
	for _, p := range b.processes {
		if p.alive() {
			p.link.clear()
		}
	}
}

func (b *bubble) instanceName() string {
	b.lives++
	return fmt.Sprint("app-", b.lives)
}
