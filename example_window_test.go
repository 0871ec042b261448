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

// A windowed aggregation returns the table of its results, and the stream of the records that came after their window had
// closed.
func ExampleCountWindows() {
	taps := millrace.NewTopic("taps", serde.String, serde.String)
	perMinute := millrace.NewTopic("taps-per-minute", serde.Windowed(serde.String, time.Minute), serde.Int64)
	tooLate := millrace.NewTopic("taps-too-late", serde.String, serde.JSON[window.Late[string]]())

	b := millrace.NewBuilder()
	minutes := millrace.From(b, taps).GroupByKey().WindowBy(window.Tumbling(time.Minute).Grace(10 * time.Second))
	counts, late := millrace.CountWindows(minutes, millrace.As("taps-per-minute"))
	counts.ToStream().To(perMinute)
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
	in := milltest.Input(d, taps)
	in.PipeAt("bus 7", "card 1", 5*time.Second)
	in.PipeAt("bus 7", "card 2", 62*time.Second) // the second minute
	in.PipeAt("bus 7", "card 3", 58*time.Second) // late, and within the grace
	in.PipeAt("bus 9", "card 4", 70*time.Second) // the first minute has ended ten seconds ago: it closes
	in.PipeAt("bus 7", "card 5", 59*time.Second) // too late
	for _, r := range milltest.Output(d, perMinute).ReadAll() {
		fmt.Println(r.Key.Key, r.Key.Window.Start().Format(time.TimeOnly), r.Value)
	}
	for _, r := range milltest.Output(d, tooLate).ReadAll() {
		fmt.Println("too late:", r.Value.Value, "at", r.Time().Format(time.TimeOnly))
	}
	// Output:
	// bus 7 00:00:00 1
	// bus 7 00:01:00 1
	// bus 7 00:00:00 2
	// bus 9 00:01:00 1
	// too late: card 5 at 00:00:59
}
