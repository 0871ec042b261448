package runtime

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
)

// announcer sends the first record of each key, and remembers it: what its state has, it never sends again. Whatever sends by
// what its state tells is of this kind: suppressions, tables that send old and new values. A timer sends its hour in the same way.
type announcer struct {
	every time.Duration // of the timer; 0 none
	ctx   processor.Context[string, string]
	known store.KeyValue[string, string]
}

var errBroken = errors.New("the record is no good")

func (a *announcer) Init(ctx processor.Context[string, string]) error {
	a.ctx = ctx
	s, err := ctx.StateStore("counts")
	if err != nil {
		return err
	}
	a.known = s.(store.KeyValue[string, string])
	if a.every == 0 {
		return nil
	}
	_, err = ctx.Schedule(a.every, processor.WallClock, func(time.Time) error {
		return a.Process(processor.Record[string, string]{Key: "timer", Value: "rings", TimestampMs: 7})
	})
	return err
}

func (a *announcer) Process(r processor.Record[string, string]) error {
	_, known, err := a.known.Get(r.Key)
	if err != nil || known {
		return err
	}
	if err := a.known.Put(r.Key, r.Value); err != nil {
		return err
	}
	switch r.Value {
	case "broken":
		return errBroken
	case "silent":
		return nil
	}
	return a.ctx.Forward(r)
}

func (a *announcer) Close() error { return nil }

func announceTopology(t testing.TB, every time.Duration) *topology.Topology {
	return build(t, func(b *topology.Builder) {
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "announce", Parents: []string{"source"}, Op: op.NewProcess(func() (processor.Processor[string, string, string, string], error) {
			return &announcer{every: every}, nil
		}, []string{"counts"})})
		b.AddStore(topology.Store{Name: "counts", Kind: topology.KeyValue, Logged: true, Op: &op.KVFactory[string, string]{
			Spec: op.StoreSpec{Name: "counts", Logged: true}, Key: serde.String, Value: serde.String,
		}}, "announce")
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"announce"}, Op: op.NewSink(op.SinkSpec[string, string]{Topic: "out", Key: serde.String, Value: serde.String})})
	})
}

const logTopic = "app-counts-changelog"

// wantLog holds the changelog of the first partition against key=value pairs.
func wantLog(t *testing.T, c *brokertest.Cluster, want ...string) {
	t.Helper()
	var got []string
	for _, r := range c.Records(tp(logTopic, 0)) {
		got = append(got, string(r.Key)+"="+string(r.Value))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("changelog (-want +got):\n%s", d)
	}
}

func (s *stepper) wantStaged(none bool) {
	s.t.Helper()
	if n := s.machine.staged.Load(); (n == 0) != none || n < 0 {
		s.t.Errorf("%d bytes wait, want none: %t", n, none)
	}
}

// announcing is an instance that has its first task.
func announcing(t *testing.T, c *brokertest.Cluster, every time.Duration, opts ...stepOption) *stepper {
	t.Helper()
	s := newStepper(t, c, announceTopology(t, every), opts...)
	s.settle()
	s.assign(t0)
	s.wantState(StateRunning)
	return s
}

// An instance that is killed before an output is acknowledged has not logged what the output stands for: the next one makes it
// again. With the rule broken the output is lost, which shows that the test would notice.
func TestTurns_crashBeforeAnOutputIsAcknowledged(t *testing.T) {
	for name, broken := range map[string]bool{"kept": false, "broken": true} {
		t.Run(name, func(t *testing.T) {
			c := cluster()
			s := announcing(t, c, 0, func(cfg *Config, _ *stepper) { cfg.Settings.Broken.Together = broken })
			s.prod.Hold(tp("out", 0), tp("out", 1))
			c.Append(tp("in", 0), kv("a", "1"))
			s.settle()
			s.advance(100 * time.Millisecond)
			s.wantCommitted(-1)
			s.kill()
			s = announcing(t, c, 0)
			s.advance(100 * time.Millisecond)
			s.wantCommitted(1)
			if broken {
				wantOutputs(t, c)
				return
			}
			wantOutputs(t, c, "a=1")
			wantLog(t, c, "a=1")
		})
	}
}

// The changelog of a turn waits for the outputs of all turns before it too, and keeps its order. A commit waits for the changelog.
func TestTurns_inOrder(t *testing.T) {
	c := cluster()
	k0, k1 := keyOf(0), keyOf(1)
	s := announcing(t, c, 0)
	s.prod.HoldAcks(tp("out", 0))
	for _, r := range []broker.Record{kv(k0, "1"), kv(k1, "2"), kv("quiet", "silent")} {
		c.Append(tp("in", 0), r)
		s.settle()
	}
	wantOutputs(t, c, k0+"=1", k1+"=2")
	wantLog(t, c)
	s.wantStaged(false)
	s.advance(100 * time.Millisecond)
	s.prod.Release()
	s.prod.HoldAcks(tp(logTopic, 0))
	s.settle()
	wantLog(t, c, k0+"=1", k1+"=2", "quiet=silent")
	s.wantCommitted(-1)
	s.wantStaged(true)
	s.prod.Release()
	s.settle()
	s.wantCommitted(3)
	// With nothing before it a turn without outputs waits for nothing.
	s.prod.HoldAcks(tp("out", 0), tp("out", 1))
	c.Append(tp("in", 0), kv("more", "silent"))
	s.settle()
	wantLog(t, c, k0+"=1", k1+"=2", "quiet=silent", "more=silent")
}

// What leaves behind the hand-over of a commit must not linger in the producer.
func TestTurns_commitFlushes(t *testing.T) {
	c := cluster()
	s := announcing(t, c, 0)
	s.prod.HoldAcks(tp("out", 0), tp("out", 1))
	c.Append(tp("in", 0), kv("a", "1"))
	s.settle()
	s.advance(100 * time.Millisecond)
	before := s.prod.Flushes()
	s.prod.Release()
	s.settle()
	s.wantCommitted(1)
	if n := s.prod.Flushes() - before; n != 1 {
		t.Errorf("flushed %d times, want once", n)
	}
}

// An output that is refused holds its turn up until the production handler has judged, and no longer: it is left out, sent
// again, or something else is sent in its place, for whose answer the changelog waits too. If it fails the task, the changelog
// never has it.
func TestTurns_refusedOutput(t *testing.T) {
	for _, x := range []struct {
		name    string
		verdict processor.Response
		out     []string
		fails   bool
	}{
		{"continue", processor.Response{Action: processor.Continue}, []string{"c=3"}, false},
		{"retry", processor.Response{Action: processor.Retry}, []string{"b=2", "c=3"}, false},
		{"dead letter", processor.Response{Action: processor.Continue, DeadLetters: []processor.DeadLetter{
			{Topic: "dead", Key: []byte("b"), Value: []byte("2")}}}, []string{"c=3"}, false},
		{"fail", processor.Response{Action: processor.Fail}, []string{"c=3"}, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := cluster()
			c.AddTopic("dead", 1)
			var asked []string
			s := announcing(t, c, 0, onProduction(&asked, func(processor.Failure) processor.Response { return x.verdict }))
			s.prod.Hold(tp("dead", 0))
			s.prod.Fail(brokertest.ProduceFault{Topic: "out", Err: broker.CodeInvalidRecord,
				When: func(r broker.ProduceRecord) bool { return string(r.Key) == "b" }})
			c.Append(tp("in", 0), kv("b", "2"))
			c.Append(tp("in", 0), kv("c", "3"))
			s.settle()
			if len(x.verdict.DeadLetters) > 0 {
				wantLog(t, c)
				s.advance(100 * time.Millisecond)
				s.wantCommitted(-1)
				s.prod.Release()
				s.settle()
			}
			s.advance(100 * time.Millisecond)
			if len(asked) != 1 {
				t.Errorf("the handler was asked %v", asked)
			}
			wantOutputs(t, c, x.out...)
			s.wantStaged(true)
			if x.fails {
				if !s.finished {
					t.Error("it goes on")
				}
				wantLog(t, c)
				s.wantCommitted(-1)
				return
			}
			wantLog(t, c, "b=2", "c=3")
			s.wantCommitted(2)
		})
	}
}

// A record that is too large is judged before it is sent; what the handler sends in its place is of the same turn.
func TestTurns_tooLarge(t *testing.T) {
	c := cluster()
	c.AddTopic("dead", 1)
	c.SetConfig("out", "max.message.bytes", "200")
	var asked []string
	s := announcing(t, c, 0, onProduction(&asked, func(f processor.Failure) processor.Response {
		return processor.Response{Action: processor.Continue, DeadLetters: []processor.DeadLetter{{Topic: "dead", Key: f.Key, Value: []byte("large")}}}
	}))
	s.prod.Hold(tp("dead", 0))
	c.Append(tp("in", 0), kv("b", string(make([]byte, 150))))
	s.settle()
	wantLog(t, c)
	s.prod.Release()
	s.settle()
	if n := len(c.Records(tp(logTopic, 0))); n != 1 || len(asked) != 1 {
		t.Errorf("the changelog has %d records, the handler was asked %v", n, asked)
	}
	s.advance(100 * time.Millisecond)
	s.wantCommitted(1)
}

// A broker refuses a batch for its size: the task goes back to its last commit and sends one record after the other, changelog
// records behind the outputs that they wait for.
func TestTurns_batchTooLarge(t *testing.T) {
	c := cluster()
	var asked []string
	s := announcing(t, c, 0, onProduction(&asked, func(processor.Failure) processor.Response {
		return processor.Response{Action: processor.Continue}
	}))
	s.prod.Fail(brokertest.ProduceFault{Topic: "out", Err: broker.CodeMessageTooLarge, Times: 2})
	c.Append(tp("in", 0), kv("a", "1"), kv("b", "2"))
	s.settle()
	wantLog(t, c)
	s.advance(500 * time.Millisecond)
	s.advance(100 * time.Millisecond)
	s.wantCommitted(2)
	wantOutputs(t, c, "a=1", "b=2")
	wantLog(t, c, "a=1", "b=2")
	s.wantStaged(true)
}

// An output that fails for now drops the task to its last commit. What waited behind it is never logged, and the replay sends
// it again.
func TestTurns_failedOutput(t *testing.T) {
	for name, code := range map[string]error{"for now": broker.CodeRequestTimedOut, "not allowed": broker.CodeTopicAuthorizationFailed} {
		t.Run(name, func(t *testing.T) {
			c := cluster()
			k0, k1 := keyOf(0), keyOf(1)
			s := announcing(t, c, 0)
			s.prod.Fail(brokertest.ProduceFault{Topic: "out", Err: code, When: func(r broker.ProduceRecord) bool { return string(r.Key) == k0 }})
			s.prod.Hold(tp("out", 0))
			c.Append(tp("in", 0), kv(k0, "1"))
			s.settle()
			c.Append(tp("in", 0), kv(k1, "2"))
			s.settle()
			s.prod.Release()
			s.settle()
			wantLog(t, c)
			s.wantStaged(true)
			if s.finished {
				if errors.Is(code, broker.CodeRequestTimedOut) {
					t.Error(s.err)
				}
				return
			}
			s.advance(500 * time.Millisecond)
			s.advance(100 * time.Millisecond)
			s.wantCommitted(2)
			wantOutputs(t, c, k0+"=1", k1+"=2", k1+"=2")
			wantLog(t, c, k0+"=1", k1+"=2")
		})
	}
}

// A record that fails its task after it has written to a store and before it has sent is not logged: it would be known already
// when it is tried again, and nothing would be sent.
func TestTurns_recordByHalf(t *testing.T) {
	c := cluster()
	s := announcing(t, c, 0)
	c.Append(tp("in", 0), kv("a", "1"), kv("b", "broken"))
	s.settle()
	if !s.finished || !errors.Is(s.err, errBroken) {
		t.Fatalf("finished %t, error %v", s.finished, s.err)
	}
	wantOutputs(t, c, "a=1")
	wantLog(t, c)
	s.wantStaged(true)
}

// What a timer sends waits as what a record sends.
func TestTurns_timer(t *testing.T) {
	c := cluster()
	s := announcing(t, c, 50*time.Millisecond)
	s.prod.Hold(tp("out", 0), tp("out", 1))
	s.advance(50 * time.Millisecond)
	if len(s.prod.Queued()) != 1 {
		t.Fatalf("queued: %v", s.prod.Queued())
	}
	wantLog(t, c)
	s.prod.Release()
	s.settle()
	wantOutputs(t, c, "timer=rings")
	wantLog(t, c, "timer=rings")
}

// A cache that is flushed for a commit sends and logs in one turn.
func TestTurns_flushedCache(t *testing.T) {
	c := cluster()
	topo := build(t, func(b *topology.Builder) {
		spec := &op.TableSpec{Store: "counts"}
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "latest", Parents: []string{"source"}, Op: op.NewTableSource[string, string](spec)})
		b.AddStore(topology.Store{Name: "counts", Kind: topology.KeyValue, Logged: true, Op: &op.KVFactory[string, string]{
			Spec: op.StoreSpec{Name: "counts", Logged: true, Cached: true}, Key: serde.String, Value: serde.String,
		}}, "latest")
		b.AddProcessor(topology.Processor{Name: "stream", Parents: []string{"latest"}, Op: op.NewToStream[string, string]()})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"stream"}, Op: op.NewSink(op.SinkSpec[string, string]{Topic: "out", Key: serde.String, Value: serde.String})})
	})
	s := newStepper(t, c, topo, func(cfg *Config, _ *stepper) { cfg.Task.CacheBytes = 1 << 20 })
	s.settle()
	s.assign(t0)
	s.prod.Hold(tp("out", 0), tp("out", 1))
	c.Append(tp("in", 0), kv("a", "1"), kv("a", "2"))
	s.settle()
	if n := s.prod.Unacknowledged(); n != 0 {
		t.Fatalf("%d records have left before the flush", n)
	}
	s.advance(100 * time.Millisecond)
	wantLog(t, c)
	s.prod.Release()
	s.settle()
	wantOutputs(t, c, "a=2")
	wantLog(t, c, "a=2")
	s.wantCommitted(2)
}

// A store whose changelog is its source topic writes none: nothing waits for anything, and a restore does not go beyond what is
// committed.
func TestTurns_sourceTopicAsChangelog(t *testing.T) {
	c := cluster()
	topo := build(t, func(b *topology.Builder) {
		spec := &op.TableSpec{Store: "counts"}
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "latest", Parents: []string{"source"}, Op: op.NewTableSource[string, string](spec)})
		b.AddStore(topology.Store{Name: "counts", Kind: topology.KeyValue, SourceTopic: "in", Op: &op.KVFactory[string, string]{
			Spec: op.StoreSpec{Name: "counts"}, Key: serde.String, Value: serde.String,
		}}, "latest")
		b.AddProcessor(topology.Processor{Name: "stream", Parents: []string{"latest"}, Op: op.NewToStream[string, string]()})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"stream"}, Op: op.NewSink(op.SinkSpec[string, string]{Topic: "out", Key: serde.String, Value: serde.String})})
	})
	s := newStepper(t, c, topo)
	s.settle()
	s.assign(t0)
	if s.machine.find(t0).life.box.ordered {
		t.Error("changelog records wait, and there are none")
	}
	s.prod.Hold()
	c.Append(tp("in", 0), kv("a", "1"))
	s.settle()
	s.kill()
	s = newStepper(t, c, topo)
	s.settle()
	s.assign(t0)
	wantOutputs(t, c, "a=1")
	s.advance(100 * time.Millisecond)
	s.wantCommitted(1)
}

// What waits counts as memory on its way to the brokers. When that is full the tasks stand, outputs and then the changelog
// leave, and the tasks go on.
func TestTurns_full(t *testing.T) {
	c := cluster()
	s := announcing(t, c, 0, func(cfg *Config, _ *stepper) { cfg.Settings.ProducerBytes = 1000 })
	s.prod.HoldAcks(tp("out", 0), tp("out", 1))
	for i := range 100 {
		c.Append(tp("in", 0), kv(fmt.Sprint(i), "v"))
		s.settle()
	}
	if !s.machine.full || s.prod.BufferedBytes() > 100 {
		t.Errorf("full %t with %d bytes in the producer and %d that wait", s.machine.full, s.prod.BufferedBytes(), s.machine.staged.Load())
	}
	s.prod.Release()
	for range 100 {
		s.advance(fullCheckMs * time.Millisecond)
	}
	if n := len(outputs(c)); n != 100 || len(c.Records(tp(logTopic, 0))) != 100 {
		t.Errorf("%d outputs and %d changelog records, want 100", n, len(c.Records(tp(logTopic, 0))))
	}
	s.advance(100 * time.Millisecond)
	s.wantCommitted(100)
	s.wantStaged(true)
}

// A task that is taken away, or whose instance stops, is closed when what has waited is written and committed.
func TestTurns_cleanEnd(t *testing.T) {
	for name, end := range map[string]func(*stepper){
		"revoked": func(s *stepper) { s.member.Revoke(t0) },
		"stopped": func(s *stepper) { s.step(Stop{}) },
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster()
			s := announcing(t, c, 0)
			s.prod.HoldAcks(tp("out", 0), tp("out", 1))
			c.Append(tp("in", 0), kv("a", "1"))
			s.settle()
			end(s)
			s.settle()
			s.wantCommitted(-1)
			if s.machine.find(t0) == nil && len(s.machine.lingers) == 0 || s.finished {
				t.Fatal("closed before the changelog is written")
			}
			s.prod.Release()
			s.settle()
			s.wantCommitted(1)
			wantLog(t, c, "a=1")
			s.wantStaged(true)
			if s.machine.find(t0) != nil || len(s.machine.lingers) > 0 {
				t.Error("not closed")
			}
		})
	}
}

// Of a task that is lost nothing leaves that has waited.
func TestTurns_lost(t *testing.T) {
	c := cluster()
	s := announcing(t, c, 0)
	s.prod.HoldAcks(tp("out", 0), tp("out", 1))
	c.Append(tp("in", 0), kv("a", "1"))
	s.settle()
	s.wantStaged(false)
	s.member.Lose(false)
	s.settle()
	s.wantStaged(true)
	s.prod.Release()
	s.settle()
	wantOutputs(t, c, "a=1")
	wantLog(t, c)
	s.wantStaged(true)
}

// A task that is inside a record past its deadline: what it has handed over before is logged and committed, although its worker
// does not come; what it did since then is not.
func TestTurns_stuck(t *testing.T) {
	c := cluster()
	s := announcing(t, c, 0, func(cfg *Config, _ *stepper) { cfg.Settings.MaxPollIntervalMs = 1000 })
	s.prod.HoldAcks(tp("out", 0), tp("out", 1))
	c.Append(tp("in", 0), kv("a", "1"))
	s.settle()
	s.advance(100 * time.Millisecond)
	c.Append(tp("in", 0), kv("b", "2"))
	s.settle()
	s.auto = false
	c.Append(tp("in", 0), kv("c", "3"))
	s.settle() // the worker has the turn, and does not return
	if len(s.works) != 1 {
		t.Fatalf("%d turns", len(s.works))
	}
	s.advance(1100 * time.Millisecond)
	if len(s.machine.stuck) != 1 {
		t.Fatal("the task is not stuck")
	}
	s.prod.Release()
	for range 10 {
		s.prod.Deliver()
		for len(s.releases) > 0 {
			s.release(0)
		}
		for len(s.commits) > 0 {
			s.commit(0)
		}
		s.settle()
	}
	wantOutputs(t, c, "a=1", "b=2")
	wantLog(t, c, "a=1")
	s.wantCommitted(1)
	s.wantStaged(true)
	s.auto = true
	s.settle()
	wantOutputs(t, c, "a=1", "b=2")
	wantLog(t, c, "a=1")
}
