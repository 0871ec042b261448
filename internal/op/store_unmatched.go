package op

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/state"
)

// The sides of a stream-stream join. The byte is the one in keys and values of the store of unmatched rows; with equal
// timestamps right rows come out first.
const (
	rightSide = 0
	leftSide  = 1
)

// UnmatchedFactory makes Unmatched stores. It is the same for all types: keys and values are encoded already.
type UnmatchedFactory struct {
	Spec        StoreSpec
	Left, Right bool // which sides wait for a match
}

// Ranged tells that rows are walked in the order of their keys.
func (f *UnmatchedFactory) Ranged() bool { return true }

// Open makes the store of one task.
func (f *UnmatchedFactory) Open(env *Env) (any, error) {
	kv, err := env.Set.KeyValue(f.Spec.Name)
	if err != nil {
		return nil, err
	}
	u := &Unmatched{env: env, name: f.Spec.Name, kv: kv, log: newChangelog(env, f.Spec)}
	u.heads[leftSide].all = !f.Left
	u.heads[rightSide].all = !f.Right
	return u, nil
}

// Unmatched holds the rows of a left or outer stream-stream join that have met no row of the other side yet. A key is
// timestamp, side, key; a value is the list of the values of all such rows.
//
// What is due is found without a scan: the earliest keys of each side are known in memory. They are read from the store when
// a task is made, and again when they are used up, so memory is bounded and each row is read over once for each side.
//
// In Kafka Streams: the shared outer-join store, a ListValueStore.
type Unmatched struct {
	env   *Env
	name  string
	kv    *state.KV
	log   changelog
	heads [2]sideHead
	key   []byte // scratch
}

// unmatchedKey is a key of the store with its timestamp.
type unmatchedKey struct {
	tsMs int64
	key  string
}

// sideHead is the start of one side: its earliest keys in ascending order.
type sideHead struct {
	keys []unmatchedKey
	// upTo bounds what keys is complete for: every key of the side below it is in keys, none at or above it. With all there is
	// no bound.
	upTo string
	all  bool
}

// maxHead is how many keys of a side are known at most.
const maxHead = 1024

func (h *sideHead) covers(key []byte) bool { return h.all || string(key) < h.upTo }

func (h *sideHead) search(key []byte) (int, bool) {
	n := len(h.keys)
	if n == 0 || h.keys[n-1].key < string(key) {
		return n, false // the usual case: time goes on
	}
	return slices.BinarySearchFunc(h.keys, key, func(e unmatchedKey, key []byte) int {
		switch {
		case e.key < string(key):
			return -1
		case e.key > string(key):
			return 1
		}
		return 0
	})
}

// add takes a key that is new in the store.
func (h *sideHead) add(tsMs int64, key []byte) {
	if !h.covers(key) {
		return
	}
	i, _ := h.search(key)
	h.keys = slices.Insert(h.keys, i, unmatchedKey{tsMs, string(key)})
	if len(h.keys) > maxHead {
		cut := len(h.keys) / 2
		h.upTo, h.all = h.keys[cut].key, false
		clear(h.keys[cut:])
		h.keys = h.keys[:cut]
	}
}

func (h *sideHead) remove(key []byte) {
	if i, ok := h.search(key); ok {
		if i == 0 {
			h.keys[0] = unmatchedKey{}
			h.keys = h.keys[1:]
			return
		}
		h.keys = slices.Delete(h.keys, i, i+1)
	}
}

// encode makes the key of a row in the scratch buffer.
func (u *Unmatched) encode(side byte, tsMs int64, key []byte) []byte {
	b := binary.BigEndian.AppendUint64(u.key[:0], uint64(tsMs))
	u.key = append(append(b, side), key...)
	return u.key
}

const unmatchedKeyAt = 8 + 1 // where the row's own key starts

// get returns the list of a key; ok is false if there is none, which mostly is known without reading.
func (u *Unmatched) get(side byte, key []byte) (list []byte, ok bool, err error) {
	if h := &u.heads[side]; h.covers(key) {
		if _, found := h.search(key); !found {
			return nil, false, nil
		}
	}
	local, ok, err := u.kv.Get(key)
	if err != nil || !ok {
		return nil, false, u.env.fault(u.name, err)
	}
	if _, list, err = codec.ParseStamped(local); err != nil {
		return nil, false, u.env.fault(u.name, err)
	}
	return list, true, nil
}

// Add lets a row wait. Rows of equal side, timestamp and key are kept in the order of their coming.
func (u *Unmatched) Add(side byte, tsMs int64, key, value []byte) error {
	k := u.encode(side, tsMs, key)
	list, there, err := u.get(side, k)
	if err != nil {
		return err
	}
	room := codec.StampSize + len(list) + len(value) + 16
	local := codec.AppendSidedValue(codec.AppendStamp(u.env.alloc(room), tsMs), list, side, value)
	if err := u.kv.Put(k, local); err != nil {
		return u.env.fault(u.name, err)
	}
	if u.log.logged {
		local = u.env.keep(local)
		u.log.log(u.keep(k), local[codec.StampSize:], tsMs)
	}
	if !there {
		u.heads[side].add(tsMs, k)
	}
	return u.env.overflow(u.name)
}

func (u *Unmatched) keep(key []byte) []byte { return u.env.keep(append(u.env.alloc(len(key)), key...)) }

// Match takes away all rows of a side, timestamp and key, if there are any: they have met a row of the other side. tsMs is
// the time of the change.
func (u *Unmatched) Match(side byte, rowMs int64, key []byte, tsMs int64) error {
	k := u.encode(side, rowMs, key)
	if _, there, err := u.get(side, k); err != nil || !there {
		return err
	}
	return u.remove(side, k, tsMs)
}

func (u *Unmatched) remove(side byte, key []byte, tsMs int64) error {
	if err := u.kv.Delete(key); err != nil {
		return u.env.fault(u.name, err)
	}
	if u.log.logged {
		u.log.log(u.keep(key), nil, tsMs)
	}
	u.heads[side].remove(key)
	return u.env.overflow(u.name)
}

// first returns the earliest key of a side.
func (u *Unmatched) first(side byte) (*unmatchedKey, error) {
	h := &u.heads[side]
	if len(h.keys) == 0 && !h.all {
		if err := u.refill(side); err != nil {
			return nil, err
		}
	}
	if len(h.keys) == 0 {
		return nil, nil
	}
	return &h.keys[0], nil
}

// refill reads the next keys of a side from the store.
func (u *Unmatched) refill(side byte) error {
	h := &u.heads[side]
	it, err := u.kv.Range([]byte(h.upTo), nil, false)
	if err != nil {
		return u.env.fault(u.name, err)
	}
	h.keys, h.all = make([]unmatchedKey, 0, maxHead/2), true
	for it.Next() {
		k := it.Key()
		if len(k) < unmatchedKeyAt {
			err = fmt.Errorf("millrace: store %s: it holds a key of %d bytes; timestamp and side alone take %d", u.name, len(k), unmatchedKeyAt)
			break
		}
		if k[8] != side {
			continue
		}
		if len(h.keys) == maxHead/2 {
			h.upTo, h.all = string(k), false
			break
		}
		h.keys = append(h.keys, unmatchedKey{int64(binary.BigEndian.Uint64(k)), string(k)})
	}
	return u.env.fault(u.name, errors.Join(err, it.Err(), it.Close()))
}

// due returns the earliest row that is due, in the order of the store: a row of a side is due if its timestamp is below the
// bound of the side.
func (u *Unmatched) due(bounds [2]int64) (side byte, k *unmatchedKey, err error) {
	for s := range u.heads {
		first, err := u.first(byte(s))
		if err != nil {
			return 0, nil, err
		}
		if first != nil && first.tsMs < bounds[s] && (k == nil || first.key < k.key) {
			side, k = byte(s), first
		}
	}
	return side, k, nil
}

// take removes a row that is due and returns its values, appended to dst.
func (u *Unmatched) take(dst []byte, side byte, key string, tsMs int64) ([]byte, error) {
	k := append(u.key[:0], key...)
	u.key = k
	list, there, err := u.get(side, k)
	if err != nil {
		return dst, err
	}
	if !there {
		return dst, u.env.fault(u.name, fmt.Errorf("millrace: store %s: the row %x is gone", u.name, k))
	}
	dst = append(dst, list...)
	return dst, u.remove(side, k, tsMs)
}
