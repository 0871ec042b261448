package kgoclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// racked makes two brokers of which one leads the partition "in"-0 and the other one, in the rack "near", is a replica of it that
// the leader names to clients in that rack. The embedded broker has no replicas: the follower asks the leader.
type racked struct {
	leader, follower int32

	mu       sync.Mutex
	refusal  *kerr.Error // what the follower answers instead of records
	drop     bool        // it closes the connection
	asked    []int32     // nodes that were asked for records, in order
	withRack []bool      // whether with the rack
}

func startRacked(t *testing.T, c *kfake.Cluster, cfg Config) *racked {
	t.Helper()
	r := &racked{leader: c.LeaderFor("in", 0)}
	r.follower = 1 - r.leader
	raw := rawClient(t, cfg)
	c.ControlKey(1, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		node := c.CurrentNode()
		if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 {
			return nil, nil, false
		}
		rt, rp := req.Topics[0], req.Topics[0].Partitions[0]
		r.mu.Lock()
		defer r.mu.Unlock()
		if req.ClusterID != nil { // by the follower
			return nil, nil, false
		}
		r.asked, r.withRack = append(r.asked, node), append(r.withRack, req.Rack == "near")
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		at := kmsg.NewFetchResponseTopic()
		at.Topic, at.TopicID = rt.Topic, rt.TopicID
		ap := kmsg.NewFetchResponseTopicPartition()
		ap.Partition = rp.Partition
		switch {
		case node == r.leader && req.Rack == "near":
			ap.PreferredReadReplica = r.follower
		case node == r.leader:
			return nil, nil, false
		case r.drop:
			return nil, errors.New("gone"), true
		case r.refusal != nil:
			ap.ErrorCode = r.refusal.Code
		case rp.LastFetchedEpoch >= 0:
			ap.ErrorCode = kerr.OffsetOutOfRange.Code // as a follower that does not know the epoch yet
		default:
			var answer kmsg.Response
			var err error
			ctx := context.WithoutCancel(t.Context())
			r.mu.Unlock()
			c.SleepControl(func() {
				q := *req
				q.Rack, q.MaxWaitMillis, q.ClusterID = "", 1, kmsg.StringPtr("follower")
				ctx, cancel := context.WithTimeout(ctx, testTimeout)
				defer cancel()
				answer, err = raw.Broker(int(r.leader)).Request(ctx, &q)
			})
			r.mu.Lock()
			if err != nil {
				return nil, err, true
			}
			a := answer.(*kmsg.FetchResponse)
			a.Version = req.Version
			return a, nil, true
		}
		at.Partitions = append(at.Partitions, ap)
		resp.Topics = append(resp.Topics, at)
		return resp, nil, true
	})
	return r
}

func (r *racked) set(refusal *kerr.Error, drop bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal, r.drop, r.asked, r.withRack = refusal, drop, nil, nil
}

func (r *racked) nodes() (asked []int32, withRack []bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asked), slices.Clone(r.withRack)
}

func startTwo(t *testing.T) (*kfake.Cluster, Config, *kgo.Client, *racked) {
	t.Helper()
	c, cfg := startCluster(t, kfake.NumBrokers(2))
	topic(t, c, "in", 1, nil)
	raw := rawClient(t, cfg)
	produceRaw(t, raw, tp("in", 0), "a", "b")
	cfg.Fetch.Rack = "near"
	return c, cfg, raw, startRacked(t, c, cfg)
}

func TestFetcher_readsFromTheReplicaInItsRack(t *testing.T) {
	_, cfg, raw, r := startTwo(t)
	f := newFetcher(t, cfg, true)
	f.Assign(tp("in", 0), 0, 1)
	batches := pollUntil(t, f, positionIs(2))
	produceRaw(t, raw, tp("in", 0), "c")
	batches = append(batches, pollUntil(t, f, positionIs(3))...)
	if d := cmp.Diff([]string{"a", "b", "c"}, valuesOf(collect(batches, tp("in", 0)))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	asked, rack := r.nodes()
	if asked[0] != r.leader || !rack[0] || slices.Contains(asked[1:], r.leader) {
		t.Errorf("asked %v (with the rack: %v), want the leader %d once and then the replica", asked, rack, r.leader)
	}
}

// Whatever is wrong with the replica, the leader goes on where it was.
func TestFetcher_goesBackToTheLeader(t *testing.T) {
	for name, fail := range map[string]struct {
		refusal *kerr.Error
		drop    bool
	}{
		"behind the offset": {refusal: kerr.OffsetOutOfRange}, "no replica any more": {refusal: kerr.NotLeaderForPartition},
		"of an old epoch": {refusal: kerr.FencedLeaderEpoch}, "not allowed": {refusal: kerr.TopicAuthorizationFailed}, "gone": {drop: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, cfg, raw, r := startTwo(t)
			f := newFetcher(t, cfg, true)
			f.Assign(tp("in", 0), 0, 1)
			pollUntil(t, f, positionIs(2))
			r.set(fail.refusal, fail.drop)
			produceRaw(t, raw, tp("in", 0), "c", "d")
			batches := pollUntil(t, f, positionIs(4))
			if d := cmp.Diff([]string{"c", "d"}, valuesOf(collect(batches, tp("in", 0)))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			asked, rack := r.nodes()
			if i := slices.Index(asked, r.leader); i < 0 || rack[i] {
				t.Errorf("asked %v (with the rack: %v), want the leader %d without the rack in the end", asked, rack, r.leader)
			}
		})
	}
}

func TestReader_readsFromTheReplicaInItsRack(t *testing.T) {
	_, cfg, raw, r := startTwo(t)
	reader := newReader(t, cfg)
	if d := cmp.Diff([]string{"a", "b"}, valuesOf(readTo(t, reader, tp("in", 0), 0, 2))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if asked, _ := r.nodes(); !slices.Equal(asked, []int32{r.leader, r.follower}) {
		t.Errorf("asked %v, want the leader %d once and then the replica", asked, r.leader)
	}
	for _, refusal := range []*kerr.Error{kerr.OffsetOutOfRange, kerr.TopicAuthorizationFailed, kerr.NotLeaderForPartition} {
		reader := newReader(t, cfg)
		r.set(refusal, false)
		produceRaw(t, raw, tp("in", 0), "c")
		got := valuesOf(readTo(t, reader, tp("in", 0), 2, 3))
		if d := cmp.Diff([]string{"c"}, got[:1]); d != "" {
			t.Errorf("%v (-want +got):\n%s", refusal, d)
		}
	}
	r.set(nil, true)
	if got := valuesOf(readTo(t, newReader(t, cfg), tp("in", 0), 0, 2)); len(got) < 2 || got[0] != "a" {
		t.Errorf("with the replica gone: %q", got)
	}
}

// An offset that the leader does not have is told as such, and not taken for the replica's trouble.
func TestReader_theLeaderSaysWhatIsOutOfRange(t *testing.T) {
	_, cfg, _, r := startTwo(t)
	r.set(kerr.OffsetOutOfRange, false)
	_, err := newReader(t, cfg).Read(testCtx(t), tp("in", 0), 99, 1<<20, time.Millisecond)
	var oor *broker.OffsetRangeError
	if !errors.As(err, &oor) || oor.End != 2 {
		t.Errorf("%v", err)
	}
}

func TestNearby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNearby("near", time.Minute)
		defer n.close()
		a, b := tp("in", 0), tp("in", 1)
		part := func(tps ...broker.TopicPartition) (parts []fetchPart) {
			for _, tp := range tps {
				parts = append(parts, fetchPart{TopicPartition: tp, lastEpoch: -1})
			}
			return parts
		}
		want := func(when string, nodeA, nodeB int32, rack string) {
			t.Helper()
			synctest.Wait()
			if na, nb := n.node(a, 1), n.node(b, 1); na != nodeA || nb != nodeB {
				t.Errorf("%s: read from %d and %d, want %d and %d", when, na, nb, nodeA, nodeB)
			}
			if got := n.rackFor(part(a, b)); got != rack {
				t.Errorf("%s: rack %q, want %q", when, got, rack)
			}
		}
		want("at first", 1, 1, "near")
		n.prefer(a, 2)
		time.Sleep(30 * time.Second)
		n.prefer(b, 3)
		want("named", 2, 3, "near")
		n.failed(b)
		want("failed", 2, 1, "")
		if got := n.rackFor(part(a)); got != "near" {
			t.Errorf("without the one that failed: rack %q", got)
		}
		n.failed(b) // by a request that was under way
		time.Sleep(avoidReplica)
		want("some time after", 2, 1, "near")
		time.Sleep(20 * time.Second)
		want("when leaders are asked again", 1, 1, "near")
		n.prefer(a, 2)
		n.forget(a)
		want("after the leader has changed", 1, 1, "near")
		epochs := part(a)
		epochs[0].lastEpoch = 4
		if got := n.rackFor(epochs); got != "" {
			t.Errorf("where epochs are to be compared: rack %q", got)
		}
	})
}

func TestBalance_racksOfReplicas(t *testing.T) {
	topology := reads("s", []string{"in", "more"}, []string{"other"})
	topology.Subtopologies[0].Changelogs = []broker.GroupChangelog{{Topic: "log"}, {Topic: "in", Input: true}}
	var asked []string
	var tasks []broker.GroupTask
	g := &groupBalance{topology: topology, leader: "leader",
		members: []kmsg.JoinGroupResponseMember{joined("leader", []string{"in", "more", "other"}, memberData{Signature: "s", Generation: -1, Rack: "r1"})},
		racks: func(topics []string) map[broker.TopicPartition][]string {
			asked = topics
			return map[broker.TopicPartition][]string{tp("in", 0): {"r1", "r2"}, tp("log", 0): {"r3"}, tp("other", 1): {"r4"}}
		},
		assign: func(members []broker.GroupMember, given []broker.GroupTask) map[string]broker.GroupAssignment {
			if members[0].Rack != "r1" {
				t.Errorf("the member is in rack %q", members[0].Rack)
			}
			tasks = given
			return nil
		},
	}
	g.Balance(map[string]int32{"in": 1, "more": 1, "other": 2})
	if d := cmp.Diff([]string{"in", "log", "more", "other"}, asked); d != "" {
		t.Errorf("asked for (-want +got):\n%s", d)
	}
	got := make(map[broker.TaskID][][]string)
	for _, task := range tasks {
		got[task.ID] = task.Racks
	}
	want := map[broker.TaskID][][]string{{Subtopology: 0}: {{"r1", "r2"}, nil, {"r3"}}, {Subtopology: 1}: {nil}, {Subtopology: 1, Partition: 1}: {{"r4"}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("racks (-want +got):\n%s", d)
	}
}

func TestRacks(t *testing.T) {
	c, cfg := startCluster(t)
	conn, err := connect(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r1, r2 := "r1", "r2"
	c.ControlKey(3, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.MetadataRequest)
		if len(req.Topics) == 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		for node, rack := range []*string{&r1, &r2, &r1, nil} {
			b := kmsg.NewMetadataResponseBroker()
			b.NodeID, b.Rack = int32(node), rack
			b.Host, b.Port = "127.0.0.1", 1
			resp.Brokers = append(resp.Brokers, b)
		}
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic = kmsg.StringPtr("in")
		for p, replicas := range [][]int32{{0, 1}, {2, 0}, {1, 3}, {1, 9}, {}} { // 3 has no rack, 9 is away
			mp := kmsg.NewMetadataResponseTopicPartition()
			mp.Partition, mp.Replicas = int32(p), replicas
			topic.Partitions = append(topic.Partitions, mp)
		}
		missing := kmsg.NewMetadataResponseTopic()
		missing.Topic, missing.ErrorCode = kmsg.StringPtr("none"), kerr.UnknownTopicOrPartition.Code
		resp.Topics = append(resp.Topics, topic, missing)
		return resp, nil, true
	})
	got, err := conn.racks(testCtx(t), []string{"in", "none"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[broker.TopicPartition][]string{tp("in", 0): {"r1", "r2"}, tp("in", 1): {"r1"}}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
