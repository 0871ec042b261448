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

// meter adds up consumption, and reports it at each full hour of the clock.
type meter struct{ used int64 }

func (m *meter) Init(ctx processor.Context[string, int64]) error {
	epoch := time.UnixMilli(0)
	_, err := ctx.ScheduleAt(epoch, time.Hour, processor.WallClock, func(now time.Time) error {
		out := processor.Record[string, int64]{Key: now.UTC().Format("15:04"), Value: m.used, TimestampMs: now.UnixMilli()}
		m.used = 0
		return ctx.Forward(out)
	})
	return err
}

func (m *meter) Process(r processor.Record[string, int64]) error {
	m.used += r.Value
	return nil
}

func (m *meter) Close() error { return nil }

// A timer on a grid comes at the full hour, whenever the program was started.
func ExampleContext_scheduleAt() {
	readings := millrace.NewTopic("readings", serde.String, serde.Int64)
	hourly := millrace.NewTopic("hourly", serde.String, serde.Int64)

	b := millrace.NewBuilder()
	millrace.Process[string, int64, string, int64](millrace.From(b, readings), func() *meter { return &meter{} }).To(hourly)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology, milltest.StartAt(time.UnixMilli(0).Add(8*time.Hour+50*time.Minute)))
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, readings)
	in.Pipe("hall", 3)
	in.Pipe("yard", 4)
	d.AdvanceTime(20 * time.Minute)
	in.Pipe("hall", 5)
	d.AdvanceTime(time.Hour)
	for _, r := range milltest.Output(d, hourly).ReadAll() {
		fmt.Println(r.Key, r.Value)
	}
	// Output:
	// 09:00 7
	// 10:00 5
}
