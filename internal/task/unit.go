package task

import (
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/processor"
)

// Unit is what a task hands over at a record boundary: everything since its last unit that must be committed together. It
// is not changed any more.
type Unit struct {
	Task processor.TaskID
	// Outputs are the records that have not left yet, those of the flushed caches included. They follow all that was
	// taken with TakeOutputs before.
	Outputs []op.Output
	// Offsets are the next offsets of the task's inputs, with the metadata that carries its times.
	Offsets map[broker.TopicPartition]broker.OffsetMeta
	// State holds the task's writes; nil if it made none.
	State *state.Unit
}

// HandOver flushes the task's caches, which may send records through the steps behind them, and returns a unit; nil if
// nothing has happened since the last one.
func (t *Task) HandOver() (*Unit, error) {
	if t.closed {
		return nil, ErrClosed
	}
	t.env.CommitRequested = false
	if !t.commitNeeded {
		return nil, nil
	}
	if err := t.env.Flush(); err != nil {
		return nil, err
	}
	t.env.BeforeHandOver()
	observed := t.env.ObservedTimes()
	stores := make(map[string]int64, len(observed))
	for name, at := range observed {
		store := codec.StoreOfTime(name)
		if !slices.Contains(t.stores, store) {
			continue // the time of a step without a store travels with the offsets alone
		}
		stores[store] = max(stores[store], at)
	}
	for store, at := range stores {
		if err := t.set.SetMeta(store, ObservedMeta, at); err != nil {
			return nil, err
		}
	}
	offsets := t.offsets(observed)
	if t.offsetStore != "" {
		for _, q := range t.queues {
			if o, ok := offsets[q.in]; ok {
				if err := t.set.SetMeta(t.offsetStore, q.offsetMeta, o.Offset); err != nil {
					return nil, err
				}
			}
		}
	}
	u := &Unit{Task: t.id, Outputs: t.env.TakeOutputs(), Offsets: offsets, State: t.set.HandOver()}
	t.commitNeeded = false
	return u, nil
}

func (t *Task) offsets(observed map[string]int64) map[broker.TopicPartition]broker.OffsetMeta {
	m := make(map[broker.TopicPartition]broker.OffsetMeta, len(t.queues))
	emitted := t.env.EmittedTimes()
	for _, q := range t.queues {
		at := q.offset()
		if at < 0 {
			continue // nothing was ever fetched of it
		}
		text, leftOut := codec.AppendOffsetMetadata(nil, codec.OffsetMetadata{
			PartitionTimeMs: q.partitionTimeMs, StreamTimeMs: t.env.StreamTimeMs, Processor: emitted, Observed: observed,
		})
		for range leftOut {
			t.leftOut.Inc()
		}
		q.committed = at
		m[q.in] = broker.OffsetMeta{Offset: at, Metadata: string(text), Epoch: -1}
	}
	return m
}

// Sealed tells the task that a unit is committed: its writes become part of what the state stands for, at the changelog
// positions given.
func (t *Task) Sealed(u *Unit, positions map[string]state.Position) error {
	if u.State == nil {
		return nil
	}
	return t.set.Seal(u.State, positions)
}
