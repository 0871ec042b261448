package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/clock"
)

// Stepper carries a Machine on the goroutine of its owner, in place of a Runner: what the machine orders is kept until the
// owner has it carried out, one thing at a time, in any order or never, and what comes of it is told when the owner says so.
// The same choices give the same steps. Simulations and tests run instances with it.
type Stepper struct {
	machine *Machine
	clock   clock.Clock
	hands   hands
	runner  *Runner // that was started; nil where a test has made the machine itself
	starts  []func(context.Context) error

	events   []Event // of callbacks, in the order in which they came
	answers  []Event // what came of chores, not told yet
	works    []*Work
	restores []Restore
	follows  []*follower // copies of tasks
	commits  []Commit
	purges   []Purge
	releases []*outbox // in which something is due
	asks     []*question
	orders   []Action // of transactions, to be carried out one after the other
	fetching []bool   // by fetcher: what it brought has not been told
	leave    *Leave
	finished bool
	err      error
	states   []State

	// trace, if set, is told each event and each action, as text.
	trace func(string)
}

// hands are what actions are carried out with.
type hands struct {
	fetchers  []broker.Fetcher
	fetcherOf func(topic string) broker.Fetcher
	member    broker.Membership
	admin     broker.Admin
	group     string
	tx        broker.Transactions // under exactly-once
	maintain  func() error
	drop      func(task string) error // state on disk
}

// NewStepper makes an instance that does nothing by itself. trace, if not nil, is told each event and each action.
func NewStepper(cfg RunnerConfig, trace func(string)) *Stepper {
	s := &Stepper{runner: NewRunner(cfg), trace: trace}
	s.runner.ctx = context.Background()
	s.starts = s.runner.startSteps()
	s.clock = s.runner.cfg.Clock
	return s
}

// Start does the next thing that comes before the first event: a question to the cluster, the opening of the state directory.
// After an error it may be called again, and does the same thing again.
func (s *Stepper) Start(ctx context.Context) (done bool, err error) {
	if err := s.starts[0](ctx); err != nil {
		return false, err
	}
	if s.starts = s.starts[1:]; len(s.starts) > 0 {
		return false, nil
	}
	r := s.runner
	s.machine = r.machine
	s.hands = hands{
		fetcherOf: func(topic string) broker.Fetcher { return r.loopOf(topic).fetcher },
		member:    r.member, admin: r.cfg.Clients.Admin, group: r.cfg.AppID,
		maintain: func() error {
			if r.db == nil {
				return nil
			}
			return r.db.Maintain()
		},
		drop: func(task string) error { return r.db.DropTask(task) },
	}
	if r.transactor != nil {
		s.hands.tx = r.transactor.tx
	}
	for _, l := range r.loops {
		s.hands.fetchers = append(s.hands.fetchers, l.fetcher)
	}
	s.fetching = make([]bool, len(s.hands.fetchers))
	s.Step(Started{})
	return true, nil
}

// post takes an event of a callback.
func (s *Stepper) post(e Event) { s.events = append(s.events, e) }

// pull takes what callbacks have told a runner that was started.
func (s *Stepper) pull() {
	if s.runner != nil {
		s.events = append(s.events, s.runner.inbox.take()...)
		s.releases = s.runner.releaser.take(s.releases)
	}
}

// Step takes one event now. What the machine orders at once is done; the rest waits.
func (s *Stepper) Step(e Event) {
	s.say("> ", e, nil)
	now := s.clock.NowMs
	if s.runner != nil {
		now = s.runner.steady
	}
	s.machine.Step(now(), e)
	for _, a := range s.machine.Actions() {
		s.say("  ", nil, a)
		s.execute(a)
	}
	s.pull()
}

func (s *Stepper) say(prefix string, e Event, a Action) {
	switch {
	case s.trace == nil:
	case e != nil:
		s.trace(prefix + eventText(e))
	default:
		s.trace(prefix + actionText(a))
	}
}

// Finished tells whether the machine is done, and with what error.
func (s *Stepper) Finished() (done bool, err error) { return s.finished, s.err }

// NextWakeMs is when the machine wants a Tick at the latest.
func (s *Stepper) NextWakeMs() (ms int64, ok bool) { return s.machine.NextWakeMs() }

// Lingering tells whether a task that was taken away has records on their way.
func (s *Stepper) Lingering() bool {
	return slices.ContainsFunc(s.machine.lingers, func(t *slot) bool { return !t.looked })
}

// State is what the instance does as a whole.
func (s *Stepper) State() State { return s.machine.State() }

func (s *Stepper) execute(a Action) {
	switch a := a.(type) {
	case Assign:
		s.hands.fetcherOf(a.Topic).Assign(a.TopicPartition, a.Offset, a.Epoch)
	case Unassign:
		s.each(a.Partitions, broker.Fetcher.Unassign)
	case Pause:
		s.each(a.Partitions, broker.Fetcher.Pause)
	case Resume:
		s.each(a.Partitions, broker.Fetcher.Resume)
	case Restore:
		s.restores = append(s.restores, a)
	case CancelRestore:
		s.cancelRestore(a)
	case Follow:
		s.follows = append(s.follows, &follower{standby: a.standby, job: a.Job})
	case Unfollow:
		s.unfollow(a)
	case CloseSet:
		if err := a.Set.Close(); err != nil {
			s.post(Failed{Err: err})
		}
	case Run:
		s.works = append(s.works, a.Work)
	case Commit:
		s.commits = append(s.commits, a)
	case Send, CommitInTransaction, EndTransaction, Prove:
		s.orders = append(s.orders, a)
	case Purge:
		s.purges = append(s.purges, a)
	case Maintain:
		if err := s.hands.maintain(); err != nil {
			s.post(Failed{Err: err})
		}
	case DropState:
		for _, task := range a.Tasks {
			s.post(StateDropped{Task: task, Err: s.hands.drop(task)})
		}
	case Subscribe:
		s.hands.member.Subscribe(a.Topology)
	case Rejoin:
		s.hands.member.Rejoin()
	case Refuse:
		s.hands.member.Refuse(a.Tasks...)
	case StopAll:
		s.hands.member.StopAll(a.Why)
	case Ask:
		s.asks = append(s.asks, a.question)
	case Call:
		a.Func()
	case Report:
		s.states = append(s.states, a.State)
	case Leave:
		s.leave = &a
	case Finish:
		s.finished, s.err = true, a.Err
	}
}

func (s *Stepper) each(tps []broker.TopicPartition, do func(broker.Fetcher, ...broker.TopicPartition)) {
	for _, tp := range tps {
		do(s.hands.fetcherOf(tp.Topic), tp)
	}
}

func (s *Stepper) cancelRestore(a CancelRestore) {
	i := slices.IndexFunc(s.restores, func(r Restore) bool { return r.life == a.life })
	if i < 0 {
		return
	}
	r := s.restores[i]
	s.restores = slices.Delete(s.restores, i, i+1)
	err := error(context.Canceled)
	if e := r.Job.Close(); e != nil {
		err = errors.Join(err, e)
	}
	s.post(Restored{life: r.life, Err: err})
}

// work runs a turn of a task.
func (s *Stepper) work(i int) Event {
	w := s.works[i]
	s.works = slices.Delete(s.works, i, i+1)
	return Worked{Done: w.Do()}
}

// restore does the next thing of a restore; nil while it is not at its end.
func (s *Stepper) restore(i int) Event {
	r := s.restores[i]
	done, err := r.Job.Step(context.Background())
	if err == nil && !done {
		return nil
	}
	s.restores = slices.Delete(s.restores, i, i+1)
	if err != nil {
		if e := r.Job.Close(); e != nil {
			err = errors.Join(err, e)
		}
		return Restored{life: r.life, Err: err}
	}
	return Restored{life: r.life, Result: r.Job.Result()}
}

// follow does the next thing for a copy; nil if there is nothing to tell.
func (s *Stepper) follow(i int) Event {
	x := s.follows[i]
	ctx := context.Background()
	err := s.followOn(ctx, x)
	if err != nil {
		s.follows = slices.Delete(s.follows, i, i+1)
		return x.fail(err)
	}
	if x.looked && x.levelled(s.machine.set.AcceptableLag) {
		return Levelled{standby: x.standby}
	}
	return nil
}

func (s *Stepper) followOn(ctx context.Context, x *follower) error {
	switch {
	case !x.open:
		x.open = true
		return x.job.Open(ctx)
	case x.job.Behind() > 0:
		_, err := x.job.Read(ctx)
		return err
	}
	logs, inputs := x.job.Asks()
	atMs := s.clock.NowMs()
	ends, err := s.hands.admin.ListOffsets(ctx, broker.StableEnd, logs...)
	if err != nil {
		return err
	}
	committed, err := s.hands.admin.CommittedOffsets(ctx, s.hands.group, inputs...)
	if err != nil {
		return err
	}
	x.looked = true
	return x.job.Look(atMs, ends, committed)
}

func (s *Stepper) unfollow(a Unfollow) {
	i := slices.IndexFunc(s.follows, func(x *follower) bool { return x.standby == a.standby })
	if i < 0 {
		return
	}
	x := s.follows[i]
	s.follows = slices.Delete(s.follows, i, i+1)
	s.post(x.end(a.Keep))
}

// commit sends a plain offset commit.
func (s *Stepper) commit(i int) Event {
	c := s.commits[i]
	s.commits = slices.Delete(s.commits, i, i+1)
	err := s.hands.admin.CommitOffsets(context.Background(), s.hands.group, c.Identity, c.Offsets)
	return CommitAnswered{Round: c.Round, Sent: true, Err: err}
}

// order carries out the next order of transactions; what comes of it is given to post.
func (s *Stepper) order(post func(Event)) {
	a := s.orders[0]
	s.orders = s.orders[1:]
	newTransactor(s.hands.tx, s.hands.group, time.Minute, post).carry(context.Background(), a)
}

func (s *Stepper) purge(i int) Event {
	p := s.purges[i]
	s.purges = slices.Delete(s.purges, i, i+1)
	return Purged{Err: s.hands.admin.DeleteRecords(context.Background(), p.Before)}
}

// release sends what has waited in an outbox.
func (s *Stepper) release(i int) {
	b := s.releases[i]
	s.releases = slices.Delete(s.releases, i, i+1)
	b.release()
}

// judge asks the policy for uncaught errors.
func (s *Stepper) judge(i int) Event {
	q := s.asks[i]
	s.asks = slices.Delete(s.asks, i, i+1)
	return q.ask()
}

func (s *Stepper) leaveGroup() Event {
	stay := s.leave.Stay
	s.leave = nil
	return Left{Err: s.hands.member.Leave(context.Background(), stay)}
}

// Chore is something that waits to be done for an instance.
type Chore struct {
	Kind  ChoreKind
	index int
	text  string
}

// String names the chore.
func (c Chore) String() string { return c.Kind.String() + c.text }

// ChoreKind tells chores apart.
type ChoreKind uint8

// The kinds of chores.
const (
	ChoreTell        ChoreKind = iota // what came of another chore is told
	ChoreEvent                        // what a callback said is told
	ChoreMember                       // so is what the group says
	ChoreWork                         // a turn of a task
	ChoreRestore                      // a step of a restore
	ChoreCommit                       // a plain commit
	ChoreTransaction                  // the next thing for the transaction
	ChorePurge
	ChoreRelease // of changelog records that have waited for outputs
	ChoreLeave
	ChoreFollow // the next thing for a copy of a task
	ChoreAsk    // the policy for uncaught errors is asked
	ChoreFetch  // a poll
)

// String names the kind.
func (k ChoreKind) String() string {
	return [...]string{"tell", "event", "member", "work", "restore", "commit", "transaction", "purge", "release", "leave", "follow", "ask", "fetch"}[k]
}

// Chores lists what can be done now, always in the same order. A poll can be done always.
func (s *Stepper) Chores() []Chore {
	s.pull()
	var all []Chore
	add := func(kind ChoreKind, n int, text func(int) string) {
		for i := range n {
			all = append(all, Chore{Kind: kind, index: i, text: text(i)})
		}
	}
	none := func(int) string { return "" }
	add(ChoreTell, len(s.answers), func(i int) string { return " " + eventText(s.answers[i]) })
	add(ChoreEvent, min(1, len(s.events)), none)
	add(ChoreMember, min(1, len(s.hands.member.Events())), none)
	add(ChoreWork, len(s.works), func(i int) string { return " " + s.works[i].life.name })
	add(ChoreRestore, len(s.restores), func(i int) string { return " " + s.restores[i].life.name })
	add(ChoreFollow, len(s.follows), func(i int) string { return " " + s.follows[i].standby.slot.name })
	add(ChoreCommit, len(s.commits), none)
	add(ChoreTransaction, min(1, len(s.orders)), func(int) string { return " " + actionText(s.orders[0]) })
	add(ChoreAsk, len(s.asks), func(i int) string { return " " + s.asks[i].slot.name })
	add(ChorePurge, len(s.purges), none)
	add(ChoreRelease, len(s.releases), none)
	if s.leave != nil {
		add(ChoreLeave, 1, none)
	}
	if s.finished {
		return all
	}
	for i := range s.hands.fetchers {
		if !s.fetching[i] {
			all = append(all, Chore{Kind: ChoreFetch, index: i, text: fmt.Sprint(" ", i)})
		}
	}
	return all
}

// Carry does a chore that Chores has listed since the last one. Whatever comes of it waits to be told, as a chore of its own;
// it is false if nothing came of it.
func (s *Stepper) Carry(c Chore) bool {
	defer s.pull()
	var e Event
	switch c.Kind {
	case ChoreTell:
		e = s.answers[c.index]
		s.answers = slices.Delete(s.answers, c.index, c.index+1)
		s.Step(e)
		return true
	case ChoreEvent:
		e = s.events[0]
		s.events = s.events[1:]
		s.Step(e)
		return true
	case ChoreMember:
		if e, ok := <-s.hands.member.Events(); ok {
			s.Step(MemberEvent{e})
		}
		return true
	case ChoreWork:
		e = s.work(c.index)
	case ChoreRestore:
		e = s.restore(c.index)
	case ChoreCommit:
		e = s.commit(c.index)
	case ChoreTransaction:
		s.order(func(e Event) { s.answers = append(s.answers, e) })
		return true
	case ChorePurge:
		e = s.purge(c.index)
	case ChoreRelease:
		s.release(c.index)
		return true
	case ChoreLeave:
		e = s.leaveGroup()
	case ChoreAsk:
		e = s.judge(c.index)
	case ChoreFollow:
		if e = s.follow(c.index); e == nil {
			return false
		}
	case ChoreFetch:
		b := s.hands.fetchers[c.index].Poll(context.Background())
		if len(b) == 0 {
			return false
		}
		s.fetching[c.index] = true
		e = Fetched{Batches: b, Taken: func() { s.fetching[c.index] = false }}
	}
	if e != nil {
		s.answers = append(s.answers, e)
	}
	return true
}
