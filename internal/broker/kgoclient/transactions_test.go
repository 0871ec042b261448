package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/millrace-io/millrace/internal/broker"
)

// txnPlace is a place on brokers whose faults can be scripted; the transactional client speaks to them over the wire.
type txnPlace struct {
	place
	c   *kfake.Cluster
	cfg Config
	w   *wire
	id  broker.Identity
}

func newTxnPlace(t *testing.T, opts ...kfake.Opt) *txnPlace {
	c, cfg := startCluster(t, opts...)
	topic(t, c, "in", 1, nil)
	topic(t, c, "out", 2, nil)
	p := &txnPlace{place: placeOn(t, cfg, usual), c: c, w: new(wire)}
	p.id = p.rebalance(t)
	p.cfg = p.w.over(cfg)
	return p
}

// proved opens a client and proves it.
func (p *txnPlace) proved(t *testing.T) *Transactions {
	t.Helper()
	x := newTransactions(t, p.cfg, "x")
	proved(t, x)
	return x
}

func TestTransactions_endWithoutAnswer(t *testing.T) {
	for _, x := range []struct {
		name      string
		fault     wireFault
		committed bool
	}{{"it took effect", losesReply, true}, {"it did not", losesAsk, false}} {
		t.Run(x.name, func(t *testing.T) {
			p := newTxnPlace(t)
			txn := p.proved(t)
			p.begun(t, txn, "a")
			p.sentOffsets(t, txn, p.id, 1)
			p.w.set(kmsg.EndTxn, x.fault, -1)
			ctx, cancel := context.WithTimeout(testCtx(t), 200*time.Millisecond)
			defer cancel()
			wantCourse(t, "commit", txn.End(ctx, true), broker.CourseUnknown, broker.ErrNoAnswer)
			if p.w.hits(kmsg.EndTxn) == 0 {
				t.Fatal("the end was not sent")
			}
			p.w.set(kmsg.EndTxn, passes, 0)
			wantCourse(t, "begin", txn.Begin(), broker.CourseRebuild)
			proved(t, txn)
			var offset int64 = -1
			var records []string
			if x.committed {
				offset, records = 1, []string{"a"}
			}
			p.shows(t, offset, records...)
			p.begun(t, txn, "b")
			p.sentOffsets(t, txn, p.id, 2)
			ended(t, txn, true)
			p.shows(t, 2, append(records, "b")...)
		})
	}
}

// One lost answer is no reason to give up: the end is sent again.
func TestTransactions_endIsSentAgain(t *testing.T) {
	for _, fault := range []wireFault{losesReply, losesAsk} {
		for _, opts := range [][]kfake.Opt{nil, {kfake.MaxVersions(kversion.V3_9_0())}} {
			p := newTxnPlace(t, opts...)
			txn := p.proved(t)
			var want []string
			for i := range 3 {
				v := fmt.Sprint(i)
				p.begun(t, txn, v)
				p.sentOffsets(t, txn, p.id, int64(i))
				p.w.set(kmsg.EndTxn, fault, 1+i) // the second one on a fresh connection
				ended(t, txn, true)
				if p.w.hits(kmsg.EndTxn) != 1+i {
					t.Error("nothing was lost")
				}
				want = append(want, v)
			}
			p.w.set(kmsg.EndTxn, passes, 0)
			p.begun(t, txn, "end")
			p.sentOffsets(t, txn, p.id, 10)
			ended(t, txn, true)
			p.shows(t, 10, append(want, "end")...)
		}
	}
}

func TestTransactions_offsetsWithoutAnswer(t *testing.T) {
	p := newTxnPlace(t)
	txn := p.proved(t)
	p.begun(t, txn, "a")
	p.w.set(kmsg.TxnOffsetCommit, losesReply, -1)
	ctx, cancel := context.WithTimeout(testCtx(t), 200*time.Millisecond)
	defer cancel()
	wantCourse(t, "offsets", txn.CommitOffsets(ctx, "app", p.id, p.offsetsTo(1)), broker.CourseUnknown, broker.ErrNoAnswer)
	wantCourse(t, "commit", txn.End(testCtx(t), true), broker.CourseRebuild)
	ended(t, txn, false)
	wantCourse(t, "begin", txn.Begin(), broker.CourseRebuild)
	p.w.set(kmsg.TxnOffsetCommit, passes, 0)
	proved(t, txn)
	p.shows(t, -1)
	p.begun(t, txn, "b")
	p.sentOffsets(t, txn, p.id, 2)
	ended(t, txn, true)
	p.shows(t, 2, "b")
}

// A transaction that took too long is aborted by its coordinator.
func TestTransactions_coordinatorTimesItOut(t *testing.T) {
	for _, x := range []struct {
		name string
		call func(*testing.T, *txnPlace, broker.Transactions) error
	}{
		{"commit", func(t *testing.T, _ *txnPlace, x broker.Transactions) error { return x.End(testCtx(t), true) }},
		{"offsets", func(t *testing.T, p *txnPlace, x broker.Transactions) error { return p.sendOffsets(t, x, p.id, 1) }},
		{"record and abort", func(t *testing.T, p *txnPlace, x broker.Transactions) error {
			if err := p.produce(t, x, "b"); broker.ProduceClassOf(err) != broker.ProduceBroken {
				t.Errorf("record: %v", err)
			}
			return x.End(testCtx(t), false)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			p := newTxnPlace(t)
			txn, err := NewTransactions(p.cfg, "x", 400*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(txn.Close)
			proved(t, txn)
			p.begun(t, txn, "a")
			for { // until its marker is there
				end, err := p.admin.ListOffsets(testCtx(t), broker.StableEnd, tp("out", 0))
				if err != nil {
					t.Fatal(err)
				}
				if end[tp("out", 0)] > 0 {
					break
				}
			}
			wantCourse(t, x.name, x.call(t, p, txn), broker.CourseRebuild)
			wantCourse(t, "begin", txn.Begin(), broker.CourseRebuild)
			proved(t, txn)
			p.begun(t, txn, "c")
			ended(t, txn, true)
			p.shows(t, -1, "c")
		})
	}
}

func TestTransactions_passingStatesAreWaitedOut(t *testing.T) {
	p := newTxnPlace(t)
	txn := newTransactions(t, p.cfg, "x")
	init := p.c.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.ConcurrentTransactions, Count: 2},
		kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.CoordinatorLoadInProgress, Count: 2},
		kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: 2},
	)
	p.w.set(kmsg.InitProducerID, losesAsk, 2)
	proved(t, txn)
	if init.Hits() != 6 || p.w.hits(kmsg.InitProducerID) != 2 {
		t.Errorf("%d and %d faults have struck", init.Hits(), p.w.hits(kmsg.InitProducerID))
	}
	p.begun(t, txn, "a")
	offsets := p.c.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.ConcurrentTransactions, Count: 2},
		kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.NotCoordinator, Count: 1},
	)
	p.sentOffsets(t, txn, p.id, 1)
	if offsets.Hits() != 3 {
		t.Errorf("%d faults have struck", offsets.Hits())
	}
	end := p.c.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.ConcurrentTransactions, Count: 1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.NotCoordinator, Count: 1},
	)
	ended(t, txn, true)
	if end.Hits() != 2 {
		t.Errorf("%d faults have struck", end.Hits())
	}
	p.shows(t, 1, "a")
}

func TestTransactions_proveEndsWithItsContext(t *testing.T) {
	p := newTxnPlace(t)
	txn := newTransactions(t, p.cfg, "x")
	f := p.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.ConcurrentTransactions, Count: -1})
	ctx, cancel := context.WithTimeout(testCtx(t), 200*time.Millisecond)
	defer cancel()
	err := txn.Prove(ctx)
	wantCourse(t, "prove", err, broker.CourseUnknown, context.DeadlineExceeded)
	if f.Hits() < 2 {
		t.Errorf("asked %d times", f.Hits())
	}
	f.Remove()
	proved(t, txn)
	p.begun(t, txn, "a")
	ended(t, txn, true)

	p.c.Close()
	ctx, cancel = context.WithTimeout(testCtx(t), 200*time.Millisecond)
	defer cancel()
	wantCourse(t, "prove without a broker", txn.Prove(ctx), broker.CourseUnknown, broker.ErrNoAnswer, broker.ErrUnreachable)
}

func TestTransactions_errorsHaveTheirCourse(t *testing.T) {
	for _, x := range []struct {
		key    kmsg.Key
		err    *kerr.Error
		course broker.Course
		says   string
	}{
		{kmsg.InitProducerID, kerr.TransactionalIDAuthorizationFailed, broker.CourseStop, "transactional id x: prove: TRANSACTIONAL_ID_AUTHORIZATION_FAILED: grant"},
		{kmsg.FindCoordinator, kerr.TransactionalIDAuthorizationFailed, broker.CourseStop, "grant WRITE and DESCRIBE"},
		{kmsg.InitProducerID, kerr.InvalidTransactionTimeout, broker.CourseStop, "transaction.max.timeout.ms"},
		{kmsg.InitProducerID, kerr.InvalidProducerEpoch, broker.CourseRebuild, "another producer"},
		{kmsg.TxnOffsetCommit, kerr.GroupAuthorizationFailed, broker.CourseStop, "GROUP_AUTHORIZATION_FAILED for in-0"},
		{kmsg.TxnOffsetCommit, kerr.TransactionalIDAuthorizationFailed, broker.CourseStop, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"},
		{kmsg.TxnOffsetCommit, kerr.RebalanceInProgress, broker.CourseAwaitRebalance, ""},
		{kmsg.TxnOffsetCommit, kerr.FencedInstanceID, broker.CourseLost, ""},
		{kmsg.TxnOffsetCommit, kerr.TransactionAbortable, broker.CourseAbort, ""},
		{kmsg.TxnOffsetCommit, kerr.UnsupportedVersion, broker.CourseStop, ""},
		{kmsg.TxnOffsetCommit, kerr.InvalidProducerIDMapping, broker.CourseRebuild, ""},
		{kmsg.EndTxn, kerr.InvalidTxnState, broker.CourseRebuild, "transactional id x: commit: INVALID_TXN_STATE"},
		{kmsg.EndTxn, kerr.InvalidProducerIDMapping, broker.CourseRebuild, ""},
		{kmsg.EndTxn, kerr.TransactionAbortable, broker.CourseAbort, ""},
		{kmsg.EndTxn, kerr.ProducerFenced, broker.CourseRebuild, "transaction.timeout.ms (30s)"},
		{kmsg.EndTxn, kerr.TransactionalIDAuthorizationFailed, broker.CourseStop, "grant WRITE"},
		{kmsg.Produce, kerr.InvalidTxnState, broker.CourseRebuild, ""},
		{kmsg.Produce, kerr.InvalidProducerIDMapping, broker.CourseRebuild, ""},
		{kmsg.Produce, kerr.TransactionAbortable, broker.CourseAbort, ""},
		{kmsg.Produce, kerr.TransactionalIDAuthorizationFailed, broker.CourseStop, "on the transactional id"},
	} {
		t.Run(x.key.Name()+"/"+x.err.Message, func(t *testing.T) {
			p := newTxnPlace(t)
			txn := newTransactions(t, p.cfg, "x")
			fault := p.c.Fault(kfake.Fault{Keys: []kmsg.Key{x.key}, Err: x.err})
			err := txn.Prove(testCtx(t))
			if x.key != kmsg.InitProducerID {
				p.begunBut(t, txn, &err)
			}
			if x.key == kmsg.TxnOffsetCommit {
				err = p.sendOffsets(t, txn, p.id, 1)
			} else if x.key == kmsg.EndTxn {
				err = txn.End(testCtx(t), true)
			}
			wantCourse(t, "error", err, x.course, broker.Code(x.err.Code))
			if fault.Hits() != 1 {
				t.Errorf("the fault struck %d times", fault.Hits())
			}
			if err != nil && (!strings.Contains(err.Error(), x.says) || !strings.HasPrefix(err.Error(), "millrace: ")) {
				t.Errorf("%q does not say %q", err, x.says)
			}
			if x.key == kmsg.Produce && broker.ProduceClassOf(err) != broker.ProduceBroken && broker.ProduceClassOf(err) != broker.ProduceForbidden {
				t.Errorf("class %v", broker.ProduceClassOf(err))
			}
			proved(t, txn)
			p.begun(t, txn, "after")
			p.sentOffsets(t, txn, p.id, 2)
			ended(t, txn, true)
			p.shows(t, 2, "after")
		})
	}
}

// begunBut begins a transaction with a record that may fail.
func (p *txnPlace) begunBut(t *testing.T, x broker.Transactions, err *error) {
	t.Helper()
	if *err == nil {
		*err = x.Begin()
	}
	if *err == nil {
		*err = p.produce(t, x, "a")
	}
}

func TestTransactions_timeoutAboveTheBrokersMaximum(t *testing.T) {
	p := newTxnPlace(t)
	txn, err := NewTransactions(p.cfg, "x", 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(txn.Close)
	wantCourse(t, "prove", txn.Prove(testCtx(t)), broker.CourseStop, broker.CodeInvalidTransactionTimeout)
	for _, wrong := range []time.Duration{0, -time.Second, 26 * 24 * time.Hour} {
		if _, err := NewTransactions(p.cfg, "x", wrong); err == nil {
			t.Errorf("a timeout of %v was taken", wrong)
		}
	}
	if _, err := NewTransactions(p.cfg, "", time.Second); err == nil {
		t.Error("an empty id was taken")
	}
}

// Offsets of old brokers would not be fenced by the group's generation.
func TestTransactions_oldBrokersAreRefused(t *testing.T) {
	p := newTxnPlace(t, kfake.MaxVersions(kversion.V2_4_0()))
	err := newTransactions(t, p.cfg, "x").Prove(testCtx(t))
	wantCourse(t, "prove", err, broker.CourseStop, broker.CodeUnsupportedVersion)
	if err != nil && !strings.Contains(err.Error(), "Apache Kafka 2.5") {
		t.Errorf("%v does not say which brokers it needs", err)
	}
}

func TestTransactions_offsetsOfATopicThatIsNot(t *testing.T) {
	p := newTxnPlace(t)
	txn := p.proved(t)
	p.begun(t, txn, "a")
	offsets := p.offsetsTo(1)
	offsets[tp("gone", 0)] = broker.OffsetMeta{Offset: 1, Epoch: -1}
	err := txn.CommitOffsets(testCtx(t), "app", p.id, offsets)
	wantCourse(t, "offsets", err, broker.CourseAbort, broker.ErrUnknownTopic)
	var ce *broker.CommitError
	if !errors.As(err, &ce) || len(ce.Partitions) != 1 || ce.Partitions[tp("gone", 0)] == 0 {
		t.Errorf("refused: %v", err)
	}
	ended(t, txn, false)
	p.shows(t, -1)
}

func TestTransactions_recordTooLargeDoomsIt(t *testing.T) {
	p := newTxnPlace(t)
	p.cfg.Produce.BatchMaxBytes = 20_000
	txn := p.proved(t)
	p.begun(t, txn, "a")
	if err := p.produce(t, txn, strings.Repeat("b", 50_000)); broker.ProduceClassOf(err) != broker.ProduceRefused {
		t.Errorf("record: %v", err)
	}
	if err := p.produce(t, txn, "c"); err != nil {
		t.Errorf("its neighbour: %v", err)
	}
	wantCourse(t, "commit", txn.End(testCtx(t), true), broker.CourseAbort, broker.ErrRecordTooLarge)
	ended(t, txn, false)
	p.begun(t, txn, "d")
	ended(t, txn, true)
	p.shows(t, -1, "d")
}

// franz-go takes the next epoch by itself where it thinks that a partition's leader has only forgotten the producer. The
// coordinator aborts the transaction then, and what is sent again would be committed without what was sent before.
func TestTransactions_silentEpochWithinATransaction(t *testing.T) {
	p := newTxnPlace(t)
	txn := p.proved(t)
	p.begun(t, txn, "a")
	p.c.ControlKey(kmsg.Produce.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.ProduceRequest)
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range req.Topics {
			st := kmsg.NewProduceResponseTopic()
			st.Topic, st.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				sp := kmsg.NewProduceResponseTopicPartition()
				sp.Partition, sp.ErrorCode, sp.LogStartOffset = rp.Partition, kerr.UnknownProducerID.Code, 1000
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	})
	if err := p.produce(t, txn, "b"); err != nil {
		t.Fatalf("the trap is gone: franz-go reports %v", err)
	}
	wantCourse(t, "offsets", p.sendOffsets(t, txn, p.id, 1), broker.CourseRebuild, broker.ErrNextEpoch)
	wantCourse(t, "commit", txn.End(testCtx(t), true), broker.CourseRebuild)
	proved(t, txn)
	p.shows(t, -1)
	p.begun(t, txn, "c")
	ended(t, txn, true)
	p.shows(t, -1, "c")
}

// An abort does not wait longer than its context for answers that do not come.
func TestTransactions_abortWhileABrokerIsSilent(t *testing.T) {
	p := newTxnPlace(t)
	txn := p.proved(t)
	p.begun(t, txn, "a")
	p.w.set(kmsg.Produce, hangs, 1)
	a := newAcks()
	txn.Produce(broker.ProduceRecord{Topic: "out", Value: []byte("b")}, a.done("b"))
	p.w.struck(kmsg.Produce)
	if err := txn.End(testCtx(t), true); err == nil {
		t.Error("it was committed without an answer to a record")
	}
	ctx, cancel := context.WithTimeout(testCtx(t), 50*time.Millisecond)
	defer cancel()
	wantCourse(t, "abort", txn.End(ctx, false), broker.CourseUnknown, broker.ErrNoAnswer)
	if err := a.of("b").err; !errors.Is(err, broker.ErrAborted) || txn.BufferedBytes() != 0 {
		t.Errorf("record: %v, %d bytes are buffered", err, txn.BufferedBytes())
	}
	wantCourse(t, "begin", txn.Begin(), broker.CourseRebuild)
	proved(t, txn)
	p.begun(t, txn, "c")
	ended(t, txn, true)
	p.shows(t, -1, "c")
}

// franz-go would wait for ever for the answer to a record of a transaction.
func TestTransactions_recordsFailAfterTheDeliveryTimeout(t *testing.T) {
	p := newTxnPlace(t)
	p.cfg.Produce.DeliveryTimeout = 400 * time.Millisecond
	txn := p.proved(t)
	p.begun(t, txn, "a")
	p.w.set(kmsg.Produce, hangs, -1)
	err := p.produce(t, txn, "b")
	wantCourse(t, "record", err, broker.CourseUnknown, broker.ErrNoAnswer)
	if broker.ProduceClassOf(err) != broker.ProduceFailed || !strings.Contains(err.Error(), "delivery.timeout.ms") {
		t.Errorf("record: %v (%v)", err, broker.ProduceClassOf(err))
	}
	p.w.set(kmsg.Produce, passes, 0)
	wantCourse(t, "commit", txn.End(testCtx(t), true), broker.CourseUnknown)
	wantCourse(t, "abort", txn.End(testCtx(t), false), broker.CourseUnknown)
	proved(t, txn)
	p.begun(t, txn, "c")
	ended(t, txn, true)
	p.shows(t, -1, "c")
}

func TestTransactions_deliveryTimeoutIsBelowTheTransactionsOwn(t *testing.T) {
	x, err := NewTransactions(Config{Bootstrap: []string{"127.0.0.1:1"}}, "x", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	if got := x.cfg.Produce.DeliveryTimeout; got != 7500*time.Millisecond {
		t.Errorf("delivery timeout %v", got)
	}
}

// What lingers is answered by an abort, by a proof, and by Close.
func TestTransactions_everyRecordIsAnswered(t *testing.T) {
	p := newTxnPlace(t)
	p.cfg.Produce.Linger = time.Minute
	for _, x := range []struct {
		name string
		call func(*Transactions) error
		want error
	}{
		{"abort", func(x *Transactions) error { return x.End(testCtx(t), false) }, broker.ErrAborted},
		{"prove", func(x *Transactions) error { return x.Prove(testCtx(t)) }, broker.ErrAborted},
		{"close", func(x *Transactions) error { x.Close(); return nil }, broker.ErrClosed},
	} {
		txn := p.proved(t)
		if err := txn.Begin(); err != nil {
			t.Fatal(err)
		}
		a := newAcks()
		for i := range 10 {
			txn.Produce(broker.ProduceRecord{Topic: "out", Partition: int32(i % 2), Value: []byte("v")}, a.done(fmt.Sprint(i)))
		}
		if err := x.call(txn); err != nil {
			t.Fatal(err)
		}
		if len(a.log) != 10 || txn.BufferedBytes() != 0 {
			t.Errorf("%s: %d of 10 answered", x.name, len(a.log))
		}
		for name, got := range a.got {
			var pe *broker.ProduceError
			if !errors.Is(got.err, x.want) || got.offset != -1 || !errors.As(got.err, &pe) || pe.Topic != "out" {
				t.Errorf("%s: %s: %+v", x.name, name, got)
			}
		}
	}
	p.shows(t, -1)
}

func TestTransactions_manyInARow(t *testing.T) {
	for _, opts := range [][]kfake.Opt{nil, {kfake.MaxVersions(kversion.V3_9_0())}} {
		p := newTxnPlace(t, opts...)
		txn := p.proved(t)
		const n = 300
		var want []string
		offset := int64(-1)
		for i := range n {
			if err := txn.Begin(); err != nil {
				t.Fatal(err)
			}
			a := newAcks()
			for k := range 3 {
				v := fmt.Sprintf("%d/%d", i, k)
				txn.Produce(broker.ProduceRecord{Topic: "out", Value: []byte(v)}, a.done(v))
				if i%3 != 1 {
					want = append(want, v)
				}
			}
			a.wait(3)
			p.sentOffsets(t, txn, p.id, int64(i))
			ended(t, txn, i%3 != 1)
			if i%3 != 1 {
				offset = int64(i)
			}
		}
		p.shows(t, offset, want...)
	}
}

// franz-go must not forget what it has written to a topic that it has just learnt of: see settle. Without it, this fails
// now and then where the scheduler is slow, as under the race detector.
func TestTransactions_firstRecordsOfATopic(t *testing.T) {
	for _, opts := range [][]kfake.Opt{nil, {kfake.MaxVersions(kversion.V3_9_0())}} {
		p := newTxnPlace(t, opts...)
		txn := p.proved(t)
		for i := range 30 {
			p.out = fmt.Sprint("new", i)
			topic(t, p.c, p.out, 1, nil)
			p.begun(t, txn, "a")
			ended(t, txn, true)
			p.shows(t, -1, "a")
			p.begun(t, txn, "b")
			ended(t, txn, false)
			p.shows(t, -1, "a")
		}
	}
}
