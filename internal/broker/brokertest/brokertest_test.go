package brokertest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rec(v string) broker.Record { return broker.Record{Value: []byte(v)} }

func values(rs []broker.Record) []string {
	var out []string
	for _, r := range rs {
		out = append(out, string(r.Value))
	}
	return out
}

func wantValues(t *testing.T, got []broker.Record, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, values(got)); d != "" {
		t.Errorf("values (-want +got):\n%s", d)
	}
}

func TestFetcher_transactionsMarkersAndGaps(t *testing.T) {
	c := brokertest.New()
	c.AddTopic("a", 1)
	tp := brokertest.TP("a", 0)
	c.Append(tp, rec("0"), rec("1"), rec("2"))
	c.AppendTxn("x", tp, rec("3"))
	c.Append(tp, rec("4"))

	committed, dirty := c.Fetcher(brokertest.ReadCommitted), c.Fetcher(brokertest.ReadUncommitted)
	committed.Assign(tp, 0, 7)
	dirty.Assign(tp, 1, 8)
	b := committed.Poll(t.Context())
	if len(b) != 1 || b[0].Position != 3 || b[0].HighWater != 5 || b[0].StableEnd != 3 || b[0].Epoch != 7 {
		t.Fatalf("committed read before the marker: %+v", b)
	}
	wantValues(t, b[0].Records, "0", "1", "2")
	b = dirty.Poll(t.Context())
	wantValues(t, b[0].Records, "1", "2", "3", "4")

	if b := committed.Poll(t.Context()); len(b) != 0 {
		t.Fatalf("a poll with nothing new gave %+v", b)
	}
	c.EndTxn("x", false)
	b = committed.Poll(t.Context())
	wantValues(t, b[0].Records, "4")
	if b[0].Position != 6 {
		t.Errorf("position %d is not behind the marker at 5", b[0].Position)
	}

	c.Remove(tp, 0, 1, 2)
	committed.Assign(tp, 0, 9)
	b = committed.Poll(t.Context())
	wantValues(t, b[0].Records, "4")
	c.Truncate(tp, 2)
	committed.Assign(tp, 1, 10)
	b = committed.Poll(t.Context())
	if !errors.Is(b[0].Err, broker.ErrOffsetOutOfRange) || b[0].LogStart != 2 {
		t.Errorf("reading below the log start gave %+v", b[0])
	}
	if b := committed.Poll(t.Context()); len(b) != 0 {
		t.Errorf("the error was shown again: %+v", b)
	}
}

func TestFetcher_pauseHoldAndLimit(t *testing.T) {
	c := brokertest.New()
	c.AddTopic("a", 2)
	p0, p1 := brokertest.TP("a", 0), brokertest.TP("a", 1)
	c.Append(p0, rec("a"), rec("b"))
	c.Append(p1, rec("c"))
	f := c.Fetcher(brokertest.ReadUncommitted)
	f.Assign(p1, 0, 1)
	f.Assign(p0, 0, 1)
	f.SetLimit(1)
	f.Pause(p1)
	b := f.Poll(t.Context())
	if len(b) != 1 || b[0].TopicPartition != p0 || b[0].Position != 1 {
		t.Fatalf("want one record of %v, got %+v", p0, b)
	}
	f.Resume(p1)
	f.Hold(p0)
	b = f.Poll(t.Context())
	if len(b) != 1 || b[0].TopicPartition != p1 {
		t.Fatalf("want one record of %v, got %+v", p1, b)
	}
	f.Release(p0)
	wantValues(t, f.Poll(t.Context())[0].Records, "b")
}

func TestFetcher_blockingPollWakesUp(t *testing.T) {
	c := brokertest.New(brokertest.Blocking())
	c.AddTopic("a", 1)
	f := c.Fetcher(brokertest.ReadUncommitted)
	f.Assign(brokertest.TP("a", 0), 0, 1)
	got := make(chan []broker.Batch)
	go func() { got <- f.Poll(t.Context()) }()
	c.Append(brokertest.TP("a", 0), rec("x"))
	wantValues(t, (<-got)[0].Records, "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b := f.Poll(ctx); len(b) != 0 {
		t.Errorf("poll with a cancelled context gave %+v", b)
	}
}

func TestProducer_holdsOrdersAndFails(t *testing.T) {
	c := brokertest.New()
	c.AddTopic("a", 2)
	c.SetConfig("a", "max.message.bytes", "3")
	p := c.Producer()
	var log []string
	send := func(partition int32, v string) {
		p.Produce(broker.ProduceRecord{Topic: "a", Partition: partition, Value: []byte(v)}, func(offset int64, err error) {
			s := v
			if err != nil {
				s += "!" + broker.ProduceClassOf(err).String()
			}
			log = append(log, s)
		})
	}
	send(0, "a0")
	send(1, "b0")
	send(0, "a1")
	send(0, "long")
	if len(log) != 0 || p.BufferedBytes() != 10 {
		t.Fatalf("acknowledged %v inside Produce, %d bytes buffered", log, p.BufferedBytes())
	}
	if n := p.Write(1); n != 1 || len(c.Records(brokertest.TP("a", 0))) != 1 || len(log) != 0 {
		t.Fatal("Write(1) does not write exactly one record without acknowledging it")
	}
	p.HoldAcks(brokertest.TP("a", 0))
	p.Deliver()
	if d := cmp.Diff([]string{"b0"}, log); d != "" {
		t.Fatalf("with held acknowledgements (-want +got):\n%s", d)
	}
	p.Release()
	p.Deliver()
	if d := cmp.Diff([]string{"b0", "a0", "a1", "long!record refused"}, log); d != "" {
		t.Fatalf("after the release (-want +got):\n%s", d)
	}
	p.Fail(brokertest.ProduceFault{Err: broker.CodeRequestTimedOut, Written: true})
	send(1, "b1")
	p.Deliver()
	if !slices.Contains(log, "b1!failed") || len(c.Records(brokertest.TP("a", 1))) != 2 {
		t.Errorf("a lost acknowledgement: %v, %d records", log, len(c.Records(brokertest.TP("a", 1))))
	}
	p.Hold()
	send(0, "z")
	p.Deliver()
	p.Close()
	if log[len(log)-1] != "z!failed" || p.Unacknowledged() != 0 || p.BufferedBytes() != 0 {
		t.Errorf("after Close: %v, %d unacknowledged", log, p.Unacknowledged())
	}
}

func next(t *testing.T, m *brokertest.Membership) broker.MembershipEvent {
	t.Helper()
	select {
	case e := <-m.Events():
		return e
	default:
		t.Fatal("no membership event")
		return broker.MembershipEvent{}
	}
}

func TestGroup_rebalanceRevocationAndFencing(t *testing.T) {
	c := brokertest.New()
	c.AddTopic("in", 2)
	g := c.Group("app")
	a, b := g.Join(), g.Join()
	a.Subscribe(broker.GroupTopology{Subtopologies: []broker.Subtopology{{ID: 0, Topics: []string{"in"}}}})
	t0, t1 := broker.TaskID{Partition: 0}, broker.TaskID{Partition: 1}
	g.Assign(map[*brokertest.Membership][]broker.TaskID{a: {t1, t0}})
	e := next(t, a)
	if e.Kind != broker.Assigned || !slices.Equal(e.Tasks, []broker.TaskID{t0, t1}) || e.Inputs[t1][0] != brokertest.TP("in", 1) {
		t.Fatalf("first event %+v", e)
	}
	old, _ := a.Identity()
	offsets := map[broker.TopicPartition]broker.OffsetMeta{brokertest.TP("in", 0): {Offset: 5, Metadata: "m"}}
	commit := func(id broker.Identity) error { return c.Admin().CommitOffsets(t.Context(), "app", id, offsets) }

	g.BeginRebalance()
	if err := commit(old); err != nil {
		t.Errorf("commit while members are asked to join: %v", err)
	}
	g.CompleteJoin()
	if err := commit(old); broker.CourseOf(err) != broker.CourseAwaitRebalance || !errors.Is(err, broker.CodeIllegalGeneration) {
		t.Errorf("commit of the old generation: %v", err)
	}
	g.Sync(map[*brokertest.Membership][]broker.TaskID{a: {t0}})
	rev := next(t, a)
	if rev.Kind != broker.Revoked || !slices.Equal(rev.Tasks, []broker.TaskID{t1}) {
		t.Fatalf("want a revocation of 0_1, got %+v", rev)
	}
	if len(a.Events()) != 0 || !a.Revoking() {
		t.Fatal("the assignment did not wait for the revocation")
	}
	rev.Done()
	if e := next(t, a); e.Kind != broker.Assigned || e.Identity.Generation != old.Generation+1 {
		t.Fatalf("want the assignment, got %+v", e)
	}
	now, _ := a.Identity()
	c.LoseCommits(1, true)
	if err := commit(now); broker.CourseOf(err) != broker.CourseUnknown {
		t.Errorf("lost answer: %v", err)
	}
	if got := g.Committed(brokertest.TP("in", 0)); got.Offset != 5 {
		t.Errorf("the commit whose answer was lost did not take effect: %+v", got)
	}

	g.Expire(a)
	if err := commit(now); broker.CourseOf(err) != broker.CourseLost {
		t.Errorf("commit of an expired member: %v", err)
	}
	a.SilentlyRejoin()
	if id, ok := a.Identity(); !ok || id.MemberID == now.MemberID {
		t.Errorf("identity after a silent rejoin: %+v %t", id, ok)
	}
	b.Lose(true)
	for len(b.Events()) > 1 {
		next(t, b)
	}
	if e := next(t, b); e.Kind != broker.Lost {
		t.Errorf("want Lost, got %+v", e)
	}
	if _, ok := b.Identity(); ok {
		t.Error("a lost member has an identity")
	}
	if err := b.Leave(t.Context(), false); err != nil {
		t.Error(err)
	}
	if _, open := <-b.Events(); open {
		t.Error("events are open after Leave")
	}
}

func TestReaderAndAdmin(t *testing.T) {
	c := brokertest.New()
	a := c.Admin()
	ctx := t.Context()
	if err := a.CreateTopic(ctx, broker.TopicSpec{Name: "log", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if err := a.CreateTopic(ctx, broker.TopicSpec{Name: "log", Partitions: 1}); !errors.Is(err, broker.ErrTopicExists) {
		t.Errorf("creating a topic twice: %v", err)
	}
	tp := brokertest.TP("log", 0)
	c.AppendTxn("t", tp, rec("x"))
	for which, want := range map[broker.ListOffset]int64{broker.Earliest: 0, broker.StableEnd: 0, broker.HighWatermark: 1} {
		if got, err := a.ListOffsets(ctx, which, tp); err != nil || got[tp] != want {
			t.Errorf("end %d: %v, %v; want %d", which, got, err, want)
		}
	}
	r := c.Reader()
	b, err := r.Read(ctx, tp, 0, 1<<20, time.Second)
	if err != nil || b.Position != 0 || len(b.Records) != 0 {
		t.Errorf("read before the marker: %+v, %v", b, err)
	}
	c.EndTxn("t", true)
	b, err = r.Read(ctx, tp, 0, 1<<20, time.Second)
	if err != nil || b.Position != 2 {
		t.Errorf("read behind the marker: %+v, %v", b, err)
	}
	if err := a.DeleteRecords(ctx, map[broker.TopicPartition]int64{tp: 1}); err != nil {
		t.Error(err)
	}
	var oor *broker.OffsetRangeError
	if _, err = r.Read(ctx, tp, 0, 1<<20, time.Second); !errors.As(err, &oor) || oor.LogStart != 1 {
		t.Errorf("read below the log start: %v", err)
	}
	epochs := brokertest.TP("epochs", 0)
	c.AddTopic("epochs", 1)
	c.Append(epochs, rec("a"), rec("b"), rec("c"))
	c.CutEnd(epochs, 2) // epoch 1 starts at 2
	c.Append(epochs, rec("d"))
	for epoch, want := range map[int32]broker.EpochEnd{0: {Epoch: 0, End: 2}, 1: {Epoch: 1, End: 3}, 2: {Epoch: -1, End: -1}} {
		got, err := a.EpochEnds(ctx, map[broker.TopicPartition]int32{epochs: epoch})
		if err != nil || got[epochs] != want {
			t.Errorf("epoch %d ends at %+v, %v; want %+v", epoch, got[epochs], err, want)
		}
	}
	g := c.Group("app")
	g.SetPending(tp, true)
	if _, err := a.CommittedOffsets(ctx, "app", tp); !errors.Is(err, broker.CodeUnstableOffsetCommit) {
		t.Errorf("offset fetch over a pending transaction: %v", err)
	}
	g.SetPending(tp, false)
	got, err := a.CommittedOffsets(ctx, "app", tp)
	if err != nil || got[tp].Offset != -1 {
		t.Errorf("no commit: %v, %v", got, err)
	}
	f := c.Inject(brokertest.Fault{Op: brokertest.OpTopics, Err: broker.ErrUnreachable, Times: 2})
	for range 3 {
		_, err = a.Topics(ctx, "log")
	}
	if f.Hits() != 2 || err != nil || len(c.Calls(brokertest.OpTopics)) != 3 {
		t.Errorf("fault struck %d times, then %v", f.Hits(), err)
	}
}
