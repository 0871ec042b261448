package brokertest

import (
	"context"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
)

// Isolation chooses what a Fetcher shows.
type Isolation bool

// The two levels.
const (
	ReadUncommitted Isolation = false
	ReadCommitted   Isolation = true
)

// Fetcher implements broker.Fetcher.
type Fetcher struct {
	c *Cluster
	// Limit bounds the records of one partition in one Poll; 0 takes all that is there.
	limit     int
	committed bool
	parts     map[broker.TopicPartition]*fetchState
	held      map[broker.TopicPartition]bool
	closed    bool
	polls     int
}

type fetchState struct {
	position int64
	epoch    uint64
	paused   bool
	failed   bool // an error was shown; nothing more until it is assigned again
	shown    [3]int64
	answers  uint64
}

var _ broker.Fetcher = (*Fetcher)(nil)

// Fetcher opens a fetching client.
func (c *Cluster) Fetcher(level Isolation) *Fetcher {
	return &Fetcher{c: c, committed: bool(level), parts: make(map[broker.TopicPartition]*fetchState), held: make(map[broker.TopicPartition]bool)}
}

// SetLimit bounds the records of one partition in one Poll; 0 takes all that is there.
func (f *Fetcher) SetLimit(records int) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.limit = records
}

// Hold keeps the records of partitions away from Poll, as a slow broker does, until Release.
func (f *Fetcher) Hold(tps ...broker.TopicPartition) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	for _, tp := range tps {
		f.held[tp] = true
	}
}

// Release ends Hold.
func (f *Fetcher) Release(tps ...broker.TopicPartition) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	for _, tp := range tps {
		delete(f.held, tp)
	}
	f.c.changed.Broadcast()
}

// Assign implements broker.Fetcher.
func (f *Fetcher) Assign(tp broker.TopicPartition, offset int64, epoch uint64) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.parts[tp] = &fetchState{position: offset, epoch: epoch, shown: [3]int64{-1, -1, -1}, paused: f.parts[tp] != nil && f.parts[tp].paused}
	f.c.changed.Broadcast()
}

// Unassign implements broker.Fetcher.
func (f *Fetcher) Unassign(tps ...broker.TopicPartition) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	for _, tp := range tps {
		delete(f.parts, tp)
	}
}

// Pause implements broker.Fetcher.
func (f *Fetcher) Pause(tps ...broker.TopicPartition) { f.setPaused(true, tps) }

// Resume implements broker.Fetcher.
func (f *Fetcher) Resume(tps ...broker.TopicPartition) { f.setPaused(false, tps) }

func (f *Fetcher) setPaused(paused bool, tps []broker.TopicPartition) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	for _, tp := range tps {
		if s := f.parts[tp]; s != nil {
			if s.paused && !paused {
				s.shown = [3]int64{-1, -1, -1}
			}
			s.paused = paused
		}
	}
	f.c.changed.Broadcast()
}

// Assigned lists the partitions being read, sorted.
func (f *Fetcher) Assigned() []broker.TopicPartition {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	return f.sorted(func(*fetchState) bool { return true })
}

// Paused lists the partitions that are paused, sorted.
func (f *Fetcher) Paused() []broker.TopicPartition {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	return f.sorted(func(s *fetchState) bool { return s.paused })
}

// Position is the next offset that will be read of a partition, -1 if it is not assigned.
func (f *Fetcher) Position(tp broker.TopicPartition) int64 {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if s := f.parts[tp]; s != nil {
		return s.position
	}
	return -1
}

// Polls counts the calls of Poll.
func (f *Fetcher) Polls() int {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	return f.polls
}

func (f *Fetcher) sorted(keep func(*fetchState) bool) []broker.TopicPartition {
	var tps []broker.TopicPartition
	for tp, s := range f.parts {
		if keep(s) {
			tps = append(tps, tp)
		}
	}
	broker.SortPartitions(tps)
	return tps
}

// Poll implements broker.Fetcher. It returns at once unless the cluster is Blocking. A partition of which neither the
// position nor an end of the log has moved is not in the answer.
func (f *Fetcher) Poll(ctx context.Context) []broker.Batch {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.polls++
	var out []broker.Batch
	f.c.await(ctx, func() bool {
		out = f.poll()
		return len(out) > 0 || f.closed
	})
	return out
}

// Answers implements broker.Fetcher: each call is a question to the cluster, which a partition that can be read answers.
func (f *Fetcher) Answers(tp broker.TopicPartition) uint64 {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	s := f.parts[tp]
	if s == nil || s.paused || s.failed || f.held[tp] {
		return 0
	}
	b := f.fetch(tp, s)
	if b.Err != nil || b.Position != s.position {
		return 0
	}
	s.answers++
	return s.answers
}

func (f *Fetcher) poll() []broker.Batch {
	var out []broker.Batch
	if f.closed {
		return nil
	}
	for _, tp := range f.sorted(func(s *fetchState) bool { return !s.paused && !s.failed }) {
		if f.held[tp] {
			continue
		}
		s := f.parts[tp]
		b := f.fetch(tp, s)
		if b.Err != nil {
			b.Records, b.Position, s.failed = nil, s.position, true
		} else if ends := [3]int64{b.HighWater, b.StableEnd, b.LogStart}; b.Position == s.position && ends == s.shown {
			continue
		} else {
			s.shown = ends
		}
		b.Epoch = s.epoch
		s.position = b.Position
		out = append(out, b)
	}
	return out
}

func (f *Fetcher) fetch(tp broker.TopicPartition, s *fetchState) broker.Batch {
	if x := f.c.fault(Call{Op: OpFetch, Topic: tp.Topic, Partitions: []broker.TopicPartition{tp}}); x != nil {
		return broker.Batch{TopicPartition: tp, HighWater: -1, StableEnd: -1, LogStart: -1, Err: x.Err}
	}
	l := f.c.log(tp)
	if l == nil {
		return broker.Batch{TopicPartition: tp, HighWater: -1, StableEnd: -1, LogStart: -1, Err: broker.CodeUnknownTopicOrPartition}
	}
	b := l.read(tp, s.position, f.committed, f.limit)
	b.Records = slices.Clip(b.Records)
	return b
}

// Close implements broker.Fetcher.
func (f *Fetcher) Close() {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	f.closed = true
	f.parts = make(map[broker.TopicPartition]*fetchState)
	f.c.changed.Broadcast()
}

// await waits, under the lock, until ready or the end of the context; without Blocking it tries once.
func (c *Cluster) await(ctx context.Context, ready func() bool) bool {
	return ready() || c.blocking && c.wait(ctx, ready)
}

// wait waits for the condition in any cluster. The cluster is locked.
func (c *Cluster) wait(ctx context.Context, ready func() bool) bool {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	defer stop()
	for {
		if ready() {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		c.changed.Wait()
	}
}
