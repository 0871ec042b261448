package kgoclient

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/millrace-io/millrace/internal/broker"
)

// A transaction without records is ended at the coordinator, and what the brokers hear of it late has no effect: its epoch is over.
func TestTransactions_bareCopiesThatComeLate(t *testing.T) {
	p := newTxnPlace(t)
	txn := p.proved(t)
	p.w.set(kmsg.EndTxn, passes, -1) // counts
	p.begunBare(t, txn, p.id, 1)
	old := txn.only.pid
	ended(t, txn, true)
	if n := p.w.hits(kmsg.EndTxn); n != 1 {
		t.Fatalf("%d ends were sent", n)
	}
	copyOf := func(n int64) error {
		return txn.sendOffsets(testCtx(t), txn.p.Load().c, txn.only.id, old, p.group, p.id, p.offsetsTo(n))
	}
	p.begun(t, txn, "a")
	wantCourse(t, "a copy while a transaction with records is open", copyOf(1), broker.CourseRebuild)
	p.sentOffsets(t, txn, p.id, 2)
	wantCourse(t, "a copy behind its offsets", copyOf(1), broker.CourseRebuild)
	ended(t, txn, true)
	p.shows(t, 2, "a")
	p.begunBare(t, txn, p.id, 3)
	wantCourse(t, "a copy while the next one is open", copyOf(1), broker.CourseRebuild)
	late := offsetsOnly{id: txn.only.id, pid: old}
	if err := late.end(testCtx(t), txn.p.Load().c, true); err == nil {
		t.Error("a late end was taken while the next transaction is open")
	}
	if _, err := p.admin.CommittedOffsets(shortCtx(t), p.group, tp(p.in, 0)); err == nil {
		t.Error("a late end has committed the next transaction")
	}
	ended(t, txn, true)
	p.shows(t, 3, "a")
}

// Offsets without records, or their end, that get no answer leave it open whether they are committed, until the id is proved.
func TestTransactions_bareWithoutAnswer(t *testing.T) {
	for _, x := range []struct {
		name      string
		opts      []kfake.Opt
		key       kmsg.Key
		fault     wireFault
		committed bool
	}{
		{"offsets, taken", nil, kmsg.TxnOffsetCommit, losesReply, false},
		{"offsets, not taken", nil, kmsg.TxnOffsetCommit, losesAsk, false},
		{"end, taken", nil, kmsg.EndTxn, losesReply, true},
		{"end, not taken", nil, kmsg.EndTxn, losesAsk, false},
		{"end, taken, transaction.version 0", []kfake.Opt{kfake.MaxVersions(kversion.V3_9_0())}, kmsg.EndTxn, losesReply, true},
		{"offsets, taken, transaction.version 0", []kfake.Opt{kfake.MaxVersions(kversion.V3_9_0())}, kmsg.TxnOffsetCommit, losesReply, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			p := newTxnPlace(t, x.opts...)
			txn := p.proved(t)
			p.begunBare(t, txn, p.id, 1)
			ended(t, txn, true)
			begun(t, txn)
			ctx, cancel := context.WithTimeout(testCtx(t), 200*time.Millisecond)
			defer cancel()
			p.w.set(x.key, x.fault, -1)
			err := txn.CommitOffsets(ctx, p.group, p.id, p.offsetsTo(2))
			if x.key == kmsg.EndTxn {
				if err != nil {
					t.Fatal(err)
				}
				err = txn.End(ctx, true)
			}
			wantCourse(t, "the request", err, broker.CourseUnknown, broker.ErrNoAnswer)
			p.w.set(x.key, passes, 0)
			if x.key == kmsg.TxnOffsetCommit {
				wantCourse(t, "commit", txn.End(testCtx(t), true), broker.CourseRebuild)
			}
			wantCourse(t, "begin", txn.Begin(), broker.CourseRebuild)
			proved(t, txn)
			want := int64(1)
			if x.committed {
				want = 2
			}
			p.shows(t, want)
			p.begunBare(t, txn, p.id, 3)
			ended(t, txn, true)
			p.shows(t, 3)
		})
	}
}

// In a cluster that has not been brought to transaction.version 2 a request without an answer is not sent again by itself: there its
// epoch would not keep the copy out of the next transaction.
func TestTransactions_bareIsSentOnce(t *testing.T) {
	p := newTxnPlace(t, kfake.MaxVersions(kversion.V3_9_0()))
	txn := p.proved(t)
	begun(t, txn)
	p.w.set(kmsg.TxnOffsetCommit, losesReply, -1)
	if err := p.sendOffsets(t, txn, p.id, 1); !errors.Is(err, broker.ErrNoAnswer) {
		t.Errorf("offsets: %v", err)
	}
	if n := p.w.hits(kmsg.TxnOffsetCommit); n != 1 {
		t.Errorf("offsets were sent %d times", n)
	}
}
