package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Orders meet the payments that come within an hour after them. Payments that come too late leave by a stream of their own.
func ExampleJoinStreams() {
	orders := millrace.NewTopic("orders", serde.String, serde.String)
	payments := millrace.NewTopic("payments", serde.String, serde.String)
	settled := millrace.NewTopic("settled", serde.String, serde.String)
	tooLate := millrace.NewTopic("settled-too-late", serde.String, serde.JSON[window.LateJoin[string, string]]())

	b := millrace.NewBuilder()
	hour := window.Within(time.Hour).Before(0).Grace(time.Minute)
	pairs, late := millrace.JoinStreams(millrace.From(b, orders), millrace.From(b, payments), hour,
		func(order, payment string) string { return order + " paid by " + payment }, millrace.As("settled"))
	pairs.To(settled)
	late.To(tooLate)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	order, payment := milltest.Input(d, orders), milltest.Input(d, payments)
	order.PipeAt("4711", "tea", 0)
	payment.PipeAt("4711", "card", 20*time.Minute)
	order.PipeAt("4712", "coffee", 100*time.Minute)
	payment.PipeAt("4711", "cash", 30*time.Minute) // its window, [0, 30m], ended more than a minute ago
	for _, r := range milltest.Output(d, settled).ReadAll() {
		fmt.Println(r.Key, r.Value, "at", r.Time().Format(time.TimeOnly))
	}
	for _, r := range milltest.Output(d, tooLate).ReadAll() {
		fmt.Println("too late:", r.Key, r.Value.Right, "at", r.Time().Format(time.TimeOnly))
	}
	// Output:
	// 4711 tea paid by card at 00:20:00
	// too late: 4711 cash at 00:30:00
}

// An order that nobody has paid for comes out when its window has closed: with the first record, of any key, that is beyond.
func ExampleLeftJoinStreams() {
	orders := millrace.NewTopic("orders", serde.String, serde.String)
	payments := millrace.NewTopic("payments", serde.String, serde.String)
	states := millrace.NewTopic("states", serde.String, serde.String)

	b := millrace.NewBuilder()
	pairs, _ := millrace.LeftJoinStreams(millrace.From(b, orders), millrace.From(b, payments), window.Within(time.Hour).Before(0),
		func(order, payment string, paid bool) string {
			if !paid {
				return order + " not paid"
			}
			return order + " paid by " + payment
		}, millrace.As("states"))
	pairs.To(states)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	order, payment := milltest.Input(d, orders), milltest.Input(d, payments)
	order.PipeAt("4711", "tea", 0)
	order.PipeAt("4712", "coffee", 5*time.Minute)
	payment.PipeAt("4711", "card", 20*time.Minute)
	payment.PipeAt("4700", "cash", 66*time.Minute)
	for _, r := range milltest.Output(d, states).ReadAll() {
		fmt.Println(r.Key, r.Value, "at", r.Time().Format(time.TimeOnly))
	}
	// Output:
	// 4711 tea paid by card at 00:20:00
	// 4712 coffee not paid at 00:05:00
}

// Records of both sides come out without a match.
func ExampleOuterJoinStreams() {
	doors := millrace.NewTopic("doors", serde.String, serde.String)
	cameras := millrace.NewTopic("cameras", serde.String, serde.String)
	seen := millrace.NewTopic("seen", serde.String, serde.String)

	b := millrace.NewBuilder()
	both, _ := millrace.OuterJoinStreams(millrace.From(b, doors), millrace.From(b, cameras), window.Within(5*time.Second),
		func(door string, opened bool, face string, seen bool) string {
			switch {
			case !opened:
				return face + " without a door"
			case !seen:
				return door + " without a face"
			}
			return face + " at " + door
		}, millrace.As("seen"))
	both.To(seen)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	door, camera := milltest.Input(d, doors), milltest.Input(d, cameras)
	door.PipeAt("hall", "opened", 0)
	camera.PipeAt("hall", "Ada", 3*time.Second)
	camera.PipeAt("yard", "Bob", 10*time.Second)
	door.PipeAt("hall", "opened", 20*time.Second)
	door.PipeAt("hall", "opened", 30*time.Second)
	for _, r := range milltest.Output(d, seen).ReadAll() {
		fmt.Println(r.Key, r.Value)
	}
	// Output:
	// hall Ada at opened
	// yard Bob without a door
	// hall opened without a face
}

// A joiner that can fail: what its error means is decided by the processing handler, for this one pair.
func ExampleTryJoinStreams() {
	bids := millrace.NewTopic("bids", serde.String, serde.Int64)
	asks := millrace.NewTopic("asks", serde.String, serde.Int64)
	trades := millrace.NewTopic("trades", serde.String, serde.Int64)

	b := millrace.NewBuilder()
	pairs, _ := millrace.TryJoinStreams(millrace.From(b, bids), millrace.From(b, asks), window.Within(time.Second),
		func(_ context.Context, bid, ask int64) (int64, error) {
			if bid < ask {
				return 0, errors.New("the bid is below the ask")
			}
			return (bid + ask) / 2, nil
		}, millrace.As("trades"))
	pairs.To(trades)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology, milltest.OnProcessingError(millrace.LogAndContinue()))
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	milltest.Input(d, bids).PipeAt("oats", 10, 0)
	ask := milltest.Input(d, asks)
	ask.PipeAt("oats", 11, 0)
	ask.PipeAt("oats", 8, time.Second)
	for _, r := range milltest.Output(d, trades).ReadAll() {
		fmt.Println(r.Key, r.Value)
	}
	fmt.Println("dropped:", d.Dropped("trades-other-join", millrace.DroppedProcessing))
	// Output:
	// oats 9
	// dropped: 1
}
