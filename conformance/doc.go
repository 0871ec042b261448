// Package conformance holds scenarios that Java Kafka Streams and millrace run on the same random input, and that have to
// give the same output, record for record. README.md tells how.
package conformance
