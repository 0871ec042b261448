//go:build synctests

package sim_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/sim"
	"github.com/millrace-io/millrace/serde"
)

// work is an application, what is fed to it, and what knows the right results.
type work interface {
	topics() (inputs, outputs []sim.Topic)
	topology() (*millrace.Topology, error)
	// next makes the next record of the input, and last those that come when all else is done.
	next() sim.Input
	last() []sim.Input
	// take takes the next result of its partition.
	take(sim.Result) error
	// complete says what is missing.
	complete() error
}

// slowness lets calls of the application's functions take long, counted over all instances.
type slowness struct {
	calls atomic.Int64
	takes map[int64]time.Duration // by the number of the call
}

// slowestCall is what no call takes longer than.
const slowestCall = 13 * time.Second

func (s *slowness) inside() {
	if d := s.takes[s.calls.Add(1)]; d > 0 {
		time.Sleep(d)
	}
}

// shared is one of the workloads that both layers of the simulation run.
type shared struct {
	w       sim.Workload
	variant sim.Variant
	feed    sim.Feed

	mu     sync.Mutex
	oracle sim.Oracle
}

func newShared(w sim.Workload, v sim.Variant, rng *rand.Rand, exactly bool) *shared {
	return &shared{w: w, variant: v, feed: w.NewFeed(rng), oracle: w.NewOracle(sim.Expectation{Exactly: exactly, Cached: v.Cached})}
}

func (s *shared) topics() (inputs, outputs []sim.Topic) { return s.w.Inputs, s.w.Outputs }

func (s *shared) topology() (*millrace.Topology, error) { return s.w.Topology(s.variant) }

func (s *shared) next() sim.Input {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.feed.Next()
	s.oracle.Fed(in)
	return in
}

func (s *shared) last() []sim.Input {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.feed.Last()
	for _, in := range all {
		s.oracle.Fed(in)
	}
	return all
}

func (s *shared) take(r sim.Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.oracle.Result(r)
}

func (s *shared) complete() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.oracle.Complete()
}

// Each key of the input counts 1, 2, 3, ... From it come a copy, a running count and sum of each key, and a count of each
// group of keys behind a repartition topic. So every result is known beforehand.
const (
	inTopic      = "in"
	copyTopic    = "copy"
	runningTopic = "running"
	groupTopic   = "groups"
	groupNumber  = 3

	numberedPartitions = 4
)

// running is what a key has come to.
type running struct{ Last, Count, Sum int64 }

// numbered is the application of this layer's own.
type numbered struct {
	keys    int
	exactly bool
	slow    *slowness

	mu     sync.Mutex
	fed    map[string]int64 // the last number of each key
	feeds  int
	group  map[string]int64 // records of each group
	calls  map[string]int   // how often each record was processed
	taken  map[string]int64 // the highest number of each key that was processed
	skips  []error
	copied map[string]int64 // the last number of each key
	count  map[string]running
	groups map[string]int64
}

func newNumbered(keys int, exactly bool) *numbered {
	return &numbered{keys: keys, exactly: exactly, slow: new(slowness), fed: make(map[string]int64), group: make(map[string]int64), calls: make(map[string]int), taken: make(map[string]int64),
		copied: make(map[string]int64), count: make(map[string]running), groups: make(map[string]int64)}
}

func (w *numbered) topics() (inputs, outputs []sim.Topic) {
	return []sim.Topic{{Name: inTopic, Partitions: numberedPartitions}},
		[]sim.Topic{{Name: copyTopic, Partitions: numberedPartitions}, {Name: runningTopic, Partitions: numberedPartitions}, {Name: groupTopic, Partitions: 2}}
}

func groupOf(key string) string {
	h := fnv.New32()
	h.Write([]byte(key))
	return fmt.Sprint("g", h.Sum32()%groupNumber)
}

// process is the user's function through which each record of the input goes.
func (w *numbered) process(key string, n int64) int64 {
	w.mu.Lock()
	w.calls[fmt.Sprint(key, ":", n)]++
	if n > w.taken[key]+1 {
		w.skips = append(w.skips, fmt.Errorf("%s: %d is processed, and %d never was", key, n, w.taken[key]+1))
	}
	w.taken[key] = max(w.taken[key], n)
	w.mu.Unlock()
	w.slow.inside()
	return n
}

func (w *numbered) topology() (*millrace.Topology, error) {
	b := millrace.NewBuilder()
	in := millrace.MapValuesWithKey(millrace.From(b, millrace.NewTopic(inTopic, serde.String, serde.Int64)), w.process)
	in.To(millrace.NewTopic(copyTopic, serde.String, serde.Int64))
	millrace.Aggregate(in.GroupByKey(), func() running { return running{} }, func(_ string, n int64, a running) running {
		return running{Last: n, Count: a.Count + 1, Sum: a.Sum + n}
	}, serde.JSON[running](), millrace.As("running")).ToStream().To(millrace.NewTopic(runningTopic, serde.String, serde.JSON[running]()))
	millrace.Count(millrace.GroupBy(in, func(key string, _ int64) string { return groupOf(key) }, millrace.WithKey(serde.String),
		millrace.WithValue(serde.Int64)), millrace.As("group-counts")).
		ToStream().To(millrace.NewTopic(groupTopic, serde.String, serde.Int64))
	return b.Build()
}

func (w *numbered) next() sim.Input {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := fmt.Sprint("key-", w.feeds%w.keys)
	w.feeds++
	w.fed[key]++
	w.group[groupOf(key)]++
	value := binary.BigEndian.AppendUint64(nil, uint64(w.fed[key]))
	return sim.Input{Topic: inTopic, Partition: codec.Partition([]byte(key), numberedPartitions), Key: []byte(key), Value: value, TimestampMs: 1_000_000 + int64(w.feeds)}
}

func (w *numbered) last() []sim.Input {
	var all []sim.Input
	for range w.keys {
		all = append(all, w.next())
	}
	return all
}

func (w *numbered) take(r sim.Result) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.skips) > 0 {
		return w.skips[0]
	}
	key := string(r.Key)
	if r.Topic == runningTopic {
		var v running
		if err := json.Unmarshal(r.Value, &v); err != nil {
			return err
		}
		had := w.count[key]
		if v.Last >= had.Last {
			w.count[key] = v
		}
		if want := (running{v.Last, v.Last, v.Last * (v.Last + 1) / 2}); w.exactly && v != want {
			return fmt.Errorf("%s: %+v, want %+v", key, v, want)
		}
		return w.step(key, had.Last, v.Last)
	}
	n, err := serde.Int64.Decode(r.Value)
	if err != nil {
		return err
	}
	last := w.copied
	if r.Topic == groupTopic {
		last = w.groups
	}
	had := last[key]
	last[key] = max(had, n)
	if r.Topic == groupTopic && !w.exactly {
		// A crash behind a changelog record and before the result that goes with it counts the record twice under at-least-once,
		// and the results skip a number.
		return nil
	}
	return w.step(key, had, n)
}

// step checks a number that goes up by one, or comes again under at-least-once.
func (w *numbered) step(key string, had, now int64) error {
	switch {
	case now == had+1, now <= had && !w.exactly:
		return nil
	case now <= had:
		return fmt.Errorf("%s: %d comes again after %d", key, now, had)
	}
	return fmt.Errorf("%s: %d comes after %d: something is lost", key, now, had)
}

func (w *numbered) complete() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, all := range w.fed {
		if n := w.copied[key]; n < all {
			return fmt.Errorf("%s: copied up to %d of %d", key, n, all)
		}
		if v := w.count[key]; v.Last < all || v.Count < all {
			return fmt.Errorf("%s: counted up to %+v of %d", key, v, all)
		}
	}
	for g, all := range w.group {
		if n := w.groups[g]; n < all {
			return fmt.Errorf("group %s: counted up to %d of %d", g, n, all)
		}
	}
	return nil
}

// feed writes n records and waits for them.
func (b *bubble) feed(n int) error {
	rs := make([]sim.Input, 0, n)
	for range n {
		rs = append(rs, b.work.next())
	}
	return b.write(rs)
}

func (b *bubble) write(all []sim.Input) error {
	rs := make([]*kgo.Record, 0, len(all))
	for _, in := range all {
		rs = append(rs, &kgo.Record{Topic: in.Topic, Partition: in.Partition, Key: in.Key, Value: in.Value, Timestamp: time.UnixMilli(in.TimestampMs)})
	}
	return b.cl.ProduceSync(b.t.Context(), rs...).FirstErr()
}

// watcher reads the results beside the test, in order, as a reader of committed records.
type watcher struct {
	b *bubble

	mu    sync.Mutex
	next  map[string]map[int32]int64 // by topic and partition, the offset to be read next
	wrong []error
	last  time.Time // of a result
	seen  int
}

func (o *watcher) take(r *kgo.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next[r.Topic] == nil {
		o.next[r.Topic] = make(map[int32]int64)
	}
	if r.Offset < o.next[r.Topic][r.Partition] {
		return // the reader has begun anew when a leader had moved
	}
	o.next[r.Topic][r.Partition] = r.Offset + 1
	o.last = time.Now()
	o.seen++
	err := o.b.work.take(sim.Result{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, TimestampMs: r.Timestamp.UnixMilli()})
	if err != nil {
		o.b.trace.note("WRONG: %s-%d at %d: %v", r.Topic, r.Partition, r.Offset, err)
		o.wrong = append(o.wrong, fmt.Errorf("%s-%d at %d: %w", r.Topic, r.Partition, r.Offset, err))
	}
}

// err is what was wrong so far.
func (o *watcher) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Join(o.wrong[:min(len(o.wrong), 10)]...)
}

// results tells how many results there are, and since when there was none.
func (o *watcher) results() (n int, last time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen, o.last
}

// watch reads the results beside the test. The function that it returns ends that.
func (b *bubble) watch() (*watcher, func()) {
	b.t.Helper()
	o := &watcher{b: b, next: make(map[string]map[int32]int64), last: time.Now()}
	_, outputs := b.work.topics()
	cl := b.client(kgo.ConsumeTopics(names(outputs)...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(o.take)
		}
	}()
	return o, func() {
		cancel()
		<-done
		cl.Close()
	}
}

func names(topics []sim.Topic) (out []string) {
	for _, t := range topics {
		out = append(out, t.Name)
	}
	return out
}
