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

// sinceMidnight gives a row the time of day of its update.
type sinceMidnight struct{ ctx processor.TableContext }

func (p *sinceMidnight) Init(ctx processor.TableContext) error {
	p.ctx = ctx
	return nil
}

func (p *sinceMidnight) Value(_ string, status string, ok bool) (string, bool, error) {
	tsMs, _ := p.ctx.Row()
	return status + " since " + time.UnixMilli(tsMs).UTC().Format(time.TimeOnly), ok, nil
}

func (p *sinceMidnight) Close() error { return nil }

// A processor gives each row another value, and sees what a plain function does not: the time of the update, its headers,
// stores.
func ExampleProcessTableValues() {
	machines := millrace.NewTopic("machines", serde.String, serde.String)
	board := millrace.NewTopic("board", serde.String, serde.String)

	b := millrace.NewBuilder()
	status := millrace.TableFrom(b, machines, millrace.As("machine-status"))
	millrace.ProcessTableValues[string, string, string](status, func() *sinceMidnight { return &sinceMidnight{} }).ToStream().To(board)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, machines)
	in.PipeAt("press-1", "running", 8*time.Hour)
	in.PipeAt("press-1", "stopped", 9*time.Hour)
	in.PipeNull("press-1", 10*time.Hour)
	d.Commit()
	for _, r := range milltest.Output(d, board).ReadAll() {
		fmt.Println(r.Key, r.Value, r.NullValue)
	}
	// Output:
	// press-1 running since 08:00:00 false
	// press-1 stopped since 09:00:00 false
	// press-1  true
}

// The updates of a table as a stream under another key.
func ExampleToStreamBy() {
	employees := millrace.NewTopic("employees", serde.String, serde.String)
	byTeam := millrace.NewTopic("changes-by-team", serde.String, serde.String)

	b := millrace.NewBuilder()
	teams := millrace.TableFrom(b, employees, millrace.As("teams"))
	millrace.ToStreamBy(teams, func(name, team string) string { return team + "/" + name }).To(byTeam)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, employees)
	in.PipeAt("ann", "search", 0)
	in.PipeAt("bob", "storage", time.Second)
	d.Commit()
	for _, r := range milltest.Output(d, byTeam).ReadAll() {
		fmt.Println(r.Key)
	}
	// Output:
	// search/ann
	// storage/bob
}

// Orders of one region go to one partition, whatever their key.
func ExamplePartitionBy() {
	orders := millrace.NewTopic("orders", serde.String, serde.String) // order -> region
	out := millrace.NewTopic("orders-by-region", serde.String, serde.String)
	partitions := map[string]int{"north": 0, "south": 1}

	b := millrace.NewBuilder()
	millrace.From(b, orders).To(out, millrace.PartitionBy(
		func(_ string, r processor.Record[string, string], n int) (int, error) {
			return partitions[r.Value] % n, nil
		}))
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology, milltest.Partitions(2))
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, orders)
	for i, region := range []string{"north", "south", "north"} {
		in.PipeAt(fmt.Sprint("order-", i), region, time.Duration(i)*time.Second)
	}
	for _, r := range d.ReadRaw("orders-by-region") {
		fmt.Println(r.Partition, string(r.Key))
	}
	// Output:
	// 0 order-0
	// 1 order-1
	// 0 order-2
}
