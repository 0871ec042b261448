package bare

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/bench/internal/side"
)

// filterMap sends the record on that was fetched, with one byte changed.
type filterMap struct{ l *loop }

func (f filterMap) record(r *kgo.Record) {
	if r.Key[len(r.Key)-1] == side.FilterDrops {
		return
	}
	r.Value[0] = side.MappedMark
	r.Topic = f.l.config.Output
	f.l.emit(context.Background(), r)
}

func (filterMap) commit() {}

// tally is a counted key.
type tally struct {
	key       []byte
	count     int64
	partition int32
	timestamp time.Time
	dirty     bool
	written   bool
}

// tallyBytes is what a tally in the deduplicating cache weighs: about what Kafka Streams reckons for such an entry.
const tallyBytes = 150

// counts is a count by key.
type counts struct {
	ledger
	tallies map[string]*tally
}

// ledger writes tallies, at once or when the cache is full and at a commit.
type ledger struct {
	l        *loop
	dirty    []*tally
	maxDirty int // 0 writes at once
	logKey   func(t *tally) []byte
}

func newLedger(l *loop) ledger {
	return ledger{l: l, maxDirty: int(l.config.CacheBytes / tallyBytes), logKey: func(t *tally) []byte { return t.key }}
}

func newCounts(l *loop) *counts {
	return &counts{ledger: newLedger(l), tallies: make(map[string]*tally)}
}

func (c *counts) record(r *kgo.Record) {
	t := c.tallies[string(r.Key)]
	if t == nil {
		t = &tally{key: r.Key, partition: r.Partition}
		c.tallies[string(r.Key)] = t
	}
	c.count(t, r)
}

func (c *ledger) count(t *tally, r *kgo.Record) {
	t.count++
	if r.Timestamp.After(t.timestamp) {
		t.timestamp = r.Timestamp
	}
	c.changed(t)
}

// changed notes that a tally is to be written.
func (c *ledger) changed(t *tally) {
	if t.dirty {
		return
	}
	if c.maxDirty == 0 {
		c.write(t)
		return
	}
	t.dirty = true
	c.dirty = append(c.dirty, t)
	if len(c.dirty) >= c.maxDirty {
		c.commit()
	}
}

// commit writes what has changed.
func (c *ledger) commit() {
	for _, t := range c.dirty {
		t.dirty = false
		c.write(t)
	}
	c.dirty = c.dirty[:0]
}

// write sends a count to the changelog and to the output. A tally that is gone is deleted there if it was ever written.
func (c *ledger) write(t *tally) {
	var value []byte
	switch {
	case t.count > 0:
		value = binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(t.count))
	case !t.written:
		return
	}
	t.written = true
	ctx := context.Background()
	c.l.emit(ctx, &kgo.Record{
		Topic: c.l.changelog, Partition: t.partition, Key: c.logKey(t), Value: value, Timestamp: t.timestamp,
	})
	c.l.emit(ctx, &kgo.Record{Topic: c.l.config.Output, Key: t.key, Value: value, Timestamp: t.timestamp})
}

// join puts bytes of the table's value at the front of the stream's.
type join struct {
	l     *loop
	table map[string][]byte
}

// newJoin reads the table and logs it, before the first record of the stream.
func newJoin(ctx context.Context, l *loop) (*join, error) {
	j := &join{l: l, table: make(map[string][]byte)}
	client, err := kgo.NewClient(kgo.SeedBrokers(l.config.Brokers...), kgo.ConsumeTopics(l.config.Table),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, fmt.Errorf("bench: client: %w", err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, l.config.Table)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("bench: end of %q: %w", l.config.Table, err)
	}
	var left int64
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	if err := l.begin(); err != nil {
		return nil, err
	}
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("bench: read %q: %w", l.config.Table, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			j.table[string(r.Key)] = r.Value
			l.emit(ctx, &kgo.Record{
				Topic: l.changelog, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp,
			})
			left--
		})
	}
	if l.session != nil {
		if err := l.end(ctx); err != nil {
			return nil, err
		}
	}
	return j, nil
}

func (j *join) record(r *kgo.Record) {
	row, ok := j.table[string(r.Key)]
	if !ok {
		return
	}
	copy(r.Value[:side.JoinedBytes], row)
	r.Topic = j.l.config.Output
	j.l.emit(context.Background(), r)
}

func (*join) commit() {}
