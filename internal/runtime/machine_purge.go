package runtime

import (
	"maps"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/state"
)

// purge deletes records of repartition topics that are processed and committed for good.
type purge struct {
	nextMs  int64
	before  map[broker.TopicPartition]int64 // committed since the last purge
	waiting bool
}

func (p *purge) committed(tp broker.TopicPartition, offset int64) {
	if p.before == nil {
		p.before = make(map[broker.TopicPartition]int64)
	}
	p.before[tp] = max(p.before[tp], offset)
}

func (m *Machine) purgeDue() {
	p := &m.purge
	if m.set.PurgeIntervalMs <= 0 || m.nowMs < p.nextMs {
		return
	}
	p.nextMs = m.nowMs + m.set.PurgeIntervalMs
	if p.waiting || len(p.before) == 0 {
		return
	}
	p.waiting = true
	before := p.before
	p.before = nil
	m.do(Purge{Before: maps.Clone(before)})
}

func (m *Machine) purged(err error) {
	m.purge.waiting = false
	if err != nil {
		m.log.Warn("records of repartition topics could not be deleted, it is tried again with the next ones", "error", err)
	}
}

func (u *readyUnit) setPosition(store string, offset int64) {
	if u.positions == nil {
		u.positions = make(map[string]state.Position)
	}
	u.positions[store] = state.Position{Offset: offset, Epoch: -1}
}
