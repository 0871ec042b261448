package kgoclient

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/serde"
)

// acks collects answers.
type acks struct {
	mu   sync.Mutex
	cond *sync.Cond
	got  map[string]ack
	log  []string
}

type ack struct {
	offset int64
	err    error
}

func newAcks() *acks {
	a := &acks{got: make(map[string]ack)}
	a.cond = sync.NewCond(&a.mu)
	return a
}

func (a *acks) done(name string) func(int64, error) {
	return func(offset int64, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if _, twice := a.got[name]; twice {
			name += " again"
		}
		a.got[name] = ack{offset, err}
		a.log = append(a.log, name)
		a.cond.Broadcast()
	}
}

func (a *acks) wait(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.got) < n {
		a.cond.Wait()
	}
}

func (a *acks) of(name string) ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.got[name]
}

func TestProducer_writesInOrderAndTellsOffsets(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "out", 3, nil)
	p := newProducer(t, cfg)
	a := newAcks()
	const n = 300
	for i := range n {
		name := fmt.Sprint(i)
		p.Produce(broker.ProduceRecord{
			Topic: "out", Partition: int32(i % 3), Key: []byte("k"), Value: []byte(name), TimestampMs: int64(1000 + i),
			Headers: serde.Headers{{Key: "h", Value: []byte(name)}, {Key: "null"}},
		}, a.done(name))
	}
	a.wait(n)
	next := make([]int, 3)
	for _, name := range a.log {
		var i int
		if _, err := fmt.Sscan(name, &i); err != nil {
			t.Fatal(err)
		}
		if i != next[i%3]*3+i%3 {
			t.Fatalf("partition %d: record %d was answered out of order", i%3, i)
		}
		next[i%3]++
		if got := a.of(name); got.err != nil || got.offset != int64(i/3) {
			t.Fatalf("record %d: offset %d, %v", i, got.offset, got.err)
		}
	}
	got := readTo(t, newReader(t, cfg), tp("out", 1), 0, n/3)
	want := broker.Record{
		Key: []byte("k"), Value: []byte("4"), TimestampMs: 1004, Offset: 1,
		Headers: serde.Headers{{Key: "h", Value: []byte("4")}, {Key: "null"}}, LeaderEpoch: got[1].LeaderEpoch,
	}
	if d := cmp.Diff(want, got[1]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if b := p.BufferedBytes(); b != 0 {
		t.Errorf("%d bytes buffered after all answers", b)
	}
}

func TestProducer_nullsStayNull(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "out", 1, nil)
	p := newProducer(t, cfg)
	a := newAcks()
	p.Produce(broker.ProduceRecord{Topic: "out", TimestampMs: 0}, a.done("null"))
	p.Produce(broker.ProduceRecord{Topic: "out", Key: []byte{}, Value: []byte{}}, a.done("empty"))
	a.wait(2)
	got := readTo(t, newReader(t, cfg), tp("out", 0), 0, 2)
	if got[0].Key != nil || got[0].Value != nil || got[1].Key == nil || got[1].Value == nil || got[0].TimestampMs != 0 {
		t.Errorf("null and empty are mixed up: %+v", got)
	}
}

func TestProducer_withoutPartitionStaysWithOne(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "out", 4, nil)
	cfg.Produce.Linger = 5 * time.Millisecond
	p := newProducer(t, cfg)
	a := newAcks()
	const n = 50
	for i := range n {
		p.Produce(broker.ProduceRecord{Topic: "out", Partition: -1, Value: make([]byte, 10)}, a.done(fmt.Sprint(i)))
	}
	a.wait(n)
	used := 0
	for _, info := range c.PartitionInfos("out") {
		if info.HighWatermark > 0 {
			used++
		}
	}
	if used != 1 {
		t.Errorf("%d small records went to %d partitions, want 1", n, used)
	}
	for i := range 100 {
		p.Produce(broker.ProduceRecord{Topic: "out", Partition: -1, Value: make([]byte, 10<<10)}, a.done(fmt.Sprint("large", i)))
	}
	a.wait(n + 100)
	used = 0
	for _, info := range c.PartitionInfos("out") {
		if info.HighWatermark > 0 {
			used++
		}
	}
	if used < 2 {
		t.Error("a megabyte went to one partition")
	}
}

func TestC113_recordTooLargeNamesTheRecordAndSparesItsNeighbours(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "out", 1, nil)
	topic(t, c, "narrow", 1, map[string]string{"max.message.bytes": "2000"})
	cfg.Produce.BatchMaxBytes = 20_000
	cfg.Produce.Compression = "none"
	p := newProducer(t, cfg)
	a := newAcks()
	send := func(name, topic string, size int) {
		p.Produce(broker.ProduceRecord{Topic: topic, Value: make([]byte, size)}, a.done(name))
	}
	send("a", "out", 10)
	send("b", "out", 50_000)
	send("c", "out", 10)
	a.wait(3)
	if err := a.of("b").err; !errors.Is(err, broker.ErrRecordTooLarge) || broker.ProduceClassOf(err) != broker.ProduceRefused || a.of("b").offset != -1 {
		t.Errorf("too large for the client: %v", err)
	}
	if a.of("a").err != nil || a.of("c").err != nil || a.of("c").offset != 1 {
		t.Errorf("its neighbours: %+v, %+v", a.of("a"), a.of("c"))
	}
	send("d", "narrow", 5000)
	a.wait(4)
	if err := a.of("d").err; !errors.Is(err, broker.ErrRecordTooLarge) || broker.ProduceClassOf(err) != broker.ProduceRefused {
		t.Errorf("too large for the topic: %v", err)
	}
	var pe *broker.ProduceError
	if !errors.As(a.of("d").err, &pe) || pe.TopicPartition != tp("narrow", 0) {
		t.Errorf("the error does not name narrow-0: %v", a.of("d").err)
	}
}

func TestProducer_classesOfErrors(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "out", 1, nil)
	p := newProducer(t, cfg)
	for _, x := range []struct {
		name  string
		fault *kerr.Error
		rec   broker.ProduceRecord
		is    error
		class broker.ProduceClass
	}{
		{"no right", kerr.TopicAuthorizationFailed, broker.ProduceRecord{Topic: "out"}, broker.ErrUnauthorized, broker.ProduceForbidden},
		{"invalid record", kerr.InvalidRecord, broker.ProduceRecord{Topic: "out"}, broker.CodeInvalidRecord, broker.ProduceRefused},
		{"no topic", nil, broker.ProduceRecord{Topic: "nowhere"}, broker.ErrUnknownTopic, broker.ProduceFailed},
		{"no partition", nil, broker.ProduceRecord{Topic: "out", Partition: 5}, broker.ErrUnknownTopic, broker.ProduceFailed},
		{"negative time", nil, broker.ProduceRecord{Topic: "out", TimestampMs: -1}, broker.CodeInvalidTimestamp, broker.ProduceRefused},
		{"far future", nil, broker.ProduceRecord{Topic: "out", TimestampMs: math.MaxInt64}, broker.CodeInvalidTimestamp, broker.ProduceRefused},
	} {
		if x.fault != nil {
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: x.fault})
		}
		a := newAcks()
		p.Produce(x.rec, a.done("r"))
		a.wait(1)
		if got := a.of("r"); !errors.Is(got.err, x.is) || broker.ProduceClassOf(got.err) != x.class {
			t.Errorf("%s: %v (%v), want %v (%v)", x.name, got.err, broker.ProduceClassOf(got.err), x.is, x.class)
		}
	}
	a := newAcks()
	p.Produce(broker.ProduceRecord{Topic: "out"}, a.done("last"))
	a.wait(1)
	if got := a.of("last"); got.err != nil {
		t.Errorf("after all these: %v", got.err)
	}
}

// The timestamps of a stream processor's output may be years old; that must not count as waiting for delivery.
func TestProducer_oldTimestampsDoNotTimeOut(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "out", 1, nil)
	cfg.Produce.DeliveryTimeout = 100 * time.Millisecond
	p := newProducer(t, cfg)
	a := newAcks()
	p.Produce(broker.ProduceRecord{Topic: "out", TimestampMs: 1}, a.done("old"))
	a.wait(1)
	if err := a.of("old").err; err != nil {
		t.Fatal(err)
	}
	f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	defer f.Remove()
	p.Produce(broker.ProduceRecord{Topic: "out", TimestampMs: 1}, a.done("stuck"))
	a.wait(2)
	if err := a.of("stuck").err; broker.ProduceClassOf(err) != broker.ProduceFailed || f.Hits() < 2 {
		t.Errorf("a record that cannot be written: %v after %d tries", err, f.Hits())
	}
}

func TestProducer_lostAnswersAreNotDuplicates(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "out", 1, nil)
	p := newProducer(t, cfg)
	a := newAcks()
	for i := range 20 {
		if i%5 == 0 {
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: 1})
		}
		p.Produce(broker.ProduceRecord{Topic: "out", Value: []byte{byte(i)}}, a.done(fmt.Sprint(i)))
	}
	a.wait(20)
	got := readTo(t, newReader(t, cfg), tp("out", 0), 0, 20)
	for i, r := range got {
		if int(r.Value[0]) != i || r.Offset != int64(i) {
			t.Fatalf("offset %d holds record %d", r.Offset, r.Value[0])
		}
	}
}

func TestProducer_flushEndsLingering(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "out", 1, nil)
	cfg.Produce.Linger = time.Minute
	p := newProducer(t, cfg)
	a := newAcks()
	p.Produce(broker.ProduceRecord{Topic: "out", Value: []byte("v")}, a.done("v"))
	if p.BufferedBytes() == 0 {
		t.Error("nothing is buffered while it lingers")
	}
	for { // the first record waits for metadata, and only then lingers
		if err := p.Flush(testCtx(t)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-testCtx(t).Done():
			t.Fatal("not sent")
		case <-time.After(5 * time.Millisecond):
		}
		if a.of("v") != (ack{}) || len(a.log) > 0 {
			break
		}
	}
	if err := a.of("v").err; err != nil {
		t.Error(err)
	}
}

func TestProducer_closeAnswersEverything(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "out", 1, nil)
	cfg.Produce.Linger = time.Minute
	p := newProducer(t, cfg)
	a := newAcks()
	for i := range 10 {
		p.Produce(broker.ProduceRecord{Topic: "out", Value: []byte("v")}, a.done(fmt.Sprint(i)))
	}
	p.Close()
	if len(a.got) != 10 {
		t.Fatalf("%d of 10 answered when Close returned", len(a.got))
	}
	p.Produce(broker.ProduceRecord{Topic: "out"}, a.done("late"))
	for name, x := range a.got {
		if !errors.Is(x.err, broker.ErrClosed) {
			t.Errorf("%s: %v", name, x.err)
		}
	}
	if err := p.Flush(t.Context()); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Flush: %v", err)
	}
}

// Records must not wait for ever for a cluster that is not there, whether it never was or went away.
func TestProducer_unreachableBrokerFailsRecordsInTime(t *testing.T) {
	c, cfg := startCluster(t)
	topic(t, c, "out", 1, nil)
	topic(t, c, "new", 1, nil)
	cfg.Produce.DeliveryTimeout = 300 * time.Millisecond
	p := newProducer(t, cfg)
	a := newAcks()
	p.Produce(broker.ProduceRecord{Topic: "out"}, a.done("before"))
	a.wait(1)
	c.Close()
	start := time.Now()
	p.Produce(broker.ProduceRecord{Topic: "out"}, a.done("known topic"))
	p.Produce(broker.ProduceRecord{Topic: "new"}, a.done("unknown topic"))
	never := newProducer(t, cfg)
	never.Produce(broker.ProduceRecord{Topic: "out"}, a.done("never connected"))
	a.wait(4)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	for _, name := range []string{"known topic", "unknown topic", "never connected"} {
		err := a.of(name).err
		if broker.ProduceClassOf(err) != broker.ProduceFailed || !errors.Is(err, broker.ErrNoAnswer) || !errors.Is(err, broker.ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
