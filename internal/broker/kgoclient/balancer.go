package kgoclient

import (
	"cmp"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// balancer is the group's assignor. It gives out tasks; the partitions stand in the assignment as well, so that tools that
// describe groups show them.
//
// It tells franz-go of no partition: the client then has nothing to fetch, no committed offsets to look up and nothing to
// revoke by itself, and Membership alone keeps the books of what is owned.
type balancer struct{ m *Membership }

var _ kgo.GroupBalancer = balancer{}

func (balancer) ProtocolName() string { return protocolName }

// IsCooperative keeps franz-go from ending everything before each join.
func (balancer) IsCooperative() bool { return true }

// JoinGroupMetadata says what this member reads, owns and has stored.
func (b balancer) JoinGroupMetadata([]string, map[string][]int32, int32) []byte {
	topology, data := b.m.joining()
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version = 1
	meta.Topics = topicsOf(topology)
	meta.UserData = data.encode()
	return meta.AppendTo(nil)
}

// ParseSyncAssignment takes what the leader gave.
func (b balancer) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	return nil, b.m.synced(assignment)
}

// MemberBalancer is called on the leader with everybody's metadata.
func (b balancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	g := &groupBalance{assign: b.m.cfg.Assign, topology: b.m.subscribed(), leader: b.m.memberID(), members: members}
	if b.m.cfg.Lags {
		g.ends = b.m.stateEnds
	}
	if b.m.cfg.Racks {
		g.racks = b.m.replicaRacks
	}
	g.writers = writersOf(members)
	b.m.lead(g.writers)
	topics := make(map[string]struct{})
	for _, t := range topicsOf(g.topology) {
		topics[t] = struct{}{}
	}
	return g, topics, nil
}

func topicsOf(t broker.GroupTopology) []string {
	var topics []string
	for _, s := range t.Subtopologies {
		topics = append(topics, s.Topics...)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// groupBalance is one round of the leader.
type groupBalance struct {
	assign   broker.Assignor
	topology broker.GroupTopology // the leader's own
	leader   string
	members  []kmsg.JoinGroupResponseMember
	writers  []string // transactional ids of all of them
	// ends asks where changelogs end; nil if the assignor does not go by it.
	ends func(logs, inputs []broker.TopicPartition) map[broker.TopicPartition]int64
	// racks asks in which racks the replicas of topics are; nil if the assignor does not go by it.
	racks func(topics []string) map[broker.TopicPartition][]string
}

// Balance gives tasks to all members whose topology is the leader's and tells the others why they get none.
func (g *groupBalance) Balance(partitions map[string]int32) kgo.IntoSyncAssignment {
	status := make(map[string]assignmentStatus, len(g.members))
	var members []broker.GroupMember
	refused := make(map[string][]broker.TaskID)
	var stopAll string
	allKnow := true
	known := make(map[string]int) // topic -> how many of those members read it
	for _, jm := range g.members {
		meta := kmsg.NewConsumerMemberMetadata()
		err := meta.ReadFrom(jm.ProtocolMetadata)
		var data memberData
		if err == nil {
			data, err = decodeMemberData(meta.UserData)
		}
		stopAll = cmp.Or(stopAll, data.StopAll)
		allKnow = allKnow && data.StopAll != ""
		switch {
		case err != nil:
			status[jm.MemberID] = statusUnreadable
			continue
		case data.Signature != g.topology.Signature:
			status[jm.MemberID] = statusMismatch
			continue
		}
		status[jm.MemberID] = statusOK
		members = append(members, broker.GroupMember{
			ID: jm.MemberID, ProcessID: data.ProcessID.String(), Generation: data.Generation, Owned: data.Owned, Stored: data.Stored, Refused: data.Refused,
			Standbys: data.Standbys, Positions: data.Positions, Rack: data.Rack, Tags: data.Tags,
		})
		if len(data.Refused) > 0 {
			refused[jm.MemberID] = data.Refused
		}
		slices.Sort(meta.Topics)
		for _, t := range slices.Compact(meta.Topics) {
			known[t]++
		}
	}
	// Under a pattern one member may have seen a new topic before another. It waits for the last one, which will join again
	// when it sees the topic too.
	tasks := g.tasks(func(topic string) int32 {
		if known[topic] < len(members) {
			return 0
		}
		return partitions[topic]
	})
	g.findEnds(tasks)
	g.findRacks(tasks)
	inputs := make(map[broker.TaskID][]broker.TopicPartition, len(tasks))
	for _, t := range tasks {
		inputs[t.ID] = t.Inputs
	}
	return &plan{g: g, status: status, round: g.assign(members, tasks), inputs: inputs, refused: refused, stopAll: stopAll, allKnow: allKnow && stopAll != ""}
}

// tasks lists the tasks of the leader's topology over the partitions that topics have.
func (g *groupBalance) tasks(partitions func(topic string) int32) []broker.GroupTask {
	var tasks []broker.GroupTask
	for _, s := range g.topology.Subtopologies {
		var most int32
		for _, t := range s.Topics {
			most = max(most, partitions(t))
		}
		for p := range most {
			task := broker.GroupTask{ID: broker.TaskID{Subtopology: s.ID, Partition: p}, Stateful: s.Stateful}
			for _, t := range s.Topics {
				if p < partitions(t) {
					task.Inputs = append(task.Inputs, broker.TopicPartition{Topic: t, Partition: p})
				}
			}
			broker.SortPartitions(task.Inputs)
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// findRacks asks once where the replicas are of what tasks read and restore from.
func (g *groupBalance) findRacks(tasks []broker.GroupTask) {
	if g.racks == nil || len(tasks) == 0 {
		return
	}
	var topics []string
	logs := make(map[int][]string, len(g.topology.Subtopologies))
	for _, s := range g.topology.Subtopologies {
		topics = append(topics, s.Topics...)
		for _, c := range s.Changelogs {
			if !c.Input {
				logs[s.ID] = append(logs[s.ID], c.Topic)
				topics = append(topics, c.Topic)
			}
		}
	}
	slices.Sort(topics)
	racks := g.racks(slices.Compact(topics))
	for i := range tasks {
		t := &tasks[i]
		for _, tp := range t.Inputs {
			t.Racks = append(t.Racks, racks[tp])
		}
		for _, topic := range logs[t.ID.Subtopology] {
			t.Racks = append(t.Racks, racks[broker.TopicPartition{Topic: topic, Partition: t.ID.Partition}])
		}
	}
}

// findEnds asks once how far the state of all tasks could be.
func (g *groupBalance) findEnds(tasks []broker.GroupTask) {
	changelogs := make(map[int][]broker.GroupChangelog, len(g.topology.Subtopologies))
	for _, s := range g.topology.Subtopologies {
		changelogs[s.ID] = s.Changelogs
	}
	var logs, inputs []broker.TopicPartition
	for _, t := range tasks {
		for _, c := range changelogs[t.ID.Subtopology] {
			if tp := (broker.TopicPartition{Topic: c.Topic, Partition: t.ID.Partition}); c.Input {
				inputs = append(inputs, tp)
			} else {
				logs = append(logs, tp)
			}
		}
	}
	var ends map[broker.TopicPartition]int64
	if g.ends != nil {
		ends = g.ends(logs, inputs)
	}
	for i := range tasks {
		t := &tasks[i]
		for _, c := range changelogs[t.ID.Subtopology] {
			end, ok := ends[broker.TopicPartition{Topic: c.Topic, Partition: t.ID.Partition}]
			if !ok {
				t.End = -1
				break
			}
			t.End += end
		}
	}
}

// plan is the outcome of a round.
type plan struct {
	g      *groupBalance
	status map[string]assignmentStatus
	round  map[string]broker.GroupAssignment
	inputs map[broker.TaskID][]broker.TopicPartition
	// refused holds, by member id, what the members cannot run.
	refused map[string][]broker.TaskID
	// stopAll says who has asked for the end of all members and why; empty if nobody has.
	stopAll string
	allKnow bool // all members knew that when they joined
}

// IntoSyncAssignment encodes each member's part, in the order of member ids.
func (p *plan) IntoSyncAssignment() []kmsg.SyncGroupRequestGroupAssignment {
	var out []kmsg.SyncGroupRequestGroupAssignment
	for _, id := range slices.Sorted(maps.Keys(p.status)) {
		data := assignmentData{
			Status: p.status[id], Signature: p.g.topology.Signature, Leader: p.g.leader,
			Tasks: p.round[id].Tasks, GiveUp: p.round[id].GiveUp, Refused: p.refused[id], Writers: p.g.writers,
			Standbys: p.round[id].Standbys, Warmups: p.round[id].Warmups, StopAll: p.stopAll, AllKnow: p.allKnow,
		}
		if data.Status == statusMismatch {
			data.LeaderTopics, data.LeaderShape = topicsOf(p.g.topology), p.g.topology.Shape
		}
		var tps []broker.TopicPartition
		for _, t := range data.Tasks {
			tps = append(tps, p.inputs[t]...)
		}
		a := kmsg.NewConsumerMemberAssignment()
		a.Version = 1
		topics, partitions := byTopic(tps)
		for _, t := range topics {
			at := kmsg.NewConsumerMemberAssignmentTopic()
			at.Topic, at.Partitions = t, partitions[t]
			a.Topics = append(a.Topics, at)
		}
		a.UserData = data.encode()
		sa := kmsg.NewSyncGroupRequestGroupAssignment()
		sa.MemberID, sa.MemberAssignment = id, a.AppendTo(nil)
		out = append(out, sa)
	}
	return out
}

// inputsOf finds the partitions of tasks in an assignment, by the topics of their sub-topologies.
func inputsOf(topology broker.GroupTopology, tasks []broker.TaskID, a *kmsg.ConsumerMemberAssignment) map[broker.TaskID][]broker.TopicPartition {
	given := make(map[broker.TopicPartition]bool)
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			given[broker.TopicPartition{Topic: t.Topic, Partition: p}] = true
		}
	}
	topics := make(map[int][]string, len(topology.Subtopologies))
	for _, s := range topology.Subtopologies {
		topics[s.ID] = s.Topics
	}
	out := make(map[broker.TaskID][]broker.TopicPartition, len(tasks))
	for _, id := range tasks {
		var in []broker.TopicPartition
		for _, t := range topics[id.Subtopology] {
			if tp := (broker.TopicPartition{Topic: t, Partition: id.Partition}); given[tp] {
				in = append(in, tp)
			}
		}
		broker.SortPartitions(in)
		out[id] = in
	}
	return out
}
