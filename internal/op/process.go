package op

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/nilness"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// stepContext is what the contexts of both kinds of user-written steps share.
type stepContext struct {
	env    *Env
	step   string
	stores map[string]bool
}

func (c *stepContext) StateStore(name string) (any, error) {
	// Global stores need not be connected.
	if g, ok := c.env.GlobalStores[name].(interface{ View() any }); ok && !c.stores[name] {
		return g.View(), nil
	}
	if !c.stores[name] {
		return nil, fmt.Errorf("millrace: step %s: store %s is not connected to it; pass its definition with WithStores", c.step, name)
	}
	if s, ok := c.env.Stores[name]; ok {
		return s, nil
	}
	return nil, fmt.Errorf("millrace: step %s: there is no store %s in its task", c.step, name)
}

func (c *stepContext) Schedule(interval time.Duration, kind processor.TimeKind, fn func(time.Time) error) (processor.Cancel, error) {
	return c.env.schedule(c.step, interval, kind, fn)
}

func (c *stepContext) ScheduleAt(start time.Time, interval time.Duration, kind processor.TimeKind, fn func(time.Time) error) (processor.Cancel, error) {
	return c.env.scheduleAt(c.step, start, interval, kind, fn)
}

func (c *stepContext) RequestCommit()                       { c.env.CommitRequested = true }
func (c *stepContext) Metadata() (processor.Metadata, bool) { return c.env.Origin() }
func (c *stepContext) Now() time.Time                       { return c.env.now() }
func (c *stepContext) Task() processor.TaskID               { return c.env.Task }
func (c *stepContext) Step() string                         { return c.step }

func (c *stepContext) StreamTime() (time.Time, bool) {
	if c.env.StreamTimeMs < 0 {
		return time.Time{}, false
	}
	return time.UnixMilli(c.env.StreamTimeMs).UTC(), true
}

// entered is what enter replaces of the record in process. What it came from stays.
type entered struct {
	headers serde.Headers
	tsMs    int64
}

// enter makes a record the one in process as a user-written step sees it: a step before may have changed its timestamp
// and headers. leave undoes it.
func enter[K, V any](env *Env, r *processor.Record[K, V]) entered {
	saved := entered{env.cur.headers, env.cur.tsMs}
	env.cur.headers, env.cur.tsMs = r.Headers, r.TimestampMs
	return saved
}

func (e *Env) leave(saved entered) { e.cur.headers, e.cur.tsMs = saved.headers, saved.tsMs }

// NewProcess makes a step of a user-written processor; stores names the stores that it may use.
func NewProcess[K, V, K2, V2 any](newP func() (processor.Processor[K, V, K2, V2], error), stores []string) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[K2, V2](step, children)
		if err != nil {
			return nil, err
		}
		p, err := newUser(step, newP)
		if err != nil {
			return nil, err
		}
		c := &processContext[K2, V2]{
			stepContext: stepContext{env: env, step: step, stores: set(stores)}, next: next,
			byName: make(map[string]Sink[K2, V2]), nilKey: nilness.Checker[K2](), nilValue: nilness.Checker[V2](),
		}
		for _, child := range children {
			c.byName[child.Step] = child.Sink.(Sink[K2, V2]) // Downstream has checked it
		}
		u := &process[K, V, K2, V2]{guard: newGuard(env, step), p: p, ctx: c}
		env.OnInit(func() error { return u.init() })
		env.OnClose(func() error { return closeUser(step, p.Close) })
		return u, nil
	})
}

func newUser[P any](step string, newP func() (P, error)) (p P, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("millrace: step %s: its processor cannot be made: %w", step, err)
		}
	}()
	defer recovered(&err)
	return newP()
}

func closeUser(step string, f func() error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("millrace: step %s: closing failed: %w", step, err)
		}
	}()
	defer recovered(&err)
	return f()
}

func set(names []string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

type process[K, V, K2, V2 any] struct {
	guard
	p   processor.Processor[K, V, K2, V2]
	ctx *processContext[K2, V2]
}

func (u *process[K, V, K2, V2]) init() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("millrace: step %s: Init failed: %w", u.step, err)
		}
	}()
	defer recovered(&err)
	return u.p.Init(u.ctx)
}

func (u *process[K, V, K2, V2]) Process(r *processor.Record[K, V]) error {
	saved := enter(u.env, r)
	for attempt := 1; ; attempt++ {
		err := u.call(r)
		retry := false
		if err != nil {
			retry, err = u.failed(err, attempt)
		}
		if !retry {
			u.env.leave(saved)
			return err
		}
	}
}

func (u *process[K, V, K2, V2]) call(r *processor.Record[K, V]) (err error) {
	defer recovered(&err)
	return u.p.Process(*r)
}

type processContext[K, V any] struct {
	stepContext
	next     Sink[K, V]
	byName   map[string]Sink[K, V]
	nilKey   func(*K) bool
	nilValue func(*V) bool
	out      processor.Record[K, V]
}

func (c *processContext[K, V]) Forward(r processor.Record[K, V]) error { return c.forward(c.next, r) }

func (c *processContext[K, V]) ForwardTo(step string, r processor.Record[K, V]) error {
	next, ok := c.byName[step]
	if !ok {
		return fmt.Errorf("millrace: step %s: no step named %s follows it", c.step, step)
	}
	return c.forward(next, r)
}

func (c *processContext[K, V]) forward(next Sink[K, V], r processor.Record[K, V]) error {
	if r.TimestampMs < 0 {
		return fmt.Errorf("millrace: step %s: a record with the negative timestamp %d cannot be forwarded", c.step, r.TimestampMs)
	}
	c.out = r
	if c.nilKey != nil {
		c.out.NullKey = c.nilKey(&c.out.Key)
	}
	if c.nilValue != nil {
		c.out.NullValue = c.nilValue(&c.out.Value)
	}
	saved := enter(c.env, &c.out)
	err := next.Process(&c.out)
	c.env.leave(saved)
	return err
}

// NewProcessValues makes a step of a user-written processor that keeps the key.
func NewProcessValues[K, V, V2 any](newP func() (processor.ValueProcessor[K, V, V2], error), stores []string) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		next, err := Downstream[K, V2](step, children)
		if err != nil {
			return nil, err
		}
		p, err := newUser(step, newP)
		if err != nil {
			return nil, err
		}
		c := &valueContext[K, V2]{
			stepContext: stepContext{env: env, step: step, stores: set(stores)}, next: next, nilValue: nilness.Checker[V2](),
		}
		u := &processValues[K, V, V2]{guard: newGuard(env, step), p: p, ctx: c}
		env.OnInit(func() error { return u.init() })
		env.OnClose(func() error { return closeUser(step, p.Close) })
		return u, nil
	})
}

type processValues[K, V, V2 any] struct {
	guard
	p   processor.ValueProcessor[K, V, V2]
	ctx *valueContext[K, V2]
}

func (u *processValues[K, V, V2]) init() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("millrace: step %s: Init failed: %w", u.step, err)
		}
	}()
	defer recovered(&err)
	return u.p.Init(u.ctx)
}

func (u *processValues[K, V, V2]) Process(r *processor.Record[K, V]) error {
	saved := enter(u.env, r)
	c := u.ctx
	c.key, c.nullKey, c.inRecord = r.Key, r.NullKey, true
	for attempt := 1; ; attempt++ {
		err := u.call(r)
		retry := false
		if err != nil {
			retry, err = u.failed(err, attempt)
		}
		if !retry {
			u.env.leave(saved)
			c.inRecord = false
			return err
		}
	}
}

func (u *processValues[K, V, V2]) call(r *processor.Record[K, V]) (err error) {
	defer recovered(&err)
	return u.p.Process(*r)
}

type valueContext[K, V any] struct {
	stepContext
	next     Sink[K, V]
	nilValue func(*V) bool
	key      K
	nullKey  bool
	inRecord bool
	out      processor.Record[K, V]
}

func (c *valueContext[K, V]) Forward(v V) error { return c.ForwardAt(v, c.env.cur.tsMs) }

func (c *valueContext[K, V]) ForwardAt(v V, tsMs int64) error {
	if !c.inRecord {
		return fmt.Errorf("millrace: step %s: a step that keeps the key cannot forward inside a timer: there is no record whose key it could keep", c.step)
	}
	if tsMs < 0 {
		return fmt.Errorf("millrace: step %s: a record with the negative timestamp %d cannot be forwarded", c.step, tsMs)
	}
	c.out = processor.Record[K, V]{Key: c.key, NullKey: c.nullKey, Value: v, TimestampMs: tsMs, Headers: c.env.cur.headers}
	if c.nilValue != nil {
		c.out.NullValue = c.nilValue(&c.out.Value)
	}
	saved := enter(c.env, &c.out)
	err := c.next.Process(&c.out)
	c.env.leave(saved)
	return err
}
