// Package codec holds the byte layouts that millrace shares with Kafka Streams: keys of windowed records, values with a
// timestamp, changes of a table on their way through a repartition topic, metadata of committed offsets, and the hash
// that chooses a partition. They are drawn in docs/format; the tests compare each with bytes written by Kafka Streams 4.4.0.
//
// Everything appends to a slice of the caller, and everything parsed is a part of the slice given, without a copy. All
// numbers are big endian and all times are milliseconds since the Unix epoch.
package codec
