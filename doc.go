// Package millrace is stream processing for Apache Kafka as a library: a program reads topics, transforms what it reads in
// a typed topology of streams and tables with local state and event-time windows, and writes topics. It is an ordinary Go
// binary; there is no cluster to run beside Kafka.
//
// A topology is declared with a [Builder]. A step that keeps the types of key and value is a method, one that changes
// either is a function:
//
//	b := millrace.NewBuilder()
//	clicks := millrace.From(b, Clicks).Filter(func(_ string, c Click) bool { return !c.Bot })
//	perMinute := clicks.GroupByKey().WindowBy(window.Tumbling(time.Minute).Grace(10 * time.Second))
//	counts, late := millrace.CountWindows(perMinute, millrace.As("clicks-per-minute"))
//	counts.ToStream().To(Counts)
//	late.To(TooLate)
//	topology, err := b.Build()
//
// An [App] runs it against Kafka; package milltest runs it in a test, in milliseconds and without a broker.
//
// # Kafka Streams
//
// The package is the twin of Kafka Streams: the same operations under the same names, the same results, and the same bytes
// in internal topics. The comment of each name here names its twin. docs/kafka-streams.md lists every operation and
// setting, and each deliberate difference with its reason.
//
// # Null
//
// Kafka's null is not Go's zero value. A function whose type has a nil (a pointer, slice, map or interface) gets nil for
// a null, and a nil that it returns is a null again; serde.Nullable gives any type a nil. A function of another type gets
// the zero value for a null, except that mappers of values are not called: a null stays a null.
package millrace
