package millrace_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// An App that is paused keeps its place in the group and its tasks, and takes no records. It may be paused before it runs, to begin
// when something else is ready.
func ExampleApp_Pause() {
	addrs, stop := brokerWith([]string{"orders"}, "o-1", "o-2")
	defer stop()
	b := millrace.NewBuilder()
	orders := millrace.From(b, millrace.NewTopic("orders", serde.String, serde.String))
	seen := make(chan string, 2)
	orders.ForEach(func(_, v string) { seen <- v })
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	running := make(chan struct{}, 1)
	app, err := millrace.NewApp(topology, millrace.ApplicationID("shipping"), millrace.Brokers(addrs...), millrace.InMemoryState(),
		millrace.CommitInterval(100*time.Millisecond), millrace.OnState(func(s millrace.State) {
			if s == millrace.Running {
				select {
				case running <- struct{}{}:
				default:
				}
			}
		}))
	if err != nil {
		log.Fatal(err)
	}
	app.Pause()
	runUntilDone(app, func() {
		<-running
		m := app.Metrics()
		fmt.Println(m.State, "paused:", m.Paused, "tasks:", len(m.Tasks), "processed:", m.Processed)
		app.Resume()
		fmt.Println(<-seen, <-seen)
	})
	// Output:
	// running paused: true tasks: 1 processed: 0
	// o-1 o-2
}

// The number of workers changes while the App runs: one task at a time by night, as many as there are processors by day.
func ExampleApp_SetWorkers() {
	b := millrace.NewBuilder()
	millrace.From(b, millrace.NewTopic("orders", serde.String, serde.String)).ForEach(func(_, v string) { fmt.Println(v) })
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	app, err := millrace.NewApp(topology, millrace.ApplicationID("shipping"), millrace.Brokers("localhost:9092"), millrace.InMemoryState())
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			workers := 0 // as many as there are processors
			if h := time.Now().Hour(); h < 6 || h >= 22 {
				workers = 1
			}
			if err := app.SetWorkers(workers); err != nil {
				log.Print(err)
			}
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
		}
	}()
	if err := app.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
