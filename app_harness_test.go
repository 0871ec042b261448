package millrace

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/internal/runtime"
	"github.com/millrace-io/millrace/serde"
)

// appTimeout bounds every wait of a test of a whole App. It is met only by a test that fails.
const appTimeout = 60 * time.Second

// kafkaInProcess is a cluster of one broker in this process.
type kafkaInProcess struct {
	t    *testing.T
	k    *kfake.Cluster
	addr []string
	cl   *kgo.Client
	adm  *kadm.Client
}

func newKafka(t *testing.T, opts ...kfake.Opt) *kafkaInProcess {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	k, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.ListenFn(func(network, _ string) (net.Listener, error) { return net.Listen(network, "127.0.0.1:0") }),
		kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(50 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.ListenAddrs()...), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &kafkaInProcess{t: t, k: k, addr: k.ListenAddrs(), cl: cl, adm: kadm.NewClient(cl)}
}

func (k *kafkaInProcess) ctx() context.Context {
	ctx, cancel := context.WithTimeout(k.t.Context(), appTimeout)
	k.t.Cleanup(cancel)
	return ctx
}

func (k *kafkaInProcess) topic(name string, partitions int32, configs ...string) {
	k.t.Helper()
	m := make(map[string]*string)
	for i := 0; i+1 < len(configs); i += 2 {
		m[configs[i]] = &configs[i+1]
	}
	r, err := k.adm.CreateTopic(k.ctx(), partitions, 1, m, name)
	if err == nil {
		err = r.Err
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

func rec(topic, key, value string, tsMs int64) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value), Timestamp: time.UnixMilli(tsMs)}
}

// at puts a record into a partition of one's choice.
func at(r *kgo.Record, partition int32) *kgo.Record {
	r.Partition = partition
	return r
}

func (k *kafkaInProcess) produce(records ...*kgo.Record) {
	k.t.Helper()
	if err := k.cl.ProduceSync(k.ctx(), records...).FirstErr(); err != nil {
		k.t.Fatal(err)
	}
}

// produceAt writes records to the partitions that they name.
func (k *kafkaInProcess) produceAt(records ...*kgo.Record) {
	k.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.addr...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		k.t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(k.ctx(), records...).FirstErr(); err != nil {
		k.t.Fatal(err)
	}
}

// read reads a topic from its start until it has n records.
func (k *kafkaInProcess) read(topic string, n int) []*kgo.Record {
	k.t.Helper()
	var out []*kgo.Record
	k.readUntil(topic, func(r *kgo.Record) bool {
		out = append(out, r)
		return len(out) >= n
	})
	return out
}

// readUntil reads a topic from its start until done says so.
func (k *kafkaInProcess) readUntil(topic string, done func(*kgo.Record) bool) {
	k.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.addr...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		k.t.Fatal(err)
	}
	defer cl.Close()
	ctx := k.ctx()
	for {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			k.t.Fatalf("topic %s: the records waited for did not come", topic)
		}
		stop := false
		fs.EachRecord(func(r *kgo.Record) { stop = stop || done(r) })
		if stop {
			return
		}
	}
}

// all reads what a topic holds now.
func (k *kafkaInProcess) all(topic string) []*kgo.Record {
	k.t.Helper()
	ends, err := k.adm.ListEndOffsets(k.ctx(), topic)
	if err != nil {
		k.t.Fatal(err)
	}
	starts, err := k.adm.ListStartOffsets(k.ctx(), topic)
	if err != nil {
		k.t.Fatal(err)
	}
	n := 0
	ends.Each(func(o kadm.ListedOffset) {
		s, _ := starts.Lookup(o.Topic, o.Partition)
		n += int(o.Offset - s.Offset)
	})
	if n == 0 {
		return nil
	}
	return k.read(topic, n)
}

// committedRecords reads what a topic holds of committed transactions now.
func (k *kafkaInProcess) committedRecords(topic string) []*kgo.Record {
	k.t.Helper()
	ends, err := k.adm.ListCommittedOffsets(k.ctx(), topic)
	if err != nil {
		k.t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.addr...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		k.t.Fatal(err)
	}
	defer cl.Close()
	open := make(map[int32]bool)
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			open[o.Partition] = true
		}
	})
	var out []*kgo.Record
	for ctx := k.ctx(); len(open) > 0; {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			k.t.Fatalf("topic %s: its end was not reached", topic)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
			if end, _ := ends.Lookup(topic, r.Partition); r.Offset+1 >= end.Offset { // the last one is a marker, which is kept
				delete(open, r.Partition)
			}
		})
	}
	return out
}

// values lists key=value of records, in the order given.
func values(records []*kgo.Record) []string {
	out := make([]string, 0, len(records))
	for _, r := range records {
		out = append(out, string(r.Key)+"="+string(r.Value))
	}
	return out
}

// counts lists key=number@timestamp of records with int64 values.
func counts(t *testing.T, records []*kgo.Record) []string {
	t.Helper()
	out := make([]string, 0, len(records))
	for _, r := range records {
		n, err := serde.Int64.Decode(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s=%d@%d", r.Key, n, r.Timestamp.UnixMilli()))
	}
	return out
}

func (k *kafkaInProcess) committed(group, topic string) map[int32]kadm.Offset {
	k.t.Helper()
	os, err := k.adm.FetchOffsets(k.ctx(), group)
	if err != nil {
		k.t.Fatal(err)
	}
	m := make(map[int32]kadm.Offset)
	os.Each(func(o kadm.OffsetResponse) {
		if o.Topic == topic {
			m[o.Partition] = o.Offset
		}
	})
	return m
}

// testApp is an App that runs beside a test.
type testApp struct {
	t       *testing.T
	app     *App
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
	changed chan struct{} // holds a token after each step of the machine

	mu  sync.Mutex
	log []string
}

// start runs a topology on the cluster until the test ends.
func (k *kafkaInProcess) start(topology *Topology, opts ...AppOption) *testApp {
	k.t.Helper()
	a := &testApp{t: k.t, done: make(chan struct{}), changed: make(chan struct{}, 1)}
	all := append([]AppOption{
		ApplicationID("app"), Brokers(k.addr...), StateDir(filepath.Join(k.t.TempDir(), "state")), CommitInterval(20 * time.Millisecond),
		FromProperties(map[string]string{"linger.ms": "0", "fetch.max.wait.ms": "50", "heartbeat.interval.ms": "30", "retry.backoff.ms": "20",
			"producer.delivery.timeout.ms": "3000", "request.timeout.ms": "2000"}),
		Logger(slog.New(slog.NewTextHandler(a, &slog.HandlerOptions{Level: slog.LevelInfo}))),
		tuned(func(c *runtime.RunnerConfig) {
			c.Trace = func(runtime.Event, []runtime.Action) { a.signal() }
		}),
		OnState(func(State) { a.signal() }),
	}, opts...)
	var err error
	if a.app, err = NewApp(topology, all...); err != nil {
		k.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go func() {
		a.err = a.app.Run(ctx)
		close(a.done)
	}()
	k.t.Cleanup(func() {
		cancel()
		<-a.done
		if k.t.Failed() {
			a.mu.Lock()
			defer a.mu.Unlock()
			for _, l := range a.log {
				k.t.Log(strings.TrimSpace(l))
			}
		}
	})
	return a
}

func tuned(f func(*runtime.RunnerConfig)) AppOption {
	return appOption(func(o *appOptions) {
		old := o.tune
		o.tune = func(c *runtime.RunnerConfig) {
			if old != nil {
				old(c)
			}
			f(c)
		}
	})
}

// Write takes the App's log.
func (a *testApp) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log = append(a.log, string(p))
	a.signalLocked()
	return len(p), nil
}

func (a *testApp) signal() { a.signalLocked() }

func (a *testApp) signalLocked() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// logged tells whether a line of the log holds all the texts.
func (a *testApp) logged(texts ...string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.log, func(l string) bool {
		return !slices.ContainsFunc(texts, func(x string) bool { return !strings.Contains(l, x) })
	})
}

// lines counts the lines of the log that hold a text.
func (a *testApp) lines(text string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.log {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

// until waits for a condition, which is looked at after each step of the App.
func (a *testApp) until(what string, cond func() bool) {
	a.t.Helper()
	end := time.NewTimer(appTimeout)
	defer end.Stop()
	for !cond() {
		select {
		case <-a.changed:
		case <-a.done:
			if !cond() {
				a.t.Fatalf("the App ended while the test waits until %s: %v", what, a.err)
			}
		case <-end.C:
			a.t.Fatalf("not within %v: %s", appTimeout, what)
		}
	}
}

func (a *testApp) untilRunning() {
	a.t.Helper()
	a.until("it runs", func() bool { return a.app.State() == Running })
}

// untilDone waits until everything that is in the input is processed and committed.
func (a *testApp) untilDone() {
	a.t.Helper()
	a.until("all input is committed", func() bool {
		lags, err := a.app.Lag(a.t.Context())
		return err == nil && len(lags) > 0 && lags.Total() == 0
	})
}

// stop drains the App.
func (a *testApp) stop() {
	a.t.Helper()
	a.cancel()
	a.wait()
	if a.err != nil {
		a.t.Fatalf("the App ended with %v", a.err)
	}
	if s := a.app.State(); s != Stopped {
		a.t.Errorf("state is %v after a drained end", s)
	}
}

// kill ends the App as SIGKILL would: nothing is committed, and its place in the group stays.
func (a *testApp) kill() {
	a.t.Helper()
	a.app.mu.Lock()
	r := a.app.runner
	a.app.mu.Unlock()
	r.Abandon()
	a.wait()
}

func (a *testApp) wait() {
	a.t.Helper()
	select {
	case <-a.done:
	case <-time.After(appTimeout):
		a.t.Fatal("Run does not return")
	}
}

// fails waits for the App to end by itself.
func (a *testApp) fails() error {
	a.t.Helper()
	a.wait()
	if a.err == nil {
		a.t.Fatal("the App ended without an error")
	}
	if s := a.app.State(); s != Failed {
		a.t.Errorf("state is %v after a failure", s)
	}
	return a.err
}

func mustBuild(t *testing.T, f func(b *Builder)) *Topology {
	t.Helper()
	b := NewBuilder()
	f(b)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func strTopic(name string) Topic[string, string] { return NewTopic(name, serde.String, serde.String) }

// countInto counts records by key in the store "counts" and writes the counts.
func countInto(t *testing.T, in, out string, opts ...StepOption) *Topology {
	t.Helper()
	return mustBuild(t, func(b *Builder) {
		c := Count(From(b, strTopic(in)).GroupByKey(), append([]StepOption{As("counts")}, opts...)...)
		c.ToStream().To(NewTopic(out, serde.String, serde.Int64))
	})
}
