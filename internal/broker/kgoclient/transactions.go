package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/clock"
)

// Transactions implements broker.Transactions: a Producer whose records belong to transactions.
//
// franz-go decides what happens at the end of a transaction from what it has seen itself, and repairs its producer id
// without a word where it thinks that no harm is done. So a commit here looks first whether the id and epoch are still
// those that the transaction began with, and after it whether the end was sent; see settle for what it may have missed. A
// client that has met an error which says, or leaves open, that it cannot go on is not used again: Prove opens another one.
type Transactions struct {
	cfg     Config
	id      string
	timeout time.Duration

	mu     sync.Mutex // guards closed, against a Prove that puts another client into p
	closed bool
	p      atomic.Pointer[Producer]

	tally tally         // of the records of the open transaction
	state atomic.Uint32 // a txnState; Produce looks at it on any goroutine
	only  offsetsOnly

	// Of the goroutine that makes the calls.
	meta  *metadata
	asked bool // p has asked for its producer id
	add   bool // the brokers must be told of the group's offsets before they come (transaction.version below 2)
	ends  *endsSent
	stray *strays
	lost  bool // an error before has left nothing but Prove
	pid   producerID
}

type txnState uint32

const (
	txnUnproven txnState = iota
	txnReady             // proved, none open
	txnOpen
	txnOffsets // open, with offsets and without records, which cannot come any more
)

type producerID struct {
	id    int64
	epoch int16
}

// tally counts answers. They come on the goroutines of the client.
type tally struct {
	waiting atomic.Int64
	asked   atomic.Bool           // a record was given to the client
	acked   atomic.Bool           // one at least
	failed  atomic.Pointer[error] // the first error
}

func (t *tally) answered(err error) {
	if err != nil {
		t.failed.CompareAndSwap(nil, &err)
	} else if !t.acked.Load() {
		t.acked.Store(true)
	}
	t.waiting.Add(-1)
}

// endsSent counts the ends of transactions that were sent, again or not.
type endsSent struct{ atomic.Int64 }

var _ kgo.HookBrokerWrite = (*endsSent)(nil)

func (e *endsSent) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == kmsg.EndTxn.Int16() && err == nil {
		e.Add(1)
	}
}

// strays notes requests for a producer id that were sent and got no answer.
type strays struct {
	clock  clock.Clock
	lastMs atomic.Int64 // 0 never
}

var _ kgo.HookBrokerE2E = (*strays)(nil)

func (s *strays) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key == kmsg.InitProducerID.Int16() && e2e.WriteErr == nil && e2e.ReadErr != nil {
		s.lastMs.Store(s.clock.NowMs())
	}
}

// strayFor is for how long a request that got no answer may still arrive: as long as two foreign producers are taken for more than
// an accident.
const strayFor = 10 * time.Minute

// Stray implements broker.Transactions.
func (t *Transactions) Stray() bool {
	last := t.stray.lastMs.Load()
	return last > 0 && t.stray.clock.NowMs()-last < strayFor.Milliseconds()
}

var _ broker.Transactions = (*Transactions)(nil)

// concurrentPause is the pause before a request is sent again that met the end of the id's last transaction.
const concurrentPause = 20 * time.Millisecond

// NewTransactions opens a client that produces under a transactional id. timeout is after how long the coordinator aborts a
// transaction that has not ended. A record fails well before that, whatever the configured delivery timeout is.
func NewTransactions(cfg Config, id string, timeout time.Duration) (*Transactions, error) {
	if id == "" {
		return nil, errors.New("millrace: the transactional id is empty")
	}
	if ms := timeout.Milliseconds(); ms <= 0 || ms > math.MaxInt32 {
		return nil, fmt.Errorf("millrace: transaction.timeout.ms (%v) must be at least 1 ms and below 25 days", timeout)
	}
	cfg = cfg.withDefaults()
	cfg.Produce.DeliveryTimeout = min(cfg.Produce.DeliveryTimeout, timeout/4*3)
	t := &Transactions{cfg: cfg, id: id, stray: &strays{clock: clock.System()}, timeout: timeout, only: offsetsOnly{id: offsetsID(id), timeout: timeout}}
	return t, t.open()
}

// open puts a new client in the place of p.
func (t *Transactions) open() error {
	short := shortRetries(t.cfg.Produce)
	ends := new(endsSent)
	p, err := openProducer(t.cfg, &t.tally,
		kgo.WithHooks(ends, t.stray),
		kgo.TransactionalID(t.id),
		kgo.TransactionTimeout(t.timeout),
		kgo.ConcurrentTransactionsBackoff(concurrentPause),
		kgo.AlwaysRetryEOF(), // an end that a fresh connection has lost is sent again too
		kgo.RetryTimeoutFn(func(key int16) time.Duration {
			switch kmsg.Key(key) {
			case kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn:
				return 0 // the caller's context bounds them
			}
			return short
		}))
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		p.Close()
		return broker.ErrClosed
	}
	t.p.Store(p)
	t.meta, t.ends, t.asked = newMetadata(p.c), ends, false
	return nil
}

// Prove implements broker.Transactions. The coordinator is asked until it answers or the context ends.
func (t *Transactions) Prove(ctx context.Context) error {
	t.set(txnUnproven, true)
	if t.isClosed() {
		return broker.ErrClosed
	}
	if t.asked {
		// A client asks but once, so each proof needs a new one.
		t.p.Load().giveUp()
		if err := t.open(); err != nil {
			return err
		}
	}
	p := t.p.Load()
	t.asked = true
	for n := 1; ; n++ {
		err := t.prove(ctx, p)
		if err == nil {
			t.set(txnReady, false)
			return nil
		}
		cause := p.cause(err)
		course := broker.CourseOf(cause)
		if ctx.Err() != nil || course != broker.CourseRetry && course != broker.CourseUnknown {
			return t.fail("prove", cause)
		}
		if !pause(ctx, p.c.cfg.backoff(n)) {
			return t.fail("prove", cause)
		}
	}
}

// oldest are the versions without which a transaction cannot be fenced by the group's generation.
var oldest = map[kmsg.Key]int16{kmsg.InitProducerID: 3, kmsg.TxnOffsetCommit: 3}

func (t *Transactions) prove(ctx context.Context, p *Producer) error {
	versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, p.c.Client)
	if err != nil {
		return err
	}
	if err := codeErr(versions.ErrorCode); err != nil {
		return err
	}
	has := make(map[int16]int16, len(versions.ApiKeys))
	for _, k := range versions.ApiKeys {
		has[k.ApiKey] = k.MaxVersion
	}
	for key, least := range oldest {
		if most, ok := has[key.Int16()]; !ok || most < least {
			return fmt.Errorf("%w: exactly-once needs brokers from Apache Kafka 2.5 on (%s v%d), these know up to v%d",
				broker.CodeUnsupportedVersion, key.Name(), least, most)
		}
	}
	t.add = true
	for _, f := range versions.FinalizedFeatures {
		if f.Name == "transaction.version" && f.MaxVersionLevel >= 2 && has[kmsg.TxnOffsetCommit.Int16()] >= 5 {
			t.add = false
		}
	}
	if t.pid, err = t.current(ctx, p); err != nil {
		return err
	}
	return t.only.prove(ctx, p.c)
}

// current is the client's producer id and epoch, which it asks for if it has none.
func (t *Transactions) current(ctx context.Context, p *Producer) (producerID, error) {
	id, epoch, err := p.c.ProducerID(ctx)
	if err == nil && id < 0 { // franz-go goes on without an id if the brokers do not know the request
		err = fmt.Errorf("%w: the brokers do not know transactions", broker.CodeUnsupportedVersion)
	}
	return producerID{id, epoch}, err
}

// Begin implements broker.Transactions.
func (t *Transactions) Begin() error {
	switch {
	case t.isClosed():
		return broker.ErrClosed
	case t.at() == txnOpen, t.at() == txnOffsets:
		return t.fail("begin", fmt.Errorf("%w: a transaction is open", broker.CodeInvalidTxnState))
	case t.at() != txnReady || t.lost:
		return t.fail("begin", fmt.Errorf("%w: Prove must come first", broker.CodeInvalidTxnState))
	}
	p := t.p.Load()
	t.tally.asked.Store(false)
	t.tally.acked.Store(false)
	t.tally.failed.Store(nil)
	if err := p.c.BeginTransaction(); err != nil {
		t.set(txnUnproven, true)
		return t.fail("begin", p.cause(err))
	}
	t.state.Store(uint32(txnOpen))
	return nil
}

// Produce implements broker.Producer. Outside of a transaction it answers with INVALID_TXN_STATE at once.
func (t *Transactions) Produce(r broker.ProduceRecord, done func(offset int64, err error)) {
	if t.at() != txnOpen {
		err := fmt.Errorf("%w: no transaction is open that takes records", broker.CodeInvalidTxnState)
		if t.isClosed() {
			err = broker.ErrClosed
		}
		done(-1, &broker.ProduceError{TopicPartition: broker.TopicPartition{Topic: r.Topic, Partition: r.Partition}, Err: err})
		return
	}
	t.tally.waiting.Add(1)
	if !t.tally.asked.Load() {
		t.tally.asked.Store(true)
	}
	t.p.Load().Produce(r, done)
}

// BufferedBytes implements broker.Producer.
func (t *Transactions) BufferedBytes() int64 { return t.p.Load().BufferedBytes() }

// Flush implements broker.Producer.
func (t *Transactions) Flush(ctx context.Context) error {
	switch {
	case t.isClosed():
		return broker.ErrClosed
	case t.at() != txnOpen:
		return ctx.Err() // nothing lingers
	}
	return t.p.Load().Flush(ctx)
}

// Close implements broker.Producer. An open transaction stays open until its id is proved again or its time is over.
func (t *Transactions) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.only.close()
	t.p.Load().Close()
}

func (t *Transactions) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// CommitOffsets implements broker.Transactions.
func (t *Transactions) CommitOffsets(ctx context.Context, group string, id broker.Identity, offsets map[broker.TopicPartition]broker.OffsetMeta) error {
	what := fmt.Sprintf("commit offsets of %d partitions of group %s", len(offsets), group)
	if err := t.usable(what); err != nil {
		return err
	}
	if t.tally.asked.Load() && !t.tally.acked.Load() {
		// franz-go would not send the end of such a transaction, and the offsets would go into the next one.
		return t.fail(what, errNoAcknowledged)
	}
	if len(offsets) == 0 {
		return nil
	}
	p := t.p.Load()
	err := t.same(ctx, p)
	for err == nil {
		if t.tally.asked.Load() {
			err = t.sendOffsets(ctx, p.c, t.id, t.pid, group, id, offsets)
		} else {
			err = t.commitOffsetsOnly(ctx, p, group, id, offsets)
		}
		if !errors.Is(err, broker.CodeConcurrentTransactions) || broker.CourseOf(err) != broker.CourseRetry || !pause(ctx, concurrentPause) {
			break
		}
		err = nil
	}
	if err == nil {
		return nil
	}
	var refused *broker.CommitError
	if !errors.As(err, &refused) {
		err = t.fail(what, p.cause(err))
	}
	if c := broker.CourseOf(err); c == broker.CourseUnknown || c == broker.CourseRebuild {
		t.lost = true
	}
	return err
}

// sendOffsets sends the offsets once, in the transaction of a transactional id.
func (t *Transactions) sendOffsets(ctx context.Context, cl *conn, txn string, pid producerID, group string, id broker.Identity, offsets map[broker.TopicPartition]broker.OffsetMeta) error {
	if t.add {
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = txn, pid.id, pid.epoch, group
		resp, err := req.RequestWith(ctx, cl.Client)
		if err != nil {
			return err
		}
		if err := codeErr(resp.ErrorCode); err != nil {
			return err
		}
	}
	c, err := t.meta.commit(ctx, group, id, offsets)
	if err != nil {
		return err
	}
	if len(c.topics) == 0 {
		return c.err()
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = txn, pid.id, pid.epoch
	req.Group, req.MemberID, req.InstanceID, req.Generation = group, id.MemberID, c.instance(), id.Generation
	for _, ct := range c.topics {
		rt := kmsg.NewTxnOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = ct.name, ct.id
		for _, n := range ct.partitions {
			o := c.offset(ct.name, n)
			rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = n, o.Offset, o.Epoch, kmsg.StringPtr(o.Metadata)
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, cl.Client)
	if err != nil {
		return err
	}
	for _, rt := range resp.Topics {
		for _, rp := range rt.Partitions {
			c.answer(resp.Version >= 6, rt.Topic, rt.TopicID, rp.Partition, rp.ErrorCode)
		}
	}
	return c.err()
}

// same is an error unless the client still writes under the id and epoch that the transaction began with. After some
// errors, and where it thinks that a broker has only forgotten it, it takes the next epoch by itself: that aborts what was
// written before, and what is written then belongs to another transaction.
func (t *Transactions) same(ctx context.Context, p *Producer) error {
	now, err := t.current(ctx, p)
	if err == nil && now != t.pid {
		err = fmt.Errorf("%w within the transaction (%d, not %d)", broker.ErrNextEpoch, now.epoch, t.pid.epoch)
	}
	return err
}

// End implements broker.Transactions. If the context ends while an abort waits for answers that are on their way, the
// client is closed.
func (t *Transactions) End(ctx context.Context, commit bool) error {
	if t.at() == txnOffsets && !t.isClosed() {
		return t.endOffsetsOnly(ctx, t.p.Load(), commit)
	}
	if commit {
		return t.commit(ctx)
	}
	return t.abort(ctx)
}

func (t *Transactions) commit(ctx context.Context) error {
	const what = "commit"
	if err := t.usable(what); err != nil {
		return err
	}
	if n := t.tally.waiting.Load(); n > 0 {
		return t.fail(what, fmt.Errorf("%d records have no answer yet", n))
	}
	if failed := t.tally.failed.Load(); failed != nil {
		return t.fail(what, fmt.Errorf("a record failed: %w", *failed))
	}
	p := t.p.Load()
	if err := t.same(ctx, p); err != nil {
		t.lost = true
		return t.fail(what, p.cause(err))
	}
	err := t.end(ctx, p, kgo.TryCommit)
	if err != nil {
		t.set(txnUnproven, true)
		return t.fail(what, p.cause(err))
	}
	_ = t.ended(ctx, p) // it is committed; Begin tells the rest
	return nil
}

// end ends the transaction and makes sure that it was told to the coordinator.
func (t *Transactions) end(ctx context.Context, p *Producer, how kgo.TransactionEndTry) error {
	if err := t.settle(ctx, p); err != nil {
		return err
	}
	before := t.ends.Load()
	if err := p.c.EndTransaction(ctx, how); err != nil {
		return err
	}
	if t.tally.acked.Load() && t.ends.Load() == before {
		if now, err := t.current(ctx, p); how == kgo.TryAbort && err == nil && now != t.pid {
			return nil // the next epoch was the abort
		}
		return fmt.Errorf("%w: the client did not send the end of the transaction", broker.CodeInvalidTxnState)
	}
	return nil
}

// settle waits until franz-go knows what has been written. It sends the first records of a topic before it has stored the
// topic's partitions, and asks only stored ones at the end of a transaction: a record that was acknowledged in between is
// forgotten, and a commit turned into nothing or, with transaction.version 2, into an abort, without an error. Both steps
// are done under one lock, which AbortBufferedRecords takes. By now no record is left that it could fail.
func (t *Transactions) settle(ctx context.Context, p *Producer) error {
	return p.c.AbortBufferedRecords(ctx)
}

func (t *Transactions) abort(ctx context.Context) error {
	const what = "abort"
	if err := t.opened(what); err != nil {
		return err
	}
	p := t.p.Load()
	err := p.c.AbortBufferedRecords(ctx)
	if err == nil && p.expired.Load() {
		err = context.DeadlineExceeded // what was failed may still be on its way
	}
	if err == nil {
		err = t.end(ctx, p, kgo.TryAbort)
	}
	if err == nil {
		// After some errors franz-go leaves the abort to the next epoch, which this call takes; and a producer whose
		// transaction the coordinator has aborted is told so only here.
		err = t.ended(ctx, p)
	}
	if err == nil {
		return nil
	}
	err = t.fail(what, p.cause(err))
	t.set(txnUnproven, true)
	p.giveUp() // answers what is left
	return err
}

// ended notes that the transaction is over. The next one begins under the id and epoch that the client has now.
func (t *Transactions) ended(ctx context.Context, p *Producer) error {
	now, err := t.current(ctx, p)
	if err != nil || t.lost {
		t.set(txnUnproven, true)
		return err
	}
	t.pid = now
	t.state.Store(uint32(txnReady))
	return nil
}

func (t *Transactions) at() txnState { return txnState(t.state.Load()) }

func (t *Transactions) set(state txnState, lost bool) {
	t.state.Store(uint32(state))
	t.lost = lost
}

// opened is an error unless a transaction is open.
func (t *Transactions) opened(what string) error {
	if t.isClosed() {
		return broker.ErrClosed
	}
	if at := t.at(); at != txnOpen && at != txnOffsets {
		return t.fail(what, fmt.Errorf("%w: no transaction is open", broker.CodeInvalidTxnState))
	}
	return nil
}

// usable is an error unless something can be asked within the open transaction.
func (t *Transactions) usable(what string) error {
	if err := t.opened(what); err != nil {
		return err
	}
	if t.lost {
		return t.fail(what, fmt.Errorf("%w: an error before has left nothing but Prove", broker.CodeInvalidTxnState))
	}
	return nil
}

// fail says what was done under which id, and what to do about it.
func (t *Transactions) fail(what string, cause error) error {
	hint := ""
	switch {
	case errors.Is(cause, broker.CodeTransactionalIDAuthorizationFailed):
		hint = ": grant WRITE and DESCRIBE on the transactional id"
	case errors.Is(cause, broker.CodeInvalidTransactionTimeout):
		hint = fmt.Sprintf(": transaction.timeout.ms (%v) is above transaction.max.timeout.ms of the brokers", t.timeout)
	case errors.Is(cause, broker.CodeProducerFenced), errors.Is(cause, broker.CodeInvalidProducerEpoch):
		hint = fmt.Sprintf(": another producer has taken over the id, or the transaction took longer than transaction.timeout.ms (%v)", t.timeout)
	}
	return fmt.Errorf("millrace: transactional id %s: %s: %w%s", t.id, what, cause, hint)
}

// pause waits; false means that the context has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
