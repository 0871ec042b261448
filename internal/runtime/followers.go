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
	looked  bool      // once at least
	told    bool      // that it is level
	ending  *Unfollow // as soon as may be
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
	x.standby.at.Store(x.job.Position())
	behind := x.job.Behind()
	x.standby.behind.Store(behind)
	if behind <= f.within && !x.told {
		x.told = true
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
		answer := Unfollowed{standby: x.standby}
		if order.Keep && x.open {
			answer.Released, answer.Err = x.job.Release()
		} else {
			answer.Err = x.job.Close()
		}
		f.post(answer)
	}
}

// fail lets go of a copy for an error.
func (f *followers) fail(ctx context.Context, x *follower, err error) {
	x.open = false
	f.forget(x)
	if e := x.job.Close(); e != nil {
		err = errors.Join(err, e)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	f.post(Unfollowed{standby: x.standby, Err: err})
}

func (f *followers) forget(x *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, x.standby)
}
