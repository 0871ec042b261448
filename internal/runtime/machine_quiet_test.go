package runtime

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// clockStep writes the times at which it is told that time has passed.
type clockStep struct{ observedMs int64 }

func (c *clockStep) Process(r *processor.Record[string, string]) error {
	c.observedMs = max(c.observedMs, r.TimestampMs)
	return nil
}

// quietTopology has a source that is idle after ten seconds.
func quietTopology(t *testing.T) *topology.Topology {
	return build(t, func(b *topology.Builder) {
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, IdleTimeout: 10 * time.Second,
			Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "clock", Parents: []string{"source"},
			Op: op.FactoryFunc(func(env *op.Env, step string, _ []op.Child) (any, error) {
				c := new(clockStep)
				env.ObserveTime(step, &c.observedMs)
				env.OnAdvance(step, func(toMs int64) error {
					if toMs > c.observedMs {
						c.observedMs = toMs
						env.Emit(op.Output{ProduceRecord: broker.ProduceRecord{Topic: "out", Key: []byte("at"), Value: fmt.Append(nil, toMs)}, Step: step})
					}
					return nil
				})
				return c, nil
			})})
	})
}

func TestQuiet_onlyAnInputThatIsHeardOf(t *testing.T) {
	c := cluster()
	c.Append(tp("in", 0), kv("a", "1"))
	s := newStepper(t, c, quietTopology(t))
	s.settle()
	s.assign(t0)
	s.advance(9999 * time.Millisecond)
	wantOutputs(t, c)
	s.fetch.Hold(tp("in", 0))
	s.advance(time.Millisecond)
	wantOutputs(t, c) // the broker says nothing: nobody knows whether there are records
	s.fetch.Release(tp("in", 0))
	s.advance(time.Second)
	wantOutputs(t, c, "at=11005")

	// What has come out is committed, and comes out once.
	s.advance(time.Second)
	wantOutputs(t, c, "at=11005", "at=12005")
	s.advance(200 * time.Millisecond)
	committed := s.group.Committed(tp("in", 0))
	m, ok := codec.ParseOffsetMetadata(committed.Metadata)
	if !ok || committed.Offset != 1 || m.PartitionTimeMs != 5 || m.Observed["clock"] != 12_005 {
		t.Fatalf("committed %d with %+v, want 1 with the time of the step", committed.Offset, m)
	}
	again := newStepperAt(t, c, quietTopology(t), s.clock)
	again.settle()
	again.assign(t0)
	again.advance(10 * time.Second)
	wantOutputs(t, c, "at=11005", "at=12005") // the source has run on to 10005 again
	again.advance(3 * time.Second)
	wantOutputs(t, c, "at=11005", "at=12005", "at=13005")
}

// An input that cannot be read, or is paused, is not idle.
func TestQuiet_notWhileReadingFails(t *testing.T) {
	c := cluster()
	c.Append(tp("in", 0), kv("a", "1"))
	s := newStepper(t, c, quietTopology(t))
	s.settle()
	s.assign(t0)
	in := s.machine.find(t0).inputs[0]
	in.paused = true
	s.advance(20 * time.Second)
	wantOutputs(t, c)
	in.paused = false
	s.advance(time.Second)
	wantOutputs(t, c, "at=21005")
}
