package millrace_test

import (
	"fmt"
	"log"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// The row of a table remembers which trace led to it, also after the application has moved to another instance.
func ExampleKeepHeaders() {
	prices := millrace.NewTopic("prices", serde.String, serde.Int64)

	b := millrace.NewBuilder()
	millrace.TableFrom(b, prices, millrace.As("latest-prices"), millrace.KeepHeaders())
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in := milltest.Input(d, prices)
	for i, trace := range []string{"4bf92f", "a3ce92"} {
		in.PipeRecord(processor.Record[string, int64]{
			Key: "tea", Value: int64(250 + i*10), TimestampMs: int64(i) * 1000, Headers: serde.Headers{{Key: "trace", Value: []byte(trace)}},
		})
	}
	if err := d.Restart(); err != nil {
		log.Fatal(err)
	}
	row, _, err := milltest.KeyValue[string, int64](d, "latest-prices", 0).GetStamped("tea")
	if err != nil {
		log.Fatal(err)
	}
	trace, _ := row.Headers.Last("trace")
	fmt.Printf("tea costs %d, by trace %s\n", row.Value, trace)
	// Output: tea costs 260, by trace a3ce92
}
