package millrace_test

import (
	"fmt"
	"log"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

// A topology is declared once and run by an App against Kafka, or by the test driver as here: without a broker, on a clock
// that only the test moves.
func Example() {
	words := millrace.NewTopic("words", serde.String, serde.String)
	counts := millrace.NewTopic("counts", serde.String, serde.Int64)

	b := millrace.NewBuilder()
	byWord := millrace.SelectKey(millrace.From(b, words), func(_, word string) string { return word })
	counted := millrace.Count(byWord.GroupByKey(millrace.WithKey(serde.String)), millrace.As("count-by-word"))
	counted.ToStream().To(counts)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}

	d, err := milltest.NewDriver(topology)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	in, out := milltest.Input(d, words), milltest.Output(d, counts)
	in.PipeAt("line 1", "hop", 1*time.Second)
	in.PipeAt("line 2", "barley", 2*time.Second)
	in.PipeAt("line 3", "hop", 3*time.Second)
	for _, r := range out.ReadAll() {
		fmt.Println(r.Key, r.Value)
	}
	// Output:
	// hop 1
	// barley 1
	// hop 2
}
