package milltest

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/task"
	"github.com/millrace-io/millrace/internal/topology"
)

// Restart closes the tasks and opens them again: state comes back from the changelogs, processing goes on at the committed
// offsets, and what was not committed is processed again. It is a move to another instance, after a clean stop if Commit
// was called before, otherwise after a crash. With OnDisk it is a start of the same instance: persistent stores keep what
// is on disk, and only the rest comes from the changelogs.
func (d *Driver) Restart() error {
	if d.closed {
		return errClosed
	}
	d.failed = nil
	if err := d.closeTasks(); err != nil {
		return err
	}
	if err := d.closeGlobals(); err != nil {
		return err
	}
	if err := d.resolve(); err != nil {
		return err
	}
	if err := d.openGlobals(); err != nil {
		return err
	}
	if err := d.openTasks(); err != nil {
		return err
	}
	for _, t := range d.tasks {
		for i, in := range t.spec.Inputs {
			if err := d.redeliver(t, i, in.TopicPartition); err != nil {
				return err
			}
		}
	}
	return d.settle()
}

// redeliver hands a restarted task the records from its committed offset on.
func (d *Driver) redeliver(t *testTask, input int, tp broker.TopicPartition) error {
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
		t.queued[input] = append(t.queued[input], queued{seq: d.nextSeq(), tsMs: records[i].TimestampMs})
	}
	return nil
}

// restore fills the stores of a task from their changelogs, from where the disk leaves off.
func (d *Driver) restore(t *testTask) error {
	for _, c := range t.spec.Changelogs {
		if err := d.restoreStore(t, c); err != nil {
			return fmt.Errorf("milltest: restoring store %s: %w", c.Store.Name, err)
		}
	}
	return nil
}

func (d *Driver) restoreStore(t *testTask, c topology.Changelog) error {
	name := c.Store.Name
	l := d.log(c.TopicPartition)
	end := int64(len(l.records))
	if c.Reused {
		end = max(0, l.committed.Offset)
	}
	start := int64(0)
	if p, ok := t.set.Position(name); ok {
		start = min(p.Offset, end)
	}
	r, err := t.set.BeginRestore(name)
	if err != nil {
		return err
	}
	r.LimitTime(codec.ObservedAt(name, d.committedTexts(t)))
	log := restore.Log{TopicPartition: c.TopicPartition, Store: name, Buffered: c.Store.Kind == topology.Buffer}
	var replayer op.Replayer
	if c.Reused {
		if replayer, err = task.SourceReplay(t.sub, c.Topic).NewReplayer(c.TopicPartition); err != nil {
			return err
		}
	}
	records := make([]state.RestoreRecord, 0, end-start)
	for i := range l.records[start:end] {
		raw := &l.records[start+int64(i)]
		rec, err := log.Record(raw)
		if err != nil {
			return err
		}
		if replayer != nil {
			was, ok := replayer.Replay(raw)
			if !ok {
				continue
			}
			if rec.TimestampMs, rec.Headers = was.TimestampMs, was.Headers; was.Null {
				rec.Value = nil
			}
		}
		records = append(records, rec)
	}
	at := state.Position{Offset: end, Epoch: -1}
	if err := r.Apply(records, at); err != nil {
		return err
	}
	sum, err := r.Finish(at)
	if err != nil {
		return err
	}
	if sum.HighestTimestampMs != state.NoTime {
		t.restored[name] = sum.HighestTimestampMs
	}
	t.positions[name] = at
	return t.set.SetLevel(name, d.nowMs)
}

// committedTexts returns the metadata of the committed offsets of a task's inputs.
func (d *Driver) committedTexts(t *testTask) []string {
	var texts []string
	for _, in := range t.spec.Inputs {
		if c := d.log(in.TopicPartition).committed; c.Offset >= 0 {
			texts = append(texts, c.Metadata)
		}
	}
	return texts
}
