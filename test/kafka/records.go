package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Load writes records to a topic, each to the partition that Kafka's partitioner gives its key (a record without a key
// goes to any), in order, and returns when all are acknowledged. Timestamps and headers are kept; a zero timestamp becomes
// now. The records' offsets and partitions are filled in.
func Load(t testing.TB, b Broker, topic string, records ...*kgo.Record) {
	t.Helper()
	if err := Write(t.Context(), b, topic, slices.Values(records)); err != nil {
		t.Fatal(err)
	}
}

// LoadPartition is Load into one partition.
func LoadPartition(t testing.TB, b Broker, topic string, partition int32, records ...*kgo.Record) {
	t.Helper()
	for _, r := range records {
		r.Partition = partition
	}
	if err := Write(t.Context(), b, topic, slices.Values(records), kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		t.Fatal(err)
	}
}

// Write is Load outside of a test, for any number of records; further options are the client's.
func Write(ctx context.Context, b Broker, topic string, records iter.Seq[*kgo.Record], opts ...kgo.Opt) error {
	base := []kgo.Opt{
		kgo.SeedBrokers(b.Bootstrap()...),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		// A broker may refuse the first records of a topic that was made a moment ago; the default would wait five seconds.
		kgo.MetadataMinAge(50 * time.Millisecond),
	}
	client, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return fmt.Errorf("kafkatest: client: %w", err)
	}
	defer client.Close()
	var first firstError
	for r := range records {
		if first.get() != nil {
			break
		}
		client.Produce(ctx, r, func(_ *kgo.Record, err error) { first.set(err) })
	}
	if err := errors.Join(client.Flush(ctx), first.get()); err != nil {
		return fmt.Errorf("kafkatest: write to %q: %w", topic, err)
	}
	return nil
}

// firstError keeps the first error of several goroutines.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *firstError) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Isolation is which records a reader sees.
type Isolation int8

const (
	// Uncommitted sees every record, those of open and aborted transactions included.
	Uncommitted Isolation = 0
	// Committed sees what is below the last stable offset and was not aborted.
	Committed Isolation = 1
)

// level is the client library's word for it.
func (i Isolation) level() kgo.IsolationLevel {
	if i == Committed {
		return kgo.ReadCommitted()
	}
	return kgo.ReadUncommitted()
}

// ReadAll reads a topic from its start to the end that it has now (for Committed: its last stable offset now), ordered by
// partition and offset. Control records are left out.
func ReadAll(t testing.TB, b Broker, topic string, isolation Isolation) []*kgo.Record {
	t.Helper()
	records, err := Read(t.Context(), b, topic, isolation)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// Read is ReadAll outside of a test.
func Read(ctx context.Context, b Broker, topic string, isolation Isolation) ([]*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var out []*kgo.Record
	err := withReader(b, topic, func(r *reader) error {
		var err error
		out, err = r.all(ctx, isolation)
		return err
	})
	return out, err
}

// ReadUntil reads the whole topic again and again until done is satisfied with what is there, or the test's patience
// (two minutes) runs out.
func ReadUntil(t testing.TB, b Broker, topic string, isolation Isolation, done func([]*kgo.Record) bool) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	var out []*kgo.Record
	err := withReader(b, topic, func(r *reader) error {
		return poll(ctx, func(ctx context.Context) error {
			var err error
			if out, err = r.all(ctx, isolation); err != nil {
				return err
			}
			if !done(out) {
				return fmt.Errorf("%d records are not yet what is waited for", len(out))
			}
			return nil
		})
	})
	if err != nil {
		t.Fatalf("kafkatest: topic %q: %v", topic, err)
	}
	return out
}

// EndOffsets is the end of each partition of a topic: the last stable offset or the high watermark.
func EndOffsets(t testing.TB, b Broker, topic string, isolation Isolation) map[int32]int64 {
	t.Helper()
	ends := make(map[int32]int64)
	err := withReader(b, topic, func(r *reader) error {
		spans, err := r.spans(t.Context(), isolation)
		for _, s := range spans {
			ends[s.partition] = s.end
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ends
}

// reader reads partitions by Fetch requests of its own. A consumer would not do: it hides how far it has read when a log
// ends with transaction markers or with a batch that compaction has emptied, and would be waited on for ever.
type reader struct {
	topic  string
	client *kgo.Client
	admin  *kadm.Client
}

func withReader(b Broker, topic string, use func(*reader) error) error {
	// Version 12 is the last in which Fetch names topics rather than their ids.
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.Fetch.Int16(), 12)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Bootstrap()...), kgo.MaxVersions(versions), kgo.MetadataMinAge(pollInterval))
	if err != nil {
		return fmt.Errorf("kafkatest: client: %w", err)
	}
	defer client.Close()
	return use(&reader{topic: topic, client: client, admin: kadm.NewClient(client)})
}

// span is what there is to read of a partition.
type span struct {
	partition, leader int32
	start, end        int64
}

func (r *reader) spans(ctx context.Context, isolation Isolation) ([]span, error) {
	meta, err := r.admin.Metadata(ctx, r.topic)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: topic %q: %w", r.topic, err)
	}
	topic := meta.Topics[r.topic]
	if topic.Err != nil {
		return nil, fmt.Errorf("kafkatest: topic %q: %w", r.topic, topic.Err)
	}
	starts, err := r.admin.ListStartOffsets(ctx, r.topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("kafkatest: start of topic %q: %w", r.topic, err)
	}
	list := r.admin.ListEndOffsets
	if isolation == Committed {
		list = r.admin.ListCommittedOffsets
	}
	ends, err := list(ctx, r.topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("kafkatest: end of topic %q: %w", r.topic, err)
	}
	var out []span
	for _, p := range topic.Partitions.Sorted() {
		start, _ := starts.Lookup(r.topic, p.Partition)
		end, _ := ends.Lookup(r.topic, p.Partition)
		out = append(out, span{p.Partition, p.Leader, start.Offset, end.Offset})
	}
	return out, nil
}

func (r *reader) all(ctx context.Context, isolation Isolation) ([]*kgo.Record, error) {
	spans, err := r.spans(ctx, isolation)
	if err != nil {
		return nil, err
	}
	var out []*kgo.Record
	for _, s := range spans {
		records, err := r.partition(ctx, s, isolation)
		if err != nil {
			return nil, fmt.Errorf("kafkatest: read %s-%d: %w", r.topic, s.partition, err)
		}
		out = append(out, records...)
	}
	return out, nil
}

// partition reads one partition. A fetch that brings nothing is followed by another one: below the end there always is
// something to come. One that a broker refuses for now (the leader has moved), or that finds no broker, is put again to
// whoever leads the partition then.
func (r *reader) partition(ctx context.Context, s span, isolation Isolation) ([]*kgo.Record, error) {
	var out []*kgo.Record
	at := s.start
	for at < s.end {
		var got []*kgo.Record
		var next int64
		var final error
		err := poll(ctx, func(ctx context.Context) error {
			var err error
			got, next, err = r.fetch(ctx, s, at, isolation)
			if err == nil {
				return nil
			}
			if !mayPass(err) {
				final = err
				return nil
			}
			if leader, lost := r.leader(ctx, s.partition); lost == nil {
				s.leader = leader
			}
			return err
		})
		if err = errors.Join(err, final); err != nil {
			return nil, fmt.Errorf("offset %d of %d: %w", at, s.end, err)
		}
		for _, rec := range got {
			if rec.Offset < s.end {
				out = append(out, rec)
			}
		}
		at = max(at, next)
	}
	return out, nil
}

// mayPass tells whether an error is worth another try: those of the network, and those that the protocol calls so.
func mayPass(err error) bool {
	var refused *kerr.Error
	return !errors.As(err, &refused) || refused.Retriable
}

func (r *reader) leader(ctx context.Context, partition int32) (int32, error) {
	meta, err := r.admin.Metadata(ctx, r.topic)
	if err != nil {
		return 0, err
	}
	p, ok := meta.Topics[r.topic].Partitions[partition]
	if !ok || p.Leader < 0 {
		return 0, fmt.Errorf("%s-%d has no leader", r.topic, partition)
	}
	return p.Leader, nil
}

func (r *reader) fetch(ctx context.Context, s span, at int64, isolation Isolation) ([]*kgo.Record, int64, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, 32<<20
	req.IsolationLevel = int8(isolation)
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = s.partition, at, 8<<20
	req.Topics = []kmsg.FetchRequestTopic{{Topic: r.topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	resp, err := r.client.Broker(int(s.leader)).Request(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	fetched, ok := resp.(*kmsg.FetchResponse)
	if !ok {
		return nil, 0, fmt.Errorf("unexpected answer %T to a fetch request", resp)
	}
	if err := kerr.ErrorForCode(fetched.ErrorCode); err != nil {
		return nil, 0, err
	}
	if len(fetched.Topics) != 1 || len(fetched.Topics[0].Partitions) != 1 {
		return nil, 0, errors.New("the answer to a fetch request lacks the partition")
	}
	opts := kgo.ProcessFetchPartitionOpts{
		Offset:         at,
		IsolationLevel: isolation.level(),
		Topic:          r.topic,
		Partition:      s.partition,
	}
	part, next := kgo.ProcessFetchPartition(opts, &fetched.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	return part.Records, next, part.Err
}
