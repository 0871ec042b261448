package milltest

import (
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
	// queued are the records delivered and not yet taken, oldest first.
	queued []queued
	// stalled says that it waits for wall-clock time: an input that may still bring older records.
	stalled bool
	// positions are the ends of the changelogs of its stores as of what it has written.
	positions map[string]state.Position
}

// queued is a record on its way into a task.
type queued struct {
	seq  int
	tsMs int64
}

func (d *Driver) openTasks() error {
	for _, spec := range d.plan.Tasks {
		t := &testTask{spec: spec, sub: d.graph.Subtopology(spec.Subtopology), positions: make(map[string]state.Position)}
		if err := d.openTask(t); err != nil {
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
	if t.set, err = state.NewMemorySet(specs); err != nil {
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
		Sub: t.sub, Inputs: inputs, Set: t.set, Committed: committed, Ctx: d.ctx,
		NowMs: func() int64 { return d.nowMs }, Metrics: d.metrics, Handlers: d.opts.handlers,
		Partitions:   func(topic string) (int32, error) { return d.partitionsOf(topic), nil },
		TopicName:    func(name string) string { return topology.DecoratedTopic(d.opts.appID, name) },
		GlobalStores: d.globalStores(), CacheBytes: d.opts.cacheBytes, ReadCacheBytes: d.opts.readCache,
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

func (d *Driver) globalStores() map[string]any {
	m := make(map[string]any, len(d.globals))
	for name, s := range d.globals {
		m[name] = s
	}
	return m
}

func (d *Driver) closeTasks() error {
	var first error
	for _, t := range d.tasks {
		if err := t.task.Close(); err != nil && first == nil {
			first = err
		}
		t.set.Abandon()
	}
	d.tasks = nil
	return first
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
		for _, in := range t.spec.Inputs {
			if in.TopicPartition != tp {
				continue
			}
			end := r.Offset + 1
			b := broker.Batch{TopicPartition: tp, Records: []broker.Record{r}, Position: end, HighWater: end, StableEnd: end}
			if err := t.task.Add(b); err != nil {
				return err
			}
			t.queued = append(t.queued, queued{seq: d.nextSeq(), tsMs: r.TimestampMs})
		}
	}
	return nil
}

func (d *Driver) nextSeq() int {
	d.seq++
	return d.seq
}

func (d *Driver) deliverGlobal(tp broker.TopicPartition, r *broker.Record) error {
	for _, g := range d.graph.Globals() {
		if g.Topic() != tp.Topic {
			continue
		}
		if _, err := op.ApplyGlobal(op.GlobalApply{
			Store: d.globals[g.Store.Name], Step: g.Processor.Name, In: tp, Record: r,
			Handler: d.opts.handlers.Deserialization, Metrics: d.metrics,
		}); err != nil {
			return d.fail(err)
		}
	}
	return nil
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
	for _, t := range d.tasks {
		if len(t.queued) == 0 || t.stalled {
			continue
		}
		if best == nil || t.queued[0].tsMs < best.queued[0].tsMs ||
			t.queued[0].tsMs == best.queued[0].tsMs && t.queued[0].seq < best.queued[0].seq {
			best = t
		}
	}
	return best
}

func (d *Driver) process(t *testTask) error {
	n, err := t.task.Process(1)
	if err != nil {
		return err
	}
	if n == 0 {
		// What is left was skipped, or waits for the idle time of another input.
		t.stalled = t.task.Idle().UntilMs > 0
		if !t.stalled {
			t.queued = nil
		}
		return nil
	}
	// Which record was taken is the task's choice; the queue only paces the driver.
	t.queued = t.queued[1:]
	return nil
}

func (d *Driver) settleConcurrently() error {
	for {
		if err := d.after(); err != nil {
			return err
		}
		var wg sync.WaitGroup
		errs := make([]error, len(d.tasks))
		busy := false
		for i, t := range d.tasks {
			n := len(t.queued)
			if n == 0 {
				continue
			}
			busy = true
			t.queued = nil
			wg.Go(func() { _, errs[i] = t.task.Process(n) })
		}
		if !busy {
			return nil
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				return d.fail(err)
			}
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
	}
	return nil
}
