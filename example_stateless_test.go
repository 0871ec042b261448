package millrace_test

import (
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

// A step that keeps the types is a method, one that changes a type is a function.
func ExampleMapValues() {
	type reading struct {
		Sensor  string
		Celsius float64
	}
	readings := millrace.NewTopic("readings", serde.String, serde.JSON[reading]())
	alarms := millrace.NewTopic("alarms", serde.String, serde.String)

	b := millrace.NewBuilder()
	hot := millrace.From(b, readings).Filter(func(_ string, r reading) bool { return r.Celsius > 80 })
	millrace.MapValues(hot, func(r reading) string {
		return fmt.Sprintf("%s is at %.0f degrees", r.Sensor, r.Celsius)
	}).To(alarms)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, readings)
	in.PipeAt("hall", reading{"kettle", 95}, 1*time.Second)
	in.PipeAt("hall", reading{"mash tun", 67}, 2*time.Second)
	fmt.Println(strings.Join(milltest.Output(d, alarms).ReadValues(), "\n"))
	// Output: kettle is at 95 degrees
}

// Each record goes to the first branch whose predicate it meets.
func ExampleStream_Split() {
	orders := millrace.NewTopic("orders", serde.String, serde.Int64)
	large := millrace.NewTopic("large", serde.String, serde.Int64)
	small := millrace.NewTopic("small", serde.String, serde.Int64)

	b := millrace.NewBuilder()
	split := millrace.From(b, orders).Split()
	split.Branch(func(_ string, total int64) bool { return total >= 1000 }).To(large)
	split.Branch(func(_ string, total int64) bool { return total > 0 }).To(small)
	split.NoDefault() // orders of nothing go nowhere
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
	for i, total := range []int64{30, 2500, 0, 999} {
		in.PipeAt(fmt.Sprint("order ", i), total, time.Duration(i)*time.Second)
	}
	fmt.Println("large", milltest.Output(d, large).ReadValues())
	fmt.Println("small", milltest.Output(d, small).ReadValues())
	// Output:
	// large [2500]
	// small [30 999]
}

// One record becomes several: a line becomes its words, which are counted once they stand under their own key.
func ExampleFlatMapValues() {
	lines := millrace.NewTopic("lines", serde.String, serde.String)
	words := millrace.NewTopic("words", serde.String, serde.Int64)

	b := millrace.NewBuilder()
	all := millrace.FlatMapValues(millrace.From(b, lines), func(line string, emit func(string)) {
		for word := range strings.FieldsSeq(line) {
			emit(word)
		}
	}).FilterNot(func(_, word string) bool { return word == "the" })
	byWord := millrace.GroupBy(all, func(_, word string) string { return word }, millrace.WithKey(serde.String), millrace.WithValue(serde.String))
	millrace.Count(byWord, millrace.As("words")).ToStream().To(words)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	milltest.Input(d, lines).PipeAt("a song", "the sea the sea", time.Second)
	for _, r := range milltest.Output(d, words).ReadAll() {
		fmt.Println(r.Key, r.Value)
	}
	// Output:
	// sea 1
	// sea 2
}

// Map and FlatMap change the key too. A later step by key then needs the records of a key in one place: it sends them through a
// repartition topic, and so does Repartition by itself.
func ExampleMap() {
	parcels := millrace.NewTopic("parcels", serde.String, serde.String)
	pairs := millrace.NewTopic("pairs", serde.String, serde.String)
	towns := millrace.NewTopic("towns", serde.String, serde.String)

	b := millrace.NewBuilder()
	one := millrace.Map(millrace.From(b, parcels), func(id, town string) (string, string) { return town, id })
	two := millrace.FlatMap(millrace.From(b, pairs), func(ids, town string, emit func(string, string)) {
		for id := range strings.SplitSeq(ids, "+") {
			emit(town, id)
		}
	})
	one.Merge(two).
		Peek(func(town, id string) { fmt.Println(id, "goes to", town) }).
		Repartition(millrace.As("by-town"), millrace.WithKey(serde.String), millrace.WithValue(serde.String)).
		To(towns)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	milltest.Input(d, parcels).PipeAt("p1", "Odense", time.Second)
	milltest.Input(d, pairs).PipeAt("p2+p3", "Aarhus", 2*time.Second)
	fmt.Println(milltest.Output(d, towns).ReadValues())
	// Output:
	// p1 goes to Odense
	// p2 goes to Aarhus
	// p3 goes to Aarhus
	// [p1 p2 p3]
}

// A stream becomes a table when only the last value of each key counts.
func ExampleStream_ToTable() {
	positions := millrace.NewTopic("positions", serde.String, serde.String)
	known := millrace.NewTopic("known", serde.String, serde.String)

	b := millrace.NewBuilder()
	ships := millrace.From(b, positions).ToTable(millrace.As("ships"))
	millrace.MapTableValuesWithKey(ships, func(ship, at string) string { return ship + " is off " + at }).ToStream().To(known)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, positions)
	in.PipeAt("Otter", "Skagen", time.Second)
	in.PipeAt("Otter", "Anholt", 2*time.Second)
	at, _, err := milltest.KeyValue[string, string](d, "ships", 0).Get("Otter")
	fmt.Println(at, err)
	fmt.Println(strings.Join(milltest.Output(d, known).ReadValues(), "\n"))
	// Output:
	// Anholt <nil>
	// Otter is off Skagen
	// Otter is off Anholt
}

// Print is for a look at what passes by.
func ExampleStream_Print() {
	orders := millrace.NewTopic("orders", serde.String, serde.Int64)

	b := millrace.NewBuilder()
	split := millrace.From(b, orders).Split()
	split.Branch(func(_ string, cents int64) bool { return cents >= 1000 }).Print(os.Stdout, "large")
	millrace.MapValuesWithKey(split.Default(), func(id string, cents int64) string {
		return fmt.Sprintf("%s at %d", id, cents)
	}).Print(os.Stdout, "small")
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
	in.PipeAt("order 1", 2500, time.Second)
	in.PipeAt("order 2", 30, 2*time.Second)
	// Output:
	// [large]: order 1, 2500
	// [small]: order 2, order 2 at 30
}
