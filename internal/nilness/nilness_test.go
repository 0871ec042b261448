package nilness

import (
	"errors"
	"testing"
	"time"
	"unsafe"
)

type point struct{ X, Y int32 }

type named struct {
	Name  string
	At    time.Time
	Where [3]point
	_     [0]*int
}

type tree struct {
	point
	Left *tree
}

// never fails if T is said to be nilable.
func never[T any](t *testing.T, name string) {
	t.Helper()
	if Checker[T]() != nil {
		t.Errorf("%s: a checker, but no value of it can be nil", name)
	}
}

// nilable checks the answers for a nil value and for values that are not nil.
func nilable[T any](t *testing.T, name string, values ...T) {
	t.Helper()
	isNil := Checker[T]()
	if isNil == nil {
		t.Errorf("%s: no checker, but a value of it can be nil", name)
		return
	}
	var zero T
	if !isNil(&zero) {
		t.Errorf("%s: the zero value is not taken as nil", name)
	}
	for i, v := range values {
		if isNil(&v) {
			t.Errorf("%s: value %d is taken as nil", name, i)
		}
	}
}

func TestChecker_neverNil(t *testing.T) {
	never[int](t, "int")
	never[bool](t, "bool")
	never[float64](t, "float64")
	never[string](t, "string")
	never[point](t, "struct")
	never[tree](t, "struct with a pointer")
	never[[2]*int](t, "array of pointers")
	never[[0]int](t, "empty array")
	never[time.Time](t, "time.Time")
	never[uintptr](t, "uintptr")
}

func TestChecker_nilable(t *testing.T) {
	x := 1
	full := []byte("abc")
	nilable(t, "pointer", &x)
	nilable(t, "slice", []byte{}, full, full[:0], full[3:], make([]byte, 0, 8))
	nilable(t, "slice of empty structs", []struct{}{}, make([]struct{}, 3))
	nilable(t, "map", map[string]int{}, map[string]int{"a": 1})
	nilable(t, "chan", make(chan int))
	nilable(t, "func", func() {})
	nilable[error](t, "interface with methods", errors.New("x"), (*typed)(nil))
	nilable[any](t, "empty interface", 0, "", (*int)(nil), []byte(nil))
	nilable(t, "unsafe.Pointer", unsafe.Pointer(&x))
}

type typed struct{}

func (*typed) Error() string { return "typed" }

func TestChecker_doesNotAllocate(t *testing.T) {
	isNil := Checker[[]byte]()
	v := []byte("x")
	if n := testing.AllocsPerRun(100, func() { isNil(&v) }); n != 0 {
		t.Errorf("%v allocations for each call", n)
	}
}

func TestFlat(t *testing.T) {
	for _, c := range []struct {
		name string
		got  bool
		want bool
	}{
		{"int64", Flat[int64](), true},
		{"complex128", Flat[complex128](), true},
		{"string", Flat[string](), true},
		{"[16]byte", Flat[[16]byte](), true},
		{"struct", Flat[point](), true},
		{"time.Time", Flat[time.Time](), true},
		{"nested", Flat[named](), true},
		{"empty struct", Flat[struct{}](), true},
		{"array of no pointers", Flat[[0]*int](), true},
		{"pointer", Flat[*int](), false},
		{"slice", Flat[[]int](), false},
		{"map", Flat[map[string]int](), false},
		{"chan", Flat[chan int](), false},
		{"func", Flat[func()](), false},
		{"interface", Flat[any](), false},
		{"*time.Time", Flat[*time.Time](), false},
		{"recursive struct", Flat[tree](), false},
		{"array of slices", Flat[[2][]byte](), false},
		{"struct with an interface", Flat[struct{ E error }](), false},
		{"unsafe.Pointer", Flat[unsafe.Pointer](), false},
	} {
		if c.got != c.want {
			t.Errorf("Flat[%s] = %v, want %v", c.name, c.got, c.want)
		}
	}
}
