//go:build synctests

package sim_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// coordinator does for the group what Kafka's coordinator does and kfake's does not.
//
// A session ends: kfake does not time a member out whose JoinGroup it could not answer, and so keeps it, and its tasks, for ever.
//
// A rebalance ends: kfake waits for the rebalance timeout anew at each JoinGroup. When it waits for a member that does not come
// (or has counted one too few, after a member has left within a sync), those that have joined give up and join again before the
// timeout is over, and nobody is ever answered. Whoever joins late is therefore told to come again.
type coordinator struct {
	b    *bubble
	stop chan struct{}
	done chan struct{}

	mu    sync.Mutex
	heard map[string]time.Time // members, and when they have last been heard of
	epoch int32                // the generation that the rebalance under way ends
	since time.Time            // when it was first seen; zero if there is none
	late  bool                 // it is too late to join it
}

const (
	coordinatorEvery = 100 * time.Millisecond
	// rebalanceTimeout is how long one may join. Twice that, which is what a rebalance may take, is less than a session: those
	// who wait send no heartbeats, and kfake would put them out without an answer.
	rebalanceTimeout = 4500 * time.Millisecond
)

// coordinate begins. The function returned ends it.
func (b *bubble) coordinate() (end func()) {
	c := &coordinator{b: b, stop: make(chan struct{}), done: make(chan struct{}), heard: make(map[string]time.Time)}
	hear := b.k.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat}, Group: appID, Count: -1, Observe: true, TopLevel: true, When: c.hear,
	})
	wait := b.k.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.JoinGroup}, Group: appID, Count: -1, TopLevel: true, Err: kerr.CoordinatorLoadInProgress, When: c.tooLate,
	})
	go func() {
		defer close(c.done)
		for {
			select {
			case <-time.After(coordinatorEvery):
				c.look()
			case <-c.stop:
				return
			}
		}
	}()
	return func() {
		close(c.stop)
		<-c.done
		hear.Remove()
		wait.Remove()
	}
}

// hear notes that a member has sent something. kfake calls it on its own goroutine.
func (c *coordinator) hear(req kmsg.Request) bool {
	var id string
	switch r := req.(type) {
	case *kmsg.JoinGroupRequest:
		id = r.MemberID
	case *kmsg.SyncGroupRequest:
		id = r.MemberID
	case *kmsg.HeartbeatRequest:
		id = r.MemberID
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != "" {
		c.heard[id] = time.Now()
	}
	return true
}

func (c *coordinator) tooLate(kmsg.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.late
}

// look takes note of the group as it is, and puts members out whose session is over.
func (c *coordinator) look() {
	info := c.b.k.GroupInfo(appID)
	if info == nil {
		return
	}
	for _, id := range c.note(info) {
		c.b.trace.note("brokers: the session of %s is over", id)
		c.b.putOut(id)
	}
}

// note returns the members whose session is over.
func (c *coordinator) note(info *kfake.GroupInfo) (gone []string) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if info.State != "PreparingRebalance" {
		c.since, c.late = time.Time{}, false
	} else if c.since.IsZero() || c.epoch != info.Epoch {
		c.since, c.epoch, c.late = now, info.Epoch, false
	} else if !c.late && now.Sub(c.since) > rebalanceTimeout {
		c.late = true
		c.b.trace.note("brokers: the rebalance of generation %d takes no more members", info.Epoch)
	}
	for _, m := range info.Members {
		last, ok := c.heard[m.MemberID]
		if !ok {
			c.heard[m.MemberID], last = now, now
		}
		// Those who wait in a rebalance need send nothing.
		if info.State == "Stable" && now.Sub(last) > sessionTimeout+time.Second {
			gone = append(gone, m.MemberID)
		}
	}
	return gone
}

// putOut takes a member out of the group. It goes by the member id alone: the instance id may be somebody else's by now.
func (b *bubble) putOut(id string) {
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = appID
	who := kmsg.NewLeaveGroupRequestMember()
	who.MemberID = id
	req.Members = append(req.Members, who)
	if _, err := req.RequestWith(ctx, b.cl); err != nil {
		b.t.Errorf("%s cannot be put out of the group: %v", id, err)
	}
}

// standing tells of the cluster what is needed to see why nothing goes on.
func (b *bubble) standing() string {
	all := []string{"there is no group"}
	if info := b.k.GroupInfo(appID); info != nil {
		all = []string{fmt.Sprintf("the group is %s in generation %d", info.State, info.Epoch)}
		for _, m := range info.Members {
			all = append(all, fmt.Sprintf("its member %s of %s has %d partitions", m.MemberID, m.ClientID, m.NumAssigned()))
		}
	}
	for _, id := range b.openTransactions() {
		all = append(all, "transaction of "+id)
	}
	for _, topic := range b.topics() {
		for _, p := range b.k.PartitionInfos(topic) {
			if p.LastStableOffset != p.HighWatermark {
				all = append(all, fmt.Sprintf("%s-%d ends at %d and is stable up to %d", topic, p.Partition, p.HighWatermark, p.LastStableOffset))
			}
		}
	}
	return strings.Join(all, "; ")
}
