package millrace_test

import (
	"fmt"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/task"
	"github.com/millrace-io/millrace/processor"
)

// runOneTask runs one record of topic in through the first task of a topology, in a cluster that has no other topic.
func runOneTask(t *testing.T, topology *millrace.Topology, production processor.Handler) error {
	t.Helper()
	set, err := state.NewMemorySet(nil)
	if err != nil {
		t.Fatal(err)
	}
	in := broker.TopicPartition{Topic: "in"}
	x, err := task.New(task.Config{
		Sub: topology.Internal().Subtopologies()[0], Inputs: []broker.TopicPartition{in}, Set: set, Ctx: t.Context(),
		NowMs: func() int64 { return 0 }, Metrics: metrics.New(), Handlers: op.Handlers{Production: production},
		Partitions: func(topic string) (int32, error) {
			return 0, fmt.Errorf("topic %s: %w", topic, broker.ErrUnknownTopic)
		},
		TopicName: func(name string) string { return name },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	x.SetPosition(in, 0, 1)
	record := broker.Record{Key: []byte("k"), Value: []byte("v"), TimestampMs: 1}
	if err := x.Add(broker.Batch{TopicPartition: in, Records: []broker.Record{record}, Position: 1, StableEnd: 1, HighWater: 1}); err != nil {
		t.Fatal(err)
	}
	_, err = x.Process(1)
	return err
}
