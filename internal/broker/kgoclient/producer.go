package kgoclient

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/internal/broker"
)

// Producer implements broker.Producer: idempotent, acknowledged by all in-sync replicas.
//
// A record costs no allocation of the producer's own once its pool is warm.
type Producer struct {
	c        *conn
	pool     sync.Pool // *produced
	pending  atomic.Int64
	closing  atomic.Bool
	idle     chan struct{} // gets a token when nothing is pending while closing
	ctx      context.Context
	stop     context.CancelFunc
	deadline atomic.Pointer[deadline]
	renew    sync.Mutex
	watch    watcher     // of a transactional producer
	expired  atomic.Bool // records were failed for their deadline
	givenUp  atomic.Bool // closed because the producer goes on with another client
	causes   struct {
		sync.Mutex
		err   error // last seen from franz-go
		cause error // and what became of it
	}
}

var _ broker.Producer = (*Producer)(nil)

// watcher is told of the answers to records, each before its done is called.
type watcher interface{ answered(err error) }

// NewProducer opens a producing client.
func NewProducer(cfg Config) (*Producer, error) {
	return openProducer(cfg, nil,
		// DeliveryTimeout also ends what may have been written without an answer, as in Java; what fails is produced again
		// from the input.
		kgo.AllowIdempotentProduceCancellation())
}

func openProducer(cfg Config, watch watcher, more ...kgo.Opt) (*Producer, error) {
	conf := cfg.withDefaults().Produce
	codec, err := compression(conf.Compression)
	if err != nil {
		return nil, err
	}
	c, err := connect(cfg, append([]kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(partitioner{}),
		kgo.ProducerLinger(max(0, conf.Linger)),
		kgo.ProducerBatchMaxBytes(conf.BatchMaxBytes),
		kgo.ProducerBatchCompression(codec, kgo.NoCompression()),
		kgo.ProduceRequestTimeout(conf.RequestTimeout),
		kgo.MaxBufferedBytes(conf.MaxBufferedBytes),
		kgo.MaxBufferedRecords(math.MaxInt32), // bytes bound it
		// Whether records have waited long enough is looked at when a request for metadata or for the producer's id has
		// failed, so these must not be tried for ever.
		kgo.RetryTimeout(shortRetries(conf)),
	}, more...)...)
	if err != nil {
		return nil, err
	}
	p := &Producer{c: c, idle: make(chan struct{}, 1), watch: watch}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.pool.New = func() any {
		x := &produced{p: p}
		x.promise = x.finish // bound once, not for each record
		return x
	}
	return p, nil
}

func shortRetries(conf ProduceConfig) time.Duration {
	return min(2*time.Second, conf.DeliveryTimeout/4)
}

// produced is a record on its way.
type produced struct {
	p       *Producer
	rec     kgo.Record
	headers []kgo.RecordHeader
	by      *deadline // which counts it; nil without a watcher
	done    func(offset int64, err error)
	promise func(*kgo.Record, error)
}

// maxTimestampMs is the greatest timestamp that franz-go can write: it counts in nanoseconds on the way.
const maxTimestampMs = math.MaxInt64 / int64(time.Millisecond)

// Produce implements broker.Producer. It blocks only while MaxBufferedBytes are queued.
func (p *Producer) Produce(r broker.ProduceRecord, done func(offset int64, err error)) {
	x := p.pool.Get().(*produced)
	x.done = done
	x.headers = x.headers[:0]
	for _, h := range r.Headers {
		x.headers = append(x.headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	x.rec = kgo.Record{
		Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: x.headers,
		Timestamp: time.UnixMilli(r.TimestampMs),
	}
	p.pending.Add(1)
	switch {
	case p.closing.Load():
		x.finish(&x.rec, kgo.ErrClientClosed)
	case r.TimestampMs < 0 || r.TimestampMs > maxTimestampMs:
		x.finish(&x.rec, fmt.Errorf("timestamp %d: %w", r.TimestampMs, broker.CodeInvalidTimestamp))
	default:
		d := p.due()
		if p.watch != nil {
			x.by = d
			d.waiting.Add(1)
		}
		p.c.Produce(d.ctx, &x.rec, x.promise)
	}
}

// finish answers a record and gives it back to the pool.
func (x *produced) finish(r *kgo.Record, err error) {
	p, done, offset := x.p, x.done, r.Offset
	if err != nil {
		offset, err = -1, &broker.ProduceError{
			TopicPartition: broker.TopicPartition{Topic: r.Topic, Partition: r.Partition}, Err: p.cause(err),
		}
	}
	if x.by != nil {
		x.by.waiting.Add(-1)
	}
	x.rec, x.done, x.by = kgo.Record{}, nil, nil
	clear(x.headers)
	p.pool.Put(x)
	if p.watch != nil {
		p.watch.answered(err)
	}
	done(offset, err)
	if p.pending.Add(-1) == 0 && p.closing.Load() {
		select {
		case p.idle <- struct{}{}:
		default:
		}
	}
}

// cause translates an error. When a broker goes away, thousands of records fail with the same one.
func (p *Producer) cause(err error) error {
	switch {
	case errors.Is(err, kgo.ErrAborting) && p.expired.Load():
		err = context.DeadlineExceeded
	case errors.Is(err, kgo.ErrAborting), errors.Is(err, kgo.ErrClientClosed) && p.givenUp.Load():
		return broker.ErrAborted
	}
	p.causes.Lock()
	defer p.causes.Unlock()
	if err == p.causes.err { //nolint:errorlint // the very same value is meant
		return p.causes.cause
	}
	cause := p.c.cause(err)
	if strings.Contains(err.Error(), "partitioning choice") { // franz-go has no type for a partition that is not there
		cause = fmt.Errorf("%w: %v", broker.CodeUnknownTopicOrPartition, err) //nolint:errorlint // its own text is enough
	}
	var none *noAnswer
	if errors.As(cause, &none) && errors.Is(err, context.DeadlineExceeded) {
		none.why = fmt.Sprintf("not delivered within %v (delivery.timeout.ms): %s", p.c.cfg.Produce.DeliveryTimeout, none.why)
	}
	p.causes.err, p.causes.cause = err, cause
	return cause
}

// deadline is the context of the records that are produced within a short time. franz-go's own record timeout counts from
// the record's timestamp, and the records of a stream processor may be years old; a context for each record would cost
// more than the rest. So records share one, which ends DeliveryTimeout after the last of them.
type deadline struct {
	ctx     context.Context
	cancel  context.CancelFunc
	timer   *time.Timer
	waiting atomic.Int64 // records without an answer, if there is a watcher
}

// due is the deadline of a record that is produced now.
func (p *Producer) due() *deadline {
	if d := p.deadline.Load(); d != nil {
		return d
	}
	p.renew.Lock()
	defer p.renew.Unlock()
	if d := p.deadline.Load(); d != nil {
		return d
	}
	timeout := p.c.cfg.Produce.DeliveryTimeout
	step := timeout / 64
	d := new(deadline)
	d.ctx, d.cancel = context.WithTimeout(p.ctx, timeout+step)
	d.timer = time.AfterFunc(step, func() { p.deadline.CompareAndSwap(d, nil) })
	if p.watch != nil {
		context.AfterFunc(d.ctx, func() { p.expire(d) })
	}
	p.deadline.Store(d)
	return d
}

// expire fails everything if a record has outlived its deadline. A transactional client of franz-go does not let a context
// end a record that may have been written, so it would wait for an answer for ever; its transaction cannot be committed
// anyway, and the client is not used again.
func (p *Producer) expire(d *deadline) {
	if !errors.Is(d.ctx.Err(), context.DeadlineExceeded) || d.waiting.Load() == 0 {
		return
	}
	p.expired.Store(true)
	p.c.UnsafeAbortBufferedRecords()
}

// BufferedBytes implements broker.Producer: keys, values and headers.
func (p *Producer) BufferedBytes() int64 {
	if p.pending.Load() == 0 {
		return 0 // franz-go takes a record off its count only after the answer
	}
	return p.c.BufferedProduceBytes()
}

// Flush implements broker.Producer.
func (p *Producer) Flush(ctx context.Context) error {
	if p.closing.Load() {
		return broker.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// franz-go's Flush first ends all lingering and then waits for the records to be finished; a context that is over
	// leaves the second part out.
	over, cancel := context.WithCancel(ctx)
	cancel()
	_ = p.c.Flush(over)
	return nil
}

// giveUp closes the client of a producer that goes on with another one.
func (p *Producer) giveUp() {
	p.givenUp.Store(true)
	p.Close()
}

// Close implements broker.Producer.
func (p *Producer) Close() {
	if p.closing.Swap(true) {
		return
	}
	p.c.Close()
	for p.pending.Load() > 0 {
		<-p.idle
	}
	if d := p.deadline.Load(); d != nil {
		d.timer.Stop()
		d.cancel()
	}
	p.stop()
}

// partitioner takes the partition that the engine has chosen, or for -1 stays with one for a while, so that batches fill.
type partitioner struct{}

func (partitioner) ForTopic(string) kgo.TopicPartitioner { return &topicPartitioner{at: -1} }

// stickyBytes is how much goes to one partition before another is chosen. Kafka's default is a batch (16 KiB); this is
// more, since batches here grow larger.
const stickyBytes = 64 << 10

type topicPartitioner struct {
	at    int // where records without a partition go, -1 not chosen
	bytes int // how much went there
}

// RequiresConsistency: a chosen partition is kept even while it has no leader.
func (*topicPartitioner) RequiresConsistency(r *kgo.Record) bool { return r.Partition >= 0 }

// Partition is called by one goroutine at a time.
func (t *topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	if t.at < 0 || t.at >= n || t.bytes >= stickyBytes {
		next := rand.IntN(n)
		if next == t.at && n > 1 {
			next = (next + 1) % n
		}
		t.at, t.bytes = next, 0
	}
	t.bytes += len(r.Key) + len(r.Value) + minRecordBytes
	return t.at
}
