package codec

import (
	"encoding/binary"
	"fmt"
)

// SessionSuffixSize is how many bytes a session's end and start take behind the key, in a changelog and in a sink topic.
const SessionSuffixSize = 8 + 8

// AppendSessionKey appends the key of a session: key, end, start. A changelog and a sink topic have the same form.
//
// In Kafka Streams: SessionKeySchema.toBinary, as used by SessionWindowedSerializer.
func AppendSessionKey(dst, key []byte, startMs, endMs int64) []byte {
	return AppendSessionSuffix(append(dst, key...), startMs, endMs)
}

// AppendSessionSuffix appends what follows the key in AppendSessionKey, for a key that stands in dst already.
func AppendSessionSuffix(dst []byte, startMs, endMs int64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(endMs))
	return binary.BigEndian.AppendUint64(dst, uint64(startMs))
}

// ParseSessionKey takes a session's key apart. The key returned is a part of src.
func ParseSessionKey(src []byte) (key []byte, startMs, endMs int64, err error) {
	n := len(src) - SessionSuffixSize
	if n < 0 {
		return nil, 0, 0, fmt.Errorf("codec: a session key of %d bytes; end and start of the session alone take %d",
			len(src), SessionSuffixSize)
	}
	endMs = int64(binary.BigEndian.Uint64(src[n:]))
	startMs = int64(binary.BigEndian.Uint64(src[n+8:]))
	if startMs < 0 || endMs < startMs {
		return nil, 0, 0, fmt.Errorf("codec: a session key with start %d and end %d", startMs, endMs)
	}
	return src[:n:n], startMs, endMs, nil
}

// SessionKeyPart returns the part of a sink topic's session key that chooses the partition: the key inside it. Bytes too
// short for a session key are returned whole.
func SessionKeyPart(src []byte) []byte {
	if len(src) < SessionSuffixSize {
		return src
	}
	n := len(src) - SessionSuffixSize
	return src[:n:n]
}
