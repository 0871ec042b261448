package millrace_test

import (
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

// Kafka's null is not Go's zero value. A function whose type has a nil gets nil for a null, and a nil that it returns is a
// null again: serde.Nullable gives any type one. Functions of other types are not called for null values where that keeps the
// null what it is.
func Example_null() {
	prices := millrace.NewTopic("prices", serde.String, serde.Int64)
	offers := millrace.NewTopic("offers", serde.String, serde.Nullable(serde.Int64))

	b := millrace.NewBuilder()
	table := millrace.TableFrom(b, prices)
	doubled := millrace.MapTableValues(table, func(price int64) *int64 {
		if price == 0 {
			return nil // not for sale: the row is deleted
		}
		price *= 2
		return &price
	})
	doubled.ToStream().To(offers)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, prices)
	in.PipeAt("malt", 21, 1*time.Second)
	in.PipeAt("hops", 0, 2*time.Second)
	in.PipeNull("malt", 3*time.Second) // a deletion; the function is not called
	for _, r := range milltest.Output(d, offers).ReadAll() {
		if r.NullValue {
			fmt.Println(r.Key, "is gone")
			continue
		}
		fmt.Println(r.Key, *r.Value)
	}
	// Output:
	// malt 42
	// hops is gone
	// malt is gone
}
