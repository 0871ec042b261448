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

// A task that fails begins again from its last commit, up to three times in a row; then its instance stops. Here the third try
// succeeds.
func ExampleOnUncaughtError() {
	addrs, stop := brokerWith([]string{"orders"}, "o-1")
	defer stop()
	calls := 0
	b := millrace.NewBuilder()
	orders := millrace.From(b, millrace.NewTopic("orders", serde.String, serde.String))
	done := make(chan string, 1)
	millrace.TryMapValues(orders, func(_ context.Context, order string) (string, error) {
		if calls++; calls < 3 {
			return "", errors.New("the stock database is away")
		}
		return "booked " + order, nil
	}, millrace.As("book")).ForEach(func(_, v string) { done <- v })
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	app, err := millrace.NewApp(topology, millrace.ApplicationID("booking"), millrace.Brokers(addrs...), millrace.InMemoryState(),
		millrace.CommitInterval(100*time.Millisecond),
		millrace.OnUncaughtError(func(u millrace.UncaughtError) millrace.UncaughtAction {
			var at *millrace.RecordError
			if errors.As(u.Err, &at) {
				fmt.Printf("failed %d times at %s-%d@%d: %v\n", u.Times, at.Origin.Topic, at.Origin.Partition, at.Origin.Offset, at.Err)
			}
			if u.Times > 3 {
				return millrace.StopInstance
			}
			return millrace.ReplaceTask
		}))
	if err != nil {
		log.Fatal(err)
	}
	runUntilDone(app, func() { fmt.Println(<-done) })
	fmt.Println("replaced:", app.Metrics().TasksReplaced)
	// Output:
	// failed 1 times at orders-0@0: the stock database is away
	// failed 2 times at orders-0@0: the stock database is away
	// booked o-1
	// replaced: 2
}
