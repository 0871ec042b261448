package codec

import (
	"encoding/binary"
	"fmt"
)

// The values of unmatched rows of a stream-stream join that have one side, timestamp and key stand in one list, encoded as
// Java's ListSerde does entries of any size: the byte 1, the number of entries, then each entry after its length. An entry is
// a side byte, 1 for left and 0 for right, and the value.

const (
	sidedListForm   = 1
	sidedListHeader = 1 + 4
)

// AppendSidedValue appends a list with one more value. list is the old one, empty for the first value.
//
// In Kafka Streams: ListValueStore.put, LeftOrRightValueSerializer.
func AppendSidedValue(dst, list []byte, side byte, value []byte) []byte {
	n := uint32(0)
	if len(list) >= sidedListHeader {
		n = binary.BigEndian.Uint32(list[1:])
		list = list[sidedListHeader:]
	}
	dst = append(dst, sidedListForm)
	dst = binary.BigEndian.AppendUint32(dst, n+1)
	dst = append(dst, list...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(1+len(value)))
	return append(append(dst, side), value...)
}

// EachSidedValue calls f for each value of a list, in order. What f gets is a part of the list.
func EachSidedValue(list []byte, f func(side byte, value []byte) error) error {
	if len(list) < sidedListHeader || list[0] != sidedListForm {
		return fmt.Errorf("codec: a list of unmatched rows that starts with %x", list[:min(len(list), sidedListHeader)])
	}
	n := binary.BigEndian.Uint32(list[1:])
	rest := list[sidedListHeader:]
	for i := range n {
		if len(rest) < 4 {
			return fmt.Errorf("codec: a list of unmatched rows ends behind entry %d of %d", i, n)
		}
		size := int(int32(binary.BigEndian.Uint32(rest)))
		rest = rest[4:]
		if size < 1 || size > len(rest) {
			return fmt.Errorf("codec: entry %d of a list of unmatched rows has %d bytes, %d are left", i, size, len(rest))
		}
		if err := f(rest[0], rest[1:size:size]); err != nil {
			return err
		}
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("codec: %d bytes behind a list of %d unmatched rows", len(rest), n)
	}
	return nil
}
