package op

import "github.com/millrace-io/millrace/serde"

// shown is the entry that an iterator stands on, as store.Iterator shows it to its user, and what ended the walk.
type shown[K, V any] struct {
	k       K
	v       V
	tsMs    int64
	headers serde.Headers // nil unless the store keeps them
	err     error
}

func (s *shown[K, V]) Key() K                 { return s.k }
func (s *shown[K, V]) Value() V               { return s.v }
func (s *shown[K, V]) TimestampMs() int64     { return s.tsMs }
func (s *shown[K, V]) Headers() serde.Headers { return s.headers }
func (s *shown[K, V]) Err() error             { return s.err }
