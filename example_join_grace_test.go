package millrace_test

import (
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

// An order is to be priced as of its own time, and prices may come up to ten seconds late. So orders wait that long, and
// then meet the price that was valid when they were made.
func ExampleJoinGrace() {
	orders := millrace.NewTopic("orders", serde.String, serde.Int64)
	prices := millrace.NewTopic("prices", serde.String, serde.Int64)
	bills := millrace.NewTopic("bills", serde.String, serde.Int64)

	b := millrace.NewBuilder()
	table := millrace.TableFrom(b, prices, millrace.As("prices"), millrace.Versioned(time.Hour))
	millrace.JoinTable(millrace.From(b, orders), table, func(n, price int64) int64 { return n * price },
		millrace.As("bill"), millrace.JoinGrace(10*time.Second)).To(bills)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	order, price, out := milltest.Input(d, orders), milltest.Input(d, prices), milltest.Output(d, bills)
	price.PipeAt("tea", 100, 0)
	order.PipeAt("tea", 2, 8*time.Second)
	price.PipeAt("tea", 300, 12*time.Second) // valid later than the order
	price.PipeAt("tea", 200, 5*time.Second)  // comes late, and was valid when the order was made
	fmt.Println(len(out.ReadAll()), "bills")
	order.PipeAt("rice", 1, 18*time.Second) // ten seconds past the order
	for _, r := range out.ReadAll() {
		fmt.Println(r.Key, r.Value, "at", r.Time().Format(time.TimeOnly))
	}
	// Output:
	// 0 bills
	// tea 400 at 00:00:08
}
