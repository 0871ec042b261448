package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Change is one update of a table on its way through a repartition topic: what the key's value was and what it is.
type Change struct {
	Old []byte // nil: there was none
	New []byte // nil: there is none any more

	// Latest is false if a newer version of the value was there already (a versioned table read out of order).
	Latest bool
}

// The last byte of an encoded change says which values it holds. The later three flags have a byte before them that says
// whether the new value is the latest; nobody writes them yet, but every reader must know them.
const (
	changeOld        = 0x00
	changeNew        = 0x01
	changeBoth       = 0x02
	changeOldLatest  = 0x03
	changeNewLatest  = 0x04
	changeBothLatest = 0x05
)

var errEmptyChange = errors.New("codec: a change with neither an old nor a new value has no encoding")

// AppendChange appends the value of a repartition record of a grouped table: the old value, the new value, or the new one
// with its length before it and the old one after it, then a byte that tells which. Nil is a value that is not there, and
// one of the two must be.
//
// In Kafka Streams: ChangedSerializer, not in its mode for an upgrade from versions before 3.5.
func AppendChange(dst, oldValue, newValue []byte) ([]byte, error) {
	switch {
	case oldValue != nil && newValue != nil:
		if len(newValue) > math.MaxInt32 {
			return dst, fmt.Errorf("codec: a change with a new value of %d bytes; at most %d can be told", len(newValue), math.MaxInt32)
		}
		dst = binary.AppendVarint(dst, int64(len(newValue))) // zigzag, as Java's ByteUtils.writeVarint
		dst = append(dst, newValue...)
		dst = append(dst, oldValue...)
		return append(dst, changeBoth), nil
	case newValue != nil:
		return append(append(dst, newValue...), changeNew), nil
	case oldValue != nil:
		return append(append(dst, oldValue...), changeOld), nil
	}
	return dst, errEmptyChange
}

// AppendChangeFlag ends a change of which one value alone has been appended: the new one, or the old one.
func AppendChangeFlag(dst []byte, isNew bool) []byte {
	if isNew {
		return append(dst, changeNew)
	}
	return append(dst, changeOld)
}

// ParseChange takes a change apart. The values are parts of src.
//
// In Kafka Streams: ChangedDeserializer.
func ParseChange(src []byte) (Change, error) {
	if len(src) == 0 {
		return Change{}, errors.New("codec: a change of no bytes; its last byte tells which values it holds")
	}
	flag, body := src[len(src)-1], src[:len(src)-1]
	c := Change{Latest: true}
	if flag >= changeOldLatest && flag <= changeBothLatest {
		if len(body) == 0 {
			return Change{}, fmt.Errorf("codec: a change with flag %d ends before the byte that tells whether it is the latest", flag)
		}
		switch latest := body[len(body)-1]; latest {
		case 0:
			c.Latest = false
		case 1:
		default:
			return Change{}, fmt.Errorf("codec: a change with flag %d has %d where 0 or 1 tells whether it is the latest", flag, latest)
		}
		body = body[:len(body)-1]
		flag -= changeOldLatest
	}
	switch flag {
	case changeOld:
		c.Old = body[:len(body):len(body)]
	case changeNew:
		c.New = body[:len(body):len(body)]
	case changeBoth:
		size, n := binary.Varint(body)
		if n <= 0 || size < 0 || size > int64(len(body)-n) {
			return Change{}, fmt.Errorf("codec: a change of %d bytes with a broken length of its new value", len(src))
		}
		mid := n + int(size)
		c.New = body[n:mid:mid]
		c.Old = body[mid:len(body):len(body)]
	default:
		return Change{}, fmt.Errorf("codec: a change with the unknown flag %d; a newer version wrote it, or the topic is not "+
			"the repartition topic of a grouped table", src[len(src)-1])
	}
	return c, nil
}
