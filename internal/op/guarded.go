package op

import (
	"reflect"

	"github.com/millrace-io/millrace/serde"
)

// guarded makes a panic of a serde an error, so that it meets the policy of the step that used the serde and not the
// process. The serdes of plain types in package serde cannot panic and stay as they are.
func guarded[T any](s serde.Serde[T]) serde.Serde[T] {
	if reflect.TypeOf(s) == nil || infallible(s) {
		return s
	}
	g := guardedSerde[T]{inner: s}
	if c, ok := s.(serde.Cloner[T]); ok {
		return guardedCloner[T]{guardedSerde: g, Cloner: c}
	}
	return g
}

// infallible tells whether a serde is one of the plain types in package serde, which encode every value.
func infallible[T any](s serde.Serde[T]) bool {
	t := reflect.TypeOf(s)
	return t != nil && t.PkgPath() == reflect.TypeOf(serde.String).PkgPath() && t.Size() == 0
}

type guardedSerde[T any] struct{ inner serde.Serde[T] }

func (g guardedSerde[T]) Append(dst []byte, v T) (out []byte, err error) {
	defer recovered(&err)
	return g.inner.Append(dst, v)
}

func (g guardedSerde[T]) Decode(src []byte) (v T, err error) {
	defer recovered(&err)
	return g.inner.Decode(src)
}

type guardedCloner[T any] struct {
	guardedSerde[T]
	serde.Cloner[T]
}
