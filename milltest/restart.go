package milltest

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/state"
)

// Restart closes the tasks and opens them again: state comes back from the changelogs, processing goes on at the committed
// offsets, and what was not committed is processed again. It is a move to another instance, after a clean stop if Commit
// was called before, otherwise after a crash.
func (d *Driver) Restart() error {
	if d.closed {
		return errClosed
	}
	d.failed = nil
	if err := d.closeTasks(); err != nil {
		return err
	}
	if err := d.resolve(); err != nil {
		return err
	}
	if err := d.openTasks(); err != nil {
		return err
	}
	for _, t := range d.tasks {
		for _, in := range t.spec.Inputs {
			if err := d.redeliver(t, in.TopicPartition); err != nil {
				return err
			}
		}
	}
	return d.settle()
}

// redeliver hands a restarted task the records from its committed offset on.
func (d *Driver) redeliver(t *testTask, tp broker.TopicPartition) error {
	l := d.log(tp)
	start := max(0, l.committed.Offset)
	end := int64(len(l.records))
	if start >= end {
		return nil
	}
	records := l.records[start:end]
	b := broker.Batch{TopicPartition: tp, Records: records, Position: end, HighWater: end, StableEnd: end}
	if err := t.task.Add(b); err != nil {
		return err
	}
	for i := range records {
		t.queued = append(t.queued, queued{seq: d.nextSeq(), tsMs: records[i].TimestampMs})
	}
	return nil
}

// restore fills the stores of a task from their changelogs.
func (d *Driver) restore(t *testTask) error {
	for _, c := range t.spec.Changelogs {
		l := d.log(c.TopicPartition)
		end := int64(len(l.records))
		if c.Reused {
			end = max(0, d.log(c.TopicPartition).committed.Offset)
		}
		r, err := t.set.BeginRestore(c.Store.Name)
		if err != nil {
			return err
		}
		records := make([]state.RestoreRecord, 0, end)
		for i := range l.records[:end] {
			rec := &l.records[i]
			records = append(records, state.RestoreRecord{Key: rec.Key, Value: rec.Value, TimestampMs: rec.TimestampMs})
		}
		at := state.Position{Offset: end, Epoch: -1}
		if err := r.Apply(records, at); err != nil {
			return fmt.Errorf("milltest: restoring store %s: %w", c.Store.Name, err)
		}
		if _, err := r.Finish(at); err != nil {
			return fmt.Errorf("milltest: restoring store %s: %w", c.Store.Name, err)
		}
		t.positions[c.Store.Name] = at
	}
	return nil
}
