package op

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/serde"
)

// A foreign-key join is five steps in two tasks that talk by two internal topics:
//
//	left task                          right task
//	subscriptionSend   -registration-> subscriptionReceive, subscriptionJoin
//	                                   foreignJoin (at an update of the right table)
//	responseResolver   <---response--- both
//
// Primary keys travel encoded: the right side has no use for what they mean.

// Topics are the internal topics of a foreign-key join, without the application id.
type Topics struct {
	Registration, Response string
}

// Serdes are given topics that do not exist beside those that do, so that a schema registry keeps the same subjects as for
// Kafka Streams.
const (
	primaryKeyTopic = "-pk"
	foreignKeyTopic = "-fk"
	valueHashTopic  = "-vh"
)

// Registration is a subscription on its way to the registration topic.
type Registration struct {
	codec.Subscription
	ForeignKey []byte // encoded; the record tells whether it is null
}

// Response is an answer on its way to the response topic.
type Response struct {
	HasHash      bool
	Hash         codec.Hash128
	Value        []byte // the right row, encoded
	HasValue     bool
	Partition    int32 // of the left row
	HasPartition bool
	Absent       bool   // an inner join's: there is no right row with the foreign key
	ForeignKey   []byte // encoded, if Absent
}

// Answer is a response as the left side reads it.
type Answer[V any] struct {
	HasHash  bool
	Hash     codec.Hash128
	Value    V
	HasValue bool
	Absent   bool   // there is no right row with the foreign key
	Foreign  []byte // that key, encoded, if Absent
}

// emptyValueHeader marks the answer with a right row of no bytes, which its value cannot tell from no row. Kafka Streams
// takes it for no row.
const emptyValueHeader = "millrace.empty-value"

// absentHeader is on the answers without a right row of inner joins, and has the foreign key. An answer says for which left
// row it is by a hash alone. If that row has changed meanwhile, its foreign key tells whether the answer holds for the new
// row too, which is not answered at all where there is no right row for it.
const absentHeader = "millrace.absent-foreign-key"

// SubscriptionSerde reads what the registration topic holds. A subscription refers to the bytes that it was read from,
// which are those of the source record and live as long as it does.
type SubscriptionSerde struct{}

// Append encodes a subscription.
func (SubscriptionSerde) Append(dst []byte, s codec.Subscription) ([]byte, error) {
	return codec.AppendSubscription(dst, &s), nil
}

// Decode decodes a subscription.
func (SubscriptionSerde) Decode(src []byte) (codec.Subscription, error) {
	return codec.ParseSubscription(src)
}

// AnswerSerde reads what the response topic holds. Value is the serde of right rows.
type AnswerSerde[V any] struct{ Value serde.Serde[V] }

var (
	_ serde.HeaderDecoder[Answer[string]] = AnswerSerde[string]{}
	_ serde.TopicBinder[Answer[string]]   = AnswerSerde[string]{}
)

// ForTopic binds the serde of right rows.
func (s AnswerSerde[V]) ForTopic(topic string, key bool) (serde.Serde[Answer[V]], error) {
	value, err := bind(s.Value, topic, key)
	return AnswerSerde[V]{Value: value}, err
}

// Append encodes an answer. A row of no bytes becomes none: the header that tells them apart is not at hand here.
func (s AnswerSerde[V]) Append(dst []byte, a Answer[V]) ([]byte, error) {
	dst = codec.AppendSubscriptionResponse(dst, &codec.SubscriptionResponse{HasHash: a.HasHash, Hash: a.Hash})
	if !a.HasValue {
		return dst, nil
	}
	return s.Value.Append(dst, a.Value)
}

// Decode decodes an answer without headers.
func (s AnswerSerde[V]) Decode(src []byte) (Answer[V], error) {
	var none serde.Headers
	return s.DecodeWithHeaders(src, &none)
}

// DecodeWithHeaders decodes an answer, and takes away the headers that belong to it alone.
func (s AnswerSerde[V]) DecodeWithHeaders(src []byte, headers *serde.Headers) (Answer[V], error) {
	r, err := codec.ParseSubscriptionResponse(src)
	if err != nil {
		return Answer[V]{}, err
	}
	a := Answer[V]{HasHash: r.HasHash, Hash: r.Hash, HasValue: len(r.Value) > 0}
	if _, empty := headers.Last(emptyValueHeader); empty {
		*headers, a.HasValue = headers.Without(emptyValueHeader), true
	}
	if !a.HasValue {
		if a.Foreign, a.Absent = headers.Last(absentHeader); a.Absent {
			*headers = headers.Without(absentHeader)
		}
		return a, nil
	}
	if h, ok := s.Value.(serde.HeaderDecoder[V]); ok {
		a.Value, err = h.DecodeWithHeaders(r.Value, headers)
	} else {
		a.Value, err = s.Value.Decode(r.Value)
	}
	if err != nil {
		return Answer[V]{}, fmt.Errorf("right row: %w", err)
	}
	return a, nil
}
