package serde

import (
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
)

// UUID is a UUID as its text, 36 bytes in lower case: "00112233-4455-6677-8899-aabbccddeeff". Upper case is read too.
//
// In Kafka: UUIDSerializer.
var UUID uuidSerde[uuid.UUID]

// UUIDOf returns the serde of [UUID] for another type of UUID: any whose form is an array of 16 bytes.
func UUIDOf[T ~[16]byte]() Serde[T] { return uuidSerde[T]{} }

type uuidSerde[T ~[16]byte] struct{}

const uuidSize = 36

// uuidGroups holds the bounds of the five groups, in bytes of the UUID and in characters of the text.
var uuidGroups = [5]struct{ from, to, at int }{{0, 4, 0}, {4, 6, 9}, {6, 8, 14}, {8, 10, 19}, {10, 16, 24}}

func (uuidSerde[T]) Append(dst []byte, v T) ([]byte, error) {
	b := [16]byte(v)
	for i, g := range uuidGroups {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, b[g.from:g.to])
	}
	return dst, nil
}

func (uuidSerde[T]) Decode(src []byte) (T, error) {
	var b [16]byte
	if len(src) != uuidSize {
		return T{}, wrongSize("UUID as text", src, uuidSize)
	}
	for i, g := range uuidGroups {
		if i > 0 && src[g.at-1] != '-' {
			return T{}, fmt.Errorf("serde: UUID as text has %q at byte %d, want '-'", src[g.at-1], g.at-1)
		}
		if _, err := hex.Decode(b[g.from:g.to], src[g.at:g.at+2*(g.to-g.from)]); err != nil {
			return T{}, fmt.Errorf("serde: UUID as text, group %d: %w", i+1, err)
		}
	}
	return T(b), nil
}

func (uuidSerde[T]) entrySize() int { return uuidSize }
