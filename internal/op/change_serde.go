package op

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/serde"
)

// ChangeSerde encodes updates of a table for the repartition topic of a grouped table: see codec.AppendChange. It is made
// of the serde of the values.
//
// In Kafka Streams: ChangedSerializer, ChangedDeserializer.
type ChangeSerde[V any] struct{ Value serde.Serde[V] }

// Append encodes a change. One without a value is an error.
func (s ChangeSerde[V]) Append(dst []byte, c Change[V]) ([]byte, error) {
	var old, now []byte
	var err error
	switch {
	case c.HasNew && !c.HasOld:
		// The usual one: the value goes where it belongs at once.
		if dst, err = s.Value.Append(dst, c.New); err != nil {
			return dst, err
		}
		return codec.AppendChangeFlag(dst, true), nil
	case c.HasOld && !c.HasNew:
		if dst, err = s.Value.Append(dst, c.Old); err != nil {
			return dst, err
		}
		return codec.AppendChangeFlag(dst, false), nil
	case c.HasNew && c.HasOld:
		if now, err = s.Value.Append([]byte{}, c.New); err != nil {
			return dst, err
		}
		if old, err = s.Value.Append([]byte{}, c.Old); err != nil {
			return dst, err
		}
	}
	return codec.AppendChange(dst, old, now)
}

// Decode decodes a change.
func (s ChangeSerde[V]) Decode(src []byte) (c Change[V], err error) {
	parsed, err := codec.ParseChange(src)
	if err != nil {
		return c, err
	}
	c.Stale = !parsed.Latest
	if parsed.New != nil {
		if c.New, err = s.Value.Decode(parsed.New); err != nil {
			return c, fmt.Errorf("new value: %w", err)
		}
		c.HasNew = true
	}
	if parsed.Old != nil {
		if c.Old, err = s.Value.Decode(parsed.Old); err != nil {
			return c, fmt.Errorf("old value: %w", err)
		}
		c.HasOld = true
	}
	return c, nil
}

// ForTopic gives the topic to the serde of the values.
func (s ChangeSerde[V]) ForTopic(topic string, key bool) (serde.Serde[Change[V]], error) {
	v, err := bind(s.Value, topic, key)
	return ChangeSerde[V]{Value: v}, err
}
