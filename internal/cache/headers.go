package cache

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/serde"
)

// KeepsHeaders tells whether the store keeps headers beside its values.
func (s *Store[K, V, C]) KeepsHeaders() bool { return s.headersOf != nil }

// Headers returns the headers that are kept beside the value of an encoded key; none if there is no value. What is cached of
// a value that waits for nothing are not its headers, so they are read from the store below.
func (s *Store[K, V, C]) Headers(key []byte) (serde.Headers, error) {
	if s.headersOf == nil {
		return nil, nil
	}
	if e := s.entries[string(key)]; e != nil && (e.isDirty || !e.has) {
		if !e.has {
			return nil, nil
		}
		return s.headersOf(e.ctx), nil
	}
	local, ok, err := s.backing.Load(key)
	if err != nil || !ok {
		return nil, err
	}
	return s.DecodeHeaders(local)
}

// DecodeHeaders decodes the headers of a value in its local form. They belong to the caller.
func (s *Store[K, V, C]) DecodeHeaders(local []byte) (serde.Headers, error) {
	if s.headersOf == nil {
		return nil, nil
	}
	b, _, err := codec.SplitHeaders(local)
	if err != nil {
		return nil, damaged(err)
	}
	n, err := codec.CountHeaders(b)
	if n == 0 || err != nil {
		return nil, damaged(err)
	}
	headers := make(serde.Headers, 0, n)
	err = codec.EachHeader(append([]byte(nil), b...), func(key, value []byte) {
		headers = append(headers, serde.Header{Key: string(key), Value: value})
	})
	if err != nil {
		return nil, damaged(err)
	}
	return headers, nil
}

func damaged(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("millrace: %w; the store is damaged", err)
}

// Stamped takes the headers off a value in its local form: what is left is the timestamp and the encoded value.
func (s *Store[K, V, C]) Stamped(local []byte) ([]byte, error) {
	if s.headersOf == nil {
		return local, nil
	}
	_, rest, err := codec.SplitHeaders(local)
	return rest, damaged(err)
}

// prefix begins a value in its local form, in the task's slab: with the headers of a context, if the store keeps them. n is
// about how long the value is.
func (s *Store[K, V, C]) prefix(n int, ctx C) []byte {
	if s.headersOf == nil {
		return s.backing.Alloc(stampBytes + n)
	}
	headers := s.headersOf(ctx)
	room := stampBytes + n + 16
	for _, h := range headers {
		room += len(h.Key) + len(h.Value) + 8
	}
	return codec.AppendHeaders(s.backing.Alloc(room), len(headers), func(i int) (string, []byte) {
		return headers[i].Key, headers[i].Value
	})
}

// write writes a value in its local form, in which the encoded value begins at 'at'.
func (s *Store[K, V, C]) write(key, local []byte, at int, tsMs int64, ctx C) error {
	var value []byte
	if local != nil {
		value = local[at:]
	}
	var headers serde.Headers
	if s.headersOf != nil {
		headers = s.headersOf(ctx)
	}
	return s.backing.Write(key, local, value, headers, tsMs)
}
