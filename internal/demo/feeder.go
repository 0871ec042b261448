package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/internal/clock"
)

// Feeder writes the input topics. It starts at each partition's end offset, so that a run after a stop or a SIGKILL feeds
// nothing twice and leaves nothing out.
type Feeder struct {
	in      *Inputs
	client  *kgo.Client
	brokers []string
	rate    float64
	clock   clock.Clock

	next map[string][]int64 // by topic and partition: the next record to feed
	acks map[string]*atomic.Int64
}

// NewFeeder makes a feeder of flights at rate records a second; 0 is as fast as it goes. The client must place records where
// they say, as that of Connect does.
func NewFeeder(in *Inputs, client *kgo.Client, brokers []string, rate float64, wall clock.Clock) *Feeder {
	f := &Feeder{in: in, client: client, brokers: brokers, rate: rate, clock: wall, acks: map[string]*atomic.Int64{}}
	for _, t := range in.topics {
		f.acks[t.name] = new(atomic.Int64)
	}
	return f
}

// Fed returns how many records of a topic this feeder has written, acknowledged ones only. It may be called at any time.
func (f *Feeder) Fed(topic string) int64 { return f.acks[topic].Load() }

// Resume finds out where to go on in each partition. A partition that does not hold the first records of this data set is an
// error: it was filled from other data or by another program.
func (f *Feeder) Resume(ctx context.Context) error {
	ends, err := f.settledEnds(ctx)
	if err != nil {
		return err
	}
	for _, t := range f.in.topics {
		for p, end := range ends[t.name] {
			if end > t.ends[p] {
				return fmt.Errorf("millrace: demo: topic %s, partition %d holds %d records, but this data set has only %d for it: "+
					"it was filled from other data or by another program; delete the topic, or use another cluster", t.name, p,
					end, t.ends[p])
			}
		}
		if err := f.checkLast(ctx, t, ends[t.name]); err != nil {
			return err
		}
	}
	f.next = ends
	return nil
}

// settleTime is how long an end offset must stand still to be taken for final: the last requests of a feeder that was killed
// may still be on their way through the broker.
const settleTime = 200 * time.Millisecond

// settledEnds reads the end offset of each partition of the input topics.
func (f *Feeder) settledEnds(ctx context.Context) (map[string][]int64, error) {
	for last := ""; ; {
		ends, settled, err := f.ends(ctx)
		if err != nil {
			return nil, err
		}
		now := fmt.Sprint(ends)
		if settled || now == last {
			return ends, nil
		}
		last = now
		if err := sleep(ctx, settleTime); err != nil {
			return nil, err
		}
	}
}

// ends reads the end offsets once; settled says that nobody can be writing, because the topics are empty or whole.
func (f *Feeder) ends(ctx context.Context) (ends map[string][]int64, settled bool, err error) {
	var names []string
	for _, t := range f.in.topics {
		names = append(names, t.name)
	}
	listed, err := kadm.NewClient(f.client).ListEndOffsets(ctx, names...)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, false, fmt.Errorf("millrace: demo: cannot read the end offsets of %s: %w", strings.Join(names, ", "), err)
	}
	ends = make(map[string][]int64, len(names))
	empty, whole := true, true
	for _, t := range f.in.topics {
		of := make([]int64, len(t.ends))
		for p := range of {
			o, ok := listed.Lookup(t.name, int32(p))
			if !ok {
				return nil, false, fmt.Errorf("millrace: demo: topic %s has no partition %d; it must have %d partitions", t.name, p,
					len(t.ends))
			}
			of[p] = o.Offset
			empty = empty && o.Offset == 0
			whole = whole && o.Offset == t.ends[p]
		}
		ends[t.name] = of
	}
	return ends, empty || whole, nil
}

// checkLast compares the last record of each partition with what this data set has in its place.
func (f *Feeder) checkLast(ctx context.Context, t *input, ends []int64) error {
	for i := range t.rows {
		row := &t.rows[i]
		if row.offset != ends[row.partition]-1 {
			continue
		}
		want, err := row.record(t.name)
		if err != nil {
			return err
		}
		err = readFrom(ctx, f.brokers, t.name, row.partition, row.offset, row.offset+1, func(r *kgo.Record) error {
			if bytes.Equal(r.Key, want.Key) && bytes.Equal(r.Value, want.Value) && r.Timestamp.Equal(want.Timestamp) {
				return nil
			}
			return fmt.Errorf("millrace: demo: topic %s, partition %d, offset %d holds %s of %s, but this data set has %s there: it "+
				"was filled from other data or by another program; delete the topic, or use another cluster", t.name,
				row.partition, row.offset, r.Value, r.Timestamp.UTC().Format(time.RFC3339), want.Value)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// FeedTables writes what is missing of airlines and planes and returns when all of it is acknowledged. Resume comes first.
func (f *Feeder) FeedTables(ctx context.Context) error {
	for _, t := range f.in.tables() {
		rows := make([]fed, len(t.rows))
		for i := range t.rows {
			rows[i] = fed{in: t, n: i}
		}
		if err := f.feed(ctx, rows, 0); err != nil {
			return err
		}
	}
	return nil
}

// FeedLive writes what is missing of flights, arrivals and weather, each record in its place by the time at which it became
// known, and returns when all of it is acknowledged. The feeder's rate is that of flights. FeedTables comes first.
func (f *Feeder) FeedLive(ctx context.Context) error { return f.feed(ctx, f.in.live, f.rate) }

// maxAhead bounds how much event time is on its way to the broker at once: all partitions are filled side by side, and a
// reading of the weather must not come a day behind the flights that it is joined with.
const maxAhead = 6 * time.Hour

// flushTimeout bounds the wait for requests that are on their way when feeding is cut short.
const flushTimeout = 5 * time.Second

func (f *Feeder) feed(ctx context.Context, rows []fed, rate float64) error {
	if f.next == nil {
		return errors.New("millrace: demo: feeding before Resume has found out where to go on")
	}
	// The first failed record ends the feeding by ending the context of all: a later one must not be written without it. The
	// client sends a partition's records in order, and looks at the context of each before it sends it the first time.
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	pace := pacer{clock: f.clock, rate: rate, start: f.clock.Now()}
	var flushed time.Time // up to where everything is acknowledged
	for _, next := range rows {
		t, row := next.in, &next.in.rows[next.n]
		if row.offset < f.next[t.name][row.partition] {
			continue
		}
		if t.name == FlightsTopic {
			if err := pace.wait(ctx); err != nil {
				break
			}
		}
		if next.at.Sub(flushed) > maxAhead {
			if err := f.client.Flush(ctx); err != nil {
				break
			}
			flushed = next.at
		}
		acks := f.acks[t.name]
		record, err := row.record(t.name)
		if err != nil {
			fail(err)
			break
		}
		f.client.Produce(ctx, record, func(r *kgo.Record, err error) {
			switch {
			case err != nil:
				fail(fmt.Errorf("millrace: demo: cannot write record %d of %s, partition %d: %w", row.offset, t.name, row.partition,
					err))
			case r.Offset != row.offset:
				fail(fmt.Errorf("millrace: demo: record %d of %s, partition %d was written at offset %d: another program (a second "+
					"demo?) writes to this topic; stop it, delete the topic and start again", row.offset, t.name, row.partition,
					r.Offset))
			default:
				acks.Add(1)
			}
		})
		f.next[t.name][row.partition] = row.offset + 1
	}
	if ctx.Err() == nil {
		_ = f.client.Flush(ctx) // fails only with ctx
	}
	if ctx.Err() != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		_ = f.client.Flush(last)
	}
	return context.Cause(ctx)
}

// pacer spreads calls evenly over time.
type pacer struct {
	clock clock.Clock
	rate  float64 // calls a second; 0: no bound
	start time.Time
	calls int64
}

// paceStep is the shortest wait of a pacer: calls that fall into one step are made together, since a timer for each would
// cost more than the call.
const paceStep = 5 * time.Millisecond

func (p *pacer) wait(ctx context.Context) error {
	if p.rate > 0 {
		due := p.start.Add(time.Duration(float64(p.calls) / p.rate * float64(time.Second)))
		if early := due.Sub(p.clock.Now()); early > 0 {
			if err := clock.Wait(ctx, p.clock, max(early, paceStep)); err != nil {
				return err
			}
		}
	}
	p.calls++
	return context.Cause(ctx)
}
