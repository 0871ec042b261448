package millrace_test

import (
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

// member is where somebody is, and what they pay.
type member struct {
	Branch string
	Fee    int64
}

var (
	members = millrace.NewTopic("members", serde.String, serde.JSON[member]())
	groups  = millrace.NewTopic("groups", serde.String, serde.String)
)

// byBranch groups members by their branch.
func byBranch(t millrace.Table[string, member]) millrace.GroupedTable[string, member] {
	return millrace.GroupTableBy(t, func(_ string, m member) (string, member) { return m.Branch, m },
		millrace.WithKey(serde.String), millrace.WithValue(serde.JSON[member]()))
}

// grouped runs members who come, move and leave through a topology that ends in the topic groups, and prints what comes out.
func grouped(declare func(millrace.Table[string, member]) millrace.Table[string, string]) {
	b := millrace.NewBuilder()
	declare(millrace.TableFrom(b, members, millrace.As("members"))).ToStream().To(groups)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, members)
	in.PipeAt("alice", member{"north", 10}, 1*time.Second)
	in.PipeAt("bob", member{"north", 20}, 2*time.Second)
	in.PipeAt("alice", member{"south", 10}, 3*time.Second)
	in.PipeNull("bob", 4*time.Second)
	for _, r := range milltest.Output(d, groups).ReadAll() {
		fmt.Printf("%ds %s: %s\n", r.TimestampMs/1000, r.Key, r.Value)
	}
}

// A row that moves is taken out of its old group before it is counted in the new one. An empty group stays, with 0.
func ExampleCountTable() {
	grouped(func(t millrace.Table[string, member]) millrace.Table[string, string] {
		counts := millrace.CountTable(byBranch(t), millrace.As("members-by-branch"))
		return millrace.MapTableValues(counts, func(n int64) string { return fmt.Sprint(n) })
	})
	// Output:
	// 1s north: 1
	// 2s north: 2
	// 3s north: 1
	// 3s south: 1
	// 4s north: 0
}

// Fees of the members that a branch has at the moment.
func ExampleSumTable() {
	grouped(func(t millrace.Table[string, member]) millrace.Table[string, string] {
		fees := millrace.SumTable(byBranch(t), func(m member) int64 { return m.Fee }, serde.Int64, millrace.As("fees-by-branch"))
		return millrace.MapTableValues(fees, func(n int64) string { return fmt.Sprint(n) })
	})
	// Output:
	// 1s north: 10
	// 2s north: 30
	// 3s north: 20
	// 3s south: 10
	// 4s north: 0
}

// The adder and the subtractor see the key of the group. The aggregate may be changed in place.
func ExampleAggregateTable() {
	grouped(func(t millrace.Table[string, member]) millrace.Table[string, string] {
		type totals struct{ Members, Fees int64 }
		all := millrace.AggregateTable(byBranch(t), func() totals { return totals{} },
			func(_ string, m member, a totals) totals { return totals{a.Members + 1, a.Fees + m.Fee} },
			func(_ string, m member, a totals) totals { return totals{a.Members - 1, a.Fees - m.Fee} },
			serde.JSON[totals](), millrace.As("totals"))
		return millrace.MapTableValues(all, func(a totals) string { return fmt.Sprintf("%d pay %d", a.Members, a.Fees) })
	})
	// Output:
	// 1s north: 1 pay 10
	// 2s north: 2 pay 30
	// 3s north: 1 pay 20
	// 3s south: 1 pay 10
	// 4s north: 0 pay 0
}

// Rows of a group are combined, and taken out of the result again when they go.
func ExampleGroupedTable_Reduce() {
	grouped(func(t millrace.Table[string, member]) millrace.Table[string, string] {
		sums := byBranch(t).Reduce(
			func(a, m member) member { return member{m.Branch, a.Fee + m.Fee} },
			func(a, m member) member { return member{m.Branch, a.Fee - m.Fee} }, millrace.As("sums"))
		return millrace.MapTableValues(sums, func(m member) string { return fmt.Sprint(m.Fee) })
	})
	// Output:
	// 1s north: 10
	// 2s north: 30
	// 3s north: 20
	// 3s south: 10
	// 4s north: 0
}
