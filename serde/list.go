package serde

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/millrace-io/millrace/internal/nilness"
)

// List returns the serde of a slice. The bytes equal those of Java's ListSerde around the same inner serde: entries of
// Int16, Int32, Int64, Float32, Float64, UUID and Time stand side by side, all others with their length before them. Entries
// of both forms are read whatever inner is, as far as Java does.
//
// A nil entry is a null one in the bytes, and a null one is read as nil. Where the entries cannot be nil, a null one is an
// error: use List(Nullable(inner)). An empty list is read as an empty slice, not as nil.
//
// In Kafka: Serdes.ListSerde.
func List[T any](inner Serde[T]) Serde[[]T] {
	s := list[T]{inner: given(inner, "List"), isNil: nilness.Checker[T]()}
	s.size = entrySize(s.inner)
	if d, ok := inner.(HeaderDecoder[T]); ok {
		return listHeaders[T]{s, d}
	}
	if clone := cloneFunc(s.inner); clone != nil {
		return listCloner[T]{s, clone}
	}
	return s
}

// sized is implemented by the built-ins whose entries stand in a list without their length. Java knows them by their class,
// so this must not grow by types whose Java serializer is not among them (BooleanSerializer is not).
type sized interface{ entrySize() int }

// entrySize returns the size of every entry that a serde writes, 0 if it varies.
func entrySize(s any) int {
	if f, ok := s.(sized); ok {
		return f.entrySize()
	}
	return 0
}

const (
	listConstant = 0 // entries of one size, after the indices of those that are null
	listVariable = 1 // each entry after its length

	nullEntry = -1 // the length of an entry that is null
)

type list[T any] struct {
	inner Serde[T]
	size  int           // of an entry, 0 if it varies
	isNil func(*T) bool // nil: no entry can be nil
}

func (s list[T]) Append(dst []byte, v []T) ([]byte, error) {
	if len(v) > math.MaxInt32 {
		return dst, fmt.Errorf("serde: list of %d entries; the format holds %d", len(v), math.MaxInt32)
	}
	if s.size > 0 {
		dst = s.appendNulls(append(dst, listConstant), v)
	} else {
		dst = append(dst, listVariable)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
	for i := range v {
		var err error
		if dst, err = s.appendEntry(dst, &v[i]); err != nil {
			return dst, fmt.Errorf("serde: entry %d of a list: %w", i, err)
		}
	}
	return dst, nil
}

// appendNulls appends the number and the indices of the entries that are null.
func (s list[T]) appendNulls(dst []byte, v []T) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	if s.isNil == nil {
		return dst
	}
	n := uint32(0)
	for i := range v {
		if s.isNil(&v[i]) {
			dst = binary.BigEndian.AppendUint32(dst, uint32(i))
			n++
		}
	}
	binary.BigEndian.PutUint32(dst[at:], n)
	return dst
}

func (s list[T]) appendEntry(dst []byte, v *T) ([]byte, error) {
	null := s.isNil != nil && s.isNil(v)
	switch {
	case s.size > 0 && null:
		return dst, nil
	case s.size > 0:
		return s.inner.Append(dst, *v)
	case null:
		return append(dst, 0xff, 0xff, 0xff, 0xff), nil
	}
	at := len(dst)
	dst, err := s.inner.Append(append(dst, 0, 0, 0, 0), *v)
	if err != nil {
		return dst, err
	}
	n := len(dst) - at - 4
	if n > math.MaxInt32 {
		return dst, fmt.Errorf("%d bytes; the format holds %d", n, math.MaxInt32)
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(n))
	return dst, nil
}

func (s list[T]) Decode(src []byte) ([]T, error) { return s.decode(src, nil, nil) }

// decode reads a list; decoder, if any, reads the entries with the headers.
func (s list[T]) decode(src []byte, decoder HeaderDecoder[T], headers *Headers) ([]T, error) {
	l, err := parseList(src, s.size)
	if err != nil {
		return nil, err
	}
	// Room for all of a usual list, and no more than a little where broken bytes tell of a million entries.
	out := make([]T, 0, min(l.count, 1024))
	for i := range l.count {
		entry, null, err := l.next(i)
		if err != nil {
			return nil, err
		}
		var v T
		switch {
		case null && s.isNil == nil:
			return nil, fmt.Errorf("serde: entry %d of a list is null, which %T cannot be; use List(Nullable(...))", i, v)
		case null:
		case decoder != nil:
			v, err = decoder.DecodeWithHeaders(entry, headers)
		default:
			v, err = s.inner.Decode(entry)
		}
		if err != nil {
			return nil, fmt.Errorf("serde: entry %d of a list: %w", i, err)
		}
		out = append(out, v)
	}
	if len(l.rest) > 0 {
		return nil, fmt.Errorf("serde: %d bytes behind the last entry of a list", len(l.rest))
	}
	return out, nil
}

func (s list[T]) ForTopic(topic string, key bool) (Serde[[]T], error) {
	inner, err := bind(s.inner, topic, key)
	if err != nil {
		return nil, err
	}
	return List(inner), nil
}

func (s list[T]) Check() error { return check(s.inner) }

// listHeaders is list where inner decodes with headers.
type listHeaders[T any] struct {
	list[T]
	decoder HeaderDecoder[T]
}

func (s listHeaders[T]) DecodeWithHeaders(src []byte, headers *Headers) ([]T, error) {
	return s.decode(src, s.decoder, headers)
}

// listCloner is list where an entry can be copied.
type listCloner[T any] struct {
	list[T]
	clone func(T) T
}

func (s listCloner[T]) Clone(v []T) []T {
	if v == nil {
		return nil
	}
	out := make([]T, len(v))
	for i := range v {
		if s.isNil == nil || !s.isNil(&v[i]) {
			out[i] = s.clone(v[i])
		}
	}
	return out
}

// encodedList walks over the entries of an encoded list.
type encodedList struct {
	size  int    // of an entry, 0: each has its length before it
	count int    // of entries
	nulls []byte // the indices of the null entries, in ascending order, 4 bytes each
	rest  []byte
}

var errListEnds = errors.New("serde: a list ends before its last entry")

// parseList reads what stands before the entries. size is what the entries would have that have no length. The count it
// returns is bounded by the length of src, whatever the bytes say.
func parseList(src []byte, size int) (encodedList, error) {
	if len(src) == 0 {
		return encodedList{}, errors.New("serde: a list of no bytes; even an empty one has a head")
	}
	l := encodedList{rest: src[1:]}
	nulls := 0
	switch src[0] {
	case listConstant:
		if size == 0 {
			return l, errors.New("serde: a list of entries of one size, but the inner serde does not have one; " +
				"it was written by another serde")
		}
		l.size = size
		var err error
		if nulls, err = l.readCount("null entries", 4); err != nil {
			return l, err
		}
		l.nulls, l.rest = l.rest[:4*nulls], l.rest[4*nulls:]
	case listVariable:
	default:
		return l, fmt.Errorf("serde: a list whose first byte is %d, want 0 or 1; it was not written by a list serde", src[0])
	}
	var err error
	if l.size == 0 {
		l.count, err = l.readCount("entries", 4)
		return l, err
	}
	if l.count, err = l.readCount("entries", 0); err != nil {
		return l, err
	}
	if nulls > l.count || (l.count-nulls) > len(l.rest)/l.size {
		return l, errListEnds
	}
	return l, l.checkNulls()
}

// readCount reads a number of things that take at least each bytes.
func (l *encodedList) readCount(what string, each int) (int, error) {
	if len(l.rest) < 4 {
		return 0, fmt.Errorf("serde: a list ends before its number of %s", what)
	}
	n := int(int32(binary.BigEndian.Uint32(l.rest)))
	l.rest = l.rest[4:]
	if n < 0 {
		return 0, fmt.Errorf("serde: a list of %d %s", n, what)
	}
	if each > 0 && n > len(l.rest)/each {
		return 0, errListEnds
	}
	return n, nil
}

// checkNulls makes sure that the indices of null entries ascend and lie within the list.
func (l *encodedList) checkNulls() error {
	last := int64(-1)
	for b := l.nulls; len(b) > 0; b = b[4:] {
		i := int64(int32(binary.BigEndian.Uint32(b)))
		if i <= last || i >= int64(l.count) {
			return fmt.Errorf("serde: a list of %d entries tells of a null one at %d, after %d", l.count, i, last)
		}
		last = i
	}
	return nil
}

// next returns entry i; it is called for each in order.
func (l *encodedList) next(i int) (entry []byte, null bool, err error) {
	size := l.size
	if size > 0 {
		if len(l.nulls) > 0 && int(binary.BigEndian.Uint32(l.nulls)) == i {
			l.nulls = l.nulls[4:]
			return nil, true, nil
		}
	} else {
		if len(l.rest) < 4 {
			return nil, false, errListEnds
		}
		size = int(int32(binary.BigEndian.Uint32(l.rest)))
		l.rest = l.rest[4:]
		if size == nullEntry {
			return nil, true, nil
		}
		if size < 0 {
			return nil, false, fmt.Errorf("serde: entry %d of a list has a length of %d", i, size)
		}
	}
	if size > len(l.rest) {
		return nil, false, errListEnds
	}
	entry, l.rest = l.rest[:size:size], l.rest[size:]
	return entry, false, nil
}
