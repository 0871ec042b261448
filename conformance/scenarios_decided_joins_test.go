package conformance

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// DecidedJoins is what is decided not to be as in Kafka Streams about joins of streams, with tables too, and about the
// optimisations.
func (features) DecidedJoins(r *registry) {
	within := func(m joinModel) window.JoinWindows {
		millis := func(n int64) time.Duration { return time.Duration(n) * ms }
		return window.Within(0).Before(millis(m.before)).After(millis(m.after)).Grace(millis(m.grace))
	}
	join := func(m joinModel, l, other millrace.Stream[string, string]) (out millrace.Stream[string, string]) {
		switch {
		case m.keepRight:
			out, _ = millrace.OuterJoinStreams(l, other, within(m), func(l string, okL bool, r string, okR bool) string {
				return orNull(l, okL) + "/" + orNull(r, okR)
			}, millrace.As("j"))
		case m.keepLeft:
			out, _ = millrace.LeftJoinStreams(l, other, within(m), leftSlash, millrace.As("j"))
		default:
			out, _ = millrace.JoinStreams(l, other, within(m), slash, millrace.As("j"))
		}
		return out
	}
	streams := func(name, rule string, m joinModel, settings ...setting) {
		r.differs(name, rule, func(b *millrace.Builder) {
			l := millrace.From(b, texts("l"))
			other := l
			if !m.self {
				other = millrace.From(b, texts("r"))
			}
			join(m, l, other).To(texts("out"))
		}, func(input []step) map[string][]record { return map[string][]record{"out": m.run(input)} }, settings...)
	}
	streams("left-join-late-5", "C034", joinModel{before: 10, after: 10, grace: 5, keepLeft: true})
	streams("left-join-late-50", "C033", joinModel{before: 10, after: 10, grace: 50, keepLeft: true})
	streams("inner-join-late", "C034", joinModel{before: 12, after: 5, grace: 3})
	streams("left-join-asymmetric", "C031", joinModel{before: 20, after: 0, keepLeft: true})
	streams("outer-join-late", "C031", joinModel{before: 5, after: 14, grace: 10, keepLeft: true, keepRight: true})
	streams("join-at-the-retention", "exactly as old as a join's retention", joinModel{before: 5, after: 5, grace: 10})
	streams("join-near-the-epoch", "near the epoch", joinModel{before: -5, after: 15, grace: 20})
	oneStore := builtWith(millrace.Optimize(millrace.SingleStoreSelfJoin))
	streams("left-self-join-one-store", "`single.store.self.join`", joinModel{before: -3, after: 12, grace: 20, keepLeft: true, self: true}, oneStore)
	streams("outer-self-join-one-store", "`single.store.self.join`", joinModel{before: 10, after: 10, grace: 20, keepLeft: true, keepRight: true, self: true}, oneStore)

	r.differs("join-grace-null-key", "fails on a record with a null key", func(b *millrace.Builder) {
		t := millrace.TableFrom(b, texts("t"), millrace.StoreName("rows"), millrace.Versioned(time.Hour))
		millrace.LeftJoinTable(millrace.From(b, texts("s")), t, leftSlash, millrace.As("j"), millrace.JoinGrace(12*ms)).To(texts("out"))
	}, func(input []step) map[string][]record { return map[string][]record{"out": joinedLater(input, 12)} })

	r.differs("merged-repartition-null-keys", "no longer see records with a null key", func(b *millrace.Builder) {
		keyed := millrace.SelectKey(millrace.From(b, free("in")), withoutKeyOfP)
		kept := keyed.Filter(func(_, v text) bool { return v == nil || *v != "q1" })
		kept.To(free("out"))
		g := kept.GroupByKey(millrace.WithKey(nullText), millrace.WithValue(nullText))
		millrace.Count(g, millrace.As("counts")).ToStream().To(millrace.NewTopic("counts", nullText, serde.Int64))
	}, func(input []step) map[string][]record {
		var all []record
		for i, in := range input {
			if string(in.value) == "q1" {
				continue
			}
			rec := in.record
			rec.topic, rec.step = "out", i
			if rec.value == nil || rec.value[0] == 'p' {
				rec.key = nil
			}
			all = append(all, rec)
		}
		return map[string][]record{"out": all}
	}, builtWith(millrace.Optimize(millrace.MergeRepartitionTopics)))
}

// withoutKeyOfP takes the key away from values that begin with p, and from nulls.
func withoutKeyOfP(k, v text) text {
	if v == nil || begins(v, "p") {
		return nil
	}
	return k
}

// joinModel is the join of the streams l and r, or of l with itself. A record that comes when its window and the grace have
// passed is late. A row of a side that is kept has its result when it has no pair by then, and gets no other.
type joinModel struct {
	before, after, grace int64
	keepLeft, keepRight  bool
	self                 bool

	observed int64
	rows     [2][]*joinRow // left, right
	out      []record
	step     int
}

type joinRow struct {
	record
	waits bool
}

func (m *joinModel) keeps(side int) bool { return side == 0 && m.keepLeft || side == 1 && m.keepRight }

// ended tells whether the window of a row, and the grace, have passed.
func (m *joinModel) ended(side int, tsMs int64) bool {
	if side == 0 {
		return tsMs+m.after+m.grace < m.observed
	}
	return tsMs+m.before+m.grace < m.observed
}

// run takes its input from the beginning.
func (m joinModel) run(input []step) []record {
	m.observed = -1
	for i, in := range input {
		m.step = i
		m.observed = max(m.observed, in.tsMs)
		m.release()
		switch {
		case m.self:
			late := m.ended(0, in.tsMs) || m.ended(1, in.tsMs)
			m.take(0, in.record, late)
			m.take(1, in.record, late)
		case in.topic == "l":
			m.take(0, in.record, m.ended(0, in.tsMs))
		default:
			m.take(1, in.record, m.ended(1, in.tsMs))
		}
	}
	return m.out
}

func (m *joinModel) send(key, l, r []byte, tsMs int64) {
	text := func(v []byte) []byte {
		if v == nil {
			return []byte("null")
		}
		return v
	}
	m.out = append(m.out, out(m.step, key, slices.Concat(text(l), []byte("/"), text(r)), tsMs))
}

func (m *joinModel) alone(side int, r record) {
	if side == 0 {
		m.send(r.key, r.value, nil, r.tsMs)
	} else {
		m.send(r.key, nil, r.value, r.tsMs)
	}
}

// release sends the rows whose wait is over: by time, right before left, then by key.
func (m *joinModel) release() {
	type row struct {
		side int
		*joinRow
	}
	var due []row
	for side := range m.rows {
		for _, r := range m.rows[side] {
			if r.waits && m.ended(side, r.tsMs) {
				r.waits = false
				due = append(due, row{side, r})
			}
		}
	}
	slices.SortStableFunc(due, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.tsMs, b.tsMs), cmp.Compare(b.side, a.side), bytes.Compare(a.key, b.key))
	})
	for _, r := range due {
		m.alone(r.side, r.record)
	}
}

func (m *joinModel) take(side int, in record, late bool) {
	switch {
	case in.value == nil || in.key == nil && !m.keeps(side):
		return
	case in.key == nil:
		m.alone(side, in)
		return
	case late:
		return
	}
	other := 1 - side
	var found []*joinRow
	for _, o := range m.rows[other] {
		after := o.tsMs - in.tsMs // how much later the right row is
		if side == 1 {
			after = -after
		}
		if bytes.Equal(o.key, in.key) && -m.before <= after && after <= m.after && !(m.keeps(other) && m.ended(other, o.tsMs)) {
			found = append(found, o)
		}
	}
	slices.SortStableFunc(found, func(a, b *joinRow) int { return cmp.Compare(a.tsMs, b.tsMs) })
	for _, o := range found {
		o.waits = false
		l, r := in, o.record
		if side == 1 {
			l, r = r, l
		}
		m.send(in.key, l.value, r.value, max(l.tsMs, r.tsMs))
	}
	m.rows[side] = append(m.rows[side], &joinRow{record: in, waits: m.keeps(side) && len(found) == 0})
}

// joinedLater is the left join of a stream s with a versioned table t that forgets nothing: a record waits until time has
// passed it by the grace, one that comes later than that is joined at once, and so is one without a key.
func joinedLater(input []step, grace int64) (all []record) {
	versions := make(map[string]map[int64][]byte)
	observed := int64(-1)
	join := func(step int, in record) {
		row := "null"
		if in.key != nil {
			row = heldAt(versions[string(in.key)], in.tsMs, 0)
		}
		all = append(all, out(step, in.key, []byte(string(in.value)+"/"+row), in.tsMs))
	}
	var waiting []record
	for i, in := range input {
		switch {
		case in.topic == "t" && in.key != nil:
			if versions[string(in.key)] == nil {
				versions[string(in.key)] = make(map[int64][]byte)
			}
			versions[string(in.key)][in.tsMs] = in.value
		case in.topic == "t" || in.value == nil:
		case in.key == nil || in.tsMs < observed-grace:
			join(i, in.record)
		default:
			observed = max(observed, in.tsMs)
			waiting = append(waiting, in.record)
			slices.SortStableFunc(waiting, func(a, b record) int { return cmp.Or(cmp.Compare(a.tsMs, b.tsMs), bytes.Compare(a.key, b.key)) })
			for len(waiting) > 0 && waiting[0].tsMs <= observed-grace {
				join(i, waiting[0])
				waiting = waiting[1:]
			}
		}
	}
	return all
}
