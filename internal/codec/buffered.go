package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Buffered is a row of a time-ordered buffer: the last update of a key that a suppression holds back, or a row of a stream
// that waits for its table. It stands in the buffer's store, and in its changelog, with the context of the record that led
// to it, so that it leaves the buffer as that record's and nobody else's.
//
// In Kafka Streams: BufferValue with its ProcessorRecordContext.
type Buffered struct {
	TimestampMs int64  // of the record
	Offset      int64  // of the source record, -1 without one
	Topic       []byte // of the source record
	Partition   int32  // of the source record, -1 without one
	Headers     []byte // of the record, as AppendBufferedHeader writes them
	HeaderCount int

	Prior []byte // what stood when the row came into the buffer; nil: nothing
	Old   []byte // what stood before the last update; nil: nothing
	New   []byte // the last update; nil: a deletion
	// TimeMs is the time that the buffer is ordered by. A buffer whose keys begin with the time leaves it 0.
	TimeMs int64
}

// BufferedVersion is the value of the header named BufferedVersionHeader that a suppression's changelog records carry.
const BufferedVersion = 3

// BufferedVersionHeader names the header that tells the layout of a value in a suppression's changelog.
const BufferedVersionHeader = "v"

const (
	lengthNull = -1 // nothing
	lengthSame = -2 // the old value is the prior one
)

// AppendBuffered appends a row in layout 3.
func AppendBuffered(dst []byte, b *Buffered) []byte {
	dst = appendContext(dst, b)
	dst = appendNullable(dst, b.Prior)
	if b.Old != nil && b.Prior != nil && bytes.Equal(b.Old, b.Prior) {
		dst = appendLength(dst, lengthSame)
	} else {
		dst = appendNullable(dst, b.Old)
	}
	dst = appendNullable(dst, b.New)
	return binary.BigEndian.AppendUint64(dst, uint64(b.TimeMs))
}

func appendContext(dst []byte, b *Buffered) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(b.TimestampMs))
	dst = binary.BigEndian.AppendUint64(dst, uint64(b.Offset))
	dst = appendNullable(dst, b.Topic)
	if b.Topic == nil {
		binary.BigEndian.PutUint32(dst[len(dst)-4:], 0)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(b.Partition))
	dst = binary.BigEndian.AppendUint32(dst, uint32(b.HeaderCount))
	return append(dst, b.Headers...)
}

func appendLength(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(int32(n)))
}

func appendNullable(dst, v []byte) []byte {
	if v == nil {
		return appendLength(dst, lengthNull)
	}
	return append(appendLength(dst, len(v)), v...)
}

// AppendBufferedHeader appends one header to the headers of a row. A nil value is null.
func AppendBufferedHeader(dst []byte, key string, value []byte) []byte {
	dst = append(appendLength(dst, len(key)), key...)
	return appendNullable(dst, value)
}

// NextBufferedHeader takes the first header off the headers of a parsed row. key and value are parts of src.
func NextBufferedHeader(src []byte) (key, value, rest []byte) {
	r := bufferedReader{src: src}
	key = r.nullable("header key")
	value = r.nullable("header value")
	return key, value, r.src
}

// ParseBuffered takes a row in layout 3 apart. What it returns are parts of src.
func ParseBuffered(src []byte) (b Buffered, err error) {
	r := bufferedReader{src: src}
	r.context(&b)
	b.Prior = r.nullable("prior value")
	if n := r.length("old value"); n == lengthSame {
		b.Old = b.Prior
	} else {
		b.Old = r.bytes(n, "old value")
	}
	b.New = r.nullable("new value")
	b.TimeMs = r.int64("buffer time")
	return b, r.end()
}

// Memory is what the row counts for against a bound in bytes, with its key: as Kafka Streams estimates it.
//
// In Kafka Streams: BufferValue#residentMemorySizeEstimate.
func (b *Buffered) Memory(key []byte) int64 {
	n := int64(8 + len(key) + len(b.Prior) + len(b.New) + 8 + 8 + utf16Len(b.Topic) + 4)
	if !bytes.Equal(b.Old, b.Prior) {
		n += int64(len(b.Old))
	}
	for rest := b.Headers; len(rest) > 0; {
		var k, v []byte
		k, v, rest = NextBufferedHeader(rest)
		n += int64(utf16Len(k) + len(v))
	}
	return n
}

// utf16Len is the length of a text in Java's characters.
func utf16Len(text []byte) (n int) {
	for i := 0; i < len(text); n++ {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r > 0xffff {
			n++
		}
		i += size
	}
	return n
}

// UpgradeBuffered turns the value of a suppression's changelog record into layout 3. version is the record's header
// BufferedVersionHeader, nil without one. Kafka Streams 2.1 wrote layout 0, 2.2 layout 1, 2.3 layout 2, and 2.4 and 2.5.0
// layout 3 under the number 2. context is the changelog record's own, which layout 0 has nothing but. The old value of
// layouts 0 and 1 stands in for the prior one, which they do not hold.
//
// In Kafka Streams: TimeOrderedKeyValueBufferChangelogDeserializationHelper.
func UpgradeBuffered(version, value []byte, context Buffered) ([]byte, error) {
	if version == nil {
		return upgradeBuffered(value, func(r *bufferedReader, b *Buffered) {
			*b = context
			b.TimeMs = r.int64("buffer time")
			r.change(b, r.src)
			r.src, b.Prior = nil, b.Old
		})
	}
	if len(version) != 1 {
		return nil, fmt.Errorf("codec: a buffered row with the version %x, which no release of Kafka Streams wrote", version)
	}
	switch version[0] {
	case 3:
		_, err := ParseBuffered(value)
		return value, err
	case 2:
		out, err := upgradeBuffered(value, func(r *bufferedReader, b *Buffered) {
			r.context(b)
			r.change(b, r.nullable("change"))
			b.Prior = r.nullable("prior value")
			b.TimeMs = r.int64("buffer time")
		})
		if err == nil {
			return out, nil
		}
		if _, err3 := ParseBuffered(value); err3 != nil {
			return nil, fmt.Errorf("codec: a buffered row of version 2 has neither layout that was written under that number: %w; %w", err, err3)
		}
		return value, nil
	case 1:
		return upgradeBuffered(value, func(r *bufferedReader, b *Buffered) {
			at := r.int64("buffer time")
			r.context(b)
			r.change(b, r.nullable("change"))
			b.TimeMs, b.Prior = at, b.Old
		})
	}
	return nil, fmt.Errorf("codec: a buffered row of version %d; versions up to %d are known", version[0], BufferedVersion)
}

func upgradeBuffered(value []byte, parse func(*bufferedReader, *Buffered)) ([]byte, error) {
	var b Buffered
	r := &bufferedReader{src: value}
	parse(r, &b)
	if err := r.end(); err != nil {
		return nil, err
	}
	return AppendBuffered(make([]byte, 0, len(value)+16), &b), nil
}

var errShortBuffered = errors.New("it ends too early")

// bufferedReader reads the fields of a row; the first fault stays.
type bufferedReader struct {
	src []byte
	err error
}

func (r *bufferedReader) fail(what string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("codec: a buffered row: %s: %w", what, err)
	}
	r.src = nil
}

func (r *bufferedReader) take(n int, what string) []byte {
	if n > len(r.src) {
		r.fail(what, errShortBuffered)
		return nil
	}
	out := r.src[:n:n]
	r.src = r.src[n:]
	return out
}

func (r *bufferedReader) int64(what string) int64 {
	if b := r.take(8, what); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *bufferedReader) length(what string) int {
	if b := r.take(4, what); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return lengthNull
}

// bytes reads a value of that length; nil for null.
func (r *bufferedReader) bytes(n int, what string) []byte {
	switch {
	case n == lengthNull || r.err != nil:
		return nil
	case n < 0:
		r.fail(what, fmt.Errorf("its length is %d", n))
		return nil
	case n == 0:
		return []byte{}
	}
	return r.take(n, what)
}

func (r *bufferedReader) nullable(what string) []byte { return r.bytes(r.length(what), what) }

func (r *bufferedReader) context(b *Buffered) {
	b.TimestampMs = r.int64("timestamp")
	b.Offset = r.int64("offset")
	b.Topic = r.nullable("topic")
	b.Partition = int32(r.length("partition"))
	n := r.length("header count")
	if n == lengthNull {
		n = 0 // some releases wrote so for no headers
	}
	if n < 0 || n > math.MaxInt32/8 {
		r.fail("header count", fmt.Errorf("it is %d", n))
		return
	}
	start := r.src
	for range n {
		if k := r.nullable("header key"); k == nil {
			r.fail("header key", errors.New("it is null"))
		}
		r.nullable("header value")
		if r.err != nil {
			return
		}
	}
	used := len(start) - len(r.src)
	b.Headers, b.HeaderCount = start[:used:used], n
}

// change reads an old and a new value in the form of layouts 0 to 2.
func (r *bufferedReader) change(b *Buffered, src []byte) {
	if src == nil {
		r.fail("change", errors.New("it is null"))
		return
	}
	c := bufferedReader{src: src}
	b.Old = c.nullable("old value")
	b.New = c.nullable("new value")
	if err := c.end(); err != nil && r.err == nil {
		r.err = err
	}
}

// end tells the first fault, and refuses bytes that are left.
func (r *bufferedReader) end() error {
	if r.err == nil && len(r.src) > 0 {
		r.err = fmt.Errorf("codec: a buffered row has %d bytes behind its end", len(r.src))
	}
	return r.err
}
