// Package data makes the benchmark's input: the same records on every machine and in every run.
package data

import (
	"encoding/binary"
	"iter"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// KeyBytes is the length of every key: a letter and eleven digits.
const KeyBytes = 12

// Base is the time of the first record. It lies in the past, since a broker refuses records from the future.
var base = time.UnixMilli(1_704_067_200_000) // 1 January 2024, UTC

// recordsPerMs is how many records share a millisecond: three million records span ten minutes.
const recordsPerMs = 5

// Set describes the records.
type Set struct {
	Keys       int // distinct keys, drawn evenly
	ValueBytes int
}

// Record is the i-th input record of the endless sequence.
func (s Set) Record(i int64) *kgo.Record {
	return &kgo.Record{
		Key:       key(int(mix(uint64(i)) % uint64(s.Keys))),
		Value:     s.value(uint64(i)),
		Timestamp: base.Add(time.Duration(i/recordsPerMs) * time.Millisecond),
	}
}

// Input is the records from the one numbered from to the one before to.
func (s Set) Input(from, to int64) iter.Seq[*kgo.Record] {
	return func(yield func(*kgo.Record) bool) {
		for i := from; i < to; i++ {
			if !yield(s.Record(i)) {
				return
			}
		}
	}
}

// Table is one record for each key, all older than the input.
func (s Set) Table() iter.Seq[*kgo.Record] {
	return func(yield func(*kgo.Record) bool) {
		for i := range s.Keys {
			r := &kgo.Record{Key: key(i), Value: s.value(^uint64(i)), Timestamp: base.Add(-time.Second)}
			if !yield(r) {
				return
			}
		}
	}
}

// key writes the i-th key.
func key(i int) []byte {
	k := []byte("k00000000000")
	for at := len(k) - 1; i > 0; at-- {
		k[at] = '0' + byte(i%10)
		i /= 10
	}
	return k
}

// value is bytes without a pattern that a compressor could use.
func (s Set) value(seed uint64) []byte {
	v := make([]byte, 0, s.ValueBytes+8)
	for n := uint64(1); len(v) < s.ValueBytes; n++ {
		v = binary.LittleEndian.AppendUint64(v, mix(seed*0x9e3779b97f4a7c15+n))
	}
	return v[:s.ValueBytes]
}

// mix is the finaliser of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}
