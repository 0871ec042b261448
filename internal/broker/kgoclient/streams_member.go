package kgoclient

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// leaveEpoch and stayEpoch, as member epochs, say that a member leaves, and that a static one does so to come back.
const (
	leaveEpoch = -1
	stayEpoch  = -2
)

// reconciled is what a member has of an assignment, or is to have.
type reconciled struct {
	active, standby, warmup []broker.TaskID // sorted
}

func (r reconciled) equal(o reconciled) bool {
	return slices.Equal(r.active, o.active) && slices.Equal(r.standby, o.standby) && slices.Equal(r.warmup, o.warmup)
}

// streamsMember is what a member of a streams group knows of itself. It makes the requests and takes the answers, and leaves to
// StreamsMembership what takes time. Its methods are called with the lock of that held.
//
// The brokers tell what the member is to have (target), those tasks left out that another member has still to give up. What it
// has (held) comes nearer to it in steps: tasks that are gone are revoked first, then the whole is told to the instance. Only
// then do the brokers hear that it has them, or has them no more; and only a task that they have heard to be given up is given
// to another member.
type streamsMember struct {
	cfg    MembershipConfig
	events interface{ push(broker.MembershipEvent) }
	newID  func() string

	topology   broker.GroupTopology
	partitions map[string]int32 // of the topics that are read, as last looked up

	id    string // of this life as a member
	epoch int32  // 0: not joined
	// valid says that an assignment was told in this life; everything below but refused and the counts is of this life.
	valid    bool
	target   *reconciled // nil before the first one
	held     reconciled  // with the refused ones
	sent     *reconciled // what the brokers know to be held; nil: not known what they know
	sending  *reconciled // what the request under way tells of it
	revoking []broker.TaskID
	looked   bool // partitions are those that the target stands for
	unsure   bool // an answer was lost, which may have held a target that is not told again
	ready    bool // the brokers have assigned tasks, rather than waited for something
	toldOf   map[broker.TaskID][]broker.TopicPartition
	behind   []string // member ids of lives that the brokers may still take for alive

	refused  []broker.TaskID // sorted
	asked    uint64          // calls of Rejoin and Refuse
	asking   uint64          // of them, those that the request under way follows
	heard    uint64          // of them, those that an answered request has followed
	answered uint64          // of them, those that the last Assigned followed

	interval       time.Duration // between two heartbeats, as the brokers say
	offsetInterval time.Duration // between two reports of positions
	waits          bool          // the brokers are about to do something: ask again soon
	statuses       map[int8]string
	reported       string   // the error that was reported since the last success
	tries          int      // without success, in a row
	dead           bool     // refused for good
	theirs         []string // topics that the group reads, where it refuses this topology
	leaving        bool
	stopAll        bool // the application is asked to stop
}

// request makes the next heartbeat.
func (m *streamsMember) request(offsets bool) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.EndpointInformationEpoch = m.cfg.Group, m.id, m.epoch, -1
	req.InstanceID = m.instance()
	joining := m.epoch == 0
	if joining {
		req.Topology = topologyRequest(m.topology)
		req.RebalanceTimeoutMillis = int32(m.cfg.RebalanceTimeout.Milliseconds())
		process := m.cfg.ProcessID.String()
		req.ProcessID = &process
		if m.cfg.Rack != "" {
			req.RackID = &m.cfg.Rack
		}
		tags := maps.Clone(m.cfg.Tags)
		if tags == nil {
			tags = make(map[string]string, 1)
		}
		tags[topologyTag] = m.topology.Signature
		req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			req.ClientTags = append(req.ClientTags, kmsg.StreamsGroupHeartbeatRequestClientTag{Key: key, Value: tags[key]})
		}
	}
	m.sending = nil
	if joining || m.sent == nil || !m.sent.equal(m.held) {
		held := m.held
		m.sending = &held
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = taskIDs(m.held.active), taskIDs(m.held.standby), taskIDs(m.held.warmup)
	}
	if (joining || offsets) && m.cfg.Copies != nil {
		req.TaskOffsets = offsetsOf(m.cfg.Copies())
	}
	req.ShutdownApplication = m.stopAll
	m.asking = m.asked
	return req
}

// topologyTag is the client tag that holds the signature of a member's topology. Brokers compare the topics of members; what
// they do with them only members can.
const topologyTag = "millrace.topology"

func (m *streamsMember) instance() *string {
	if m.cfg.InstanceID == "" {
		return nil
	}
	return &m.cfg.InstanceID
}

func (m *streamsMember) identity() broker.Identity {
	return broker.Identity{MemberID: m.id, InstanceID: m.cfg.InstanceID, Generation: m.epoch}
}

// begin begins another life as a member, under another id: what was decided in the last one cannot be taken for this one's.
func (m *streamsMember) begin() {
	m.id, m.epoch, m.valid = m.newID(), 0, false
	m.target, m.held, m.sent, m.revoking = nil, reconciled{}, nil, nil
	m.looked, m.unsure, m.ready, m.toldOf, m.statuses = false, false, false, nil, nil
}

// lose tells that everything is gone and begins anew.
func (m *streamsMember) lose() {
	if m.valid {
		m.push(broker.Lost, broker.MembershipEvent{Tasks: broker.WithoutTasks(m.held.active, m.refused), Identity: m.identity()})
	}
	m.begin()
}

func (m *streamsMember) push(kind broker.MembershipKind, e broker.MembershipEvent) {
	e.Kind = kind
	if e.Done == nil {
		e.Done = func() {}
	}
	m.events.push(e)
}

// report tells an error, once while it is the same.
func (m *streamsMember) report(err error) {
	err = fmt.Errorf("millrace: group %s: %w", m.cfg.Group, err)
	if err.Error() == m.reported {
		return
	}
	m.reported = err.Error()
	m.push(broker.MembershipFail, broker.MembershipEvent{Identity: m.identity(), Err: err})
}

// refuse ends the membership: asking again would not help.
func (m *streamsMember) refuse(err error) {
	m.dead = true
	m.report(err)
}

// succeeded takes an answer without an error.
func (m *streamsMember) succeeded(resp *kmsg.StreamsGroupHeartbeatResponse) error {
	if resp.HeartbeatIntervalMillis > 0 {
		m.interval = time.Duration(resp.HeartbeatIntervalMillis) * time.Millisecond
	}
	m.offsetInterval = time.Duration(resp.TaskOffsetIntervalMillis) * time.Millisecond
	m.tries = 0
	m.heard = m.asking
	if m.sending != nil {
		m.sent = m.sending
	}
	joined := m.epoch == 0
	if resp.MemberEpoch != m.epoch {
		m.epoch, m.looked = resp.MemberEpoch, false
	}
	m.reported = ""
	if resp.Status != nil || joined {
		m.takeStatuses(resp.Status)
	}
	if resp.ActiveTasks == nil {
		return nil
	}
	return m.take(resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks)
}

// take takes a target.
func (m *streamsMember) take(active, standby, warmup []kmsg.TaskIDs) (err error) {
	var t reconciled
	for _, x := range []struct {
		to   *[]broker.TaskID
		from []kmsg.TaskIDs
	}{{&t.active, active}, {&t.standby, standby}, {&t.warmup, warmup}} {
		if *x.to, err = tasksOf(x.from); err != nil {
			return fmt.Errorf("%w: the group has sub-topologies that this program does not: %w", broker.ErrTopologyMismatch, err)
		}
	}
	m.target, m.looked, m.unsure = &t, false, false
	return nil
}

// reconcile takes the next step towards the target. It is false if there is none now.
func (m *streamsMember) reconcile() bool {
	if m.leaving || m.dead || m.epoch <= 0 || m.target == nil || !m.looked || m.unsure || m.revoking != nil {
		return false
	}
	t := *m.target
	if !m.valid && !m.ready && len(t.active)+len(t.standby)+len(t.warmup) == 0 {
		return false
	}
	if gone := broker.WithoutTasks(broker.WithoutTasks(m.held.active, t.active), m.refused); len(gone) > 0 {
		m.revoking = gone
		return true
	}
	inputs := m.inputs(broker.WithoutTasks(t.active, m.refused))
	if m.valid && t.equal(m.held) && m.heard == m.answered && maps.EqualFunc(inputs, m.toldOf, slices.Equal) {
		return false
	}
	m.held, m.toldOf, m.answered = t, inputs, m.heard
	m.valid = true
	m.push(broker.Assigned, broker.MembershipEvent{
		Tasks: broker.WithoutTasks(t.active, m.refused), Standbys: t.standby, Warmups: t.warmup, Inputs: inputs, After: m.answered, Identity: m.identity(),
	})
	return true
}

// given is called when the revocation under way is done.
func (m *streamsMember) given() {
	m.held.active = broker.WithoutTasks(m.held.active, m.revoking)
	m.revoking = nil
}

// inputs are the partitions of tasks, by what the cluster has of the topics.
func (m *streamsMember) inputs(tasks []broker.TaskID) map[broker.TaskID][]broker.TopicPartition {
	inputs := make(map[broker.TaskID][]broker.TopicPartition, len(tasks))
	for _, s := range m.topology.Subtopologies {
		for _, t := range tasks {
			if t.Subtopology != s.ID {
				continue
			}
			for _, topic := range s.Topics {
				if t.Partition < m.partitions[topic] {
					inputs[t] = append(inputs[t], broker.TopicPartition{Topic: topic, Partition: t.Partition})
				}
			}
		}
	}
	return inputs
}

// readable tells whether what is known of topics is enough for the target. The broker that was asked may not know yet of a topic, or
// of partitions, that the coordinator knows.
func (m *streamsMember) readable() bool {
	for _, s := range m.topology.Subtopologies {
		most := int32(0)
		for _, topic := range s.Topics {
			most = max(most, m.partitions[topic])
		}
		for _, t := range m.target.active {
			if t.Subtopology != s.ID {
				continue
			}
			if t.Partition >= most || slices.ContainsFunc(s.Topics, func(topic string) bool { return m.partitions[topic] == 0 }) {
				return false
			}
		}
	}
	return true
}

// course is what follows from the error of a heartbeat.
type course uint8

const (
	askAgain     course = iota // ask again
	askElsewhere               // find the coordinator, and ask again
	joinAnew                   // the member is not known any more: join as another one
	joinFenced                 // the member is known and another one goes under its id: give that up, and join as another one
	takePlace                  // another member has the instance id: take it
	giveUp                     // give up
)

// failed takes an answer with an error, or the want of one.
func (m *streamsMember) failed(err error) course {
	m.sent, m.unsure, m.tries = nil, true, m.tries+1
	var code broker.Code
	if !errors.As(err, &code) {
		m.report(err)
		return askElsewhere
	}
	switch {
	case code == broker.CodeCoordinatorNotAvailable || code == broker.CodeNotCoordinator:
		return askElsewhere
	case code == broker.CodeUnknownServerError:
		// Brokers answer so when a topic that was just made is not known everywhere yet.
		m.report(err)
		return askAgain
	case code.Retriable():
		return askAgain
	case code == broker.CodeUnknownMemberID, code == broker.CodeGroupIDNotFound && m.epoch > 0:
		m.report(err)
		m.lose()
		return joinAnew
	case code == broker.CodeFencedMemberEpoch:
		m.report(err)
		m.behind = append(m.behind, m.id)
		m.lose()
		return joinFenced
	case code == broker.CodeUnreleasedInstanceID:
		return takePlace
	case code == broker.CodeFencedInstanceID:
		m.lose()
		m.refuse(err)
		return giveUp
	case code == broker.CodeTopicAuthorizationFailed:
		m.refuse(fmt.Errorf("this principal may not describe a topic that the application reads, or may not have its internal topics made: %w", err))
		return giveUp
	case code == broker.CodeGroupIDNotFound:
		m.refuse(fmt.Errorf("%w: the group id belongs to a group of another kind (classic or consumer) that has members or cannot be taken over: stop them and wait for their session timeout, delete that group (its offsets go with it), or choose another application.id: %w",
			broker.ErrMixedGroup, err))
		return giveUp
	case code == broker.CodeUnsupportedVersion:
		m.refuse(fmt.Errorf("%w: %s: %w", broker.ErrGroupProtocol, unsupportedHint, err))
		return giveUp
	case code == broker.CodeGroupMaxSizeReached:
		m.refuse(fmt.Errorf("%w: the group is full: stop an instance, or raise group.streams.max.size of the brokers: %w", broker.ErrGroupProtocol, err))
		return giveUp
	case otherTopology(err):
		m.refuse(m.mismatch(err))
		return giveUp
	}
	if !errors.Is(err, broker.ErrUnauthorized) {
		err = fmt.Errorf("%w: %w", broker.ErrGroupProtocol, err)
	}
	m.refuse(err)
	return giveUp
}

// unsupportedHint says what a cluster needs for the streams group protocol.
const unsupportedHint = "the brokers do not offer the streams group protocol (KIP-1071): it takes Kafka 4.2 or later with the feature streams.version 1 (kafka-features.sh upgrade --feature streams.version=1) and without group.coordinator.rebalance.protocols, or with streams in it; until then set group.protocol=classic"

// otherTopology tells whether an error of a join says that the group has another topology.
func otherTopology(err error) bool {
	var code broker.Code
	if !errors.As(err, &code) {
		return false
	}
	switch code {
	case broker.CodeStreamsInvalidTopology, broker.CodeStreamsInvalidTopologyEpoch, broker.CodeStreamsTopologyFenced:
		return true
	case broker.CodeInvalidRequest: // what brokers of 4.4 say
		return strings.Contains(err.Error(), "opology")
	}
	return false
}

// mismatch says that brokers keep to the topology that the group has.
func (m *streamsMember) mismatch(err error) error {
	return fmt.Errorf("%w: %s; brokers keep to the topology that a group's first member had, for as long as the group exists: run the same program on all instances; for a changed one choose another application.id, or stop all instances and delete the group (kafka-streams-groups.sh --delete; its offsets go with it, so write them down first), or set group.protocol=classic: %w",
		broker.ErrTopologyMismatch, difference(topicsOf(m.topology), m.theirs), err)
}

func newMemberID() string { return uuid.NewString() }
