package codec

import (
	"encoding/binary"
	"math/bits"
)

// Hash128 is a 128-bit hash as it stands in messages.
type Hash128 [16]byte

// Murmur3 is the 128-bit MurmurHash3 for 64-bit machines with the seed of Kafka Streams. It tells whether a response of a
// foreign-key join belongs to the row that stands now.
//
// In Kafka Streams: Murmur3.hash128.
func Murmur3(b []byte) Hash128 {
	const (
		seed uint64 = 104729
		c1   uint64 = 0x87c37b91114253d5
		c2   uint64 = 0x4cf5ad432745937f
	)
	h1, h2 := seed, seed
	size := uint64(len(b))
	for len(b) >= 16 {
		k1, k2 := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		h1 ^= bits.RotateLeft64(k1*c1, 31) * c2
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= bits.RotateLeft64(k2*c2, 33) * c1
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
		b = b[16:]
	}
	// What is left is filled up with zeros, which leave a hash as it is.
	var tail [16]byte
	copy(tail[:], b)
	h2 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(tail[8:])*c2, 33) * c1
	h1 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(tail[:])*c1, 31) * c2

	h1 ^= size
	h2 ^= size
	h1 += h2
	h2 += h1
	h1, h2 = mix(h1), mix(h2)
	h1 += h2
	h2 += h1
	var out Hash128
	binary.BigEndian.PutUint64(out[:], h1)
	binary.BigEndian.PutUint64(out[8:], h2)
	return out
}

func mix(k uint64) uint64 {
	k ^= k >> 33
	k *= 0xff51afd7ed558ccd
	k ^= k >> 33
	k *= 0xc4ceb9fe1a85ec53
	return k ^ k>>33
}
