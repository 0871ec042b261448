package runtime

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

var (
	t0 = broker.TaskID{Partition: 0}
	t1 = broker.TaskID{Partition: 1}
)

func tp(topic string, p int32) broker.TopicPartition { return brokertest.TP(topic, p) }

func build(t testing.TB, f func(b *topology.Builder)) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	f(b)
	topo, err := b.Build(topology.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// countAndCopy reads in, counts by key in the store "counts", and writes the counts to out.
func countTopology(t testing.TB) *topology.Topology {
	return build(t, func(b *topology.Builder) {
		spec := &op.TableSpec{Store: "counts"}
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "latest", Parents: []string{"source"}, Op: op.NewTableSource[string, string](spec)})
		b.AddStore(topology.Store{Name: "counts", Kind: topology.KeyValue, Logged: true, Op: &op.KVFactory[string, string]{
			Spec: op.StoreSpec{Name: "counts", Logged: true}, Key: serde.String, Value: serde.String,
		}}, "latest")
		b.AddProcessor(topology.Processor{Name: "stream", Parents: []string{"latest"}, Op: op.NewToStream[string, string]()})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"stream"}, Op: op.NewSink(op.SinkSpec[string, string]{Topic: "out", Key: serde.String, Value: serde.String})})
	})
}

func copyTopology(t testing.TB) *topology.Topology {
	return build(t, func(b *topology.Builder) {
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "copy", Parents: []string{"source"}, Op: op.NewPeek(func(r *processor.Record[string, string]) error {
			return nil
		})})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"copy"}, Op: op.NewSink(op.SinkSpec[string, string]{Topic: "out", Key: serde.String, Value: serde.String})})
	})
}

func kv(k, v string) broker.Record {
	return broker.Record{Key: []byte(k), Value: []byte(v), TimestampMs: 5}
}

func cluster() *brokertest.Cluster {
	c := brokertest.New()
	c.AddTopic("in", 2)
	c.AddTopic("out", 2)
	return c
}

func outputs(c *brokertest.Cluster) []string {
	var out []string
	for p := range int32(2) {
		for _, r := range c.Records(tp("out", p)) {
			out = append(out, string(r.Key)+"="+string(r.Value))
		}
	}
	slices.Sort(out)
	return out
}

func wantOutputs(t *testing.T, c *brokertest.Cluster, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, outputs(c)); d != "" {
		t.Errorf("outputs (-want +got):\n%s", d)
	}
}

func (s *stepper) assign(tasks ...broker.TaskID) {
	s.t.Helper()
	s.group.Assign(map[*brokertest.Membership][]broker.TaskID{s.member: tasks})
	s.settle()
}

func TestMachine_assignProcessCommit(t *testing.T) {
	c := cluster()
	c.Append(tp("in", 0), kv("a", "1"), kv("a", "2"))
	s := newStepper(t, c, copyTopology(t))
	s.settle()
	s.assign(t0, t1)
	wantOutputs(t, c, "a=1", "a=2")
	if s.machine.State() != StateRunning {
		t.Errorf("state %v", s.machine.State())
	}
	if got := s.group.Committed(tp("in", 0)).Offset; got != -1 {
		t.Errorf("committed %d before the interval", got)
	}
	s.advance(100 * time.Millisecond)
	if got := s.group.Committed(tp("in", 0)).Offset; got != 2 {
		t.Errorf("committed %d, want 2", got)
	}
	c.Append(tp("in", 1), kv("b", "3"))
	s.settle()
	s.step(Stop{})
	s.settle()
	if !s.finished || s.err != nil {
		t.Fatalf("finished %t err %v", s.finished, s.err)
	}
	if got := s.group.Committed(tp("in", 1)).Offset; got != 1 {
		t.Errorf("committed %d at the end, want 1", got)
	}
	if left, stay := s.member.Left(); !left || stay {
		t.Errorf("left %t stay %t", left, stay)
	}
}

// timerProcessor sets one timer of the wall clock.
type timerProcessor struct {
	every time.Duration
	fire  func(time.Time)
}

func (p *timerProcessor) Init(ctx processor.Context[string, string]) error {
	_, err := ctx.Schedule(p.every, processor.WallClock, func(now time.Time) error {
		p.fire(now)
		return nil
	})
	return err
}

func (p *timerProcessor) Process(processor.Record[string, string]) error { return nil }
func (p *timerProcessor) Close() error                                   { return nil }

func timerTopology(t *testing.T, every time.Duration, fire func(time.Time)) *topology.Topology {
	return build(t, func(b *topology.Builder) {
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "timer", Parents: []string{"source"}, Op: op.NewProcess(func() (processor.Processor[string, string, string, string], error) {
			return &timerProcessor{every: every, fire: fire}, nil
		}, nil)})
	})
}
