// Package measure runs sides against one broker and measures them from outside.
package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/bench/internal/data"
	"github.com/millrace-io/millrace/bench/internal/side"
	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// Settings are the same for all runs of a benchmark.
type Settings struct {
	Records        int64 // of one pass over the data; the input is as many passes long as the fastest side needs
	Keys           int
	Partitions     int32
	Measure        time.Duration // length of the measured window
	CommitInterval map[string]time.Duration
	MaxRecords     int64 // the input may grow so far
	TrialKeys      int   // keys of sides that are killed and started again, for each instance
	Log            func(format string, args ...any)
}

// Bench is a broker with the data on it.
type Bench struct {
	settings Settings
	cluster  *kafkatest.Cluster
	broker   kafkatest.Broker
	inputs   map[int]*input // by value size
	trial    *input
	fleet    *input
	rates    map[key]float64 // records per second, the best seen
	runs     int
}

// input is the topics of one value size.
type input struct {
	set     data.Set
	topic   string
	table   string
	records int64

	partitions int32
}

// key is what a rate is remembered by.
type key struct {
	side     string
	scenario side.Scenario
	value    int
}

// Open starts the broker. It does not compact anything or delete it for its age while sides are measured, which is the
// harness's default.
func Open(ctx context.Context, s Settings) (*Bench, error) {
	cluster, err := kafkatest.Launch(ctx, kafkatest.Options{
		Throughput: true,
		HeapMB:     1024,
		Config:     map[string]string{"broker.session.timeout.ms": "30000"},
	})
	if err != nil {
		return nil, err
	}
	return &Bench{
		settings: s, cluster: cluster, broker: cluster.Broker("bench"),
		inputs: make(map[int]*input), rates: make(map[key]float64),
	}, nil
}

// Close ends the broker and removes its data.
func (b *Bench) Close() error { return b.cluster.Close() }

// Contender is a side and how to run it.
type Contender struct {
	Name    string
	Command []string
	WarmUp  time.Duration
}

// Work is what a contender is to do.
type Work struct {
	Scenario   side.Scenario
	Guarantee  string
	ValueBytes int
	// CommitInterval replaces the guarantee's; 0 leaves it.
	CommitInterval time.Duration
}

// Result is what one run of a contender showed.
type Result struct {
	RecordsPerSecond     float64
	CPUSecondsPerMillion float64
	PeakRSSBytes         int64
	ChangelogBytes       int64         // for one pass over the data; of a join's table the whole
	FirstRecord          time.Duration // from the start of the process
}

// firstRecordTimeout bounds the wait for a side's first record.
const firstRecordTimeout = 2 * time.Minute

// defaultCacheBytes is statestore.cache.max.bytes' default.
const defaultCacheBytes = 10 << 20

// Run lets a contender do the work once. If it gets through more than nine tenths of the input, one of its partitions may
// have run dry: the input is then made longer and the run repeated.
func (b *Bench) Run(ctx context.Context, c Contender, w Work) (Result, error) {
	in, err := b.input(ctx, w.ValueBytes)
	if err != nil {
		return Result{}, err
	}
	k := key{c.Name, w.Scenario, w.ValueBytes}
	for {
		rate, ok := b.rates[k]
		if !ok {
			rate = 200_000
		}
		span := c.WarmUp + b.settings.Measure
		if err := b.extend(ctx, in, int64(rate*span.Seconds()*1.3)); err != nil {
			return Result{}, err
		}
		r, taken, err := b.once(ctx, c, w, in)
		if err != nil {
			return Result{}, fmt.Errorf("%s, %s: %w", c.Name, w.Scenario, err)
		}
		b.rates[k] = max(rate, r.RecordsPerSecond)
		if taken*10 <= in.records*9 {
			return r, nil
		}
		b.settings.Log("%s, %s: took %d of %d records, again with a longer input", c.Name, w.Scenario, taken, in.records)
		b.rates[k] = max(2*rate, 1.5*r.RecordsPerSecond)
	}
}

// input makes the topics of a value size.
func (b *Bench) input(ctx context.Context, valueBytes int) (*input, error) {
	if in := b.inputs[valueBytes]; in != nil {
		return in, nil
	}
	in := &input{
		set:   data.Set{Keys: b.settings.Keys, ValueBytes: valueBytes},
		topic: b.broker.Name(fmt.Sprintf("input-%d", valueBytes)),
		table: b.broker.Name(fmt.Sprintf("table-%d", valueBytes)), partitions: b.settings.Partitions,
	}
	for _, topic := range []string{in.topic, in.table} {
		if err := kafkatest.MakeTopic(ctx, b.broker, topic, b.settings.Partitions); err != nil {
			return nil, err
		}
	}
	if err := kafkatest.Write(ctx, b.broker, in.table, in.set.Table(), uncompressed()); err != nil {
		return nil, err
	}
	b.inputs[valueBytes] = in
	return in, b.extend(ctx, in, b.settings.Records)
}

func uncompressed() kgo.Opt { return kgo.ProducerBatchCompression(kgo.NoCompression()) }

// extend appends passes to the input until it has at least as many records as wanted.
func (b *Bench) extend(ctx context.Context, in *input, want int64) error {
	passes := (want + b.settings.Records - 1) / b.settings.Records
	want = passes * b.settings.Records
	if want <= in.records {
		return nil
	}
	if want > b.settings.MaxRecords {
		return fmt.Errorf("bench: an input of %d records is needed and --max-records is %d: shorten the times or raise it",
			want, b.settings.MaxRecords)
	}
	b.settings.Log("writing records %d to %d of %d bytes", in.records, want, in.set.ValueBytes)
	return b.append(ctx, in, want)
}

// append writes records to the input until it has so many.
func (b *Bench) append(ctx context.Context, in *input, want int64) error {
	if err := kafkatest.Write(ctx, b.broker, in.topic, in.set.Input(in.records, want), uncompressed()); err != nil {
		return err
	}
	in.records = want
	return nil
}

// once is one run; taken is how much of the input the side had taken up at the end.
func (b *Bench) once(ctx context.Context, c Contender, w Work, in *input) (r Result, taken int64, err error) {
	config, clean, err := b.application(ctx, c, w, in)
	if err != nil {
		return r, 0, err
	}
	defer func() { err = cmp.Or(err, clean()) }()
	p, err := start(ctx, c.Command, config)
	if err != nil {
		return r, 0, err
	}
	r, err = b.observe(ctx, p, c.WarmUp)
	last := p.stop()
	if err != nil {
		return r, 0, err
	}
	if err := b.checkOutput(ctx, config, last.Records); err != nil {
		return r, 0, err
	}
	if w.Scenario.StoreName() != "" {
		size, err := b.topicBytes(ctx, config.AppID+"-"+w.Scenario.StoreName()+"-changelog")
		if err != nil {
			return r, 0, err
		}
		r.ChangelogBytes = size
		if w.Scenario != side.StreamTableJoin { // its changelog is the table, however much of the stream was read
			r.ChangelogBytes = int64(float64(size) * float64(b.settings.Records) / float64(last.Records))
		}
	}
	return r, last.Records, nil
}

// application prepares what a side needs that has not run yet: a name, an empty state folder and an output topic. clean removes
// them, with all topics of the application.
func (b *Bench) application(ctx context.Context, c Contender, w Work, in *input) (config side.Config, clean func() error, err error) {
	b.runs++
	app := b.broker.Name(fmt.Sprintf("%s-%s-%d", c.Name, w.Scenario, b.runs))
	state, err := os.MkdirTemp("", "millrace-bench-")
	if err != nil {
		return config, nil, fmt.Errorf("bench: state folder: %w", err)
	}
	config = side.Config{
		Scenario: w.Scenario, Guarantee: w.Guarantee, Brokers: b.cluster.Bootstrap(), AppID: app,
		Input: in.topic, Table: in.table, Output: app + "-output",
		CommitInterval: b.settings.CommitInterval[w.Guarantee], CacheBytes: defaultCacheBytes,
		Threads: runtime.NumCPU(), StateDir: state,
	}
	if w.Scenario == side.CountNoCache {
		config.CacheBytes = 0
	}
	if w.CommitInterval > 0 {
		config.CommitInterval = w.CommitInterval
	}
	clean = func() error { return errors.Join(os.RemoveAll(state), b.clean(ctx, app)) }
	if err := kafkatest.MakeTopic(ctx, b.broker, config.Output, in.partitions); err != nil {
		return config, nil, errors.Join(err, os.RemoveAll(state))
	}
	return config, clean, nil
}

// observe takes the two readings around the measured window.
func (b *Bench) observe(ctx context.Context, p *process, warmUp time.Duration) (r Result, err error) {
	firstCtx, cancel := context.WithTimeout(ctx, firstRecordTimeout)
	defer cancel()
	first, err := p.await(firstCtx, func(r side.Reading) bool { return r.Records > 0 })
	if err != nil {
		return r, err
	}
	r.FirstRecord = time.Since(p.started)
	warm, err := p.await(ctx, func(r side.Reading) bool { return r.AtNanos-first.AtNanos >= warmUp.Nanoseconds() })
	if err != nil {
		return r, err
	}
	cpuWarm, err := p.cpu()
	if err != nil {
		return r, err
	}
	end, err := p.await(ctx, func(r side.Reading) bool { return r.AtNanos-warm.AtNanos >= b.settings.Measure.Nanoseconds() })
	if err != nil {
		return r, err
	}
	cpuEnd, err := p.cpu()
	if err != nil {
		return r, err
	}
	records := float64(end.Records - warm.Records)
	if records <= 0 {
		return r, fmt.Errorf("bench: no record was taken up in the measured window\n%s", p.stderr.String())
	}
	r.RecordsPerSecond = records / (time.Duration(end.AtNanos - warm.AtNanos).Seconds())
	r.CPUSecondsPerMillion = (cpuEnd - cpuWarm).Seconds() / records * 1e6
	r.PeakRSSBytes, err = p.peakRSS()
	return r, err
}

// checkOutput refuses a run whose side took records up and did not do the work. What is in flight when the side is killed
// is allowed for generously; a cache may hold back most of what is counted.
func (b *Bench) checkOutput(ctx context.Context, c side.Config, taken int64) error {
	ends, err := b.cluster.Admin().ListEndOffsets(ctx, c.Output)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("bench: output: %w", err)
	}
	var written int64
	ends.Each(func(o kadm.ListedOffset) { written += o.Offset })
	least := int64(1)
	switch c.Scenario {
	case side.FilterMap, side.CountNoCache, side.StreamTableJoin:
		least = taken / 2
	}
	if written < least {
		return fmt.Errorf("bench: %d records were taken up and %d written: the side does not do the work", taken, written)
	}
	return nil
}

// topicBytes is the size of a topic on the broker's disk.
func (b *Bench) topicBytes(ctx context.Context, topic string) (int64, error) {
	dirs, err := b.cluster.Admin().DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("bench: size of %q: %w", topic, err)
	}
	var sum int64
	found := false
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if p.Topic == topic {
				sum += p.Size
				found = true
			}
		})
	})
	if !found {
		return 0, fmt.Errorf("bench: the side has no topic %q", topic)
	}
	return sum, nil
}

// clean removes the topics of a run.
func (b *Bench) clean(ctx context.Context, app string) error {
	topics, err := kafkatest.ListTopics(context.WithoutCancel(ctx), b.broker, app+"-")
	if err != nil {
		return err
	}
	return kafkatest.RemoveTopics(context.WithoutCancel(ctx), b.broker, topics...)
}
