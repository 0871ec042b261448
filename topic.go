package millrace

import "github.com/millrace-io/millrace/serde"

// Topic is one or more topics with the types and serdes of their keys and values. It is a plain value, usually a package
// variable, and serves as the source or the end of any number of topologies.
//
// In Kafka Streams: the topic name with Consumed and Produced.
type Topic[K, V any] struct {
	names   []string
	pattern string
	key     serde.Serde[K]
	value   serde.Serde[V]
}

// NewTopic describes one topic.
func NewTopic[K, V any](name string, key serde.Serde[K], value serde.Serde[V]) Topic[K, V] {
	return Topic[K, V]{names: []string{name}, key: key, value: value}
}

// NewTopics describes several topics of the same types, to be read as one stream. A step cannot write to it.
//
// In Kafka Streams: StreamsBuilder#stream(Collection).
func NewTopics[K, V any](key serde.Serde[K], value serde.Serde[V], names ...string) Topic[K, V] {
	return Topic[K, V]{names: names, key: key, value: value}
}

// NewTopicPattern describes all topics whose whole name matches a regular expression (RE2 syntax), those that are made
// later too. A step cannot write to it.
//
// In Kafka Streams: StreamsBuilder#stream(Pattern).
func NewTopicPattern[K, V any](pattern string, key serde.Serde[K], value serde.Serde[V]) Topic[K, V] {
	return Topic[K, V]{pattern: pattern, key: key, value: value}
}

// Name returns the topic's name, that of the first one if there are several, and the pattern of a pattern.
func (t Topic[K, V]) Name() string {
	if len(t.names) == 0 {
		return t.pattern
	}
	return t.names[0]
}

// Key returns the serde of the keys.
func (t Topic[K, V]) Key() serde.Serde[K] { return t.key }

// Value returns the serde of the values.
func (t Topic[K, V]) Value() serde.Serde[V] { return t.value }
