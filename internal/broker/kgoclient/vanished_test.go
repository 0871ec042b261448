package kgoclient

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// writer is a member that writes in transactions.
func writer(t *testing.T, cfg Config, id string, change func(*MembershipConfig)) *member {
	mcfg := fast()
	mcfg.Transactional = id
	if change != nil {
		change(&mcfg)
	}
	return join(t, cfg, mcfg, reads("s", []string{"in"}))
}

// leaveOpen opens a transaction under an id with one record in it, and leaves it so.
func leaveOpen(t *testing.T, cfg Config, id string) *Transactions {
	t.Helper()
	tx := newTransactions(t, cfg, id)
	if err := tx.Prove(testCtx(t)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Begin(); err != nil {
		t.Fatal(err)
	}
	acked := make(chan error, 1)
	tx.Produce(broker.ProduceRecord{Topic: "out", Value: []byte("v")}, func(_ int64, err error) { acked <- err })
	if err := tx.Flush(testCtx(t)); err != nil {
		t.Fatal(err)
	}
	if err := <-acked; err != nil {
		t.Fatal(err)
	}
	return tx
}

// stable waits until nothing is open in front of the end of out-0.
func stable(t *testing.T, cfg Config) {
	t.Helper()
	ctx, admin := testCtx(t), newAdmin(t, cfg)
	for {
		end, err := admin.ListOffsets(ctx, broker.HighWatermark, tp("out", 0))
		if err != nil {
			t.Fatal(err)
		}
		lso, err := admin.ListOffsets(ctx, broker.StableEnd, tp("out", 0))
		if err != nil {
			t.Fatal(err)
		}
		if lso[tp("out", 0)] == end[tp("out", 0)] {
			return
		}
		if !pause(ctx, 5*time.Millisecond) {
			t.Fatal("the transaction stays open")
		}
	}
}

// countFences counts the requests that end somebody else's transaction.
func countFences(c *kfake.Cluster) *atomic.Int64 {
	n := new(atomic.Int64)
	c.ControlKey(int16(kmsg.InitProducerID), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if r.(*kmsg.InitProducerIDRequest).ProducerID >= 0 {
			n.Add(1)
		}
		return nil, nil, false
	})
	return n
}

// The transaction that a vanished member has left open is ended when the group has put the member out, whoever leads then: not
// by its timeout, which is a minute here.
func TestVanished_openTransactionIsEnded(t *testing.T) {
	for name, first := range map[string]bool{"the leader": true, "another": false} {
		t.Run(name, func(t *testing.T) {
			c, cfg := startCluster(t)
			topic(t, c, "in", 4, nil)
			topic(t, c, "out", 1, nil)
			a := writer(t, cfg, "app-a", nil)
			a.until(broker.Assigned, hasTasks(4))
			b := writer(t, cfg, "app-b", nil)
			settle(t, 4, a, b)
			stays, goes, id := a, b, "app-b"
			if first {
				stays, goes, id = b, a, "app-a"
			}
			tx := leaveOpen(t, cfg, id)
			goes.kill()
			settle(t, 4, stays)
			stable(t, cfg)
			// Whoever was put out and is not dead is fenced, and takes its id again by proving it.
			if err := tx.End(testCtx(t), true); broker.CourseOf(err) != broker.CourseRebuild {
				t.Errorf("the end of a transaction that was ended: %v", err)
			}
			if err := tx.Prove(testCtx(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// So is one in which there are offsets alone, which would keep the next owner of the partitions from reading them.
func TestVanished_openOffsetsAreEnded(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 2, nil)
	a := writer(t, cfg, "app-a", nil)
	a.until(broker.Assigned, hasTasks(2))
	b := writer(t, cfg, "app-b", nil)
	settle(t, 2, a, b)
	tx := newTransactions(t, cfg, "app-b")
	proved(t, tx)
	begun(t, tx)
	group := b.cfg.Group
	if err := tx.CommitOffsets(testCtx(t), group, b.id, map[broker.TopicPartition]broker.OffsetMeta{tp("in", 0): {Offset: 1, Epoch: -1}}); err != nil {
		t.Fatal(err)
	}
	b.kill()
	settle(t, 2, a)
	o, err := newAdmin(t, cfg).CommittedOffsets(testCtx(t), group, tp("in", 0))
	if err != nil || o[tp("in", 0)].Offset != -1 {
		t.Errorf("committed %v, %v", o, err)
	}
	if err := tx.End(testCtx(t), true); broker.CourseOf(err) != broker.CourseRebuild {
		t.Errorf("the end of a transaction that was ended: %v", err)
	}
}

// Nobody who lives is fenced: members that come and go in order, a static one that is started again while the group waits for
// it, one that has nothing open, and those who stay.
func TestVanished_liveMembersAreLeftAlone(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 4, nil)
	topic(t, c, "out", 1, nil)
	fences := countFences(c)
	static := func(m *MembershipConfig) { m.InstanceID, m.SessionTimeout = "one", 5*time.Second }
	a := writer(t, cfg, "app-a", nil)
	a.until(broker.Assigned, hasTasks(4))
	b := writer(t, cfg, "app-b", static)
	settle(t, 4, a, b)
	open := leaveOpen(t, cfg, "app-a")
	b.kill()
	b = writer(t, cfg, "app-b", static)
	b.until(broker.Assigned, hasTasks(2))
	again := leaveOpen(t, cfg, "app-b")
	third := writer(t, cfg, "app-c", nil) // a round that everybody is in
	settle(t, 4, a, b, third)
	if err := third.Leave(testCtx(t), false); err != nil {
		t.Fatal(err)
	}
	settle(t, 4, a, b)
	for id, tx := range map[string]*Transactions{"app-a": open, "app-b": again} {
		if err := tx.End(testCtx(t), true); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if n := fences.Load(); n != 0 {
		t.Errorf("%d transactions were ended for somebody", n)
	}
}

// A leader that was away for long must not act on what it knew: another generation may have the member back, at work.
func TestVanished_lateLeader(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 2, nil)
	topic(t, c, "out", 1, nil)
	fences := countFences(c)
	a := writer(t, cfg, "app-a", nil)
	a.until(broker.Assigned, hasTasks(2))
	old := a.id
	b := writer(t, cfg, "app-b", nil)
	settle(t, 2, a, b)
	tx := leaveOpen(t, cfg, "app-b")
	if ended, err := a.tryEnd(testCtx(t), a.client(), "app-b", old); ended || err != nil {
		t.Errorf("ended %t, %v", ended, err)
	}
	// Nor does a leader whose member id is not known any more.
	old = a.id
	old.MemberID = "nobody"
	if ended, err := a.tryEnd(testCtx(t), a.client(), "app-b", old); ended || err != nil {
		t.Errorf("ended %t, %v", ended, err)
	}
	// A transactional id that nobody has used is none to end.
	if ended, err := a.tryEnd(testCtx(t), a.client(), "app-z", a.id); ended || err != nil {
		t.Errorf("ended %t, %v", ended, err)
	}
	if err := tx.End(testCtx(t), true); err != nil {
		t.Error(err)
	}
	if n := fences.Load(); n != 0 {
		t.Errorf("%d transactions were ended for somebody", n)
	}
}
