package reset

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/kgoclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster with what an application "app" has left behind.
type world struct {
	*testing.T
	ctx     context.Context
	cluster *kfake.Cluster
	admin   *kgoclient.Admin
	cfg     kgoclient.Config
	joined  chan struct{} // one for each time that the last member has joined
}

func newWorld(t *testing.T, opts ...kfake.Opt) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.ListenFn(net.Listen), kfake.NumBrokers(2), kfake.GroupMinSessionTimeout(10 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &world{T: t, ctx: ctx, cluster: c, cfg: kgoclient.Config{
		Bootstrap: c.ListenAddrs(), MetadataMinAge: 10 * time.Millisecond, RetryBackoff: 5 * time.Millisecond, RetryBackoffMax: 20 * time.Millisecond,
	}}
	for name, partitions := range map[string]int32{"clicks": 2, "users": 1, "app-counts-repartition": 2, "app-counts-changelog": 2, "app-results": 1, "another-counts-changelog": 1} {
		if err := c.CreateTopic(name, partitions, nil); err != nil {
			t.Fatal(err)
		}
	}
	if w.admin, err = kgoclient.NewAdmin(w.cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.admin.Close)
	client := w.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 20 {
		for topic, partitions := range map[string]int32{"clicks": 2, "users": 1, "app-counts-repartition": 2} {
			for p := range partitions {
				r := &kgo.Record{Topic: topic, Partition: p, Value: []byte("v"), Timestamp: time.UnixMilli(int64(1000 * i))}
				if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	w.commit(map[broker.TopicPartition]int64{tp("clicks", 0): 12, tp("clicks", 1): 7, tp("users", 0): 20, tp("app-counts-repartition", 0): 3, tp("app-counts-repartition", 1): 4})
	return w
}

func (w *world) client(opts ...kgo.Opt) *kgo.Client {
	w.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.cfg.Bootstrap...), kgo.MetadataMinAge(10 * time.Millisecond)}, opts...)...)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(c.Close)
	return c
}

func (w *world) commit(offsets map[broker.TopicPartition]int64) {
	w.Helper()
	m := make(map[broker.TopicPartition]broker.OffsetMeta)
	for tp, o := range offsets {
		m[tp] = broker.OffsetMeta{Offset: o, Epoch: -1, Metadata: "AQ=="}
	}
	if err := w.admin.CommitOffsets(w.ctx, "app", broker.Identity{Generation: -1}, m); err != nil {
		w.Fatal(err)
	}
}

// plan looks and decides.
func (w *world) plan(s Spec) Plan {
	w.Helper()
	s.ApplicationID = "app"
	v, err := Look(w.ctx, w.admin, s)
	if err != nil {
		w.Fatal(err)
	}
	p, err := Make(s, v)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func (w *world) do(p Plan, dirs ...StateDir) error {
	return Do(w.ctx, w.admin, p, dirs, noWait, func(string) {})
}

func noWait(context.Context) error { return nil }

func (w *world) wantOffsets(want map[broker.TopicPartition]int64) {
	w.Helper()
	all, err := w.admin.MatchTopics(w.ctx, ".*")
	if err != nil {
		w.Fatal(err)
	}
	committed, err := w.admin.AllCommitted(w.ctx, "app", all)
	if err != nil {
		w.Fatal(err)
	}
	got := make(map[broker.TopicPartition]int64)
	for tp, o := range committed {
		got[tp] = o.Offset
	}
	if d := cmp.Diff(want, got); d != "" {
		w.Errorf("committed offsets (-want +got):\n%s", d)
	}
}

func (w *world) wantTopics(want ...string) {
	w.Helper()
	all, err := w.admin.MatchTopics(w.ctx, ".*")
	if err != nil {
		w.Fatal(err)
	}
	var got []string
	for _, t := range all {
		got = append(got, t.Name)
	}
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		w.Errorf("topics (-want +got):\n%s", d)
	}
}

func TestDo(t *testing.T) {
	w := newWorld(t)
	p := w.plan(Spec{Inputs: []string{"clicks"}})
	var steps []string
	if err := Do(w.ctx, w.admin, p, nil, noWait, func(s string) { steps = append(steps, s) }); err != nil {
		t.Fatal(err)
	}
	w.wantTopics("clicks", "users", "app-results", "another-counts-changelog")
	w.wantOffsets(map[broker.TopicPartition]int64{tp("clicks", 0): 0, tp("clicks", 1): 0, tp("users", 0): 20})
	if d := cmp.Diff([]string{"deleted 2 internal topics", "set the offsets of 2 partitions"}, steps); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	m, err := w.admin.CommittedOffsets(w.ctx, "app", tp("clicks", 0))
	if err != nil || m[tp("clicks", 0)].Metadata != "" {
		t.Errorf("metadata of an offset that was set: %+v, %v", m, err)
	}
	// Once more: there is nothing left to do, and it is no error.
	if p = w.plan(Spec{Inputs: []string{"clicks"}}); !p.Empty() {
		t.Errorf("after a reset there is this to do: %+v", p)
	}
	if err := w.do(p); err != nil {
		t.Error(err)
	}
}

func TestDo_toATime(t *testing.T) {
	w := newWorld(t)
	if err := w.do(w.plan(Spec{Inputs: []string{"clicks", "users"}, To: Target{Kind: ToTime, TimeMs: 4500}, Internal: []string{}})); err != nil {
		t.Fatal(err)
	}
	w.wantOffsets(map[broker.TopicPartition]int64{tp("clicks", 0): 5, tp("clicks", 1): 5, tp("users", 0): 5, tp("app-counts-repartition", 0): 3, tp("app-counts-repartition", 1): 4})
}

// An application that has never run has no group and no topics: its offsets can be set all the same.
func TestDo_aNewApplication(t *testing.T) {
	w := newWorld(t)
	s := Spec{ApplicationID: "new", Inputs: []string{"users"}, To: Target{Kind: ToOffset, Offset: 3}}
	v, err := Look(w.ctx, w.admin, s)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Make(s, v)
	if err != nil || p.Group.Type != broker.GroupNone || len(p.Topics) > 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := w.do(p); err != nil {
		t.Fatal(err)
	}
	m, err := w.admin.CommittedOffsets(w.ctx, "new", tp("users", 0))
	if err != nil || m[tp("users", 0)].Offset != 3 {
		t.Errorf("%+v, %v", m, err)
	}
}

// What may not be committed is found out before anything is changed.
func TestDo_mayNotCommit(t *testing.T) {
	w := newWorld(t)
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: "clicks", Partitions: []int32{1}, Err: kerr.TopicAuthorizationFailed})
	if err := w.do(w.plan(Spec{Inputs: []string{"clicks", "users"}})); !errors.Is(err, broker.ErrUnauthorized) {
		t.Fatalf("%v", err)
	}
	w.wantTopics("clicks", "users", "app-results", "another-counts-changelog", "app-counts-changelog", "app-counts-repartition")
	w.wantOffsets(map[broker.TopicPartition]int64{tp("clicks", 0): 12, tp("clicks", 1): 7, tp("users", 0): 20, tp("app-counts-repartition", 0): 3, tp("app-counts-repartition", 1): 4})
}

// fakeDir is a state directory that fails until it is told not to.
type fakeDir struct {
	err     error
	emptied int
}

func (d *fakeDir) Path() string { return "/state/app" }
func (d *fakeDir) Empty() error { d.emptied++; return d.err }

// Cut off at any step, the same command completes the reset, a shift included.
func TestDo_cutOffAndAgain(t *testing.T) {
	spec := Spec{Inputs: []string{"clicks"}, To: Target{Kind: ShiftBy, Offset: -5}}
	done := func(w *world) {
		w.Helper()
		w.wantTopics("clicks", "users", "app-results", "another-counts-changelog")
		w.wantOffsets(map[broker.TopicPartition]int64{tp("clicks", 0): 7, tp("clicks", 1): 2, tp("users", 0): 20})
	}
	for name, fault := range map[string]kfake.Fault{
		"offsets of internal topics": {Keys: []kmsg.Key{kmsg.OffsetDelete}, TopLevel: true, Err: kerr.GroupAuthorizationFailed},
		"a topic may not be deleted": {Keys: []kmsg.Key{kmsg.DeleteTopics}, Topic: "app-counts-changelog", Err: kerr.TopicAuthorizationFailed},
		"new offsets": {Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.GroupAuthorizationFailed, When: func(r kmsg.Request) bool {
			return *r.(*kmsg.OffsetCommitRequest).Topics[0].Partitions[0].Metadata == "" // not those that are committed as they are
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cluster.Fault(fault)
			err := w.do(w.plan(spec))
			if err == nil || !strings.Contains(err.Error(), "run the same command again") {
				t.Fatalf("no word of what to do: %v", err)
			}
			if err := w.do(w.plan(spec)); err != nil {
				t.Fatal(err)
			}
			done(w)
		})
	}
	t.Run("a state directory", func(t *testing.T) {
		w := newWorld(t)
		d := &fakeDir{err: errors.New("disk on fire")}
		if err := w.do(w.plan(spec), d); err == nil || !strings.Contains(err.Error(), "disk on fire") {
			t.Fatalf("%v", err)
		}
		w.wantOffsets(map[broker.TopicPartition]int64{tp("clicks", 0): 12, tp("clicks", 1): 7, tp("users", 0): 20})
		d.err = nil
		if err := w.do(w.plan(spec), d); err != nil {
			t.Fatal(err)
		}
		done(w)
		if d.emptied != 2 {
			t.Errorf("the directory was emptied %d times", d.emptied)
		}
	})
}

// member joins the group as an instance that runs.
func (w *world) member(opts ...kgo.Opt) *kgo.Client {
	w.Helper()
	joined := make(chan struct{}, 100)
	w.joined = joined
	c := w.client(append([]kgo.Opt{
		kgo.ConsumerGroup("app"), kgo.ConsumeTopics("clicks"), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(20 * time.Millisecond), kgo.ClientID("instance"),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { joined <- struct{}{} }),
	}, opts...)...)
	select {
	case <-joined:
	case <-w.ctx.Done():
		w.Fatal("the member has not joined")
	}
	return c
}

func TestDo_refusesARunningApplication(t *testing.T) {
	w := newWorld(t)
	w.member()
	p := w.plan(Spec{Inputs: []string{"clicks"}})
	err := w.do(p)
	if !errors.Is(err, ErrActive) || !strings.Contains(err.Error(), "instance (") {
		t.Errorf("%v", err)
	}
	w.wantTopics("clicks", "users", "app-results", "another-counts-changelog", "app-counts-changelog", "app-counts-repartition")
}

// An instance that starts between plan and execution is noticed by the coordinator, before anything is deleted.
func TestDo_refusesWhoeverCameSince(t *testing.T) {
	w := newWorld(t)
	p := w.plan(Spec{Inputs: []string{"clicks"}})
	w.member()
	if err := w.do(p); !errors.Is(err, ErrActive) {
		t.Errorf("%v", err)
	}
	w.wantTopics("clicks", "users", "app-results", "another-counts-changelog", "app-counts-changelog", "app-counts-repartition")
	w.wantOffsets(map[broker.TopicPartition]int64{tp("clicks", 0): 12, tp("clicks", 1): 7, tp("users", 0): 20, tp("app-counts-repartition", 0): 3, tp("app-counts-repartition", 1): 4})
}

// A killed static member stays for its session timeout; by force it goes at once.
func TestDo_forceTakesOutWhoIsDead(t *testing.T) {
	w := newWorld(t)
	w.member(kgo.InstanceID("one"), kgo.SessionTimeout(time.Minute)).CloseAllowingRebalance() // a static member does not leave
	p := w.plan(Spec{Inputs: []string{"clicks"}})
	if p.Blocked == nil || !strings.Contains(p.Blocked.Error(), "instance id one") {
		t.Fatalf("the member is not there: %v", p.Blocked)
	}
	if err := w.do(w.plan(Spec{Inputs: []string{"clicks"}, Force: true})); err != nil {
		t.Fatal(err)
	}
	w.wantOffsets(map[broker.TopicPartition]int64{tp("clicks", 0): 0, tp("clicks", 1): 0, tp("users", 0): 20})
}

// One that runs comes back, which is noticed before anything is deleted.
func TestDo_forceOnALiveInstance(t *testing.T) {
	w := newWorld(t)
	w.member()
	p := w.plan(Spec{Inputs: []string{"clicks"}, Force: true})
	err := Do(w.ctx, w.admin, p, nil, func(ctx context.Context) error {
		select {
		case <-w.joined:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, func(string) {})
	if !errors.Is(err, ErrActive) || !strings.Contains(err.Error(), "still runs has come back: ") || !strings.Contains(err.Error(), "stop it, and run the same command again") {
		t.Errorf("%v", err)
	}
	w.wantTopics("clicks", "users", "app-results", "another-counts-changelog", "app-counts-changelog", "app-counts-repartition")
}

// One that comes back only when all is done may go on with what it has in memory: that is no success.
func TestDo_forceLooksAgainAtTheEnd(t *testing.T) {
	w := newWorld(t)
	w.member(kgo.InstanceID("one"), kgo.SessionTimeout(time.Minute)).CloseAllowingRebalance()
	err := Do(w.ctx, w.admin, w.plan(Spec{Inputs: []string{"clicks"}, Force: true}), nil, noWait, func(step string) {
		if strings.HasPrefix(step, "set the offsets") {
			w.member()
		}
	})
	if !errors.Is(err, ErrActive) || !strings.Contains(err.Error(), "still runs has come back: ") {
		t.Errorf("%v", err)
	}
}
