package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// copying is a topology that copies a topic.
func copying() *millrace.Topology {
	b := millrace.NewBuilder()
	millrace.From(b, millrace.NewTopic("in", serde.Bytes, serde.Bytes)).To(millrace.NewTopic("out", serde.Bytes, serde.Bytes))
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	return topology
}

// Brokers assign the tasks. Those that do not know the protocol are told of at the start.
func ExampleGroupProtocol() {
	brokers, stop := brokerWith([]string{"in", "out"})
	defer stop()
	app, err := millrace.NewApp(copying(), millrace.ApplicationID("copy"), millrace.Brokers(brokers...), millrace.InMemoryState(),
		millrace.GroupProtocol(millrace.Streams))
	if err != nil {
		log.Fatal(err)
	}
	err = app.Run(context.Background())
	fmt.Println("refused:", errors.Is(err, millrace.ErrGroupProtocol))
	// Output: refused: true
}

// An instance that is to be restarted keeps its place in the group, and the state of tasks that have gone elsewhere for an hour.
func ExampleStayInGroup() {
	_, err := millrace.NewApp(copying(), millrace.ApplicationID("copy"), millrace.Brokers("localhost:9092"),
		millrace.StayInGroup(), millrace.SessionTimeout(time.Minute), // longer than a restart takes
		millrace.StateCleanupDelay(time.Hour))
	fmt.Println(err)
	// Output: <nil>
}
