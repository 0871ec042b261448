package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/internal/clock"
)

// reachTimeout is how long a broker may take to answer the first time.
const reachTimeout = 10 * time.Second

// Connect makes a client and checks that a broker answers.
func Connect(ctx context.Context, brokers []string, opts ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.ClientID(ApplicationID),
		// Rows are placed by Inputs, so that a restart finds them where they were.
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// Topics were made a moment ago: look again soon for leaders that are still being chosen.
		kgo.MetadataMinAge(100 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("millrace: demo: cannot connect to Kafka at %s: %w; check --brokers", strings.Join(brokers, ","), err)
	}
	reach, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if err := client.Ping(reach); err != nil {
		client.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("millrace: demo: no Kafka broker answers at %s: %w; start one (millrace broker does) or check "+
			"--brokers", strings.Join(brokers, ","), err)
	}
	return client, nil
}

// sleep waits for a span of real time; it returns the context's cause when that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if clock.Wait(ctx, clock.System(), d) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// readFrom reads records of one partition from an offset on and calls fn for each data record, until the position reaches
// end or fn fails. It reads committed records only; control records and aborted ones move the position.
func readFrom(ctx context.Context, brokers []string, topic string, partition int32, from, end int64,
	fn func(*kgo.Record) error) error {
	if from >= end {
		return nil
	}
	fail := func(at int64, err error) error {
		return fmt.Errorf("millrace: demo: cannot read %s, partition %d, offset %d: %w", topic, partition, at, err)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ClientID(ApplicationID),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // an offset that is gone is an error, not a gap
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
	)
	if err != nil {
		return fail(from, err)
	}
	defer client.Close()
	for at := from; at < end; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := fetches.Err(); err != nil {
			return fail(at, err)
		}
		for it := fetches.RecordIter(); !it.Done() && at < end; {
			r := it.Next()
			at = r.Offset + 1
			if r.Attrs.IsControl() || r.Offset >= end {
				continue
			}
			if err := fn(r); err != nil {
				return err
			}
		}
	}
	return nil
}
