package op

import (
	"github.com/millrace-io/millrace/internal/cache"
	"github.com/millrace-io/millrace/serde"
)

// cacheConfig is what stands between a store's steps and its bytes: a cache that collapses updates, if the store is to have
// one, and otherwise one of readBytes for what was read.
func cacheConfig[K, V any](env *Env, spec StoreSpec, b cache.Backing, value serde.Serde[V], readBytes int64) cache.Config[K, V, current] {
	cfg := cache.Config[K, V, current]{
		Backing: b, Value: guarded(value), MaxBytes: readBytes,
		Blame: func(c current, err error) error { return env.blame(spec.Name, c, err) },
	}
	if spec.KeepHeaders {
		cfg.Headers = current.keptHeaders
	}
	if spec.Cached && env.CacheBytes > 0 {
		cfg.Dedupe, cfg.MaxBytes, cfg.ReadBytes = true, env.CacheBytes, env.ReadCacheBytes
		// A handler can pass over a value that does not encode only where it is put.
		cfg.Check = env.Handlers.passOver() && !infallible(value)
	}
	return cfg
}
