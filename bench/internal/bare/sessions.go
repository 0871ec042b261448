package bare

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/bench/internal/side"
)

// sessions is a count by key and session, for each partition. A record that lies between two sessions makes one of them.
type sessions struct {
	ledger
	open map[int32]*openSessions
}

type openSessions struct {
	timeMs  int64
	sweptMs int64
	byKey   map[string][]*session
}

type session struct {
	tally
	startMs, endMs int64
}

const (
	gapMs  = int64(side.SessionGap / 1e6)
	lifeMs = gapMs + int64(side.SessionGrace/1e6)
)

func newSessions(l *loop) *sessions {
	return &sessions{ledger: newLedger(l), open: make(map[int32]*openSessions)}
}

func (s *sessions) record(r *kgo.Record) {
	o := s.open[r.Partition]
	if o == nil {
		o = &openSessions{byKey: make(map[string][]*session)}
		s.open[r.Partition] = o
	}
	at := r.Timestamp.UnixMilli()
	o.timeMs = max(o.timeMs, at)
	n := &session{startMs: at, endMs: at, tally: tally{count: 1, partition: r.Partition, timestamp: r.Timestamp}}
	merged := func(old *session) bool { return old.endMs >= at-gapMs && old.startMs <= at+gapMs }
	of := o.byKey[string(r.Key)]
	for _, old := range of {
		if merged(old) {
			n.startMs, n.endMs, n.count = min(n.startMs, old.startMs), max(n.endMs, old.endMs), n.count+old.count
		}
	}
	if n.endMs+lifeMs < o.timeMs {
		return // late
	}
	of = slices.DeleteFunc(of, func(old *session) bool {
		if !merged(old) {
			return false
		}
		old.count = 0
		s.changed(&old.tally)
		return true
	})
	// End before start, so that what has ended last is behind.
	n.key = binary.BigEndian.AppendUint64(append(make([]byte, 0, len(r.Key)+16), r.Key...), uint64(n.endMs))
	n.key = binary.BigEndian.AppendUint64(n.key, uint64(n.startMs))
	o.byKey[string(r.Key)] = append(of, n)
	s.changed(&n.tally)
	o.sweep()
}

// sweep forgets, now and then, the sessions that are closed.
func (o *openSessions) sweep() {
	if o.timeMs-o.sweptMs < lifeMs {
		return
	}
	o.sweptMs = o.timeMs
	for key, of := range o.byKey {
		of = slices.DeleteFunc(of, func(old *session) bool { return old.endMs+lifeMs < o.timeMs })
		if len(of) == 0 {
			delete(o.byKey, key)
		} else {
			o.byKey[key] = of
		}
	}
}
