package op

import (
	"math"

	"github.com/millrace-io/millrace/internal/cache"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Merge takes the aggregate of a session into another one. has says whether there is one; with keep false, or a nil result
// of a type that has a nil, there is none afterwards. Both aggregates belong to the function.
type Merge[K, A any] func(k K, agg A, has bool, session A) (out A, keep bool, err error)

// SessionAggregateSpec describes an aggregation of a stream by key and session.
type SessionAggregateSpec[K, V, A any] struct {
	Table   *TableSpec
	Windows window.SessionWindows
	// Init makes the aggregate that sessions are merged into, and a record is added to; nil if there is none.
	Init  func() A
	Merge Merge[K, A]
	Fold  Fold[K, V, A]
	// Late names the step that takes late records; empty: they are only counted. It is read when a task is built.
	Late *string
	// EmitOnClose sends the result of each session once, when it has closed, instead of each update. The store must not cache
	// then.
	EmitOnClose bool
	// TimeName is what the step's observed time is kept under; empty: the name of its store. See codec.InputTime.
	TimeName string
}

// NewSessionAggregate makes a table of one aggregate for each key and session. A record joins all sessions of its key that
// lie within the gap: from the initial aggregate on, theirs are merged in ascending order, then the record is added. The
// sessions that it absorbs are deleted first, oldest first, and then the new one is sent; where a session of one moment is
// hit again, it is only updated. Rows carry the end of their session as timestamp, and no headers.
//
// A record is late if the session that it would make has closed; the record itself moves the observed time first. A session
// that has closed takes no more records, unless the store is to keep sessions for longer, by the user's word. Records
// with a null key are dropped and counted before they move it; null values are passed to the aggregation, as in Kafka
// Streams. With EmitOnClose only the results of closed sessions are sent, in the order of end, start and key, with the headers
// of the record that closed them.
//
// In Kafka Streams: KStreamSessionWindowAggregate.
func NewSessionAggregate[K, V, A any](spec SessionAggregateSpec[K, V, A]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		late, table, err := splitLate[K, V](env, step, spec.Late, children)
		if err != nil {
			return nil, err
		}
		next, err := Downstream[window.Key[K], Change[A]](step, table)
		if err != nil {
			return nil, err
		}
		s, err := typedStore[*SessionStore[K, A]](env, step, spec.Table.Store)
		if err != nil {
			return nil, err
		}
		a := &sessionAggregate[K, V, A]{
			guard: newGuard(env, step), spec: spec, there: NotNil[A](), store: s, next: next, late: late,
			sendOld: spec.Table.SendOld, cached: s.cache.Dedupes(), nullKey: env.counter(step, metrics.NullKey),
		}
		a.cursor.s = s
		if a.cached {
			s.cache.OnFlush(a.flushed, spec.Table.SendOld)
			env.OnFlush(s.FlushCache)
		}
		timeName := spec.TimeName
		if timeName == "" {
			timeName = spec.Table.Store
		}
		env.ObserveTime(timeName, &a.observedMs)
		if spec.EmitOnClose {
			a.closing = newSessionCloser(s, a.send)
		}
		env.OnAdvance(step, a.advance)
		return a, nil
	})
}

type sessionAggregate[K, V, A any] struct {
	guard
	spec       SessionAggregateSpec[K, V, A]
	there      func(*A) bool
	store      *SessionStore[K, A]
	next       Sink[window.Key[K], Change[A]]
	late       lateOut[K, V]
	sendOld    bool
	cached     bool
	nullKey    *metrics.Counter
	observedMs int64
	closing    *sessionCloser[K, A] // nil: every update is sent

	key     []byte // the record's key, encoded
	session []byte // the key of a session, encoded
	scratch []byte
	cursor  sessionCursor[K, A]
	found   []sessionRow[A]
	out     processor.Record[window.Key[K], Change[A]]
}

func (a *sessionAggregate[K, V, A]) Process(r *processor.Record[K, V]) error {
	if r.NullKey {
		a.nullKey.Inc()
		return nil
	}
	a.observedMs = max(a.observedMs, r.TimestampMs)
	a.store.setTime(a.observedMs)
	closeMs := a.spec.Windows.CloseTimeMs(a.observedMs)
	// What has closed leaves before the record is added: its session would move the store's time, and with it old sessions
	// out of the store's sight.
	if a.closing != nil {
		if err := a.closing.emit(closeMs, r.Headers); err != nil {
			return err
		}
	}
	for attempt := 1; ; attempt++ {
		merged, err := a.find(r)
		// What the store would hide is late too: an input of a cogroup that lies far behind the others.
		if err == nil && (merged.EndMs < closeMs || a.store.hides(merged.EndMs)) {
			a.late.begin()
			a.late.miss(merged)
			return a.late.send(r, a.observedMs, false)
		}
		var c Change[A]
		if err == nil {
			c, err = a.fold(r)
		}
		if err == nil {
			err = a.storable(&c)
		}
		if err == nil {
			return a.replace(r, merged, c)
		}
		if retry, err := a.failed(err, attempt); !retry {
			return err
		}
	}
}

// find finds the sessions that a record joins, and the one that they make together.
func (a *sessionAggregate[K, V, A]) find(r *processor.Record[K, V]) (merged window.Window, err error) {
	merged = window.Window{StartMs: r.TimestampMs, EndMs: r.TimestampMs}
	a.found = a.found[:0]
	if a.key, err = a.store.appendKey(a.key[:0], r.Key); err != nil {
		return merged, err
	}
	gapMs := a.spec.Windows.GapMs()
	// What the store would not show at the step's time, which may be ahead of what has been put, is not joined either: with
	// the default retention that is what has closed, and final results stay final.
	fromMs := max(r.TimestampMs-gapMs, a.observedMs-a.store.keptMs+1)
	latestMs := int64(math.MaxInt64)
	if r.TimestampMs <= math.MaxInt64-gapMs {
		latestMs = r.TimestampMs + gapMs
	}
	if err := a.cursor.open(sessionQuery{key: a.key, fromMs: fromMs, toMs: math.MaxInt64, latestStartMs: latestMs}); err != nil {
		return merged, err
	}
	for a.cursor.next() {
		row := a.cursor.row
		merged.StartMs, merged.EndMs = min(merged.StartMs, row.startMs), max(merged.EndMs, row.endMs)
		a.found = append(a.found, row)
	}
	err = a.cursor.err
	if cerr := a.cursor.close(); err == nil {
		err = cerr
	}
	return merged, err
}

// fold makes the aggregate of the new session.
func (a *sessionAggregate[K, V, A]) fold(r *processor.Record[K, V]) (c Change[A], err error) {
	defer recovered(&err)
	var agg A
	var has bool
	if a.spec.Init != nil {
		agg = a.spec.Init()
		has = a.there(&agg)
	}
	for i := range a.found {
		agg, has, err = a.spec.Merge(r.Key, agg, has, a.found[i].v)
		if agg, has, err = row(agg, has && a.there(&agg), err); err != nil {
			return c, err
		}
	}
	agg, has, err = a.spec.Fold(r, agg, has)
	c.New, c.HasNew, err = row(agg, has && a.there(&agg), err)
	return c, err
}

// storable refuses a result that does not encode before the sessions that it replaces, if any, are removed. Where no handler passes
// over it such an error ends the task, and what was removed comes back with the state before it.
func (a *sessionAggregate[K, V, A]) storable(c *Change[A]) (err error) {
	if !a.env.Handlers.passOver() || !c.HasNew {
		return nil
	}
	a.scratch, err = a.store.value.Append(a.scratch[:0], c.New)
	return err
}

// replace removes the sessions that a record has joined, and puts the one that they make together. A cache writes out both or
// neither: were it full in between, and the task ended before its next commit, the record would come again and find them gone.
func (a *sessionAggregate[K, V, A]) replace(r *processor.Record[K, V], merged window.Window, c Change[A]) error {
	if !a.cached {
		return a.exchange(r, merged, c)
	}
	a.store.hold()
	if err := a.exchange(r, merged, c); err != nil {
		return err // the task ends, and the store with it
	}
	return a.env.fault(a.step, a.store.release())
}

func (a *sessionAggregate[K, V, A]) exchange(r *processor.Record[K, V], merged window.Window, c Change[A]) error {
	same := merged.StartMs == merged.EndMs // the session of one moment, hit again
	flushes, below := a.store.flushes, false
	for i := range a.found {
		row := &a.found[i]
		row.below = row.below || a.store.flushes != flushes // the cache may have been full, and all of it written out
		if row.startMs == merged.StartMs && row.endMs == merged.EndMs {
			below = row.below
		}
		if same {
			continue
		}
		if err := a.absorb(r, row); err != nil {
			return err
		}
	}
	k := window.Key[K]{Key: r.Key, Window: merged}
	a.session = codec.AppendSessionKey(a.session[:0], a.key, merged.StartMs, merged.EndMs)
	if same && len(a.found) > 0 {
		if err := a.before(&c); err != nil {
			return err
		}
	}
	below = below || a.store.flushes != flushes
	if err := a.store.put(a.session, k, c.New, c.HasNew, below, r.TimestampMs, a.env.waiting(r.Headers, r.TimestampMs)); err != nil {
		return a.env.fault(a.step, err)
	}
	if a.closing != nil {
		a.closing.put(a.key, merged)
	}
	return a.forward(k, c)
}

// advance takes the time of a quiet source: sessions close, and with emit-on-close their results leave.
func (a *sessionAggregate[K, V, A]) advance(toMs int64) error {
	a.observedMs = max(a.observedMs, toMs)
	a.store.setTime(a.observedMs)
	if a.closing == nil {
		return nil
	}
	return a.closing.emit(a.spec.Windows.CloseTimeMs(a.observedMs), nil)
}

// absorb removes a session that is part of another one from now on.
func (a *sessionAggregate[K, V, A]) absorb(r *processor.Record[K, V], row *sessionRow[A]) error {
	k := window.Key[K]{Key: r.Key, Window: window.Window{StartMs: row.startMs, EndMs: row.endMs}}
	a.session = codec.AppendSessionKey(a.session[:0], a.key, row.startMs, row.endMs)
	var c Change[A]
	if err := a.before(&c); err != nil {
		return err
	}
	if err := a.store.remove(a.session, k, row.below, r.TimestampMs, a.env.waiting(r.Headers, r.TimestampMs)); err != nil {
		return a.env.fault(a.step, err)
	}
	return a.forward(k, c)
}

// before finds what stood under the session that is about to change, where a later step needs it. It is read again: the
// aggregation may have changed in place what it was given.
func (a *sessionAggregate[K, V, A]) before(c *Change[A]) (err error) {
	if !a.sendOld || a.cached || a.closing != nil {
		return nil
	}
	c.Old, _, c.HasOld, err = a.store.cache.Get(a.session)
	return a.env.fault(a.step, err)
}

func (a *sessionAggregate[K, V, A]) forward(k window.Key[K], c Change[A]) error {
	if a.cached || a.closing != nil {
		return nil
	}
	return a.send(k, nil, c)
}

func (a *sessionAggregate[K, V, A]) send(k window.Key[K], headers serde.Headers, c Change[A]) error {
	a.out = processor.Record[window.Key[K], Change[A]]{Key: k, Value: c, TimestampMs: k.Window.EndMs, Headers: headers}
	return a.next.Process(&a.out)
}

func (a *sessionAggregate[K, V, A]) flushed(u *cache.Update[window.Key[K], A, current]) error {
	c := Change[A]{New: u.New, Old: u.Old, HasNew: u.HasNew, HasOld: u.HasOld}
	return a.env.withContext(u.Context, func() error { return a.send(u.Key, u.Context.headers, c) })
}
