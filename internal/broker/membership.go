package broker

import "context"

// Membership is the instance's part in its group. It only tells which tasks the group gave it; reading the partitions is
// the Fetcher's business.
type Membership interface {
	// Events delivers assigned, revoked, lost and errors in order, and is closed after Leave. Revocation blocks inside the client until Done of the
	// event is called (or its deadline passes), so that the instance can commit first.
	Events() <-chan MembershipEvent
	// Identity is the current one; ok is false before the first assignment and after a loss.
	Identity() (id Identity, ok bool)
	// Subscribe replaces what the instance reads: at start, and again when a pattern matches other topics. It asks for a
	// new assignment if anything changed.
	Subscribe(t GroupTopology)
	// Rejoin asks for a new assignment (the member's own data has changed). An Assigned event follows, even if it says what
	// the last one said, unless the member is lost.
	Rejoin()
	// Refuse says which tasks the member cannot run for now; it replaces what was said before. Those of them that the member
	// has it gives up at once, without a Revoked: commit first. It asks for a new assignment if that changes anything: the
	// leader gives the tasks to other members, or to nobody, until the member takes its word back. No Assigned event holds a
	// refused task. Where brokers assign the tasks there is no such word: the tasks stay with the member, and wait.
	Refuse(tasks ...TaskID)
	// StopAll asks all members of the group to stop, for a reason that they are told as far as the protocol carries texts. It
	// returns at once. Each of them, this one too, gets a MembershipFail event with an ErrApplicationStopped that names who has
	// asked, as soon as it takes part in a round with this member; this one when all have heard, so stay until it has come.
	StopAll(why string)
	// Leave leaves the group and closes; stay leaves the member's place to be taken up again by the same instance id
	// until the session times out.
	Leave(ctx context.Context, stay bool) error
}

// MembershipKind tells the kinds of MembershipEvent apart.
type MembershipKind uint8

const (
	Assigned       MembershipKind = iota // Tasks is the whole new assignment
	Revoked                              // Tasks are to be given up, after a commit
	Lost                                 // everything is gone already, nothing may be committed
	MembershipFail                       // Err is fatal or needs reporting
)

// TaskID is a task as the group knows it.
type TaskID struct {
	Subtopology int
	Partition   int32
}

// GroupTopology is what the members of a group must agree on.
type GroupTopology struct {
	// Signature stands for the whole topology (not for the topics that a pattern matches at the moment). Members with
	// different signatures do not work together: those that differ from the leader get an error and no task.
	Signature string
	// Shape is what Signature is a hash of, a line for each part, so that two members can tell what differs.
	Shape         string
	Subtopologies []Subtopology
}

// Subtopology is a connected part of a topology. It has as many tasks as its topic with the most partitions has
// partitions; task n reads partition n of each topic that has one.
type Subtopology struct {
	ID       int
	Topics   []string // user topics and repartition topics that it reads; no topic may be in two subtopologies
	Stateful bool
	// Changelogs are the topics from which the state of its tasks is restored, task n from partition n of each.
	Changelogs []GroupChangelog
	// Told is what brokers are told of it where they assign the tasks: under the streams group protocol.
	Told ToldTopics
}

// ToldTopics is how a sub-topology is described to brokers that assign its tasks. It must not depend on what the cluster
// holds at the moment, since a group keeps the description of its first member.
type ToldTopics struct {
	Sources []string // topics of the user that it reads
	// Repartitions are the repartition topics that it reads. Partitions is 0 where the number follows from what is written
	// to the topic.
	Repartitions []TopicSpec
	Sinks        []string    // repartition topics that it writes
	Changelogs   []TopicSpec // that are made for its stores; Partitions is 0
	// Copartitions are groups among Sources and Repartitions that have the same number of partitions by demand.
	Copartitions [][]string
}

// GroupChangelog is a topic from which state is restored.
type GroupChangelog struct {
	Topic string
	// Input says that it is a topic that the tasks read: what counts for the state ends at the committed offset.
	Input bool
}

// Assignor decides, on the member that leads the group, who runs which task: one round in which everybody takes part. It
// must be pure: the same members and tasks in any order give the same result. All members have the leader's topology; each
// of them has an entry in the result. A task must not be given to a member while another one present has it, nor to one that
// refuses it.
type Assignor func(members []GroupMember, tasks []GroupTask) map[string]GroupAssignment

// GroupMember is a member as the leader sees it.
type GroupMember struct {
	ID         string   // member id
	ProcessID  string   // names the state directory, and outlives restarts
	Generation int32    // in which Owned was given, -1 if the member has nothing
	Owned      []TaskID // what it runs now, by its own word
	Stored     []TaskID // whose state it has, on disk or as a copy, by its own word
	Refused    []TaskID // that it cannot run now, by its own word
	// Standbys are the tasks whose state it keeps level with their changelogs, by its own word.
	Standbys []TaskID
	// Positions say how far the state of tasks among Stored and Standbys is: the sum of the positions in the changelogs. It
	// may be unknown.
	Positions map[TaskID]int64
	Rack      string            // where it runs, as brokers name racks; empty if unknown
	Tags      map[string]string // what the user says about where it runs
}

// GroupTask is a task to be given out.
type GroupTask struct {
	ID       TaskID
	Inputs   []TopicPartition
	Stateful bool
	// End is the sum of the ends of the task's changelogs, to compare positions with; below 0 if it is unknown.
	End int64
	// Racks holds, for each partition that the task reads or restores from, the racks of its replicas.
	Racks [][]string
}

// GroupAssignment is a member's part of a round.
type GroupAssignment struct {
	Tasks []TaskID // to run
	// GiveUp are tasks that the member has and others wait for. It joins again when it has given them up.
	GiveUp []TaskID
	// Standbys are tasks whose state the member keeps level with their changelogs, to take them over at any time.
	Standbys []TaskID
	// Warmups are the same, of tasks that it is meant to get as soon as their state is level. It joins again then.
	Warmups []TaskID
}

// MembershipEvent is one message from a Membership.
type MembershipEvent struct {
	Kind  MembershipKind
	Tasks []TaskID // sorted
	// Standbys are, with Assigned, tasks of which the instance is to keep a copy; Warmups those of which it is to make one: it
	// calls Rejoin when the copy is level.
	Standbys, Warmups []TaskID
	// Inputs are the partitions that belong to each task, with Assigned. Under a pattern they may be fewer than the
	// instance's own view of the cluster: a topic that a member does not know yet is left out for all.
	Inputs map[TaskID][]TopicPartition
	// After, with Assigned, is how many calls of Rejoin and Refuse, counted together, the assignment takes into account. 0 if
	// that does not show but by a newer generation.
	After    uint64
	Identity Identity // with Assigned: under which the tasks were given; with Revoked: the newest known; with Lost: the old one
	Err      error
	Done     func() // never nil; must be called once the event has been dealt with
}
