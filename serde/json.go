package serde

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
)

// JSON returns a serde of JSON text, by the rules of encoding/json and its struct tags. There is no line break at the end,
// and '<', '>' and '&' stand as they are. When it reads, fields that T does not have are skipped, and bytes behind the value
// are an error.
//
// A JSON null is read as the zero value of T, and so as Kafka's null if T is a pointer, map or slice.
//
// In Kafka: a serde of one's own, by Jackson for example. Connect's JsonConverter without schemas writes the same.
func JSON[T any]() Serde[T] {
	s := &jsonSerde[T]{}
	s.pool.New = func() any {
		e := &jsonEncoder[T]{}
		e.enc = json.NewEncoder(&e.out)
		e.enc.SetEscapeHTML(false)
		return e
	}
	return s
}

type jsonSerde[T any] struct {
	pool sync.Pool // of *jsonEncoder[T]
}

// jsonEncoder holds what encoding a value would allocate: the encoder, and the value where its address can be taken. The
// address is what is encoded, so that methods of *T count, as they do when the value is decoded.
type jsonEncoder[T any] struct {
	out appender
	enc *json.Encoder
	v   T
}

// appender is a writer that appends.
type appender struct{ buf []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.buf = append(a.buf, p...)
	return len(p), nil
}

func (s *jsonSerde[T]) Append(dst []byte, v T) ([]byte, error) {
	e := s.pool.Get().(*jsonEncoder[T])
	e.out.buf, e.v = dst, v
	err := e.enc.Encode(&e.v)
	out := e.out.buf
	var zero T
	e.out.buf, e.v = nil, zero // the pool keeps neither alive
	s.pool.Put(e)
	if err != nil {
		return dst, fmt.Errorf("serde: JSON of %v: %w", reflect.TypeFor[T](), err)
	}
	return out[:len(out)-1], nil // Encode ends with a line break
}

func (s *jsonSerde[T]) Decode(src []byte) (T, error) {
	var v T
	if err := json.Unmarshal(src, &v); err != nil {
		var zero T
		return zero, jsonError[T](src, err)
	}
	return v, nil
}

// jsonError says where decoding failed, and guesses at the one cause that everybody meets.
func jsonError[T any](src []byte, err error) error {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	where := ""
	switch {
	case len(src) > 5 && src[0] == 0:
		where = "; the first byte is 0, as a schema registry's client writes it: this is not plain JSON"
	case errors.As(err, &syntax):
		where = fmt.Sprintf(" (at byte %d of %d)", syntax.Offset, len(src))
	case errors.As(err, &mismatch):
		where = fmt.Sprintf(" (at byte %d of %d)", mismatch.Offset, len(src))
	}
	return fmt.Errorf("serde: JSON into %v: %w%s", reflect.TypeFor[T](), err, where)
}
