package serde

import "errors"

// Nullable returns the serde of a pointer, which gives a type without a nil one: a nil pointer is Kafka's null, and a null
// entry inside a [List]. The bytes are those of inner.
//
// In Kafka: any serde, since every Java reference can be null.
func Nullable[T any](inner Serde[T]) Serde[*T] {
	s := nullable[T]{given(inner, "Nullable")}
	if d, ok := inner.(HeaderDecoder[T]); ok {
		return nullableHeaders[T]{s, d}
	}
	if clone := cloneFunc(s.inner); clone != nil {
		return nullableCloner[T]{s, clone}
	}
	return s
}

type nullable[T any] struct{ inner Serde[T] }

var errNilPointer = errors.New("serde: a nil pointer stands for null, which has no bytes")

func (s nullable[T]) Append(dst []byte, v *T) ([]byte, error) {
	if v == nil {
		return dst, errNilPointer
	}
	return s.inner.Append(dst, *v)
}

func (s nullable[T]) Decode(src []byte) (*T, error) { return pointer(s.inner.Decode(src)) }

func (s nullable[T]) ForTopic(topic string, key bool) (Serde[*T], error) {
	inner, err := bind(s.inner, topic, key)
	if err != nil {
		return nil, err
	}
	return Nullable(inner), nil
}

func (s nullable[T]) Check() error { return check(s.inner) }

func (s nullable[T]) entrySize() int { return entrySize(s.inner) }

func pointer[T any](v T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// nullableHeaders is nullable where inner decodes with headers.
type nullableHeaders[T any] struct {
	nullable[T]
	decoder HeaderDecoder[T]
}

func (s nullableHeaders[T]) DecodeWithHeaders(src []byte, headers *Headers) (*T, error) {
	return pointer(s.decoder.DecodeWithHeaders(src, headers))
}

// nullableCloner is nullable where a value can be copied.
type nullableCloner[T any] struct {
	nullable[T]
	clone func(T) T
}

func (s nullableCloner[T]) Clone(v *T) *T {
	if v == nil {
		return nil
	}
	c := s.clone(*v)
	return &c
}
