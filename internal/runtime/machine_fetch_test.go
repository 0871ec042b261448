package runtime

import (
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
)

// What was known of the end of a partition when it was paused is old when its records are used up: the task must not go on
// with another input, which has been read far ahead meanwhile.
func TestThrottle_aPausedInputIsNotTakenForLevel(t *testing.T) {
	topo := build(t, func(b *topology.Builder) {
		str := op.SourceSpec[string, string]{Key: serde.String, Value: serde.String}
		b.AddSource(topology.Source{Name: "one", Topics: []string{"in"}, Op: op.NewSource(str)})
		b.AddSource(topology.Source{Name: "two", Topics: []string{"other"}, Op: op.NewSource(str)})
		b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"one", "two"}, Op: op.NewSink(op.SinkSpec[string, string]{
			Topic: "out", Key: serde.String, Value: serde.String})})
	})
	at := func(tsMs int64) broker.Record {
		return broker.Record{Key: []byte("k"), Value: fmt.Append(nil, tsMs), TimestampMs: tsMs}
	}
	c := brokertest.New()
	for _, name := range []string{"in", "other", "out"} {
		c.AddTopic(name, 1)
	}
	s := newStepper(t, c, topo, func(c *Config, _ *stepper) { c.Settings.HighRecords = 4 })
	s.settle()
	s.assign(t0)
	s.auto = false
	c.Append(tp("in", 0), at(1), at(2), at(3), at(4), at(5), at(6))
	s.step(Fetched{Batches: s.fetch.Poll(t.Context())}) // level, and paused
	c.Append(tp("in", 0), at(7), at(8))
	c.Append(tp("other", 0), at(100))
	s.step(Fetched{Batches: s.fetch.Poll(t.Context())}) // of the other alone
	s.auto = true
	s.settle()
	var got []string
	for _, r := range c.Records(tp("out", 0)) {
		got = append(got, string(r.Value))
	}
	if want := []string{"1", "2", "3", "4", "5", "6", "7", "8", "100"}; !slices.Equal(got, want) {
		t.Errorf("taken in the order %v, want %v", got, want)
	}
}
