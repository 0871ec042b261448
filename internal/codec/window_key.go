package codec

import (
	"encoding/binary"
	"fmt"
)

// WindowStartSize is how many bytes a window's start takes at the end of a key in a sink topic, and WindowSuffixSize how
// many start and sequence number take in a changelog.
const (
	WindowStartSize  = 8
	WindowSuffixSize = 8 + 4
)

// AppendWindowKey appends the key of a window store's changelog record: key, start of the window, sequence number. The
// sequence number is 0 except in stores that keep several values for a key and start.
//
// In Kafka Streams: WindowKeySchema.toStoreKeyBinary.
func AppendWindowKey(dst, key []byte, startMs int64, seq int32) []byte {
	return AppendWindowSuffix(append(dst, key...), startMs, seq)
}

// AppendWindowSuffix appends what follows the key in AppendWindowKey, for a key that stands in dst already.
func AppendWindowSuffix(dst []byte, startMs int64, seq int32) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(startMs))
	return binary.BigEndian.AppendUint32(dst, uint32(seq))
}

// ParseWindowKey takes a key of a window store's changelog apart. The key returned is a part of src.
func ParseWindowKey(src []byte) (key []byte, startMs int64, seq int32, err error) {
	n := len(src) - WindowSuffixSize
	if n < 0 {
		return nil, 0, 0, fmt.Errorf("codec: a window store key of %d bytes; start and sequence number alone take %d",
			len(src), WindowSuffixSize)
	}
	startMs = int64(binary.BigEndian.Uint64(src[n:]))
	if startMs < 0 {
		return nil, 0, 0, fmt.Errorf("codec: a window store key with the negative start %d", startMs)
	}
	return src[:n:n], startMs, int32(binary.BigEndian.Uint32(src[n+8:])), nil
}

// AppendWindowedKey appends the key of a record that a windowed table sends to a sink topic: key and start of the window.
// The end is not on the wire, a reader has to know the size.
//
// In Kafka Streams: WindowKeySchema.toBinary, as used by TimeWindowedSerializer.
func AppendWindowedKey(dst, key []byte, startMs int64) []byte {
	return AppendWindowStart(append(dst, key...), startMs)
}

// AppendWindowStart appends what follows the key in AppendWindowedKey, for a key that stands in dst already.
func AppendWindowStart(dst []byte, startMs int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(startMs))
}

// ParseWindowedKey takes a key of a sink topic apart. The key returned is a part of src.
func ParseWindowedKey(src []byte) (key []byte, startMs int64, err error) {
	n := len(src) - WindowStartSize
	if n < 0 {
		return nil, 0, fmt.Errorf("codec: a windowed key of %d bytes; the start of the window alone takes %d",
			len(src), WindowStartSize)
	}
	startMs = int64(binary.BigEndian.Uint64(src[n:]))
	if startMs < 0 {
		return nil, 0, fmt.Errorf("codec: a windowed key with the negative start %d", startMs)
	}
	return src[:n:n], startMs, nil
}

// WindowedKeyPart returns the part of a sink topic's windowed key that chooses the partition: the key inside it. Bytes too
// short for a windowed key are returned whole.
//
// In Kafka Streams: WindowedSerializer.serializeBaseKey, as used by WindowedStreamPartitioner.
func WindowedKeyPart(src []byte) []byte {
	if len(src) < WindowStartSize {
		return src
	}
	n := len(src) - WindowStartSize
	return src[:n:n]
}
