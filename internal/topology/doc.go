// Package topology is the physical graph of an application: sources, processors, sinks, stores and internal topics, as
// the typed DSL writes them down. It checks the graph, names and describes it, splits it into sub-topologies, and works
// out against a cluster which tasks there are and which internal topics they need.
//
// Operators, serdes and store factories are opaque here (fields named Op): this package neither calls nor compares them.
// Nothing in it starts a goroutine, talks to a broker or reads a clock, and the same calls always give the same result.
//
// In Kafka Streams: InternalTopologyBuilder, RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics and the
// InternalTopicConfig family. Names, numbers, ids, the text of Describe and the settings of internal topics are those of
// Kafka Streams 4.4.
package topology
