package op

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/serde"
)

// JoinStoreFactory makes JoinStores.
type JoinStoreFactory[K, V any] struct {
	Spec  StoreSpec
	Key   serde.Serde[K]
	Value serde.Serde[V]
}

// Open makes the store of one task.
func (f *JoinStoreFactory[K, V]) Open(env *Env) (any, error) {
	name := f.Spec.Name
	w, err := env.Set.Window(name)
	if err != nil {
		return nil, err
	}
	s := &JoinStore[K, V]{
		env: env, name: name, w: w, log: newChangelog(env, f.Spec), key: guarded(f.Key), value: guarded(f.Value),
		expired: env.counter(name, metrics.ExpiredOnPut),
	}
	seq, _ := env.Set.Meta(name, state.SeqMeta)
	s.seq, s.seqKept = int32(seq), int32(seq)
	env.ObserveTime(name, &s.observedMs)
	env.OnCommit(s.keepSeq)
	return s, nil
}

// JoinStore holds the records of one side of a stream-stream join. Each has a number of its own, so that records of equal key
// and timestamp stand side by side; the numbers go on over restarts.
//
// In Kafka Streams: a WindowStore that retains duplicates.
type JoinStore[K, V any] struct {
	env     *Env
	name    string
	w       *state.WindowStore
	log     changelog
	key     serde.Serde[K]
	value   serde.Serde[V]
	expired *metrics.Counter
	buf     []byte // the key in process

	seq     int32 // given last
	seqKept int32 // as in the store's metadata

	observedMs int64     // the highest timestamp of this side
	join       *joinTime // of the join, in the store of its left side
}

// maxSeq is the highest number; the one after it is 0.
const maxSeq = 0x7fffffff

func (s *JoinStore[K, V]) nextSeq() int32 {
	s.seq = (s.seq + 1) & maxSeq
	return s.seq
}

// keepSeq writes the number given last beside the rows, before a unit is handed over. It cannot fail where the hand-over
// itself does not: both need the set to be open.
func (s *JoinStore[K, V]) keepSeq() {
	if s.seq != s.seqKept && s.env.Set.SetMeta(s.name, state.SeqMeta, int64(s.seq)) == nil {
		s.seqKept = s.seq
	}
}

func (s *JoinStore[K, V]) appendKey(dst []byte, k K) ([]byte, error) {
	b, err := s.key.Append(dst, k)
	if err != nil {
		return dst, fmt.Errorf("millrace: store %s: key does not encode: %w", s.name, err)
	}
	return b, nil
}

func (s *JoinStore[K, V]) appendValue(dst []byte, v V) ([]byte, error) {
	b, err := s.value.Append(dst, v)
	if err != nil {
		return dst, fmt.Errorf("millrace: store %s: value does not encode: %w", s.name, err)
	}
	return b, nil
}

// Put adds a record. Its headers go to the changelog, and only there.
func (s *JoinStore[K, V]) Put(k K, v V, tsMs int64, headers serde.Headers) error {
	key, err := s.appendKey(s.buf[:0], k)
	if err != nil {
		return err
	}
	s.buf = key
	local, err := s.appendValue(codec.AppendStamp(s.env.alloc(64), tsMs), v)
	if err != nil {
		return err
	}
	seq := s.nextSeq()
	accepted, err := s.w.Put(key, tsMs, uint32(seq), local)
	if err != nil {
		return s.env.fault(s.name, err)
	}
	if !accepted {
		s.expired.Inc()
	}
	if s.log.logged {
		value := s.env.keep(local)[codec.StampSize:]
		s.logRow(key, tsMs, seq, value, headers)
	}
	return s.env.overflow(s.name)
}

// PutNull is what a record with a null value leaves behind: nothing in the store, but a number is used up, and the changelog
// gets a deletion.
func (s *JoinStore[K, V]) PutNull(k K, tsMs int64, headers serde.Headers) error {
	key, err := s.appendKey(s.buf[:0], k)
	if err != nil {
		return err
	}
	s.buf = key
	seq := s.nextSeq()
	if s.log.logged {
		s.logRow(key, tsMs, seq, nil, headers)
	}
	return s.env.overflow(s.name)
}

func (s *JoinStore[K, V]) logRow(key []byte, tsMs int64, seq int32, value []byte, headers serde.Headers) {
	ck := s.env.keep(codec.AppendWindowKey(s.env.alloc(len(key)+codec.WindowSuffixSize), key, tsMs, seq))
	s.log.logWith(ck, value, headers, tsMs)
}

// fetch walks the records of a key by timestamp and number.
func (s *JoinStore[K, V]) fetch(key []byte, fromMs, toMs int64) (*state.Iterator, error) {
	it, err := s.w.Fetch(key, fromMs, toMs, false)
	return it, s.env.fault(s.name, err)
}

// decode decodes a stored value.
func (s *JoinStore[K, V]) decode(local []byte) (v V, err error) {
	_, b, err := codec.ParseStamped(local)
	if err == nil {
		v, err = s.value.Decode(b)
	}
	if err != nil {
		return v, fmt.Errorf("millrace: store %s: a stored value does not decode: %w; has the serde of the store changed?", s.name, err)
	}
	return v, nil
}
