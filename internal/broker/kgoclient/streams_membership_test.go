package kgoclient

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// streamsBroker answers the streams group protocol in the place of kfake, which does not have it: each heartbeat goes to the test.
type streamsBroker struct {
	t     *testing.T
	c     *kfake.Cluster
	cfg   Config
	beats chan beat
	done  chan struct{}

	mu    sync.Mutex
	group *kmsg.StreamsGroupDescribeResponseGroup
}

// beat is a heartbeat that waits for its answer.
type beat struct {
	*kmsg.StreamsGroupHeartbeatRequest
	answer chan *kmsg.StreamsGroupHeartbeatResponse // nil cuts the connection
}

func startStreamsBroker(t *testing.T) *streamsBroker {
	t.Helper()
	b := &streamsBroker{t: t, beats: make(chan beat), done: make(chan struct{})}
	b.c, b.cfg = startCluster(t)
	t.Cleanup(func() { close(b.done) }) // before the cluster is closed
	topic(t, b.c, "in", 4, nil)
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = "test", "v0"
	known, err := versions.RequestWith(testCtx(t), rawClient(t, b.cfg))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []kmsg.Key{kmsg.StreamsGroupHeartbeat, kmsg.StreamsGroupDescribe} {
		known.ApiKeys = append(known.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key.Int16(), MaxVersion: 1})
	}
	b.c.ControlKey(kmsg.ApiVersions.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.KeepControl()
		resp := *known
		resp.Version = req.GetVersion()
		return &resp, nil, true
	})
	b.c.ControlKey(kmsg.StreamsGroupDescribe.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.KeepControl()
		resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
		resp.Version = req.GetVersion()
		b.mu.Lock()
		defer b.mu.Unlock()
		g := kmsg.NewStreamsGroupDescribeResponseGroup()
		g.Group, g.ErrorCode = "app", int16(broker.CodeGroupIDNotFound)
		if b.group != nil {
			g = *b.group
			g.Group = "app"
		}
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true
	})
	b.c.ControlKey(kmsg.StreamsGroupHeartbeat.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.KeepControl()
		x := beat{req.(*kmsg.StreamsGroupHeartbeatRequest), make(chan *kmsg.StreamsGroupHeartbeatResponse, 1)}
		// Nothing else is answered meanwhile: the member does one thing after the other.
		select {
		case b.beats <- x:
		case <-b.done:
			return nil, errors.New("cut"), true
		}
		select {
		case resp := <-x.answer:
			if resp == nil {
				return nil, errors.New("cut"), true
			}
			resp.Version = req.GetVersion()
			return resp, nil, true
		case <-b.done:
			return nil, errors.New("cut"), true
		}
	})
	return b
}

// next is the next heartbeat.
func (b *streamsBroker) next() beat {
	b.t.Helper()
	select {
	case x := <-b.beats:
		return x
	case <-time.After(testTimeout):
		b.t.Fatal("no heartbeat")
		panic("unreachable")
	}
}

// answerTo answers a heartbeat: an epoch, and tasks if any are given.
func answerTo(x beat, epoch int32, tasks ...int32) {
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.MemberID, resp.MemberEpoch, resp.HeartbeatIntervalMillis = x.MemberID, epoch, 20
	resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
	if tasks != nil {
		resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = taskIDs(sub0(tasks...)), taskIDs(nil), taskIDs(nil)
	}
	x.answer <- resp
}

func refuseWith(x beat, code broker.Code) {
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.ErrorCode = int16(code)
	x.answer <- resp
}

// members sets who is in the group, as it is described.
func (b *streamsBroker) members(members ...kmsg.StreamsGroupDescribeResponseGroupMember) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := kmsg.NewStreamsGroupDescribeResponseGroup()
	g.State, g.Members = "Stable", members
	b.group = &g
}

func (b *streamsBroker) join(mcfg MembershipConfig) *StreamsMembership {
	b.t.Helper()
	mcfg.Group, mcfg.ProcessID = "app", uuid.New()
	m, err := NewStreamsMembership(b.cfg, mcfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { // as a crash, if it has not left
		m.stop()
		<-m.done
		m.q.close()
		m.c.Close()
	})
	m.Subscribe(reads("s", []string{"in"}))
	return m
}

func nextEvent(t *testing.T, m broker.Membership) broker.MembershipEvent {
	t.Helper()
	select {
	case e, ok := <-m.Events():
		if !ok {
			t.Fatal("no more events")
		}
		return e
	case <-time.After(testTimeout):
		t.Fatal("no event")
		panic("unreachable")
	}
}

// leave leaves, and gives the request that said so.
func (b *streamsBroker) leave(m *StreamsMembership, stay bool) beat {
	b.t.Helper()
	left := make(chan error, 1)
	go func() { left <- m.Leave(testCtx(b.t), stay) }()
	x := b.next()
	for ; x.MemberEpoch >= 0; x = b.next() {
		answerTo(x, x.MemberEpoch)
	}
	answerTo(x, x.MemberEpoch)
	if err := <-left; err != nil {
		b.t.Errorf("leave: %v", err)
	}
	if _, open := <-m.Events(); open {
		b.t.Error("events after leaving")
	}
	return x
}

func TestStreamsMembership_joinAndLeave(t *testing.T) {
	for _, tc := range []struct {
		name, instance string
		stay           bool
		epoch          int32
	}{
		{"leaves", "", false, leaveEpoch},
		{"cannot stay", "", true, leaveEpoch},
		{"static leaves", "one", false, leaveEpoch},
		{"static stays", "one", true, stayEpoch},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := startStreamsBroker(t)
			m := b.join(MembershipConfig{InstanceID: tc.instance})
			if _, member := m.Identity(); member {
				t.Error("it is a member before it has joined")
			}
			x := b.next()
			answerTo(x, 3, 1, 2)
			e := nextEvent(t, m)
			if e.Kind != broker.Assigned || !cmp.Equal(partitionsOf(e.Tasks), []int32{1, 2}) || !cmp.Equal(e.Inputs[broker.TaskID{Partition: 2}], []broker.TopicPartition{tp("in", 2)}) {
				t.Errorf("told %+v", e)
			}
			want := broker.Identity{MemberID: x.MemberID, InstanceID: tc.instance, Generation: 3}
			if id, member := m.Identity(); !member || id != want {
				t.Errorf("identity %+v, %v", id, member)
			}
			ack := b.next()
			if ack.MemberEpoch != 3 || !cmp.Equal(owns(t, ack.StreamsGroupHeartbeatRequest), []int32{1, 2}) {
				t.Errorf("acknowledged with %+v", ack.StreamsGroupHeartbeatRequest)
			}
			answerTo(ack, 3)
			if got := b.leave(m, tc.stay); got.MemberEpoch != tc.epoch || got.MemberID != x.MemberID || got.Topology != nil {
				t.Errorf("left with %+v", got.StreamsGroupHeartbeatRequest)
			}
		})
	}
}

// Heartbeats go on while a revocation waits, and the brokers hear of it when it is done.
func TestStreamsMembership_revoke(t *testing.T) {
	b := startStreamsBroker(t)
	m := b.join(MembershipConfig{})
	answerTo(b.next(), 1, 0, 1)
	nextEvent(t, m)
	answerTo(b.next(), 1)    // the acknowledgement
	answerTo(b.next(), 1, 0) // 1 is to go
	e := nextEvent(t, m)
	if e.Kind != broker.Revoked || !cmp.Equal(partitionsOf(e.Tasks), []int32{1}) {
		t.Fatalf("told %+v", e)
	}
	for range 3 {
		x := b.next()
		if x.ActiveTasks != nil {
			t.Errorf("it says that it owns %v", owns(t, x.StreamsGroupHeartbeatRequest))
		}
		answerTo(x, 1)
	}
	e.Done()
	x := b.next()
	for ; x.ActiveTasks == nil; x = b.next() { // one was on its way
		answerTo(x, 1)
	}
	if got := owns(t, x.StreamsGroupHeartbeatRequest); !cmp.Equal(got, []int32{0}) {
		t.Errorf("it says that it owns %v", got)
	}
	answerTo(x, 2)
	if e := nextEvent(t, m); e.Kind != broker.Assigned || !cmp.Equal(partitionsOf(e.Tasks), []int32{0}) {
		t.Errorf("told %+v", e)
	}
}

// A revocation that is not answered in time is over, and that is said.
func TestStreamsMembership_revokedTooLate(t *testing.T) {
	b := startStreamsBroker(t)
	m := b.join(MembershipConfig{RevokeTimeout: 30 * time.Millisecond})
	answerTo(b.next(), 1, 0, 1)
	nextEvent(t, m)
	answerTo(b.next(), 1, 0)
	if e := nextEvent(t, m); e.Kind != broker.Revoked {
		t.Fatalf("told %+v", e)
	}
	x := b.next()
	for ; !cmp.Equal(owns(t, x.StreamsGroupHeartbeatRequest), []int32{0}); x = b.next() {
		answerTo(x, 1)
	}
	answerTo(x, 2)
	if e := nextEvent(t, m); e.Kind != broker.MembershipFail || !strings.Contains(e.Err.Error(), "1 tasks were not given up within 30ms") {
		t.Errorf("told %+v", e)
	}
}

// A member that another one has fenced takes its old life out of the group before it joins again.
func TestStreamsMembership_fenced(t *testing.T) {
	b := startStreamsBroker(t)
	m := b.join(MembershipConfig{})
	first := b.next()
	answerTo(first, 1, 0)
	nextEvent(t, m)
	refuseWith(b.next(), broker.CodeFencedMemberEpoch)
	if e := nextEvent(t, m); e.Kind != broker.MembershipFail || !errors.Is(e.Err, broker.CodeFencedMemberEpoch) {
		t.Errorf("told %+v", e)
	}
	if e := nextEvent(t, m); e.Kind != broker.Lost || e.Identity.MemberID != first.MemberID || !cmp.Equal(partitionsOf(e.Tasks), []int32{0}) {
		t.Errorf("told %+v", e)
	}
	x := b.next()
	if x.MemberID != first.MemberID || x.MemberEpoch != leaveEpoch {
		t.Errorf("after a fencing: %+v", x.StreamsGroupHeartbeatRequest)
	}
	answerTo(x, leaveEpoch)
	x = b.next()
	if x.MemberID == first.MemberID || x.MemberEpoch != 0 || x.Topology == nil {
		t.Errorf("it joins with %+v", x.StreamsGroupHeartbeatRequest)
	}
	answerTo(x, 2, 0)
	if e := nextEvent(t, m); e.Kind != broker.Assigned || e.Identity.MemberID != x.MemberID {
		t.Errorf("told %+v", e)
	}
}

// A static member that was killed finds its place taken by its last life: it is released, and the place taken up.
func TestStreamsMembership_takesItsPlace(t *testing.T) {
	b := startStreamsBroker(t)
	old := kmsg.NewStreamsGroupDescribeResponseGroupMember()
	old.MemberID, old.InstanceID, old.MemberEpoch = "old", kmsg.StringPtr("one"), 5
	old.ClientTags = []kmsg.StreamsGroupDescribeResponseGroupMemberClientTag{{Key: topologyTag, Value: "s"}}
	b.members(old)
	m := b.join(MembershipConfig{InstanceID: "one"})
	refuseWith(b.next(), broker.CodeUnreleasedInstanceID)
	x := b.next()
	if x.MemberID != "old" || x.MemberEpoch != stayEpoch || *x.InstanceID != "one" {
		t.Errorf("the place is taken with %+v", x.StreamsGroupHeartbeatRequest)
	}
	answerTo(x, stayEpoch)
	x = b.next()
	if x.MemberEpoch != 0 || x.MemberID == "old" {
		t.Errorf("it joins with %+v", x.StreamsGroupHeartbeatRequest)
	}
	answerTo(x, 5, 0)
	if e := nextEvent(t, m); e.Kind != broker.Assigned {
		t.Errorf("told %+v", e)
	}
}

// A lost answer may have held an assignment, which is not told again: it is asked for.
func TestStreamsMembership_lostAnswer(t *testing.T) {
	b := startStreamsBroker(t)
	m := b.join(MembershipConfig{})
	first := b.next()
	answerTo(first, 1, 0)
	nextEvent(t, m)
	answerTo(b.next(), 1)
	me := kmsg.NewStreamsGroupDescribeResponseGroupMember()
	me.MemberID, me.MemberEpoch, me.Assignment.ActiveTasks = first.MemberID, 2, taskIDs(sub0(0, 3))
	b.members(me)
	b.next().answer <- nil
	x := b.next()
	if got := owns(t, x.StreamsGroupHeartbeatRequest); x.MemberEpoch != 1 || !cmp.Equal(got, []int32{0}) {
		t.Errorf("after a lost answer: epoch %d, it owns %v", x.MemberEpoch, got)
	}
	answerTo(x, 2) // says nothing of tasks
	for {
		e := nextEvent(t, m)
		if e.Kind == broker.MembershipFail {
			continue // the lost answer
		}
		if e.Kind != broker.Assigned || !cmp.Equal(partitionsOf(e.Tasks), []int32{0, 3}) || e.Identity.Generation != 2 {
			t.Errorf("told %+v", e)
		}
		return
	}
}

// The coordinator is looked for again when it has moved.
func TestStreamsMembership_coordinatorMoves(t *testing.T) {
	b := startStreamsBroker(t)
	m := b.join(MembershipConfig{})
	found := make(chan struct{}, 10)
	b.c.ControlKey(kmsg.FindCoordinator.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.c.KeepControl()
		found <- struct{}{}
		return nil, nil, false
	})
	answerTo(b.next(), 1, 0)
	nextEvent(t, m)
	for len(found) > 0 {
		<-found
	}
	refuseWith(b.next(), broker.CodeNotCoordinator)
	x := b.next()
	if x.MemberEpoch != 1 || len(found) == 0 {
		t.Errorf("epoch %d, the coordinator was asked for %d times", x.MemberEpoch, len(found))
	}
	answerTo(x, 1)
}

// Who is in the group is looked at before it is joined: brokers let everybody in who reads the same topics.
func TestStreamsMembership_members(t *testing.T) {
	member := func(tags ...kmsg.StreamsGroupDescribeResponseGroupMemberClientTag) kmsg.StreamsGroupDescribeResponseGroupMember {
		m := kmsg.NewStreamsGroupDescribeResponseGroupMember()
		m.MemberID, m.ClientID, m.MemberEpoch, m.ClientTags = "java", "java-streams", 5, tags
		return m
	}
	for _, tc := range []struct {
		name   string
		member kmsg.StreamsGroupDescribeResponseGroupMember
		want   error
		says   string
	}{
		{"another program", member(), broker.ErrMixedGroup, "java-streams"},
		{"another topology", member(kmsg.StreamsGroupDescribeResponseGroupMemberClientTag{Key: topologyTag, Value: "t"}), broker.ErrTopologyMismatch, "topology s here, t on java-streams"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := startStreamsBroker(t)
			b.members(tc.member)
			m := b.join(MembershipConfig{})
			if e := nextEvent(t, m); e.Kind != broker.MembershipFail || !errors.Is(e.Err, tc.want) || !strings.Contains(e.Err.Error(), tc.says) {
				t.Errorf("told %+v", e)
			}
			info, err := newAdmin(t, b.cfg).Group(testCtx(t), "app")
			protocol := protocolName
			if tc.want == broker.ErrMixedGroup {
				protocol = ""
			}
			if err != nil || info.ProtocolType != "streams" || info.Protocol != protocol || len(info.Members) != 1 {
				t.Errorf("described as %+v, %v", info, err)
			}
			if x := b.leave(m, false); x.MemberEpoch != leaveEpoch {
				t.Errorf("left with %+v", x.StreamsGroupHeartbeatRequest)
			}
		})
	}
}

// Asking all members to stop is told with the next heartbeat, which comes at once.
func TestStreamsMembership_stopAll(t *testing.T) {
	b := startStreamsBroker(t)
	m := b.join(MembershipConfig{})
	x := b.next()
	if x.ShutdownApplication {
		t.Error("it joins to stop all")
	}
	answerTo(x, 1, 0)
	nextEvent(t, m)
	m.StopAll("no reason")
	for x = b.next(); !x.ShutdownApplication; x = b.next() {
		answerTo(x, 1)
	}
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.MemberEpoch, resp.Status = 1, []kmsg.StreamsGroupHeartbeatResponseStatus{{StatusCode: statusShutdown, StatusDetail: x.MemberID + " asks"}}
	x.answer <- resp
	if e := nextEvent(t, m); e.Kind != broker.MembershipFail || !errors.Is(e.Err, broker.ErrApplicationStopped) || !strings.Contains(e.Err.Error(), x.MemberID) {
		t.Errorf("told %+v", e)
	}
}

// Leaving ends with its context, at any moment; so does a member that never subscribed.
func TestStreamsMembership_leaveWithoutAnAnswer(t *testing.T) {
	b := startStreamsBroker(t)
	m := b.join(MembershipConfig{})
	b.next() // is not answered
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := m.Leave(ctx, false); err == nil {
		t.Error("it says that it has left")
	}
	idle, err := NewStreamsMembership(b.cfg, MembershipConfig{Group: "app"})
	if err != nil {
		t.Fatal(err)
	}
	if err := idle.Leave(t.Context(), false); err != nil {
		t.Error(err)
	}
}

func TestCheckStreams(t *testing.T) {
	_, cfg := startCluster(t)
	if err := CheckStreams(testCtx(t), cfg); !errors.Is(err, broker.ErrGroupProtocol) || !strings.Contains(err.Error(), "group.protocol=classic") {
		t.Errorf("brokers without the protocol: %v", err)
	}
	if err := CheckStreams(testCtx(t), startStreamsBroker(t).cfg); err != nil {
		t.Errorf("brokers with the protocol: %v", err)
	}
}
