package kgoclient

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// noTags leaves out of a comparison the fields that brokers of later versions may send.
var noTags = cmp.Comparer(func(kmsg.Tags, kmsg.Tags) bool { return true })

// scripted is a streamsMember whose brokers are the test: no request is sent, and no time passes.
type scripted struct {
	*streamsMember
	t    *testing.T
	told []broker.MembershipEvent
	log  bytes.Buffer
}

func (s *scripted) push(e broker.MembershipEvent) { s.told = append(s.told, e) }

func newScripted(t *testing.T, cfg MembershipConfig) *scripted {
	s := &scripted{t: t}
	cfg.Group, cfg.Logger = "app", slog.New(slog.NewTextHandler(&s.log, nil))
	lives := 0
	s.streamsMember = &streamsMember{
		cfg: cfg.withDefaults(), events: s, partitions: map[string]int32{"in": 4},
		newID: func() string { lives++; return fmt.Sprintf("life-%d", lives) },
	}
	s.topology = reads("s", []string{"in"})
	s.begin()
	return s
}

// beat sends a heartbeat and takes the answer, which is made by the request.
func (s *scripted) beat(epoch int32, tasks ...int32) *kmsg.StreamsGroupHeartbeatRequest {
	s.t.Helper()
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.Status, resp.MemberEpoch, resp.HeartbeatIntervalMillis = []kmsg.StreamsGroupHeartbeatResponseStatus{}, epoch, 5000
	if tasks != nil {
		resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = taskIDs(sub0(tasks...)), taskIDs(nil), taskIDs(nil)
	}
	return s.answer(resp)
}

func (s *scripted) answer(resp *kmsg.StreamsGroupHeartbeatResponse) *kmsg.StreamsGroupHeartbeatRequest {
	s.t.Helper()
	req := s.request(false)
	if err := s.succeeded(resp); err != nil {
		s.t.Fatal(err)
	}
	s.looked = true
	for s.reconcile() && s.revoking == nil {
	}
	return req
}

// events drains what was told, in short.
func (s *scripted) events() []string {
	var out []string
	for _, e := range s.told {
		switch e.Kind {
		case broker.Assigned:
			out = append(out, fmt.Sprintf("assigned %v @%d", partitionsOf(e.Tasks), e.Identity.Generation))
		case broker.Lost:
			out = append(out, fmt.Sprintf("lost %v %s", partitionsOf(e.Tasks), e.Identity.MemberID))
		case broker.MembershipFail:
			out = append(out, "fail")
		}
	}
	s.told = nil
	return out
}

func sub0(partitions ...int32) (tasks []broker.TaskID) {
	for _, p := range partitions {
		tasks = append(tasks, broker.TaskID{Partition: p})
	}
	return tasks
}

func partitionsOf(tasks []broker.TaskID) (ps []int32) {
	for _, t := range tasks {
		ps = append(ps, t.Partition)
	}
	return ps
}

func (s *scripted) want(what string, want ...string) {
	s.t.Helper()
	if d := cmp.Diff(want, s.events()); d != "" {
		s.t.Errorf("%s: told, -want +got:\n%s", what, d)
	}
}

// owns is what a request says of active tasks, nil if nothing.
func owns(t *testing.T, req *kmsg.StreamsGroupHeartbeatRequest) []int32 {
	t.Helper()
	if req.ActiveTasks == nil {
		return nil
	}
	tasks, err := tasksOf(req.ActiveTasks)
	if err != nil {
		t.Fatal(err)
	}
	return append([]int32{}, partitionsOf(tasks)...)
}

func (s *scripted) owns(what string, req *kmsg.StreamsGroupHeartbeatRequest, want ...int32) {
	s.t.Helper()
	if d := cmp.Diff(want, owns(s.t, req)); d != "" {
		s.t.Errorf("%s: the request says that it owns, -want +got:\n%s", what, d)
	}
}

// A member joins with its topology and owns nothing; it says that it has tasks once it was told of them, and is silent about them after
// that.
func TestStreamsMember_join(t *testing.T) {
	s := newScripted(t, MembershipConfig{InstanceID: "one", ProcessID: uuid.UUID{7}, Tags: map[string]string{"zone": "z"}, Rack: "r", RebalanceTimeout: time.Minute,
		Copies: func() map[broker.TaskID]int64 { return map[broker.TaskID]int64{{Partition: 3}: 30, {Partition: 1}: 10} }})
	req := s.beat(2, 0, 1)
	if req.MemberEpoch != 0 || req.MemberID != "life-1" || req.Topology == nil || *req.ProcessID != (uuid.UUID{7}).String() || *req.InstanceID != "one" || *req.RackID != "r" ||
		req.RebalanceTimeoutMillis != 60_000 {
		t.Errorf("join: %+v", req)
	}
	if d := cmp.Diff([]kmsg.StreamsGroupHeartbeatRequestClientTag{{Key: "millrace.topology", Value: "s"}, {Key: "zone", Value: "z"}}, req.ClientTags, noTags); d != "" {
		t.Errorf("tags, -want +got:\n%s", d)
	}
	if d := cmp.Diff([]kmsg.TaskOffset{{SubtopologyID: "0", Partition: 1, Offset: 10}, {SubtopologyID: "0", Partition: 3, Offset: 30}}, req.TaskOffsets, noTags); d != "" {
		t.Errorf("positions, -want +got:\n%s", d)
	}
	s.owns("join", req, []int32{}...)
	if req.ActiveTasks == nil || req.StandbyTasks == nil || req.WarmupTasks == nil {
		t.Error("a join must say that nothing is owned")
	}
	if in := s.told[0].Inputs[broker.TaskID{Partition: 1}]; len(in) != 1 || in[0] != tp("in", 1) {
		t.Errorf("inputs: %v", in)
	}
	s.want("join", "assigned [0 1] @2")
	req = s.beat(2)
	if req.Topology != nil || req.ClientTags != nil || req.ProcessID != nil || req.TaskOffsets != nil || *req.InstanceID != "one" {
		t.Errorf("after the join: %+v", req)
	}
	s.owns("acknowledgement", req, 0, 1)
	s.owns("after it", s.beat(2))
	s.want("after it")
}

// Tasks that are gone are revoked, and the brokers hear that they are only when that is done.
func TestStreamsMember_revoke(t *testing.T) {
	s := newScripted(t, MembershipConfig{})
	s.beat(2, 0, 1, 2)
	s.beat(2)
	s.want("join", "assigned [0 1 2] @2")

	s.beat(2, 0)
	if d := cmp.Diff(sub0(1, 2), s.revoking); d != "" {
		t.Fatalf("revoked, -want +got:\n%s", d)
	}
	s.want("revoking")
	s.owns("while it is revoked", s.beat(2))
	s.beat(2, 0, 3) // another change meanwhile
	s.owns("while it is revoked", s.beat(2))
	s.given()
	for s.reconcile() {
	}
	s.want("given up", "assigned [0 3] @2")
	s.owns("acknowledgement", s.beat(3), 0, 3)
	s.owns("after it", s.beat(3))
	s.want("another epoch with the same tasks")
	if id := s.identity(); id != (broker.Identity{MemberID: "life-1", Generation: 3}) {
		t.Errorf("identity %+v", id)
	}
}

// While the brokers wait for something, the instance is told nothing; an assignment of nothing is one.
func TestStreamsMember_delayed(t *testing.T) {
	s := newScripted(t, MembershipConfig{})
	status := func(code int8) *kmsg.StreamsGroupHeartbeatResponse {
		resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
		resp.MemberEpoch = 1
		resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = taskIDs(nil), taskIDs(nil), taskIDs(nil)
		resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{{StatusCode: code, StatusDetail: "detail"}}
		return resp
	}
	s.answer(status(statusDelayed))
	if !s.waits {
		t.Error("it must ask again soon")
	}
	s.answer(status(statusMissingInternal))
	if !s.waits || s.valid {
		t.Error("internal topics are made: it waits, and was told nothing")
	}
	s.want("waiting")
	s.beat(1)
	s.want("nothing for this one", "assigned [] @1")
	if s.waits {
		t.Error("it does not wait any more")
	}
}

// What the brokers say of the group becomes a line of the log, an error, or the end.
func TestStreamsMember_statuses(t *testing.T) {
	for _, tc := range []struct {
		name       string
		code       int8
		told       bool
		err, log   string
		is         error
		dead, full bool // full: before any assignment too
	}{
		{name: "stale topology", code: statusStaleTopology, log: "newer topology than this instance"},
		{name: "missing tags", code: statusMissingTags, log: "client.tag"},
		{name: "unknown", code: 99, log: "STATUS_99"},
		{name: "missing source", code: statusMissingSources, told: true, err: "source topics are missing", is: broker.ErrUnknownTopic},
		{name: "partitions", code: statusWronglyPartitioned, told: true, err: "numbers of partitions: detail"},
		{name: "partitions at the start", code: statusWronglyPartitioned, told: true, err: "numbers of partitions: detail", is: broker.ErrGroupProtocol, dead: true, full: true},
		{name: "shutdown", code: statusShutdown, told: true, err: "asked for the whole application to stop: detail", is: broker.ErrApplicationStopped, dead: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScripted(t, MembershipConfig{})
			if !tc.full {
				s.beat(2, 0)
				s.beat(2)
				s.events()
			}
			resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
			resp.MemberEpoch, resp.Status = 2, []kmsg.StreamsGroupHeartbeatResponseStatus{{StatusCode: tc.code, StatusDetail: "detail"}}
			s.answer(resp)
			s.answer(resp) // the same again is not news
			var errs []error
			for _, e := range s.told {
				errs = append(errs, e.Err)
			}
			if got := len(errs) == 1; got != tc.told || s.dead != tc.dead {
				t.Fatalf("told %v, dead %v", errs, s.dead)
			}
			if tc.told && (!strings.Contains(errs[0].Error(), tc.err) || !strings.HasPrefix(errs[0].Error(), "millrace: group app: ") || tc.is != nil && !errors.Is(errs[0], tc.is)) {
				t.Errorf("error: %v", errs[0])
			}
			if n := strings.Count(s.log.String(), tc.log); tc.log != "" && n != 1 {
				t.Errorf("said %d times: %s", n, s.log.String())
			}
			if !s.dead && !tc.full && !slices.Equal(s.held.active, sub0(0)) {
				t.Errorf("it goes on with what it has, and has %v", s.held.active)
			}
			s.beat(2)
			if (tc.log != "" || tc.told) && !strings.Contains(s.log.String(), "do not say any more") {
				t.Errorf("that it is over is not said: %s", s.log.String())
			}
		})
	}
}

// A member that the brokers do not know any more has lost everything and is another one from then on.
func TestStreamsMember_fenced(t *testing.T) {
	for _, tc := range []struct {
		code   broker.Code
		next   course
		behind []string
	}{
		{broker.CodeUnknownMemberID, joinAnew, nil},
		{broker.CodeGroupIDNotFound, joinAnew, nil},
		{broker.CodeFencedMemberEpoch, joinFenced, []string{"life-1"}},
	} {
		t.Run(tc.code.Error(), func(t *testing.T) {
			s := newScripted(t, MembershipConfig{})
			s.beat(5, 0, 1)
			s.events()
			s.beat(5, 0)
			if s.revoking == nil {
				t.Fatal("nothing is revoked")
			}
			s.request(false)
			if next := s.failed(fmt.Errorf("%w: text", tc.code)); next != tc.next || !slices.Equal(s.behind, tc.behind) {
				t.Errorf("course %d, behind %v", next, s.behind)
			}
			s.want("fenced", "fail", "lost [0 1] life-1")
			if s.valid || s.epoch != 0 || s.revoking != nil {
				t.Error("something of the last life is left")
			}
			if req := s.beat(7, 1); req.MemberID != "life-2" || req.MemberEpoch != 0 || len(owns(t, req)) != 0 || req.Topology == nil {
				t.Errorf("it joins with %+v", req)
			}
			s.want("joined again", "assigned [1] @7")
		})
	}
}

// After an answer was lost, what it may have said is found out before anything is done: brokers say an assignment once.
func TestStreamsMember_lostAnswer(t *testing.T) {
	s := newScripted(t, MembershipConfig{})
	s.beat(2, 0)
	s.events()
	s.request(false)
	if next := s.failed(errors.New("no answer")); next != askElsewhere {
		t.Errorf("course %d", next)
	}
	req := s.beat(3)
	s.owns("after a lost answer", req, 0)
	s.want("not known what is assigned", "fail")
	if !s.unsure {
		t.Fatal("it is sure")
	}
	if err := s.take(taskIDs(sub0(0, 1)), taskIDs(nil), taskIDs(nil)); err != nil {
		t.Fatal(err)
	}
	s.looked = true
	for s.reconcile() {
	}
	s.want("found out", "assigned [0 1] @3")
	s.failed(errors.New("no answer"))
	s.beat(4, 1) // an answer that says it itself
	if s.unsure || !slices.Equal(s.revoking, sub0(0)) {
		t.Errorf("unsure %v, revoking %v", s.unsure, s.revoking)
	}
}

// A refused task stays the member's for the brokers, and is not told to the instance until it takes its word back. If it goes to another
// member meanwhile, nothing is revoked.
func TestStreamsMember_refuse(t *testing.T) {
	s := newScripted(t, MembershipConfig{})
	s.beat(2, 0, 1)
	s.beat(2)
	s.events()
	s.refused, s.asked = sub0(1), 1
	s.owns("refused", s.beat(2))
	if s.told[0].After != 1 {
		t.Errorf("after %d asks", s.told[0].After)
	}
	s.want("refused", "assigned [0] @2")
	s.refused, s.asked = nil, 2
	s.beat(2)
	if s.told[0].After != 2 {
		t.Errorf("after %d asks", s.told[0].After)
	}
	s.want("taken back", "assigned [0 1] @2")

	s.refused, s.asked = sub0(1), 3
	s.beat(2, 0)
	if s.revoking != nil {
		t.Errorf("revoking %v", s.revoking)
	}
	s.want("refused and gone", "assigned [0] @2")
	s.owns("refused and gone", s.beat(3), 0)
}

// An ask is answered by an Assigned event even if nothing has changed, once, and only by an answer to a request that followed it.
func TestStreamsMember_rejoin(t *testing.T) {
	s := newScripted(t, MembershipConfig{})
	s.beat(2, 0)
	s.events()
	s.request(false)
	s.asked++ // while a request is under way
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.MemberEpoch = 2
	if err := s.succeeded(resp); err != nil {
		t.Fatal(err)
	}
	if s.reconcile() {
		t.Error("an earlier request answers it")
	}
	s.beat(2)
	s.want("asked", "assigned [0] @2")
	s.beat(2)
	s.want("once")
}

// The partitions of tasks are looked up again in each epoch, and a change is told.
func TestStreamsMember_inputs(t *testing.T) {
	s := newScripted(t, MembershipConfig{})
	s.topology = reads("s", []string{"a", "b"})
	s.partitions = map[string]int32{"a": 2, "b": 1}
	s.beat(2, 0, 1)
	if d := cmp.Diff(map[broker.TaskID][]broker.TopicPartition{{Partition: 0}: {tp("a", 0), tp("b", 0)}, {Partition: 1}: {tp("a", 1)}}, s.told[0].Inputs); d != "" {
		t.Errorf("inputs, -want +got:\n%s", d)
	}
	s.beat(2)
	s.events()
	s.partitions = map[string]int32{"a": 2, "b": 2}
	s.beat(3)
	if len(s.told) != 1 || len(s.told[0].Inputs[broker.TaskID{Partition: 1}]) != 2 {
		t.Errorf("told %+v", s.told)
	}
	for _, known := range []map[string]int32{{"a": 2}, {"a": 1, "b": 1}} {
		s.partitions = known
		if s.readable() {
			t.Errorf("the tasks of the target cannot be read with %v", known)
		}
	}
}

// What the brokers refuse for good says what to do, and ends the membership.
func TestStreamsMember_refusals(t *testing.T) {
	for _, tc := range []struct {
		err  error
		is   error
		says string
	}{
		{fmt.Errorf("%w: Topology updates are not supported yet.", broker.CodeInvalidRequest), broker.ErrTopologyMismatch, "this instance reads in, the group other; brokers keep"},
		{broker.CodeStreamsInvalidTopology, broker.ErrTopologyMismatch, "delete the group"},
		{broker.CodeStreamsTopologyFenced, broker.ErrTopologyMismatch, "STREAMS_TOPOLOGY_FENCED"},
		{broker.CodeStreamsInvalidTopologyEpoch, broker.ErrTopologyMismatch, "application.id"},
		{broker.CodeInvalidRequest, broker.ErrGroupProtocol, "INVALID_REQUEST"},
		{broker.CodeUnsupportedVersion, broker.ErrGroupProtocol, "Kafka 4.2"},
		{broker.CodeGroupMaxSizeReached, broker.ErrGroupProtocol, "group.streams.max.size"},
		{broker.CodeGroupIDNotFound, broker.ErrMixedGroup, "group of another kind"},
		{broker.CodeGroupAuthorizationFailed, broker.ErrUnauthorized, "GROUP_AUTHORIZATION_FAILED"},
		{broker.CodeTopicAuthorizationFailed, broker.ErrUnauthorized, "internal topics"},
		{broker.CodeFencedInstanceID, broker.CodeFencedInstanceID, "FENCED_INSTANCE_ID"},
	} {
		s := newScripted(t, MembershipConfig{})
		s.request(false)
		s.theirs = []string{"other"}
		if next := s.failed(tc.err); next != giveUp || !s.dead || len(s.told) != 1 {
			t.Errorf("%v: course %d, dead %v, told %v", tc.err, next, s.dead, s.told)
			continue
		}
		if err := s.told[0].Err; !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) || !strings.HasPrefix(err.Error(), "millrace: group app: ") {
			t.Errorf("%v: told %v", tc.err, err)
		}
	}
	for code, want := range map[broker.Code]course{
		broker.CodeNotCoordinator: askElsewhere, broker.CodeCoordinatorNotAvailable: askElsewhere, broker.CodeCoordinatorLoadInProgress: askAgain,
		broker.CodeUnknownServerError: askAgain, broker.CodeUnreleasedInstanceID: takePlace,
	} {
		s := newScripted(t, MembershipConfig{})
		s.beat(2, 0)
		s.request(false)
		if next := s.failed(code); next != want || s.dead || !s.valid {
			t.Errorf("%v: course %d, dead %v", code, next, s.dead)
		}
	}
}

// Sub-topologies that this program does not number are another program's.
func TestStreamsMember_foreignSubtopology(t *testing.T) {
	s := newScripted(t, MembershipConfig{})
	s.request(false)
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.MemberEpoch, resp.ActiveTasks = 1, []kmsg.TaskIDs{{SubtopologyID: "main", Partitions: []int32{0}}}
	if err := s.succeeded(resp); !errors.Is(err, broker.ErrTopologyMismatch) {
		t.Errorf("error %v", err)
	}
}

func TestTopologyRequest(t *testing.T) {
	got := topologyRequest(broker.GroupTopology{Subtopologies: []broker.Subtopology{
		{ID: 10, Told: broker.ToldTopics{Sources: []string{"z"}}},
		{ID: 2, Told: broker.ToldTopics{
			Sources: []string{"b", "a"}, Sinks: []string{"app-r2"},
			Repartitions: []broker.TopicSpec{{Name: "app-r1", Partitions: 3, ReplicationFactor: -1, Configs: map[string]string{"y": "2", "x": "1"}}},
			Changelogs:   []broker.TopicSpec{{Name: "app-c", ReplicationFactor: -1, Configs: map[string]string{"cleanup.policy": "compact"}}},
			Copartitions: [][]string{{"app-r1", "b"}},
		}},
	}})
	want := &kmsg.StreamsGroupHeartbeatRequestTopology{Subtopologies: []kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{
		{SubtopologyID: "10", SourceTopics: []string{"z"}},
		{
			SubtopologyID: "2", SourceTopics: []string{"a", "b"}, RepartitionSinkTopics: []string{"app-r2"},
			RepartitionSourceTopics: []kmsg.TopicInfo{{Topic: "app-r1", NumPartitions: 3, ReplicationFactor: -1, Configs: []kmsg.TopicInfoConfig{{Key: "x", Value: "1"}, {Key: "y", Value: "2"}}}},
			StateChangelogTopics:    []kmsg.TopicInfo{{Topic: "app-c", ReplicationFactor: -1, Configs: []kmsg.TopicInfoConfig{{Key: "cleanup.policy", Value: "compact"}}}},
			CopartitionGroups:       []kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup{{SourceTopics: []int16{1}, RepartitionSourceTopics: []int16{0}}},
		},
	}}
	if d := cmp.Diff(want, got, noTags); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
