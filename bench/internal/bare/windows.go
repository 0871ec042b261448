package bare

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/bench/internal/side"
)

// windows is a count by key and window, for each partition; windows that are closed are forgotten.
type windows struct {
	ledger
	advance int64 // milliseconds from the start of a window to that of the next
	open    map[int32]*openWindows
}

type openWindows struct {
	timeMs  int64
	byStart map[int64]map[string]*tally
}

func newWindows(l *loop, advance time.Duration) *windows {
	w := &windows{ledger: newLedger(l), advance: advance.Milliseconds(), open: make(map[int32]*openWindows)}
	// A window's key in the changelog has a sequence number, which is always 0, behind key and start.
	w.logKey = func(t *tally) []byte { return append(t.key[:len(t.key):len(t.key)], 0, 0, 0, 0) }
	return w
}

func (w *windows) record(r *kgo.Record) {
	o := w.open[r.Partition]
	if o == nil {
		o = &openWindows{byStart: make(map[int64]map[string]*tally)}
		w.open[r.Partition] = o
	}
	at, size := r.Timestamp.UnixMilli(), side.WindowSize.Milliseconds()
	life := size + side.WindowGrace.Milliseconds()
	o.timeMs = max(o.timeMs, at)
	for start := at - at%w.advance; start > at-size; start -= w.advance {
		if start+life <= o.timeMs {
			return // it is late for this window and for those before
		}
		tallies := o.byStart[start]
		if tallies == nil {
			o.drop(life)
			tallies = make(map[string]*tally)
			o.byStart[start] = tallies
		}
		t := tallies[string(r.Key)]
		if t == nil {
			key := binary.BigEndian.AppendUint64(append(make([]byte, 0, len(r.Key)+8), r.Key...), uint64(start))
			t = &tally{key: key, partition: r.Partition}
			tallies[string(r.Key)] = t
		}
		w.count(t, r)
	}
}

// drop forgets the windows that are closed. Their dirty tallies are written all the same: the list still has them.
func (o *openWindows) drop(lifeMs int64) {
	for start := range o.byStart {
		if start+lifeMs <= o.timeMs {
			delete(o.byStart, start)
		}
	}
}
