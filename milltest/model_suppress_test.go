package milltest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
)

// heldRow is an update that a suppression holds back.
type heldRow struct {
	fromMs          int64 // since when the key waits
	key             string
	prior, old, new string // "~": none
	tsMs            int64
}

// heldModel is a suppression until a time limit as a plain sorted list.
type heldModel struct {
	table              map[string]string
	rows               []heldRow
	observedMs, waitMs int64
	maxRows, maxBytes  int64 // -1: no bound
}

// bytes is what a row counts for: the key and its length, the context of a record of the topic in, the time, the values.
func (r *heldRow) bytes() int64 {
	n := 8 + len(r.key) + 8 + 8 + 4 + len("in")
	values := []string{r.prior, r.new}
	if r.old != r.prior {
		values = append(values, r.old)
	}
	for _, v := range values {
		if v != "~" {
			n += len(v)
		}
	}
	return int64(n)
}

func (m *heldModel) full() bool {
	var bytes int64
	for i := range m.rows {
		bytes += m.rows[i].bytes()
	}
	return m.maxRows >= 0 && int64(len(m.rows)) > m.maxRows || m.maxBytes >= 0 && bytes > m.maxBytes
}

// update takes a record of the table, and returns what has to come out.
func (m *heldModel) update(key, value string, tsMs int64) string {
	old, ok := m.table[key]
	if !ok {
		old = "~"
	}
	m.table[key] = value
	m.observedMs = max(m.observedMs, tsMs)
	if i := slices.IndexFunc(m.rows, func(r heldRow) bool { return r.key == key }); i >= 0 {
		m.rows[i].old, m.rows[i].new, m.rows[i].tsMs = old, value, tsMs
	} else {
		m.rows = append(m.rows, heldRow{fromMs: tsMs, key: key, prior: old, old: old, new: value, tsMs: tsMs})
		slices.SortFunc(m.rows, func(a, b heldRow) int {
			if a.fromMs != b.fromMs {
				return int(a.fromMs - b.fromMs)
			}
			return strings.Compare(a.key, b.key)
		})
	}
	var out []string
	for len(m.rows) > 0 && (m.rows[0].fromMs+m.waitMs <= m.observedMs || m.full()) {
		r := m.rows[0]
		m.rows = m.rows[1:]
		out = append(out, fmt.Sprintf("%s=%s@%d", r.key, r.new, r.tsMs))
	}
	return strings.Join(out, " ")
}

// Random updates, restarts in between, and bounds of both kinds: what a suppression sends is what a sorted list would.
func TestSuppress_model(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for run := range 24 {
		seed += 7919
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			m := &heldModel{table: make(map[string]string), waitMs: int64(rnd.IntN(40)), maxRows: -1, maxBytes: -1}
			buffer := millrace.Unbounded()
			switch run % 4 {
			case 1:
				m.maxRows = int64(rnd.IntN(5))
				buffer = millrace.MaxRecords(m.maxRows)
			case 2:
				m.maxBytes = int64(rnd.IntN(250))
				buffer = millrace.MaxBytes(m.maxBytes)
			case 3:
				m.maxRows, m.maxBytes = int64(1+rnd.IntN(5)), int64(50+rnd.IntN(200))
				buffer = millrace.MaxRecords(m.maxRows).AndMaxBytes(m.maxBytes)
			}
			opts := []milltest.Option{milltest.CacheBytes(0)}
			if run%3 == 0 {
				opts = append(opts, milltest.OnDisk())
			}
			d, out := suppressedTable(t, millrace.UntilTimeLimit(time.Duration(m.waitMs)*ms, buffer), opts...)
			now := int64(0)
			for i := range 120 {
				if rnd.IntN(15) == 0 {
					restart(t, d)
				}
				now += int64(rnd.IntN(5))
				if rnd.IntN(40) == 0 {
					now += 60
				}
				key := strings.Repeat(string(rune('a'+rnd.IntN(4))), 1+rnd.IntN(2))
				value, tsMs := strings.Repeat(fmt.Sprint(i), 1+rnd.IntN(6)), max(now-int64(rnd.IntN(3)*rnd.IntN(20)), 0)
				if rnd.IntN(6) == 0 {
					value = "~"
				}
				record := fmt.Sprintf("%s=%s@%d", key, value, tsMs)
				want := m.update(key, value, tsMs)
				pipe(t, d, "in", record)
				if got := out(); got != want {
					t.Fatalf("wait %d, buffer %s: record %d, %s: got %q, want %q", m.waitMs, buffer, i, record, got, want)
				}
			}
		})
	}
}
