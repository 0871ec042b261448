package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// AppendHeaders appends the headers that a store keeps before a value: the size of what follows, the number of headers, and
// each one with the lengths of its key and value, where -1 stands for a null. All are zigzag varints. No headers are the
// size 0 alone. at returns the i-th of n headers.
//
// In Kafka Streams: HeadersSerializer, as ValueTimestampHeadersSerializer uses it.
func AppendHeaders(dst []byte, n int, at func(i int) (key string, value []byte)) []byte {
	if n == 0 {
		return append(dst, 0)
	}
	size := varintSize(int64(n))
	for i := range n {
		k, v := at(i)
		size += varintSize(int64(len(k))) + len(k) + varintSize(headerLength(v)) + len(v)
	}
	dst = binary.AppendVarint(dst, int64(size))
	dst = binary.AppendVarint(dst, int64(n))
	for i := range n {
		k, v := at(i)
		dst = append(binary.AppendVarint(dst, int64(len(k))), k...)
		dst = append(binary.AppendVarint(dst, headerLength(v)), v...)
	}
	return dst
}

func headerLength(v []byte) int64 {
	if v == nil {
		return lengthNull
	}
	return int64(len(v))
}

func varintSize(n int64) int {
	var b [binary.MaxVarintLen64]byte
	return binary.PutVarint(b[:], n)
}

// SplitHeaders takes the headers off a stored value. headers is for EachHeader, empty if there are none. Both are parts of src.
func SplitHeaders(src []byte) (headers, rest []byte, err error) {
	size, n := binary.Varint(src)
	if n <= 0 || size < 0 || size > int64(len(src)-n) {
		return nil, nil, errors.New("codec: a stored value that should begin with headers does not")
	}
	end := n + int(size)
	return src[n:end:end], src[end:], nil
}

// CountHeaders is how many headers there are in what SplitHeaders took off.
func CountHeaders(headers []byte) (int, error) {
	if len(headers) == 0 {
		return 0, nil
	}
	count, n := binary.Varint(headers)
	// A header takes two bytes at least.
	if n <= 0 || count < 0 || count > int64(len(headers)-n)/2 {
		return 0, errors.New("codec: the number of headers of a stored value makes no sense")
	}
	return int(count), nil
}

// EachHeader calls f with each header, in order. value is nil for a null, and a part of headers otherwise.
func EachHeader(headers []byte, f func(key, value []byte)) error {
	count, err := CountHeaders(headers)
	if err != nil || count == 0 {
		return err
	}
	_, n := binary.Varint(headers)
	rest := headers[n:]
	for i := range count {
		var key, value []byte
		if key, rest, err = headerPart(rest); err == nil && key == nil {
			err = errors.New("a null key")
		}
		if err == nil {
			value, rest, err = headerPart(rest)
		}
		if err != nil {
			return fmt.Errorf("codec: header %d of %d of a stored value: %w", i+1, count, err)
		}
		f(key, value)
	}
	if len(rest) > 0 {
		return fmt.Errorf("codec: %d bytes behind the headers of a stored value", len(rest))
	}
	return nil
}

func headerPart(src []byte) (part, rest []byte, err error) {
	size, n := binary.Varint(src)
	switch {
	case n <= 0 || size < lengthNull || size > math.MaxInt32 || size > int64(len(src)-n):
		return nil, nil, errors.New("its length makes no sense")
	case size == lengthNull:
		return nil, src[n:], nil
	}
	end := n + int(size)
	return src[n:end:end], src[end:], nil
}
