package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// arrival is when a reader of committed records saw results of one producer in a partition.
type arrival struct {
	at       time.Time
	producer int64
}

// arrivals is what came to each partition of an output topic, in order. Each instance writes with a producer of its own, so
// that it shows who has a task.
type arrivals [][]arrival

// watcher notes what comes to a topic.
type watcher struct {
	client *kgo.Client
	done   chan struct{}

	mu   sync.Mutex
	seen arrivals
	err  error
}

// watch reads a topic from its end on until stop.
func (b *Bench) watch(ctx context.Context, topic string, partitions int32) (*watcher, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(b.cluster.Bootstrap()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(50*time.Millisecond),
	)
	if err != nil {
		return nil, fmt.Errorf("bench: reader of the output: %w", err)
	}
	w := &watcher{client: client, done: make(chan struct{}), seen: make(arrivals, partitions)}
	go w.run(ctx)
	return w, nil
}

func (w *watcher) run(ctx context.Context) {
	defer close(w.done)
	for {
		fetches := w.client.PollFetches(ctx)
		now := time.Now()
		if fetches.IsClientClosed() || ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		w.err = errors.Join(w.err, fetches.Err())
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for i, r := range p.Records {
				if i == 0 || r.ProducerID != p.Records[i-1].ProducerID {
					w.seen[p.Partition] = append(w.seen[p.Partition], arrival{now, r.ProducerID})
				}
			}
		})
		w.mu.Unlock()
	}
}

func (w *watcher) stop() {
	w.client.Close()
	<-w.done
}

// until waits until what has come satisfies, and returns it.
func (w *watcher) until(ctx context.Context, what string, satisfies func(arrivals) bool) (arrivals, error) {
	for {
		seen, err := w.now()
		if err != nil {
			return nil, fmt.Errorf("bench: reader of the output: %w", err)
		}
		if satisfies(seen) {
			return seen, nil
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return nil, fmt.Errorf("bench: waiting until %s: %w", what, err)
		}
	}
}

// now is what has come so far.
func (w *watcher) now() (arrivals, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := make(arrivals, len(w.seen))
	for p, s := range w.seen {
		seen[p] = s[:len(s):len(s)] // what comes later is written behind it
	}
	return seen, w.err
}

// flowing says whether results have come to every partition since a time.
func (a arrivals) flowing(since time.Time) bool {
	for _, p := range a {
		if len(p) == 0 || p[len(p)-1].at.Before(since) {
			return false
		}
	}
	return true
}

// producers are those that have written since a time.
func (a arrivals) producers(since time.Time) map[int64]int {
	partitions := make(map[int64]int)
	for _, p := range a {
		of := make(map[int64]bool)
		for _, e := range p {
			if !e.at.Before(since) {
				of[e.producer] = true
			}
		}
		for producer := range of {
			partitions[producer]++
		}
	}
	return partitions
}

// silence is the longest time within a span in which nothing came to a partition. What came last before the span counts as
// its beginning.
func silence(p []arrival, from, to time.Time) time.Duration {
	var longest time.Duration
	last := from
	for _, e := range p {
		switch {
		case !e.at.After(from):
			last = e.at
		case !e.at.After(to):
			longest = max(longest, e.at.Sub(last))
			last = e.at
		}
	}
	return max(longest, to.Sub(last))
}

// takenOver is the time from a kill to the first result of another instance, for the partition where that took longest, and in
// how many partitions the killed one had written. settled is when nothing can come any more of what it had committed.
func (a arrivals) takenOver(kill, settled time.Time) (longest time.Duration, partitions int, err error) {
	alive := a.producers(settled)
	for n, p := range a {
		var owner int64 = -1
		first := time.Time{}
		for _, e := range p {
			switch {
			case e.at.Before(settled):
				owner = e.producer
			case first.IsZero():
				first = e.at
			}
		}
		if owner < 0 || first.IsZero() {
			return 0, 0, fmt.Errorf("bench: partition %d of the output: no result before or after the kill", n)
		}
		if alive[owner] > 0 {
			continue
		}
		partitions++
		longest = max(longest, first.Sub(kill))
	}
	if partitions == 0 {
		return 0, 0, errors.New("bench: the instance that was killed had no task")
	}
	return longest, partitions, nil
}

// moved tells how an instance took tasks up that joined: for how long the one that was away longest was, and for how long
// the one that stayed was silent that was so longest.
func (a arrivals) moved(join, end time.Time) (away, stayed time.Duration, partitions int) {
	before := make(map[int64]bool)
	for _, p := range a {
		for _, e := range p {
			if e.at.Before(join) {
				before[e.producer] = true
			}
		}
	}
	for _, p := range a {
		last, taken := join, false
		for _, e := range p {
			if !before[e.producer] {
				away, taken = max(away, e.at.Sub(last)), true
				break
			}
			last = e.at
		}
		if taken {
			partitions++
		} else {
			stayed = max(stayed, silence(p, join, end))
		}
	}
	return away, stayed, partitions
}
