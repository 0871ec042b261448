package millrace_test

import (
	"fmt"
	"log"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// Describe prints what Kafka Streams prints for the same topology. AutoName gives steps the names that it would give.
func ExampleTopology_Describe() {
	in := millrace.NewTopic("in", serde.String, serde.String)
	out := millrace.NewTopic("out", serde.String, serde.Int64)

	b := millrace.NewBuilder()
	byValue := millrace.GroupBy(millrace.From(b, in), func(_, v string) string { return v }, millrace.WithKey(serde.String))
	millrace.Count(byValue, millrace.AutoName()).ToStream().To(out)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(topology.Describe())
	// Output:
	// Topologies:
	//    Sub-topology: 0
	//     Source: KSTREAM-SOURCE-0000000000 (topics: [in])
	//       --> KSTREAM-KEY-SELECT-0000000001
	//     Processor: KSTREAM-KEY-SELECT-0000000001 (stores: [])
	//       --> KSTREAM-FILTER-0000000005
	//       <-- KSTREAM-SOURCE-0000000000
	//     Processor: KSTREAM-FILTER-0000000005 (stores: [])
	//       --> KSTREAM-SINK-0000000004
	//       <-- KSTREAM-KEY-SELECT-0000000001
	//     Sink: KSTREAM-SINK-0000000004 (topic: KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition)
	//       <-- KSTREAM-FILTER-0000000005
	//
	//   Sub-topology: 1
	//     Source: KSTREAM-SOURCE-0000000006 (topics: [KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition])
	//       --> KSTREAM-AGGREGATE-0000000003
	//     Processor: KSTREAM-AGGREGATE-0000000003 (stores: [KSTREAM-AGGREGATE-STATE-STORE-0000000002])
	//       --> KTABLE-TOSTREAM-0000000007
	//       <-- KSTREAM-SOURCE-0000000006
	//     Processor: KTABLE-TOSTREAM-0000000007 (stores: [])
	//       --> KSTREAM-SINK-0000000008
	//       <-- KSTREAM-AGGREGATE-0000000003
	//     Sink: KSTREAM-SINK-0000000008 (topic: out)
	//       <-- KTABLE-TOSTREAM-0000000007
}
