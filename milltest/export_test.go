package milltest

import (
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
)

// Mark is a moment of the driver's cluster at which everything is committed.
type Mark struct {
	ends    map[broker.TopicPartition]int64
	commits map[broker.TopicPartition]broker.OffsetMeta
}

// Mark notes the ends of all topics.
func (d *Driver) Mark() Mark {
	m := Mark{ends: make(map[broker.TopicPartition]int64), commits: make(map[broker.TopicPartition]broker.OffsetMeta)}
	for tp, l := range d.logs {
		m.ends[tp], m.commits[tp] = int64(len(l.records)), l.committed
	}
	return m
}

// Rollback takes everything back that was written since a mark, input included, and starts the tasks again: what an aborted
// transaction leaves, before its input is read again.
func (d *Driver) Rollback(m Mark) error {
	for tp, l := range d.logs {
		l.records = l.records[:m.ends[tp]]
		c, ok := m.commits[tp]
		if !ok {
			c = broker.OffsetMeta{Offset: -1, Epoch: -1}
		}
		l.committed = c
	}
	for topic, all := range d.written {
		d.written[topic] = slices.DeleteFunc(all, func(r Raw) bool { return r.Offset >= m.ends[r.TopicPartition] })
	}
	return d.Restart()
}
