package runtime

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/clock"
	"github.com/millrace-io/millrace/internal/restore"
)

// followers keep the copies of tasks level, all of them on one goroutine: a round asks once where all changelogs end and reads
// those that have more. Restores of tasks that are to run go first.
type followers struct {
	clock  clock.Clock
	admin  broker.Admin
	group  string
	within int64 // how far behind counts as level
	post   func(Event)
	log    *slog.Logger
	// restoring tells whether a task is being restored.
	restoring func() bool

	mu        sync.Mutex
	all       map[*standby]*follower
	wake      chan struct{}
	interrupt context.CancelFunc // of the round under way; nil without one
}

type follower struct {
	standby *standby
	job     *restore.Standby
	open    bool
	looked  bool      // once at least; of use to a Stepper
	told    bool      // that it is level
	ending  *Unfollow // as soon as may be
	pauseMs int64     // its changelog cannot be read: not before that time
}

// levelled notes how far a copy is, and tells whether it is level for the first time.
func (x *follower) levelled(within int64) bool {
	behind := x.job.Behind()
	x.standby.at.Store(x.job.Position())
	x.standby.behind.Store(behind)
	if behind > within || x.told {
		return false
	}
	x.told = true
	return true
}

// end lets go of a copy, with its stores if they are to be kept and are open.
func (x *follower) end(keep bool) (e Unfollowed) {
	e.standby = x.standby
	if keep && x.open {
		e.Set, e.Err = x.job.Release()
	} else {
		e.Err = x.job.Close()
	}
	return e
}

// fail lets go of a copy for an error.
func (x *follower) fail(err error) Unfollowed {
	x.open = false
	if e := x.job.Close(); e != nil {
		err = errors.Join(err, e)
	}
	return Unfollowed{standby: x.standby, Err: err}
}

const (
	// followEvery is the pause between two rounds: so old is a copy when nothing else holds it up.
	followEvery = 100 * time.Millisecond
	// followAskWait bounds the questions of a round. Committed offsets wait for transactions that hold one of them: those that
	// were known go on to count.
	followAskWait = time.Second
	// followWait bounds the opening of one copy, and one read: others wait meanwhile. So long is the pause after a read that gets no
	// answer, too.
	followWait = 10 * time.Second
)

func newFollowers() *followers {
	return &followers{all: make(map[*standby]*follower), wake: make(chan struct{}, 1)}
}

// order takes a Follow or an Unfollow.
func (f *followers) order(a Action) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch a := a.(type) {
	case Follow:
		f.all[a.standby] = &follower{standby: a.standby, job: a.Job}
	case Unfollow:
		if x := f.all[a.standby]; x != nil {
			x.ending = &a
		}
		if f.interrupt != nil {
			f.interrupt() // a task waits for its stores, and the round may wait for a broker that is away
		}
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// copies tells how far the copies are, by task.
func (f *followers) copies() map[broker.TaskID]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[broker.TaskID]int64, len(f.all))
	for sb := range f.all {
		out[sb.slot.id] = sb.at.Load()
	}
	return out
}

// run follows until the context ends, and closes what is left then.
func (f *followers) run(ctx context.Context) {
	t := f.clock.NewTimer(followEvery)
	defer t.Stop()
	for ctx.Err() == nil {
		f.round(ctx)
		t.Reset(followEvery)
		select {
		case <-t.C():
		case <-f.wake:
		case <-ctx.Done():
		}
	}
	for _, x := range f.list() {
		if err := x.job.Close(); err != nil {
			f.log.Warn("closing the copy of a task", "task", x.standby.slot.name, "error", err)
		}
	}
}

// list gives the followers in the order of their tasks.
func (f *followers) list() []*follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.SortedFunc(maps.Values(f.all), func(a, b *follower) int { return a.standby.slot.id.Compare(b.standby.slot.id) })
}

// round ends those that are asked for, asks where the changelogs of the others end, and reads until all are level or an order
// comes.
func (f *followers) round(ctx context.Context) {
	f.end()
	all := f.list()
	if len(all) == 0 || f.restoring() {
		return
	}
	round, done := f.begin(ctx)
	defer done()
	for _, x := range all {
		if f.ordered() {
			return
		}
		if !x.open {
			f.open(ctx, round, x)
		}
	}
	all = slices.DeleteFunc(all, func(x *follower) bool { return !x.open })
	f.look(ctx, round, all)
	for more := true; more; {
		more = false
		for _, x := range all {
			if f.ordered() || f.restoring() || round.Err() != nil {
				return
			}
			more = x.open && f.read(ctx, round, x) || more
		}
	}
}

// begin makes the context of a round, which an order ends.
func (f *followers) begin(ctx context.Context) (round context.Context, done func()) {
	round, cancel := context.WithCancel(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.interrupt = cancel
	return round, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.interrupt = nil
		cancel()
	}
}

// open opens a copy. A round that is ended meanwhile does it again.
func (f *followers) open(ctx, round context.Context, x *follower) {
	within, cancel := context.WithTimeout(round, followWait)
	defer cancel()
	err := x.job.Open(within)
	if x.open = err == nil; err != nil && (round.Err() == nil || ctx.Err() != nil) {
		f.fail(ctx, x, err)
	}
}

// read reads one chunk for a copy, and tells whether there is more. A changelog that nobody answers for is left alone for a while.
func (f *followers) read(ctx, round context.Context, x *follower) (more bool) {
	if f.clock.NowMs() < x.pauseMs {
		return false
	}
	within, cancel := context.WithTimeout(round, followWait)
	defer cancel()
	more, err := x.job.Read(within)
	switch {
	case err == nil:
		f.told(x)
		return more
	case round.Err() != nil && ctx.Err() == nil:
		return false // it is read again
	case within.Err() != nil && ctx.Err() == nil:
		x.pauseMs = f.clock.NowMs() + followWait.Milliseconds()
		f.log.Warn("the changelogs of a copy of a task cannot be read, it is tried again", "task", x.standby.slot.name, "retry_in_ms", followWait.Milliseconds(), "error", err)
	default:
		f.fail(ctx, x, err)
	}
	return false
}

// ordered tells whether an order has come, and leaves it to the next round.
func (f *followers) ordered() bool {
	select {
	case <-f.wake:
		f.wake <- struct{}{}
		return true
	default:
		return false
	}
}

// look asks once for all, and tells each one.
func (f *followers) look(ctx, round context.Context, all []*follower) {
	var inputs []broker.TopicPartition
	for _, x := range all {
		_, in := x.job.Asks()
		inputs = append(inputs, in...)
	}
	atMs := f.clock.NowMs()
	ends := f.ends(round, all)
	committed := make(map[broker.TopicPartition]broker.OffsetMeta)
	if len(inputs) > 0 {
		within, cancel := context.WithTimeout(round, followAskWait)
		defer cancel()
		var err error
		if committed, err = f.admin.CommittedOffsets(within, f.group, inputs...); err != nil {
			f.log.Debug("the committed offsets of copies cannot be found out, it is tried again", "error", err)
			committed = nil
		}
	}
	for _, x := range all {
		logs, _ := x.job.Asks()
		if slices.ContainsFunc(logs, func(tp broker.TopicPartition) bool { _, ok := ends[tp]; return !ok }) {
			continue
		}
		if err := x.job.Look(atMs, ends, committed); err != nil {
			f.fail(ctx, x, err)
			continue
		}
		f.told(x)
	}
}

// ends asks where the changelogs of copies end: of all with one request, and if that cannot be answered, of each copy by itself. One
// changelog that is away, or deleted, must not hold up the others.
func (f *followers) ends(round context.Context, all []*follower) map[broker.TopicPartition]int64 {
	ends := make(map[broker.TopicPartition]int64)
	ask := func(logs []broker.TopicPartition) error {
		if len(logs) == 0 || round.Err() != nil {
			return nil
		}
		within, cancel := context.WithTimeout(round, followAskWait)
		defer cancel()
		some, err := f.admin.ListOffsets(within, broker.StableEnd, logs...)
		maps.Copy(ends, some)
		return err
	}
	var every []broker.TopicPartition
	for _, x := range all {
		logs, _ := x.job.Asks()
		every = append(every, logs...)
	}
	if ask(every) == nil || len(all) == 1 {
		return ends
	}
	for _, x := range all {
		logs, _ := x.job.Asks()
		if err := ask(logs); err != nil && round.Err() == nil {
			f.log.Debug("the ends of the changelogs of a copy cannot be found out, it is tried again", "task", x.standby.slot.name, "error", err)
		}
	}
	return ends
}

// told tells what has become of a copy.
func (f *followers) told(x *follower) {
	if x.levelled(f.within) {
		f.post(Levelled{standby: x.standby})
	}
}

// end lets go of the copies that were asked for.
func (f *followers) end() {
	for _, x := range f.list() {
		f.mu.Lock()
		order := x.ending
		f.mu.Unlock()
		if order == nil {
			continue
		}
		f.forget(x)
		f.post(x.end(order.Keep))
	}
}

// fail lets go of a copy for an error.
func (f *followers) fail(ctx context.Context, x *follower, err error) {
	f.forget(x)
	answer := x.fail(err)
	if ctx.Err() != nil {
		answer.Err = ctx.Err()
	}
	f.post(answer)
}

func (f *followers) forget(x *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, x.standby)
}
