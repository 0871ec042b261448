package milltest_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/window"
)

// streamJoinModel is the rule of stream-stream joins, written down without stores: it keeps all records for ever and looks at all of
// them each time.
type streamJoinModel struct {
	before, after, grace int64
	keepLeft, keepRight  bool
	self                 bool // both sides are one stream: a record is late as soon as it is for one of them

	now  int64
	rows [2][]joinModelRow // left, right, in the order of arrival

	out, late []string
	nulls     [2]int64 // dropped for a null, by side
	refused   int64    // rows that had their final result

	send func(key, l, r string, ts int64) // if there is more behind it
}

type joinModelRow struct {
	key, value string
	ts         int64
	waits      bool
}

func newJoinModel(kind streamJoinKind, w window.JoinWindows) *streamJoinModel {
	return &streamJoinModel{
		before: w.BeforeMs(), after: w.AfterMs(), grace: w.GraceMs(), now: -1,
		keepLeft: kind.name != "inner", keepRight: kind.name == "outer",
	}
}

func (m *streamJoinModel) keeps(side int) bool {
	return side == 0 && m.keepLeft || side == 1 && m.keepRight
}

// ended tells whether the window of a row of a side, and the grace, are over.
func (m *streamJoinModel) ended(side int, ts int64) bool {
	if side == 0 {
		return ts+m.after+m.grace < m.now
	}
	return ts+m.before+m.grace < m.now
}

func (m *streamJoinModel) emit(key, l, r string, ts int64) {
	if m.send != nil {
		m.send(key, l, r, ts)
		return
	}
	m.out = append(m.out, fmt.Sprintf("%s=%s-%s@%d", key, l, r, ts))
}

func (m *streamJoinModel) alone(side int, key, value string, ts int64) {
	if side == 0 {
		m.emit(key, value, "null", ts)
	} else {
		m.emit(key, "null", value, ts)
	}
}

// release sends on all rows whose wait is over: by timestamp, right before left, by key, by arrival.
func (m *streamJoinModel) release() {
	type due struct {
		side int
		row  joinModelRow
	}
	var all []due
	for side := range m.rows {
		for i := range m.rows[side] {
			if r := &m.rows[side][i]; r.waits && m.ended(side, r.ts) {
				r.waits = false
				all = append(all, due{side, *r})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b due) int {
		return cmp.Or(cmp.Compare(a.row.ts, b.row.ts), cmp.Compare(b.side, a.side), cmp.Compare(a.row.key, b.row.key))
	})
	for _, d := range all {
		m.alone(d.side, d.row.key, d.row.value, d.row.ts)
	}
}

// take is a record, "~" for null.
func (m *streamJoinModel) take(side int, key, value string, ts int64) {
	m.now = max(m.now, ts)
	m.release()
	switch {
	case value == "~" || key == "~" && !m.keeps(side):
		m.nulls[side]++
		return
	case key == "~":
		m.alone(side, key, value, ts)
		return
	case m.ended(side, ts), m.self && m.ended(1-side, ts):
		m.late = append(m.late, fmt.Sprintf("%s=%s@%d of right %v at %d", key, value, ts, side == 1, m.now))
		return
	}
	other := 1 - side
	var found []*joinModelRow
	for i := range m.rows[other] {
		r := &m.rows[other][i]
		l, rt := ts, r.ts
		if side == 1 {
			l, rt = r.ts, ts
		}
		if r.key != key || rt < l-m.before || rt > l+m.after {
			continue
		}
		if m.keeps(other) && m.ended(other, r.ts) {
			m.refused++
			continue
		}
		found = append(found, r)
	}
	slices.SortStableFunc(found, func(a, b *joinModelRow) int { return cmp.Compare(a.ts, b.ts) })
	for _, r := range found {
		r.waits = false
		if side == 0 {
			m.emit(key, value, r.value, max(ts, r.ts))
		} else {
			m.emit(key, r.value, value, max(ts, r.ts))
		}
	}
	m.rows[side] = append(m.rows[side], joinModelRow{key: key, value: value, ts: ts, waits: m.keeps(side) && len(found) == 0})
}

// Random input, restarts in between: results and late records are those of the model, in its order.
func TestStreamJoins_model(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		for _, kind := range streamJoinKinds {
			t.Run(fmt.Sprintf("%s/%d", kind.name, seed), func(t *testing.T) { runJoinModel(t, kind, uint64(seed)) })
		}
	}
}

func runJoinModel(t *testing.T, kind streamJoinKind, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, uint64(len(kind.name))))
	before, after := rnd.Int64N(25), rnd.Int64N(25)
	switch rnd.IntN(6) {
	case 0:
		after = before
	case 1:
		before = -rnd.Int64N(after + 1)
	case 2:
		after = -rnd.Int64N(max(before, 0) + 1)
	}
	w := window.Within(0).Before(time.Duration(before) * ms).After(time.Duration(after) * ms).Grace(time.Duration(rnd.Int64N(3)*rnd.Int64N(30)) * ms)
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	var opts []milltest.Option
	if rnd.IntN(2) == 0 {
		opts = append(opts, milltest.OnDisk())
	}
	b := millrace.NewBuilder()
	jopts := []millrace.StepOption{millrace.As("j")}
	if rnd.IntN(3) == 0 {
		jopts = append(jopts, millrace.InMemory())
	}
	pairs, late := kind.join(millrace.From(b, leftTopic), millrace.From(b, rightTopic), w, jopts...)
	pairs.To(joinTopic)
	late.To(lateTopic)
	d := milltest.New(t, build(t, b), opts...)
	model := newJoinModel(kind, w)
	restarts := rnd.IntN(3) > 0
	var got, gotLate, input []string
	keys := strings.Fields("a b c")
	at := int64(0)
	for i := range 300 {
		side := rnd.IntN(2)
		key, value := keys[rnd.IntN(len(keys))], fmt.Sprintf("v%d", i)
		switch rnd.IntN(40) {
		case 0:
			key = "~"
		case 1:
			value = "~"
		case 2:
			at += rnd.Int64N(100)
		}
		at += rnd.Int64N(4)
		ts := at
		if rnd.IntN(3) == 0 {
			ts = max(0, at-rnd.Int64N(60))
		}
		record := fmt.Sprintf("%s=%s@%d", key, value, ts)
		input = append(input, []string{"L ", "R "}[side]+record)
		pipe(t, d, []string{"L", "R"}[side], record)
		model.take(side, key, value, ts)
		got = append(got, strings.Fields(text(milltest.Output(d, joinTopic).ReadAll()))...)
		for _, r := range milltest.Output(d, lateTopic).ReadAll() {
			gotLate = append(gotLate, fmt.Sprintf("%s=%s%s@%d of right %v at %d", r.Key, r.Value.Left, r.Value.Right, r.TimestampMs, r.Value.OfRight, r.Value.ObservedTimeMs))
		}
		if restarts && rnd.IntN(50) == 0 {
			restart(t, d)
			input = append(input, "restart")
		}
		if !slices.Equal(got, model.out) {
			t.Fatalf("%v, seed %d, after\n%s\n got %v\nwant %v", w, seed, strings.Join(input, "\n"), lastOf(got), lastOf(model.out))
		}
	}
	if !slices.Equal(gotLate, model.late) {
		t.Errorf("%v, seed %d, late:\n got %v\nwant %v", w, seed, gotLate, model.late)
	}
	for side, step := range []string{"j-this-windowed", "j-other-windowed"} {
		n := d.Dropped(step, millrace.DroppedNullKey) + d.Dropped(step, millrace.DroppedNullValue)
		if n != model.nulls[side] {
			t.Errorf("%s has dropped %d records for a null, want %d", step, n, model.nulls[side])
		}
	}
	late2 := d.Dropped("j-this-windowed", millrace.DroppedLate) + d.Dropped("j-other-windowed", millrace.DroppedLate)
	if late2 != int64(len(model.late)) {
		t.Errorf("%d late records are counted, want %d", late2, len(model.late))
	}
	refused := int64(0)
	for _, step := range []string{"j-this-join", "j-outer-this-join", "j-other-join", "j-outer-other-join"} {
		refused += d.Dropped(step, millrace.DroppedJoinClosed)
	}
	if refused != model.refused {
		t.Errorf("%d rows are counted as closed, want %d", refused, model.refused)
	}
}

func lastOf(s []string) []string { return s[max(0, len(s)-8):] }
