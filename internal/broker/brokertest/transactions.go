package brokertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
)

// Transactions implements broker.Transactions. Records go the way that they go with a Producer: the test decides when they
// are written, inside the transaction, and acknowledged.
//
// A transaction begins for the cluster with its first written record and ends with End, with a later Prove of the same id
// by whichever object, or with ExpireTxn. Each of these takes the epoch from those who had it before: their records are
// refused with INVALID_PRODUCER_EPOCH, their requests with PRODUCER_FENCED. Only Prove gives a new one, and so does an End
// that got its answer.
type Transactions struct {
	*Producer
	id     string
	epoch  int // under which it writes
	state  txnState
	lost   bool  // an answer said or left open that it cannot go on: Prove comes next
	failed error // of the first record of the transaction that failed
	asked  bool  // a record was produced in the transaction
	acked  bool  // one was acknowledged
	bare   bool  // it has offsets and no records, which cannot come any more
	stray  bool  // a request of Prove is still on its way, or was
}

type txnState uint8

const (
	txnUnproven txnState = iota
	txnReady
	txnOpen
)

var _ broker.Transactions = (*Transactions)(nil)

// coordinated is what the coordinator knows of a transactional id.
type coordinated struct {
	epoch   int
	open    bool
	expired int // the last epoch whose transaction the coordinator gave up, -1 none
	ended   bool
	commit  bool                                                   // with ended
	held    bool                                                   // markers wait for WriteMarkers
	offsets map[string]map[broker.TopicPartition]broker.OffsetMeta // by group, of the transaction
}

// Transactions opens a client that produces in transactions under an id; several objects may have the same.
func (c *Cluster) Transactions(id string) *Transactions {
	t := &Transactions{Producer: c.Producer(), id: id}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.txn = t
	if c.txns[id] == nil {
		c.txns[id] = &coordinated{expired: -1, held: c.async, offsets: make(map[string]map[broker.TopicPartition]broker.OffsetMeta)}
	}
	return t
}

// TransactionalID is the id that it was opened with.
func (t *Transactions) TransactionalID() string { return t.id }

func (t *Transactions) coordinator() *coordinated { return t.c.txns[t.id] }

// answered notes the answer to a record. The cluster is locked.
func (t *Transactions) answered(err error) {
	switch {
	case err == nil:
		t.acked = true
	case t.failed == nil:
		t.failed = err
	}
}

// ending reports whether markers of the id's last transaction are still to be written, so that nothing else can be.
func (t *Transactions) ending() bool { return t.coordinator().ended }

// joins makes a record's write part of the transaction, or gives the code that it is refused with.
func (t *Transactions) joins() broker.Code {
	x := t.coordinator()
	if x.epoch != t.epoch {
		return broker.CodeInvalidProducerEpoch
	}
	x.open = true
	return 0
}

// Prove implements broker.Transactions. Over markers that are held it fails with CONCURRENT_TRANSACTIONS, or waits in a
// Blocking cluster.
func (t *Transactions) Prove(ctx context.Context) error {
	t.giveUp(broker.ErrAborted)
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.closed {
		return broker.ErrClosed
	}
	t.state, t.lost = txnUnproven, true
	x, late := t.coordinator(), len(t.c.late)
	err := t.c.do(ctx, Call{Op: OpProve, Txn: t.id}, func() error {
		if x.open {
			t.c.decide(t.id, false)
		}
		if !t.c.await(ctx, func() bool { return !x.ended }) {
			return t.errorf("prove", broker.CodeConcurrentTransactions)
		}
		x.epoch++
		return nil
	})
	t.stray = t.stray || len(t.c.late) > late
	if err != nil {
		return err
	}
	t.epoch, t.state, t.lost = x.epoch, txnReady, false
	return nil
}

// Stray implements broker.Transactions. It does not go by the time.
func (t *Transactions) Stray() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return t.stray
}

// Begin implements broker.Transactions.
func (t *Transactions) Begin() error {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.closed {
		return broker.ErrClosed
	}
	err := t.c.do(context.Background(), Call{Op: OpBegin, Txn: t.id}, func() error {
		if t.state != txnReady {
			return t.errorf("begin", fmt.Errorf("%w: it is not proved, or a transaction is open", broker.CodeInvalidTxnState))
		}
		t.state, t.failed, t.asked, t.acked, t.bare = txnOpen, nil, false, false, false
		return nil
	})
	return t.note(err)
}

// CommitOffsets implements broker.Transactions. Over markers that are held it fails with CONCURRENT_TRANSACTIONS, or waits in a
// Blocking cluster.
func (t *Transactions) CommitOffsets(ctx context.Context, group string, id broker.Identity, offsets map[broker.TopicPartition]broker.OffsetMeta) error {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if err := t.usable("commit offsets"); err != nil {
		return err
	}
	if t.asked && !t.acked {
		return t.errorf("commit offsets", errors.New("no record was acknowledged in the transaction"))
	}
	t.bare = !t.asked
	g, x, epoch := t.c.group(group), t.coordinator(), t.epoch
	return t.note(t.c.do(ctx, Call{Op: OpTxnOffsets, Txn: t.id, Group: group, Identity: id, Offsets: maps.Clone(offsets)}, func() error {
		if x.epoch == epoch && !t.c.await(ctx, func() bool { return !x.ended }) {
			return t.errorf("commit offsets", broker.CodeConcurrentTransactions)
		}
		if x.epoch != epoch {
			fenced := make(map[broker.TopicPartition]broker.Code, len(offsets))
			for tp := range offsets {
				fenced[tp] = broker.CodeProducerFenced
			}
			return &broker.CommitError{Group: group, Identity: id, Partitions: fenced}
		}
		x.open = true
		return g.commit(id, offsets, func(tp broker.TopicPartition, o broker.OffsetMeta) {
			if x.offsets[group] == nil {
				x.offsets[group] = make(map[broker.TopicPartition]broker.OffsetMeta)
			}
			x.offsets[group][tp] = o
		})
	}))
}

// End implements broker.Transactions. An abort answers also records whose writing or acknowledgement is held.
func (t *Transactions) End(ctx context.Context, commit bool) error {
	if !commit {
		t.giveUp(broker.ErrAborted)
	}
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	what := "abort"
	if commit {
		what = "commit"
		if err := t.usable(what); err != nil {
			return err
		}
		if n := len(t.queue); n > 0 {
			return t.errorf(what, fmt.Errorf("%d records have no answer yet", n))
		}
		if t.failed != nil {
			return t.errorf(what, fmt.Errorf("a record failed: %w", t.failed))
		}
	} else if t.closed {
		return broker.ErrClosed
	} else if t.state != txnOpen {
		return t.errorf(what, fmt.Errorf("%w: no transaction is open", broker.CodeInvalidTxnState))
	}
	x, epoch := t.coordinator(), t.epoch
	err := t.c.do(ctx, Call{Op: OpEndTxn, Txn: t.id, Commit: commit}, func() error {
		switch {
		case x.expired == epoch && x.epoch == epoch+1:
			if commit {
				return t.errorf(what, broker.CodeInvalidTxnState)
			}
			// It is aborted already: the coordinator takes this for the same abort asked again.
		case x.ended && x.commit == commit && x.epoch == epoch+1:
			// It was asked before: the same answer.
		case x.epoch != epoch:
			return t.errorf(what, broker.CodeProducerFenced)
		case x.open:
			t.c.decide(t.id, commit)
		}
		return nil
	})
	if err != nil {
		t.state, t.lost = txnUnproven, true
		return err
	}
	t.epoch, t.state = x.epoch, txnReady
	if t.lost {
		t.state = txnUnproven
	}
	return nil
}

// usable is why nothing can be asked in the open transaction.
func (t *Transactions) usable(what string) error {
	switch {
	case t.closed:
		return broker.ErrClosed
	case t.state != txnOpen:
		return t.errorf(what, fmt.Errorf("%w: no transaction is open", broker.CodeInvalidTxnState))
	case t.lost:
		return t.errorf(what, fmt.Errorf("%w: an error before asks for Prove", broker.CodeInvalidTxnState))
	}
	return nil
}

// note remembers errors after which only Prove helps.
func (t *Transactions) note(err error) error {
	if c := broker.CourseOf(err); c == broker.CourseUnknown || c == broker.CourseRebuild {
		t.lost = true
	}
	return err
}

func (t *Transactions) errorf(what string, err error) error {
	return fmt.Errorf("millrace: transactional id %s: %s: %w", t.id, what, err)
}

// decide ends a transaction at the coordinator: its outcome stands from now on, and the epoch is used up. The cluster is
// locked.
func (c *Cluster) decide(id string, commit bool) {
	x := c.txns[id]
	x.open, x.ended, x.commit = false, true, commit
	x.epoch++
	if !x.held || len(c.markers(id)) == 0 {
		c.complete(id)
	}
}

// complete writes what is left of the markers, and makes the offsets those of their groups or drops them.
func (c *Cluster) complete(id string) {
	x := c.txns[id]
	c.endTxn(id, x.commit)
	for group := range x.offsets {
		c.endOffsets(x, group)
	}
	x.ended = false
	c.changed.Broadcast()
}

// endOffsets makes the offsets of a transaction those of a group, or drops them.
func (c *Cluster) endOffsets(x *coordinated, group string) {
	if x.commit {
		maps.Copy(c.group(group).committed, x.offsets[group])
	}
	delete(x.offsets, group)
}

// Marker is the end of a transaction on its way to one partition, or to the offsets of a group.
type Marker struct {
	Txn    string
	Commit bool
	broker.TopicPartition
	Group string // in place of a partition
}

// String names the marker.
func (m Marker) String() string {
	what, at := "abort", fmt.Sprintf("%s-%d", m.Topic, m.Partition)
	if m.Commit {
		what = "commit"
	}
	if m.Group != "" {
		at = "the offsets of " + m.Group
	}
	return fmt.Sprintf("%s of %s to %s", what, m.Txn, at)
}

// Markers lists what WriteMarker can write, in a fixed order.
func (c *Cluster) Markers() []Marker {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Marker
	for _, id := range slices.Sorted(maps.Keys(c.txns)) {
		if c.txns[id].ended {
			all = append(all, c.markers(id)...)
		}
	}
	return all
}

func (c *Cluster) markers(id string) []Marker {
	x := c.txns[id]
	var tps []broker.TopicPartition
	for _, t := range c.topics {
		for p, l := range t.logs {
			if _, open := l.open[id]; open {
				tps = append(tps, TP(t.name, int32(p)))
			}
		}
	}
	broker.SortPartitions(tps)
	var all []Marker
	for _, tp := range tps {
		all = append(all, Marker{Txn: id, Commit: x.commit, TopicPartition: tp})
	}
	for _, group := range slices.Sorted(maps.Keys(x.offsets)) {
		all = append(all, Marker{Txn: id, Commit: x.commit, Group: group})
	}
	return all
}

// WriteMarker writes one of the markers that Markers lists. With the last one the transaction is complete: the next one of the
// id may be written.
func (c *Cluster) WriteMarker(m Marker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.mustTxn(m.Txn)
	if m.Group != "" {
		c.endOffsets(x, m.Group)
	} else {
		c.endTxn(m.Txn, x.commit, m.TopicPartition)
	}
	if len(c.markers(m.Txn)) == 0 {
		x.ended = false
	}
	c.changed.Broadcast()
}

// HoldMarkers keeps the markers of an id's transactions from being written: End is answered, but readers of committed
// records and CommittedOffsets see no outcome until WriteMarkers, and no record of the next transaction is written.
func (c *Cluster) HoldMarkers(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mustTxn(id).held = true
}

// WriteMarkers writes the markers that HoldMarkers has kept back, and ends holding; the offsets come with the last of them.
// With partitions it writes only theirs.
func (c *Cluster) WriteMarkers(id string, only ...broker.TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.mustTxn(id)
	if x.ended && len(only) > 0 {
		c.endTxn(id, x.commit, only...)
		c.changed.Broadcast()
		return
	}
	x.held = false
	if x.ended {
		c.complete(id)
	}
}

// ExpireTxn lets the coordinator give up the open transaction of an id, as it does when the transaction's time is over. The
// producer is not told: its records and offsets are refused like those of a fenced one, a commit gets INVALID_TXN_STATE, and
// an abort is done already.
func (c *Cluster) ExpireTxn(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.mustTxn(id)
	if x.open {
		x.expired = x.epoch
		c.decide(id, false)
	}
}

// OpenTxn reports whether a transaction of an id has begun at the coordinator and not been decided.
func (c *Cluster) OpenTxn(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mustTxn(id).open
}

// OpenTxns lists the ids whose transaction has begun at the coordinator and not been decided, sorted.
func (c *Cluster) OpenTxns() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for id, x := range c.txns {
		if x.open {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// mustTxn is for calls of the test itself, whose mistakes are not errors to handle.
func (c *Cluster) mustTxn(id string) *coordinated {
	x := c.txns[id]
	if x == nil {
		panic(fmt.Sprintf("brokertest: no transactional id %s: call Transactions first", id))
	}
	return x
}
