package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
)

// usurped is what others have done in the name of an instance, in one life of it.
type usurped struct {
	instanceID []*brokertest.Injected // another one has joined under its instance id
	txn        int                    // another one has written under its transactional id
}

// refused tells how often the group has told the instance, at a commit, that somebody else has its instance id.
func (u *usurped) refused() (n int) {
	for _, f := range u.instanceID {
		n += min(f.Hits(), 1)
	}
	return n
}

// fatal tells errors with which an instance may, and at the second time must, stop.
func (u *usurped) fatal(err error) bool {
	switch {
	case errors.Is(err, broker.CodeFencedInstanceID):
		return u.refused() >= 2
	case errors.Is(err, broker.CodeProducerFenced), errors.Is(err, broker.CodeInvalidProducerEpoch):
		return u.txn >= 2
	}
	return false
}

// takeInstanceID lets another process join under the group.instance.id of an instance, and go again.
func (w *world) takeInstanceID() {
	p := w.someone()
	if p == nil || p.member == nil || p.leaves() {
		return
	}
	id, ok := p.member.Identity()
	if !ok {
		return
	}
	w.fault("another one joins under the instance id of place %d", p.index)
	w.coord.Forget(p.member)
	w.group.Expire(p.member)
	p.outMs = w.clock.NowMs() + w.rng.Int64N(1_000)
	all := make(map[broker.TopicPartition]broker.Code)
	for _, tp := range w.cluster.Partitions() {
		all[tp] = broker.CodeFencedInstanceID
	}
	for _, op := range []brokertest.Op{brokertest.OpCommitOffsets, brokertest.OpTxnOffsets} {
		f := w.cluster.Inject(brokertest.Fault{
			Op: op, Err: &broker.CommitError{Group: appID, Partitions: all}, Times: -1,
			When: func(c brokertest.Call) bool { return c.Identity.MemberID == id.MemberID },
		})
		w.injected, p.usurped.instanceID = append(w.injected, f), append(p.usurped.instanceID, f)
	}
}

// takeTransactionalID lets another process write under the transactional id of an instance, as one does with a copy of its state
// directory.
func (w *world) takeTransactionalID() {
	p := w.someone()
	if p == nil || p.txnID == "" {
		return
	}
	p.usurped.txn++
	w.fault("another one proves the transactional id of place %d: %v", p.index, w.cluster.Transactions(p.txnID).Prove(context.Background()))
}

// unnoticed tells of an instance that runs on although somebody else has had its instance id too often: three times, and once more
// when there is other trouble. It does not count what it has found out by itself meanwhile.
func (p *place) unnoticed() error {
	often := 4
	if p.w.alone {
		often = 3
	}
	if n := p.usurped.refused(); p.up && n >= often {
		return fmt.Errorf("instance %d runs, and was told %d times within ten minutes that another one has its instance id", p.index, n)
	}
	return nil
}

// An instance stops, and says why, when somebody else has its identity twice: two processes with one instance id, or a state
// directory that was copied. Once the other one is gone it starts again, and every result is there once.
func TestSim_twoOfOneIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		take func(*world)
		want []broker.Code
	}{
		"instance id":      {(*world).takeInstanceID, []broker.Code{broker.CodeFencedInstanceID}},
		"transactional id": {(*world).takeTransactionalID, []broker.Code{broker.CodeProducerFenced, broker.CodeInvalidProducerEpoch}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				w, err := newWorld(seed+1, scenario{workload: Workloads()[seed], exactly: true, instances: 1, deadline: 3_600_000})
				if err != nil {
					t.Fatal(err)
				}
				w.calm = true
				fed := func() {
					for range 40 {
						w.put(w.feed.Next())
					}
					w.rest("what was fed")
				}
				fed()
				p := w.places[0]
				for n := range 2 {
					if p.lives != 1 {
						t.Fatalf("seed %d: it has stopped at the first time: %v", seed+1, p.ending)
					}
					c.take(w)
					fed()
					if n == 0 {
						w.advance(sessionMs)
					}
				}
				if p.lives != 2 || !slices.ContainsFunc(c.want, func(code broker.Code) bool { return errors.Is(p.ending, code) }) {
					t.Errorf("seed %d: life %d, the one before has ended with %v", seed+1, p.lives, p.ending)
				}
				w.settle()
				if w.failure != nil {
					t.Error(report(w, w.failure))
				}
				w.close()
			}
		})
	}
}

const sessionMs = 10_000
