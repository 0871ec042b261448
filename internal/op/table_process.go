package op

import (
	"fmt"

	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// NewTableProcess derives a table by a user-written processor, which is asked for deletions too. stores names the stores
// that it may use.
//
// In Kafka Streams: KTableTransformValues.
func NewTableProcess[K, V, V2 any](spec *TableSpec, newP func() (processor.TableProcessor[K, V, V2], error), stores []string) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		out, err := newTableOut[K, V2](env, step, spec, children)
		if err != nil {
			return nil, err
		}
		u, err := newTableUser(env, step, newP, stores)
		if err != nil {
			return nil, err
		}
		return &tableProcess[K, V, V2]{guard: newGuard(env, step), user: u, out: out}, nil
	})
}

type tableProcess[K, V, V2 any] struct {
	guard
	user *tableUser[K, V, V2]
	out  *tableOut[K, V2]
}

func (t *tableProcess[K, V, V2]) Process(r *processor.Record[K, Change[V]]) error {
	for attempt := 1; ; attempt++ {
		c, err := t.update(r)
		if err == nil {
			return t.out.sent(r.Key, r.Headers, c, r.TimestampMs)
		}
		if retry, err := t.failed(err, attempt); !retry {
			return err
		}
	}
}

func (t *tableProcess[K, V, V2]) update(r *processor.Record[K, Change[V]]) (c Change[V2], err error) {
	saved := enter(t.env, r)
	defer t.env.leave(saved)
	c.Stale = r.Value.Stale
	if c.New, c.HasNew, err = t.user.value(r.Key, r.Value.New, r.Value.HasNew); err != nil {
		return c, err
	}
	if !t.out.kept() {
		if t.out.spec.old() {
			c.Old, c.HasOld, err = t.user.value(r.Key, r.Value.Old, r.Value.HasOld)
		}
		return c, err
	}
	key, err := t.out.encode(r.Key)
	if err != nil {
		return c, err
	}
	if t.out.spec.old() {
		if c.Old, _, c.HasOld, err = t.out.Get(key); err != nil {
			return c, err
		}
	}
	return c, t.out.put(key, r.Key, r.Headers, &c, r.TimestampMs, r.TimestampMs)
}

// tableUser is a user's processor as a step or a reader of its table holds it.
type tableUser[K, V, V2 any] struct {
	step  string
	p     processor.TableProcessor[K, V, V2]
	ctx   tableContext
	there func(*V2) bool
}

func newTableUser[K, V, V2 any](env *Env, step string, newP func() (processor.TableProcessor[K, V, V2], error), stores []string) (*tableUser[K, V, V2], error) {
	p, err := newUser(step, newP)
	if err != nil {
		return nil, err
	}
	u := &tableUser[K, V, V2]{step: step, p: p, there: NotNil[V2](), ctx: tableContext{stepContext{env: env, step: step, stores: set(stores)}}}
	env.OnInit(u.init)
	env.OnClose(func() error { return closeUser(step, p.Close) })
	return u, nil
}

func (u *tableUser[K, V, V2]) init() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("millrace: step %s: Init failed: %w", u.step, err)
		}
	}()
	defer recovered(&err)
	return u.p.Init(&u.ctx)
}

func (u *tableUser[K, V, V2]) value(k K, v V, ok bool) (out V2, keep bool, err error) {
	defer recovered(&err)
	out, keep, err = u.p.Value(k, v, ok)
	return row(out, keep && err == nil && u.there(&out), err)
}

type tableContext struct{ stepContext }

func (c *tableContext) Row() (int64, serde.Headers) { return c.env.cur.tsMs, c.env.cur.headers }

// TableProcessGetter reads a table of NewTableProcess that is not materialised. Each reader has a processor of its own, as
// in Kafka Streams.
func TableProcessGetter[K, V, V2 any](parent GetterFactory[K, V], newP func() (processor.TableProcessor[K, V, V2], error), stores []string) GetterFactory[K, V2] {
	return func(env *Env, step string) (Getter[K, V2], error) {
		g, err := parent(env, step)
		if err != nil {
			return nil, err
		}
		u, err := newTableUser(env, step, newP, stores)
		return &tableProcessGetter[K, V, V2]{env: env, parent: g, user: u}, err
	}
}

type tableProcessGetter[K, V, V2 any] struct {
	env    *Env
	parent Getter[K, V]
	user   *tableUser[K, V, V2]
}

func (g *tableProcessGetter[K, V, V2]) Lookup(k K) (v V2, tsMs int64, ok bool, err error) {
	p, tsMs, has, err := g.parent.Lookup(k)
	if err != nil {
		return v, 0, false, err
	}
	if !has {
		tsMs = -1 // not known
	}
	v, ok, err = g.value(k, p, has, tsMs)
	return v, tsMs, ok, err
}

// value asks the processor under the context of the row that it is asked for.
func (g *tableProcessGetter[K, V, V2]) value(k K, p V, has bool, tsMs int64) (v V2, ok bool, err error) {
	saved := g.env.cur
	g.env.cur.tsMs, g.env.cur.headers = tsMs, nil
	v, ok, err = g.user.value(k, p, has)
	g.env.cur = saved
	return v, ok, err
}

// Before returns a row as it was sent last.
func (g *tableProcessGetter[K, V, V2]) Before(k K) (v V2, ok bool, state sentState, err error) {
	p, has, state, err := before(g.parent, k)
	if err != nil || state == allSent {
		return v, false, state, err
	}
	v, ok, err = g.value(k, p, has, -1)
	return v, ok, state, err
}
