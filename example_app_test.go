package millrace_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// An App runs until its context ends, and then hands over, commits and leaves its group. Here it runs exactly-once, against
// franz-go's broker in this process.
func ExampleApp() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "quiet", "loud"))
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics("loud"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, r := range []*kgo.Record{{Topic: "quiet", Value: []byte("hello")}, {Topic: "loud", Value: []byte("(start)")}} {
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}

	b := millrace.NewBuilder()
	quiet := millrace.From(b, millrace.NewTopic("quiet", serde.String, serde.String))
	millrace.MapValues(quiet, strings.ToUpper).To(millrace.NewTopic("loud", serde.String, serde.String))
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	app, err := millrace.NewApp(topology, millrace.ApplicationID("shouting"), millrace.Brokers(broker.ListenAddrs()...),
		millrace.Guarantee(millrace.ExactlyOnceV2))
	if err != nil {
		log.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- app.Run(running) }()

	for n := 0; n < 2; {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			n++
			fmt.Println(string(r.Value))
		})
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
	fmt.Println(app.State(), app.Metrics().Processed)
	// Output:
	// (start)
	// HELLO
	// stopped 1
}

// Settings of a Kafka Streams application are taken over by their names. What is wrong with them is said before anything
// starts.
func ExampleFromProperties() {
	b := millrace.NewBuilder()
	millrace.From(b, millrace.NewTopic("in", serde.Bytes, serde.Bytes)).To(millrace.NewTopic("out", serde.Bytes, serde.Bytes))
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	_, err = millrace.NewApp(topology, millrace.FromProperties(map[string]string{
		"application.id":      "orders",
		"bootstrap.servers":   "localhost:9092",
		"commit.intervall.ms": "100",
	}))
	fmt.Println(strings.Contains(err.Error(), "commit.interval.ms"))
	// Output: true
}
