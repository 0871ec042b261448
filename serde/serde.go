// Package serde turns keys and values into the bytes that stand in Kafka, and back.
//
// A Serde appends to a slice that the caller owns, so encoding needs no allocation of its own, and the bytes of every
// built-in equal those of the Java serializer of the same name.
//
// # Null
//
// Kafka knows a null key and a null value beside an empty one. A Serde never sees a null: the engine keeps it apart,
// hands the zero value of the type to user code, and turns a nil that user code returns (a nil pointer, slice, map or
// interface) into null again. [Nullable] gives any type a nil.
package serde

// Serde encodes and decodes one type. It must be safe for use by several goroutines at once.
//
// In Kafka Streams: org.apache.kafka.common.serialization.Serde.
type Serde[T any] interface {
	// Append encodes v, appends it to dst and returns the longer slice. On an error dst's content beyond its length
	// is undefined and the record is handed to the production error handler.
	Append(dst []byte, v T) ([]byte, error)

	// Decode reads one value from src, all of it. src is never null (but may be empty) and belongs to the caller: the
	// result must not keep a reference to it.
	Decode(src []byte) (T, error)
}

// Cloner is implemented by a Serde that can copy a value faster than by encoding and decoding it. The engine uses it
// where it must keep an old value while user code may change it in place.
type Cloner[T any] interface {
	Clone(v T) T
}

// HeaderDecoder is implemented by a Serde whose decoding reads or changes the record's headers. The headers given are a
// copy made for this call: what the call leaves in them goes on with the record, and the original ones stay with a
// dead letter.
//
// In Kafka Streams: Deserializer#deserialize(String, Headers, byte[]).
type HeaderDecoder[T any] interface {
	DecodeWithHeaders(src []byte, headers *Headers) (T, error)
}

// TopicBinder is implemented by a Serde that encodes differently for each topic (a schema registry's subject, say). The
// engine calls it once for each topic and side at wiring and uses the result.
//
// In Kafka Streams: the topic argument of Serializer#serialize, and the isKey argument of Serde#configure.
type TopicBinder[T any] interface {
	ForTopic(topic string, key bool) (Serde[T], error)
}

// PartitionKeyer is implemented by a key Serde whose partition is decided by a part of the encoded key only: windowed
// keys, which lie in the partition of the key inside them.
//
// In Kafka Streams: WindowedStreamPartitioner.
type PartitionKeyer interface {
	// PartitionKey returns the part of an encoded key that is hashed.
	PartitionKey(encoded []byte) []byte
}
