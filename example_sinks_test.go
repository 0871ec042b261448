package millrace_test

import (
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// Each record goes to the topic that a function names: here one for each country.
func ExampleStream_ToChosen() {
	orders := millrace.NewTopic("orders", serde.String, serde.String)
	denmark := millrace.NewTopic("orders-dk", serde.String, serde.String)
	norway := millrace.NewTopic("orders-no", serde.String, serde.String)

	b := millrace.NewBuilder()
	millrace.From(b, orders).ToChosen(func(_, country string, _ processor.Metadata) string { return "orders-" + country }, serde.String, serde.String)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, orders)
	in.PipeAt("order 1", "dk", time.Second)
	in.PipeAt("order 2", "no", 2*time.Second)
	in.PipeAt("order 3", "dk", 3*time.Second)
	for _, t := range []millrace.Topic[string, string]{denmark, norway} {
		for _, r := range milltest.Output(d, t).ReadAll() {
			fmt.Println(t.Name(), r.Key)
		}
	}
	// Output:
	// orders-dk order 1
	// orders-dk order 3
	// orders-no order 2
}

// The choice may go by the whole record: here by its time, and an error is for the processing handler to judge.
func ExampleStream_TryToChosen() {
	events := millrace.NewTopic("events", serde.String, serde.String)
	old := millrace.NewTopic("events-1970", serde.String, serde.String)

	b := millrace.NewBuilder()
	millrace.From(b, events).TryToChosen(func(r processor.Record[string, string], _ processor.Metadata) (string, error) {
		if r.NullValue {
			return "", fmt.Errorf("an event of nothing")
		}
		return fmt.Sprint("events-", time.UnixMilli(r.TimestampMs).UTC().Year()), nil
	}, serde.String, serde.String)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	milltest.Input(d, events).PipeAt("a", "the first hour", time.Hour)
	fmt.Println(milltest.Output(d, old).ReadValues())
	// Output: [the first hour]
}

// An optimised topology has the results of one that is not, with fewer internal topics: here one topic serves both steps that
// follow the change of the key.
func ExampleOptimize() {
	internal := func(opts ...millrace.BuildOption) int {
		b := millrace.NewBuilder(opts...)
		byShop := millrace.SelectKey(millrace.From(b, millrace.NewTopic("sales", serde.String, serde.String)),
			func(_, shop string) string { return shop }).GroupByKey(millrace.WithKey(serde.String))
		millrace.Count(byShop, millrace.As("sales-of-shops"), millrace.InMemory())
		byShop.Reduce(func(_, v string) string { return v }, millrace.As("last-sales"))
		topology, err := b.Build()
		if err != nil {
			log.Fatal(err)
		}
		n := 0
		d, err := milltest.NewDriver(topology)
		if err != nil {
			log.Fatal(err)
		}
		defer d.Close()
		milltest.Input(d, millrace.NewTopic("sales", serde.String, serde.String)).PipeAt("till 1", "harbour", time.Second)
		for _, name := range d.Topics() {
			if len(name) > 12 && name[len(name)-12:] == "-repartition" {
				n++
			}
		}
		return n
	}
	fmt.Println("as declared:", internal())
	fmt.Println("optimised:", internal(millrace.Optimize(millrace.MergeRepartitionTopics)))
	// Output:
	// as declared: 2
	// optimised: 1
}
