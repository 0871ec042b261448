package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/clock"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/task"
)

// life is one attempt to run a task, from its opening to its end. All but the atomic fields belongs to whoever runs the
// task's work.
type life struct {
	slot *slot
	name string
	task *task.Task
	set  *state.Set
	kept *state.Set // given to the restore
	box  *outbox

	// place tells which record the task is in, and labels mark the goroutine that runs it.
	place  task.Place
	labels context.Context

	lastTopic string // cache of limit and store look-ups
	lastLimit int
	lastStore string
	storeAt   int
	refused   []refusal // by a broker, in an earlier life: the production handler is asked before they are sent again
	// retention holds, by store, for how long the changelog keeps a record by its event time, 0 for ever; nil if all do.
	retention []int64

	// progressMs is when the worker last began a record or a batch of quick ones; 0 while nobody runs the task.
	progressMs atomic.Int64
}

// finish says how a piece of work ends the task.
type finish uint8

const (
	goOn        finish = iota
	finishClean        // everything is committed: close task and stores
	finishDirty        // close the task, drop what is not committed, close the stores
	finishKeep         // close the task, drop what is not committed, keep the stores open for a replay of the gap
)

// sealing is a unit that is committed and whose writes are to become part of the state.
type sealing struct {
	unit      *task.Unit
	positions map[string]state.Position
	level     []string // stores whose changelog is an input that was read to its end
}

// Work is one turn of a task on a worker.
type Work struct {
	life     *life
	shared   *shared
	open     *task.Config // make the task first
	starts   []startAt
	seal     []sealing
	failed   []*sent
	handOver bool
	batches  []broker.Batch
	process  bool
	timerMs  int64 // a timer of the wall clock that is due; 0 none
	heard    []heard
	stale    []broker.TopicPartition // inputs whose end is not known any more
	finish   finish
}

// heard tells whether an input was read successfully of late.
type heard struct {
	tp broker.TopicPartition
	ok bool
}

// startAt is where reading of an input begins.
type startAt struct {
	tp       broker.TopicPartition
	from, to int64
}

// shared is what all tasks of an instance have in common on the worker's side.
type shared struct {
	clock clock.Clock
	// steady is the time of the machine, which does not jump with the clock; nil: the clock's.
	steady   func() int64
	producer broker.Producer
	// maxRecord tells how large a record for a topic may be, 0 where it is not known, and retention for how long the topic
	// keeps records by their time, 0 for ever.
	maxRecord func(topic string) int
	retention func(topic string) int64
	log       *slog.Logger
	// sliceMs is how long a turn takes at most, at the next record boundary, and sliceRecords how many records.
	sliceMs      int64
	sliceRecords int
	// privateBytes is how much a task may gather between two hand-overs.
	privateBytes atomic.Int64
}

// steadyMs is the time of the machine.
func (sh *shared) steadyMs() int64 {
	if sh.steady == nil {
		return sh.clock.NowMs()
	}
	return sh.steady()
}

// Done is what came out of a Work.
type Done struct {
	work *Work
	// Err ended the turn: the task cannot go on.
	Err error
	// Processed is the number of records taken.
	Processed int
	more      bool // it stopped for its limit
	idle      task.IdleReason
	timerMs   int64 // next timer of the wall clock, 0 none
	handed    bool  // handing over succeeded, with or without a unit
	commit    bool  // there is something to commit
	request   bool  // a commit was asked for, by the user or for size
	flushInMs int64 // when state is to be looked at again, which may have to be written then; 0 never
	buffered  []buffered
	streamMs  int64
}

// buffered is what waits in the task for one input.
type buffered struct {
	tp      broker.TopicPartition
	records int
	bytes   int64
}

// Task names the task.
func (w *Work) Task() string { return w.life.name }

// Do runs the work. A panic never leaves it: those of steps are errors already, and any other one ends the task with an
// error that carries its stack.
func (w *Work) Do() *Done {
	l := w.life
	d := &Done{work: w}
	l.progressMs.Store(w.shared.steadyMs())
	d.Err = w.guarded(d)
	if l.task != nil && w.finish == goOn {
		w.observe(d)
	}
	l.progressMs.Store(0)
	return d
}

func (w *Work) guarded(d *Done) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("millrace: task %s: %w\n%s", w.life.name, &op.PanicError{Value: p}, debug.Stack())
		}
	}()
	return w.run(d)
}

func (w *Work) run(d *Done) error {
	l := w.life
	if w.open != nil {
		if err := w.openTask(); err != nil {
			return err
		}
	}
	for _, s := range w.seal {
		if err := l.task.Sealed(s.unit, s.positions); err != nil {
			return fmt.Errorf("millrace: task %s: %w", l.name, err)
		}
		for _, store := range s.level {
			if err := l.set.SetLevel(store, w.shared.clock.NowMs()); err != nil {
				return fmt.Errorf("millrace: task %s: %w", l.name, err)
			}
		}
	}
	if err := w.judgeFailures(); err != nil {
		return err
	}
	if w.handOver {
		if err := w.handOverUnit(d); err != nil {
			return err
		}
	}
	for i := range w.batches {
		if err := l.task.Add(w.batches[i]); err != nil {
			return err
		}
	}
	for _, tp := range w.stale {
		l.task.ForgetEnd(tp)
	}
	if w.process && l.box.takes() {
		if err := w.processSlice(d); err != nil {
			return err
		}
	}
	if w.finish != goOn {
		return w.end()
	}
	if now := w.shared.clock.NowMs(); l.set.FlushDue(now) {
		if err := l.set.Flush(); err != nil {
			return fmt.Errorf("millrace: task %s: %w", l.name, err)
		}
	}
	return nil
}

func (w *Work) openTask() error {
	t, err := task.New(*w.open)
	if err != nil {
		return err
	}
	w.life.task = t
	w.life.noteRetention(w.shared, w.open)
	w.life.tellByHand(w.shared.log, t.OffsetsByHand(), w.open)
	for _, s := range w.starts {
		t.SetPosition(s.tp, s.from, s.to)
	}
	// Init may have written.
	return w.life.sendOutputs(w.shared, w.life.box.current())
}

// processSlice takes records until the slice is used up, nothing is to take, or a commit is asked for. Records are taken
// one by one at first, then in growing groups while they are quick, so that a slow one shows at once.
func (w *Work) processSlice(d *Done) error {
	l := w.life
	if w.timerMs > 0 {
		// When it is due is told by the clock, which may have been set back since the machine was told.
		now := w.shared.clock.NowMs()
		if due, ok := l.task.NextTimerMs(); ok && now >= due {
			for _, h := range w.heard {
				l.task.SetHeard(h.tp, h.ok)
			}
			if err := l.task.Punctuate(now); err != nil {
				return err
			}
		}
	}
	start := w.shared.steadyMs()
	last := start
	group := 1
	for {
		n, err := l.task.Process(min(group, w.shared.sliceRecords-d.Processed))
		d.Processed += n
		if err != nil {
			// What was emitted before leaves all the same: outputs do not wait for a commit. (In a transaction they do, and what
			// was not handed over is dropped.) The changelog must not tell of a record that was processed by half: this turn
			// stays open.
			if e := l.sendRest(w.shared, l.box.current(), l.box.beginTurn(l.box.current())); e != nil {
				return errors.Join(err, e)
			}
			return err
		}
		if n < group {
			d.more = d.Processed >= w.shared.sliceRecords
			break
		}
		now := w.shared.steadyMs()
		if now != last {
			l.progressMs.Store(now)
			last = now
		}
		if d.Processed >= w.shared.sliceRecords || now-start >= w.shared.sliceMs || l.task.CommitRequested() ||
			l.task.PendingBytes() > w.shared.privateBytes.Load() {
			d.more = true
			break
		}
		if now-start <= w.shared.sliceMs/4 {
			group = min(group*2, maxGroup)
		}
	}
	return l.sendOutputs(w.shared, l.box.current())
}

const maxGroup = 64

func (w *Work) handOverUnit(d *Done) error {
	l := w.life
	u, err := l.task.HandOver()
	if err != nil {
		return err
	}
	d.handed = true
	if u == nil {
		return nil
	}
	out := u.Outputs
	u.Outputs = nil
	if err := l.sendTurn(w.shared, out, l.box.current()); err != nil {
		return err
	}
	l.box.closeSegment(u) // what is refused is dropped when the task is closed
	return nil
}

// judgeFailures asks the production handler about records that could not be written.
func (w *Work) judgeFailures() error {
	l := w.life
	for i, s := range w.failed {
		s.attempt++
		retry, err := l.task.FailedOutput(&s.Output, s.err, s.attempt)
		if err != nil {
			w.failed = w.failed[i:]
			return err
		}
		// What the handler has sent in its place belongs to its turn: the changelog must not be ahead of that either.
		if err := l.sendRest(w.shared, s.seg, s.turn); err != nil {
			w.failed = w.failed[i:]
			return err
		}
		if retry {
			s.err = nil
			w.shared.producer.Produce(s.ProduceRecord, s.answer)
			continue
		}
		l.box.settle(s)
	}
	w.failed = nil
	return nil
}

// end closes the task.
func (w *Work) end() error {
	l := w.life
	var err error
	if l.task != nil {
		err = l.task.Close()
		l.task = nil
	}
	if l.set == nil {
		return err
	}
	if w.finish != finishClean {
		if e := l.set.DropAll(); e != nil && err == nil {
			err = e
		}
	}
	if w.finish == finishKeep {
		return err
	}
	if e := l.set.Close(); e != nil && err == nil {
		err = e
	}
	return err
}

// observe notes what the machine decides by.
func (w *Work) observe(d *Done) {
	t := w.life.task
	d.idle = t.Idle()
	if ms, ok := t.NextTimerMs(); ok {
		d.timerMs = w.shared.steadyMs() + max(0, ms-w.shared.clock.NowMs())
	}
	d.commit = t.CommitNeeded()
	d.request = t.CommitRequested() || d.commit && w.life.set.PrivateBytes()+w.life.box.stagedBytes() > w.shared.privateBytes.Load()
	d.flushInMs = w.life.set.FlushWithinMs(flushEveryMs)
	d.streamMs = t.StreamTimeMs()
	for _, tp := range t.Inputs() {
		n, b := t.Buffered(tp)
		d.buffered = append(d.buffered, buffered{tp: tp, records: n, bytes: b})
	}
}

// sendOutputs sends what the task has emitted as one turn.
func (l *life) sendOutputs(sh *shared, seg *segment) error {
	out := l.task.TakeOutputs()
	err := l.sendTurn(sh, out, seg)
	if err == nil && len(out) > 0 {
		l.task.ReuseOutputs(out)
	}
	return err
}

// sendTurn sends records, and what handlers emit on the way for those that are refused, as one turn. After an error it stays
// open: the task ends, and a part of what it did is missing.
func (l *life) sendTurn(sh *shared, out []op.Output, seg *segment) error {
	if len(out) == 0 {
		return nil
	}
	t := l.box.beginTurn(seg)
	if err := l.send(sh, out, seg, t); err != nil {
		return err
	}
	if err := l.sendRest(sh, seg, t); err != nil {
		return err
	}
	l.box.endTurn(t)
	return nil
}

// sendRest sends what the task has emitted since its outputs were taken as part of a turn.
func (l *life) sendRest(sh *shared, seg *segment, t *turn) error {
	for {
		out := l.task.TakeOutputs()
		if len(out) == 0 {
			return nil
		}
		if err := l.send(sh, out, seg, t); err != nil {
			return err
		}
		l.task.ReuseOutputs(out)
	}
}

// send hands records to the producer, in order.
func (l *life) send(sh *shared, out []op.Output, seg *segment, t *turn) error {
	if len(out) == 0 || !l.box.expect(seg, len(out)) {
		return nil
	}
	var nowMs int64
	if l.retention != nil {
		nowMs = sh.clock.NowMs()
	}
	for from := 0; from < len(out); from += slabSize {
		part := out[from:min(from+slabSize, len(out))]
		slab := l.box.take(len(part))
		for i := range part {
			s := &slab.recs[i]
			s.Output, s.seg, s.store = part[i], seg, l.storeIndex(part[i].Store)
			if s.store >= 0 && nowMs > 0 {
				l.checkRetention(sh, s, nowMs)
			}
			err := l.checkSize(sh, s)
			if err == nil && s.err == nil && len(l.refused) > 0 {
				err = l.checkRefused(s)
			}
			if err != nil {
				l.drop(slab, i, len(part), seg)
				l.box.uncount(seg, len(out)-from-len(part))
				return err
			}
			if s.err != nil {
				l.box.settle(s)
				continue
			}
			l.box.produce(s, t)
		}
	}
	return nil
}

// drop settles records of a slab that will not be sent.
func (l *life) drop(slab *slab, from, to int, seg *segment) {
	for i := from; i < to; i++ {
		slab.recs[i].seg = seg
		l.box.settle(&slab.recs[i])
	}
}

// noteRetention finds the changelogs from which a broker deletes by event time.
func (l *life) noteRetention(sh *shared, cfg *task.Config) {
	for _, st := range cfg.Sub.Stores {
		if !st.Logged || sh.retention == nil {
			continue
		}
		if ms := sh.retention(cfg.TopicName(st.Name + "-changelog")); ms > 0 {
			if l.retention == nil {
				l.retention = make([]int64, len(l.box.stores))
			}
			l.retention[l.storeIndex(st.Name)] = ms
		}
	}
}

// checkRetention warns, once for each store, of a changelog record that the broker may delete as soon as it has it: its
// event time is further back than the topic keeps records. The state is then gone at the next restore.
func (l *life) checkRetention(sh *shared, s *sent, nowMs int64) {
	ms := l.retention[s.store]
	if ms <= 0 || s.Value == nil || s.TimestampMs >= nowMs-ms {
		return
	}
	l.retention[s.store] = 0
	sh.log.Warn("a changelog record is older than its topic keeps records: the broker may delete it at once, and a restore would miss it; raise windowstore.changelog.additional.retention.ms or the topic's retention.ms before history is processed",
		"task", l.name, "store", s.Store, "topic", s.Topic, "record_timestamp_ms", s.TimestampMs, "retention_ms", ms)
}

func (l *life) storeIndex(name string) int {
	if name == "" {
		return -1
	}
	if name != l.lastStore {
		l.lastStore, l.storeAt = name, -1
		for i, s := range l.box.stores {
			if s == name {
				l.storeAt = i
			}
		}
	}
	return l.storeAt
}

// recordOverhead is what a record takes in a batch beside its bytes, at most, the batch's own head included.
const recordOverhead = 100

// checkSize asks the production handler about a record that its topic does not take. Sending it would fail the others of
// its batch with it. The record is marked with an error if it must not be sent.
func (l *life) checkSize(sh *shared, s *sent) error {
	if s.Topic != l.lastTopic {
		l.lastTopic, l.lastLimit = s.Topic, sh.maxRecord(s.Topic)
	}
	if l.lastLimit <= 0 {
		return nil
	}
	size := recordOverhead + len(s.Key) + len(s.Value)
	for i := range s.Headers {
		size += len(s.Headers[i].Key) + len(s.Headers[i].Value)
	}
	if size <= l.lastLimit {
		return nil
	}
	cause := &broker.ProduceError{
		TopicPartition: broker.TopicPartition{Topic: s.Topic, Partition: s.Partition},
		Err:            fmt.Errorf("%w: %d bytes, the topic takes %d", broker.ErrRecordTooLarge, size, l.lastLimit),
	}
	return l.judge(s, cause)
}

// checkRefused asks the production handler about a record that a broker has refused in the transaction that was aborted for it.
func (l *life) checkRefused(s *sent) error {
	for i := range l.refused {
		if l.refused[i].same(&s.ProduceRecord) {
			return l.judge(s, l.refused[i].err)
		}
	}
	return nil
}

// judge asks the production handler about a record that cannot be written. It is marked with the error if it is to be left out.
func (l *life) judge(s *sent, cause error) error {
	retry, err := l.task.FailedOutput(&s.Output, cause, 1)
	if err != nil {
		return err
	}
	if retry {
		return fmt.Errorf("millrace: task %s: step %s: the production error handler wants to retry a record that stays what it is: %w",
			l.name, s.Step, cause)
	}
	s.err = cause
	return nil
}
