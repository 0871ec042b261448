package kgoclient

import (
	"context"
	"maps"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
)

// endsWait is how long a round waits to learn where changelogs end. Members wait for the round meanwhile, and go on with what
// they had; without an answer nothing moves that could be behind.
const endsWait = 5 * time.Second

// stateEnds finds how far state could be: up to the last stable offsets of changelogs, and up to the committed offsets of
// inputs that are their own changelog. It gives nothing if that cannot be found out in time.
func (m *Membership) stateEnds(logs, inputs []broker.TopicPartition) map[broker.TopicPartition]int64 {
	ctx, cancel := context.WithTimeout(m.ctx, min(endsWait, m.cfg.RebalanceTimeout/3))
	defer cancel()
	ends, err := m.findEnds(ctx, logs, inputs)
	if err != nil {
		if m.ctx.Err() == nil {
			m.cfg.Logger.Warn("the leader of the group does not know where changelogs end: tasks stay where they are, and copies are taken to be behind",
				"group", m.cfg.Group, "error", err)
		}
		return nil
	}
	return ends
}

func (m *Membership) findEnds(ctx context.Context, logs, inputs []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	ends := make(map[broker.TopicPartition]int64, len(logs)+len(inputs))
	c := m.client()
	if len(logs) > 0 {
		found, err := c.listOffsets(ctx, broker.StableEnd, logs)
		if err != nil {
			return nil, err
		}
		maps.Copy(ends, found)
	}
	if len(inputs) > 0 {
		committed := make(map[broker.TopicPartition]broker.OffsetMeta, len(inputs))
		admin := &Admin{c: c, meta: newMetadata(c)}
		if err := c.retry(ctx, func() error { return admin.fetchCommitted(ctx, m.cfg.Group, inputs, committed, false) }); err != nil {
			return nil, err
		}
		for tp, o := range committed {
			ends[tp] = max(0, o.Offset)
		}
	}
	return ends, nil
}
