package kgoclient

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

func TestAdmin_topics(t *testing.T) {
	c, cfg := startCluster(t, kfake.ClusterID("the-cluster"))
	a := newAdmin(t, cfg)
	ctx := testCtx(t)
	if id, err := a.ClusterID(ctx); id != "the-cluster" || err != nil {
		t.Errorf("cluster id %q, %v", id, err)
	}
	spec := broker.TopicSpec{Name: "app-store-changelog", Partitions: 3, ReplicationFactor: -1, Configs: map[string]string{"cleanup.policy": "compact", "retention.ms": "-1"}}
	if err := a.CreateTopic(ctx, spec); err != nil {
		t.Fatal(err)
	}
	if err := a.CreateTopic(ctx, spec); !errors.Is(err, broker.ErrTopicExists) || !strings.Contains(err.Error(), "app-store-changelog") {
		t.Errorf("created twice: %v", err)
	}
	topic(t, c, "orders", 1, nil)
	topic(t, c, "__internal", 1, nil)
	got, err := a.Topics(ctx, "app-store-changelog", "nowhere")
	if err != nil {
		t.Fatal(err)
	}
	if i := got["app-store-changelog"]; !i.Exists || i.Partitions != 3 || i.ID == [16]byte{} || i.ID != c.TopicInfo("app-store-changelog").TopicID {
		t.Errorf("described as %+v", i)
	}
	if i := got["nowhere"]; i.Exists || i.Err != nil || i.Name != "nowhere" {
		t.Errorf("a topic that does not exist: %+v", i)
	}
	confs, err := a.TopicConfigs(ctx, "app-store-changelog", "nowhere")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := confs["nowhere"]; ok || confs["app-store-changelog"]["cleanup.policy"] != "compact" || confs["app-store-changelog"]["max.message.bytes"] == "" {
		t.Errorf("configurations %v", confs)
	}
	for pattern, want := range map[string][]string{"ord.*": {"orders"}, "rders": nil, ".*": {"app-store-changelog", "orders"}} {
		m, err := a.MatchTopics(ctx, pattern)
		var names []string
		for _, i := range m {
			names = append(names, i.Name)
		}
		if d := cmp.Diff(want, names); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", pattern, err, d)
		}
	}
	if _, err := a.MatchTopics(ctx, "("); err == nil {
		t.Error("a broken pattern is accepted")
	}
}

func TestAdmin_createTopicKeepsTheBrokersWords(t *testing.T) {
	c, cfg := startCluster(t)
	c.ControlKey(int16(kmsg.CreateTopics), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req := r.(*kmsg.CreateTopicsRequest)
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		rt := kmsg.NewCreateTopicsResponseTopic()
		rt.Topic, rt.ErrorCode, rt.ErrorMessage = req.Topics[0].Topic, kerr.InvalidConfig.Code, kmsg.StringPtr("Unknown topic config name: retention.millis")
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	err := newAdmin(t, cfg).CreateTopic(testCtx(t), broker.TopicSpec{Name: "x", Partitions: 1, ReplicationFactor: -1})
	if !errors.Is(err, broker.CodeInvalidConfig) || !strings.Contains(err.Error(), "retention.millis") {
		t.Errorf("%v", err)
	}
}

func TestAdmin_listOffsetsAndDeleteRecords(t *testing.T) {
	c, cfg := startCluster(t, kfake.NumBrokers(3))
	topic(t, c, "in", 6, nil)
	for p := range int32(3) {
		if err := c.MoveTopicPartition("in", p, p); err != nil {
			t.Fatal(err)
		}
	}
	a := newAdmin(t, cfg)
	ctx := testCtx(t)
	raw := rawClient(t, cfg)
	produceRaw(t, raw, tp("in", 0), "a", "b", "c")
	produceRaw(t, raw, tp("in", 1), "a")
	txn := rawClient(t, cfg, kgo.TransactionalID("open"))
	if err := txn.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produceRaw(t, txn, tp("in", 2), "a")
	if err := a.DeleteRecords(ctx, map[broker.TopicPartition]int64{tp("in", 0): 2, tp("in", 1): 0}); err != nil {
		t.Fatal(err)
	}
	tps := []broker.TopicPartition{tp("in", 0), tp("in", 1), tp("in", 2)}
	for which, want := range map[broker.ListOffset][]int64{
		broker.Earliest: {2, 0, 0}, broker.HighWatermark: {3, 1, 1}, broker.StableEnd: {3, 1, 0},
	} {
		f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "in", Partitions: []int32{1}, Err: kerr.LeaderNotAvailable})
		got, err := a.ListOffsets(ctx, which, tps...)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range tps {
			if got[p] != want[i] {
				t.Errorf("end %d of %v: %d, want %d", which, p, got[p], want[i])
			}
		}
		f.Remove()
	}
	if _, err := a.ListOffsets(ctx, broker.Earliest, tp("nowhere", 0)); !errors.Is(err, broker.ErrUnknownTopic) {
		t.Errorf("of an unknown topic: %v", err)
	}
	err := a.DeleteRecords(ctx, map[broker.TopicPartition]int64{tp("in", 0): 99})
	if !errors.Is(err, broker.ErrOffsetOutOfRange) || !strings.Contains(err.Error(), "in-0 before 99") {
		t.Errorf("delete beyond the end: %v", err)
	}
}

func TestAdmin_epochEnds(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	p := tp("in", 0)
	raw := rawClient(t, cfg)
	produceRaw(t, raw, p, "a", "b")
	first := readTo(t, newReader(t, cfg), p, 0, 2)[0].LeaderEpoch
	a := newAdmin(t, cfg)
	got, err := a.EpochEnds(testCtx(t), map[broker.TopicPartition]int32{p: first})
	if want := (broker.EpochEnd{Epoch: first, End: 2}); err != nil || got[p] != want {
		t.Errorf("%+v, %v; want %+v", got[p], err, want)
	}
	if got, err = a.EpochEnds(testCtx(t), map[broker.TopicPartition]int32{p: first + 9}); err != nil || got[p].End != -1 {
		t.Errorf("an epoch to come: %+v, %v", got[p], err)
	}
}

func TestAdmin_committedOffsetsWaitForTransactions(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 3, nil)
	a := newAdmin(t, cfg)
	ctx := testCtx(t)
	none := broker.Identity{Generation: -1}
	meta := broker.OffsetMeta{Offset: 5, Metadata: "times", Epoch: 2}
	if err := a.CommitOffsets(ctx, "app", none, map[broker.TopicPartition]broker.OffsetMeta{tp("in", 0): meta}); err != nil {
		t.Fatal(err)
	}
	f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.UnstableOffsetCommit, Count: 2})
	defer f.Remove()
	got, err := a.CommittedOffsets(ctx, "app", tp("in", 0), tp("in", 1))
	if err != nil {
		t.Fatal(err)
	}
	if f.Hits() != 2 {
		t.Errorf("asked %d times in vain, want 2", f.Hits())
	}
	want := map[broker.TopicPartition]broker.OffsetMeta{tp("in", 0): meta, tp("in", 1): {Offset: -1, Epoch: -1}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got, err := a.CommittedOffsets(ctx, "never seen", tp("in", 0)); err != nil || got[tp("in", 0)].Offset != -1 {
		t.Errorf("of an unknown group: %v, %v", got, err)
	}
}

func TestAdmin_commitUnderAStrangeIdentityIsRefused(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 2, nil)
	a := newAdmin(t, cfg)
	offsets := map[broker.TopicPartition]broker.OffsetMeta{tp("in", 0): {Offset: 1, Epoch: -1}, tp("in", 1): {Offset: 2, Epoch: -1}}
	err := a.CommitOffsets(testCtx(t), "app", broker.Identity{MemberID: "somebody", Generation: 3}, offsets)
	var ce *broker.CommitError
	if !errors.As(err, &ce) || len(ce.Partitions) != 2 || ce.Identity.MemberID != "somebody" {
		t.Fatalf("%v", err)
	}
	if course := broker.CourseOf(err); course != broker.CourseLost && course != broker.CourseAwaitRebalance {
		t.Errorf("%v has course %v", err, course)
	}
	// A topic that is gone is refused too, the other one is committed.
	offsets = map[broker.TopicPartition]broker.OffsetMeta{tp("in", 0): {Offset: 1, Epoch: -1}, tp("nowhere", 0): {Offset: 2, Epoch: -1}}
	err = a.CommitOffsets(testCtx(t), "app", broker.Identity{Generation: -1}, offsets)
	if !errors.As(err, &ce) || len(ce.Partitions) != 1 || ce.Partitions[tp("nowhere", 0)] != broker.CodeUnknownTopicOrPartition {
		t.Errorf("with an unknown topic: %v", err)
	}
	if got, err := a.CommittedOffsets(testCtx(t), "app", tp("in", 0)); err != nil || got[tp("in", 0)].Offset != 1 {
		t.Errorf("the other topic: %v, %v", got, err)
	}
}

func TestAdmin_commitWithoutAnswerIsUnknown(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	a := newAdmin(t, cfg)
	asleep := make(chan struct{})
	t.Cleanup(func() { close(asleep) })
	c.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, errors.New("no answer"), true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := a.CommitOffsets(ctx, "app", broker.Identity{Generation: -1}, map[broker.TopicPartition]broker.OffsetMeta{tp("in", 0): {Offset: 1, Epoch: -1}})
	if !errors.Is(err, broker.ErrNoAnswer) || broker.CourseOf(err) != broker.CourseUnknown {
		t.Errorf("%v has course %v", err, broker.CourseOf(err))
	}
}

func TestAdmin_group(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	a := newAdmin(t, cfg)
	if got, err := a.Group(testCtx(t), "app"); err != nil || got.State != "Dead" || len(got.Members) != 0 {
		t.Errorf("a group that does not exist: %+v, %v", got, err)
	}
	rawClient(t, cfg, kgo.ConsumerGroup("app"), kgo.ConsumeTopics("in"), kgo.ClientID("java-app"), kgo.Balancers(kgo.RangeBalancer()))
	if _, err := c.WaitGroupStable(testCtx(t), "app", 1); err != nil {
		t.Fatal(err)
	}
	got, err := a.Group(testCtx(t), "app")
	if err != nil || got.State != "Stable" || got.Protocol != "range" || got.ProtocolType != "consumer" || len(got.Members) != 1 || !strings.HasPrefix(got.Members[0], "java-app (") {
		t.Errorf("%+v, %v", got, err)
	}
}
