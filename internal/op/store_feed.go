package op

import (
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
)

// NewStoreFeed puts a topic's records into a read-only store. Those with a null key are dropped and counted.
func NewStoreFeed[K, V any](name string) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		if _, err := Downstream[K, V](step, children); err != nil {
			return nil, err
		}
		s, err := typedStore[*KVStore[K, V]](env, step, name)
		if err != nil {
			return nil, err
		}
		return &storeFeed[K, V]{guard: newGuard(env, step), store: s, nullKey: env.counter(step, metrics.NullKey)}, nil
	})
}

type storeFeed[K, V any] struct {
	guard
	store   *KVStore[K, V]
	nullKey *metrics.Counter
}

func (f *storeFeed[K, V]) Process(r *processor.Record[K, V]) error {
	if r.NullKey {
		f.nullKey.Inc()
		return nil
	}
	for attempt := 1; ; attempt++ {
		err := f.put(r)
		if err == nil {
			return nil
		}
		if retry, err := f.failed(err, attempt); !retry {
			return err
		}
	}
}

func (f *storeFeed[K, V]) put(r *processor.Record[K, V]) error {
	s := f.store
	b, err := s.encode(r.Key)
	if err != nil {
		return err
	}
	return s.cache.Put(b, r.Key, r.Value, !r.NullValue && s.there(&r.Value), r.TimestampMs, s.context())
}
