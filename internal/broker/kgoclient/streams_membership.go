package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// StreamsMembership implements broker.Membership with the streams group protocol (KIP-1071): brokers assign the tasks, and the
// member asks for its part with each heartbeat. streamsMember says how it gets there.
//
// One goroutine sends heartbeats, one after the other, at the interval that the brokers say, and at once when there is something
// to tell or to ask. They go on while a revocation waits for the instance.
//
// docs/adr/0025-brokers-that-assign-tasks.md says what differs from the classic protocol, and why.
type StreamsMembership struct {
	c    *conn
	meta *metadata
	q    *eventQueue
	ctx  context.Context
	stop context.CancelFunc
	kick chan struct{} // holds a token if a heartbeat is due at once
	done chan struct{} // the goroutine has ended

	mu     sync.Mutex
	m      streamsMember
	joined chan struct{} // closed by the first Subscribe

	node    int32 // the coordinator; -1 if it has to be found
	checked int32 // the epoch in which the other members were looked at, -1 none
}

var _ broker.Membership = (*StreamsMembership)(nil)

// NewStreamsMembership makes a member that joins after Subscribe. Of the configuration Assign, HeartbeatInterval, SessionTimeout,
// Lags and Transactional do not count: brokers decide what they stand for, or nobody.
func NewStreamsMembership(cfg Config, mcfg MembershipConfig) (*StreamsMembership, error) {
	mcfg = mcfg.withDefaults()
	if mcfg.Group == "" {
		return nil, errors.New("millrace: no group: set application.id")
	}
	c, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	s := &StreamsMembership{
		c: c, meta: newMetadata(c), q: newEventQueue(), kick: make(chan struct{}, 1), done: make(chan struct{}), joined: make(chan struct{}), node: -1, checked: -1,
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.m = streamsMember{cfg: mcfg, events: s.q, newID: newMemberID, interval: firstInterval}
	s.m.begin()
	go s.run()
	return s, nil
}

const (
	firstInterval = 3 * time.Second        // between heartbeats before the brokers have said one
	soon          = 500 * time.Millisecond // between heartbeats while brokers are about to do something
)

// Events implements broker.Membership.
func (s *StreamsMembership) Events() <-chan broker.MembershipEvent { return s.q.out }

// Identity implements broker.Membership.
func (s *StreamsMembership) Identity() (broker.Identity, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.identity(), s.m.valid && !s.m.leaving
}

// Subscribe implements broker.Membership. The group knows one topology for as long as it exists, so a later call only changes which
// partitions belong to tasks.
func (s *StreamsMembership) Subscribe(t broker.GroupTopology) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.m.topology.Subtopologies == nil && s.m.topology.Signature == ""
	s.m.topology, s.m.looked = t, false
	if first {
		close(s.joined)
	}
	s.beat()
}

// Rejoin implements broker.Membership: it asks at once, and tells what the answer comes to.
func (s *StreamsMembership) Rejoin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.asked++
	s.beat()
}

// Refuse implements broker.Membership. The protocol has no such word. The tasks stay this member's, and nobody runs them until it
// takes its word back or leaves; see docs/adr/0026-tasks-that-cannot-be-refused.md.
func (s *StreamsMembership) Refuse(tasks ...broker.TaskID) {
	tasks = slices.Clone(tasks)
	broker.SortTasks(tasks)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.refused = slices.Compact(tasks)
	s.m.asked++
	s.beat()
}

// StopAll implements broker.Membership. The brokers pass it on until the group is empty, and say which member it was; the reason
// stands in the log of this one only.
func (s *StreamsMembership) StopAll(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m.leaving || s.m.stopAll {
		return
	}
	s.m.stopAll = true
	s.m.cfg.Logger.Warn("all members of the group are asked to stop", "group", s.m.cfg.Group, "member", s.m.id, "reason", why)
	s.beat()
}

// beat makes a heartbeat go out now. The lock may be held.
func (s *StreamsMembership) beat() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// run sends heartbeats until the member leaves.
func (s *StreamsMembership) run() {
	defer close(s.done)
	select {
	case <-s.joined:
	case <-s.ctx.Done():
		return
	}
	r := &revocation{}
	defer r.end()
	offsets := time.NewTimer(0) // when positions are told next
	defer offsets.Stop()
	due := false
	for s.ctx.Err() == nil {
		select {
		case <-offsets.C:
			due = true
		default:
		}
		pause, sent := s.heartbeat(due)
		if sent && due {
			due = false
			s.mu.Lock()
			every := s.m.offsetInterval
			s.mu.Unlock()
			if every > 0 {
				offsets.Reset(every)
			}
		}
		if !s.follow(r, pause) {
			return
		}
	}
}

// follow takes the steps that are possible, and waits for the next heartbeat. It is false when the member is at its end.
func (s *StreamsMembership) follow(r *revocation, pause time.Duration) bool {
	next := time.NewTimer(pause)
	defer next.Stop()
	for {
		s.lookUp()
		if s.step(r) {
			return true // there is something to tell
		}
		select {
		case <-next.C:
			return true
		case <-s.kick:
			return true
		case <-r.over():
			s.revoked(r, true)
		case <-r.done:
			s.revoked(r, false)
		case <-s.ctx.Done():
			return false
		}
	}
}

// revocation is a Revoked event that waits for its answer.
type revocation struct {
	life  string // member id
	done  chan struct{}
	timer *time.Timer
}

func (r *revocation) over() <-chan time.Time {
	if r.timer == nil {
		return nil
	}
	return r.timer.C
}

func (r *revocation) end() {
	if r.timer != nil {
		r.timer.Stop()
	}
	*r = revocation{}
}

// step takes one step towards the target. It is true if the brokers are to hear of what the member has now.
func (s *StreamsMembership) step(r *revocation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.life != "" && r.life != s.m.id {
		r.end() // it was lost
	}
	for s.m.reconcile() {
		if s.m.revoking == nil {
			continue
		}
		done := make(chan struct{})
		*r = revocation{life: s.m.id, done: done, timer: time.NewTimer(s.m.cfg.RevokeTimeout)}
		s.m.push(broker.Revoked, broker.MembershipEvent{Tasks: s.m.revoking, Identity: s.m.identity(), Done: sync.OnceFunc(func() { close(done) })})
		break
	}
	return s.m.valid && s.m.sent != nil && !s.m.sent.equal(s.m.held)
}

// revoked goes on after a revocation, answered or not.
func (s *StreamsMembership) revoked(r *revocation, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.life == s.m.id && s.m.revoking != nil {
		if late {
			s.m.push(broker.MembershipFail, broker.MembershipEvent{
				Identity: s.m.identity(),
				Err:      fmt.Errorf("millrace: group %s: %d tasks were not given up within %v of their revocation: others take them over now", s.m.cfg.Group, len(s.m.revoking), s.m.cfg.RevokeTimeout),
			})
		}
		s.m.given()
	}
	r.end()
}

// heartbeat sends one, and says how long to wait for the next.
func (s *StreamsMembership) heartbeat(offsets bool) (pause time.Duration, ok bool) {
	s.mu.Lock()
	dead, epoch := s.m.dead, s.m.epoch
	behind := s.m.behind
	s.m.behind = nil
	s.mu.Unlock()
	if dead {
		return time.Hour, false // nothing but Leave is left to do
	}
	for _, id := range behind {
		s.release(id, leaveEpoch) // that it fails says only that it takes a session timeout
	}
	if err := s.checkMembers(epoch); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.m.refuse(err)
		return 0, false
	}
	s.mu.Lock()
	req := s.m.request(offsets)
	s.mu.Unlock()
	resp, err := s.ask(s.ctx, req)
	if s.ctx.Err() != nil {
		return 0, false
	}
	if err != nil {
		return s.failed(err), false
	}
	s.mu.Lock()
	if err := s.m.succeeded(resp); err != nil {
		s.m.refuse(err)
	}
	unsure, pause := s.m.unsure, s.m.interval
	if s.m.waits {
		pause = min(pause, soon)
	}
	s.mu.Unlock()
	if unsure && !s.recall() {
		pause = min(pause, soon)
	}
	return pause, true
}

// failed deals with a heartbeat that did not succeed.
func (s *StreamsMembership) failed(err error) (pause time.Duration) {
	var theirs []string
	if otherTopology(err) {
		theirs = s.topologyOf()
	}
	s.mu.Lock()
	s.m.theirs = theirs
	next := s.m.failed(err)
	pause = s.c.cfg.backoff(s.m.tries)
	s.mu.Unlock()
	switch next {
	case askElsewhere:
		s.node = -1
	case joinAnew, joinFenced:
		s.checked, pause = -1, 0
	case takePlace:
		if err := s.takePlace(err); err != nil {
			s.mu.Lock()
			s.m.report(err)
			s.mu.Unlock()
		}
	}
	return pause
}

// ask sends a heartbeat to the coordinator of the group.
func (s *StreamsMembership) ask(ctx context.Context, req *kmsg.StreamsGroupHeartbeatRequest) (*kmsg.StreamsGroupHeartbeatResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.c.cfg.RequestTimeout)
	defer cancel()
	if s.node < 0 {
		node, err := s.c.coordinator(ctx, req.Group)
		if err != nil {
			return nil, s.c.cause(err)
		}
		s.node = node
	}
	// Sent once: a heartbeat that is sent again may find another epoch, and its answer leave the tasks out.
	kresp, err := s.c.Broker(int(s.node)).Request(ctx, req)
	if err != nil {
		return nil, s.c.cause(err)
	}
	resp := kresp.(*kmsg.StreamsGroupHeartbeatResponse)
	if err := codeErr(resp.ErrorCode); err != nil {
		return nil, withText(err, resp.ErrorMessage)
	}
	return resp, nil
}

// lookUp finds how many partitions the topics have that the tasks read, if that is not known.
func (s *StreamsMembership) lookUp() {
	s.mu.Lock()
	due := s.m.target != nil && !s.m.looked
	topics := topicsOf(s.m.topology)
	s.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	if err := s.meta.load(ctx, s.meta.last(), topics...); err != nil {
		return // again after the next heartbeat
	}
	partitions := make(map[string]int32, len(topics))
	for _, t := range topics {
		partitions[t] = int32(len(s.meta.topic(t).partitions))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.partitions = partitions
	s.m.looked = s.m.readable()
}

// Leave implements broker.Membership, and says of itself what Membership.Leave does.
func (s *StreamsMembership) Leave(ctx context.Context, stay bool) error {
	s.mu.Lock()
	already := s.m.leaving
	s.m.leaving = true
	id, epoch := s.m.id, int32(leaveEpoch)
	if stay && s.m.cfg.InstanceID != "" {
		epoch = stayEpoch
	}
	s.mu.Unlock()
	if already {
		return nil
	}
	s.stop()
	<-s.done
	s.q.close()
	err := s.tell(ctx, id, epoch)
	s.c.Close()
	if err != nil {
		return fmt.Errorf("millrace: group %s: leave: %w", s.m.cfg.Group, err)
	}
	return nil
}

// tell tells that a member leaves. It does so also where no answer to a join has come: it may have been carried out.
func (s *StreamsMembership) tell(ctx context.Context, memberID string, epoch int32) error {
	select {
	case <-s.joined:
	default:
		return nil
	}
	for n := 1; ; n++ {
		req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch, req.EndpointInformationEpoch = s.m.cfg.Group, memberID, epoch, -1
		req.InstanceID = s.m.instance()
		_, err := s.ask(ctx, req)
		var code broker.Code
		switch {
		case err == nil, errors.Is(err, broker.CodeUnknownMemberID), errors.Is(err, broker.CodeGroupIDNotFound), errors.Is(err, broker.CodeFencedInstanceID):
			return nil // out, or out already
		case errors.As(err, &code) && !code.Retriable():
			return err
		}
		s.node = -1
		if !pause(ctx, s.c.cfg.backoff(n)) {
			return err
		}
	}
}

// release does the same for another life than this one, if that can be done soon.
func (s *StreamsMembership) release(memberID string, epoch int32) error {
	ctx, cancel := context.WithTimeout(s.ctx, releaseWithin)
	defer cancel()
	return s.tell(ctx, memberID, epoch)
}

const releaseWithin = 2 * time.Second
