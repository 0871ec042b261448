package kgoclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// MembershipConfig is the instance's part in its group.
type MembershipConfig struct {
	// Group is the application id.
	Group string
	// Assign gives out the tasks when this member leads the group. Required: assign.Round.
	Assign broker.Assignor
	// ProcessID names the instance's state directory, or is random without one.
	ProcessID uuid.UUID
	// InstanceID, if set, makes the member a static one: it keeps its tasks over a restart within SessionTimeout.
	// Kafka property: group.instance.id.
	InstanceID string
	// HeartbeatInterval is how often the member shows that it is there, and so how soon it learns of a rebalance. Default
	// 500 ms. Kafka property: heartbeat.interval.ms.
	HeartbeatInterval time.Duration
	// SessionTimeout is after how long without a heartbeat the group goes on without the member. Default 45 s. Kafka
	// property: session.timeout.ms.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the group waits in a rebalance for members that have tasks to give up. Default 60 s.
	// Kafka property: max.poll.interval.ms.
	RebalanceTimeout time.Duration
	// RevokeTimeout is how long a Revoked event may take; the tasks are given up then, done or not. Default
	// RebalanceTimeout.
	RevokeTimeout time.Duration
	// Copies, if set, says of which tasks the instance has state, on disk or as a standby, and how far it is: the sum of the
	// positions in the changelogs. It is called on a goroutine of the client whenever the member joins and must return quickly.
	Copies func() map[broker.TaskID]int64
	// Lags says that Assign goes by how far copies are behind: the leader asks where changelogs end before each round.
	Lags bool
	// Racks says that the assignor goes by the racks of replicas, which the leader then asks for.
	Racks bool
	// Rack and Tags say where the instance runs. Kafka properties: client.rack, client.tag.*.
	Rack string
	Tags map[string]string
	// Transactional is the transactional id under which the instance writes; empty if it does not write in transactions. The
	// leader of the group ends the open transaction of a member that is gone.
	Transactional string
	// Logger is told of that. May be nil.
	Logger *slog.Logger
}

func (c MembershipConfig) withDefaults() MembershipConfig {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	def(&c.HeartbeatInterval, 500*time.Millisecond)
	def(&c.SessionTimeout, 45*time.Second)
	def(&c.RebalanceTimeout, time.Minute)
	def(&c.RevokeTimeout, c.RebalanceTimeout)
	return c
}

// Membership implements broker.Membership with the classic group protocol.
//
// It is a franz-go group client without auto-commit that never has a partition assigned (see balancer), and so never
// fetches. What follows from an answered SyncGroup happens in franz-go's assigned callback, which runs once in each
// generation: tasks that are gone are revoked first, and that waits until the instance is done with them; then the whole
// assignment is told; and a member that has given up tasks joins again, so that others can have them. Heartbeats go on
// meanwhile, and the next join waits.
type Membership struct {
	cfg    MembershipConfig
	c      *conn
	events *eventQueue
	ctx    context.Context
	stop   context.CancelFunc
	tasks  sync.WaitGroup

	mu       sync.Mutex
	topology broker.GroupTopology
	identity broker.Identity
	valid    bool            // an assignment was taken under identity
	owned    []broker.TaskID // as told to the instance
	ownedGen int32           // generation of the assignment
	standbys []broker.TaskID // copies that the instance was told to keep or to make, sorted
	next     nextAssignment  // answered and not told yet
	nonce    uint64
	refused  []broker.TaskID // sorted
	writers  []string        // transactional ids of all members of the last round, as its leader told
	mismatch string          // the mismatch that was reported last
	reported string          // the error of the group that was reported since the last assignment
	stopAll  string          // who has asked for the end of all members and why
	asks     bool            // it was this one
	asked    bool            // a round has been answered in this life of the process
	leaving  bool
}

type nextAssignment struct {
	tasks []broker.TaskID
	// standbys and warmups are the copies to keep and to make.
	standbys, warmups []broker.TaskID
	inputs            map[broker.TaskID][]broker.TopicPartition
	again             bool  // join again when this is taken
	err               error // to report
	stopped           error // the application is to end
}

var _ broker.Membership = (*Membership)(nil)

// NewMembership opens a group client. It joins after Subscribe, as soon as one of the topics exists.
func NewMembership(cfg Config, mcfg MembershipConfig) (*Membership, error) {
	mcfg = mcfg.withDefaults()
	if mcfg.Group == "" {
		return nil, errors.New("millrace: no group: set application.id")
	}
	if mcfg.Assign == nil {
		return nil, errors.New("millrace: group " + mcfg.Group + ": no assignor")
	}
	m := &Membership{cfg: mcfg, events: newEventQueue(), ownedGen: -1}
	m.ctx, m.stop = context.WithCancel(context.Background())
	opts := []kgo.Opt{
		kgo.WithContext(m.ctx),
		kgo.ConsumerGroup(mcfg.Group),
		kgo.Balancers(balancer{m}),
		kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(mcfg.HeartbeatInterval),
		kgo.SessionTimeout(mcfg.SessionTimeout),
		kgo.RebalanceTimeout(mcfg.RebalanceTimeout),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { m.assigned() }),
		kgo.OnPartitionsRevoked(func(context.Context, *kgo.Client, map[string][]int32) {}), // nothing is revoked by partition
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) {}),    // the hook decides, it has the error
		kgo.WithHooks(manageHook{m}),
		// Longer than a session timeout nobody waits for an answer: the session may be over.
		kgo.RetryTimeoutFn(func(key int16) time.Duration {
			switch kmsg.Key(key) {
			case kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.LeaveGroup:
				return mcfg.SessionTimeout
			}
			return 0
		}),
	}
	if mcfg.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(mcfg.InstanceID))
	}
	c, err := connect(cfg, opts...)
	if err != nil {
		m.stop()
		m.events.close()
		return nil, err
	}
	m.mu.Lock()
	m.c = c
	m.mu.Unlock()
	m.tasks.Add(1)
	go func() {
		defer m.tasks.Done()
		for m.ctx.Err() == nil {
			m.c.PollFetches(m.ctx) // only errors of the group come this way; they are reported by the hook
		}
	}()
	return m, nil
}

// Events implements broker.Membership.
func (m *Membership) Events() <-chan broker.MembershipEvent { return m.events.out }

// Identity implements broker.Membership.
func (m *Membership) Identity() (broker.Identity, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.identity, m.valid && !m.leaving
}

// Subscribe implements broker.Membership.
func (m *Membership) Subscribe(t broker.GroupTopology) {
	m.mu.Lock()
	had, has := topicsOf(m.topology), topicsOf(t)
	same := m.topology.Signature == t.Signature && slices.EqualFunc(m.topology.Subtopologies, t.Subtopologies,
		func(a, b broker.Subtopology) bool {
			return a.ID == b.ID && a.Stateful == b.Stateful && slices.Equal(a.Topics, b.Topics)
		})
	if same || m.leaving {
		m.mu.Unlock()
		return
	}
	first := m.nonce == 0
	m.topology = t
	m.nonce++
	m.mu.Unlock()
	gone := slices.DeleteFunc(slices.Clone(had), func(x string) bool { return slices.Contains(has, x) })
	m.c.PauseFetchTopics(has...)
	m.c.AddConsumeTopics(has...)
	if !first { // otherwise the topics make it join
		m.c.ForceRebalance()
	}
	if len(gone) > 0 {
		m.tasks.Add(1)
		go func() { // waits for the client's metadata
			defer m.tasks.Done()
			m.c.PurgeTopicsFromConsuming(gone...)
		}()
	}
}

// Rejoin implements broker.Membership.
func (m *Membership) Rejoin() {
	m.mu.Lock()
	m.nonce++ // the coordinator starts a rebalance only for changed data
	m.mu.Unlock()
	m.c.ForceRebalance()
}

// stopAllMax bounds the text that goes to all members.
const stopAllMax = 1000

// StopAll implements broker.Membership.
func (m *Membership) StopAll(why string) {
	who := "member " + m.memberID()
	if host, err := os.Hostname(); err == nil {
		who += " on " + host
	}
	text := strings.ToValidUTF8((who + ": " + why)[:min(len(who)+2+len(why), stopAllMax)], "")
	m.mu.Lock()
	if m.leaving || m.stopAll != "" {
		m.mu.Unlock()
		return
	}
	m.stopAll, m.asks = text, true
	m.nonce++
	m.mu.Unlock()
	m.c.ForceRebalance()
}

// Refuse implements broker.Membership.
func (m *Membership) Refuse(tasks ...broker.TaskID) {
	tasks = slices.Clone(tasks)
	broker.SortTasks(tasks)
	tasks = slices.Compact(tasks)
	m.mu.Lock()
	if m.leaving || slices.Equal(tasks, m.refused) {
		m.mu.Unlock()
		return
	}
	m.refused = tasks
	m.owned = broker.WithoutTasks(m.owned, tasks)
	m.nonce++
	m.mu.Unlock()
	m.c.ForceRebalance()
}

// Leave implements broker.Membership. It sends no Revoked: give up and commit what is owned before. A member that is not
// static leaves even if it should stay, since nobody could take its place up again. It returns when the context ends at
// the latest, at any moment of a rebalance; the group then waits for the session timeout.
func (m *Membership) Leave(ctx context.Context, stay bool) error {
	m.mu.Lock()
	already := m.leaving
	m.leaving = true
	m.mu.Unlock()
	if already {
		return nil
	}
	m.events.close() // ends a revocation that waits, so that the client can end
	err := m.leaveGroup(ctx, stay && m.cfg.InstanceID != "")
	m.stop() // and with it a join that waits for others
	m.c.Close()
	m.tasks.Wait()
	return m.c.fail("group "+m.cfg.Group+": leave", err)
}

// leaveWait is how long franz-go gets to end its part in a group that the member has left already.
const leaveWait = 500 * time.Millisecond

// leaveGroup ends the client's part in the group and takes the member out. franz-go would wait for the answer to a join
// that is under way, which may take the whole rebalance timeout, and never takes a static member out; so the request is
// sent here. A broker then answers a join that waits.
func (m *Membership) leaveGroup(ctx context.Context, stay bool) error {
	before := m.memberID()
	over, cancelOver := context.WithCancel(ctx)
	cancelOver()
	_ = m.c.LeaveGroupContext(over) // begins to end it, does not wait, and sends nothing
	if stay {
		return nil
	}
	if err := m.takeOut(ctx, before); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	_ = m.c.LeaveGroupContext(wait)
	if after := m.memberID(); after != before {
		return m.takeOut(ctx, after) // it had just joined again
	}
	return nil
}

func (m *Membership) takeOut(ctx context.Context, memberID string) error {
	if memberID == "" {
		return nil
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = m.cfg.Group, memberID
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID, member.Reason = memberID, kmsg.StringPtr("the instance was closed")
	if m.cfg.InstanceID != "" {
		member.InstanceID = kmsg.StringPtr(m.cfg.InstanceID)
	}
	req.Members = append(req.Members, member)
	resp, err := req.RequestWith(ctx, m.c.Client)
	if err != nil {
		return err
	}
	err = codeErr(resp.ErrorCode)
	for _, r := range resp.Members {
		err = errors.Join(err, codeErr(r.ErrorCode))
	}
	if errors.Is(err, broker.CodeUnknownMemberID) {
		return nil // out already
	}
	return err
}

// subscribed is what the instance reads.
func (m *Membership) subscribed() broker.GroupTopology {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.topology
}

func (m *Membership) client() *conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.c
}

func (m *Membership) memberID() string {
	id, _ := m.client().GroupMetadata()
	return id
}

// joining gives the data for a JoinGroup. If the client has meanwhile dropped its member id (it does when the coordinator
// does not know it any more), what was owned is lost, here, before the client joins under another one.
func (m *Membership) joining() (broker.GroupTopology, memberData) {
	id := m.memberID()
	var copies map[broker.TaskID]int64
	if m.cfg.Copies != nil {
		copies = m.cfg.Copies()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.valid && id != m.identity.MemberID {
		m.lose()
	}
	d := memberData{
		ProcessID: m.cfg.ProcessID, Signature: m.topology.Signature, Generation: m.ownedGen, Owned: m.owned, Stored: slices.Collect(maps.Keys(copies)),
		Nonce: m.nonce, Refused: m.refused, Transactional: m.cfg.Transactional,
		Standbys: m.standbys, Positions: copies, Rack: m.cfg.Rack, Tags: m.cfg.Tags, StopAll: m.stopAll,
	}
	return m.topology, d
}

// lose tells that everything is gone. The lock is held.
func (m *Membership) lose() {
	if !m.valid {
		return
	}
	m.events.push(broker.MembershipEvent{Kind: broker.Lost, Tasks: m.owned, Identity: m.identity, Done: func() {}})
	m.valid, m.owned, m.ownedGen = false, nil, -1
}

// synced takes an answered SyncGroup: the identity is new from here on.
func (m *Membership) synced(assignment []byte) error {
	id, generation := m.client().GroupMetadata()
	var a kmsg.ConsumerMemberAssignment
	var data assignmentData
	var err error
	if len(assignment) > 0 {
		if err = a.ReadFrom(assignment); err == nil {
			data, err = decodeAssignmentData(a.UserData)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.valid && m.identity.MemberID != id {
		m.lose()
	}
	m.identity = broker.Identity{MemberID: id, InstanceID: m.cfg.InstanceID, Generation: generation}
	m.valid = true
	m.next = nextAssignment{}
	if err == nil && len(assignment) > 0 {
		m.writers = data.Writers
	}
	first := !m.asked
	m.asked = true
	switch {
	case err != nil:
		m.next.err = fmt.Errorf("millrace: group %s: assignment: %w", m.cfg.Group, err)
	case len(assignment) == 0:
		// The leader has nothing for this member (it left during the round, say).
	case data.Status == statusUnreadable:
		m.next.err = fmt.Errorf("millrace: group %s: leader %s cannot read this instance's data: upgrade it first", m.cfg.Group, data.Leader)
	case data.Status == statusMismatch:
		m.next.err = m.mismatchError(data)
	case data.Signature != m.topology.Signature:
		// A static member gets what it had before its restart, or before its topology changed: ask again.
		m.nonce++
		m.c.ForceRebalance()
	default:
		m.mismatch = ""
		m.next.tasks, m.next.standbys, m.next.warmups = data.Tasks, data.Standbys, data.Warmups
		m.next.inputs = inputsOf(m.topology, data.Tasks, &a)
		// A static member that was restarted has refused nothing, and is given what it had before.
		m.next.again = len(data.GiveUp) > 0 || len(broker.WithoutTasks(data.Refused, m.refused)) > 0
	}
	switch {
	case data.StopAll == "":
	case first:
		// A static member that was restarted gets what it had before, and that the application was to stop may be long past. If it
		// is to stop now, the next round says so too.
		m.nonce++
		m.next.again = true
	case m.asks && !data.AllKnow:
		// Somebody may have missed the round, since another one has left at once: it hears of it in a later one, as long as this
		// member is there.
	default:
		if m.stopAll == "" { // who has asked waits until everybody says that he knows
			m.stopAll = data.StopAll
			m.nonce++
			m.next.again = true
		}
		m.next.stopped = fmt.Errorf("millrace: group %s: %w: %s", m.cfg.Group, broker.ErrApplicationStopped, data.StopAll)
	}
	return nil
}

// mismatchError names the difference, once.
func (m *Membership) mismatchError(d assignmentData) error {
	if m.mismatch == d.Signature {
		return nil
	}
	m.mismatch = d.Signature
	ours := topicsOf(m.topology)
	detail := fmt.Sprintf("this instance reads %s, the leader %s", strings.Join(ours, ", "), strings.Join(d.LeaderTopics, ", "))
	if slices.Equal(ours, d.LeaderTopics) {
		detail = "both read " + strings.Join(ours, ", ") + ", but process them differently"
	}
	if d.LeaderShape != "" {
		if here, there := linesOnlyIn(m.topology.Shape, d.LeaderShape), linesOnlyIn(d.LeaderShape, m.topology.Shape); here != "" || there != "" {
			detail = fmt.Sprintf("only here: %s; only on the leader: %s", cmp.Or(here, "nothing"), cmp.Or(there, "nothing"))
		}
	}
	return fmt.Errorf("millrace: group %s: %w: topology %s here, %s on the leader %s: %s; give one of the two another application.id, or run the same program on all instances",
		m.cfg.Group, broker.ErrTopologyMismatch, m.topology.Signature, d.Signature, d.Leader, detail)
}

// linesOnlyIn lists the lines of one shape that the other does not have.
func linesOnlyIn(a, b string) string {
	other := strings.Split(b, "\n")
	var only []string
	for line := range strings.SplitSeq(a, "\n") {
		if !slices.Contains(other, line) && !slices.Contains(only, strings.TrimSpace(line)) {
			only = append(only, strings.TrimSpace(line))
		}
	}
	return strings.Join(only, ", ")
}

// assigned runs once in each generation, after synced.
func (m *Membership) assigned() {
	m.mu.Lock()
	if m.leaving {
		m.mu.Unlock()
		return
	}
	next := m.next
	var gone []broker.TaskID
	for _, t := range m.owned {
		if !slices.Contains(next.tasks, t) {
			gone = append(gone, t)
		}
	}
	id := m.identity
	m.mu.Unlock()

	if next.stopped != nil {
		m.events.push(broker.MembershipEvent{Kind: broker.MembershipFail, Identity: id, Err: next.stopped, Done: func() {}})
	}
	if len(gone) > 0 {
		m.revoke(gone, id)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaving {
		return
	}
	if taken := broker.WithoutTasks(next.tasks, m.refused); len(taken) < len(next.tasks) {
		// Refused after the member had joined: the leader learns it in the next round.
		next.tasks, next.again = taken, true
		next.inputs = maps.Clone(next.inputs)
		maps.DeleteFunc(next.inputs, func(t broker.TaskID, _ []broker.TopicPartition) bool { return !slices.Contains(taken, t) })
	}
	m.owned, m.ownedGen, m.reported = next.tasks, id.Generation, ""
	m.standbys = slices.Concat(next.standbys, next.warmups)
	broker.SortTasks(m.standbys)
	if next.err != nil {
		m.events.push(broker.MembershipEvent{Kind: broker.MembershipFail, Identity: id, Err: next.err, Done: func() {}})
	}
	m.events.push(broker.MembershipEvent{
		Kind: broker.Assigned, Tasks: next.tasks, Standbys: next.standbys, Warmups: next.warmups, Inputs: next.inputs, Identity: id, Done: func() {},
	})
	if len(gone) > 0 || next.again {
		m.c.ForceRebalance() // others wait for these tasks
	}
}

// revoke waits until the instance has given up tasks.
func (m *Membership) revoke(tasks []broker.TaskID, id broker.Identity) {
	done := make(chan struct{})
	m.events.push(broker.MembershipEvent{Kind: broker.Revoked, Tasks: tasks, Identity: id, Done: sync.OnceFunc(func() { close(done) })})
	t := time.NewTimer(m.cfg.RevokeTimeout)
	defer t.Stop()
	select {
	case <-done:
	case <-m.events.closed:
	case <-t.C:
		m.events.push(broker.MembershipEvent{
			Kind: broker.MembershipFail, Identity: id, Done: func() {},
			Err: fmt.Errorf("millrace: group %s: %d tasks were not given up within %v of their revocation: others take them over now", m.cfg.Group, len(tasks), m.cfg.RevokeTimeout),
		})
	}
}

// manageHook hears of the errors that end a session.
type manageHook struct{ m *Membership }

var _ kgo.HookGroupManageError = manageHook{}

func (h manageHook) OnGroupManageError(err error) { h.m.failed(err) }

// failed hears of an error that has ended franz-go's session with the coordinator. The client joins again by itself, under
// the same member id.
//
// If the coordinator has refused the member, everything is lost. If it only could not be reached, or is moving, nothing is
// decided: a broker that restarts still knows the member. It shows when the join is answered, or refused and the member id
// dropped (see joining). Until then commits are the coordinator's to judge.
func (m *Membership) failed(err error) {
	c := m.client()
	cause := c.cause(err)
	if errors.Is(cause, broker.CodeInconsistentGroupProtocol) {
		cause = m.mixed(c)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaving {
		return
	}
	id := m.identity
	var code broker.Code
	if refused := errors.As(cause, &code) && !code.Retriable() || errors.Is(cause, broker.ErrMixedGroup); refused {
		m.lose()
	}
	err = fmt.Errorf("millrace: group %s: %w", m.cfg.Group, cause)
	if err.Error() == m.reported {
		return // still the same
	}
	m.reported = err.Error()
	m.events.push(broker.MembershipEvent{Kind: broker.MembershipFail, Identity: id, Err: err, Done: func() {}})
}

// mixed says who is in the group that does not speak our protocol.
func (m *Membership) mixed(c *conn) error {
	ctx, cancel := context.WithTimeout(m.ctx, c.cfg.RequestTimeout)
	defer cancel()
	info, err := c.describeGroup(ctx, m.cfg.Group)
	if err != nil {
		return fmt.Errorf("%w: who they are could not be found out: %w", broker.ErrMixedGroup, err)
	}
	return fmt.Errorf("%w that use the assignor %q and not %q: %s; stop them first, a group cannot be shared with another program or with Kafka Streams",
		broker.ErrMixedGroup, info.Protocol, protocolName, strings.Join(info.Members, ", "))
}
