package runtime

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
)

// A worker that is held up by a slow record does not keep other tasks from running; with a hard limit it does.
func TestWorkers_heldUp(t *testing.T) {
	for _, hard := range []bool{false, true} {
		s := ran(t, func(c *Config, _ *stepper) { c.Settings.Workers, c.Settings.HardWorkers = 1, hard })
		s.auto = false
		s.cluster.Append(tp("in", 0), kv("c", "3"))
		s.cluster.Append(tp("in", 1), kv("d", "4"))
		s.settle()
		if len(s.works) != 1 {
			t.Fatalf("%d tasks run on one worker", len(s.works))
		}
		s.advance(heldUpMs * time.Millisecond)
		want := 2
		if hard {
			want = 1
		}
		if len(s.works) != want {
			t.Errorf("hard limit %t: %d tasks run after one is held up, want %d", hard, len(s.works), want)
		}
		for len(s.works) > 0 {
			s.work(0)
			s.settle()
		}
		if s.machine.busy != 0 {
			t.Errorf("hard limit %t: %d workers count as busy when none is", hard, s.machine.busy)
		}
		s.auto = true
		s.settle()
	}
}

// Records of repartition topics are deleted once they are committed, and only those.
func TestPurge_committedRecordsOfRepartitionTopics(t *testing.T) {
	topo := build(t, func(b *topology.Builder) {
		str := op.SourceSpec[string, string]{Key: serde.String, Value: serde.String}
		b.InternalTopic(topology.RepartitionTopic{Name: "again-repartition"})
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(str)})
		b.AddSink(topology.Sink{Name: "to", Topic: "again-repartition", Parents: []string{"source"}, Op: op.NewSink(op.SinkSpec[string, string]{
			Topic: "again-repartition", Internal: true, Key: serde.String, Value: serde.String})})
		b.AddSource(topology.Source{Name: "from", Topics: []string{"again-repartition"}, Op: op.NewSource(str)})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"from"}, Op: op.NewSink(op.SinkSpec[string, string]{
			Topic: "out", Key: serde.String, Value: serde.String})})
	})
	c := cluster()
	c.Append(tp("in", 0), kv("a", "1"), kv("a", "2"))
	s := newStepper(t, c, topo)
	s.settle()
	s.assign(t0, t1, broker.TaskID{Subtopology: 1, Partition: 0}, broker.TaskID{Subtopology: 1, Partition: 1})
	wantOutputs(t, c, "a=1", "a=2")
	s.advance(100 * time.Millisecond)
	if len(s.purges) != 0 {
		t.Fatal("purged before the interval is over")
	}
	s.advance(30 * time.Second)
	if len(s.purges) != 1 {
		t.Fatalf("%d purges, want 1", len(s.purges))
	}
	n := int64(0)
	for at, before := range s.purges[0].Before {
		if at.Topic != "app-again-repartition" {
			t.Errorf("purges %s", at.Topic)
		}
		n += before
	}
	if n != 2 {
		t.Errorf("purges %v, want the two records that are committed", s.purges[0].Before)
	}
	s.step(Purged{})
	s.advance(30 * time.Second)
	if len(s.purges) != 1 {
		t.Error("purged again although nothing was committed since")
	}
}

// While an input is level and empty the task waits for its idle time, and no longer.
func TestIdle_waitsForTheOtherInput(t *testing.T) {
	topo := build(t, func(b *topology.Builder) {
		str := op.SourceSpec[string, string]{Key: serde.String, Value: serde.String}
		b.AddSource(topology.Source{Name: "one", Topics: []string{"in"}, Op: op.NewSource(str)})
		b.AddSource(topology.Source{Name: "two", Topics: []string{"other"}, Op: op.NewSource(str)})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"one", "two"}, Op: op.NewSink(op.SinkSpec[string, string]{
			Topic: "out", Key: serde.String, Value: serde.String})})
	})
	c := cluster()
	c.AddTopic("other", 2)
	c.Append(tp("in", 0), kv("a", "1"))
	s := newStepper(t, c, topo, func(c *Config, _ *stepper) { c.Task.MaxIdleMs = 1000 })
	s.settle()
	s.assign(t0)
	wantOutputs(t, c)
	s.advance(999 * time.Millisecond)
	wantOutputs(t, c)
	s.advance(time.Millisecond)
	wantOutputs(t, c, "a=1")
}

// Timers of the wall clock fire on their beat although no record comes.
func TestTimers_wallClock(t *testing.T) {
	var fired []int64
	topo := timerTopology(t, time.Second, func(at time.Time) { fired = append(fired, at.UnixMilli()-1_000_000) })
	s := newStepper(t, cluster(), topo)
	s.settle()
	s.assign(t0)
	for range 7 {
		s.advance(500 * time.Millisecond)
	}
	if len(fired) != 3 || fired[0] != 1000 || fired[1] != 2000 || fired[2] != 3000 {
		t.Errorf("fired at %v, want 1000, 2000, 3000", fired)
	}
}

// Where reading is uncommitted an open transaction does not make an input look read to its end.
func TestIdle_openTransactionIsLag(t *testing.T) {
	c := brokertest.New()
	c.AddTopic("in", 1)
	c.Append(tp("in", 0), kv("a", "1"))
	c.AppendTxn("x", tp("in", 0), kv("b", "2"), kv("c", "3"))
	c.AddTopic("out", 1)
	s := newStepper(t, c, copyTopology(t))
	s.fetch.SetLimit(1)
	s.settle()
	s.auto = false
	s.assign(t0)
	s.restore(0)
	s.work(0)
	s.step(Fetched{Batches: s.fetch.Poll(t.Context())})
	in := s.machine.find(t0).inputs[0]
	if len(s.works) != 1 || len(s.works[0].batches) != 1 {
		t.Fatalf("turns %+v, want one with a batch", s.works)
	}
	if b := s.works[0].batches[0]; in.end != 3 || b.StableEnd != -1 || b.HighWater != 3 {
		t.Errorf("the end is taken to be %d, and the task is told %d and %d; want 3 and nothing of a stable end", in.end, b.StableEnd, b.HighWater)
	}
}
