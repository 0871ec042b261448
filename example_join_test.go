package millrace_test

import (
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

// Each record of the stream meets the row that the table has for its key at that moment. Where there is none, ok is false.
func ExampleLeftJoinTable() {
	clicks := millrace.NewTopic("clicks", serde.String, serde.String)
	users := millrace.NewTopic("users", serde.String, serde.String)
	views := millrace.NewTopic("views", serde.String, serde.String)

	b := millrace.NewBuilder()
	segments := millrace.TableFrom(b, users, millrace.As("segments"))
	millrace.LeftJoinTable(millrace.From(b, clicks), segments, func(url, segment string, ok bool) string {
		if !ok {
			segment = "unknown"
		}
		return url + " by " + segment
	}).To(views)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	click, user := milltest.Input(d, clicks), milltest.Input(d, users)
	click.PipeAt("alice", "/", 1*time.Second)
	user.PipeAt("alice", "brewer", 2*time.Second) // changes nothing that was joined before
	click.PipeAt("alice", "/malt", 3*time.Second)
	for _, r := range milltest.Output(d, views).ReadAll() {
		fmt.Println(r.Key, r.Value)
	}
	// Output:
	// alice / by unknown
	// alice /malt by brewer
}

// A global table is everywhere whole, so a stream can look up any key in it, without a repartition topic.
func ExampleJoinGlobal() {
	type order struct{ Customer, Country string }
	orders := millrace.NewTopic("orders", serde.String, serde.JSON[order]())
	countries := millrace.NewTopic("countries", serde.String, serde.String)
	labels := millrace.NewTopic("labels", serde.String, serde.String)

	b := millrace.NewBuilder()
	names := millrace.GlobalTableFrom(b, countries, millrace.As("country-names"))
	millrace.JoinGlobal(millrace.From(b, orders), names,
		func(_ string, o order) string { return o.Country },
		func(o order, name string) string { return o.Customer + ", " + name },
	).To(labels)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology, milltest.Partitions(4))
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	milltest.Input(d, countries).PipeAt("DK", "Denmark", 0)
	in := milltest.Input(d, orders)
	in.PipeAt("order 1", order{"Till", "DK"}, 1*time.Second)
	in.PipeAt("order 2", order{"Nobody", "XX"}, 2*time.Second) // no such row
	fmt.Println(milltest.Output(d, labels).ReadValues())
	// Output: [Till, Denmark]
}

// A left join keeps the records whose row is not there.
func ExampleLeftJoinGlobal() {
	visits := millrace.NewTopic("visits", serde.String, serde.String)
	countries := millrace.NewTopic("countries", serde.String, serde.String)
	labels := millrace.NewTopic("labels", serde.String, serde.String)

	b := millrace.NewBuilder()
	names := millrace.GlobalTableFrom(b, countries, millrace.As("country-names"))
	millrace.LeftJoinGlobal(millrace.From(b, visits), names,
		func(_, code string) string { return code },
		func(code, name string, ok bool) string {
			if !ok {
				return "somewhere (" + code + ")"
			}
			return name
		},
	).To(labels)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	milltest.Input(d, countries).PipeAt("DK", "Denmark", 0)
	in := milltest.Input(d, visits)
	in.PipeAt("ada", "DK", 1*time.Second)
	in.PipeAt("bob", "XX", 2*time.Second)
	fmt.Println(milltest.Output(d, labels).ReadValues())
	// Output: [Denmark somewhere (XX)]
}
