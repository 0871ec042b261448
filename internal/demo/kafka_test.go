package demo

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// On Apache Kafka, whose retention deletes records of 2013 within its next look, a feeding that was killed goes on to the end,
// and a run from there comes to what the plain pass finds.
func TestOnKafka_feedingKilledHalfWay(t *testing.T) {
	brokers := kafkatest.Start(t, kafkatest.Options{Config: kafkatest.QuickCleaner()}).Bootstrap()
	feedAndKill(t, brokers, 4, 10000)
	feedAll(t, brokers, someInputs(t, 0, 4))

	// A topic with the default retention shows when the broker has looked.
	client := connect(t, brokers)
	admin := kadm.NewClient(client)
	segment := "100"
	if _, err := admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"segment.ms": &segment}, "short-lived"); err != nil {
		t.Fatal(err)
	}
	for start := int64(0); start == 0; {
		old := &kgo.Record{Topic: "short-lived", Value: []byte("old"), Timestamp: tablesTime}
		if err := client.ProduceSync(t.Context(), old).FirstErr(); err != nil {
			t.Fatal(err)
		}
		offsets, err := admin.ListStartOffsets(t.Context(), "short-lived")
		if err != nil {
			t.Fatal(err)
		}
		first, _ := offsets.Lookup("short-lived", 0)
		start = first.Offset
	}
	wantFed(t, brokers, someInputs(t, 0, 4))

	o := options(t)
	o.Brokers, o.Grace = brokers, 2*time.Hour
	s, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	newOracle(t, "data", o.Grace, 4).checkFlights(t, o.OutDir, s) // the engine of options makes nothing of the rest
}
