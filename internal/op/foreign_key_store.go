package op

import (
	"encoding/binary"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/serde"
)

// SubscriptionFactory makes the stores that hold the right side's subscriptions of a foreign-key join.
type SubscriptionFactory struct{ Spec StoreSpec }

// Ranged tells that the store is walked in key order.
func (f *SubscriptionFactory) Ranged() bool { return true }

// Open makes the store of one task.
func (f *SubscriptionFactory) Open(env *Env) (any, error) {
	kv, err := env.Set.KeyValue(f.Spec.Name)
	if err != nil {
		return nil, err
	}
	return &subscriptionStore{env: env, name: f.Spec.Name, kv: kv, log: newChangelog(env, f.Spec)}, nil
}

// subscriptionStore holds which left rows wait for a foreign key. Its keys begin with the foreign key, so those of one
// stand side by side. Nothing is cached: a subscription is written as often as its left row, and read when the right row
// changes.
type subscriptionStore struct {
	env  *Env
	name string
	kv   *state.KV
	log  changelog
	from []byte // bounds of a walk
	to   []byte
}

// put keeps or forgets a subscription, as its instruction says. The changelog gets the headers of the update that led to it,
// as in Kafka Streams; nobody reads them.
func (s *subscriptionStore) put(foreignKey []byte, sub *codec.Subscription, tsMs int64, headers serde.Headers) error {
	key, err := codec.AppendCombinedKey(s.env.alloc(4+len(foreignKey)+len(sub.PrimaryKey)), foreignKey, sub.PrimaryKey)
	if err != nil {
		return err
	}
	key = s.env.keep(key)
	if !sub.Instruction.Keeps() {
		if err := s.kv.Delete(key); err != nil {
			return s.env.fault(s.name, err)
		}
		s.log.logWith(key, nil, headers, tsMs)
		return s.env.overflow(s.name)
	}
	local := binary.BigEndian.AppendUint64(s.env.alloc(8+32+len(sub.PrimaryKey)), uint64(tsMs))
	local = s.env.keep(codec.AppendSubscription(local, sub))
	if err := s.kv.Put(key, local); err != nil {
		return s.env.fault(s.name, err)
	}
	s.log.logWith(key, local[8:], headers, tsMs)
	return s.env.overflow(s.name)
}

// each calls f with each subscription of a foreign key, in the order of the bytes of the primary keys. What f is given is
// valid until it returns; f must not write to the store.
func (s *subscriptionStore) each(foreignKey []byte, f func(*codec.Subscription) error) (err error) {
	if s.from, err = codec.AppendForeignKeyPrefix(s.from[:0], foreignKey); err != nil {
		return err
	}
	s.to = after(append(s.to[:0], s.from...))
	it, err := s.kv.Range(s.from, s.to, false)
	if err != nil {
		return s.env.fault(s.name, err)
	}
	defer func() {
		if cerr := it.Close(); err == nil {
			err = s.env.fault(s.name, cerr)
		}
	}()
	for it.Next() {
		sub, err := codec.ParseSubscription(it.Value()[8:])
		if err != nil {
			return s.env.fault(s.name, err)
		}
		if err := f(&sub); err != nil {
			return err
		}
	}
	return s.env.fault(s.name, it.Err())
}

// after makes a prefix the smallest key behind all keys that begin with it. The prefix begins with the length of a foreign
// key, so that not all of its bytes are ff.
func after(prefix []byte) []byte {
	for prefix[len(prefix)-1] == 0xff {
		prefix = prefix[:len(prefix)-1]
	}
	prefix[len(prefix)-1]++
	return prefix
}
