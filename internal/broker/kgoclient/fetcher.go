package kgoclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/internal/broker"
)

// Fetcher implements broker.Fetcher.
//
// It sends a broker one request at a time, for all of its partitions that are neither paused nor have a batch waiting to
// be polled, and the next one only when everything of that broker has been polled. So what is held is at most one answer
// in flight and one batch for each partition, and a partition that is paused keeps its batch until it is resumed: nothing
// is fetched twice.
type Fetcher struct {
	c     *conn
	level isolation
	meta  *metadata
	near  *nearby
	dec   kgo.Decompressor
	ready chan struct{} // holds a token when Poll may find something
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu      sync.Mutex
	parts   map[broker.TopicPartition]*fetchState
	brokers map[int32]*brokerState
	seq     uint64
	dirty   bool            // something was assigned, removed, paused or resumed since the last Poll
	loading bool            // a metadata request is under way
	misses  int             // metadata requests that failed in a row
	resting map[string]bool // topics whose metadata may not be asked for yet
	timers  map[*time.Timer]struct{}
	closed  bool
}

// fetchState is one partition. Its seq tells an answer to an earlier assignment apart.
type fetchState struct {
	seq         uint64
	epoch       uint64 // the engine's
	offset      int64
	lastEpoch   int32 // leader epoch of the record before offset
	leader      leader
	id          [16]byte
	fetchedFrom int32 // leader epoch of the last good answer, -1 none yet
	paused      bool
	inFlight    bool
	resting     bool // waits before another try
	failed      bool // an error was shown; nothing more until it is assigned again
	failures    int
	answers     uint64 // without an error
	shown       ends
	batch       *broker.Batch
}

type ends struct{ high, stable, start int64 }

type brokerState struct {
	busy     bool
	resting  bool
	failures int
	turn     int // which partition comes first in the next request: the first are served best
}

var _ broker.Fetcher = (*Fetcher)(nil)

// NewFetcher opens a fetching client. Read-committed leaves out what aborted transactions wrote and ends at the last
// stable offset.
func NewFetcher(cfg Config, committed bool) (*Fetcher, error) {
	c, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	f := &Fetcher{
		c: c, meta: newMetadata(c), near: newNearby(c.cfg.Fetch.Rack, c.cfg.MetadataMaxAge), dec: kgo.DefaultDecompressor(), ready: make(chan struct{}, 1),
		parts: make(map[broker.TopicPartition]*fetchState), brokers: make(map[int32]*brokerState),
		resting: make(map[string]bool), timers: make(map[*time.Timer]struct{}),
	}
	if committed {
		f.level = readCommitted
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f, nil
}

// Assign implements broker.Fetcher. Like the other calls that change what is read, it takes effect with the next Poll, so
// that what changes together is asked for together: a request that is under way cannot be changed, and with nothing to
// read it lasts MaxWait.
func (f *Fetcher) Assign(tp broker.TopicPartition, offset int64, epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	s := &fetchState{
		seq: f.seq, epoch: epoch, offset: offset, lastEpoch: -1, fetchedFrom: -1, leader: leader{node: -1, epoch: -1},
		shown: ends{-1, -1, -1},
	}
	if old := f.parts[tp]; old != nil {
		s.paused, s.leader, s.id = old.paused, old.leader, old.id
	} else {
		f.locate(tp, s)
	}
	f.parts[tp] = s
	f.dirty = true
}

// locate takes the leader from what is known of the topic.
func (f *Fetcher) locate(tp broker.TopicPartition, s *fetchState) {
	if l, t, ok := f.meta.leaderOf(tp); ok {
		s.leader, s.id = l, t.id
	}
}

// Unassign implements broker.Fetcher.
func (f *Fetcher) Unassign(tps ...broker.TopicPartition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, tp := range tps {
		delete(f.parts, tp)
	}
	f.dirty = true
}

// Pause implements broker.Fetcher. What has been fetched stays and is polled after Resume.
func (f *Fetcher) Pause(tps ...broker.TopicPartition) { f.setPaused(true, tps) }

// Resume implements broker.Fetcher.
func (f *Fetcher) Resume(tps ...broker.TopicPartition) { f.setPaused(false, tps) }

func (f *Fetcher) setPaused(paused bool, tps []broker.TopicPartition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, tp := range tps {
		if s := f.parts[tp]; s != nil {
			if s.paused && !paused {
				s.shown = ends{-1, -1, -1} // the next answer is told, even if nothing has moved meanwhile
				if s.batch != nil && s.batch.Err == nil {
					// It comes only now. Where the log ended when it was fetched says nothing any more.
					s.batch.HighWater, s.batch.StableEnd = -1, -1
				}
			}
			s.paused = paused
		}
	}
	f.dirty = true
}

// Poll implements broker.Fetcher. Batches are in the order of topic and partition. A batch without records tells that the
// position or an end of the log has moved.
func (f *Fetcher) Poll(ctx context.Context) []broker.Batch {
	for {
		if out := f.take(); len(out) > 0 {
			return out
		}
		select {
		case <-f.ready:
		case <-ctx.Done():
			return nil
		case <-f.ctx.Done():
			return nil
		}
	}
}

// take collects what is ready and lets the brokers be asked for more.
func (f *Fetcher) take() []broker.Batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []broker.Batch
	for _, s := range f.parts {
		if s.batch != nil && !s.paused {
			out = append(out, *s.batch)
			s.batch = nil
		}
	}
	slices.SortFunc(out, func(a, b broker.Batch) int { return a.Compare(b.TopicPartition) })
	if len(out) > 0 || f.dirty {
		f.dirty = false
		f.kick()
	}
	return out
}

// Answers implements broker.Fetcher.
func (f *Fetcher) Answers(tp broker.TopicPartition) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.parts[tp]; s != nil && s.batch == nil && !s.failed {
		return s.answers
	}
	return 0
}

// Close implements broker.Fetcher. It waits for the requests under way to end, which closing the connections makes quick.
func (f *Fetcher) Close() {
	f.mu.Lock()
	f.closed = true
	for t := range f.timers {
		t.Stop()
	}
	f.mu.Unlock()
	f.near.close()
	f.stop()
	f.c.Close()
	f.tasks.Wait()
}

func (f *Fetcher) signal() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// kick starts whatever requests can be started. The lock is held; every change of state ends here.
func (f *Fetcher) kick() {
	if f.closed {
		return
	}
	wanted := make(map[int32][]broker.TopicPartition)
	held := make(map[int32]bool) // brokers with something to poll
	var lost []broker.TopicPartition
	for tp, s := range f.parts {
		switch {
		case s.paused || s.failed || s.inFlight:
		case s.leader.node < 0:
			if !s.resting && !f.resting[tp.Topic] {
				lost = append(lost, tp)
			}
		case s.batch != nil:
			held[f.near.node(tp, s.leader.node)] = true
		case !s.resting:
			node := f.near.node(tp, s.leader.node)
			wanted[node] = append(wanted[node], tp)
		}
	}
	for node, tps := range wanted {
		b := f.brokers[node]
		if b == nil {
			b = new(brokerState)
			f.brokers[node] = b
		}
		if !b.busy && !b.resting && !held[node] {
			f.ask(node, b, tps)
		}
	}
	if len(lost) > 0 && !f.loading {
		f.find(lost)
	}
}

// ask sends one broker a request for partitions.
func (f *Fetcher) ask(node int32, b *brokerState, tps []broker.TopicPartition) {
	broker.SortPartitions(tps)
	b.turn++
	b.busy = true
	first := b.turn % len(tps)
	parts := make([]fetchPart, 0, len(tps))
	seqs := make(map[broker.TopicPartition]uint64, len(tps))
	for i := range tps {
		tp := tps[(first+i)%len(tps)]
		s := f.parts[tp]
		s.inFlight = true
		seqs[tp] = s.seq
		p := fetchPart{
			TopicPartition: tp, id: s.id, offset: s.offset, leaderEpoch: s.leader.epoch, lastEpoch: -1,
			maxBytes: f.c.cfg.Fetch.MaxPartitionBytes, replica: node != s.leader.node,
		}
		if !p.replica && s.fetchedFrom >= 0 && s.fetchedFrom != s.leader.epoch {
			p.lastEpoch = s.lastEpoch // another leader: does its log agree with what was read so far?
		}
		parts = append(parts, p)
	}
	rack := f.near.rackFor(parts)
	f.tasks.Add(1)
	go func() {
		defer f.tasks.Done()
		conf := f.c.cfg.Fetch
		answers, err := f.c.fetch(f.ctx, f.dec, node, rack, f.level, conf.MaxWait, conf.MinBytes, conf.MaxBytes, parts)
		for i := range answers {
			a := &answers[i]
			var oor broker.Code
			if !a.part.replica && errors.As(a.err, &oor) && oor == broker.CodeOffsetOutOfRange {
				a.err = f.c.rangeError(f.ctx, a.part.TopicPartition, a.part.offset)
			}
		}
		f.answered(node, parts, seqs, answers, err)
	}()
}

func (f *Fetcher) answered(node int32, parts []fetchPart, seqs map[broker.TopicPartition]uint64, answers []fetched, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.brokers[node]
	b.busy = false
	states := make(map[broker.TopicPartition]*fetchState, len(seqs))
	for tp, seq := range seqs {
		if s := f.parts[tp]; s != nil && s.seq == seq {
			s.inFlight = false
			states[tp] = s
		}
	}
	if err != nil {
		// The broker may be gone for good: look for other leaders as well as trying again.
		b.failures++
		b.resting = true
		for _, p := range parts {
			if s := states[p.TopicPartition]; s != nil && p.replica {
				f.near.failed(p.TopicPartition)
			} else if s != nil {
				s.leader = leader{node: -1, epoch: -1}
			}
		}
		f.after(f.c.cfg.backoff(b.failures), func() { b.resting = false })
		f.kick()
		return
	}
	b.failures = 0
	for i := range answers {
		if s := states[answers[i].part.TopicPartition]; s != nil {
			f.take1(s, &answers[i])
		}
	}
	f.kick()
}

// take1 takes over the answer for one partition.
func (f *Fetcher) take1(s *fetchState, a *fetched) {
	switch {
	case a.err != nil && a.part.replica:
		// Whatever it is, the leader has the word: a replica that is behind may not know the offset yet, and one that is no replica
		// any more knows nothing.
		f.near.failed(a.part.TopicPartition)
		if moved(a.err) {
			s.leader = leader{node: -1, epoch: -1}
		}
	case a.err == nil && a.preferred >= 0 && a.batch.Position == a.part.offset:
		f.near.prefer(a.part.TopicPartition, a.preferred) // an answer that says nothing else
	case a.err == nil:
		s.failures = 0
		s.answers++
		s.fetchedFrom = a.part.leaderEpoch
		if a.lastEpoch >= 0 { // of an answer without records nothing is known
			s.lastEpoch = a.lastEpoch
		}
		now := ends{a.batch.HighWater, a.batch.StableEnd, a.batch.LogStart}
		if a.batch.Position == s.offset && now == s.shown {
			return
		}
		s.offset, s.shown = a.batch.Position, now
		f.show(s, a.batch)
	case moved(a.err):
		s.failures++
		s.leader = leader{node: -1, epoch: -1}
		if s.failures > 1 {
			s.resting = true
			f.after(f.c.cfg.backoff(s.failures), func() { s.resting = false })
		}
	default:
		f.fail(s, a.part.TopicPartition, a.err)
	}
}

func (f *Fetcher) show(s *fetchState, b broker.Batch) {
	b.Epoch = s.epoch
	s.batch = &b
	if !s.paused {
		f.signal()
	}
}

// fail shows an error and stops reading the partition.
func (f *Fetcher) fail(s *fetchState, tp broker.TopicPartition, err error) {
	s.failed = true
	b := broker.Batch{TopicPartition: tp, Position: s.offset, HighWater: s.shown.high, StableEnd: s.shown.stable, LogStart: s.shown.start, Err: err}
	var oor *broker.OffsetRangeError
	if errors.As(err, &oor) {
		b.LogStart, b.HighWater = oor.LogStart, oor.End
	}
	f.show(s, b)
}

// unknownTries is how often a topic may be unknown before that is shown: a new topic takes a moment to reach all brokers.
const unknownTries = 8

// find looks up the leaders of partitions.
func (f *Fetcher) find(tps []broker.TopicPartition) {
	f.loading = true
	topics := make(map[string]bool)
	for _, tp := range tps {
		topics[tp.Topic] = true
	}
	names := make([]string, 0, len(topics))
	for t := range topics {
		names = append(names, t)
	}
	slices.Sort(names)
	f.tasks.Add(1)
	go func() {
		defer f.tasks.Done()
		err := f.meta.load(f.ctx, f.meta.last(), names...)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.loading = false
		for _, t := range names {
			f.resting[t] = true
		}
		rest := f.c.cfg.MetadataMinAge
		if err == nil {
			f.misses = 0
		} else {
			f.misses++
			rest = max(rest, f.c.cfg.backoff(f.misses))
		}
		f.after(rest, func() {
			for _, t := range names {
				delete(f.resting, t)
			}
		})
		for tp, s := range f.parts { // also those that were assigned meanwhile
			if err == nil && topics[tp.Topic] && s.leader.node < 0 && !s.failed {
				f.found(tp, s)
			}
		}
		f.kick()
	}()
}

func (f *Fetcher) found(tp broker.TopicPartition, s *fetchState) {
	l, t, ok := f.meta.leaderOf(tp)
	missing := t.err == nil && int(tp.Partition) >= len(t.partitions) || errors.Is(t.err, broker.ErrUnknownTopic)
	switch {
	case ok && s.id != [16]byte{} && t.id != s.id:
		f.fail(s, tp, &recreatedError{tp})
	case ok:
		s.leader, s.id = l, t.id
		f.near.forget(tp)
	case missing && s.failures >= unknownTries:
		f.fail(s, tp, broker.CodeUnknownTopicOrPartition)
	case t.err != nil && !missing && !moved(t.err):
		f.fail(s, tp, t.err)
	default:
		s.failures++
	}
}

// recreatedError is a topic that was deleted and created again: the offsets in it mean something else now.
type recreatedError struct{ tp broker.TopicPartition }

func (e *recreatedError) Error() string {
	return "millrace: " + e.tp.Topic + " was deleted and created again: positions in it are void; assign its partitions anew"
}

func (e *recreatedError) Is(target error) bool {
	return target == broker.ErrUnknownTopic || target == broker.CodeUnknownTopicID
}

// after calls fn under the lock when a pause is over, and kicks.
func (f *Fetcher) after(d time.Duration, fn func()) {
	if f.closed {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.timers, t)
		fn()
		f.kick()
	})
	f.timers[t] = struct{}{}
}
