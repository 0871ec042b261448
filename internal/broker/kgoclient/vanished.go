package kgoclient

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// A member that is gone may have left a transaction open. Until it ends, readers of committed records stop in front of it,
// and so do the restores of its tasks on other members: for the timeout of a transaction. The leader of the group ends it at
// once. docs/adr/0019-ending-the-transactions-of-vanished-members.md tells why this does not meet a live member.

// writersOf lists the transactional ids of members, sorted.
func writersOf(members []kmsg.JoinGroupResponseMember) []string {
	var ids []string
	for _, jm := range members {
		meta := kmsg.NewConsumerMemberMetadata()
		if meta.ReadFrom(jm.ProtocolMetadata) != nil {
			continue
		}
		if data, err := decodeMemberData(meta.UserData); err == nil && data.Transactional != "" {
			ids = append(ids, data.Transactional)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// lead ends, in the background, the transactions of those who were in the last round and are not in this one, which this
// member leads.
func (m *Membership) lead(writers []string) {
	id, generation := m.client().GroupMetadata()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaving || m.cfg.Transactional == "" {
		return
	}
	who := broker.Identity{MemberID: id, InstanceID: m.cfg.InstanceID, Generation: generation}
	for _, gone := range m.writers {
		if slices.Contains(writers, gone) || gone == m.cfg.Transactional {
			continue
		}
		for _, id := range []string{gone, offsetsID(gone)} {
			m.tasks.Add(1)
			go func() {
				defer m.tasks.Done()
				m.endVanished(id, who)
			}()
		}
	}
	m.writers = writers
}

// endVanished ends the open transaction of a transactional id if the member of that id is gone in the leader's generation. It
// is tried for a session timeout; after that the transaction's own timeout is soon over.
func (m *Membership) endVanished(id string, leader broker.Identity) {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.SessionTimeout)
	defer cancel()
	c := m.client()
	for n := 1; ; n++ {
		ended, err := m.tryEnd(ctx, c, id, leader)
		if err == nil {
			if ended {
				m.cfg.Logger.Warn("a member of the group is gone and had left a transaction open: it was ended", "group", m.cfg.Group, "transactional_id", id)
			}
			return
		}
		if broker.CourseOf(err) == broker.CourseStop || !pause(ctx, c.cfg.backoff(n)) {
			m.cfg.Logger.Info("the transaction of a member that is gone could not be ended: it ends by its timeout", "group", m.cfg.Group,
				"transactional_id", id, "error", err)
			return
		}
	}
}

// endWithin is how long the request that ends a transaction may be on its way. A coordinator ends what is open under the id then,
// even if that is another transaction than the one described: the longer it takes, the less is it sure that nobody has come back.
const endWithin = 2 * time.Second

// tryEnd asks for the transaction, makes sure that the leader's generation still stood afterwards, and ends the transaction.
func (m *Membership) tryEnd(ctx context.Context, c *conn, id string, leader broker.Identity) (ended bool, err error) {
	tx, err := openTransaction(ctx, c, id)
	if err != nil || tx == nil {
		return false, err
	}
	if in, err := m.stands(ctx, c, leader); err != nil || !in {
		return false, err
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, tx.TimeoutMillis
	req.ProducerID, req.ProducerEpoch = tx.ProducerID, tx.ProducerEpoch
	soon, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	resp, err := req.RequestWith(soon, c.Client)
	if err != nil {
		return false, err // from the beginning
	}
	switch err := codeErr(resp.ErrorCode); {
	case err == nil, errors.Is(err, broker.CodeConcurrentTransactions): // the coordinator has begun to end it
		return true, nil
	case errors.Is(err, broker.CodeProducerFenced), errors.Is(err, broker.CodeInvalidProducerEpoch):
		return false, nil // somebody has proved the id since, which has ended the transaction
	default:
		return false, err
	}
}

// openTransaction describes the open transaction of an id; nil if none is open.
func openTransaction(ctx context.Context, c *conn, id string) (*kmsg.DescribeTransactionsResponseTransactionState, error) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	for i := range resp.TransactionStates {
		s := &resp.TransactionStates[i]
		if s.TransactionalID != id {
			continue
		}
		if broker.Code(s.ErrorCode) == codeNoTransactionalID {
			return nil, nil
		}
		if err := codeErr(s.ErrorCode); err != nil {
			return nil, err
		}
		if s.State == "Ongoing" {
			return s, nil
		}
	}
	return nil, nil
}

// codeNoTransactionalID is TRANSACTIONAL_ID_NOT_FOUND.
const codeNoTransactionalID broker.Code = 105

// stands tells whether the group is still in the generation of an identity.
func (m *Membership) stands(ctx context.Context, c *conn, who broker.Identity) (bool, error) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = m.cfg.Group, who.MemberID, who.Generation
	if who.InstanceID != "" {
		req.InstanceID = &who.InstanceID
	}
	resp, err := req.RequestWith(ctx, c.Client)
	if err != nil {
		return false, err
	}
	err = codeErr(resp.ErrorCode)
	if err == nil || errors.Is(err, broker.CodeRebalanceInProgress) {
		return true, nil
	}
	if broker.CourseOf(err) == broker.CourseRetry {
		return false, err
	}
	return false, nil
}
