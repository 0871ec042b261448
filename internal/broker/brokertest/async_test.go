package brokertest_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
)

// Markers come one by one: each partition has its own last stable offset, offsets are pending until theirs has come, and
// nothing of the next transaction is written before the last one.
func TestTransactions_markersComeOneByOne(t *testing.T) {
	c, g, m, x := txnSetup(t, brokertest.AsyncMarkers())
	write(t, x, "a")
	x.Produce(broker.ProduceRecord{Topic: "out", Partition: 1, Value: []byte("b")}, func(int64, error) {})
	x.Deliver()
	if err := sendOffset(t, x, m, 7); err != nil {
		t.Fatal(err)
	}
	if len(c.Markers()) != 0 {
		t.Errorf("an open transaction has markers: %v", c.Markers())
	}
	if err := x.End(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	all := c.Markers()
	want := []brokertest.Marker{
		{Txn: "x", Commit: true, TopicPartition: brokertest.TP("out", 0)},
		{Txn: "x", Commit: true, TopicPartition: brokertest.TP("out", 1)},
		{Txn: "x", Commit: true, Group: "app"},
	}
	if d := cmp.Diff(want, all); d != "" {
		t.Fatal(d)
	}
	if got := c.OpenTxns(); len(got) != 0 {
		t.Errorf("%v are open, and were decided", got)
	}

	if err := x.Begin(); err != nil {
		t.Fatal(err)
	}
	x.Produce(broker.ProduceRecord{Topic: "out", Value: []byte("c")}, func(int64, error) {})
	c.WriteMarker(all[1])
	if n := x.Write(-1); n != 0 {
		t.Errorf("%d records of the next transaction are written between the markers of this one", n)
	}
	if b := c.Committed(txnOut, 0); len(b.Records) != 0 || b.StableEnd != 0 {
		t.Errorf("partition 0 shows %d records up to %d before its marker", len(b.Records), b.StableEnd)
	}
	if b := c.Committed(brokertest.TP("out", 1), 0); len(b.Records) != 1 {
		t.Errorf("partition 1 shows %d records behind its marker", len(b.Records))
	}
	if _, err := c.Admin().CommittedOffsets(t.Context(), "app", txnIn); !errors.Is(err, broker.CodeUnstableOffsetCommit) {
		t.Errorf("offsets whose marker has not come are given out: %v", err)
	}
	if o, err := c.Admin().Unstable().CommittedOffsets(t.Context(), "app", txnIn); err != nil || o[txnIn].Offset != -1 {
		t.Errorf("without regard to transactions the offset is %v (%v), want none", o, err)
	}
	c.WriteMarker(all[2])
	if at := g.Committed(txnIn).Offset; at != 7 {
		t.Errorf("offset %d is committed, want 7", at)
	}
	if n := x.Write(-1); n != 0 {
		t.Errorf("%d records of the next transaction are written before the last marker", n)
	}
	c.WriteMarker(all[0])
	if n := x.Write(-1); n != 1 || len(c.Markers()) != 0 {
		t.Errorf("%d records are written when all markers have come, %v are left", n, c.Markers())
	}
	if got := c.OpenTxns(); !cmp.Equal(got, []string{"x"}) {
		t.Errorf("%v are open, want x", got)
	}
}

// A request that was given up may still arrive; the coordinator knows it by its epoch.
func TestInject_lateRequest(t *testing.T) {
	c, g, m, x := txnSetup(t)
	write(t, x, "a")
	c.Inject(brokertest.Fault{Op: brokertest.OpTxnOffsets, Err: broker.ErrNoAnswer, Late: true})
	wantCourse(t, "offsets without an answer", sendOffset(t, x, m, 7), broker.CourseUnknown)
	if c.Late() != 1 {
		t.Fatalf("%d requests are late, want 1", c.Late())
	}
	if err := x.Prove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if call := c.ApplyLate(0); call.Op != brokertest.OpTxnOffsets || !errors.Is(call.Err, broker.CodeProducerFenced) {
		t.Errorf("the late request gets %v", call.Err)
	}

	// Of an end without an answer it is open what has become of it until the id is proved.
	write(t, x, "b")
	if err := sendOffset(t, x, m, 8); err != nil {
		t.Fatal(err)
	}
	c.Inject(brokertest.Fault{Op: brokertest.OpEndTxn, Err: broker.ErrNoAnswer, Late: true})
	wantCourse(t, "an end without an answer", x.End(t.Context(), true), broker.CourseUnknown)
	if call := c.ApplyLate(0); call.Err != nil {
		t.Errorf("the end that comes late, but before the next proof, gets %v", call.Err)
	}
	if at := g.Committed(txnIn).Offset; at != 8 {
		t.Errorf("offset %d is committed, want 8", at)
	}

	// A request that arrives twice does nothing the second time.
	if err := x.Prove(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Inject(brokertest.Fault{Op: brokertest.OpEndTxn, Applied: true, Late: true})
	write(t, x, "c")
	if err := x.End(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	write(t, x, "d")
	if call := c.ApplyLate(0); !errors.Is(call.Err, broker.CodeProducerFenced) {
		t.Errorf("the end that arrives again gets %v", call.Err)
	}
	if got := c.OpenTxns(); len(got) != 1 {
		t.Error("it has ended the next transaction")
	}
}

// A leader that moves raises the epoch and loses nothing.
func TestMoveLeader(t *testing.T) {
	c := brokertest.New()
	c.AddTopic("in", 1)
	c.Append(txnIn, broker.Record{Value: []byte("a")})
	c.MoveLeader(txnIn)
	c.Append(txnIn, broker.Record{Value: []byte("b")})
	var epochs []int32
	for _, r := range c.Records(txnIn) {
		epochs = append(epochs, r.LeaderEpoch)
	}
	if d := cmp.Diff([]int32{0, 1}, epochs); d != "" {
		t.Error(d)
	}
	ends, err := c.Admin().EpochEnds(t.Context(), map[broker.TopicPartition]int32{txnIn: 0})
	if err != nil || ends[txnIn] != (broker.EpochEnd{Epoch: 0, End: 1}) {
		t.Errorf("epoch 0 ends at %v (%v), want 1", ends[txnIn], err)
	}
}

// What moves is taken away first, and given when it has been given up.
func TestCoordinator(t *testing.T) {
	c := brokertest.New()
	g := c.Group("app")
	a, b := g.Join(), g.Join()
	one := broker.TaskID{Partition: 1}
	coord := g.Coordinator(one)
	to := func(m *brokertest.Membership) func(broker.TaskID) *brokertest.Membership {
		return func(broker.TaskID) *brokertest.Membership { return m }
	}
	hear := func(m *brokertest.Membership) (all []broker.MembershipEvent) {
		for len(m.Events()) > 0 {
			all = append(all, <-m.Events())
		}
		return all
	}
	coord.Rebalance(to(a))
	coord.Finish()
	if coord.Owner(one) != a || len(a.Owned()) != 1 {
		t.Fatalf("a has %v", a.Owned())
	}
	hear(a)
	hear(b)
	if !coord.Rebalance(to(b)) || coord.Rebalance(to(a)) {
		t.Error("a rebalance begins while another one is under way, or not at all")
	}
	coord.Finish()
	if coord.Owner(one) != nil || len(b.Owned()) != 0 {
		t.Errorf("b has %v before a has given it up", b.Owned())
	}
	events := hear(a)
	if len(events) != 1 || events[0].Kind != broker.Revoked {
		t.Fatalf("a hears %v", events)
	}
	events[0].Done()
	hear(a)
	hear(b)
	coord.Finish()
	if coord.Owner(one) != b || len(b.Owned()) != 1 {
		t.Errorf("b has %v when a has given it up", b.Owned())
	}
	hear(a)
	hear(b)
	coord.Forget(b)
	g.Expire(b)
	coord.Rebalance(to(a))
	coord.Finish()
	if coord.Owner(one) != a {
		t.Error("what a member had that is gone is not given out at once")
	}
}
