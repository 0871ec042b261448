package brokertest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
)

// Group is one consumer group as its coordinator sees it. The test plays the coordinator and the leader: it says who gets
// which task.
type Group struct {
	c          *Cluster
	name       string
	generation int32
	state      groupState
	members    map[string]*Membership // those that the coordinator knows
	committed  map[broker.TopicPartition]broker.OffsetMeta
	pendingTxn map[broker.TopicPartition]bool
	info       *broker.GroupInfo // overrides, for groups of other clients
	joined     int
}

type groupState uint8

const (
	groupEmpty groupState = iota
	groupStable
	groupPreparing  // members are asked to join: commits of the old generation still pass
	groupCompleting // the new generation exists, its assignment does not: commits get REBALANCE_IN_PROGRESS
)

func (s groupState) String() string {
	return [...]string{"Empty", "Stable", "PreparingRebalance", "CompletingRebalance"}[s]
}

// Group returns a group, which exists from then on.
func (c *Cluster) Group(name string) *Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.group(name)
}

func (c *Cluster) group(name string) *Group {
	g := c.groups[name]
	if g == nil {
		g = &Group{
			c: c, name: name,
			members:    make(map[string]*Membership),
			committed:  make(map[broker.TopicPartition]broker.OffsetMeta),
			pendingTxn: make(map[broker.TopicPartition]bool),
		}
		c.groups[name] = g
	}
	return g
}

// Commit sets a committed offset, whoever is in the group.
func (g *Group) Commit(tp broker.TopicPartition, o broker.OffsetMeta) {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	g.committed[tp] = o
}

// Committed is the committed offset of a partition; -1 without one.
func (g *Group) Committed(tp broker.TopicPartition) broker.OffsetMeta {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	return g.committedOrNone(tp)
}

func (g *Group) committedOrNone(tp broker.TopicPartition) broker.OffsetMeta {
	if o, ok := g.committed[tp]; ok {
		return o
	}
	return broker.OffsetMeta{Offset: -1, Epoch: -1}
}

// SetPending says whether a transaction that has not ended holds an offset of a partition: CommittedOffsets gets
// UNSTABLE_OFFSET_COMMIT for it (or waits, in a Blocking cluster).
func (g *Group) SetPending(tp broker.TopicPartition, pending bool) {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	if pending {
		g.pendingTxn[tp] = true
	} else {
		delete(g.pendingTxn, tp)
	}
	g.c.changed.Broadcast()
}

// pending reports whether a transaction that has not ended holds an offset of a partition.
func (g *Group) pending(tp broker.TopicPartition) bool {
	if g.pendingTxn[tp] {
		return true
	}
	for _, x := range g.c.txns {
		if _, ok := x.offsets[g.name][tp]; ok {
			return true
		}
	}
	return false
}

// SetInfo makes the cluster describe the group as given: one of other clients, say.
func (g *Group) SetInfo(info broker.GroupInfo) {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	g.info = &info
}

// Generation is the coordinator's.
func (g *Group) Generation() int32 {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	return g.generation
}

// BeginRebalance lets the coordinator ask all members to join again. Commits of the old generation still pass.
func (g *Group) BeginRebalance() {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	g.state = groupPreparing
}

// CompleteJoin makes the next generation. Until Sync its commits get REBALANCE_IN_PROGRESS, those of the old one
// ILLEGAL_GENERATION.
func (g *Group) CompleteJoin() {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	g.generation++
	g.state = groupCompleting
}

// Sync hands out the tasks of the new generation. Members take the generation, and get a Revoked event for tasks that they
// had and lose, then an Assigned event. A task given to one member while another still has it is the test's own doing:
// to move a task as the real group does, give it to nobody first.
func (g *Group) Sync(assignment map[*Membership][]broker.TaskID) {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	g.state = groupStable
	ids := slices.Sorted(maps.Keys(g.members))
	for _, id := range ids {
		m := g.members[id]
		m.identity.Generation = g.generation
		m.valid = true
		m.assign(assignment[m])
	}
	g.c.changed.Broadcast()
}

// Assign is a whole rebalance: BeginRebalance, CompleteJoin, Sync.
func (g *Group) Assign(assignment map[*Membership][]broker.TaskID) {
	g.BeginRebalance()
	g.CompleteJoin()
	g.Sync(assignment)
}

// Expire removes a member at the coordinator, as a session timeout does. The member does not know: its commits get
// UNKNOWN_MEMBER_ID. Lose tells it.
func (g *Group) Expire(m *Membership) {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	for id, x := range g.members {
		if x == m {
			delete(g.members, id)
		}
	}
	if len(g.members) == 0 {
		g.state = groupEmpty
	}
}

// check answers a commit of an identity: 0 if it passes.
func (g *Group) check(id broker.Identity) broker.Code {
	if id.MemberID == "" && id.Generation < 0 {
		if g.state == groupEmpty || len(g.members) == 0 {
			return 0 // an unfenced commit into an empty group
		}
		return broker.CodeUnknownMemberID
	}
	m := g.members[id.MemberID]
	switch {
	case m == nil && g.replaced(id):
		return broker.CodeFencedInstanceID
	case m == nil:
		return broker.CodeUnknownMemberID
	case id.InstanceID != "" && m.identity.InstanceID != id.InstanceID:
		return broker.CodeFencedInstanceID
	case id.Generation != g.generation:
		return broker.CodeIllegalGeneration
	case g.state == groupCompleting:
		return broker.CodeRebalanceInProgress
	}
	return 0
}

// replaced tells whether another member has the instance id of an identity.
func (g *Group) replaced(id broker.Identity) bool {
	for _, m := range g.members {
		if id.InstanceID != "" && m.identity.InstanceID == id.InstanceID {
			return true
		}
	}
	return false
}

// Replace makes a new member in the place of a static one, as the coordinator does for a process that comes back under its instance id
// before its session is over: it has the tasks and the generation of the other one at once, which is fenced from then on.
func (g *Group) Replace(old *Membership) *Membership {
	m := g.Join(Static(old.identity.InstanceID))
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	delete(g.members, old.identity.MemberID)
	m.clientID, m.identity.Generation, m.valid = old.clientID, old.identity.Generation, true
	m.standbys, m.warmups, m.topology = old.standbys, old.warmups, old.topology
	tasks := old.owned
	old.owned = nil
	m.assign(tasks)
	return m
}

// commit gives put the offsets that the coordinator takes from an identity; the error names the others.
func (g *Group) commit(id broker.Identity, offsets map[broker.TopicPartition]broker.OffsetMeta, put func(broker.TopicPartition, broker.OffsetMeta)) error {
	refused := make(map[broker.TopicPartition]broker.Code)
	code := g.check(id)
	for tp, o := range offsets {
		switch {
		case code != 0:
			refused[tp] = code
		case g.c.log(tp) == nil:
			refused[tp] = broker.CodeUnknownTopicOrPartition
		case len(o.Metadata) > 4096:
			refused[tp] = broker.CodeOffsetMetadataTooLarge
		default:
			put(tp, o)
		}
	}
	if len(refused) > 0 {
		return &broker.CommitError{Group: g.name, Identity: id, Partitions: refused}
	}
	return nil
}

// JoinOption describes a member.
type JoinOption func(*Membership)

// Static gives the member an instance id.
func Static(instanceID string) JoinOption {
	return func(m *Membership) { m.identity.InstanceID = instanceID }
}

// ClientID is what the group's description calls the member.
func ClientID(id string) JoinOption { return func(m *Membership) { m.clientID = id } }

// Join makes a new member, which has no identity before the first Sync.
func (g *Group) Join(opts ...JoinOption) *Membership {
	g.c.mu.Lock()
	defer g.c.mu.Unlock()
	m := &Membership{g: g, events: make(chan broker.MembershipEvent, 1024), clientID: "client"}
	for _, o := range opts {
		o(m)
	}
	g.enter(m)
	return m
}

// enter gives the member a new id at the coordinator.
func (g *Group) enter(m *Membership) {
	g.joined++
	m.identity.MemberID = fmt.Sprintf("%s-member-%d", g.name, g.joined)
	g.members[m.identity.MemberID] = m
	if g.state == groupEmpty {
		g.state = groupPreparing
	}
}

// Membership implements broker.Membership.
type Membership struct {
	g          *Group
	clientID   string
	identity   broker.Identity
	valid      bool // Identity is known to the instance
	owned      []broker.TaskID
	standbys   []broker.TaskID
	warmups    []broker.TaskID
	topology   broker.GroupTopology
	subscribes int
	rejoins    int
	refused    []broker.TaskID
	refusals   int    // calls of Refuse that changed it
	stopAll    string // why the whole application is to stop
	left       bool
	stayed     bool
	events     chan broker.MembershipEvent
	waiting    []broker.MembershipEvent // behind a revocation that is not done
	revoking   bool
}

var _ broker.Membership = (*Membership)(nil)

// Events implements broker.Membership. What comes after a revocation is sent when its Done has been called.
func (m *Membership) Events() <-chan broker.MembershipEvent { return m.events }

// Identity implements broker.Membership.
func (m *Membership) Identity() (broker.Identity, bool) {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	return m.identity, m.valid
}

// Subscribe implements broker.Membership; it only notes the topology, from which Assigned events take their Inputs.
func (m *Membership) Subscribe(t broker.GroupTopology) {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	m.topology = t
	m.subscribes++
}

// Topology is what was last subscribed, and how often.
func (m *Membership) Topology() (t broker.GroupTopology, times int) {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	return m.topology, m.subscribes
}

// Rejoin implements broker.Membership; it only counts.
func (m *Membership) Rejoin() {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	m.rejoins++
}

// Rejoins counts the calls of Rejoin.
func (m *Membership) Rejoins() int {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	return m.rejoins
}

// Refuse implements broker.Membership: the member has none of the tasks from then on, and Sync gives it none.
func (m *Membership) Refuse(tasks ...broker.TaskID) {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	tasks = slices.Clone(tasks)
	broker.SortTasks(tasks)
	tasks = slices.Compact(tasks)
	if m.left || slices.Equal(tasks, m.refused) {
		return
	}
	m.refused = tasks
	m.refusals++
	m.owned = m.accepted(m.owned)
}

// accepted leaves out what the member refuses.
func (m *Membership) accepted(tasks []broker.TaskID) []broker.TaskID {
	return slices.DeleteFunc(slices.Clone(tasks), func(t broker.TaskID) bool { return slices.Contains(m.refused, t) })
}

// Refused lists what the member refuses, and how often it has changed its mind.
func (m *Membership) Refused() (tasks []broker.TaskID, times int) {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	return slices.Clone(m.refused), m.refusals
}

// StopAll implements broker.Membership; it only notes why. Fail tells members.
func (m *Membership) StopAll(why string) {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	m.stopAll = why
}

// StopsAll tells why the member has asked for the end of the application; empty if it has not.
func (m *Membership) StopsAll() string {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	return m.stopAll
}

// Leave implements broker.Membership.
func (m *Membership) Leave(_ context.Context, stay bool) error {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	if m.left {
		return nil
	}
	m.left, m.stayed, m.valid = true, stay, false
	if !stay || m.identity.InstanceID == "" {
		delete(m.g.members, m.identity.MemberID)
	}
	if len(m.g.members) == 0 {
		m.g.state = groupEmpty
	}
	m.waiting = nil
	close(m.events)
	return nil
}

// Left tells whether Leave was called, and whether with stay.
func (m *Membership) Left() (left, stay bool) {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	return m.left, m.stayed
}

// Owned lists the tasks that the last assignment gave.
func (m *Membership) Owned() []broker.TaskID {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	return slices.Clone(m.owned)
}

// Lose tells the member that it is out of the group: it gets a Lost event with all its tasks. Expire it first to make the
// coordinator agree. With rejoin it has a new member id at the coordinator afterwards and waits for a Sync.
func (m *Membership) Lose(rejoin bool) {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	delete(m.g.members, m.identity.MemberID)
	m.push(broker.MembershipEvent{Kind: broker.Lost, Tasks: m.owned, Identity: m.identity})
	m.owned, m.valid = nil, false
	if rejoin {
		m.g.enter(m)
	}
}

// SilentlyRejoin gives the member another member id without any event, as a client can do after an expulsion: Identity
// shows it, in the coordinator's present generation, and the old one is unknown there.
func (m *Membership) SilentlyRejoin() {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	delete(m.g.members, m.identity.MemberID)
	m.g.enter(m)
	m.g.generation++
	m.g.state = groupStable
	m.identity.Generation = m.g.generation
	m.valid = true
}

// Fail sends an error event.
func (m *Membership) Fail(err error) {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	m.push(broker.MembershipEvent{Kind: broker.MembershipFail, Identity: m.identity, Err: err})
}

// Revoke takes tasks from the member outside a rebalance of the script: a Revoked event alone.
func (m *Membership) Revoke(tasks ...broker.TaskID) {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	m.revoke(tasks)
}

func (m *Membership) revoke(tasks []broker.TaskID) {
	m.owned = slices.DeleteFunc(m.owned, func(t broker.TaskID) bool { return slices.Contains(tasks, t) })
	m.push(broker.MembershipEvent{Kind: broker.Revoked, Tasks: tasks, Identity: m.identity})
}

func (m *Membership) assign(tasks []broker.TaskID) {
	tasks = m.accepted(tasks)
	broker.SortTasks(tasks)
	var gone []broker.TaskID
	for _, t := range m.owned {
		if !slices.Contains(tasks, t) {
			gone = append(gone, t)
		}
	}
	if len(gone) > 0 {
		m.revoke(gone)
	}
	m.owned = tasks
	m.push(broker.MembershipEvent{
		Kind: broker.Assigned, Tasks: tasks, Standbys: broker.WithoutTasks(m.standbys, tasks), Warmups: broker.WithoutTasks(m.warmups, tasks),
		Inputs: m.inputsOf(tasks), Identity: m.identity,
	})
}

// Copies says what the member is asked to keep and to make from the next Sync on, as far as it does not get the tasks.
func (m *Membership) Copies(standbys, warmups []broker.TaskID) {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	m.standbys, m.warmups = slices.Clone(standbys), slices.Clone(warmups)
}

// inputsOf finds the partitions of tasks by the subscribed topology.
func (m *Membership) inputsOf(tasks []broker.TaskID) map[broker.TaskID][]broker.TopicPartition {
	in := make(map[broker.TaskID][]broker.TopicPartition, len(tasks))
	for _, id := range tasks {
		for _, s := range m.topology.Subtopologies {
			if s.ID != id.Subtopology {
				continue
			}
			for _, topic := range s.Topics {
				if tp := TP(topic, id.Partition); m.g.c.log(tp) != nil {
					in[id] = append(in[id], tp)
				}
			}
		}
		broker.SortPartitions(in[id])
	}
	return in
}

// push sends an event, or queues it behind a revocation. The cluster is locked.
func (m *Membership) push(e broker.MembershipEvent) {
	if m.left {
		return
	}
	e.Tasks = slices.Clone(e.Tasks)
	e.Done = func() {}
	if m.revoking {
		m.waiting = append(m.waiting, e)
		return
	}
	m.send(e)
}

func (m *Membership) send(e broker.MembershipEvent) {
	if e.Kind == broker.Revoked {
		m.revoking = true
		called := false
		e.Done = func() {
			m.g.c.mu.Lock()
			defer m.g.c.mu.Unlock()
			if called {
				return
			}
			called = true
			m.revoking = false
			for len(m.waiting) > 0 && !m.revoking && !m.left {
				next := m.waiting[0]
				m.waiting = m.waiting[1:]
				m.send(next)
			}
		}
	}
	select {
	case m.events <- e:
	default:
		panic("brokertest: 1024 membership events that nobody reads")
	}
}

// Revoking reports whether a revocation waits for its Done.
func (m *Membership) Revoking() bool {
	m.g.c.mu.Lock()
	defer m.g.c.mu.Unlock()
	return m.revoking
}
