package millrace_test

import (
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// A windowed aggregation sends each update. Behind a suppression there is one result for each key and window: the final one.
func ExampleTable_Suppress() {
	taps := millrace.NewTopic("taps", serde.String, serde.String)
	final := millrace.NewTopic("taps-per-minute", serde.Windowed(serde.String, time.Minute), serde.Int64)

	b := millrace.NewBuilder()
	minutes := millrace.From(b, taps).GroupByKey().WindowBy(window.Tumbling(time.Minute).Grace(10 * time.Second))
	counts, _ := millrace.CountWindows(minutes, millrace.As("counts"))
	counts.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("final")).ToStream().To(final)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in, out := milltest.Input(d, taps), milltest.Output(d, final)
	in.PipeAt("bus 7", "card 1", 5*time.Second)
	in.PipeAt("bus 9", "card 2", 7*time.Second)
	in.PipeAt("bus 7", "card 3", 65*time.Second) // the first minute is over, and within its grace
	in.PipeAt("bus 7", "card 4", 59*time.Second)
	fmt.Println(len(out.ReadAll()), "results")
	in.PipeAt("bus 3", "card 5", 70*time.Second) // ten seconds past the first minute: it closes
	for _, r := range out.ReadAll() {
		fmt.Println(r.Key.Key, r.Key.Window.Start().Format(time.TimeOnly), r.Value)
	}
	// Output:
	// 0 results
	// bus 7 00:00:00 2
	// bus 9 00:00:00 1
}

// Of a table that changes often, send each row's latest value at most once a minute, and earlier if more than a thousand
// rows wait.
func ExampleUntilTimeLimit() {
	prices := millrace.NewTopic("prices", serde.String, serde.Float64)
	calm := millrace.NewTopic("calm-prices", serde.String, serde.Float64)

	b := millrace.NewBuilder()
	millrace.TableFrom(b, prices, millrace.As("prices")).
		Suppress(millrace.UntilTimeLimit(time.Minute, millrace.MaxRecords(1000).EmitEarlyWhenFull()), millrace.As("calm")).
		ToStream().To(calm)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in, out := milltest.Input(d, prices), milltest.Output(d, calm)
	in.PipeAt("tea", 1.10, 0)
	in.PipeAt("tea", 1.25, 20*time.Second)
	in.PipeAt("rice", 0.80, 45*time.Second)
	in.PipeAt("rice", 0.85, 60*time.Second) // a minute after the first price of tea
	for _, r := range out.ReadAll() {
		fmt.Println(r.Key, r.Value, "of", r.Time().Format(time.TimeOnly))
	}
	// Output:
	// tea 1.25 of 00:00:20
}
