package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

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

// A source topic that is deleted for good stops the instance after the timeout of a task, and not before; one that comes back is
// read on.
func TestFetch_sourceTopicDeleted(t *testing.T) {
	for name, gone := range map[string]int{"for good": 100, "for a while": 50} {
		t.Run(name, func(t *testing.T) {
			s := ran(t)
			s.advance(100 * time.Millisecond)
			for i := 0; i < gone && !s.finished; i++ {
				s.cluster.Inject(brokertest.Fault{Op: brokertest.OpFetch, When: func(c brokertest.Call) bool { return slices.Contains(c.Partitions, tp("in", 0)) },
					Err: broker.CodeUnknownTopicOrPartition})
				s.advance(time.Second)
			}
			if gone == 50 {
				s.advance(time.Second)
				s.cluster.Append(tp("in", 0), kv("c", "3"))
				s.advance(time.Second)
				s.advance(time.Second)
				if s.finished {
					t.Fatal(s.err)
				}
				s.wantCommitted(2, 1)
				return
			}
			if !s.finished || !errors.Is(s.err, broker.ErrUnknownTopic) {
				t.Fatalf("finished %t, error %v", s.finished, s.err)
			}
			for _, word := range []string{"in-0", "60 s", "task.timeout.ms"} {
				if !strings.Contains(s.err.Error(), word) {
					t.Errorf("%q does not say %q", s.err, word)
				}
			}
		})
	}
}

// A fixed topic that a step writes and the cluster does not have is told before the first record needs it.
func TestStart_missingSinkTopicIsToldEarly(t *testing.T) {
	c := brokertest.New()
	c.AddTopic("in", 1)
	for _, there := range []bool{false, true} {
		if there {
			c.AddTopic("out", 1)
		}
		var log bytes.Buffer
		topo := copyTopology(t)
		r := &Runner{cfg: RunnerConfig{Topology: topo}, log: slog.New(slog.NewTextHandler(&log, nil))}
		r.book = newTopicBook(t.Context(), c.Admin(), time.Second, 0, true)
		if err := r.book.learn(context.Background(), topo.SinkTopics()...); err != nil {
			t.Fatal(err)
		}
		r.missingSinks()
		if told := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "topic=out step=sink"); told == there {
			t.Errorf("the topic is there: %t; the log says %q", there, &log)
		}
	}
}
