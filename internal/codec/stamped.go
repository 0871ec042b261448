package codec

import (
	"encoding/binary"
	"fmt"
)

// StampSize is how many bytes the timestamp takes in front of a stored value.
const StampSize = 8

// AppendStamped appends a value as a local store keeps it: timestamp, value. A changelog record carries the value alone,
// and the timestamp as its own.
//
// In Kafka Streams: ValueAndTimestampSerializer.
func AppendStamped(dst []byte, tsMs int64, value []byte) []byte {
	return append(AppendStamp(dst, tsMs), value...)
}

// AppendStamp appends the timestamp that stands before the value in AppendStamped, for a value that is encoded behind it.
func AppendStamp(dst []byte, tsMs int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(tsMs))
}

// ParseStamped takes a stored value apart. The value returned is a part of src, and never nil.
func ParseStamped(src []byte) (tsMs int64, value []byte, err error) {
	if len(src) < StampSize {
		return 0, nil, fmt.Errorf("codec: a stored value of %d bytes; its timestamp alone takes %d", len(src), StampSize)
	}
	return int64(binary.BigEndian.Uint64(src)), src[StampSize:], nil
}
