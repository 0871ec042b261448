package milltest_test

import (
	"cmp"
	"slices"
)

// modelHeld is an update that is held back.
type modelHeld struct {
	key    string
	since  int64
	change modelChange
}

// suppress holds the updates of a table back until they have waited for some time since the first one of their key; with
// closes until that time has passed since the end of their window, and deletions are not sent then. More than most rows do not
// wait: the oldest ones leave.
func (t *modelTable) suppress(closes bool, wait int64, most int) *modelTable {
	var held []modelHeld
	observed := int64(-1)
	out := t.s.newTable(nil) // nobody looks up its rows
	out.windows, out.sessions = t.windows, t.sessions
	t.changes = append(t.changes, func(key string, c modelChange) {
		before := observed
		observed = max(observed, c.tsMs)
		if i := slices.IndexFunc(held, func(h modelHeld) bool { return h.key == key }); i >= 0 {
			c.was = held[i].change.was // what was sent last
			held[i].change = c
		} else {
			h := modelHeld{key: key, since: c.tsMs, change: c}
			if closes {
				if _, _, h.since = spanOf(key); h.since+wait > before {
					h.change.was = nil // its first result, and the only one
				}
			}
			held = append(held, h)
		}
		slices.SortFunc(held, func(a, b modelHeld) int {
			return cmp.Or(cmp.Compare(a.since, b.since), t.compare(a.key, b.key))
		})
		for len(held) > 0 && (held[0].since+wait <= observed || len(held) > most) {
			h := held[0]
			held = held[1:]
			if h.change.is != nil || !closes {
				out.send(h.key, h.change)
			}
		}
	})
	return out
}

// compare compares keys as their bytes are.
func (t *modelTable) compare(a, b string) int {
	if !t.windows {
		return cmp.Compare(a, b)
	}
	keyA, startA, endA := spanOf(a)
	keyB, startB, endB := spanOf(b)
	if t.sessions {
		return cmp.Or(cmp.Compare(keyA, keyB), cmp.Compare(endA, endB), cmp.Compare(startA, startB))
	}
	return cmp.Or(cmp.Compare(keyA, keyB), cmp.Compare(startA, startB))
}
