package serde

// Header is one header of a record. A key may occur several times.
type Header struct {
	Key   string
	Value []byte // nil is null
}

// Headers are the headers of a record, in order. They are shared between the steps of a topology and must not be
// changed in place: With and Without return new ones, so a change made in one branch never shows in its sibling.
//
// In Kafka Streams: org.apache.kafka.common.header.Headers, which is shared and mutable.
type Headers []Header

// Last returns the value of the last header named key.
func (h Headers) Last(key string) (value []byte, ok bool) {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].Key == key {
			return h[i].Value, true
		}
	}
	return nil, false
}

// With returns the headers with one more at the end.
func (h Headers) With(key string, value []byte) Headers {
	out := make(Headers, len(h), len(h)+1)
	copy(out, h)
	return append(out, Header{Key: key, Value: value})
}

// Without returns the headers without those named key.
func (h Headers) Without(key string) Headers {
	out := make(Headers, 0, len(h))
	for _, x := range h {
		if x.Key != key {
			out = append(out, x)
		}
	}
	return out
}

// Clone returns a copy whose values are copies too.
func (h Headers) Clone() Headers {
	if h == nil {
		return nil
	}
	out := make(Headers, len(h))
	for i, x := range h {
		out[i] = Header{Key: x.Key}
		if x.Value != nil {
			out[i].Value = append([]byte{}, x.Value...)
		}
	}
	return out
}
