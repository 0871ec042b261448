package op

import (
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/processor"
)

// TableJoinSpec describes a join of two tables by key. A joined row exists where each side that is needed has a row, and
// one of them at least.
type TableJoinSpec[K, VL, VR, R any] struct {
	NeedLeft, NeedRight bool // inner: both; left: the left one; outer: neither
	Left                GetterFactory[K, VL]
	Right               GetterFactory[K, VR]
	// Join makes the joined row. With keep false there is none after all.
	Join func(k K, l VL, okL bool, r VR, okR bool) (out R, keep bool, err error)
	// Table is the spec of the joined table: it says whether the values that stood before are sent along.
	Table *TableSpec
	// Related says that one side is derived from the other, or both from a third table: an update of that changes both, and
	// the join is told of one after the other. All tables up to the common one then keep what stood before (TableSpec.Before).
	Related bool
}

// NewTableJoinThis takes the updates of the left side, and looks each up in the right one. NewTableJoinMerge follows it.
func NewTableJoinThis[K, VL, VR, R any](spec *TableJoinSpec[K, VL, VR, R]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		other, err := spec.Right(env, step)
		if err != nil {
			return nil, err
		}
		s := &joinSide[K, VL, VR, R]{other: other, join: spec.Join, needOwn: spec.NeedLeft, needOther: spec.NeedRight}
		return s, s.wire(env, step, children, spec.Table, spec.Related, left)
	})
}

// NewTableJoinOther takes the updates of the right side.
func NewTableJoinOther[K, VL, VR, R any](spec *TableJoinSpec[K, VL, VR, R]) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		other, err := spec.Left(env, step)
		if err != nil {
			return nil, err
		}
		s := &joinSide[K, VR, VL, R]{
			other: other, needOwn: spec.NeedRight, needOther: spec.NeedLeft,
			join: func(k K, own VR, okOwn bool, other VL, okOther bool) (R, bool, error) {
				return spec.Join(k, other, okOther, own, okOwn)
			},
		}
		return s, s.wire(env, step, children, spec.Table, spec.Related, right)
	})
}

const (
	left  = 0
	right = 1
)

// joinLink is what the two sides of a join know of each other in an update of the table that both come from (see
// Env.beginSending), by side.
type joinLink struct {
	told [2]int64 // the last update that the side has sent to the join
	seen [2]int64 // the last one whose effect on the side was joined before the side has sent it
	held [2]any   // *heldRow of the side's type
}

// heldRow is what one side had when it left it to the other side to send what becomes of the joined row.
type heldRow[V any] struct {
	no  int64
	old V
	has bool
}

// joinSide takes the updates of one side of a join, V, and looks up the other, VO.
type joinSide[K, V, VO, R any] struct {
	guard
	other              Getter[K, VO]
	join               func(k K, own V, okOwn bool, other VO, okOther bool) (R, bool, error)
	needOwn, needOther bool
	table              *TableSpec
	related            bool
	side               int
	link               *joinLink
	held               heldRow[V]
	stale              *metrics.Counter
	next               Sink[K, Change[R]]
	out                processor.Record[K, Change[R]]
}

func (j *joinSide[K, V, VO, R]) wire(env *Env, step string, children []Child, table *TableSpec, related bool, side int) error {
	next, err := Downstream[K, Change[R]](step, children)
	if err != nil {
		return err
	}
	j.guard, j.next, j.table, j.related, j.side = newGuard(env, step), next, table, related, side
	j.stale = env.counter(step, metrics.Stale)
	j.link = new(joinLink)
	if m, ok := next.(*joinMerge[K, R]); ok {
		j.link = &m.link
	}
	j.link.held[side] = &j.held
	return nil
}

func (j *joinSide[K, V, VO, R]) Process(r *processor.Record[K, Change[V]]) error {
	if r.Value.Stale {
		j.stale.Inc()
		return nil
	}
	for attempt := 1; ; attempt++ {
		send, err := j.call(r)
		if err == nil {
			if !send {
				return nil
			}
			return j.next.Process(&j.out)
		}
		if retry, err := j.failed(err, attempt); !retry {
			return err
		}
	}
}

// exists tells whether there is a joined row.
func (j *joinSide[K, V, VO, R]) exists(own, other bool) bool {
	return (own || !j.needOwn) && (other || !j.needOther) && (own || other)
}

func (j *joinSide[K, V, VO, R]) call(r *processor.Record[K, Change[V]]) (send bool, err error) {
	defer recovered(&err)
	c := &r.Value
	other, otherMs, ok, err := j.other.Lookup(r.Key)
	if err != nil {
		return false, err
	}
	was, hadOther, unseen := other, ok, false // the other side as the join was told of it
	ownOld, hadOwn := c.Old, c.HasOld
	if j.related || j.needOther && !ok && !c.HasNew {
		if was, hadOther, unseen, err = j.told(r.Key, other, ok); err != nil {
			return false, err
		}
	}
	if j.related && j.env.sendingDepth > 0 && j.link.seen[j.side] == j.env.sendingNo {
		ownOld, hadOwn = c.New, c.HasNew // the other side was joined with what this side had become already
	}
	switch {
	case j.needOther && !ok:
		// There is no joined row any more. If there was one, it is for this side to send the deletion if the other side will
		// find that this one is gone too, when it is told.
		if c.HasNew || !hadOther || j.related && !hadOwn || !j.needOwn {
			if unseen {
				j.held = heldRow[V]{no: j.env.sendingNo, old: ownOld, has: hadOwn}
			}
			return false, nil
		}
	case !ok && !c.HasNew && !c.HasOld:
		return false, nil
	}
	if j.related {
		j.link.told[j.side] = j.env.sendingNo
		if unseen {
			j.link.seen[1-j.side] = j.env.sendingNo
		}
	}
	tsMs := r.TimestampMs
	if ok {
		tsMs = max(tsMs, otherMs)
	}
	j.out = processor.Record[K, Change[R]]{Key: r.Key, TimestampMs: tsMs, Headers: r.Headers}
	out := &j.out.Value
	if j.exists(c.HasNew, ok) {
		if out.New, out.HasNew, err = row(j.join(r.Key, c.New, c.HasNew, other, ok)); err != nil {
			return false, err
		}
	}
	if j.table.old() && j.exists(hadOwn, hadOther) {
		out.Old, out.HasOld, err = row(j.join(r.Key, ownOld, hadOwn, was, hadOther))
	}
	return true, err
}

// told returns the other side's row as the join was told of it last, which is the one given unless an update of it is on
// its way. unseen says that this update is one of those that the record in process comes from.
func (j *joinSide[K, V, VO, R]) told(k K, now VO, has bool) (v VO, ok, unseen bool, err error) {
	other, no := 1-j.side, j.env.sendingNo
	if h, typed := j.link.held[other].(*heldRow[VO]); typed && j.env.sendingDepth > 0 && h.no == no {
		return h.old, h.has, false, nil
	}
	v, ok, state, err := before(j.other, k)
	if err != nil {
		return v, false, false, err
	}
	switch {
	case state == sending && j.link.told[other] != no && j.link.seen[other] != no:
		return v, ok, true, nil
	case state == waiting:
		return v, ok, false, nil
	}
	return now, has, false, nil
}

// NewTableJoinMerge takes what both sides send, and keeps it if the joined table has a store.
func NewTableJoinMerge[K, R any](spec *TableSpec) Factory {
	return FactoryFunc(func(env *Env, step string, children []Child) (any, error) {
		out, err := newTableOut[K, R](env, step, spec, children)
		if err != nil {
			return nil, err
		}
		return &joinMerge[K, R]{guard: newGuard(env, step), out: out}, nil
	})
}

type joinMerge[K, R any] struct {
	guard
	out  *tableOut[K, R]
	link joinLink
}

func (m *joinMerge[K, R]) Process(r *processor.Record[K, Change[R]]) error {
	for attempt := 1; ; attempt++ {
		c := r.Value
		err := m.update(r, &c)
		if err == nil {
			return m.out.sent(r.Key, r.Headers, c, r.TimestampMs)
		}
		if retry, err := m.failed(err, attempt); !retry {
			return err
		}
	}
}

func (m *joinMerge[K, R]) update(r *processor.Record[K, Change[R]], c *Change[R]) error {
	if !m.out.kept() {
		return nil
	}
	key, err := m.out.encode(r.Key)
	if err != nil {
		return err
	}
	return m.out.put(key, r.Key, r.Headers, c, r.TimestampMs, r.TimestampMs)
}

// TableJoinGetter reads a joined table that is not materialised through its two sides.
func TableJoinGetter[K, VL, VR, R any](spec *TableJoinSpec[K, VL, VR, R]) GetterFactory[K, R] {
	return func(env *Env, step string) (Getter[K, R], error) {
		l, err := spec.Left(env, step)
		if err != nil {
			return nil, err
		}
		r, err := spec.Right(env, step)
		if err != nil {
			return nil, err
		}
		return &joinGetter[K, VL, VR, R]{spec: spec, left: l, right: r}, nil
	}
}

type joinGetter[K, VL, VR, R any] struct {
	spec  *TableJoinSpec[K, VL, VR, R]
	left  Getter[K, VL]
	right Getter[K, VR]
}

func (g *joinGetter[K, VL, VR, R]) Lookup(k K) (v R, tsMs int64, ok bool, err error) {
	l, leftMs, okL, err := g.left.Lookup(k)
	if err != nil || !okL && g.spec.NeedLeft {
		return v, 0, false, err
	}
	r, rightMs, okR, err := g.right.Lookup(k)
	if err != nil || !okR && (g.spec.NeedRight || !okL) {
		return v, 0, false, err
	}
	switch {
	case !okL:
		tsMs = rightMs
	case !okR:
		tsMs = leftMs
	default:
		tsMs = max(leftMs, rightMs)
	}
	v, ok, err = g.call(k, l, okL, r, okR)
	return v, tsMs, ok, err
}

// Before returns a joined row as it was sent last: that of the two sides as they were.
func (g *joinGetter[K, VL, VR, R]) Before(k K) (v R, ok bool, state sentState, err error) {
	l, okL, leftState, err := lastSent(g.left, k)
	if err != nil {
		return v, false, allSent, err
	}
	r, okR, rightState, err := lastSent(g.right, k)
	if err != nil {
		return v, false, allSent, err
	}
	if state = max(leftState, rightState); state == allSent {
		return v, false, allSent, nil
	}
	if !okL && g.spec.NeedLeft || !okR && g.spec.NeedRight || !okL && !okR {
		return v, false, state, nil
	}
	v, ok, err = g.call(k, l, okL, r, okR)
	return v, ok, state, err
}

// lastSent is before, and Lookup where all has been sent.
func lastSent[K, V any](g Getter[K, V], k K) (v V, ok bool, state sentState, err error) {
	if v, ok, state, err = before(g, k); err != nil || state != allSent {
		return v, ok, state, err
	}
	v, _, ok, err = g.Lookup(k)
	return v, ok, allSent, err
}

func (g *joinGetter[K, VL, VR, R]) call(k K, l VL, okL bool, r VR, okR bool) (v R, ok bool, err error) {
	defer recovered(&err)
	return row(g.spec.Join(k, l, okL, r, okR))
}
