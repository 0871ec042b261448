package op

import (
	"github.com/millrace-io/millrace/internal/cache"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/window"
)

// Getter reads the current value of a table in the same task.
//
// In Kafka Streams: KTableValueGetter.
type Getter[K, V any] interface {
	Lookup(k K) (v V, tsMs int64, ok bool, err error)
}

// VersionedGetter is a Getter of a versioned table: it knows what the table was at a time, too.
//
// In Kafka Streams: KTableValueGetter#isVersioned.
type VersionedGetter[K, V any] interface {
	Getter[K, V]
	// LookupAsOf reads the row that a key had at a time; fromMs is since when.
	LookupAsOf(k K, tsMs int64) (v V, fromMs int64, ok bool, err error)
}

// GetterFactory makes the Getter of a table for a step of a task.
type GetterFactory[K, V any] func(env *Env, step string) (Getter[K, V], error)

// Lookup makes a KVStore a Getter.
func (s *KVStore[K, V]) Lookup(k K) (V, int64, bool, error) { return s.get(k) }

// StoreGetter reads a table from its store.
func StoreGetter[K, V any](name string) GetterFactory[K, V] {
	return func(env *Env, step string) (Getter[K, V], error) {
		if s, ok := env.Stores[name].(*VersionedStore[K, V]); ok {
			return s, nil
		}
		return typedStore[*KVStore[K, V]](env, step, name)
	}
}

// WindowGetter reads a windowed table from its store.
func WindowGetter[K, V any](name string) GetterFactory[window.Key[K], V] {
	return func(env *Env, step string) (Getter[window.Key[K], V], error) {
		return typedStore[*WindowStore[K, V]](env, step, name)
	}
}

// MapGetter reads a table that is not materialised through the one it is derived from. f returns ok false for a row that
// the derived table has not.
func MapGetter[K, V, V2 any](parent GetterFactory[K, V], f func(K, V) (V2, bool, error)) GetterFactory[K, V2] {
	return func(env *Env, step string) (Getter[K, V2], error) {
		g, err := parent(env, step)
		if err != nil {
			return nil, err
		}
		m := mapGetter[K, V, V2]{parent: g, f: f}
		if v, ok := g.(VersionedGetter[K, V]); ok {
			return &versionedMapGetter[K, V, V2]{mapGetter: m, versions: v}, nil
		}
		return &m, nil
	}
}

// versionedMapGetter is a mapGetter over a versioned table.
type versionedMapGetter[K, V, V2 any] struct {
	mapGetter[K, V, V2]
	versions VersionedGetter[K, V]
}

func (g *versionedMapGetter[K, V, V2]) LookupAsOf(k K, tsMs int64) (v V2, fromMs int64, ok bool, err error) {
	p, fromMs, ok, err := g.versions.LookupAsOf(k, tsMs)
	if err != nil || !ok {
		return v, 0, false, err
	}
	v, ok, err = g.call(k, p)
	return v, fromMs, ok, err
}

type mapGetter[K, V, V2 any] struct {
	parent Getter[K, V]
	f      func(K, V) (V2, bool, error)
}

func (g *mapGetter[K, V, V2]) Lookup(k K) (v V2, tsMs int64, ok bool, err error) {
	p, tsMs, ok, err := g.parent.Lookup(k)
	if err != nil || !ok {
		return v, 0, false, err
	}
	v, ok, err = g.call(k, p)
	return v, tsMs, ok, err
}

func (g *mapGetter[K, V, V2]) call(k K, p V) (v V2, ok bool, err error) {
	defer recovered(&err)
	return row(g.f(k, p))
}

// row clears the value of a row that is not there: whoever gets it sees the zero value.
func row[V any](v V, ok bool, err error) (V, bool, error) {
	if !ok || err != nil {
		var zero V
		return zero, false, err
	}
	return v, true, nil
}

// TableSpec says what a table step keeps and forwards. It is read when a task is built, so what later steps ask of a
// table (a store, old values) may be set until then.
type TableSpec struct {
	Store   string // empty: not materialised
	SendOld bool   // send the values that stood before along: a later step needs them
	// Before says that a later step asks for rows as they were sent last: see BeforeGetter. The values that stood before are
	// sent along then too, but a filter does not act on them.
	Before bool
	// Versioned says that the table before is a versioned one: then a filter passes each update on, even where there is no
	// row before and after, because it says something about its time.
	Versioned bool
}

// old says whether the values that stood before are sent along.
func (s *TableSpec) old() bool { return s.SendOld || s.Before }

// tableOut is the way out of a table step: into its store, if it has one, and on to the next steps, at once or when the
// store's cache is flushed.
type tableOut[K, V any] struct {
	env   *Env
	spec  *TableSpec
	store *KVStore[K, V]
	// versions is the store of a versioned table, instead of store.
	versions *VersionedStore[K, V]
	// expired says that the last put was older than the history of a versioned store. It changed nothing, so nothing is sent.
	expired bool
	cached  bool
	next    Sink[K, Change[V]]
	out     processor.Record[K, Change[V]]
	key     []byte
}

func newTableOut[K, V any](env *Env, step string, spec *TableSpec, children []Child) (*tableOut[K, V], error) {
	next, err := Downstream[K, Change[V]](step, children)
	if err != nil {
		return nil, err
	}
	t := &tableOut[K, V]{env: env, spec: spec, next: next}
	if spec.Store == "" {
		return t, nil
	}
	if v, ok := env.Stores[spec.Store].(*VersionedStore[K, V]); ok {
		t.versions = v
		return t, nil
	}
	if t.store, err = typedStore[*KVStore[K, V]](env, step, spec.Store); err != nil {
		return nil, err
	}
	if t.cached = t.store.cache.Dedupes(); t.cached {
		t.store.cache.OnFlush(t.flushed, spec.old())
		env.OnFlush(t.store.FlushCache)
	}
	return t, nil
}

// encode encodes a key into a buffer of this step's own.
func (t *tableOut[K, V]) encode(k K) ([]byte, error) {
	var b []byte
	var err error
	if t.versions != nil {
		b, err = t.versions.appendKey(t.key[:0], k)
	} else {
		b, err = t.store.appendKey(t.key[:0], k)
	}
	if err != nil {
		return nil, err
	}
	t.key = b
	return b, nil
}

// kept tells whether the table has a store.
func (t *tableOut[K, V]) kept() bool { return t.store != nil || t.versions != nil }

// Get returns the row of an encoded key: of a versioned table the latest one.
func (t *tableOut[K, V]) Get(key []byte) (v V, tsMs int64, ok bool, err error) {
	if t.versions != nil {
		return t.versions.latest(key)
	}
	return t.store.cache.Get(key)
}

// update puts the value of a record's key into the store, if there is one, without forwarding it.
func (t *tableOut[K, V]) update(k K, headers serde.Headers, c *Change[V], tsMs int64) error {
	if !t.kept() {
		return nil
	}
	key, err := t.encode(k)
	if err != nil {
		return err
	}
	if t.spec.old() && !t.cached {
		if c.Old, _, c.HasOld, err = t.Get(key); err != nil {
			return err
		}
	}
	return t.put(key, k, headers, c, tsMs, tsMs)
}

// put sets the value of an encoded key. tsMs is the value's timestamp, recordMs that of the record that led to it. A versioned
// table tells here whether the update is stale, and takes none that is older than its history: sent does nothing then. In any
// other table the last update is the latest.
func (t *tableOut[K, V]) put(key []byte, k K, headers serde.Headers, c *Change[V], tsMs, recordMs int64) (err error) {
	c.Stale = false
	if t.versions != nil {
		placed, err := t.versions.put(key, c.New, c.HasNew, tsMs)
		c.Stale, t.expired = placed == store.Behind, placed == store.TooOld
		return err
	}
	return t.store.cache.Put(key, k, c.New, c.HasNew, storedMs(c, tsMs, recordMs), t.env.waiting(headers, recordMs))
}

// storedMs is the timestamp under which an update is stored and logged: that of the value, and for a deletion, which has
// no value, that of the record. So does Kafka Streams.
func storedMs[V any](c *Change[V], tsMs, recordMs int64) int64 {
	if c.HasNew {
		return tsMs
	}
	return recordMs
}

// waiting is the context that a write to a cache keeps of the record in process. It leaves the record's bytes, which would
// pin whole fetches.
func (e *Env) waiting(headers serde.Headers, tsMs int64) current {
	c := e.cur
	c.raw, c.headers, c.tsMs = nil, headers, tsMs
	return c
}

// sent forwards an update that has been put, unless the flush of the cache is to do so.
func (t *tableOut[K, V]) sent(k K, headers serde.Headers, c Change[V], tsMs int64) error {
	if t.cached {
		return nil
	}
	if t.expired {
		t.expired = false
		return nil
	}
	t.out = processor.Record[K, Change[V]]{Key: k, Value: c, TimestampMs: tsMs, Headers: headers}
	return t.forward(t.key)
}

// forward sends the record that stands in t.out, of the encoded key.
func (t *tableOut[K, V]) forward(key []byte) error {
	if !t.spec.Before || !t.kept() || t.out.Value.Stale {
		return t.next.Process(&t.out)
	}
	t.begin(key, &t.out.Value)
	err := t.next.Process(&t.out)
	t.end()
	return err
}

func (t *tableOut[K, V]) flushed(u *cache.Update[K, V, current]) error {
	return t.env.withContext(u.Context, func() error {
		t.out = processor.Record[K, Change[V]]{
			Key: u.Key, Value: Change[V]{New: u.New, Old: u.Old, HasNew: u.HasNew, HasOld: u.HasOld},
			TimestampMs: u.TimestampMs, Headers: u.Context.headers,
		}
		if !t.spec.Before {
			return t.next.Process(&t.out)
		}
		key, err := t.encode(u.Key)
		if err != nil {
			return err
		}
		return t.forward(key)
	})
}

// NewTableSource makes a stream's records updates of a table: a table's source, and a stream turned into a table. The last
// record that arrives wins, whatever its timestamp.
func NewTableSource[K, V any](spec *TableSpec) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		out, err := newTableOut[K, V](env, step, spec, children)
		if err != nil {
			return nil, err
		}
		return &tableSource[K, V]{guard: newGuard(env, step), out: out, nullKey: env.counter(step, metrics.NullKey)}, nil
	})
}

type tableSource[K, V any] struct {
	guard
	out     *tableOut[K, V]
	nullKey *metrics.Counter
}

func (t *tableSource[K, V]) Process(r *processor.Record[K, V]) error {
	if r.NullKey {
		t.nullKey.Inc()
		return nil
	}
	for attempt := 1; ; attempt++ {
		c := Change[V]{New: r.Value, HasNew: !r.NullValue}
		err := t.out.update(r.Key, r.Headers, &c, r.TimestampMs)
		if err == nil {
			return t.out.sent(r.Key, r.Headers, c, r.TimestampMs)
		}
		if retry, err := t.failed(err, attempt); !retry {
			return err
		}
	}
}

// NewTableMap derives a table from a table. f returns ok false where the derived table has no row; it is not called for
// deletions. filter says that f only drops rows: then an update that neither showed before nor shows now is not sent, if
// old values are at hand.
func NewTableMap[K, V, V2 any](spec *TableSpec, filter bool, f func(K, V) (V2, bool, error)) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		out, err := newTableOut[K, V2](env, step, spec, children)
		if err != nil {
			return nil, err
		}
		return &tableMap[K, V, V2]{guard: newGuard(env, step), out: out, f: f, filter: filter}, nil
	})
}

type tableMap[K, V, V2 any] struct {
	guard
	out    *tableOut[K, V2]
	f      func(K, V) (V2, bool, error)
	filter bool
}

func (t *tableMap[K, V, V2]) Process(r *processor.Record[K, Change[V]]) error {
	for attempt := 1; ; attempt++ {
		c, shown, err := t.update(r)
		if err == nil {
			if !shown {
				return nil
			}
			return t.out.sent(r.Key, r.Headers, c, r.TimestampMs)
		}
		if retry, err := t.failed(err, attempt); !retry {
			return err
		}
	}
}

// update computes and stores a row. shown is false where the row was not there before and is not now.
func (t *tableMap[K, V, V2]) update(r *processor.Record[K, Change[V]]) (c Change[V2], shown bool, err error) {
	if c, err = t.call(r); err != nil {
		return c, false, err
	}
	var key []byte
	if t.out.kept() {
		if key, err = t.out.encode(r.Key); err != nil {
			return c, false, err
		}
		if t.out.spec.old() {
			// What stood before is what the store has, not what the table before made of its own old value.
			if c.Old, _, c.HasOld, err = t.out.Get(key); err != nil {
				return c, false, err
			}
		}
	}
	if t.filter && !t.out.spec.Versioned && t.out.spec.SendOld && !c.HasNew && !c.HasOld {
		return c, false, nil
	}
	if !t.out.kept() {
		return c, true, nil
	}
	return c, true, t.out.put(key, r.Key, r.Headers, &c, r.TimestampMs, r.TimestampMs)
}

func (t *tableMap[K, V, V2]) call(r *processor.Record[K, Change[V]]) (c Change[V2], err error) {
	defer recovered(&err)
	c.Stale = r.Value.Stale
	if r.Value.HasNew {
		if c.New, c.HasNew, err = row(t.f(r.Key, r.Value.New)); err != nil {
			return c, err
		}
	}
	if t.out.spec.old() && !t.out.kept() && r.Value.HasOld {
		c.Old, c.HasOld, err = row(t.f(r.Key, r.Value.Old))
	}
	return c, err
}

// NewToStream turns a table's updates into a stream: a deletion is a record with a null value.
func NewToStream[K, V any]() Factory {
	return FactoryFunc(func(_ *Env, step string, children []Child) (any, error) {
		next, err := Downstream[K, V](step, children)
		return &toStream[K, V]{next: next}, err
	})
}

type toStream[K, V any] struct {
	next Sink[K, V]
	out  processor.Record[K, V]
}

func (t *toStream[K, V]) Process(r *processor.Record[K, Change[V]]) error {
	t.out = processor.Record[K, V]{
		Key: r.Key, Value: r.Value.New, NullValue: !r.Value.HasNew, TimestampMs: r.TimestampMs, Headers: r.Headers,
	}
	return t.next.Process(&t.out)
}

// NotNil tells for a type whether a value is there: a nil of a type that has one is a null.
func NotNil[V any]() func(*V) bool {
	isNil := nilness.Checker[V]()
	if isNil == nil {
		return func(*V) bool { return true }
	}
	return func(v *V) bool { return !isNil(v) }
}
