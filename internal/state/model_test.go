package state

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
)

// modelKey is a row of any kind of store; start and seq are 0 in a key-value store. For sessions start is the end, and
// seq the start.
type modelKey struct {
	key   string
	start int64
	seq   int64
}

// modelLayer is what one layer of the model holds. A nil value deletes.
type modelLayer struct {
	rows     map[modelKey][]byte
	metas    map[string]int64
	observed int64
}

func newModelLayer() *modelLayer {
	return &modelLayer{rows: map[modelKey][]byte{}, metas: map[string]int64{}, observed: noObserved}
}

func (l *modelLayer) clone() *modelLayer {
	return &modelLayer{rows: maps.Clone(l.rows), metas: maps.Clone(l.metas), observed: l.observed}
}

// over returns the layer with a newer one on top of it.
func (l *modelLayer) over(newer *modelLayer) *modelLayer {
	c := l.clone()
	for k, v := range newer.rows {
		if v == nil {
			delete(c.rows, k)
		} else {
			c.rows[k] = v
		}
	}
	maps.Copy(c.metas, newer.metas)
	c.observed = max(c.observed, newer.observed)
	return c
}

type modelRow struct {
	modelKey
	value string
}

// model is a store as plain maps: what is committed, units that are not decided, private writes.
type model struct {
	spec      Spec
	committed *modelLayer
	units     []*modelLayer
	private   *modelLayer
	position  int64
	log       []RestoreRecord            // the changelog
	metas     map[int64]map[string]int64 // what stands with each position
}

func newModel(spec Spec) *model {
	m := &model{spec: spec, committed: newModelLayer(), private: newModelLayer()}
	m.metas = map[int64]map[string]int64{0: {}}
	return m
}

// replay is the state that the changelog up to a position stands for.
func (m *model) replay(to int64) *modelLayer {
	l := newModelLayer()
	for _, rec := range m.log[:to] {
		if rec.Key == nil {
			continue
		}
		k := modelKey{key: string(rec.Key)}
		if m.spec.Kind != KeyValue {
			key, time, extra, err := parseChangelogKey(m.spec.Kind, rec.Key)
			if err != nil {
				panic(err)
			}
			k = modelKey{string(key), time, int64(extra)}
			if m.spec.Kind == Session {
				k.seq = unsortable(extra)
			}
			l.observed = max(l.observed, time)
		}
		if rec.Value == nil {
			delete(l.rows, k)
		} else {
			l.rows[k] = append(binary.BigEndian.AppendUint64(nil, uint64(rec.TimestampMs)), rec.Value...)
		}
	}
	l.metas = maps.Clone(m.metas[to])
	return l
}

// record is the changelog record of a row.
func (m *model) record(k modelKey, v []byte) RestoreRecord {
	rec := RestoreRecord{Key: []byte(k.key)}
	switch m.spec.Kind {
	case Window:
		rec.Key = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(rec.Key, uint64(k.start)), uint32(k.seq))
	case Session:
		rec.Key = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(rec.Key, uint64(k.start)), uint64(k.seq))
	}
	if v != nil {
		rec.TimestampMs = int64(binary.BigEndian.Uint64(v))
		rec.Value = v[8:]
	}
	return rec
}

// commit appends the oldest unit to the changelog, with values in between that it supersedes.
func (m *model) commit(rng *rand.Rand) {
	u := m.units[0]
	m.units = m.units[1:]
	keys := slices.SortedFunc(maps.Keys(u.rows), func(a, b modelKey) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.start, b.start), cmp.Compare(a.seq, b.seq))
	})
	for range rng.IntN(3) {
		for _, k := range keys {
			v := stamped(7, []byte("superseded"))
			if rng.IntN(2) == 0 {
				v = nil
			}
			m.log = append(m.log, m.record(k, v))
		}
	}
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, k := range keys {
		m.log = append(m.log, m.record(k, u.rows[k]))
	}
	m.log = append(m.log, RestoreRecord{}) // without a key, as a marker that takes an offset: no position stands twice
	m.committed = m.committed.over(u)
	m.position = int64(len(m.log))
	m.metas[m.position] = m.committed.metas
}

func stamped(ts int64, v []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(ts)), v...)
}

func (m *model) view() *modelLayer {
	v := m.committed
	for _, u := range m.units {
		v = v.over(u)
	}
	return v.over(m.private)
}

func (m *model) visible(l *modelLayer, start int64) bool {
	return m.spec.Kind == KeyValue || l.observed == noObserved || start > l.observed-m.spec.RetentionMs
}

// list returns the visible rows in the order of the store.
func (m *model) list(l *modelLayer) []modelRow {
	var list []modelRow
	for k, v := range l.rows {
		if m.visible(l, k.start) {
			list = append(list, modelRow{k, string(v)})
		}
	}
	slices.SortFunc(list, func(a, b modelRow) int { return compareItems(m.item(a), m.item(b)) })
	return list
}

func (m *model) item(r modelRow) *item {
	if m.spec.Kind == KeyValue {
		return &item{key: []byte(r.key)}
	}
	return &item{seg: segmentOf(r.start, m.spec.SegmentMs), key: []byte(r.key), time: r.start, extra: sortable(r.seq)}
}

// handle is the face of a store of any kind.
type handle struct {
	kv  *KV
	win *WindowStore
	ses *SessionStore
}

func faceOf(set *Set, spec Spec) (h handle, err error) {
	switch spec.Kind {
	case KeyValue:
		h.kv, err = set.KeyValue(spec.Name)
	case Window:
		h.win, err = set.Window(spec.Name)
	default:
		h.ses, err = set.Session(spec.Name)
	}
	return h, err
}

func (h handle) get(k modelKey) ([]byte, bool, error) {
	switch {
	case h.kv != nil:
		return h.kv.Get([]byte(k.key))
	case h.win != nil:
		return h.win.Get([]byte(k.key), k.start, uint32(k.seq))
	}
	return h.ses.Get([]byte(k.key), k.seq, k.start)
}

func (h handle) put(k modelKey, v []byte) (bool, error) {
	switch {
	case h.kv != nil && v == nil:
		return true, h.kv.Delete([]byte(k.key))
	case h.kv != nil:
		return true, h.kv.Put([]byte(k.key), v)
	case h.win != nil && v == nil:
		return h.win.Delete([]byte(k.key), k.start, uint32(k.seq))
	case h.win != nil:
		return h.win.Put([]byte(k.key), k.start, uint32(k.seq), v)
	case v == nil:
		return h.ses.Delete([]byte(k.key), k.seq, k.start)
	}
	return h.ses.Put([]byte(k.key), k.seq, k.start, v)
}

// query is a range to read, of one key or of all.
type query struct {
	from, to    []byte // key-value
	key         string // the others, unless all
	all         bool
	fromMs, to2 int64
	latest      int64 // sessions of one key
	reverse     bool
}

func (h handle) open(q query) (*Iterator, error) {
	switch {
	case h.kv != nil:
		return h.kv.Range(q.from, q.to, q.reverse)
	case h.win != nil && q.all:
		return h.win.FetchAll(q.fromMs, q.to2, q.reverse)
	case h.win != nil:
		return h.win.Fetch([]byte(q.key), q.fromMs, q.to2, q.reverse)
	case q.all:
		return h.ses.FindAll(q.fromMs, q.to2, q.reverse)
	}
	return h.ses.Find([]byte(q.key), q.fromMs, q.latest, q.reverse)
}

func (m *model) query(q query) []modelRow {
	list := m.list(m.view())
	list = slices.DeleteFunc(list, func(r modelRow) bool {
		switch {
		case m.spec.Kind == KeyValue:
			return q.from != nil && r.key < string(q.from) || q.to != nil && r.key >= string(q.to)
		case !q.all && r.key != q.key:
			return true
		case m.spec.Kind == Session && !q.all:
			return r.start < q.fromMs || r.seq > q.latest
		}
		return r.start < q.fromMs || r.start > q.to2
	})
	if q.reverse {
		slices.Reverse(list)
	}
	return list
}

func rowOf(it *Iterator, kind Kind) modelRow {
	r := modelRow{modelKey{key: string(it.Key())}, string(it.Value())}
	switch kind {
	case Window:
		r.start, r.seq = it.StartMs(), int64(it.Seq())
	case Session:
		r.start, r.seq = it.EndMs(), it.StartMs()
	}
	return r
}

// walk is an iterator that stays open over other operations, with what it has to return.
type walk struct {
	it   *Iterator
	want []modelRow
	q    query
}
