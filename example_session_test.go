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

// A session lasts as long as there is something in it: here a visit ends when nothing was clicked for half an hour, and its
// result is sent once, when it has ended.
func ExampleCountSessions() {
	clicks := millrace.NewTopic("clicks", serde.String, serde.String)
	visits := millrace.NewTopic("visits", serde.SessionWindowed(serde.String), serde.Int64)

	b := millrace.NewBuilder()
	byUser := millrace.From(b, clicks).GroupByKey().SessionBy(window.Session(30 * time.Minute).Grace(time.Minute))
	counts, _ := millrace.CountSessions(byUser, millrace.As("visits"), millrace.EmitOnClose())
	counts.ToStream().To(visits)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, clicks)
	in.PipeAt("ada", "/", 0)
	in.PipeAt("bob", "/help", 10*time.Minute)
	in.PipeAt("ada", "/cart", 25*time.Minute)
	in.PipeAt("ada", "/", 2*time.Hour)
	for _, r := range milltest.Output(d, visits).ReadAll() {
		w := r.Key.Window
		fmt.Println(r.Key.Key, w.Start().Format(time.TimeOnly), w.End().Format(time.TimeOnly), r.Value)
	}
	// Output:
	// bob 00:10:00 00:10:00 1
	// ada 00:00:00 00:25:00 2
}

// Clicks and orders are of different types, and make one table of carts.
func ExampleCogroup() {
	type cart struct {
		Clicks int
		Spent  int64
	}
	clickTopic := millrace.NewTopic("clicks", serde.String, serde.String)
	orderTopic := millrace.NewTopic("orders", serde.String, serde.Int64)
	cartTopic := millrace.NewTopic("carts", serde.String, serde.JSON[cart]())

	b := millrace.NewBuilder()
	clicks, orders := millrace.From(b, clickTopic).GroupByKey(), millrace.From(b, orderTopic).GroupByKey()
	carts := millrace.Cogroup(clicks, func(_, _ string, c cart) cart {
		c.Clicks++
		return c
	})
	carts = millrace.AndCogroup(carts, orders, func(_ string, cents int64, c cart) cart {
		c.Spent += cents
		return c
	})
	carts.Aggregate(func() cart { return cart{} }, serde.JSON[cart](), millrace.As("carts")).ToStream().To(cartTopic)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	milltest.Input(d, clickTopic).PipeAt("ada", "/", time.Second)
	milltest.Input(d, orderTopic).PipeAt("ada", 1250, 2*time.Second)
	for _, r := range milltest.Output(d, cartTopic).ReadAll() {
		fmt.Printf("%s %+v\n", r.Key, r.Value)
	}
	// Output:
	// ada {Clicks:1 Spent:0}
	// ada {Clicks:1 Spent:1250}
}

// By windows each stream of a cogroup has late records of its own type.
func ExampleLateOf() {
	clickTopic := millrace.NewTopic("clicks", serde.String, serde.String)
	orderTopic := millrace.NewTopic("orders", serde.String, serde.Int64)
	lateTopic := millrace.NewTopic("orders-late", serde.String, serde.JSON[window.Late[int64]]())

	b := millrace.NewBuilder()
	clicks, orders := millrace.From(b, clickTopic).GroupByKey(), millrace.From(b, orderTopic).GroupByKey()
	events := millrace.Cogroup(clicks, func(_, _ string, n int64) int64 { return n + 1 })
	events = millrace.AndCogroup(events, orders, func(_ string, _ int64, n int64) int64 { return n + 1 })
	_, late := events.WindowBy(window.Tumbling(time.Minute)).Aggregate(func() int64 { return 0 }, serde.Int64, millrace.As("events"))
	millrace.LateOf(late, orders).To(lateTopic)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, orderTopic)
	in.PipeAt("ada", 1250, 90*time.Second)
	in.PipeAt("ada", 300, 59*time.Second)
	for _, r := range milltest.Output(d, lateTopic).ReadAll() {
		fmt.Println(r.Key, r.Value.Value, r.Time().Format(time.TimeOnly))
	}
	// Output: ada 300 00:00:59
}

// A session is merged when a record falls between two: its aggregate must say how. Here a journey has its first and its last
// stop, whatever the order in which the stops become known.
func ExampleAggregateSessions() {
	type journey struct{ From, To string }
	stops := millrace.NewTopic("stops", serde.String, serde.String)
	journeys := millrace.NewTopic("journeys", serde.SessionWindowed(serde.String), serde.JSON[journey]())

	b := millrace.NewBuilder()
	byTram := millrace.From(b, stops).GroupByKey().SessionBy(window.Session(10 * time.Minute).Grace(time.Hour))
	t, _ := millrace.AggregateSessions(byTram, func() journey { return journey{} },
		func(_, stop string, j journey) journey {
			if j.From == "" {
				j.From = stop
			}
			j.To = stop
			return j
		},
		func(_ string, earlier, later journey) journey {
			if earlier.From == "" {
				return later
			}
			return journey{earlier.From, later.To}
		}, serde.JSON[journey](), millrace.As("journeys"))
	t.ToStream().To(journeys)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, stops)
	in.PipeAt("tram 2", "harbour", 0)
	in.PipeAt("tram 2", "market", 8*time.Minute)
	in.PipeAt("tram 2", "station", 30*time.Minute)
	for _, r := range milltest.Output(d, journeys).ReadAll() {
		w := r.Key.Window
		if r.NullValue {
			fmt.Println(w.Start().Format(time.TimeOnly), w.End().Format(time.TimeOnly), "is part of another")
			continue
		}
		fmt.Println(w.Start().Format(time.TimeOnly), w.End().Format(time.TimeOnly), r.Value)
	}
	// Output:
	// 00:00:00 00:00:00 {harbour harbour}
	// 00:00:00 00:00:00 is part of another
	// 00:00:00 00:08:00 {harbour market}
	// 00:30:00 00:30:00 {station station}
}

// What a visit brings in, and its dearest purchase: a sum and a reduction of the same sessions.
func ExampleSumSessions() {
	purchases := millrace.NewTopic("purchases", serde.String, serde.Int64)
	totals := millrace.NewTopic("totals", serde.SessionWindowed(serde.String), serde.Int64)
	dearest := millrace.NewTopic("dearest", serde.SessionWindowed(serde.String), serde.Int64)

	b := millrace.NewBuilder()
	visits := millrace.From(b, purchases).GroupByKey().SessionBy(window.Session(30 * time.Minute))
	sums, _ := millrace.SumSessions(visits, func(cents int64) int64 { return cents }, serde.Int64, millrace.As("totals"), millrace.EmitOnClose())
	sums.ToStream().To(totals)
	most, _ := millrace.ReduceSessions(visits, func(a, v int64) int64 { return max(a, v) }, millrace.As("dearest"), millrace.EmitOnClose())
	most.ToStream().To(dearest)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, purchases)
	in.PipeAt("ada", 300, 0)
	in.PipeAt("ada", 1250, 10*time.Minute)
	in.PipeAt("ada", 80, 2*time.Hour)
	fmt.Println("in all", milltest.Output(d, totals).ReadValues(), "the dearest", milltest.Output(d, dearest).ReadValues())
	// Output: in all [1550] the dearest [1250]
}

// A session of a cogroup holds the records of all its streams: clicks keep a visit open for the order that follows.
func ExampleCogrouped_SessionBy() {
	clickTopic := millrace.NewTopic("clicks", serde.String, serde.String)
	orderTopic := millrace.NewTopic("orders", serde.String, serde.Int64)
	visits := millrace.NewTopic("visits", serde.SessionWindowed(serde.String), serde.String)

	b := millrace.NewBuilder()
	events := millrace.Cogroup(millrace.From(b, clickTopic).GroupByKey(), func(_, page, all string) string { return all + page + ";" })
	events = millrace.AndCogroup(events, millrace.From(b, orderTopic).GroupByKey(), func(_ string, cents int64, all string) string {
		return all + fmt.Sprintf("paid %d;", cents)
	})
	t, _ := events.SessionBy(window.Session(30*time.Minute)).Aggregate(func() string { return "" },
		func(_, earlier, later string) string { return earlier + later }, serde.String, millrace.As("visits"))
	t.ToStream().Filter(func(_ window.Key[string], all string) bool { return all != "" }).To(visits)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	milltest.Input(d, clickTopic).PipeAt("ada", "/cart", 0)
	milltest.Input(d, orderTopic).PipeAt("ada", 1250, 20*time.Minute)
	for _, r := range milltest.Output(d, visits).ReadAll() {
		fmt.Println(r.Key.Window.End().Format(time.TimeOnly), r.Value)
	}
	// Output:
	// 00:00:00 /cart;
	// 00:20:00 /cart;paid 1250;
}
