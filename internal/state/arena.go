package state

import "unsafe"

const (
	firstChunk = 1 << 10
	lastChunk  = 64 << 10
)

// empty is the value of length zero. A nil value stands for a deletion everywhere in this package, so an empty value must
// not be nil.
var empty = make([]byte, 0)

// arena hands out small pieces of large allocations. Nothing is given back: a layer's arena dies with the layer. The zero
// arena is ready.
type arena struct {
	chunk []byte // length is what is used
	held  int64  // bytes of all chunks
}

// copy returns a copy of b that is never nil and has no spare capacity.
func (a *arena) copy(b []byte) []byte {
	if len(b) == 0 {
		return empty
	}
	d := a.take(len(b))
	copy(d, b)
	return d
}

// text returns a copy of b as a string.
func (a *arena) text(b []byte) string { return viewText(a.copy(b)) }

func (a *arena) take(n int) []byte {
	if n > cap(a.chunk)-len(a.chunk) {
		if n > lastChunk/4 {
			a.held += int64(n)
			return make([]byte, n)
		}
		size := min(max(2*cap(a.chunk), firstChunk), lastChunk)
		for size < n {
			size *= 2
		}
		a.held += int64(size)
		a.chunk = make([]byte, 0, size)
	}
	at := len(a.chunk)
	a.chunk = a.chunk[:at+n]
	return a.chunk[at : at+n : at+n]
}

// viewText is b as a string without a copy. The bytes must not change while the string lives; a caller's bytes may
// therefore be looked up with it but never stored.
func viewText(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// viewBytes is s as bytes without a copy. They must not be changed.
func viewBytes(s string) []byte {
	if len(s) == 0 {
		return empty
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// clone returns a copy of b that is never nil.
func clone(b []byte) []byte {
	if len(b) == 0 {
		return empty
	}
	return append(make([]byte, 0, len(b)), b...)
}
