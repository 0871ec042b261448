package op

import (
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/processor"
)

// LookupJoinSpec describes a join of a stream with a table, local or global: each stream record looks up one row.
type LookupJoinSpec[K, V, KT, VT, R any] struct {
	Left  bool // keep records without a row
	Table GetterFactory[KT, VT]
	// Key finds the table's key; ok false is a null key. Nil: the stream's own key, whose null flag counts.
	Key func(k K, v V) (key KT, ok bool, err error)
	// OwnKey converts the stream's key where Key is nil.
	OwnKey func(k K) KT
	Join   func(k K, v V, row VT, found bool) (R, error)
}

// NewLookupJoin joins each stream record with the row that the table has at that moment; if the table is versioned, with the
// one that it had at the record's timestamp. Records with a null value, and
// for an inner join those with a null (mapped) key, are dropped and counted.
func NewLookupJoin[K, V, KT, VT, R any](spec LookupJoinSpec[K, V, KT, VT, R]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[K, R](step, children)
		if err != nil {
			return nil, err
		}
		table, err := spec.Table(env, step)
		if err != nil {
			return nil, err
		}
		versions, _ := table.(VersionedGetter[KT, VT])
		return &lookupJoin[K, V, KT, VT, R]{
			guard: newGuard(env, step), spec: spec, table: table, versions: versions, next: next, nilValue: nilness.Checker[R](),
			nullKey: env.counter(step, metrics.NullKey), nullValue: env.counter(step, metrics.NullValue),
		}, nil
	})
}

type lookupJoin[K, V, KT, VT, R any] struct {
	guard
	spec               LookupJoinSpec[K, V, KT, VT, R]
	table              Getter[KT, VT]
	versions           VersionedGetter[KT, VT] // table, if it is versioned
	next               Sink[K, R]
	nilValue           func(*R) bool
	nullKey, nullValue *metrics.Counter
	out                processor.Record[K, R]
}

type lookup uint8

const (
	joined lookup = iota
	noRow
	noKey
)

func (j *lookupJoin[K, V, KT, VT, R]) Process(r *processor.Record[K, V]) error {
	if r.NullValue {
		j.nullValue.Inc()
		return nil
	}
	for attempt := 1; ; attempt++ {
		found, err := j.call(r)
		if err == nil {
			switch found {
			case noKey:
				j.nullKey.Inc()
				return nil
			case noRow:
				return nil
			}
			return j.next.Process(&j.out)
		}
		if retry, err := j.failed(err, attempt); !retry {
			return err
		}
	}
}

func (j *lookupJoin[K, V, KT, VT, R]) call(r *processor.Record[K, V]) (res lookup, err error) {
	defer recovered(&err)
	var key KT
	ok := !r.NullKey
	switch {
	case j.spec.Key != nil:
		if key, ok, err = j.spec.Key(r.Key, r.Value); err != nil {
			return 0, err
		}
	case ok:
		key = j.spec.OwnKey(r.Key)
	}
	if !ok && !j.spec.Left {
		return noKey, nil
	}
	var row VT
	found := false
	if ok {
		if j.versions != nil {
			row, _, found, err = j.versions.LookupAsOf(key, r.TimestampMs)
		} else {
			row, _, found, err = j.table.Lookup(key)
		}
		if err != nil {
			return 0, err
		}
	}
	if !found && !j.spec.Left {
		return noRow, nil
	}
	j.out = processor.Record[K, R]{Key: r.Key, NullKey: r.NullKey, TimestampMs: r.TimestampMs, Headers: r.Headers}
	if j.out.Value, err = j.spec.Join(r.Key, r.Value, row, found); err != nil {
		return 0, err
	}
	if j.nilValue != nil {
		j.out.NullValue = j.nilValue(&j.out.Value)
	}
	return joined, nil
}
