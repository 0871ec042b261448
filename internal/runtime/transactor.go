package runtime

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
)

// transactor carries out what the machine orders of transactions, one after the other, on a goroutine of its own: producing
// may have to wait for room, and the coordinator for another broker.
type transactor struct {
	tx      broker.Transactions
	id      string
	group   string
	timeout time.Duration // of one call
	post    func(Event)

	mu     sync.Mutex
	orders []Action
	more   chan struct{} // has a token if there may be orders
}

func newTransactor(tx broker.Transactions, group string, timeout time.Duration, post func(Event)) *transactor {
	return &transactor{tx: tx, group: group, timeout: timeout, post: post, more: make(chan struct{}, 1)}
}

// order queues an action. It never blocks.
func (t *transactor) order(a Action) {
	t.mu.Lock()
	t.orders = append(t.orders, a)
	t.mu.Unlock()
	select {
	case t.more <- struct{}{}:
	default:
	}
}

func (t *transactor) take() []Action {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.orders
	t.orders = nil
	return all
}

// run carries out orders until the context ends.
func (t *transactor) run(ctx context.Context) {
	for {
		select {
		case <-t.more:
		case <-ctx.Done():
			return
		}
		for _, a := range t.take() {
			t.carry(ctx, a)
		}
	}
}

func (t *transactor) carry(ctx context.Context, a Action) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	switch a := a.(type) {
	case Send:
		if a.Begin {
			if err := t.tx.Begin(); err != nil {
				for _, s := range a.Records {
					s.answer(-1, err)
				}
				t.post(Sent{Round: a.Round, Err: err})
				return
			}
		}
		for _, s := range a.Records {
			s.box.send(s)
		}
		_ = t.tx.Flush(ctx) // an error is that of the context, and the records have their own answers
	case CommitInTransaction:
		t.post(CommitAnswered{Round: a.Round, Sent: true, Err: t.tx.CommitOffsets(ctx, t.group, a.Identity, a.Offsets)})
	case EndTransaction:
		t.post(TransactionEnded{Round: a.Round, Err: t.tx.End(ctx, a.Commit)})
	case Prove:
		t.post(Proved{Err: t.tx.Prove(ctx)})
	}
}

// prove opens the transactional producer and ends what was left open under its id: by the instance before this one on the
// same state directory, if there is one. It comes before the first question for committed offsets.
func (r *Runner) prove(ctx context.Context) error {
	if !r.cfg.Settings.ExactlyOnce {
		return nil
	}
	process := r.cfg.NewID()
	if r.db != nil {
		process = r.db.ProcessID()
	}
	id := r.cfg.AppID + "-" + process
	tx, err := r.cfg.Clients.Transactions(id)
	if err != nil {
		return err
	}
	r.transactor = newTransactor(tx, r.cfg.AppID, r.cfg.RequestTimeout, r.inbox.post)
	r.transactor.id = id
	return r.within(ctx, "taking the transactional id", func(ctx context.Context) error {
		if err := tx.Prove(ctx); err != nil {
			return fmt.Errorf("millrace: the transactional id %s-%s cannot be taken: %w", r.cfg.AppID, process, err)
		}
		return nil
	})
}

// producer is what the tasks write with.
func (r *Runner) producer() broker.Producer {
	if r.transactor != nil {
		return r.transactor.tx
	}
	return r.cfg.Clients.Producer
}

// closeTransactions closes the transactional producer. A transaction that is still open is ended by the next instance that
// takes the transactional id, or by the coordinator when it times out.
func (r *Runner) closeTransactions() {
	if r.transactor != nil {
		r.transactor.tx.Close()
	}
}
