package runtime

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// windowTopology counts in windows of 10 ms without grace.
func windowTopology(t *testing.T) *topology.Topology {
	return build(t, func(b *topology.Builder) {
		spec := &op.TableSpec{Store: "w"}
		b.AddSource(topology.Source{Name: "source", Topics: []string{"in"},
			Op: op.NewSource(op.SourceSpec[string, string]{Key: serde.String, Value: serde.String})})
		b.AddProcessor(topology.Processor{Name: "count", Parents: []string{"source"},
			Op: op.NewWindowAggregate(window.Tumbling(10*time.Millisecond), op.WindowAggregateSpec[string, string, int64]{
				Table: spec, Late: new(string),
				Fold: func(_ *processor.Record[string, string], n int64, _ bool) (int64, bool, error) {
					return n + 1, true, nil
				},
			})})
		b.AddStore(topology.Store{Name: "w", Kind: topology.Window, Logged: true, RetentionMs: 1000, WindowSizeMs: 10, Def: spec,
			Op: &op.WindowFactory[string, int64]{Spec: op.StoreSpec{Name: "w", Logged: true}, SizeMs: 10, Key: serde.String, Value: serde.Int64},
		}, "count")
	})
}

// A Java application commits no observed time of its windowed steps, only the time of the partition. What its changelog tells
// closes the windows that were closed there.
func TestTakeover_closedWindowsStayClosed(t *testing.T) {
	c := cluster()
	c.Append(tp("in", 0), kv("a", "1"), kv("a", "2"), broker.Record{Key: []byte("a"), Value: []byte("late"), TimestampMs: 7},
		broker.Record{Key: []byte("a"), Value: []byte("new"), TimestampMs: 101})
	c.AddTopic("app-w-changelog", 2)
	changelog := tp("app-w-changelog", 0)
	for _, startMs := range []int64{0, 100} {
		c.Append(changelog, broker.Record{Key: codec.AppendWindowKey(nil, []byte("a"), startMs, 0), Value: []byte{0, 0, 0, 0, 0, 0, 0, 1}, TimestampMs: startMs})
	}
	text, _ := codec.AppendOffsetMetadata(nil, codec.OffsetMetadata{PartitionTimeMs: 100, StreamTimeMs: 100})
	c.Group("app").Commit(tp("in", 0), broker.OffsetMeta{Offset: 2, Metadata: string(text), Epoch: -1})
	s := newStepper(t, c, windowTopology(t))
	s.settle()
	s.assign(t0)
	written := c.Records(changelog)[2:]
	if len(written) != 1 || written[0].TimestampMs != 101 {
		t.Errorf("the changelog got %+v, want the count at 101 alone: the record at 7 is late", written)
	}
}
