package kafkatest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// ledgerAhead is how many entries may be written that have not come back from behind the repartition. It keeps the
// applications busy without an end, and the machine free enough for brokers to come back.
const ledgerAhead = 50 * ledgerKeys

// ledgerRun feeds ledgerTopology and reads what it writes with a reader of committed records, all at once.
type ledgerRun struct {
	mu      sync.Mutex
	moved   chan struct{} // closed and replaced when something has changed
	first   *auditor
	second  *auditor
	last    time.Time     // when the last result came
	longest time.Duration // between two results
	written int64         // entries of each key
	fed     bool          // there will be no more of them
	err     error

	topics  topics
	cancel  context.CancelFunc
	enough  chan struct{}
	workers sync.WaitGroup
}

// startLedger starts to feed and to read.
func startLedger(ctx context.Context, b kafkatest.Broker, t topics) (*ledgerRun, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &ledgerRun{topics: t, moved: make(chan struct{}), first: newAuditor(false), second: newAuditor(true), last: time.Now(), cancel: cancel, enough: make(chan struct{})}
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.Bootstrap()...), kgo.ConsumeTopics(t.First, t.Second), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(5*time.Second))
	if err != nil {
		cancel()
		return nil, err
	}
	writer, err := kgo.NewClient(kgo.SeedBrokers(b.Bootstrap()...), kgo.DefaultProduceTopic(t.In), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.ProducerLinger(0))
	if err != nil {
		reader.Close()
		cancel()
		return nil, err
	}
	r.workers.Go(func() {
		defer reader.Close()
		r.fail(r.read(ctx, reader, t))
	})
	r.workers.Go(func() {
		defer writer.Close()
		r.fail(r.feed(ctx, writer))
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fed = true
		r.tell()
	})
	return r, nil
}

func (r *ledgerRun) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && err != nil && !errors.Is(err, context.Canceled) {
		r.err = err
		r.tell()
	}
}

func (r *ledgerRun) read(ctx context.Context, client *kgo.Client, t topics) error {
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// What a client calls an error here has been tried again by itself, or ends the reading: the audit sees what is missing.
		for _, e := range fetches.Errors() {
			return e.Err
		}
		r.mu.Lock()
		fetches.EachRecord(func(rec *kgo.Record) {
			if rec.Topic == t.First {
				r.first.take(rec)
			} else {
				r.second.take(rec)
			}
		})
		now := time.Now()
		r.last, r.longest = now, max(r.longest, now.Sub(r.last))
		r.tell()
		r.mu.Unlock()
	}
}

// tell wakes those who wait. The lock is held.
func (r *ledgerRun) tell() {
	close(r.moved)
	r.moved = make(chan struct{})
}

// feed writes an entry of each key in turn, until it is enough.
func (r *ledgerRun) feed(ctx context.Context, client *kgo.Client) error {
	var mu sync.Mutex
	var failed error
	for n := int64(1); ; n++ {
		if err := r.await(ctx, func() bool { return n*ledgerKeys-int64(r.second.read) <= ledgerAhead }); err != nil {
			return err
		}
		select {
		case <-r.enough:
			return client.Flush(ctx)
		default:
		}
		for i := range ledgerKeys {
			client.Produce(ctx, entryRecord(ledgerKey(i), n), func(_ *kgo.Record, err error) {
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			})
		}
		mu.Lock()
		err := failed
		mu.Unlock()
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.written = n
		r.mu.Unlock()
	}
}

// await waits until a condition of what has been read is met, which is looked at when results come.
func (r *ledgerRun) await(ctx context.Context, done func() bool) error {
	for {
		r.mu.Lock()
		met, err, moved := done(), r.err, r.moved
		r.mu.Unlock()
		switch {
		case err != nil:
			return err
		case met:
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// results waits until n more results have come from behind the repartition.
func (r *ledgerRun) results(ctx context.Context, n int) error {
	r.mu.Lock()
	from := r.second.read
	r.mu.Unlock()
	return r.await(ctx, func() bool { return r.second.read >= from+n })
}

// finish stops to feed and waits until all results have come. It returns how many entries each key has.
func (r *ledgerRun) finish(ctx context.Context) (int64, error) {
	close(r.enough)
	err := r.await(ctx, func() bool {
		return r.fed && r.first.complete(r.written) && r.second.complete(r.written)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written, err
}

// stop ends the reading, and the feeding if it goes on.
func (r *ledgerRun) stop() {
	r.cancel()
	r.workers.Wait()
}

// judge counts what is wrong with the results of n entries of each key: with those that the reader has seen as they came, and with
// all that are there when nobody writes any more. It comes after stop.
func (r *ledgerRun) judge(t *testing.T, b kafkatest.Broker, n int64) (lost, doubled, wrong int64) {
	t.Helper()
	for _, side := range []struct {
		seen  *auditor
		topic string
	}{{r.first, r.topics.First}, {r.second, r.topics.Second}} {
		all := newAuditor(side.seen.again)
		for _, rec := range kafkatest.ReadStable(t, b, side.topic) {
			all.take(rec)
		}
		for _, a := range []*auditor{side.seen, all} {
			a.close(n)
			lost, doubled, wrong = lost+a.lost, doubled+a.doubled, wrong+a.wrong+a.unknown
			for _, f := range a.findings {
				t.Error(f)
			}
		}
	}
	return lost, doubled, wrong
}
