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
		kgo.ConsumeTopics(l.config.Input),
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

// work makes the scenario's part, and its changelog topic if it has one.
func (l *loop) work(ctx context.Context) (work, error) {
	if l.config.Scenario.StoreName() != "" {
		if err := l.createChangelog(ctx); err != nil {
			return nil, err
		}
	}
	switch l.config.Scenario {
	case side.FilterMap:
		return filterMap{l}, nil
	case side.Count, side.CountNoCache:
		return newCounts(l), nil
	case side.TumblingCount:
		return newWindows(l), nil
	case side.StreamTableJoin:
		return newJoin(ctx, l)
	}
	return nil, fmt.Errorf("bench: the bare loop has no scenario %q", l.config.Scenario)
}

func (l *loop) createChangelog(ctx context.Context) error {
	admin := kadm.NewClient(l.client)
	input, err := admin.ListTopics(ctx, l.config.Input)
	if err != nil {
		return fmt.Errorf("bench: partitions of %q: %w", l.config.Input, err)
	}
	compact := map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}
	partitions := int32(len(input[l.config.Input].Partitions))
	r, err := admin.CreateTopic(ctx, partitions, -1, compact, l.changelog)
	if err = errors.Join(err, r.Err); err != nil {
		return fmt.Errorf("bench: create topic %q: %w", l.changelog, err)
	}
	return nil
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
			l.progress.Add(byte(p.Partition), int64(len(p.Records)))
		})
		if err := l.failed.Load(); err != nil {
			return *err
		}
		if now := time.Now(); now.After(next) {
			w.commit()
			if err := l.commit(ctx); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			next = now.Add(l.config.CommitInterval)
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

// commit makes what was written durable, then the offsets of what it was made of.
func (l *loop) commit(ctx context.Context) error {
	if l.session != nil {
		if _, err := l.session.End(ctx, kgo.TryCommit); err != nil {
			return fmt.Errorf("bench: end transaction: %w", err)
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
