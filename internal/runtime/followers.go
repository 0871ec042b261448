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

	mu   sync.Mutex
	all  map[*standby]*follower
	wake chan struct{}
}

type follower struct {
	standby *standby
	job     *restore.Standby
	open    bool
	looked  bool      // once at least; of use to a Stepper
	told    bool      // that it is level
	ending  *Unfollow // as soon as may be
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
		e.Released, e.Err = x.job.Release()
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
	for _, x := range all {
		if !x.open {
			if err := x.job.Open(ctx); err != nil {
				f.fail(ctx, x, err)
				continue
			}
			x.open = true
		}
	}
	all = slices.DeleteFunc(all, func(x *follower) bool { return !x.open })
	if err := f.look(ctx, all); err != nil {
		if ctx.Err() == nil {
			f.log.Debug("the ends of changelogs of copies cannot be found out, it is tried again", "error", err)
		}
		return
	}
	for more := true; more && ctx.Err() == nil; {
		more = false
		for _, x := range all {
			if !x.open {
				continue
			}
			again, err := x.job.Read(ctx)
			if err != nil {
				f.fail(ctx, x, err)
				continue
			}
			more = more || again
			f.told(x)
			if f.ordered() || f.restoring() {
				return
			}
		}
	}
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
func (f *followers) look(ctx context.Context, all []*follower) error {
	var logs, inputs []broker.TopicPartition
	for _, x := range all {
		l, in := x.job.Asks()
		logs, inputs = append(logs, l...), append(inputs, in...)
	}
	atMs := f.clock.NowMs()
	ctx, cancel := context.WithTimeout(ctx, followAskWait)
	defer cancel()
	ends := make(map[broker.TopicPartition]int64)
	if len(logs) > 0 {
		var err error
		if ends, err = f.admin.ListOffsets(ctx, broker.StableEnd, logs...); err != nil {
			return err
		}
	}
	committed := make(map[broker.TopicPartition]broker.OffsetMeta)
	if len(inputs) > 0 {
		var err error
		if committed, err = f.admin.CommittedOffsets(ctx, f.group, inputs...); err != nil {
			f.log.Debug("the committed offsets of copies cannot be found out, it is tried again", "error", err)
			committed = nil
		}
	}
	for _, x := range all {
		if err := x.job.Look(atMs, ends, committed); err != nil {
			f.fail(ctx, x, err)
			continue
		}
		f.told(x)
	}
	return nil
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
