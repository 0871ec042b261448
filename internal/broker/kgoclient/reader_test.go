package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
)

// readTo reads a partition from an offset until its position reaches an end.
func readTo(t *testing.T, r *Reader, tp broker.TopicPartition, from, to int64) []broker.Record {
	t.Helper()
	var out []broker.Record
	for at := from; at < to; {
		b, err := r.Read(testCtx(t), tp, at, 1<<20, 50*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if b.Position < at {
			t.Fatalf("position went back from %d to %d", at, b.Position)
		}
		out, at = append(out, b.Records...), b.Position
	}
	return out
}

func TestReader_readsOnlyCommittedAndReachesTheEnd(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "log", 1, nil)
	p := tp("log", 0)
	writeTxn(t, cfg, p, kgo.TryCommit, "a")
	writeTxn(t, cfg, p, kgo.TryAbort, "b")
	writeTxn(t, cfg, p, kgo.TryCommit, "c")
	writeTxn(t, cfg, p, kgo.TryAbort, "d")
	end := c.PartitionInfo("log", 0).HighWatermark
	r := newReader(t, cfg)
	if d := cmp.Diff([]string{"a", "c"}, valuesOf(readTo(t, r, p, 0, end))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	b, err := r.Read(testCtx(t), p, end, 1<<20, time.Millisecond)
	if err != nil || b.Position != end || b.HighWater != end || len(b.Records) != 0 {
		t.Errorf("at the end: %+v, %v", b, err)
	}
}

func TestReader_waitsForAnOpenTransaction(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "log", 1, nil)
	p := tp("log", 0)
	txn := rawClient(t, cfg, kgo.TransactionalID("open"))
	if err := txn.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produceRaw(t, txn, p, "a")
	r := newReader(t, cfg)
	b, err := r.Read(testCtx(t), p, 0, 1<<20, time.Millisecond)
	if err != nil || b.Position != 0 || b.HighWater != 1 || b.StableEnd != 0 {
		t.Fatalf("before the marker: %+v, %v", b, err)
	}
	if err := txn.EndTransaction(testCtx(t), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	if got := readTo(t, r, p, 0, 2); len(got) != 1 {
		t.Errorf("behind the marker: %v", valuesOf(got))
	}
}

func TestReader_compactedGaps(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "log", 1, map[string]string{"cleanup.policy": "compact"})
	p := tp("log", 0)
	raw := rawClient(t, cfg)
	for _, v := range []string{"first", "k", "k", "other", "k", "last"} {
		produceRaw(t, raw, p, v)
	}
	c.Compact()
	r := newReader(t, cfg)
	var offsets []int64
	for _, rec := range readTo(t, r, p, 0, 6) {
		offsets = append(offsets, rec.Offset)
	}
	if d := cmp.Diff([]int64{0, 3, 4, 5}, offsets); d != "" {
		t.Errorf("offsets (-want +got):\n%s", d)
	}
}

func TestReader_emptyCompactedBatchAtTheEnd(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "log", 1, nil)
	serveBatches(c, 20, batchSpec{first: 3, records: []broker.Record{{Value: []byte("v")}}}, batchSpec{first: 4, lastDelta: 15})
	if got := readTo(t, newReader(t, cfg), tp("log", 0), 0, 20); len(got) != 1 {
		t.Errorf("%v", valuesOf(got))
	}
}

func TestReader_outOfRange(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "log", 1, nil)
	produceRaw(t, rawClient(t, cfg), tp("log", 0), "a", "b", "c")
	if err := c.DeleteRecords("log", 0, 2); err != nil {
		t.Fatal(err)
	}
	r := newReader(t, cfg)
	for _, offset := range []int64{0, 9} {
		_, err := r.Read(testCtx(t), tp("log", 0), offset, 1<<20, time.Millisecond)
		var oor *broker.OffsetRangeError
		if !errors.As(err, &oor) || oor.LogStart != 2 || oor.End != 3 || oor.Offset != offset {
			t.Errorf("offset %d: %v", offset, err)
		}
	}
}

func TestReader_retriesWhatPasses(t *testing.T) {
	c, cfg := startCluster(t, kfake.NumBrokers(2))
	topic(t, c, "log", 1, nil)
	produceRaw(t, rawClient(t, cfg), tp("log", 0), "a")
	r := newReader(t, cfg)
	for _, e := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownLeaderEpoch, kerr.LeaderNotAvailable} {
		f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: e, Count: 2})
		if got := readTo(t, r, tp("log", 0), 0, 1); len(got) != 1 || f.Hits() != 2 {
			t.Errorf("%v: %v after %d faults", e, valuesOf(got), f.Hits())
		}
		f.Remove()
	}
	for node := range int32(2) {
		if err := c.MoveTopicPartition("log", 0, node); err != nil {
			t.Fatal(err)
		}
		if got := readTo(t, r, tp("log", 0), 0, 1); len(got) != 1 {
			t.Errorf("led by %d: %v", node, valuesOf(got))
		}
	}
	drops := 0
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		if drops++; drops > 2 {
			return nil, nil, false
		}
		c.KeepControl()
		return nil, errors.New("connection dropped"), true
	})
	if got := readTo(t, r, tp("log", 0), 0, 1); len(got) != 1 {
		t.Errorf("over dropped connections: %v", valuesOf(got))
	}
}

func TestReader_unknownTopicAndEndOfContext(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "log", 1, nil)
	r := newReader(t, cfg)
	if _, err := r.Read(testCtx(t), tp("nowhere", 0), 0, 100, 0); !errors.Is(err, broker.ErrUnknownTopic) {
		t.Errorf("unknown topic: %v", err)
	}
	if _, err := r.Read(testCtx(t), tp("log", 7), 0, 100, 0); !errors.Is(err, broker.ErrUnknownTopic) {
		t.Errorf("unknown partition: %v", err)
	}
	f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: -1})
	defer f.Remove()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Read(ctx, tp("log", 0), 0, 100, 0); !errors.Is(err, broker.CodeNotLeaderForPartition) {
		t.Errorf("when the context ends: %v", err)
	}
}

// Many partitions of one broker are read at once; one of them stands at its end and must not hold up the others.
func TestReader_sideBySide(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "log", 9, nil)
	raw := rawClient(t, cfg)
	for p := range int32(8) {
		for i := range 20 {
			raw.Produce(testCtx(t), &kgo.Record{Topic: "log", Partition: p, Value: fmt.Appendf(nil, "%d", i)}, nil)
		}
	}
	if err := raw.Flush(testCtx(t)); err != nil {
		t.Fatal(err)
	}
	r := newReader(t, cfg)
	ctx := testCtx(t)
	var wg sync.WaitGroup
	for p := range int32(8) {
		wg.Go(func() {
			n := 0
			for at := int64(0); at < 20; {
				b, err := r.Read(ctx, tp("log", p), at, 200, 50*time.Millisecond)
				if err != nil {
					t.Error(err)
					return
				}
				n, at = n+len(b.Records), b.Position
			}
			if n != 20 {
				t.Errorf("partition %d: %d records", p, n)
			}
		})
	}
	wg.Go(func() {
		if b, err := r.Read(ctx, tp("log", 8), 0, 200, 50*time.Millisecond); err != nil || b.Position != 0 {
			t.Errorf("the empty one: %+v, %v", b, err)
		}
	})
	wg.Wait()
}

func TestReader_closeEndsReads(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "log", 1, nil)
	r := newReader(t, cfg)
	fetching := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Observe: true, Count: -1})
	defer fetching.Remove()
	errs := make(chan error)
	go func() {
		_, err := r.Read(testCtx(t), tp("log", 0), 0, 100, 10*time.Second)
		errs <- err
	}()
	if err := fetching.Wait(testCtx(t), 1); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := <-errs; !errors.Is(err, broker.ErrClosed) {
		t.Errorf("read under way: %v", err)
	}
	if _, err := r.Read(testCtx(t), tp("log", 0), 0, 100, 0); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("read afterwards: %v", err)
	}
}

// Who goes on where the last read has ended is told if the topic was deleted and made again in between: what is there now does not
// belong to what was read. Who begins anew may.
func TestReader_topicMadeAgain(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "log", 1, nil)
	cl := rawClient(t, cfg)
	p := tp("log", 0)
	produceRaw(t, cl, p, "a", "b")
	r := newReader(t, cfg)
	readTo(t, r, p, 0, 2)
	if _, err := kadm.NewClient(cl).DeleteTopics(testCtx(t), "log"); err != nil {
		t.Fatal(err)
	}
	topic(t, c, "log", 1, nil)
	cl = rawClient(t, cfg)
	produceRaw(t, cl, p, "c", "d", "e")
	_, err := r.Read(testCtx(t), p, 2, 1<<20, time.Millisecond)
	if !errors.Is(err, broker.ErrTruncated) {
		t.Fatalf("it goes on, error %v", err)
	}
	if d := cmp.Diff([]string{"c", "d", "e"}, valuesOf(readTo(t, r, p, 0, 3))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// So is who goes on in a log that was truncated and has grown again.
func TestReader_truncatedWhileItWasRead(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "log", 1, nil)
	p := tp("log", 0)
	produceRaw(t, rawClient(t, cfg), p, "a", "b")
	r := newReader(t, cfg)
	readTo(t, r, p, 0, 2)
	asked := int32(-2)
	c.ControlKey(kmsg.Fetch.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req := kreq.(*kmsg.FetchRequest)
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		for _, rt := range req.Topics {
			at := kmsg.NewFetchResponseTopic()
			at.Topic, at.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				asked = rp.LastFetchedEpoch
				ap := kmsg.NewFetchResponseTopicPartition()
				ap.Partition, ap.DivergingEpoch.Epoch, ap.DivergingEpoch.EndOffset = rp.Partition, 0, 1
				at.Partitions = append(at.Partitions, ap)
			}
			resp.Topics = append(resp.Topics, at)
		}
		return resp, nil, true
	})
	if _, err := r.Read(testCtx(t), p, 2, 1<<20, time.Millisecond); !errors.Is(err, broker.ErrTruncated) {
		t.Errorf("it goes on, error %v", err)
	}
	if asked < 0 {
		t.Errorf("the broker was asked with epoch %d, and cannot tell", asked)
	}
}
