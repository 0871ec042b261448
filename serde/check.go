package serde

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/nilness"
)

// Checker is implemented by a Serde that may have been made of arguments that make no sense: no inner serde, a window of a
// negative size. The engine asks when a topology is built, so that it fails there and not at the first record.
type Checker interface {
	// Check tells what is wrong with the serde.
	Check() error
}

// broken is a serde that could not be made. It tells why at every use.
type broken[T any] struct{ err error }

func (s broken[T]) Append(dst []byte, _ T) ([]byte, error) { return dst, s.err }

func (s broken[T]) Decode([]byte) (T, error) {
	var zero T
	return zero, s.err
}

func (s broken[T]) Check() error { return s.err }

// given returns inner, or a serde that tells that it is missing.
func given[T any](inner Serde[T], of string) Serde[T] {
	if inner == nil {
		return broken[T]{fmt.Errorf("serde: %s of a nil serde", of)}
	}
	return inner
}

// check asks a serde that may be a Checker.
func check(s any) error {
	if c, ok := s.(Checker); ok {
		return c.Check()
	}
	return nil
}

// bind returns what a serde is for a topic.
func bind[T any](s Serde[T], topic string, key bool) (Serde[T], error) {
	if b, ok := s.(TopicBinder[T]); ok {
		return b.ForTopic(topic, key)
	}
	return s, nil
}

// cloneFunc returns how to copy a value of a serde, or nil if only encoding and decoding it can.
func cloneFunc[T any](s Serde[T]) func(T) T {
	if c, ok := s.(Cloner[T]); ok {
		return c.Clone
	}
	if nilness.Flat[T]() {
		return func(v T) T { return v }
	}
	return nil
}
