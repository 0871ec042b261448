package millrace_test

import (
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

var (
	prices = millrace.NewTopic("prices", serde.String, serde.Int64)
	stocks = millrace.NewTopic("stocks", serde.String, serde.Int64)
	offers = millrace.NewTopic("offers", serde.String, serde.String)
)

// offered runs prices and stocks through a topology that ends in the topic offers, and prints what comes out.
func offered(declare func(prices, stocks millrace.Table[string, int64])) {
	b := millrace.NewBuilder()
	declare(millrace.TableFrom(b, prices, millrace.As("prices")), millrace.TableFrom(b, stocks, millrace.As("stocks")))
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	price, stock := milltest.Input(d, prices), milltest.Input(d, stocks)
	price.PipeAt("malt", 12, 1*time.Second)
	stock.PipeAt("malt", 40, 2*time.Second)
	stock.PipeAt("hops", 7, 3*time.Second)
	price.PipeAt("malt", 13, 4*time.Second)
	stock.PipeNull("malt", 5*time.Second)
	for _, r := range milltest.Output(d, offers).ReadAll() {
		if r.NullValue {
			r.Value = "deleted"
		}
		fmt.Printf("%ds %s: %s\n", r.TimestampMs/1000, r.Key, r.Value)
	}
}

// A row for each key that both tables have; it goes when either side goes.
func ExampleJoinTables() {
	offered(func(prices, stocks millrace.Table[string, int64]) {
		millrace.JoinTables(prices, stocks, func(price, pieces int64) string {
			return fmt.Sprintf("%d at %d", pieces, price)
		}).ToStream().To(offers)
	})
	// Output:
	// 2s malt: 40 at 12
	// 4s malt: 40 at 13
	// 5s malt: deleted
}

// A row for each key of the left table.
func ExampleLeftJoinTables() {
	offered(func(prices, stocks millrace.Table[string, int64]) {
		millrace.LeftJoinTables(prices, stocks, func(price, pieces int64, ok bool) string {
			if !ok {
				return fmt.Sprintf("sold out, %d", price)
			}
			return fmt.Sprintf("%d at %d", pieces, price)
		}).ToStream().To(offers)
	})
	// Output:
	// 1s malt: sold out, 12
	// 2s malt: 40 at 12
	// 4s malt: 40 at 13
	// 5s malt: sold out, 13
}

// A row for each key that either table has.
func ExampleOuterJoinTables() {
	offered(func(prices, stocks millrace.Table[string, int64]) {
		millrace.OuterJoinTables(prices, stocks, func(price int64, priced bool, pieces int64, stocked bool) string {
			switch {
			case !priced:
				return fmt.Sprintf("%d without a price", pieces)
			case !stocked:
				return fmt.Sprintf("sold out, %d", price)
			}
			return fmt.Sprintf("%d at %d", pieces, price)
		}).ToStream().To(offers)
	})
	// Output:
	// 1s malt: sold out, 12
	// 2s malt: 40 at 12
	// 3s hops: 7 without a price
	// 4s malt: 40 at 13
	// 5s malt: sold out, 13
}
