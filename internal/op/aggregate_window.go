package op

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace/internal/cache"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// WindowAggregateSpec describes an aggregation of a stream by key and window, of fixed and of sliding windows.
type WindowAggregateSpec[K, V, A any] struct {
	Table *TableSpec
	Fold  Fold[K, V, A]
	Init  func() A // see AggregateSpec
	// Late names the step that takes late records; empty: they are only counted. It is read when a task is built.
	Late *string
	// EmitOnClose sends the result of each window once, when it has closed, instead of each update. The store must not
	// cache then.
	EmitOnClose bool
	// TimeName is what the step's observed time is kept under; empty: the name of its store. Steps that share a store need
	// names of their own.
	TimeName string
}

// NewWindowAggregate makes a table of one aggregate for each key and window, where windows lie fixed on the time line. A
// window is closed once the operator has seen a timestamp of at least its end plus grace; the record itself moves that time
// first. Records with a null key are dropped and counted before they move it; null values are passed to the aggregation, as
// in Kafka Streams. Windows are updated in the order of their starts.
//
// In Kafka Streams: KStreamWindowAggregate.
func NewWindowAggregate[K, V, A any](windows window.Enumerable, spec WindowAggregateSpec[K, V, A]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		late, table, err := splitLate[K, V](env, step, spec.Late, children)
		if err != nil {
			return nil, err
		}
		out, err := newWindowOut[K, A](env, step, spec.Table, spec.TimeName, table)
		if err != nil {
			return nil, err
		}
		w := &windowAggregate[K, V, A]{
			folder: newFolder(env, step, spec.Fold, spec.Init), windowOut: out, windows: windows, graceMs: windows.GraceMs(),
			late: late, nullKey: env.counter(step, metrics.NullKey), noWindow: env.counter(step, metrics.NoWindow),
		}
		w.time, w.isTime = windows.(window.Time)
		w.foreign = !builtIn(windows)
		if spec.EmitOnClose {
			w.closing = newWindowCloser(out, windows)
		}
		env.OnAdvance(step, w.advance)
		return w, nil
	})
}

// builtIn tells whether windows are of a kind of ours, whose answers need no checks.
func builtIn(w window.Enumerable) bool {
	switch w.(type) {
	case window.Time, window.UnlimitedWindows, window.CalendarWindows:
		return true
	}
	return false
}

type windowAggregate[K, V, A any] struct {
	folder[K, V, A]
	*windowOut[K, A]
	windows window.Enumerable
	time    window.Time // windows, if isTime: the usual kind is called directly
	isTime  bool
	foreign bool // the windows are the user's own
	graceMs int64
	closing *windowCloser[K, A] // nil: every update is sent
	late    lateOut[K, V]

	nullKey, noWindow *metrics.Counter

	in []window.Window // the windows of the record in process
}

func (w *windowAggregate[K, V, A]) Process(r *processor.Record[K, V]) error {
	if r.NullKey {
		w.nullKey.Inc()
		return nil
	}
	w.observedMs = max(w.observedMs, r.TimestampMs)
	closeMs := w.observedMs - w.graceMs
	// What has closed leaves before the record is added: its window would move the store's time, and with it old windows out
	// of the store's sight.
	if w.closing != nil {
		if err := w.closing.emit(closeMs, r.Headers); err != nil {
			return err
		}
	}
	if ok, err := w.windowsOf(r); !ok {
		return err
	}
	w.late.begin()
	for _, win := range w.in {
		// What the store hides is late too: an input of a cogroup that lies far behind the others would write over it.
		if win.EndMs <= closeMs || w.store.hides(win.StartMs) {
			w.late.miss(win)
			continue
		}
		if err := w.add(r, win); err != nil {
			return err
		}
	}
	return w.late.send(r, w.observedMs, len(w.late.missed) < len(w.in))
}

// windowsOf finds the windows of a record. ok is false if it ends here: it belongs to none, or the policy passes over the
// error of windows of the user's own.
func (w *windowAggregate[K, V, A]) windowsOf(r *processor.Record[K, V]) (ok bool, err error) {
	switch {
	case w.isTime:
		w.in = w.time.AppendWindows(w.in[:0], r.TimestampMs)
	case !w.foreign:
		w.in = w.windows.AppendWindows(w.in[:0], r.TimestampMs)
	default:
		for attempt := 1; ; attempt++ {
			if w.in, err = appendForeign(w.in[:0], w.windows, r.TimestampMs); err == nil {
				break
			}
			if retry, err := w.failed(err, attempt); !retry {
				return false, err
			}
		}
	}
	if len(w.in) == 0 {
		w.noWindow.Inc()
		return false, nil
	}
	return true, nil
}

// appendForeign asks windows of the user's own and checks what they say.
func appendForeign(dst []window.Window, w window.Enumerable, tsMs int64) (out []window.Window, err error) {
	out = dst
	defer recovered(&err)
	out = w.AppendWindows(dst, tsMs)
	for i, win := range out {
		switch {
		case win.StartMs < 0:
			err = fmt.Errorf("window %s starts before the Unix epoch; the first one may start there", span(win))
		case win.EndMs <= win.StartMs:
			err = fmt.Errorf("window %s ends at or before its start", span(win))
		case tsMs < win.StartMs || tsMs >= win.EndMs:
			err = fmt.Errorf("window %s does not hold the timestamp %d", span(win), tsMs)
		case i > 0 && win.StartMs <= out[i-1].StartMs:
			err = fmt.Errorf("window %s comes behind %s; give them in ascending order of their start, each once", span(win), span(out[i-1]))
		default:
			if at := w.WindowAt(win.StartMs); at != win {
				err = fmt.Errorf("window %s is %s by WindowAt(%d); both must agree, because stores keep only the start", span(win), span(at), win.StartMs)
			}
		}
		if err != nil {
			return out, fmt.Errorf("millrace: windows of %T for the timestamp %d: %w", w, tsMs, err)
		}
	}
	return out, nil
}

func span(w window.Window) string { return fmt.Sprintf("[%d, %d)", w.StartMs, w.EndMs) }

// advance takes the time of a quiet source: windows close, and with emit-on-close their results leave.
func (w *windowAggregate[K, V, A]) advance(toMs int64) error {
	w.observedMs = max(w.observedMs, toMs)
	if w.closing == nil {
		return nil
	}
	return w.closing.emit(w.observedMs-w.graceMs, nil)
}

// add takes a record into one window. A failure that the policy passes over costs the record this window alone.
func (w *windowAggregate[K, V, A]) add(r *processor.Record[K, V], win window.Window) error {
	k := window.Key[K]{Key: r.Key, Window: win}
	for attempt := 1; ; attempt++ {
		c, tsMs, err := w.update(r, k)
		if err == nil {
			if w.closing != nil {
				return nil
			}
			return w.sent(k, r.Headers, c, tsMs)
		}
		if retry, err := w.failed(err, attempt); !retry {
			return err
		}
	}
}

func (w *windowAggregate[K, V, A]) update(r *processor.Record[K, V], k window.Key[K]) (c Change[A], tsMs int64, err error) {
	key, err := w.encode(r.Key, k.Window.StartMs)
	if err != nil {
		return c, 0, err
	}
	agg, tsMs, has, err := w.store.cache.Get(key)
	if err != nil {
		return c, 0, err
	}
	if c.New, c.HasNew, err = w.fold(r, agg, has); err != nil {
		return c, 0, err
	}
	if !has || r.TimestampMs > tsMs {
		tsMs = r.TimestampMs
	}
	if w.sendOld && !w.cached {
		if c.Old, c.HasOld, err = old(&w.folder, w.store.cache, key, has); err != nil {
			return c, 0, err
		}
	}
	return c, tsMs, w.put(key, k, r.Headers, &c, tsMs, r.TimestampMs)
}

// windowOut is the table that a windowed aggregation makes: its store, its observed time, and the steps that follow.
type windowOut[K, A any] struct {
	env        *Env
	step       string
	store      *WindowStore[K, A]
	next       Sink[window.Key[K], Change[A]]
	sendOld    bool
	cached     bool
	observedMs int64

	key []byte // the key and the start of the window in process
	rec processor.Record[window.Key[K], Change[A]]
}

func newWindowOut[K, A any](env *Env, step string, table *TableSpec, timeName string, children []Child) (*windowOut[K, A], error) {
	next, err := Downstream[window.Key[K], Change[A]](step, children)
	if err != nil {
		return nil, err
	}
	s, err := typedStore[*WindowStore[K, A]](env, step, table.Store)
	if err != nil {
		return nil, err
	}
	o := &windowOut[K, A]{env: env, step: step, store: s, next: next, sendOld: table.SendOld, cached: s.cache.Dedupes()}
	if o.cached {
		s.cache.OnFlush(o.flushed, table.SendOld)
		env.OnFlush(s.FlushCache)
	}
	if timeName == "" {
		timeName = table.Store
	}
	env.ObserveTime(timeName, &o.observedMs)
	return o, nil
}

// encode encodes a key and the start of a window. The result is valid until the next call.
func (o *windowOut[K, A]) encode(k K, startMs int64) ([]byte, error) {
	b, err := o.store.appendKey(o.key[:0], k)
	if err != nil {
		return nil, err
	}
	o.key = binary.BigEndian.AppendUint64(b, uint64(startMs))
	return o.key, nil
}

// put sets the value of an encoded key. tsMs is the value's timestamp, recordMs that of the record that led to it.
func (o *windowOut[K, A]) put(key []byte, k window.Key[K], headers serde.Headers, c *Change[A], tsMs, recordMs int64) error {
	return o.store.putEncoded(key, k, c.New, c.HasNew, storedMs(c, tsMs, recordMs), o.env.waiting(headers, recordMs))
}

// sent forwards an update that has been put, unless the flush of the cache is to do so.
func (o *windowOut[K, A]) sent(k window.Key[K], headers serde.Headers, c Change[A], tsMs int64) error {
	if o.cached {
		return nil
	}
	return o.forward(k, headers, c, tsMs)
}

func (o *windowOut[K, A]) forward(k window.Key[K], headers serde.Headers, c Change[A], tsMs int64) error {
	o.rec = processor.Record[window.Key[K], Change[A]]{Key: k, Value: c, TimestampMs: tsMs, Headers: headers}
	return o.next.Process(&o.rec)
}

func (o *windowOut[K, A]) flushed(u *cache.Update[window.Key[K], A, current]) error {
	c := Change[A]{New: u.New, Old: u.Old, HasNew: u.HasNew, HasOld: u.HasOld}
	return o.env.withContext(u.Context, func() error { return o.forward(u.Key, u.Context.headers, c, u.TimestampMs) })
}
