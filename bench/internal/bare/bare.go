// Package bare is the benchmark's yardstick: the loop that one would write by hand with franz-go for a scenario. It makes
// the same fetches and produces as a framework would, changelog included, and nothing else: state is a Go map that is
// never restored. What a framework loses against it is the price of the framework.
package bare

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/bench/internal/side"
)

// Side is the bare loop.
type Side struct{}

// work is one scenario's part: what becomes of a record, and what is due at a commit.
type work interface {
	record(r *kgo.Record)
	commit()
}

// Run implements side.Side.
func (Side) Run(ctx context.Context, c side.Config, p *side.Progress) error {
	l := &loop{config: c, progress: p, changelog: c.AppID + "-" + c.Scenario.StoreName() + "-changelog"}
	if err := l.makeTopics(ctx); err != nil {
		return err
	}
	if err := l.connect(ctx); err != nil {
		return err
	}
	defer l.client.Close()
	w, err := l.work(ctx)
	if err != nil {
		return err
	}
	return l.run(ctx, w)
}

type loop struct {
	config    side.Config
	progress  *side.Progress
	changelog string

	client  *kgo.Client
	session *kgo.GroupTransactSession // exactly once only
	failed  atomic.Pointer[error]     // of a produce
	promise func(*kgo.Record, error)  // one for all records: a closure each would be an allocation each
}

func (l *loop) connect(ctx context.Context) error {
	l.promise = func(r *kgo.Record, err error) {
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("bench: write to %s-%d: %w", r.Topic, r.Partition, err)
			l.failed.CompareAndSwap(nil, &err)
		}
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(l.config.Brokers...),
		kgo.ConsumerGroup(l.config.AppID),
		kgo.ConsumeTopics(l.reads()...),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(partitioner{l.changelog, kgo.StickyKeyPartitioner(nil)}),
	}
	var err error
	if l.config.Guarantee == side.ExactlyOnce {
		opts = append(opts, kgo.TransactionalID(l.config.AppID+"-bare"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		if l.session, err = kgo.NewGroupTransactSession(opts...); err == nil {
			l.client = l.session.Client()
		}
	} else {
		l.client, err = kgo.NewClient(opts...)
	}
	if err != nil {
		return fmt.Errorf("bench: client: %w", err)
	}
	return nil
}

// work makes the scenario's part.
func (l *loop) work(ctx context.Context) (work, error) {
	switch l.config.Scenario {
	case side.FilterMap:
		return filterMap{l}, nil
	case side.Count, side.CountNoCache:
		return newCounts(l), nil
	case side.TumblingCount:
		return newWindows(l, side.WindowSize), nil
	case side.HoppingCount:
		return newWindows(l, side.WindowAdvance), nil
	case side.SessionCount:
		return newSessions(l), nil
	case side.GroupCount:
		return groups{newCounts(l)}, nil
	case side.StreamTableJoin:
		return newJoin(ctx, l)
	}
	return nil, fmt.Errorf("bench: the bare loop has no scenario %q", l.config.Scenario)
}

// reads are the topics that the loop reads.
func (l *loop) reads() []string {
	if l.config.Scenario == side.GroupCount {
		return []string{l.config.Input, l.repartition()}
	}
	return []string{l.config.Input}
}

// makeTopics makes the topics between, and the changelog, with as many partitions as the input has.
func (l *loop) makeTopics(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(l.config.Brokers...))
	if err != nil {
		return fmt.Errorf("bench: client: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	input, err := admin.ListTopics(ctx, l.config.Input)
	if err != nil {
		return fmt.Errorf("bench: partitions of %q: %w", l.config.Input, err)
	}
	partitions := int32(len(input[l.config.Input].Partitions))
	create := func(topic string, configs map[string]*string) error {
		r, err := admin.CreateTopic(ctx, partitions, -1, configs, topic)
		if err = errors.Join(err, r.Err); err != nil {
			return fmt.Errorf("bench: create topic %q: %w", topic, err)
		}
		return nil
	}
	if l.config.Scenario.StoreName() != "" {
		if err := create(l.changelog, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}); err != nil {
			return err
		}
	}
	for _, topic := range l.reads() {
		if topic == l.config.Input {
			continue
		}
		if err := create(topic, nil); err != nil {
			return err
		}
		// It has to be there when the group is joined: the assignment would change later, and a transaction be aborted for it.
		if err := await(ctx, admin, topic); err != nil {
			return err
		}
	}
	return nil
}

// await waits until a topic has leaders.
func await(ctx context.Context, admin *kadm.Client, topic string) error {
	for {
		_, err := admin.ListEndOffsets(ctx, topic)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("bench: topic %q is not there: %w", topic, err)
		}
	}
}

// emit writes a record. The partition counts for the changelog only.
func (l *loop) emit(ctx context.Context, r *kgo.Record) { l.client.Produce(ctx, r, l.promise) }

// run polls, works and commits until the context ends.
func (l *loop) run(ctx context.Context, w work) error {
	if err := l.begin(); err != nil {
		return err
	}
	next := time.Now().Add(l.config.CommitInterval)
	for {
		fetches := l.poll(ctx, next)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err0(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("bench: fetch: %w", err)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				w.record(r)
			}
			if p.Topic == l.config.Input {
				l.progress.Add(byte(p.Partition), int64(len(p.Records)))
			}
		})
		if err := l.failed.Load(); err != nil {
			return *err
		}
		if time.Now().After(next) {
			w.commit()
			if err := l.commit(ctx); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			next = time.Now().Add(l.config.CommitInterval) // from its end: a poll whose time is over takes nothing
		}
	}
}

// poll waits for records, but no longer than until the next commit is due.
func (l *loop) poll(ctx context.Context, until time.Time) kgo.Fetches {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return l.client.PollFetches(ctx)
}

func (l *loop) begin() error {
	if l.session == nil {
		return nil
	}
	if err := l.session.Begin(); err != nil {
		return fmt.Errorf("bench: begin transaction: %w", err)
	}
	return nil
}

// end commits the transaction. The loop has nothing from which it could take its state back: where that is not possible it is
// at an end.
func (l *loop) end(ctx context.Context) error {
	committed, err := l.session.End(ctx, kgo.TryCommit)
	if err == nil && !committed {
		err = errors.New("it was aborted for a rebalance")
	}
	if err != nil {
		return fmt.Errorf("bench: end transaction: %w", err)
	}
	return nil
}

// commit makes what was written durable, then the offsets of what it was made of.
func (l *loop) commit(ctx context.Context) error {
	if l.session != nil {
		if err := l.end(ctx); err != nil {
			return err
		}
		return l.begin()
	}
	if err := l.client.Flush(ctx); err != nil {
		return fmt.Errorf("bench: flush: %w", err)
	}
	if err := l.client.CommitUncommittedOffsets(ctx); err != nil {
		return fmt.Errorf("bench: commit offsets: %w", err)
	}
	return nil
}

// partitioner sends changelog records where their task says, and all others where their key says.
type partitioner struct {
	changelog string
	byKey     kgo.Partitioner
}

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	if topic == p.changelog {
		return kgo.ManualPartitioner().ForTopic(topic)
	}
	return p.byKey.ForTopic(topic)
}
