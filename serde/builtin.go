package serde

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// The built-in serdes of simple types. They hold nothing, and their bytes equal those of the Java serializer named with
// each. Numbers are big endian.
//
// In the order of encoded bytes, in which stores keep their keys, negative numbers come after positive ones.
var (
	// String is text. The bytes are those of the Go string, and so UTF-8 where the string is. Bytes that are not UTF-8 are
	// kept, where Java would replace them: a key's identity is its bytes.
	//
	// In Kafka: StringSerializer with its default encoding.
	String stringSerde

	// Bytes is a slice of bytes as it is.
	//
	// In Kafka: ByteArraySerializer.
	Bytes bytesSerde

	// Int16 is 2 bytes.
	//
	// In Kafka: ShortSerializer.
	Int16 int16Serde

	// Int32 is 4 bytes.
	//
	// In Kafka: IntegerSerializer.
	Int32 int32Serde

	// Int64 is 8 bytes.
	//
	// In Kafka: LongSerializer.
	Int64 int64Serde

	// Float32 is the 4 bytes of IEEE 754, of a NaN too.
	//
	// In Kafka: FloatSerializer.
	Float32 float32Serde

	// Float64 is the 8 bytes of IEEE 754. Each NaN becomes the one that Java knows, 7ff8000000000000, so that equal keys
	// have equal bytes. (Java does so with 8 bytes and not with 4.)
	//
	// In Kafka: DoubleSerializer.
	Float64 float64Serde

	// Bool is one byte, 0 or 1.
	//
	// In Kafka: BooleanSerializer.
	Bool boolSerde

	// Time is a moment as milliseconds since the Unix epoch, 8 bytes: the unit of Kafka's own timestamps and what Java
	// programs send as a Long. What is finer than a millisecond is cut off (towards the past), and so is the time zone: a
	// decoded time is in UTC. Send [JSON] where nanoseconds matter.
	//
	// In Kafka: LongSerializer of Instant#toEpochMilli.
	Time timeSerde
)

type stringSerde struct{}

func (stringSerde) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }

func (stringSerde) Decode(src []byte) (string, error) { return string(src), nil }

type bytesSerde struct{}

func (bytesSerde) Append(dst []byte, v []byte) ([]byte, error) { return append(dst, v...), nil }

// Decode never returns nil, which would become null again on its way out.
func (bytesSerde) Decode(src []byte) ([]byte, error) { return append([]byte{}, src...), nil }

func (bytesSerde) Clone(v []byte) []byte {
	if v == nil {
		return nil
	}
	return append([]byte{}, v...)
}

// wrongSize is the error of a value whose size is not that of its type.
func wrongSize(what string, src []byte, want int) error {
	return fmt.Errorf("serde: %s of %d bytes, want %d", what, len(src), want)
}

type int16Serde struct{}

func (int16Serde) Append(dst []byte, v int16) ([]byte, error) {
	return binary.BigEndian.AppendUint16(dst, uint16(v)), nil
}

func (int16Serde) Decode(src []byte) (int16, error) {
	if len(src) != 2 {
		return 0, wrongSize("int16", src, 2)
	}
	return int16(binary.BigEndian.Uint16(src)), nil
}

func (int16Serde) entrySize() int { return 2 }

type int32Serde struct{}

func (int32Serde) Append(dst []byte, v int32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, uint32(v)), nil
}

func (int32Serde) Decode(src []byte) (int32, error) {
	if len(src) != 4 {
		return 0, wrongSize("int32", src, 4)
	}
	return int32(binary.BigEndian.Uint32(src)), nil
}

func (int32Serde) entrySize() int { return 4 }

type int64Serde struct{}

func (int64Serde) Append(dst []byte, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)), nil
}

func (int64Serde) Decode(src []byte) (int64, error) {
	if len(src) != 8 {
		return 0, wrongSize("int64", src, 8)
	}
	return int64(binary.BigEndian.Uint64(src)), nil
}

func (int64Serde) entrySize() int { return 8 }

type float32Serde struct{}

func (float32Serde) Append(dst []byte, v float32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, math.Float32bits(v)), nil
}

func (float32Serde) Decode(src []byte) (float32, error) {
	if len(src) != 4 {
		return 0, wrongSize("float32", src, 4)
	}
	return math.Float32frombits(binary.BigEndian.Uint32(src)), nil
}

func (float32Serde) entrySize() int { return 4 }

type float64Serde struct{}

// javaNaN is what Double.doubleToLongBits makes of each NaN. Go's own is another.
const javaNaN uint64 = 0x7ff8000000000000

func (float64Serde) Append(dst []byte, v float64) ([]byte, error) {
	bits := math.Float64bits(v)
	if v != v {
		bits = javaNaN
	}
	return binary.BigEndian.AppendUint64(dst, bits), nil
}

func (float64Serde) Decode(src []byte) (float64, error) {
	if len(src) != 8 {
		return 0, wrongSize("float64", src, 8)
	}
	return math.Float64frombits(binary.BigEndian.Uint64(src)), nil
}

func (float64Serde) entrySize() int { return 8 }

type boolSerde struct{}

func (boolSerde) Append(dst []byte, v bool) ([]byte, error) {
	if v {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

func (boolSerde) Decode(src []byte) (bool, error) {
	if len(src) != 1 {
		return false, wrongSize("bool", src, 1)
	}
	if src[0] > 1 {
		return false, fmt.Errorf("serde: bool with the byte %d, want 0 or 1", src[0])
	}
	return src[0] == 1, nil
}

type timeSerde struct{}

func (timeSerde) Append(dst []byte, v time.Time) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v.UnixMilli())), nil
}

func (timeSerde) Decode(src []byte) (time.Time, error) {
	if len(src) != 8 {
		return time.Time{}, wrongSize("time in milliseconds", src, 8)
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(src))).UTC(), nil
}

func (timeSerde) Clone(v time.Time) time.Time { return v }

func (timeSerde) entrySize() int { return 8 }
