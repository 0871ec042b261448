package milltest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/task"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// testTask is a task with what the driver knows of it.
type testTask struct {
	spec topology.TaskSpec
	sub  *topology.Subtopology
	set  *state.Set
	task *task.Task
	// queued are the records delivered and not yet taken, by input, oldest first.
	queued [][]queued
	// stalled says that it takes nothing before time moves on or records come: an input may still bring older records.
	stalled bool
	// positions are the ends of the changelogs of its stores as of what it has written.
	positions map[string]state.Position
	// restored are the highest timestamps of the changelogs that its stores were restored from.
	restored map[string]int64
}

// queued is a record on its way into a task.
type queued struct {
	seq  int
	tsMs int64
}

// first returns the queued record with the smallest timestamp, which is about to be taken; ok is false if there is none.
func (t *testTask) first() (first queued, ok bool) {
	for _, q := range t.queued {
		if len(q) > 0 && (!ok || q[0].tsMs < first.tsMs || q[0].tsMs == first.tsMs && q[0].seq < first.seq) {
			first, ok = q[0], true
		}
	}
	return first, ok
}

// taken drops what the task has taken or skipped from the queues, and tells whether that was anything. Which record it
// was is the task's choice; the queues only pace the driver.
func (t *testTask) taken() bool {
	moved := false
	for i, in := range t.spec.Inputs {
		left, _ := t.task.Buffered(in.TopicPartition)
		moved = moved || left < len(t.queued[i])
		t.queued[i] = t.queued[i][len(t.queued[i])-left:]
	}
	return moved
}

func (d *Driver) openTasks() error {
	for _, spec := range d.plan.Tasks {
		t := &testTask{
			spec: spec, sub: d.graph.Subtopology(spec.Subtopology), queued: make([][]queued, len(spec.Inputs)),
			positions: make(map[string]state.Position), restored: make(map[string]int64),
		}
		if err := d.openTask(t); err != nil {
			if t.set != nil {
				t.set.Abandon()
			}
			return err
		}
		d.tasks = append(d.tasks, t)
	}
	return nil
}

func (d *Driver) openTask(t *testTask) error {
	specs, err := task.StoreSpecs(t.sub)
	if err != nil {
		return err
	}
	if d.disk != nil {
		t.set, err = d.disk.OpenSet(fmt.Sprintf("%d_%d", t.spec.Subtopology, t.spec.Partition), specs, nil)
	} else {
		t.set, err = state.NewMemorySet(specs)
	}
	if err != nil {
		return err
	}
	if err := d.restore(t); err != nil {
		return err
	}
	inputs := make([]broker.TopicPartition, 0, len(t.spec.Inputs))
	committed := make(map[broker.TopicPartition]broker.OffsetMeta)
	for _, in := range t.spec.Inputs {
		inputs = append(inputs, in.TopicPartition)
		committed[in.TopicPartition] = d.log(in.TopicPartition).committed
	}
	t.task, err = task.New(task.Config{
		ID:  processor.TaskID{Subtopology: t.spec.Subtopology, Partition: t.spec.Partition},
		Sub: t.sub, Inputs: inputs, Set: t.set, RestoredTimeMs: t.restored, Committed: committed, Ctx: d.ctx,
		NowMs: func() int64 { return d.nowMs }, Metrics: d.metrics, Handlers: d.opts.handlers,
		Partitions:   func(topic string) (int32, error) { return d.partitionsOf(topic), nil },
		TopicName:    func(name string) string { return topology.DecoratedTopic(d.opts.appID, name) },
		GlobalStores: d.globals.stores, CacheBytes: d.opts.cacheBytes, ReadCacheBytes: d.opts.readCache,
		MaxIdleMs: d.opts.maxIdleMs,
	})
	if err != nil {
		return err
	}
	for _, in := range inputs {
		start := max(0, committed[in].Offset)
		t.task.SetPosition(in, start, start)
	}
	return nil
}

// closeTasks closes the tasks. A task that has committed everything is closed in order and keeps what is on disk; one that
// has not is left as by a crash, and falls back to what had been flushed.
func (d *Driver) closeTasks() error {
	var errs []error
	for _, t := range d.tasks {
		clean := t.task != nil && !t.task.CommitNeeded() && d.failed == nil
		if t.task != nil {
			errs = append(errs, t.task.Close())
		}
		if clean {
			errs = append(errs, t.set.Close())
		} else {
			t.set.Abandon()
		}
	}
	d.tasks = nil
	return errors.Join(errs...)
}

// append writes a record to a partition and hands it to whoever reads it.
func (d *Driver) append(tp broker.TopicPartition, r broker.Record) error {
	l := d.log(tp)
	r.Offset = int64(len(l.records))
	l.records = append(l.records, r)
	d.written[tp.Topic] = append(d.written[tp.Topic], Raw{TopicPartition: tp, Record: r})
	if err := d.deliverGlobal(tp, &l.records[len(l.records)-1]); err != nil {
		return err
	}
	for _, t := range d.tasks {
		for i, in := range t.spec.Inputs {
			if in.TopicPartition != tp {
				continue
			}
			end := r.Offset + 1
			b := broker.Batch{TopicPartition: tp, Records: []broker.Record{r}, Position: end, HighWater: end, StableEnd: end}
			if err := t.task.Add(b); err != nil {
				return err
			}
			t.queued[i] = append(t.queued[i], queued{seq: d.nextSeq(), tsMs: r.TimestampMs})
			t.stalled = false
		}
	}
	return nil
}

func (d *Driver) nextSeq() int {
	d.seq++
	return d.seq
}

// settle processes everything that is queued, and what follows from it, and commits unless that is left to the test.
func (d *Driver) settle() error {
	if d.opts.concurrent {
		return d.settleConcurrently()
	}
	for {
		if err := d.after(); err != nil {
			return err
		}
		t := d.next()
		if t == nil {
			return nil
		}
		if err := d.process(t); err != nil {
			return d.fail(err)
		}
	}
}

// after collects outputs, commits, and collects what the commit has flushed.
func (d *Driver) after() error {
	if err := d.collect(); err != nil {
		return err
	}
	if d.opts.manual {
		return nil
	}
	return d.commitAll()
}

// next returns the task with the oldest queued record, by timestamp and then by the order of writing.
func (d *Driver) next() *testTask {
	var best *testTask
	var oldest queued
	for _, t := range d.tasks {
		first, ok := t.first()
		if !ok || t.stalled {
			continue
		}
		if best == nil || first.tsMs < oldest.tsMs || first.tsMs == oldest.tsMs && first.seq < oldest.seq {
			best, oldest = t, first
		}
	}
	return best
}

func (d *Driver) process(t *testTask) error {
	if _, err := t.task.Process(1); err != nil {
		return err
	}
	t.stalled = !t.taken()
	return nil
}

func (d *Driver) settleConcurrently() error {
	for {
		if err := d.after(); err != nil {
			return err
		}
		var wg sync.WaitGroup
		errs := make([]error, len(d.tasks))
		var busy []*testTask
		for i, t := range d.tasks {
			if _, ok := t.first(); !ok || t.stalled {
				continue
			}
			n := 0
			for _, q := range t.queued {
				n += len(q)
			}
			busy = append(busy, t)
			wg.Go(func() { _, errs[i] = t.task.Process(n) })
		}
		if len(busy) == 0 {
			return nil
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return d.fail(err)
			}
		}
		for _, t := range busy {
			t.stalled = !t.taken()
		}
	}
}

// collect writes what the tasks have emitted to the logs, in the order of tasks.
func (d *Driver) collect() error {
	for _, t := range d.tasks {
		out := t.task.TakeOutputs()
		if err := d.write(t, out); err != nil {
			return err
		}
		t.task.ReuseOutputs(out)
	}
	return nil
}

func (d *Driver) write(t *testTask, out []op.Output) error {
	for i := range out {
		o := &out[i]
		n := d.partitionsOf(o.Topic)
		p := o.Partition
		if p < 0 {
			p = codec.Partition(o.Value, n) // a record without a key may go anywhere
		}
		if p >= n {
			return d.fail(fmt.Errorf("milltest: step %s wrote to partition %d of %s, which has %d", o.Step, p, o.Topic, n))
		}
		tp := broker.TopicPartition{Topic: o.Topic, Partition: p}
		if o.Store != "" {
			t.positions[o.Store] = state.Position{Offset: int64(len(d.log(tp).records)) + 1, Epoch: -1}
		}
		err := d.append(tp, broker.Record{Key: o.Key, Value: o.Value, Headers: o.Headers, TimestampMs: o.TimestampMs, LeaderEpoch: -1})
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) commit() error {
	if err := d.usable(); err != nil {
		return err
	}
	if err := d.commitAll(); err != nil {
		return err
	}
	return d.settle()
}

// commitAll commits every task that has done something, in the order of tasks.
func (d *Driver) commitAll() error {
	for _, t := range d.tasks {
		u, err := t.task.HandOver()
		if err != nil {
			return d.fail(err)
		}
		if u == nil {
			continue
		}
		if err := d.write(t, u.Outputs); err != nil {
			return err
		}
		for tp, o := range u.Offsets {
			d.log(tp).committed = o
		}
		if err := t.task.Sealed(u, t.positions); err != nil {
			return d.fail(err)
		}
		if t.set.FlushDue(d.nowMs) {
			if err := t.set.Flush(); err != nil {
				return d.fail(err)
			}
		}
	}
	return nil
}
