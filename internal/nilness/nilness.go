// Package nilness answers two questions about a Go type, once, when a topology is wired: can a value of it be nil, and
// is a copy of a value a deep copy. The answers are functions and booleans that cost nothing per record, so that no
// reflection happens on the path of a record.
package nilness

import (
	"reflect"
	"time"
	"unsafe"
)

// Checker returns a function that tells whether a value is nil, or nil if no value of T can be nil (a number, string,
// array or struct). The engine uses it to turn a nil that user code returned into Kafka's null.
//
// An interface is nil only when it holds nothing: one that holds a nil pointer is not, as everywhere in Go.
//
// The function reads the first word of the value. In every nilable kind that word is zero exactly when the value is nil:
// pointers, maps, channels and functions are that one word; a slice's first word is its data pointer, which an empty
// slice that is not nil has too; an interface's first word is its type.
func Checker[T any]() func(*T) bool {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return firstWordIsZero[T]
	default:
		return nil
	}
}

func firstWordIsZero[T any](v *T) bool {
	return *(*unsafe.Pointer)(unsafe.Pointer(v)) == nil
}

// Flat tells whether a plain copy of a value of T shares nothing with the original that could be changed in place. That
// holds for numbers, booleans and strings, for arrays and structs of them, and for time.Time, whose only pointer leads
// to a location that never changes. The engine keeps such a value decoded without cloning it.
func Flat[T any]() bool { return flat(reflect.TypeFor[T]()) }

var timeType = reflect.TypeFor[time.Time]()

func flat(t reflect.Type) bool {
	if t == timeType {
		return true
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array:
		return t.Len() == 0 || flat(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !flat(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return false
	}
}
