package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/bench/internal/data"
	"github.com/millrace-io/millrace/bench/internal/side"
	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// Sides that are killed and started again count trialPasses + 1 records for each of Settings.TrialKeys keys, the first of
// each key before all others.
const (
	trialPasses     = 2
	trialValueBytes = 100
	trialTimeout    = 5 * time.Minute
	// trialMore is how many records are written between a kill and the start for a side that had taken up all of them.
	trialMore = 1000
)

// RestoreResult is what a restore of all stores of a side showed.
type RestoreResult struct {
	Records          int64
	RecordsPerSecond float64
}

// Restart lets a side count, kills it in the middle of the work and starts it again on its own disk. The result is the time
// from the start of the process to the first result that a reader of committed records sees.
func (b *Bench) Restart(ctx context.Context, c Contender, guarantee string) (took time.Duration, err error) {
	err = b.again(ctx, c, side.Count, guarantee, func(t *trial) error {
		// Every key is in the store, and most of the work is still to be done.
		keys := int64(b.settings.TrialKeys)
		if err := t.run(ctx, func(p *process) error {
			_, err := p.await(ctx, func(r side.Reading) bool { return r.Records > keys+keys/10 })
			return err
		}); err != nil {
			return err
		}
		results, err := b.resultsFromNow(ctx, t.config.Output)
		if err != nil {
			return err
		}
		defer results.Close()
		return t.run(ctx, func(p *process) error {
			fetches := results.PollFetches(ctx)
			took = time.Since(p.started)
			if fetches.NumRecords() == 0 {
				return fmt.Errorf("bench: no result after the restart: %w\n%s", errors.Join(fetches.Err(), ctx.Err()), p.stderr.String())
			}
			return nil
		})
	})
	return took, err
}

// Restore lets a side count everything, without a cache, so that each record of the input is one of the changelog. Then the
// side is killed, its disk removed, and it is started again. The result is about the restores that follow, from the beginning
// of the first to the end of the last.
func (b *Bench) Restore(ctx context.Context, c Contender, guarantee string) (r RestoreResult, err error) {
	err = b.again(ctx, c, side.CountNoCache, guarantee, func(t *trial) error {
		if err := t.run(ctx, func(p *process) error {
			if _, err := p.await(ctx, func(r side.Reading) bool { return r.Records >= t.in.records }); err != nil {
				return err
			}
			return b.allCommitted(ctx, t.config.AppID, t.in)
		}); err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(t.config.StateDir), os.Mkdir(t.config.StateDir, 0o700)); err != nil {
			return fmt.Errorf("bench: state folder: %w", err)
		}
		if err := b.append(ctx, t.in, t.in.records+trialMore); err != nil {
			return err
		}
		return t.run(ctx, func(p *process) error {
			stores := int64(b.settings.Partitions)
			if _, err := p.await(ctx, func(side.Reading) bool {
				restored := p.restored.Load()
				return restored != nil && restored.Stores >= stores
			}); err != nil {
				return err
			}
			restored := p.restored.Load()
			r = RestoreResult{Records: restored.Records, RecordsPerSecond: float64(restored.Records) / restored.Took.Seconds()}
			if r.Records < int64(b.settings.TrialKeys) {
				return fmt.Errorf("bench: %d records were restored, and there are %d keys", r.Records, b.settings.TrialKeys)
			}
			return nil
		})
	})
	return r, err
}

// trial is one application that runs more than once.
type trial struct {
	in      *input
	command []string
	config  side.Config
}

// again prepares an application that counts, and clears away behind it.
func (b *Bench) again(ctx context.Context, c Contender, s side.Scenario, guarantee string, try func(*trial) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	in, err := b.trialInput(ctx)
	if err != nil {
		return err
	}
	config, clean, err := b.application(ctx, c, Work{Scenario: s, Guarantee: guarantee}, in)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, clean()) }()
	config.InstanceID = "one"
	t := &trial{in: in, command: c.Command, config: config}
	if err := try(t); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return nil
}

// run starts the application's process, and kills it when use returns.
func (t *trial) run(ctx context.Context, use func(*process) error) error {
	p, err := start(ctx, t.command, t.config)
	if err != nil {
		return err
	}
	defer p.stop()
	return use(p)
}

// trialInput is the input of all trials.
func (b *Bench) trialInput(ctx context.Context) (*input, error) {
	if b.trial != nil {
		return b.trial, nil
	}
	keys := b.settings.TrialKeys
	in := &input{
		set:   data.Set{Keys: keys, ValueBytes: trialValueBytes},
		topic: b.broker.Name("again-input"), table: b.broker.Name("again-table"),
		partitions: b.settings.Partitions,
	}
	if err := kafkatest.MakeTopic(ctx, b.broker, in.topic, b.settings.Partitions); err != nil {
		return nil, err
	}
	b.settings.Log("writing %d records of %d keys", (trialPasses+1)*keys, keys)
	if err := kafkatest.Write(ctx, b.broker, in.topic, in.set.Table(), uncompressed()); err != nil {
		return nil, err
	}
	in.records = int64(keys)
	b.trial = in
	return in, b.append(ctx, in, int64(trialPasses+1)*int64(keys))
}

// quietFor is how long nothing may come to a topic before it is believed that nothing of a killed process comes any more.
const quietFor = 300 * time.Millisecond

// resultsFromNow is a reader of committed records behind all that are in a topic, once no more come.
func (b *Bench) resultsFromNow(ctx context.Context, topic string) (*kgo.Client, error) {
	var ends kadm.ListedOffsets
	for before := int64(-1); ; {
		var err error
		if ends, err = b.cluster.Admin().ListCommittedOffsets(ctx, topic); err == nil {
			err = ends.Error()
		}
		if err != nil {
			return nil, fmt.Errorf("bench: end of the output: %w", err)
		}
		var sum int64
		ends.Each(func(o kadm.ListedOffset) { sum += o.Offset })
		if sum == before {
			break
		}
		before = sum
		if err := wait(ctx, quietFor); err != nil {
			return nil, fmt.Errorf("bench: the output does not come to rest: %w", err)
		}
	}
	from := map[string]map[int32]kgo.Offset{topic: {}}
	ends.Each(func(o kadm.ListedOffset) { from[topic][o.Partition] = kgo.NewOffset().At(o.Offset) })
	client, err := kgo.NewClient(
		kgo.SeedBrokers(b.cluster.Bootstrap()...), kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		return nil, fmt.Errorf("bench: reader of the output: %w", err)
	}
	return client, nil
}

// allCommitted waits until a group has committed the whole input.
func (b *Bench) allCommitted(ctx context.Context, group string, in *input) error {
	for {
		offsets, err := b.cluster.Admin().FetchOffsetsForTopics(ctx, group, in.topic)
		if err != nil && !kerr.IsRetriable(err) { // the first group of a cluster waits for the topic of offsets
			return fmt.Errorf("bench: offsets of %q: %w", group, err)
		}
		var sum int64
		offsets.Each(func(o kadm.OffsetResponse) { sum += max(0, o.At) })
		if sum >= in.records {
			return nil
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("bench: %d of %d records are committed: %w", sum, in.records, err)
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
