package millrace_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

type order struct{ Customer, Item string }

// Orders refer to customers. A new order, a moved one and a renamed customer all change the result.
func ExampleJoinForeignKey() {
	orders := millrace.NewTopic("orders", serde.String, serde.JSON[order]())
	customers := millrace.NewTopic("customers", serde.Int64, serde.String)
	bills := millrace.NewTopic("bills", serde.String, serde.String)

	b := millrace.NewBuilder()
	millrace.JoinForeignKey(
		millrace.TableFrom(b, orders, millrace.As("orders")),
		millrace.TableFrom(b, customers, millrace.As("customers")),
		func(_ string, o order) (int64, bool) {
			var id int64
			_, err := fmt.Sscan(o.Customer, &id)
			return id, err == nil // an order without a customer has no bill
		},
		func(o order, customer string) string { return o.Item + " for " + customer },
		millrace.As("bills"), millrace.WithValue(serde.String),
	).ToStream().To(bills)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	order1, customer := milltest.Input(d, orders), milltest.Input(d, customers)
	customer.PipeAt(7, "Ann", 1*time.Second)
	order1.PipeAt("o1", order{"7", "tea"}, 2*time.Second)
	order1.PipeAt("o2", order{"8", "oats"}, 3*time.Second)
	customer.PipeAt(8, "Bob", 4*time.Second)
	order1.PipeAt("o1", order{"8", "tea"}, 5*time.Second)
	customer.PipeNull(8, 6*time.Second)
	for _, r := range milltest.Output(d, bills).ReadAll() {
		if r.NullValue {
			fmt.Println(r.Key, "is gone")
			continue
		}
		fmt.Println(r.Key, r.Value)
	}
	// Output:
	// o1 tea for Ann
	// o2 oats for Bob
	// o1 tea for Bob
	// o1 is gone
	// o2 is gone
}

type employee struct{ Name, Boss string }

// A table can be joined with itself: each employee with the one who leads.
func ExampleLeftJoinForeignKey() {
	staff := millrace.NewTopic("staff", serde.String, serde.JSON[employee]())
	chart := millrace.NewTopic("chart", serde.String, serde.String)

	b := millrace.NewBuilder()
	employees := millrace.TableFrom(b, staff, millrace.As("employees"))
	millrace.LeftJoinForeignKey(employees, employees,
		func(_ string, e employee) (string, bool) { return e.Boss, e.Boss != "" },
		func(e, boss employee, ok bool) string {
			if !ok {
				return e.Name
			}
			return e.Name + " under " + boss.Name
		},
		millrace.NodeName("chart"), // names the internal topics; the result is not kept
	).ToStream().To(chart)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, staff)
	in.PipeAt("2", employee{"Ben", "1"}, 1*time.Second)
	in.PipeAt("1", employee{"Eva", ""}, 2*time.Second)
	in.PipeAt("1", employee{"Eve", ""}, 3*time.Second)
	for _, r := range milltest.Output(d, chart).ReadAll() {
		fmt.Println(r.Key, r.Value)
	}
	// Output:
	// 2 Ben
	// 2 Ben under Eva
	// 1 Eva
	// 2 Ben under Eve
	// 1 Eve
}

// Functions that can fail return an error, which the processing handler judges.
func ExampleTryJoinForeignKey() {
	orders := millrace.NewTopic("orders", serde.String, serde.JSON[order]())
	customers := millrace.NewTopic("customers", serde.Int64, serde.String)

	b := millrace.NewBuilder()
	bills := millrace.TryJoinForeignKey(
		millrace.TableFrom(b, orders, millrace.As("orders")),
		millrace.TableFrom(b, customers, millrace.As("customers")),
		func(_ context.Context, _ string, o order) (id int64, ok bool, err error) {
			_, err = fmt.Sscan(o.Customer, &id)
			return id, true, err
		},
		func(_ context.Context, o order, customer string) (string, error) {
			return o.Item + " for " + customer, nil
		},
		millrace.As("bills"), millrace.WithValue(serde.String))
	bills.ToStream().To(millrace.NewTopic("bills-out", serde.String, serde.String))
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	err = milltest.Input(d, orders).TryPipe(processor.Record[string, order]{Key: "o1", Value: order{"Ann", "tea"}})
	fmt.Println(err)
	// Output:
	// millrace: processing: task 0_0, step bills-subscription-registration-processor, record orders-0@0: expected integer (the processing error handler decides (millrace.OnProcessingError): Continue drops the record at this step and counts it)
}

// Topics whose records another program has put into partitions of its own choice can be joined if that choice is told.
func ExamplePartitionRightBy() {
	stops := millrace.NewTopic("stops", serde.String, serde.String)
	zones := millrace.NewTopic("zones", serde.Int64, serde.String)

	b := millrace.NewBuilder()
	millrace.JoinForeignKey(
		millrace.TableFrom(b, stops, millrace.As("stops")),
		millrace.TableFrom(b, zones, millrace.As("zones")),
		func(_ string, zone string) (int64, bool) { return int64(len(zone)), true },
		func(stop, zone string) string { return stop + " in " + zone },
		millrace.NodeName("stop-zones"),
		millrace.PartitionLeftBy(func(stop string, n int32) int32 { return int32(stop[0]) % n }),
		millrace.PartitionRightBy(func(zone int64, n int32) int32 { return int32(zone) % n }),
	).ToStream().To(millrace.NewTopic("out", serde.String, serde.String))
	topology, err := b.Build()
	fmt.Println(topology != nil, err)
	// Output:
	// true <nil>
}
