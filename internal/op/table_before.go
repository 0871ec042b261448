package op

import "bytes"

// A table that is derived from another changes with it: when the first of the two tells a join of its update, the other
// one, if it is read, shows what it has become already, though the join has not been told of that yet. What the joined
// table had is then not to be seen any more. So a table can also be asked for a row as it was sent last: the value before
// an update that is being sent right now, or that still waits in a cache. See docs/adr/0011-tables-as-they-were-sent.md.

// sentState says what is known of a row's last update.
type sentState uint8

const (
	allSent sentState = iota // the steps that follow have seen what the table has
	waiting                  // the update waits in a cache
	sending                  // the update is being sent, and has reached some of the steps that follow and others not
)

// BeforeGetter is a Getter that can also be asked for a row as the steps that follow were sent it last.
type BeforeGetter[K, V any] interface {
	Before(k K) (v V, ok bool, state sentState, err error)
}

// before asks a getter for a row as it was sent last. Of one that cannot say, every update counts as sent, and the value
// is not to be used.
func before[K, V any](g Getter[K, V], k K) (v V, ok bool, state sentState, err error) {
	if b, can := g.(BeforeGetter[K, V]); can {
		return b.Before(k)
	}
	return v, false, allSent, nil
}

// sentRow is a row of a store whose update is being sent.
type sentRow[V any] struct {
	on  bool
	key []byte
	old V
	has bool // there was a row before
}

func (r *sentRow[V]) is(key []byte) bool { return r.on && bytes.Equal(r.key, key) }

// begin notes that the update of an encoded key is being sent, end that it has been.
func (t *tableOut[K, V]) begin(key []byte, c *Change[V]) {
	r := t.sentRow()
	r.on, r.key, r.old, r.has = true, append(r.key[:0], key...), c.Old, c.HasOld
	t.env.beginSending()
}

func (t *tableOut[K, V]) end() {
	var zero V
	r := t.sentRow()
	r.on, r.old = false, zero
	t.env.endSending()
}

func (t *tableOut[K, V]) sentRow() *sentRow[V] {
	if t.versions != nil {
		return &t.versions.row
	}
	return &t.store.row
}

// Before returns the latest row of a versioned table as it was sent last.
func (s *VersionedStore[K, V]) Before(k K) (v V, ok bool, state sentState, err error) {
	key, err := s.encode(k)
	if err != nil || !s.row.is(key) {
		return v, false, allSent, err
	}
	return s.row.old, s.row.has, sending, nil
}

// beginSending numbers the updates of tables that lead to others: what follows from one has its number.
func (e *Env) beginSending() {
	if e.sendingDepth == 0 {
		e.sendingNo++
	}
	e.sendingDepth++
}

func (e *Env) endSending() { e.sendingDepth-- }

// Before returns a row as it was sent last. Without an update that is under way nothing is read.
func (s *KVStore[K, V]) Before(k K) (v V, ok bool, state sentState, err error) {
	key, err := s.encode(k)
	if err != nil {
		return v, false, allSent, err
	}
	if s.row.is(key) {
		return s.row.old, s.row.has, sending, nil
	}
	v, ok, isWaiting, err := s.cache.Before(key)
	if isWaiting {
		state = waiting
	}
	return v, ok, state, err
}

// Before returns a row of a derived table as it was sent last.
func (g *mapGetter[K, V, V2]) Before(k K) (v V2, ok bool, state sentState, err error) {
	p, ok, state, err := before(g.parent, k)
	if err != nil || !ok || state == allSent {
		return v, false, state, err
	}
	v, ok, err = g.call(k, p)
	return v, ok, state, err
}
