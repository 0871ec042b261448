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

// brokerWith starts a broker in this process with topics of one partition, and writes records to the first.
func brokerWith(topics []string, values ...string) (addrs []string, stop func()) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topics...))
	if err != nil {
		log.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, v := range values {
		if err := client.ProduceSync(context.Background(), &kgo.Record{Topic: topics[0], Key: []byte(v), Value: []byte(v)}).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}
	return broker.ListenAddrs(), broker.Close
}

// runUntilDone runs an App until it has done what is waited for and everything in its input is processed, and drains it.
func runUntilDone(app *millrace.App, wait func()) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	wait()
	for done := false; !done; {
		lags, err := app.Lag(ctx)
		done = err == nil && lags.Total() == 0 || ctx.Err() != nil
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
}

// A listener is told how far the restore of each store is: here that of a second run, whose store in memory has to be filled anew.
func ExampleOnRestore() {
	addrs, stop := brokerWith([]string{"words"}, "mill", "race", "mill")
	defer stop()
	b := millrace.NewBuilder()
	words := millrace.From(b, millrace.NewTopic("words", serde.String, serde.String))
	millrace.Count(words.GroupByKey(), millrace.As("counts"), millrace.InMemory())
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	told := make(chan string, 1)
	for range 2 {
		app, err := millrace.NewApp(topology, millrace.ApplicationID("words"), millrace.Brokers(addrs...), millrace.CacheBytes(0),
			millrace.CommitInterval(10*time.Millisecond), millrace.OnRestore(func(p millrace.RestoreProgress) {
				if p.Done {
					told <- fmt.Sprintf("%s of task %s: %d records of %s", p.Store, p.Task, p.Records, p.Topic)
				}
			}))
		if err != nil {
			log.Fatal(err)
		}
		runUntilDone(app, func() { fmt.Println(<-told) })
	}
	// Output:
	// counts of task 0_0: 0 records of words-counts-changelog
	// counts of task 0_0: 3 records of words-counts-changelog
}

// An instance that keeps copies of other instances' tasks tells what becomes of them.
func ExampleOnStandby() {
	b := millrace.NewBuilder()
	words := millrace.From(b, millrace.NewTopic("words", serde.String, serde.String))
	millrace.Count(words.GroupByKey(), millrace.As("counts"))
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	tell := func(u millrace.StandbyUpdate) {
		switch u.Step {
		case millrace.StandbyRead:
			fmt.Printf("%s of task %s: %d records, %d offsets to go\n", u.Store, u.Task, u.Records, u.End-u.At)
		default:
			fmt.Printf("%s of task %s: %v at %d\n", u.Store, u.Task, u.Step, u.At)
		}
	}
	if _, err = millrace.NewApp(topology, millrace.ApplicationID("words"), millrace.Brokers("localhost:9092"),
		millrace.Standbys(1), millrace.OnStandby(tell)); err != nil {
		log.Fatal(err)
	}
	// What the App calls it with when it runs:
	tell(millrace.StandbyUpdate{Step: millrace.StandbyBegun, Task: "0_1", Store: "counts", Topic: "words-counts-changelog", Partition: 1, End: 120})
	tell(millrace.StandbyUpdate{Step: millrace.StandbyRead, Task: "0_1", Store: "counts", Topic: "words-counts-changelog", Partition: 1, At: 100, End: 120, Records: 97})
	// Output:
	// counts of task 0_1: begun at 0
	// counts of task 0_1: 97 records, 20 offsets to go
}

// All that an App keeps in memory follows from one number. One record that alone sends more than its task should gather between two
// commits is let through, and counted.
func ExampleMemoryLimit() {
	addrs, stop := brokerWith([]string{"seeds", "crops"}, "small", "huge")
	defer stop()
	b := millrace.NewBuilder()
	seeds := millrace.From(b, millrace.NewTopic("seeds", serde.String, serde.String))
	millrace.FlatMapValues(seeds, func(v string, emit func(string)) {
		n := 1
		if v == "huge" {
			n = 200
		}
		for range n {
			emit(strings.Repeat("x", 50_000))
		}
	}).To(millrace.NewTopic("crops", serde.String, serde.String))
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	app, err := millrace.NewApp(topology, millrace.ApplicationID("farm"), millrace.Brokers(addrs...), millrace.Workers(1),
		millrace.CommitInterval(10*time.Millisecond), millrace.MemoryLimit(64<<20))
	if err != nil {
		log.Fatal(err)
	}
	runUntilDone(app, func() {})
	m := app.Metrics()
	fmt.Println(m.Processed, "processed,", m.RecordsOversized, "oversized")
	// Output: 2 processed, 1 oversized
}

// A second instance keeps a copy of the state of the first one's task, and would go on with it at once. How far its copies are, it
// tells in its metrics.
func ExampleStandbys() {
	addrs, stop := brokerWith([]string{"words"}, "mill", "race", "mill")
	defer stop()
	b := millrace.NewBuilder()
	words := millrace.From(b, millrace.NewTopic("words", serde.String, serde.String))
	millrace.Count(words.GroupByKey(), millrace.As("counts"))
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	instance := func() *millrace.App {
		app, err := millrace.NewApp(topology, millrace.ApplicationID("words"), millrace.Brokers(addrs...), millrace.InMemoryState(), millrace.CommitInterval(10*time.Millisecond),
			millrace.Standbys(1), millrace.MaxWarmups(2), millrace.AcceptableLag(0))
		if err != nil {
			log.Fatal(err)
		}
		return app
	}
	first, second := instance(), instance()
	runUntilDone(first, func() {
		ctx, leave := context.WithTimeout(context.Background(), time.Minute)
		defer leave()
		for first.State() != millrace.Running && ctx.Err() == nil {
			<-time.After(10 * time.Millisecond)
		}
		ended := make(chan error, 1)
		go func() { ended <- second.Run(ctx) }()
		for ctx.Err() == nil {
			for _, s := range second.Metrics().Standbys {
				if s.Behind == 0 {
					fmt.Printf("the copy of task %v is level\n", s.Task)
					leave()
				}
			}
			<-time.After(10 * time.Millisecond)
		}
		if err := <-ended; err != nil {
			log.Fatal(err)
		}
	})
	// Output:
	// the copy of task 0_0 is level
}

// Instances that know their rack read from replicas in it, and are assigned the tasks whose partitions have one there.
func ExampleRack() {
	_, err := millrace.NewApp(copying(), millrace.ApplicationID("orders"), millrace.Brokers("localhost:9092"),
		millrace.Rack("eu-central-1a"), // as broker.rack of the brokers there
		millrace.FromProperties(map[string]string{"rack.aware.assignment.strategy": "min_traffic"}))
	fmt.Println(err)
	// Output: <nil>
}
