package runtime

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// oversizedTopology writes three results of 600 kB for a record of the key "big", and one small one for any other.
func oversizedTopology(t testing.TB) *topology.Topology {
	return build(t, func(b *topology.Builder) {
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"}, Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "many", Parents: []string{"source"}, Op: op.NewFlatMap(
			func(r *processor.Record[string, string], out []processor.Record[string, string]) ([]processor.Record[string, string], error) {
				if r.Key != "big" {
					return append(out, *r), nil
				}
				for range 3 {
					out = append(out, processor.Record[string, string]{Key: "b", Value: strings.Repeat("x", 600_000), TimestampMs: r.TimestampMs})
				}
				return out, nil
			})})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"many"}, Op: op.NewSink(op.SinkSpec[string, string]{Topic: "out", Key: serde.String, Value: serde.String})})
	})
}

// One record that alone passes what a task should gather is let through and counted; it leaves at once, not with the next
// interval. Past the memory limit the task fails, and the step that sent is named.
func TestOversized_oneRecord(t *testing.T) {
	guarantees(t, func(t *testing.T, eos bool) {
		for _, limit := range []int64{0, 1 << 20} {
			var opts []stepOption
			if eos {
				opts = append(opts, transactional("app-x"))
			}
			s := newStepper(t, cluster(), oversizedTopology(t), append(opts, func(c *Config, _ *stepper) {
				c.Task.PrivateBytes, c.Task.EmitLimit, c.Settings.CommitIntervalMs = 1<<20, limit, 3_600_000
			})...)
			s.settle()
			s.assign(t0)
			s.cluster.Append(tp("in", 0), kv("a", "1"), kv("big", "2"), kv("c", "3"))
			s.settle()
			if limit > 0 {
				s.advance(time.Minute)
				var fatal *op.FatalError
				if !s.finished || !errors.Is(s.err, op.ErrTooMuch) || !errors.As(s.err, &fatal) || fatal.Step != "sink" || fatal.Origin.Offset != 1 {
					t.Fatalf("finished %t, error %v", s.finished, s.err)
				}
				continue
			}
			if s.finished {
				t.Fatal(s.err)
			}
			s.advance(heldUpMs * time.Millisecond) // what a commit waits for; at-least-once keeps nothing back
			if got := s.group.Committed(tp("in", 0)).Offset; eos && got < 2 {
				t.Errorf("%d records are committed, want the large one at once", got)
			}
			if n := s.machine.cfg.Task.Metrics.Snapshot().Counter(metrics.RecordsOversized); n != 1 {
				t.Errorf("%d records counted, want 1", n)
			}
		}
	})
}
