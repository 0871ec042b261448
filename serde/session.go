package serde

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/window"
)

// SessionWindowed returns the serde of the key of a table of sessions: the inner key, then end and start of the session in 8
// bytes each. Both are in the bytes, so a reader need not be told of any gap. A record with such a key goes to the partition
// of its inner key.
//
// In Kafka Streams: WindowedSerdes.sessionWindowedSerdeFrom, SessionWindowedSerde.
func SessionWindowed[K any](inner Serde[K]) Serde[window.Key[K]] {
	return newSessionWindowed(given(inner, "SessionWindowed"))
}

func newSessionWindowed[K any](inner Serde[K]) Serde[window.Key[K]] {
	s := sessionWindowed[K]{inner}
	if d, ok := inner.(HeaderDecoder[K]); ok {
		return sessionWindowedHeaders[K]{s, d}
	}
	if clone := cloneFunc(inner); clone != nil {
		return sessionWindowedCloner[K]{s, clone}
	}
	return s
}

// SessionKeyer is implemented by serdes of the keys of sessions, whose bytes hold start and end. It tells them from those of
// other windows when a topology is built.
type SessionKeyer interface{ SessionKeys() }

type sessionWindowed[K any] struct{ inner Serde[K] }

func (s sessionWindowed[K]) SessionKeys() {}

func (s sessionWindowed[K]) Append(dst []byte, v window.Key[K]) ([]byte, error) {
	w := v.Window
	if w.StartMs < 0 || w.EndMs < w.StartMs {
		return dst, fmt.Errorf("serde: a session from %d to %d: it starts at 0 at the earliest, and ends at its start at the earliest", w.StartMs, w.EndMs)
	}
	dst, err := s.inner.Append(dst, v.Key)
	if err != nil {
		return dst, fmt.Errorf("serde: inner key of a session: %w", err)
	}
	return codec.AppendSessionSuffix(dst, w.StartMs, w.EndMs), nil
}

func (s sessionWindowed[K]) Decode(src []byte) (window.Key[K], error) { return s.decode(src, nil, nil) }

// decode reads a key; decoder, if any, reads the inner key with the headers.
func (s sessionWindowed[K]) decode(src []byte, decoder HeaderDecoder[K], headers *Headers) (window.Key[K], error) {
	part, startMs, endMs, err := codec.ParseSessionKey(src)
	if err != nil {
		return window.Key[K]{}, fmt.Errorf("serde: %w", err)
	}
	var key K
	if decoder != nil {
		key, err = decoder.DecodeWithHeaders(part, headers)
	} else {
		key, err = s.inner.Decode(part)
	}
	if err != nil {
		return window.Key[K]{}, fmt.Errorf("serde: inner key of a session: %w", err)
	}
	return window.Key[K]{Key: key, Window: window.Window{StartMs: startMs, EndMs: endMs}}, nil
}

func (s sessionWindowed[K]) PartitionKey(encoded []byte) []byte {
	return codec.SessionKeyPart(encoded)
}

func (s sessionWindowed[K]) ForTopic(topic string, key bool) (Serde[window.Key[K]], error) {
	inner, err := bind(s.inner, topic, key)
	if err != nil {
		return nil, err
	}
	return newSessionWindowed(inner), nil
}

func (s sessionWindowed[K]) Check() error { return check(s.inner) }

// sessionWindowedHeaders is sessionWindowed where inner decodes with headers.
type sessionWindowedHeaders[K any] struct {
	sessionWindowed[K]
	decoder HeaderDecoder[K]
}

func (s sessionWindowedHeaders[K]) DecodeWithHeaders(src []byte, headers *Headers) (window.Key[K], error) {
	return s.decode(src, s.decoder, headers)
}

// sessionWindowedCloner is sessionWindowed where an inner key can be copied.
type sessionWindowedCloner[K any] struct {
	sessionWindowed[K]
	clone func(K) K
}

func (s sessionWindowedCloner[K]) Clone(v window.Key[K]) window.Key[K] {
	v.Key = s.clone(v.Key)
	return v
}
