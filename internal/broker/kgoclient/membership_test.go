package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/assign"
	"github.com/millrace-io/millrace/internal/broker"
)

// reads is a topology of one sub-topology for each list of topics; those after the first one are stateless.
func reads(signature string, topics ...[]string) broker.GroupTopology {
	t := broker.GroupTopology{Signature: signature}
	for i, ts := range topics {
		t.Subtopologies = append(t.Subtopologies, broker.Subtopology{ID: i, Topics: ts, Stateful: i == 0})
	}
	return t
}

// member is a Membership under test with what it has been told.
type member struct {
	*Membership
	t      *testing.T
	owned  []broker.TaskID
	copies []broker.TaskID // standbys and warm-ups
	id     broker.Identity
}

func fast() MembershipConfig {
	return MembershipConfig{
		Group: "app", Assign: assign.Round, ProcessID: uuid.New(), HeartbeatInterval: 10 * time.Millisecond, SessionTimeout: 300 * time.Millisecond,
		RebalanceTimeout: 5 * time.Second,
	}
}

func join(t *testing.T, cfg Config, mcfg MembershipConfig, topology broker.GroupTopology) *member {
	t.Helper()
	m, err := NewMembership(cfg, mcfg)
	if err != nil {
		t.Fatal(err)
	}
	x := &member{Membership: m, t: t}
	t.Cleanup(x.kill)
	m.Subscribe(topology)
	return x
}

// kill ends the member as a crash does: without leaving.
func (x *member) kill() {
	x.mu.Lock()
	x.leaving = true
	x.mu.Unlock()
	x.events.close()
	x.stop()
	x.c.Close()
	x.tasks.Wait()
}

// next waits for an event and takes it over, without calling its Done.
func (x *member) next() broker.MembershipEvent {
	x.t.Helper()
	select {
	case e := <-x.Events():
		if e.Done == nil {
			x.t.Fatalf("event %+v without Done", e)
		}
		switch e.Kind {
		case broker.Assigned:
			x.owned, x.id, x.copies = e.Tasks, e.Identity, slices.Concat(e.Standbys, e.Warmups)
		case broker.Revoked:
			for _, task := range e.Tasks {
				if !slices.Contains(x.owned, task) {
					x.t.Errorf("%v revoked and not owned", task)
				}
			}
			x.owned = slices.DeleteFunc(slices.Clone(x.owned), func(task broker.TaskID) bool { return slices.Contains(e.Tasks, task) })
		case broker.Lost:
			x.owned = nil
		}
		return e
	case <-testCtx(x.t).Done():
		x.t.Fatal("no event")
		return broker.MembershipEvent{}
	}
}

// until takes events, finished at once, until one of a kind satisfies ok.
func (x *member) until(kind broker.MembershipKind, ok func(broker.MembershipEvent) bool) broker.MembershipEvent {
	x.t.Helper()
	for {
		e := x.next()
		e.Done()
		if e.Kind == kind && (ok == nil || ok(e)) {
			return e
		}
	}
}

func hasTasks(n int) func(broker.MembershipEvent) bool {
	return func(e broker.MembershipEvent) bool { return len(e.Tasks) == n }
}

// settle takes the events of all members until they own together all tasks, each once, and shares as given.
func settle(t *testing.T, tasks int, members ...*member) {
	t.Helper()
	ctx := testCtx(t)
	for {
		owners := make(map[broker.TaskID]int)
		total := 0
		for i, x := range members {
			for _, task := range x.owned {
				if o, twice := owners[task]; twice {
					t.Fatalf("%v runs on members %d and %d", task, o, i)
				}
				owners[task] = i
			}
			total += len(x.owned)
		}
		balanced := total == tasks
		for _, x := range members {
			if len(x.owned) < tasks/len(members) || len(x.owned) > (tasks+len(members)-1)/len(members) {
				balanced = false
			}
		}
		if balanced {
			return
		}
		took := false
		for _, x := range members {
			select {
			case e := <-x.Events():
				took = true
				switch e.Kind {
				case broker.Assigned:
					x.owned, x.id, x.copies = e.Tasks, e.Identity, slices.Concat(e.Standbys, e.Warmups)
				case broker.Revoked:
					x.owned = slices.DeleteFunc(slices.Clone(x.owned), func(task broker.TaskID) bool { return slices.Contains(e.Tasks, task) })
				case broker.Lost:
					x.owned = nil
				}
				e.Done()
			default:
			}
		}
		if !took {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				for i, x := range members {
					t.Logf("member %d owns %v", i, x.owned)
				}
				t.Fatal("the group does not settle")
			}
		}
	}
}

func TestMembership_joinLeaveAndDie(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 6, nil)
	topic(t, c, "side", 3, nil)
	topology := reads("s", []string{"in", "side"})
	a := join(t, cfg, fast(), topology)
	e := a.until(broker.Assigned, hasTasks(6))
	if d := cmp.Diff([]broker.TopicPartition{tp("in", 2), tp("side", 2)}, e.Inputs[broker.TaskID{Partition: 2}]); d != "" {
		t.Errorf("inputs of 0_2 (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]broker.TopicPartition{tp("in", 5)}, e.Inputs[broker.TaskID{Partition: 5}]); d != "" {
		t.Errorf("inputs of 0_5 (-want +got):\n%s", d)
	}
	if id, ok := a.Identity(); !ok || id != e.Identity || id.MemberID == "" || id.Generation < 1 {
		t.Errorf("identity %+v, %t; the event says %+v", id, ok, e.Identity)
	}
	b := join(t, cfg, fast(), topology)
	settle(t, 6, a, b)
	d := join(t, cfg, fast(), topology)
	settle(t, 6, a, b, d)

	if err := b.Leave(testCtx(t), false); err != nil {
		t.Fatal(err)
	}
	if _, open := <-b.Events(); open {
		t.Error("events are open after Leave")
	}
	if _, ok := b.Identity(); ok {
		t.Error("a member that left has an identity")
	}
	settle(t, 6, a, d)

	d.kill() // the group notices after the session timeout
	settle(t, 6, a)
	if info := c.GroupInfo("app"); len(info.Members) != 1 {
		t.Errorf("%d members in the group", len(info.Members))
	}
}

func TestMembership_onlyWhatMovesIsRevoked(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 6, nil)
	topology := reads("s", []string{"in"})
	a := join(t, cfg, fast(), topology)
	a.until(broker.Assigned, hasTasks(6))
	before := slices.Clone(a.owned)

	b := join(t, cfg, fast(), topology)
	rev := a.next()
	for rev.Kind == broker.Assigned && len(rev.Tasks) == 6 {
		rev = a.next() // a rebalance that began before b was in
	}
	if rev.Kind != broker.Revoked || len(rev.Tasks) != 3 {
		t.Fatalf("want 3 tasks revoked, got %+v", rev)
	}
	if id, _ := a.Identity(); rev.Identity != id {
		t.Errorf("revoked under %+v, identity is %+v", rev.Identity, id)
	}
	// While the first is not done with them, the second has nothing.
	if e := b.next(); e.Kind != broker.Assigned || len(e.Tasks) != 0 {
		t.Fatalf("before the hand-over: %+v", e)
	}
	select {
	case e := <-b.Events():
		t.Fatalf("before the hand-over: %+v", e)
	case e := <-a.Events():
		t.Fatalf("before Done: %+v", e)
	case <-time.After(5 * fast().HeartbeatInterval):
	}
	rev.Done()
	rev.Done() // twice does no harm
	settle(t, 6, a, b)
	got := slices.Clone(b.owned)
	if d := cmp.Diff(rev.Tasks, got); d != "" {
		t.Errorf("what moved (-revoked +assigned):\n%s", d)
	}
	for _, task := range a.owned {
		if !slices.Contains(before, task) {
			t.Errorf("%v moved to the first member", task)
		}
	}
}

func TestMembership_commitsOfAnOldGenerationAreRefused(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 2, nil)
	topology := reads("s", []string{"in"})
	admin := newAdmin(t, cfg)
	offsets := map[broker.TopicPartition]broker.OffsetMeta{tp("in", 0): {Offset: 3, Epoch: -1, Metadata: "m"}}
	a := join(t, cfg, fast(), topology)
	a.until(broker.Assigned, hasTasks(2))
	old := a.id
	if err := admin.CommitOffsets(testCtx(t), "app", old, offsets); err != nil {
		t.Fatalf("commit of the owner: %v", err)
	}
	b := join(t, cfg, fast(), topology)
	settle(t, 2, a, b)
	err := admin.CommitOffsets(testCtx(t), "app", old, offsets)
	if !errors.Is(err, broker.CodeIllegalGeneration) || broker.CourseOf(err) != broker.CourseAwaitRebalance {
		t.Errorf("commit of generation %d in %d: %v", old.Generation, a.id.Generation, err)
	}
	now, ok := a.Identity()
	if !ok || now.MemberID != old.MemberID || now.Generation <= old.Generation {
		t.Errorf("identity %+v after %+v", now, old)
	}
	if err := admin.CommitOffsets(testCtx(t), "app", now, offsets); err != nil {
		t.Errorf("commit of the newest generation: %v", err)
	}
	if err := b.Leave(testCtx(t), false); err != nil {
		t.Fatal(err)
	}
	if err := admin.CommitOffsets(testCtx(t), "app", b.id, offsets); broker.CourseOf(err) != broker.CourseLost {
		t.Errorf("commit of a member that left: %v", err)
	}
}

func TestMembership_silentNewMemberIDIsALoss(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 3, nil)
	a := join(t, cfg, fast(), reads("s", []string{"in"}))
	a.until(broker.Assigned, hasTasks(3))
	old := a.id
	// The coordinator asks for a rebalance and has forgotten the member when it comes to join.
	c.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.RebalanceInProgress},
		kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.UnknownMemberID},
	)
	e := a.next()
	if e.Kind != broker.Lost || e.Identity.MemberID != old.MemberID || len(e.Tasks) != 3 {
		t.Fatalf("want the loss of 3 tasks of %s, got %+v", old.MemberID, e)
	}
	if _, ok := a.Identity(); ok {
		t.Error("an identity between the loss and the next assignment")
	}
	e = a.until(broker.Assigned, hasTasks(3))
	if e.Identity.MemberID == old.MemberID {
		t.Errorf("the member id is still %s", old.MemberID)
	}
}

func TestMembership_expulsionIsALossAndAReport(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 3, nil)
	a := join(t, cfg, fast(), reads("s", []string{"in"}))
	a.until(broker.Assigned, hasTasks(3))
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID})
	if e := a.next(); e.Kind != broker.Lost || len(e.Tasks) != 3 {
		t.Fatalf("want a loss, got %+v", e)
	}
	if e := a.next(); e.Kind != broker.MembershipFail || !errors.Is(e.Err, broker.CodeUnknownMemberID) || !strings.Contains(e.Err.Error(), "group app") {
		t.Fatalf("want a report, got %+v", e)
	}
	a.until(broker.Assigned, hasTasks(3))
}

func TestMembership_revocationHasADeadline(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 4, nil)
	topology := reads("s", []string{"in"})
	mcfg := fast()
	mcfg.RevokeTimeout = 100 * time.Millisecond
	a := join(t, cfg, mcfg, topology)
	a.until(broker.Assigned, hasTasks(4))
	b := join(t, cfg, fast(), topology)
	var rev broker.MembershipEvent
	for rev = a.next(); rev.Kind != broker.Revoked; rev = a.next() {
	}
	if e := a.next(); e.Kind != broker.MembershipFail || !strings.Contains(e.Err.Error(), "2 tasks") {
		t.Errorf("want a report, got %+v", e)
	}
	settle(t, 4, a, b)
	rev.Done() // too late, and harmless
}

func TestC103_twoTopologiesUnderOneApplicationID(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "t1", 2, nil)
	topic(t, c, "t2", 2, nil)
	topic(t, c, "t3", 2, nil)
	a := join(t, cfg, fast(), reads("sig-12", []string{"t1"}, []string{"t2"}))
	a.until(broker.Assigned, hasTasks(4))
	b := join(t, cfg, fast(), reads("sig-3", []string{"t3"}))
	e := b.next()
	if e.Kind != broker.MembershipFail || !errors.Is(e.Err, broker.ErrTopologyMismatch) {
		t.Fatalf("want a mismatch, got %+v", e)
	}
	for _, word := range []string{"group app", "sig-12", "sig-3", "this instance reads t3", "the leader t1, t2", a.id.MemberID, "application.id"} {
		if !strings.Contains(e.Err.Error(), word) {
			t.Errorf("%q does not say %q", e.Err, word)
		}
	}
	if e := b.next(); e.Kind != broker.Assigned || len(e.Tasks) != 0 {
		t.Errorf("want an empty assignment, got %+v", e)
	}
	// The first one goes on with all its tasks, and the second one's repair is noticed.
	a.until(broker.Assigned, hasTasks(4))
	b.Subscribe(reads("sig-12", []string{"t1"}, []string{"t2"}))
	settle(t, 4, a, b)
}

// Two topologies that read the same differ in what they keep: the error names it.
func TestC103_storesThatDiffer(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 2, nil)
	a := join(t, cfg, fast(), broker.GroupTopology{Signature: "one", Subtopologies: reads("", []string{"in"}).Subtopologies,
		Shape: "sub-topology 0\n  reads in\n  store counts key-value logged\n"})
	a.until(broker.Assigned, hasTasks(2))
	b := join(t, cfg, fast(), broker.GroupTopology{Signature: "two", Subtopologies: reads("", []string{"in"}).Subtopologies,
		Shape: "sub-topology 0\n  reads in\n  store totals key-value logged\n"})
	e := b.next()
	want := "only here: store totals key-value logged; only on the leader: store counts key-value logged;"
	if e.Kind != broker.MembershipFail || !errors.Is(e.Err, broker.ErrTopologyMismatch) || !strings.Contains(e.Err.Error(), want) {
		t.Errorf("want %q, got %+v", want, e)
	}
}

func TestMembership_mixedGroupIsRefusedByName(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 2, nil)
	other := rawClient(t, cfg, kgo.ConsumerGroup("app"), kgo.ConsumeTopics("in"), kgo.ClientID("kafka-streams-app"),
		kgo.Balancers(streamBalancer{kgo.RangeBalancer()}), kgo.HeartbeatInterval(10*time.Millisecond), kgo.SessionTimeout(300*time.Millisecond))
	if _, err := c.WaitGroupStable(testCtx(t), "app", 1); err != nil {
		t.Fatal(err)
	}
	a := join(t, cfg, fast(), reads("s", []string{"in"}))
	e := a.next()
	if e.Kind != broker.MembershipFail || !errors.Is(e.Err, broker.ErrMixedGroup) {
		t.Fatalf("want a mixed group, got %+v", e)
	}
	for _, word := range []string{`"stream"`, "kafka-streams-app", "group app", "stop them first"} {
		if !strings.Contains(e.Err.Error(), word) {
			t.Errorf("%q does not say %q", e.Err, word)
		}
	}
	other.Close()
	a.until(broker.Assigned, hasTasks(2)) // it tries until they are gone
}

// streamBalancer goes by the name of Kafka Streams' assignor.
type streamBalancer struct{ kgo.GroupBalancer }

func (streamBalancer) ProtocolName() string { return "stream" }

func TestMembership_staticMemberStaysForARestart(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 4, nil)
	topology := reads("s", []string{"in"})
	static := func(id string) MembershipConfig {
		m := fast()
		m.InstanceID, m.SessionTimeout = id, 3*time.Second
		return m
	}
	a, b := join(t, cfg, static("one"), topology), join(t, cfg, static("two"), topology)
	settle(t, 4, a, b)
	if a.id.InstanceID != "one" {
		t.Errorf("identity %+v", a.id)
	}
	had := slices.Clone(a.owned)
	if err := a.Leave(testCtx(t), true); err != nil {
		t.Fatal(err)
	}
	back := join(t, cfg, static("one"), topology)
	e := back.until(broker.Assigned, nil)
	if d := cmp.Diff(had, e.Tasks); d != "" {
		t.Errorf("after the restart (-before +after):\n%s", d)
	}
	if e.Identity.MemberID == a.id.MemberID {
		t.Error("the member id did not change")
	}
	if n := len(c.GroupInfo("app").Members); n != 2 {
		t.Errorf("%d members in the group", n)
	}
	settle(t, 4, back, b)
	if d := cmp.Diff(had, back.owned); d != "" {
		t.Errorf("when all is quiet (-before +after):\n%s", d)
	}
	// Without stay a static member is really gone.
	if err := back.Leave(testCtx(t), false); err != nil {
		t.Fatal(err)
	}
	if n := len(c.GroupInfo("app").Members); n != 1 {
		t.Errorf("%d members in the group", n)
	}
	b.until(broker.Assigned, hasTasks(4))
}

// answerSync makes the coordinator answer the next SyncGroup with an assignment of the test's own: a static member that
// starts again gets what the group gave it before, without a rebalance, as long as no protocol name changes.
func answerSync(c *kfake.Cluster, d assignmentData, topics ...string) {
	a := kmsg.NewConsumerMemberAssignment()
	a.Version = 1
	for _, t := range topics {
		at := kmsg.NewConsumerMemberAssignmentTopic()
		at.Topic, at.Partitions = t, []int32{0, 1}
		a.Topics = append(a.Topics, at)
	}
	a.UserData = d.encode()
	c.ControlKey(int16(kmsg.SyncGroup), func(r kmsg.Request) (kmsg.Response, error, bool) {
		resp := r.ResponseKind().(*kmsg.SyncGroupResponse)
		resp.MemberAssignment = a.AppendTo(nil)
		return resp, nil, true
	})
}

// A static member that dies after it learnt that it has to give up tasks, and before it joined again, comes back to an
// assignment without them. Nobody else would make the group hand them on.
func TestMembership_staticMemberDiesBetweenTheTwoSteps(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 4, nil)
	static := fast()
	static.InstanceID, static.SessionTimeout = "one", 10*time.Second
	answerSync(c, assignmentData{Signature: "s", Tasks: []broker.TaskID{{Partition: 0}}, GiveUp: []broker.TaskID{{Partition: 2}, {Partition: 3}}}, "in")
	a := join(t, cfg, static, reads("s", []string{"in"}))
	if e := a.next(); e.Kind != broker.Assigned || len(e.Tasks) != 1 || len(e.Inputs) != 1 {
		t.Fatalf("want what the group gave it, got %+v", e)
	}
	a.until(broker.Assigned, hasTasks(4)) // it joined again by itself
}

func TestMembership_staticMemberGetsAnOldTopologysAssignment(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "old", 2, nil)
	topic(t, c, "new", 3, nil)
	static := fast()
	static.InstanceID, static.SessionTimeout = "one", 10*time.Second
	answerSync(c, assignmentData{Signature: "v1", Tasks: []broker.TaskID{{Partition: 0}, {Partition: 1}}}, "old")
	a := join(t, cfg, static, reads("v2", []string{"new"}))
	if e := a.next(); e.Kind != broker.Assigned || len(e.Tasks) != 0 {
		t.Fatalf("want no task of the old topology, got %+v", e)
	}
	e := a.until(broker.Assigned, hasTasks(3))
	if d := cmp.Diff([]broker.TopicPartition{tp("new", 1)}, e.Inputs[broker.TaskID{Partition: 1}]); d != "" {
		t.Errorf("inputs (-want +got):\n%s", d)
	}
}

func TestMembership_unreadableAssignment(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	c.ControlKey(int16(kmsg.SyncGroup), func(r kmsg.Request) (kmsg.Response, error, bool) {
		resp := r.ResponseKind().(*kmsg.SyncGroupResponse)
		a := kmsg.NewConsumerMemberAssignment()
		a.UserData = []byte{9, 9}
		resp.MemberAssignment = a.AppendTo(nil)
		return resp, nil, true
	})
	a := join(t, cfg, fast(), reads("s", []string{"in"}))
	if e := a.next(); e.Kind != broker.MembershipFail || !strings.Contains(e.Err.Error(), "version 9") {
		t.Errorf("%+v", e)
	}
	if e := a.next(); e.Kind != broker.Assigned || len(e.Tasks) != 0 {
		t.Errorf("%+v", e)
	}
}

func TestMembership_fencedInstanceIsALoss(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 2, nil)
	static := fast()
	static.InstanceID, static.SessionTimeout = "one", 10*time.Second
	a := join(t, cfg, static, reads("s", []string{"in"}))
	a.until(broker.Assigned, hasTasks(2))
	clone := join(t, cfg, static, reads("s", []string{"in"}))
	clone.until(broker.Assigned, hasTasks(2))
	if e := a.next(); e.Kind != broker.Lost || len(e.Tasks) != 2 {
		t.Fatalf("want a loss, got %+v", e)
	}
	if e := a.next(); e.Kind != broker.MembershipFail || !errors.Is(e.Err, broker.CodeFencedInstanceID) {
		t.Fatalf("want a report, got %+v", e)
	}
}

func TestMembership_subscriptionGrowsAndShrinks(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in-1", 2, nil)
	topic(t, c, "in-2", 4, nil)
	a := join(t, cfg, fast(), reads("s", []string{"in-1"}))
	b := join(t, cfg, fast(), reads("s", []string{"in-1"}))
	settle(t, 2, a, b)
	// One member sees a new topic: nothing changes until the other one sees it too.
	a.Subscribe(reads("s", []string{"in-1", "in-2"}))
	a.until(broker.Assigned, func(e broker.MembershipEvent) bool { return len(e.Tasks) == 1 })
	if b.next().Kind != broker.Assigned || len(b.owned) != 1 {
		t.Errorf("the other one: %v", b.owned)
	}
	b.Subscribe(reads("s", []string{"in-1", "in-2"}))
	settle(t, 4, a, b)
	a.Subscribe(reads("s", []string{"in-1"}))
	settle(t, 2, a, b)
}

func TestMembership_moreParts(t *testing.T) {
	c, cfg := startCluster(t)
	cfg.MetadataMaxAge = 50 * time.Millisecond
	topic(t, c, "in", 2, nil)
	a := join(t, cfg, fast(), reads("s", []string{"in"}))
	a.until(broker.Assigned, hasTasks(2))
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = "in", 3
	req.Topics = append(req.Topics, rt)
	req.TimeoutMillis = 1000
	if _, err := req.RequestWith(testCtx(t), rawClient(t, cfg)); err != nil {
		t.Fatal(err)
	}
	a.until(broker.Assigned, hasTasks(3))
}

func TestMembership_rejoinTellsNewData(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 2, nil)
	mcfg := fast()
	stored := make(chan struct{}, 100)
	mcfg.Copies = func() map[broker.TaskID]int64 {
		stored <- struct{}{}
		return map[broker.TaskID]int64{{Partition: 1}: 0}
	}
	leader := join(t, cfg, fast(), reads("s", []string{"in"}))
	leader.until(broker.Assigned, hasTasks(2))
	a := join(t, cfg, mcfg, reads("s", []string{"in"}))
	settle(t, 2, leader, a)
	if d := cmp.Diff([]broker.TaskID{{Partition: 1}}, a.owned); d != "" {
		t.Errorf("the member with the state of 0_1 got (-want +got):\n%s", d)
	}
	generation := a.id.Generation
	a.Rejoin()
	if e := a.until(broker.Assigned, nil); e.Identity.Generation <= generation {
		t.Errorf("generation %d after %d", e.Identity.Generation, generation)
	}
	if len(stored) < 2 {
		t.Errorf("asked for stored tasks %d times", len(stored))
	}
}

func TestC100_leaveReturnsInsideARebalance(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 4, nil)
	topology := reads("s", []string{"in"})
	slow := fast()
	slow.RebalanceTimeout, slow.SessionTimeout = time.Minute, 30*time.Second
	a := join(t, cfg, slow, topology)
	a.until(broker.Assigned, hasTasks(4))
	b := join(t, cfg, slow, topology)
	for a.next().Kind != broker.Revoked { // and never done
	}
	d := join(t, cfg, slow, topology) // its join waits for a
	if err := waitGroup(testCtx(t), c, "PreparingRebalance"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for _, x := range []*member{d, a, b} {
		if err := x.Leave(testCtx(t), false); err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("leaving took %v", took)
	}
	if n := len(c.GroupInfo("app").Members); n != 0 {
		t.Errorf("%d members are left in the group", n)
	}
}

func waitGroup(ctx context.Context, c *kfake.Cluster, state string) error {
	_, err := c.WaitGroupInfo(ctx, "app", func(i *kfake.GroupInfo) bool { return fmt.Sprint(i.State) == state })
	return err
}

func TestMembership_leaveWithoutABroker(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	a := join(t, cfg, fast(), reads("s", []string{"in"}))
	a.until(broker.Assigned, hasTasks(1))
	c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := a.Leave(ctx, false); err == nil {
		t.Error("no error although nobody heard of it")
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("leaving took %v", took)
	}
}

func TestMembership_silenceLongerThanTheSessionIsALoss(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	a := join(t, cfg, fast(), reads("s", []string{"in"}))
	a.until(broker.Assigned, hasTasks(1))
	f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.CoordinatorNotAvailable, Count: -1})
	a.until(broker.Lost, nil)
	f.Remove()
	a.until(broker.Assigned, hasTasks(1))
}

// A broker that restarts is not a reason to give everything up: the coordinator knows the member when it is back.
func TestMembership_brokerRestartIsNotALoss(t *testing.T) {
	dir := t.TempDir()
	first, cfg := startCluster(t, kfake.DataDir(dir))
	topic(t, first, "in", 3, nil)
	mcfg := fast()
	mcfg.SessionTimeout = 30 * time.Second
	a := join(t, cfg, mcfg, reads("s", []string{"in"}))
	a.until(broker.Assigned, hasTasks(3))
	id := a.id
	_, port, err := net.SplitHostPort(cfg.Bootstrap[0])
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	if e := a.next(); e.Kind != broker.MembershipFail || !errors.Is(e.Err, broker.ErrUnreachable) {
		t.Fatalf("want a report, got %+v", e)
	}
	if got, ok := a.Identity(); !ok || got != id {
		t.Errorf("identity %+v, %t while the broker is away, want %+v", got, ok, id)
	}
	startCluster(t, kfake.DataDir(dir), kfake.Ports(n))
	for {
		e := a.next()
		switch e.Kind {
		case broker.MembershipFail:
			continue
		case broker.Assigned:
			if e.Identity.MemberID != id.MemberID || len(e.Tasks) != 3 {
				t.Errorf("%+v, before %+v", e, id)
			}
			return
		}
		t.Fatalf("%+v", e)
	}
}
