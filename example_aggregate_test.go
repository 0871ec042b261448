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

// A sum needs to be told which number of a record it adds up.
func ExampleSum() {
	type sale struct {
		Item  string
		Cents int64
	}
	sales := millrace.NewTopic("sales", serde.String, serde.JSON[sale]())
	takings := millrace.NewTopic("takings", serde.String, serde.Int64)

	b := millrace.NewBuilder()
	byShop := millrace.From(b, sales).GroupByKey()
	millrace.Sum(byShop, func(s sale) int64 { return s.Cents }, serde.Int64, millrace.As("takings")).ToStream().To(takings)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, sales)
	in.PipeAt("harbour", sale{"rope", 1200}, time.Second)
	in.PipeAt("harbour", sale{"tar", 350}, 2*time.Second)
	for _, r := range milltest.Output(d, takings).ReadAll() {
		fmt.Println(r.Key, r.Value)
	}
	// Output:
	// harbour 1200
	// harbour 1550
}

// The highest bid of each minute: the first value of a window is its result, and each that follows is combined with it.
func ExampleReduceWindows() {
	bids := millrace.NewTopic("bids", serde.String, serde.Int64)
	highest := millrace.NewTopic("highest-bids", serde.Windowed(serde.String, time.Minute), serde.Int64)

	b := millrace.NewBuilder()
	minutes := millrace.From(b, bids).GroupByKey().WindowBy(window.Tumbling(time.Minute))
	best, _ := millrace.ReduceWindows(minutes, func(a, bid int64) int64 { return max(a, bid) }, millrace.As("highest-bids"), millrace.EmitOnClose())
	best.ToStream().To(highest)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, bids)
	in.PipeAt("lot 4", 30, 5*time.Second)
	in.PipeAt("lot 4", 80, 20*time.Second)
	in.PipeAt("lot 4", 45, 59*time.Second)
	in.PipeAt("lot 4", 90, 60*time.Second) // the next minute: the first one closes
	for _, r := range milltest.Output(d, highest).ReadAll() {
		fmt.Println(r.Key.Key, r.Key.Window.Start().Format(time.TimeOnly), r.Value)
	}
	// Output: lot 4 00:00:00 80
}

// An aggregate may be of any type, and belongs to the function that adds to it: here a mean over the last ten seconds, every
// five seconds.
func ExampleAggregateWindows() {
	type mean struct {
		N     int
		Total float64
	}
	readings := millrace.NewTopic("readings", serde.String, serde.Float64)
	means := millrace.NewTopic("means", serde.Windowed(serde.String, 10*time.Second), serde.JSON[mean]())

	b := millrace.NewBuilder()
	w := millrace.From(b, readings).GroupByKey().WindowBy(window.Hopping(10*time.Second, 5*time.Second))
	t, _ := millrace.AggregateWindows(w, func() mean { return mean{} }, func(_ string, celsius float64, m mean) mean {
		m.N++
		m.Total += celsius
		return m
	}, serde.JSON[mean](), millrace.As("means"), millrace.EmitOnClose())
	t.ToStream().To(means)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, readings)
	in.PipeAt("kettle", 80, 2*time.Second)
	in.PipeAt("kettle", 90, 7*time.Second)
	in.PipeAt("kettle", 20, 16*time.Second)
	for _, r := range milltest.Output(d, means).ReadAll() {
		fmt.Printf("%s from %s: %.0f\n", r.Key.Key, r.Key.Window.Start().Format(time.TimeOnly), r.Value.Total/float64(r.Value.N))
	}
	// Output:
	// kettle from 00:00:00: 85
	// kettle from 00:00:05: 90
}
