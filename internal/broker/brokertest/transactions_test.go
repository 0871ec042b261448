package brokertest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
)

var (
	txnOut = brokertest.TP("out", 0)
	txnIn  = brokertest.TP("in", 0)
)

// txnSetup is a cluster with a topic to read and one to write, a group with one member, and a proved producer.
func txnSetup(t *testing.T, opts ...brokertest.Option) (*brokertest.Cluster, *brokertest.Group, *brokertest.Membership, *brokertest.Transactions) {
	t.Helper()
	c := brokertest.New(opts...)
	c.AddTopic("in", 1)
	c.AddTopic("out", 2)
	g := c.Group("app")
	m := g.Join()
	g.Assign(map[*brokertest.Membership][]broker.TaskID{m: nil})
	x := c.Transactions("x")
	if err := x.Prove(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, g, m, x
}

// write begins a transaction with one acknowledged record.
func write(t *testing.T, x *brokertest.Transactions, v string) {
	t.Helper()
	if err := x.Begin(); err != nil {
		t.Fatal(err)
	}
	more(t, x, v)
}

func more(t *testing.T, x *brokertest.Transactions, v string) {
	t.Helper()
	answered := false
	x.Produce(broker.ProduceRecord{Topic: "out", Value: []byte(v)}, func(_ int64, err error) {
		answered = true
		if err != nil {
			t.Error(err)
		}
	})
	x.Deliver()
	if !answered {
		t.Fatalf("%s was not answered", v)
	}
}

func sendOffset(t *testing.T, x *brokertest.Transactions, m *brokertest.Membership, offset int64) error {
	t.Helper()
	id, _ := m.Identity()
	return x.CommitOffsets(t.Context(), "app", id, map[broker.TopicPartition]broker.OffsetMeta{txnIn: {Offset: offset, Metadata: "m"}})
}

func wantCourse(t *testing.T, what string, err error, want broker.Course, is ...error) {
	t.Helper()
	if got := broker.CourseOf(err); got != want {
		t.Errorf("%s: course %v of %v, want %v", what, got, err, want)
	}
	for _, e := range is {
		if !errors.Is(err, e) {
			t.Errorf("%s: %v is not %v", what, err, e)
		}
	}
}

func TestTransactions_commitAndAbort(t *testing.T) {
	c, g, m, x := txnSetup(t)
	write(t, x, "a")
	if err := sendOffset(t, x, m, 1); err != nil {
		t.Fatal(err)
	}
	if n := len(c.Records(txnOut)); n != 0 || !c.OpenTxn("x") {
		t.Errorf("%d committed records in the open transaction", n)
	}
	if _, err := c.Admin().CommittedOffsets(t.Context(), "app", txnIn); !errors.Is(err, broker.CodeUnstableOffsetCommit) {
		t.Errorf("offsets over the open transaction: %v", err)
	}
	if err := x.End(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	wantValues(t, c.Records(txnOut), "a")
	if o := g.Committed(txnIn); o.Offset != 1 || o.Metadata != "m" {
		t.Errorf("committed %+v", o)
	}

	write(t, x, "b")
	if err := sendOffset(t, x, m, 2); err != nil {
		t.Fatal(err)
	}
	x.HoldAcks()
	var got error
	x.Produce(broker.ProduceRecord{Topic: "out", Value: []byte("c")}, func(_ int64, err error) { got = err })
	x.Deliver()
	if err := x.End(t.Context(), true); err == nil {
		t.Error("a commit with a record that has no answer was taken")
	}
	if err := x.End(t.Context(), false); err != nil || !errors.Is(got, broker.ErrAborted) {
		t.Errorf("abort: %v, its record: %v", err, got)
	}
	x.Release()
	wantValues(t, c.Records(txnOut), "a")
	if o := g.Committed(txnIn); o.Offset != 1 || c.OpenTxn("x") {
		t.Errorf("after the abort: committed %+v", o)
	}
	write(t, x, "d")
	if err := x.End(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	wantValues(t, c.Records(txnOut), "a", "d")
	var ops []brokertest.Op
	for _, call := range c.Calls() {
		if call.Txn == "x" {
			ops = append(ops, call.Op)
		}
	}
	want := []brokertest.Op{
		brokertest.OpProve, brokertest.OpBegin, brokertest.OpTxnOffsets, brokertest.OpEndTxn, brokertest.OpBegin,
		brokertest.OpTxnOffsets, brokertest.OpEndTxn, brokertest.OpBegin, brokertest.OpEndTxn,
	}
	if d := cmp.Diff(want, ops); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
}

func TestTransactions_aLaterObjectFencesTheEarlier(t *testing.T) {
	c, g, m, x := txnSetup(t)
	write(t, x, "old")
	if err := sendOffset(t, x, m, 1); err != nil {
		t.Fatal(err)
	}
	y := c.Transactions("x")
	if err := y.Prove(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got error
	x.Produce(broker.ProduceRecord{Topic: "out"}, func(_ int64, err error) { got = err })
	x.Deliver()
	if broker.ProduceClassOf(got) != broker.ProduceBroken {
		t.Errorf("a record of the fenced producer: %v", got)
	}
	wantCourse(t, "offsets", sendOffset(t, x, m, 1), broker.CourseRebuild, broker.CodeProducerFenced)
	wantCourse(t, "abort", x.End(t.Context(), false), broker.CourseRebuild, broker.CodeProducerFenced)
	wantCourse(t, "begin", x.Begin(), broker.CourseRebuild)
	write(t, y, "new")
	if err := y.End(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	wantValues(t, c.Records(txnOut), "new")
	if o := g.Committed(txnIn); o.Offset != -1 {
		t.Errorf("the fenced transaction committed %+v", o)
	}
	if err := x.Prove(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, x, "back")
	if err := x.End(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	wantCourse(t, "begin of y", func() error { _ = y.Begin(); return y.End(t.Context(), true) }(), broker.CourseRebuild)
	wantValues(t, c.Records(txnOut), "new", "back")
}

func TestTransactions_aCommitRefusedForItsGenerationIsTriedAgain(t *testing.T) {
	c, g, m, x := txnSetup(t)
	write(t, x, "a")
	old, _ := m.Identity()
	g.BeginRebalance()
	g.CompleteJoin()
	wantCourse(t, "old generation", sendOffset(t, x, m, 1), broker.CourseAwaitRebalance, broker.CodeIllegalGeneration)
	g.Sync(nil)
	if now, _ := m.Identity(); now.Generation == old.Generation {
		t.Fatal("no new generation")
	}
	if err := sendOffset(t, x, m, 1); err != nil {
		t.Fatal(err)
	}
	g.Expire(m)
	wantCourse(t, "unknown member", sendOffset(t, x, m, 7), broker.CourseLost, broker.CodeUnknownMemberID)
	if err := x.End(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if o := g.Committed(txnIn); o.Offset != 1 {
		t.Errorf("committed %+v", o)
	}
	wantValues(t, c.Records(txnOut), "a")
}

func TestTransactions_anEndWithoutAnswer(t *testing.T) {
	for _, applied := range []bool{true, false} {
		c, _, m, x := txnSetup(t)
		write(t, x, "a")
		if err := sendOffset(t, x, m, 1); err != nil {
			t.Fatal(err)
		}
		c.Inject(brokertest.Fault{Op: brokertest.OpEndTxn, Err: broker.ErrNoAnswer, Applied: applied})
		wantCourse(t, "commit", x.End(t.Context(), true), broker.CourseUnknown)
		wantCourse(t, "begin", x.Begin(), broker.CourseRebuild)
		if err := x.Prove(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := c.Admin().CommittedOffsets(t.Context(), "app", txnIn)
		if err != nil {
			t.Fatal(err)
		}
		if committed := got[txnIn].Offset == 1; committed != applied || len(c.Records(txnOut)) == 1 != applied {
			t.Errorf("applied %t: offsets %+v, %d records", applied, got[txnIn], len(c.Records(txnOut)))
		}
		write(t, x, "b")
		if err := x.End(t.Context(), true); err != nil {
			t.Error(err)
		}
	}
}

func TestTransactions_offsetsWithoutAnswerAskForProve(t *testing.T) {
	c, g, m, x := txnSetup(t)
	write(t, x, "a")
	c.Inject(brokertest.Fault{Op: brokertest.OpTxnOffsets, Err: broker.ErrNoAnswer, Applied: true})
	wantCourse(t, "offsets", sendOffset(t, x, m, 1), broker.CourseUnknown)
	wantCourse(t, "commit", x.End(t.Context(), true), broker.CourseRebuild)
	if err := x.End(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	wantCourse(t, "begin", x.Begin(), broker.CourseRebuild)
	if err := x.Prove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := g.Committed(txnIn); o.Offset != -1 || len(c.Records(txnOut)) != 0 {
		t.Errorf("committed %+v", o)
	}
}

func TestTransactions_theCoordinatorGivesItUp(t *testing.T) {
	c, _, m, x := txnSetup(t)
	write(t, x, "a")
	c.ExpireTxn("x")
	var got error
	x.Produce(broker.ProduceRecord{Topic: "out"}, func(_ int64, err error) { got = err })
	x.Deliver()
	wantCourse(t, "record", got, broker.CourseRebuild, broker.CodeInvalidProducerEpoch)
	wantCourse(t, "offsets", sendOffset(t, x, m, 1), broker.CourseRebuild)
	if err := x.End(t.Context(), false); err != nil {
		t.Errorf("abort: %v", err)
	}
	wantCourse(t, "begin", x.Begin(), broker.CourseRebuild) // the refused offsets ask for it
	if err := x.Prove(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, x, "b")
	c.ExpireTxn("x")
	wantCourse(t, "commit", x.End(t.Context(), true), broker.CourseRebuild, broker.CodeInvalidTxnState)
	if err := x.Prove(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, x, "c")
	c.ExpireTxn("x")
	if err := x.End(t.Context(), false); err != nil {
		t.Errorf("abort: %v", err)
	}
	write(t, x, "d")
	if err := x.End(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if n := len(c.Records(txnOut)); n != 0 {
		t.Errorf("%d records are committed", n)
	}
}

func TestTransactions_markersComeLate(t *testing.T) {
	c, g, m, x := txnSetup(t)
	c.HoldMarkers("x")
	if err := x.Begin(); err != nil {
		t.Fatal(err)
	}
	for p := range int32(2) {
		x.Produce(broker.ProduceRecord{Topic: "out", Partition: p, Value: []byte("a")}, func(int64, error) {})
	}
	x.Deliver()
	if err := sendOffset(t, x, m, 1); err != nil {
		t.Fatal(err)
	}
	if err := x.End(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Admin().CommittedOffsets(t.Context(), "app", txnIn); !errors.Is(err, broker.CodeUnstableOffsetCommit) {
		t.Errorf("offsets before the markers: %v", err)
	}
	if err := x.Begin(); err != nil {
		t.Fatal(err)
	}
	x.Produce(broker.ProduceRecord{Topic: "out", Value: []byte("b")}, func(int64, error) {})
	if x.Deliver() != 0 {
		t.Error("a record of the next transaction was written before the markers of the last one")
	}
	c.WriteMarkers("x", brokertest.TP("out", 1))
	wantValues(t, c.Records(brokertest.TP("out", 1)), "a")
	if n := len(c.Records(txnOut)); n != 0 || g.Committed(txnIn).Offset != -1 {
		t.Errorf("%d records of the partition without a marker", n)
	}
	wantCourse(t, "prove by another", c.Transactions("x").Prove(t.Context()), broker.CourseRetry)
	c.WriteMarkers("x")
	wantValues(t, c.Records(txnOut), "a")
	if g.Committed(txnIn).Offset != 1 || x.Deliver() != 1 {
		t.Error("the end of the transaction was not completed by its last marker")
	}
	if err := x.End(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	wantValues(t, c.Records(txnOut), "a", "b")
}

func TestTransactions_aFailedRecordDoomsIt(t *testing.T) {
	c, _, _, x := txnSetup(t)
	write(t, x, "a")
	x.Fail(brokertest.ProduceFault{Err: broker.CodeMessageTooLarge})
	x.Produce(broker.ProduceRecord{Topic: "out", Value: []byte("b")}, func(int64, error) {})
	x.Deliver()
	err := x.End(t.Context(), true)
	wantCourse(t, "commit", err, broker.CourseAbort, broker.ErrRecordTooLarge)
	if err := x.End(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	write(t, x, "c")
	if err := x.End(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	wantValues(t, c.Records(txnOut), "c")
}

func TestTransactions_offsetsAlone(t *testing.T) {
	c, g, m, x := txnSetup(t)
	begin := func() {
		t.Helper()
		if err := x.Begin(); err != nil {
			t.Fatal(err)
		}
	}
	end := func(commit bool) {
		t.Helper()
		if err := x.End(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
	wantOffset := func(what string, want int64) {
		t.Helper()
		if o := g.Committed(txnIn).Offset; o != want {
			t.Errorf("%s: %d is committed, want %d", what, o, want)
		}
	}
	c.HoldMarkers("x")
	c.Inject(brokertest.Fault{Op: brokertest.OpTxnOffsets, Applied: true, Late: true}) // it comes twice
	begin()
	if err := sendOffset(t, x, m, 1); err != nil || !c.OpenTxn("x") {
		t.Fatal(err)
	}
	var got error
	x.Produce(broker.ProduceRecord{Topic: "out"}, func(_ int64, err error) { got = err })
	x.Deliver()
	wantCourse(t, "record behind offsets", got, broker.CourseRebuild, broker.CodeInvalidTxnState)
	end(false)
	c.WriteMarkers("x")
	wantOffset("aborted", -1)
	c.HoldMarkers("x")
	begin()
	if err := sendOffset(t, x, m, 2); err != nil {
		t.Fatal(err)
	}
	end(true)
	wantOffset("over markers", -1)
	begin()
	wantCourse(t, "offsets over markers", sendOffset(t, x, m, 3), broker.CourseRetry, broker.CodeConcurrentTransactions)
	c.WriteMarkers("x")
	wantOffset("committed", 2)
	if err := sendOffset(t, x, m, 3); err != nil {
		t.Fatal(err)
	}
	wantCourse(t, "the late copy", c.ApplyLate(0).Err, broker.CourseRebuild)
	end(true)
	wantOffset("behind a late copy", 3)
}

func TestTransactions_misuseIsRefused(t *testing.T) {
	c, _, m, x := txnSetup(t)
	y := c.Transactions("y")
	wantCourse(t, "begin without proof", y.Begin(), broker.CourseRebuild)
	wantCourse(t, "end without begin", x.End(t.Context(), true), broker.CourseRebuild)
	var got error
	x.Produce(broker.ProduceRecord{Topic: "out"}, func(_ int64, err error) { got = err })
	x.Deliver()
	wantCourse(t, "record outside", got, broker.CourseRebuild, broker.CodeInvalidTxnState)
	if err := x.Begin(); err != nil {
		t.Fatal(err)
	}
	x.Produce(broker.ProduceRecord{Topic: "out"}, func(_ int64, err error) { got = err })
	if sendOffset(t, x, m, 1) == nil {
		t.Error("offsets were taken of a transaction with a record that nobody has acknowledged")
	}
	x.Close()
	if !errors.Is(got, broker.ErrClosed) || x.BufferedBytes() != 0 {
		t.Errorf("after Close: %v", got)
	}
	for what, err := range map[string]error{
		"prove": x.Prove(t.Context()), "begin": x.Begin(), "offsets": sendOffset(t, x, m, 1),
		"commit": x.End(t.Context(), true), "abort": x.End(t.Context(), false),
	} {
		if !errors.Is(err, broker.ErrClosed) {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
}

func TestInject_holdsARequestBack(t *testing.T) {
	for _, applied := range []bool{false, true} {
		c, _, _, x := txnSetup(t)
		write(t, x, "a")
		held := make(chan struct{})
		f := c.Inject(brokertest.Fault{Op: brokertest.OpEndTxn, Block: true, Applied: applied, Do: func(brokertest.Call) { close(held) }})
		done := make(chan error)
		go func() { done <- x.End(t.Context(), true) }()
		<-held
		if got := len(c.Records(txnOut)) == 1; got != applied {
			t.Errorf("applied %t: took effect %t while it was held", applied, got)
		}
		f.Release()
		if err := <-done; err != nil || len(c.Records(txnOut)) != 1 {
			t.Errorf("after the release: %v", err)
		}
	}
	c, _, _, x := txnSetup(t)
	write(t, x, "a")
	ctx, cancel := context.WithCancel(t.Context())
	c.Inject(brokertest.Fault{Op: brokertest.OpEndTxn, Block: true, Do: func(brokertest.Call) { cancel() }})
	wantCourse(t, "cancelled", x.End(ctx, true), broker.CourseUnknown, context.Canceled)
	if !c.OpenTxn("x") {
		t.Error("the request was lost, but took effect")
	}
}
