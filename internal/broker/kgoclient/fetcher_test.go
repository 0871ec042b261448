package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// pollUntil polls until done says so and returns all batches.
func pollUntil(t *testing.T, f *Fetcher, done func(b broker.Batch) bool) []broker.Batch {
	t.Helper()
	ctx := testCtx(t)
	var all []broker.Batch
	for {
		batches := f.Poll(ctx)
		if len(batches) == 0 {
			t.Fatalf("nothing more to poll; so far %+v", all)
		}
		all = append(all, batches...)
		if slices.ContainsFunc(batches, done) {
			return all
		}
	}
}

func positionIs(p int64) func(broker.Batch) bool {
	return func(b broker.Batch) bool { return b.Position >= p || b.Err != nil }
}

func collect(batches []broker.Batch, tp broker.TopicPartition) (rs []broker.Record) {
	for _, b := range batches {
		if b.TopicPartition == tp {
			rs = append(rs, b.Records...)
		}
	}
	return rs
}

func TestFetcher_readsFromTheOffsetUnderTheEpoch(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 2, nil)
	raw := rawClient(t, cfg)
	produceRaw(t, raw, tp("in", 0), "a", "b", "c")
	produceRaw(t, raw, tp("in", 1), "x")
	f := newFetcher(t, cfg, false)
	f.Assign(tp("in", 0), 1, 7)
	f.Assign(tp("in", 1), 0, 8)
	batches := pollUntil(t, f, positionIs(3))
	if d := cmp.Diff([]string{"b", "c"}, valuesOf(collect(batches, tp("in", 0)))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, b := range batches {
		if want := uint64(7 + b.Partition); b.Epoch != want {
			t.Errorf("%v has epoch %d, want %d", b.TopicPartition, b.Epoch, want)
		}
		if b.TopicPartition == tp("in", 0) && (b.HighWater != 3 || b.StableEnd != 3 || b.LogStart != 0) {
			t.Errorf("ends %d, %d, %d; want 3, 3, 0", b.HighWater, b.StableEnd, b.LogStart)
		}
	}
	// Another assignment moves the partition back; what belongs to the earlier one is not shown.
	f.Assign(tp("in", 0), 0, 9)
	batches = pollUntil(t, f, positionIs(3))
	if d := cmp.Diff([]string{"a", "b", "c"}, valuesOf(collect(batches, tp("in", 0)))); d != "" {
		t.Errorf("assigned again (-want +got):\n%s", d)
	}
	if e := batches[len(batches)-1].Epoch; e != 9 {
		t.Errorf("epoch %d after the second assignment", e)
	}
	f.Unassign(tp("in", 0), tp("in", 1))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	produceRaw(t, raw, tp("in", 0), "d")
	if got := f.Poll(ctx); len(got) != 0 {
		t.Errorf("after Unassign: %+v", got)
	}
}

func TestFetcher_positionMovesBehindMarkersAndAbortedData(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	p := tp("in", 0)
	writeTxn(t, cfg, p, kgo.TryCommit, "a", "b") // 0, 1, marker 2
	writeTxn(t, cfg, p, kgo.TryAbort, "c", "d")  // 3, 4, marker 5
	for _, committed := range []bool{true, false} {
		f := newFetcher(t, cfg, committed)
		f.Assign(p, 0, 1)
		batches := pollUntil(t, f, positionIs(6))
		want := []string{"a", "b"}
		if !committed {
			want = append(want, "c", "d")
		}
		if d := cmp.Diff(want, valuesOf(collect(batches, p))); d != "" {
			t.Errorf("committed=%t (-want +got):\n%s", committed, d)
		}
		if last := batches[len(batches)-1]; last.Position != 6 || last.StableEnd != 6 {
			t.Errorf("committed=%t: position %d, stable end %d, want 6", committed, last.Position, last.StableEnd)
		}
	}
}

func TestFetcher_showsEndsThatMoveWithoutRecords(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	p := tp("in", 0)
	f := newFetcher(t, cfg, true)
	f.Assign(p, 0, 1)
	pollUntil(t, f, func(b broker.Batch) bool { return b.HighWater == 0 }) // an empty log is shown once
	txn := rawClient(t, cfg, kgo.TransactionalID("open"))
	if err := txn.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produceRaw(t, txn, p, "a")
	b := pollUntil(t, f, func(b broker.Batch) bool { return b.HighWater == 1 })
	if last := b[len(b)-1]; last.Position != 0 || last.StableEnd != 0 || len(last.Records) != 0 {
		t.Errorf("while the transaction is open: %+v", last)
	}
	if err := txn.EndTransaction(testCtx(t), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	if b := pollUntil(t, f, positionIs(2)); len(collect(b, p)) != 1 {
		t.Errorf("after its end: %+v", b)
	}
}

// serveBatches answers every fetch of one partition with the batches at and behind the offset asked for: logs that kfake
// cannot be brought to hold.
func serveBatches(c *kfake.Cluster, end int64, batches ...batchSpec) {
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.FetchRequest)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = end, end, 0
		for _, b := range batches {
			if b.first+int64(b.lastDelta) >= req.Topics[0].Partitions[0].FetchOffset {
				rp.RecordBatches = encodeBatch(rp.RecordBatches, b)
			}
		}
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
}

func TestFetcher_compactedEndIsReached(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "table", 1, nil)
	serveBatches(c, 9, batchSpec{records: []broker.Record{{Value: []byte("a")}}}, batchSpec{first: 1, lastDelta: 7})
	f := newFetcher(t, cfg, true)
	f.Assign(tp("table", 0), 0, 1)
	batches := pollUntil(t, f, positionIs(9))
	if d := cmp.Diff([]string{"a"}, valuesOf(collect(batches, tp("table", 0)))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestFetcher_pausedKeepsItsBatchAndDoesNotHoldUpOthers(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 2, nil)
	raw := rawClient(t, cfg)
	for i := range 50 {
		produceRaw(t, raw, tp("in", int32(i%2)), fmt.Sprint(i))
	}
	f := newFetcher(t, cfg, false)
	f.Assign(tp("in", 0), 0, 1)
	f.Assign(tp("in", 1), 0, 1)
	f.Poll(testCtx(t))
	f.Assign(tp("in", 0), 0, 2)
	f.Assign(tp("in", 1), 0, 2)
	f.take() // starts the fetch as a Poll would
	f.Pause(tp("in", 0))
	batches := pollUntil(t, f, positionIs(25))
	if len(collect(batches, tp("in", 0))) != 0 {
		t.Error("a paused partition was polled")
	}
	fetches := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Observe: true, Count: -1})
	defer fetches.Remove()
	produceRaw(t, raw, tp("in", 1), "more")
	pollUntil(t, f, positionIs(26))
	f.Resume(tp("in", 0))
	if got := collect(pollUntil(t, f, positionIs(25)), tp("in", 0)); len(got) != 25 {
		t.Errorf("%d records after Resume, want 25", len(got))
	}
}

// What was fetched before a pause tells an end that is old by the time of the resumption: a reader that believed it would take
// the partition for read to its end.
func TestFetcher_aBatchOfBeforeAPauseTellsNoEnd(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	raw := rawClient(t, cfg)
	in := tp("in", 0)
	produceRaw(t, raw, in, "a")
	f := newFetcher(t, cfg, false)
	f.Assign(in, 0, 1)
	f.take() // starts the fetch as a Poll would
	fetched := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.parts[in].batch != nil
	}
	for !fetched() {
		runtime.Gosched()
	}
	f.Pause(in)
	produceRaw(t, raw, in, "b")
	f.Resume(in)
	first := f.Poll(testCtx(t))
	if len(first) != 1 || first[0].Position != 1 || first[0].HighWater != -1 || first[0].StableEnd != -1 {
		t.Errorf("got %+v, want a batch up to 1 without ends", first)
	}
	batches := pollUntil(t, f, func(b broker.Batch) bool { return b.HighWater == 2 })
	if got := valuesOf(collect(batches, in)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("then came %v, want b", got)
	}
}

func TestFetcher_outOfRangeIsShownOnceWithTheLogStart(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	p := tp("in", 0)
	produceRaw(t, rawClient(t, cfg), p, "a", "b", "c")
	if err := c.DeleteRecords("in", 0, 2); err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t, cfg, false)
	f.Assign(p, 0, 1)
	b := f.Poll(testCtx(t))
	var oor *broker.OffsetRangeError
	if len(b) != 1 || !errors.As(b[0].Err, &oor) || oor.LogStart != 2 || oor.End != 3 || !errors.Is(oor, broker.ErrOffsetOutOfRange) {
		t.Fatalf("want out of range from 2 to 3, got %+v", b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if b := f.Poll(ctx); len(b) != 0 {
		t.Errorf("shown again: %+v", b)
	}
	f.Assign(p, oor.LogStart, 2)
	if got := collect(pollUntil(t, f, positionIs(3)), p); len(got) != 1 {
		t.Errorf("from the log start: %v", valuesOf(got))
	}
}

func TestFetcher_followsTheLeader(t *testing.T) {
	c, cfg := startCluster(t, kfake.NumBrokers(3))
	topic(t, c, "in", 1, nil)
	p := tp("in", 0)
	raw := rawClient(t, cfg)
	f := newFetcher(t, cfg, false)
	f.Assign(p, 0, 1)
	for i := range 3 {
		if err := c.MoveTopicPartition("in", 0, int32(i)); err != nil {
			t.Fatal(err)
		}
		produceRaw(t, raw, p, fmt.Sprint(i))
		got := collect(pollUntil(t, f, positionIs(int64(i+1))), p)
		if d := cmp.Diff([]string{fmt.Sprint(i)}, valuesOf(got)); d != "" {
			t.Fatalf("led by broker %d (-want +got):\n%s", i, d)
		}
	}
}

func TestFetcher_passingErrorsAreRetried(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	produceRaw(t, rawClient(t, cfg), tp("in", 0), "a")
	for _, e := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownTopicOrPartition, kerr.OffsetNotAvailable} {
		fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: e, Count: 3})
		f := newFetcher(t, cfg, false)
		f.Assign(tp("in", 0), 0, 1)
		if got := collect(pollUntil(t, f, positionIs(1)), tp("in", 0)); len(got) != 1 {
			t.Errorf("after %v: %v", e, valuesOf(got))
		}
		if fault.Hits() != 3 {
			t.Errorf("%v struck %d times", e, fault.Hits())
		}
		fault.Remove()
		f.Close()
	}
}

func TestFetcher_fatalErrorsAreShown(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	f := newFetcher(t, cfg, false)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: 1})
	f.Assign(tp("in", 0), 0, 1)
	f.Assign(tp("nowhere", 0), 0, 1)
	all := pollUntil(t, f, func(b broker.Batch) bool { return b.Topic == "nowhere" })
	for _, b := range all {
		want := broker.ErrUnauthorized
		if b.Topic == "nowhere" {
			want = broker.ErrUnknownTopic
		}
		if !errors.Is(b.Err, want) {
			t.Errorf("%v: %v, want %v", b.TopicPartition, b.Err, want)
		}
	}
}

func TestFetcher_recreatedTopicIsNotReadOn(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	p := tp("in", 0)
	produceRaw(t, rawClient(t, cfg), p, "old")
	f := newFetcher(t, cfg, false)
	f.Assign(p, 0, 1)
	pollUntil(t, f, positionIs(1))
	if err := c.DeleteTopic("in"); err != nil {
		t.Fatal(err)
	}
	topic(t, c, "in", 1, nil)
	produceRaw(t, rawClient(t, cfg), p, "new", "newer")
	b := pollUntil(t, f, func(b broker.Batch) bool { return b.Err != nil })
	if last := b[len(b)-1]; !errors.Is(last.Err, broker.ErrUnknownTopic) {
		t.Errorf("want an error about the new topic, got %+v", last)
	}
}

func TestFetcher_truncatedLogIsNoticed(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	p := tp("in", 0)
	produceRaw(t, rawClient(t, cfg), p, "a", "b")
	f := newFetcher(t, cfg, false)
	f.Assign(p, 0, 1)
	pollUntil(t, f, positionIs(2))
	// Answers without records, at the end of the log, do not make it forget what it has read.
	for ctx := testCtx(t); f.Answers(p) < 3 && ctx.Err() == nil; {
		runtime.Gosched()
	}
	// A new leader that has only the first record: it answers the epoch of the last record read with where that ended.
	asked := make(chan int32, 10)
	c.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req := r.(*kmsg.FetchRequest)
		c.KeepControl()
		if len(req.Topics) == 0 || req.Topics[0].Partitions[0].LastFetchedEpoch < 0 {
			return nil, nil, false
		}
		asked <- req.Topics[0].Partitions[0].LastFetchedEpoch
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.HighWatermark = 1
		rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = 0, 1
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	if err := c.MoveTopicPartition("in", 0, 0); err != nil { // raises the leader epoch
		t.Fatal(err)
	}
	b := pollUntil(t, f, func(b broker.Batch) bool { return b.Err != nil })
	var te *broker.TruncatedError
	if err := b[len(b)-1].Err; !errors.As(err, &te) || te.End != 1 || te.Offset != 2 || !errors.Is(err, broker.ErrTruncated) {
		t.Errorf("want truncation at 1, got %v", err)
	}
}

func TestFetcher_largeTopicsInSmallFetches(t *testing.T) {
	c, cfg := startCluster(t, kfake.NumBrokers(2))
	topic(t, c, "in", 4, nil)
	cfg.Fetch.MaxPartitionBytes = 1000
	cfg.Fetch.MaxBytes = 2000
	raw := rawClient(t, cfg, kgo.ProducerBatchMaxBytes(1024))
	const n = 2000
	for i := range n {
		raw.Produce(testCtx(t), &kgo.Record{Topic: "in", Partition: int32(i % 4), Value: fmt.Appendf(nil, "%d", i)}, nil)
	}
	if err := raw.Flush(testCtx(t)); err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t, cfg, true)
	for p := range int32(4) {
		f.Assign(tp("in", p), 0, 1)
	}
	next := make([]int, 4)
	for total := 0; total < n; {
		for _, b := range f.Poll(testCtx(t)) {
			for _, r := range b.Records {
				if want := fmt.Sprint(next[b.Partition]*4 + int(b.Partition)); string(r.Value) != want {
					t.Fatalf("partition %d: got %s, want %s", b.Partition, r.Value, want)
				}
				next[b.Partition]++
				total++
			}
		}
	}
}

func TestFetcher_brokerGoneAndBack(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "in", 1, nil)
	produceRaw(t, rawClient(t, cfg), tp("in", 0), "a")
	drops := 0
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		if drops++; drops <= 3 {
			c.KeepControl()
			return nil, errors.New("connection dropped"), true
		}
		return nil, nil, false
	})
	f := newFetcher(t, cfg, false)
	f.Assign(tp("in", 0), 0, 1)
	if got := collect(pollUntil(t, f, positionIs(1)), tp("in", 0)); len(got) != 1 {
		t.Errorf("got %v", valuesOf(got))
	}
}
