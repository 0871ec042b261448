package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/clock"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/restore"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/topology"
)

// start does everything that comes before the first event: it finds the cluster, resolves the topology, locks the state
// directory, makes the internal topics, fills the global stores and opens the membership.
func (r *Runner) start(ctx context.Context) error {
	for _, step := range r.startSteps() {
		if err := step(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) startSteps() []func(context.Context) error {
	return []func(context.Context) error{
		r.reach, r.look, r.openState, r.refuseForeign, r.makeTopics, r.fillGlobals, r.prove, r.join,
	}
}

// within bounds a step of the start.
func (r *Runner) within(ctx context.Context, what string, f func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, r.cfg.StartTimeout)
	defer cancel()
	err := f(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return fmt.Errorf("millrace: %s took longer than %v: %w", what, r.cfg.StartTimeout, err)
	}
	return err
}

// reach waits for the cluster. Brokers that are down may come up again, as after a reboot of everything; an address that leads
// nowhere, a refused login or a certificate that is not trusted will not mend itself.
func (r *Runner) reach(ctx context.Context) error {
	if r.cfg.Clients.Ping == nil {
		return nil
	}
	end := r.steady() + r.cfg.StartTimeout.Milliseconds()
	for said := false; ; said = true {
		err := r.within(ctx, "connecting", r.cfg.Clients.Ping)
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		if r.steady() >= end {
			return fmt.Errorf("millrace: no broker has come up within %v (default.api.timeout.ms): %w", r.cfg.StartTimeout, err)
		}
		if !said {
			r.log.Warn("no broker listens at the addresses given: waiting for one to come up", "for_at_most", r.cfg.StartTimeout, "error", err)
		}
		if err := clock.Wait(ctx, r.cfg.Clock, reachEvery); err != nil {
			return err
		}
	}
}

// reachEvery is the pause between two attempts to reach brokers that are down.
const reachEvery = 500 * time.Millisecond

func (r *Runner) openState(ctx context.Context) error {
	if r.cfg.OpenState == nil || !persistent(r.cfg.Topology) {
		return nil
	}
	return r.within(ctx, "finding the cluster", func(ctx context.Context) error {
		id, err := r.cfg.Clients.Admin.ClusterID(ctx)
		if err != nil {
			return err
		}
		tasks := 0
		for _, t := range r.firstPlan.Tasks {
			if s := r.cfg.Topology.Subtopology(t.Subtopology); s != nil && len(s.Stores) > 0 {
				tasks++
			}
		}
		r.db, err = r.cfg.OpenState(id, tasks)
		return err
	})
}

func persistent(t *topology.Topology) bool {
	return slices.ContainsFunc(t.Stores(), func(s *topology.StateStore) bool { return s.Persistent && !s.Global })
}

// refuseForeign waits for members of another kind to go: a Java application that was stopped stays in its group until its
// session times out.
func (r *Runner) refuseForeign(ctx context.Context) error {
	end := r.cfg.Clock.Now().Add(r.cfg.ForeignWait)
	said := false
	for {
		var info broker.GroupInfo
		err := r.within(ctx, "asking for the group", func(ctx context.Context) (err error) {
			info, err = r.cfg.Clients.Admin.Group(ctx, r.cfg.AppID)
			return err
		})
		if errors.Is(err, broker.ErrUnauthorized) {
			r.log.Warn("the group cannot be looked at: members of another kind would not be noticed before the first rebalance", "error", err)
			return nil
		}
		if err != nil {
			return err
		}
		err = foreignGroup(info, r.cfg.Clients.Protocol, r.cfg.Clients.BrokersAssign)
		if err == nil {
			return nil
		}
		if !r.cfg.Clock.Now().Before(end) {
			return fmt.Errorf("millrace: group %q: %w", r.cfg.AppID, err)
		}
		if !said {
			said = true
			r.log.Warn("the group has members of another kind: waiting for them to leave, or for their session timeout", "group", r.cfg.AppID,
				"for_at_most", r.cfg.ForeignWait, "error", err)
		}
		if err := clock.Wait(ctx, r.cfg.Clock, time.Second); err != nil {
			return err
		}
	}
}

// look resolves the topology against the topics of the cluster.
func (r *Runner) look(ctx context.Context) error {
	r.planner = &planner{appID: r.cfg.AppID, topology: r.cfg.Topology, resolve: r.cfg.Resolve, admin: r.cfg.Clients.Admin, log: r.log}
	return r.within(ctx, "resolving the topology", func(ctx context.Context) (err error) {
		r.firstPlan, err = r.planner.look(ctx)
		return err
	})
}

// makeTopics makes the internal topics and takes up what tasks write.
func (r *Runner) makeTopics(ctx context.Context) error {
	plan := r.firstPlan
	err := r.within(ctx, "making internal topics", func(ctx context.Context) error {
		err := r.planner.make(ctx, plan)
		if err == nil && len(r.planner.created) > 0 {
			r.planner.warnNewStores(ctx, plan)
		}
		return err
	})
	if err != nil {
		return err
	}
	r.internal = make(map[string]bool)
	for _, s := range plan.Repartitions {
		r.internal[s.Name] = true
	}
	r.book = newTopicBook(r.ctx, r.cfg.Clients.Admin, r.cfg.MaxBlock, r.cfg.ClientMaxBytes, r.cfg.TopicMaxBytes)
	names := r.cfg.Topology.SinkTopics()
	for _, s := range slices.Concat(plan.Repartitions, plan.Changelogs) {
		names = append(names, s.Name)
	}
	if err := r.within(ctx, "asking for output topics", func(ctx context.Context) error { return r.book.learn(ctx, names...) }); err != nil {
		return err
	}
	r.missingSinks()
	global := op.GlobalConfig{Ctx: r.ctx, NowMs: r.cfg.Clock.NowMs, Metrics: r.cfg.Metrics, Handlers: r.cfg.Handlers}
	if r.globals, err = newGlobals(global, plan.Globals); err != nil {
		return err
	}
	r.current.Store(&plan)
	return nil
}

// missingSinks tells early of fixed topics that steps write and the cluster does not have. They may still be made; the first
// record for one waits for it, and is tried again until task.timeout.ms is over.
func (r *Runner) missingSinks() {
	for _, sub := range r.cfg.Topology.Subtopologies() {
		for _, n := range sub.Nodes {
			if n.Kind != topology.SinkNode || n.Internal || n.Topic == "" {
				continue
			}
			if _, known := r.book.find(n.Topic); !known {
				r.log.Warn("a topic that a step writes is not there: create it before its first record, which is tried again until task.timeout.ms is over, and then stops the application",
					"topic", n.Topic, "step", n.Name, "declared_at", n.Pos.String())
			}
		}
	}
}

func (r *Runner) fillGlobals(ctx context.Context) error {
	g := r.globals
	if len(g.feeds) == 0 {
		return nil
	}
	g.fetcher, g.admin = r.cfg.Clients.Global, r.cfg.Clients.Admin
	if err := g.start(); err != nil {
		return err
	}
	if err := r.within(ctx, "finding the ends of global topics", g.begin); err != nil {
		return err
	}
	started := r.cfg.Clock.Now()
	if err := g.fill(ctx); err != nil {
		return err
	}
	r.log.Info("global stores are full", "stores", slices.Sorted(maps.Keys(g.stores)), "took", r.cfg.Clock.Now().Sub(started))
	return nil
}

// join opens the membership and makes the machine.
func (r *Runner) join(context.Context) (err error) {
	who := Member{InstanceID: r.cfg.InstanceID, Copies: r.copies}
	if r.db != nil {
		who.ProcessID = r.db.ProcessID()
		if who.InstanceID == "" && r.cfg.StaticByDir {
			who.InstanceID = who.ProcessID
		}
	}
	if r.transactor != nil {
		who.Transactional = r.transactor.id
	}
	r.sayJoin(who)
	settings := r.cfg.Settings
	if r.cfg.Queues != nil {
		inputs := make(map[broker.TopicPartition]bool)
		for _, t := range r.firstPlan.Tasks {
			for _, in := range t.Inputs {
				inputs[in.TopicPartition] = true
			}
		}
		if settings.HighBytes, err = r.cfg.Queues(len(inputs)); err != nil {
			return err
		}
	}
	if r.member, err = r.cfg.Clients.Membership(who); err != nil {
		return err
	}
	cfg := Config{
		AppID: r.cfg.AppID, Topology: r.cfg.Topology, Plan: r.firstPlan, Settings: settings, Producer: r.producer(),
		Identity: r.member.Identity,
		Restore: restore.Config{
			Admin: r.cfg.Clients.Admin, Reader: r.cfg.Clients.Reader, NowMs: r.cfg.Clock.NowMs, Logger: r.log,
			MaxBytes: r.cfg.RestoreBytes, Wait: 500 * time.Millisecond, Progress: r.restoring, Copied: r.copied(),
		},
		OpenSet: r.openSet, Task: r.taskConfig(r.firstPlan), Wake: r.inbox.post, Release: r.releaser.add, Logger: r.log, ForgetTopics: r.book.forget, Stats: r.cfg.Stats,
		Inside: inside, Uncaught: r.cfg.Uncaught,
		Answers: func(tp broker.TopicPartition) uint64 { return r.loopOf(tp.Topic).fetcher.Answers(tp) },
	}
	if r.db != nil {
		cfg.Headers, cfg.Stored = r.headers, r.db.StoredTasks
	}
	f := r.followers
	f.clock, f.admin, f.group, f.within = r.cfg.Clock, r.cfg.Clients.Admin, r.cfg.AppID, settings.AcceptableLag
	f.post, f.log, f.restoring = r.inbox.post, r.log, func() bool { return r.underRestore.Load() > 0 }
	sh := &shared{
		clock: r.cfg.Clock, steady: r.steady, producer: r.producer(), maxRecord: r.book.maxRecord, retention: r.book.retention, log: r.log,
		sliceMs: r.cfg.SliceMs, sliceRecords: r.cfg.SliceRecords,
	}
	sh.privateBytes.Store(r.cfg.PrivateBytes)
	r.machine = NewMachine(cfg, sh)
	if fs := r.cfg.Clients; fs.User != nil {
		r.loops = []*fetchLoop{{fetcher: fs.Committed, post: r.inbox.post}, {fetcher: fs.User, post: r.inbox.post}}
	} else {
		r.loops = []*fetchLoop{{fetcher: fs.Committed, post: r.inbox.post}}
	}
	return nil
}

func (r *Runner) restoring(p restore.Progress) {
	r.cfg.Stats.Restoring(p)
	if !p.Done && r.sayProgress(p) {
		r.log.Info("restoring", "task", p.Task, "store", p.Store, "at", p.At, "of", p.End, "records", p.Records,
			"records_per_second", int64(p.RecordRate()), "eta", p.ETA().Round(time.Second))
	}
	switch {
	case p.Done && p.Records > 0:
		r.log.Info("store restored", "task", p.Task, "store", p.Store, "records", p.Records, "took", p.Elapsed, "records_per_second", int64(p.RecordRate()))
	case p.Done:
		// There are as many as stores: at a start with nothing to restore they would be most of the log.
		r.log.Debug("nothing to restore", "task", p.Task, "store", p.Store, "at", p.At)
	}
	if r.cfg.OnRestore != nil {
		r.notes.tell(func() { r.cfg.OnRestore(p) })
	}
}

// copied passes on what becomes of copies; nil where nobody listens.
func (r *Runner) copied() func(restore.Copied) {
	if r.cfg.OnStandby == nil {
		return nil
	}
	return func(c restore.Copied) { r.notes.tell(func() { r.cfg.OnStandby(c) }) }
}

// progressEvery is how often the log tells of a restore under way.
const progressEvery = 10 * time.Second

// sayProgress tells whether a line of a store's progress is due.
func (r *Runner) sayProgress(p restore.Progress) bool {
	key := p.Task + " " + p.Store
	last, ok := r.said.Load(key)
	if at, same := last.(time.Duration); ok && same && p.Elapsed >= at && p.Elapsed < at+progressEvery {
		return false
	}
	r.said.Store(key, p.Elapsed)
	return ok || p.Elapsed >= progressEvery
}

func (r *Runner) openSet(name string, specs []state.Spec, identify state.ChangelogIdentity) (*state.Set, error) {
	if r.db == nil {
		return state.NewMemorySet(specs)
	}
	return r.db.OpenSet(name, specs, identify)
}

// headers tells what is on disk of a task's stores.
func (r *Runner) headers(name string) (map[string]state.Header, error) {
	all, err := r.db.Tasks()
	if err != nil {
		return nil, err
	}
	m := make(map[string]state.Header)
	for _, s := range all {
		if s.Task == name {
			m[s.Store] = s.Header
		}
	}
	return m, nil
}

// onDisk says, for each task of which there is state on disk, how far it is: the sum of the positions of its stores.
func (r *Runner) onDisk() map[broker.TaskID]int64 {
	at := make(map[broker.TaskID]int64)
	if r.db == nil {
		return at
	}
	all, err := r.db.Tasks()
	if err != nil {
		return at // it only says where a task would be restored sooner
	}
	for _, s := range all {
		var id broker.TaskID
		if _, err := fmt.Sscanf(s.Task, "%d_%d", &id.Subtopology, &id.Partition); err != nil {
			continue
		}
		at[id] += 0
		if s.Header.HasPosition {
			at[id] += s.Header.Position.Offset
		}
	}
	return at
}

// copies says the same of all tasks of which the instance has a copy, running or on disk.
func (r *Runner) copies() map[broker.TaskID]int64 {
	at := r.onDisk()
	maps.Copy(at, r.followers.copies())
	return at
}

// samePlan tells whether two plans come to the same tasks.
func samePlan(a, b Plan) bool {
	return slices.EqualFunc(a.Tasks, b.Tasks, func(x, y topology.TaskSpec) bool {
		return x.Subtopology == y.Subtopology && x.Partition == y.Partition &&
			slices.EqualFunc(x.Inputs, y.Inputs, func(p, q topology.Input) bool { return p.TopicPartition == q.TopicPartition })
	})
}
