package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/millrace-io/millrace/internal/broker"
)

// offsetsID is the transactional id under which offsets are committed in a transaction without records, for a producer that
// writes under an id. Whoever proves or fences the one does it to the other.
func offsetsID(id string) string { return id + "-offsets" }

// offsetsOnly are the transactions in which nothing is written but offsets of a group.
//
// franz-go ends no transaction in which it has written no record, and it cannot be told of an epoch that it did not get by
// itself; where each end of a transaction takes the next epoch (transaction.version 2), the two do not go together under one
// id. So these transactions have an id of their own, whose epochs are counted here, and all their requests are raw ones.
// docs/adr/0021-a-commit-without-results-is-a-transaction.md says why they are transactions at all.
type offsetsOnly struct {
	id      string
	timeout time.Duration
	pid     producerID

	mu     sync.Mutex
	pinned *conn // asks with versions from before transaction.version 2; nil while not needed
	closed bool
}

// prove takes the id: a transaction that was left open under it is ended, which is waited for.
func (o *offsetsOnly) prove(ctx context.Context, c *conn) error {
	for {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &o.id, int32(o.timeout.Milliseconds())
		resp, err := req.RequestWith(ctx, c.Client)
		if err != nil {
			return err
		}
		err = codeErr(resp.ErrorCode)
		if err == nil {
			o.pid = producerID{resp.ProducerID, resp.ProducerEpoch}
			return nil
		}
		if !errors.Is(err, broker.CodeConcurrentTransactions) || !pause(ctx, concurrentPause) {
			return err
		}
	}
}

// end commits or aborts. It asks until it has an answer that says how it has ended; that there is none is an error.
func (o *offsetsOnly) end(ctx context.Context, c *conn, commit bool) error {
	for n := 1; ; n++ {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = o.id, o.pid.id, o.pid.epoch, commit
		resp, err := req.RequestWith(ctx, c.Client)
		if err != nil {
			return err
		}
		err = codeErr(resp.ErrorCode)
		switch {
		case err == nil:
			if resp.Version >= 5 && resp.ProducerID >= 0 { // each end takes the next epoch
				o.pid = producerID{resp.ProducerID, resp.ProducerEpoch}
			}
			return nil
		case broker.CourseOf(err) != broker.CourseRetry || !pause(ctx, c.cfg.backoff(n)):
			return err
		}
	}
}

// conn is the client to ask with. The versions of a request tell the brokers in which manner the transaction is made, so those of
// transaction.version 2 must not be used where the cluster has not been brought there.
func (o *offsetsOnly) conn(p *Producer, old bool) (*conn, error) {
	if !old {
		return p.c, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, broker.ErrClosed
	}
	if o.pinned == nil {
		most := kversion.Stable()
		most.SetMaxKeyVersion(kmsg.EndTxn.Int16(), 4)
		most.SetMaxKeyVersion(kmsg.TxnOffsetCommit.Int16(), 4)
		most.SetMaxKeyVersion(kmsg.AddOffsetsToTxn.Int16(), 4)
		// Nothing else keeps a request that was sent twice out of the next transaction: it is sent once.
		c, err := connect(p.c.cfg, kgo.MaxVersions(most), kgo.RequestRetries(0))
		if err != nil {
			return nil, err
		}
		o.pinned = c
	}
	return o.pinned, nil
}

func (o *offsetsOnly) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.pinned != nil {
		o.pinned.Close()
	}
}

// commitOffsetsOnly is CommitOffsets in a transaction without records.
func (t *Transactions) commitOffsetsOnly(ctx context.Context, p *Producer, group string, id broker.Identity, offsets map[broker.TopicPartition]broker.OffsetMeta) error {
	c, err := t.only.conn(p, t.add)
	if err != nil {
		return err
	}
	t.state.Store(uint32(txnOffsets)) // a refusal too may have begun it
	return t.sendOffsets(ctx, c, t.only.id, t.only.pid, group, id, offsets)
}

// endOffsetsOnly is End of a transaction in which there are offsets and no records.
func (t *Transactions) endOffsetsOnly(ctx context.Context, p *Producer, commit bool) error {
	what := "abort"
	if commit {
		what = "commit"
	}
	c, err := t.only.conn(p, t.add)
	if err == nil && commit && t.lost {
		err = fmt.Errorf("%w: an error before has left nothing but Prove", broker.CodeInvalidTxnState)
		return t.fail(what, err)
	}
	if err == nil {
		err = t.only.end(ctx, c, commit)
	}
	if err == nil {
		// franz-go has nothing to end; it only notes that its transaction is over.
		err = p.c.EndTransaction(ctx, kgo.TransactionEndTry(commit))
	}
	if err == nil {
		if err = t.ended(ctx, p); err == nil || commit {
			return nil // it is committed; Begin tells the rest
		}
	}
	t.set(txnUnproven, true)
	return t.fail(what, p.cause(err))
}

// errNoAcknowledged says that records are in the transaction that nobody knows to be written.
var errNoAcknowledged = errors.New("no record was acknowledged in the transaction")
