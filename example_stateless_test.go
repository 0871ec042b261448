package millrace_test

import (
	"fmt"
	"log"
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
