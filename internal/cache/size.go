package cache

import (
	"reflect"
	"time"
	"unsafe"
)

// maxStrings bounds the strings of a type that are counted one by one.
const maxStrings = 64

// contentSizer returns a function that tells how many bytes a value of a type holds beside its own size, or nil if it
// holds none. exact is false if the type leaves that open: it has pointers other than those of strings, or very many of
// those. It is asked once, at wiring.
func contentSizer[V any]() (size func(*V) int64, exact bool) {
	if _, ok := any((*V)(nil)).(*[]byte); ok {
		return func(v *V) int64 { return int64(len(*any(v).(*[]byte))) }, true
	}
	offsets, exact := stringOffsets(reflect.TypeFor[V](), 0, nil)
	if !exact || len(offsets) == 0 {
		return nil, exact
	}
	return func(v *V) (n int64) {
		for _, at := range offsets {
			n += int64(len(*(*string)(unsafe.Add(unsafe.Pointer(v), at))))
		}
		return n
	}, true
}

// stringOffsets lists where the strings of a type lie.
func stringOffsets(t reflect.Type, base uintptr, offsets []uintptr) ([]uintptr, bool) {
	if t == reflect.TypeFor[time.Time]() {
		return offsets, true // its one pointer leads to a location that all share
	}
	ok := true
	switch t.Kind() {
	case reflect.String:
		return append(offsets, base), len(offsets) < maxStrings
	case reflect.Struct:
		for i := 0; i < t.NumField() && ok; i++ {
			f := t.Field(i)
			offsets, ok = stringOffsets(f.Type, base+f.Offset, offsets)
		}
		return offsets, ok
	case reflect.Array:
		if none, flat := stringOffsets(t.Elem(), 0, nil); flat && len(none) == 0 {
			return offsets, true
		}
		for i := 0; i < t.Len() && ok; i++ {
			offsets, ok = stringOffsets(t.Elem(), base+uintptr(i)*t.Elem().Size(), offsets)
		}
		return offsets, ok
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return offsets, false
	}
	return offsets, true
}
