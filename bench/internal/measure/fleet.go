package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace/bench/internal/data"
	"github.com/millrace-io/millrace/bench/internal/side"
	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// A fleet is several instances of one application that count by key, under a steady input.
const (
	fleetInstances  = 3
	fleetPartitions = 12
	fleetSession    = 6 * time.Second
	// fleetRate is how many records are written a second: enough for each task to have results at each commit, and a tenth of
	// what the machine could do.
	fleetRate    = 2400
	fleetTimeout = 8 * time.Minute
	// fleetQuiet is how long everything must flow before something is done to it.
	fleetQuiet = 3 * time.Second
	// fleetLast is how long results of a killed instance may still come: what it had committed, on its way to the reader.
	fleetLast = time.Second
)

// FleetCommit is the commit interval of fleets.
const FleetCommit = 100 * time.Millisecond

// Failure is what a kill of one of three instances showed.
type Failure struct {
	// Took is the time from the kill to the first committed result of another instance, for the task where that took longest.
	Took  time.Duration
	Tasks int // that the killed instance had
	// Changelog is how many records the changelogs of these tasks had, in the mean.
	Changelog int64
}

// Failover lets three instances count, with or without a standby for each task, kills one of them and waits until others
// have its tasks.
func (b *Bench) Failover(ctx context.Context, c Contender, guarantee string, standbys int) (r Failure, err error) {
	err = b.withFleet(ctx, c, guarantee, standbys, func(ctx context.Context, f *fleet) error {
		total, err := b.logLength(ctx, f.config.AppID+"-"+f.config.Scenario.StoreName()+"-changelog")
		if err != nil {
			return err
		}
		f.instances[0].stop()
		kill := time.Now()
		settled := kill.Add(fleetLast)
		seen, err := f.watcher.until(ctx, "others have the tasks", func(a arrivals) bool { return a.flowing(settled) })
		if err != nil {
			return f.explain(err)
		}
		r.Took, r.Tasks, err = seen.takenOver(kill, settled)
		r.Changelog = total * int64(r.Tasks) / fleetPartitions
		return err
	})
	return r, err
}

// Joining is what a fourth instance showed that joined three.
type Joining struct {
	Away  time.Duration // of the task that moved and was away longest, from its last result there to its first one here
	Moved int           // tasks
	// Silent is the longest time without a result of a task that stayed; Before is the same, in the same time before.
	Silent, Before time.Duration
}

// Join lets three instances count, starts a fourth and waits until it has its share.
func (b *Bench) Join(ctx context.Context, c Contender, guarantee string) (r Joining, err error) {
	err = b.withFleet(ctx, c, guarantee, 0, func(ctx context.Context, f *fleet) error {
		join := time.Now()
		seen, err := f.watcher.now()
		if err != nil {
			return err
		}
		before := seen.producers(join.Add(-fleetQuiet))
		if err := f.start(ctx, fleetInstances); err != nil {
			return err
		}
		share := fleetPartitions / (fleetInstances + 1)
		if _, err := f.watcher.until(ctx, "the fourth instance has its share", func(a arrivals) bool {
			taken := 0
			for producer, partitions := range a.producers(join) {
				if before[producer] == 0 {
					taken += partitions
				}
			}
			return taken >= share && a.flowing(join)
		}); err != nil {
			return f.explain(err)
		}
		// What comes behind the move belongs to it.
		if err := wait(ctx, fleetQuiet); err != nil {
			return err
		}
		end := time.Now()
		if seen, err = f.watcher.now(); err != nil {
			return err
		}
		r.Away, r.Silent, r.Moved = seen.moved(join, end)
		for _, p := range seen {
			r.Before = max(r.Before, silence(p, join.Add(-fleetQuiet), join))
		}
		return nil
	})
	return r, err
}

// Rolled is what a restart of three instances one after the other showed.
type Rolled struct {
	Away       time.Duration // of the task that was without results longest
	Rebalances int32
}

// Roll restarts each of three instances, static members that stay in the group, one after the other.
func (b *Bench) Roll(ctx context.Context, c Contender, guarantee string) (r Rolled, err error) {
	err = b.withFleet(ctx, c, guarantee, 0, func(ctx context.Context, f *fleet) error {
		from, err := b.generation(ctx, f.config.AppID)
		if err != nil {
			return err
		}
		began := time.Now()
		for i := range fleetInstances {
			if err := f.instances[i].terminate(ctx); err != nil {
				return err
			}
			again := time.Now()
			if err := f.start(ctx, i); err != nil {
				return err
			}
			if _, err := f.watcher.until(ctx, "all tasks have results again", func(a arrivals) bool { return a.flowing(again) }); err != nil {
				return f.explain(err)
			}
			if err := wait(ctx, fleetQuiet); err != nil {
				return err
			}
		}
		seen, err := f.watcher.now()
		if err != nil {
			return err
		}
		for _, p := range seen {
			r.Away = max(r.Away, silence(p, began, time.Now()))
		}
		to, err := b.generation(ctx, f.config.AppID)
		r.Rebalances = to - from
		return err
	})
	return r, err
}

// fleet is the instances while something is done to them.
type fleet struct {
	bench     *Bench
	command   []string
	config    side.Config
	instances []*process
	watcher   *watcher
}

// withFleet starts three instances, waits until they have counted every key and, with standbys, until the copies are level,
// lets the input flow, and clears all away behind what is done with them.
func (b *Bench) withFleet(ctx context.Context, c Contender, guarantee string, standbys int, use func(context.Context, *fleet) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	in, err := b.fleetInput(ctx)
	if err != nil {
		return err
	}
	config, clean, err := b.application(ctx, c, Work{Scenario: side.Count, Guarantee: guarantee}, in)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, clean()) }()
	config.CommitInterval, config.Standbys, config.SessionTimeout, config.Stay = FleetCommit, standbys, fleetSession, true
	f := &fleet{bench: b, command: c.Command, config: config}
	defer f.stop()
	for i := range fleetInstances {
		if err := f.start(ctx, i); err != nil {
			return err
		}
	}
	if err := b.allCommitted(ctx, config.AppID, in); err != nil {
		return f.explain(err)
	}
	if f.watcher, err = b.watch(ctx, config.Output, fleetPartitions); err != nil {
		return err
	}
	feeder, err := b.feed(ctx, in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, feeder.stop()) }()
	if err := f.ready(ctx, standbys*fleetPartitions); err != nil {
		return f.explain(err)
	}
	if err := use(ctx, f); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return nil
}

// ready waits until the copies are level, and then until results have come from every task for a while.
func (f *fleet) ready(ctx context.Context, copies int) error {
	for copies > 0 {
		var sum side.Copies
		for _, p := range f.instances {
			if c := p.copies.Load(); c != nil {
				sum.Stores += c.Stores
				sum.Behind += c.Behind
			}
		}
		if sum.Stores >= int64(copies) && sum.Behind < fleetRate {
			break
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("bench: %d copies, of %d, lack %d records: %w", sum.Stores, copies, sum.Behind, err)
		}
	}
	if err := wait(ctx, fleetQuiet); err != nil {
		return err
	}
	since := time.Now()
	_, err := f.watcher.until(ctx, "results flow", func(a arrivals) bool { return a.flowing(since) })
	return err
}

// start starts the i-th instance, on the disk that it had if it ran before.
func (f *fleet) start(ctx context.Context, i int) error {
	config := f.config
	config.InstanceID = "instance-" + strconv.Itoa(i)
	config.StateDir = filepath.Join(config.StateDir, config.InstanceID)
	if err := os.MkdirAll(config.StateDir, 0o700); err != nil {
		return fmt.Errorf("bench: state folder: %w", err)
	}
	p, err := start(ctx, f.command, config)
	if err != nil {
		return err
	}
	if i < len(f.instances) {
		f.instances[i] = p
	} else {
		f.instances = append(f.instances, p)
	}
	return nil
}

func (f *fleet) stop() {
	for _, p := range f.instances {
		p.stop()
	}
	if f.watcher != nil {
		f.watcher.stop()
	}
}

// explain adds to an error what the instances have to say.
func (f *fleet) explain(err error) error {
	for i, p := range f.instances {
		if text := p.stderr.String(); text != "" {
			err = fmt.Errorf("%w\ninstance %d: %s", err, i, text)
		}
	}
	return err
}

// fleetInput is the input of all fleets: one record for each key, and what was written while others ran.
func (b *Bench) fleetInput(ctx context.Context) (*input, error) {
	if b.fleet != nil {
		return b.fleet, nil
	}
	keys := fleetInstances * b.settings.TrialKeys
	in := &input{
		set:   data.Set{Keys: keys, ValueBytes: trialValueBytes},
		topic: b.broker.Name("fleet-input"), table: b.broker.Name("fleet-table"), partitions: fleetPartitions,
	}
	if err := kafkatest.MakeTopic(ctx, b.broker, in.topic, fleetPartitions); err != nil {
		return nil, err
	}
	b.settings.Log("writing a record for each of %d keys", keys)
	if err := kafkatest.Write(ctx, b.broker, in.topic, in.set.Table(), uncompressed()); err != nil {
		return nil, err
	}
	in.records = int64(keys)
	b.fleet = in
	return in, nil
}

// feeder writes to an input steadily.
type feeder struct {
	cancel context.CancelFunc
	done   chan error
}

func (b *Bench) feed(ctx context.Context, in *input) (*feeder, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(b.cluster.Bootstrap()...), kgo.DefaultProduceTopic(in.topic), uncompressed(),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ProducerLinger(0),
	)
	if err != nil {
		return nil, fmt.Errorf("bench: writer of the input: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &feeder{cancel: cancel, done: make(chan error, 1)}
	go func() {
		defer client.Close()
		f.done <- in.feed(ctx, client)
	}()
	return f, nil
}

// feed writes what is due, fifty times a second, until the context ends.
func (in *input) feed(ctx context.Context, client *kgo.Client) error {
	began, written := time.Now(), int64(0)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		due := int64(time.Since(began).Seconds() * fleetRate)
		var batch []*kgo.Record
		for r := range in.set.Input(in.records, in.records+due-written) {
			batch = append(batch, r)
		}
		if err := client.ProduceSync(context.WithoutCancel(ctx), batch...).FirstErr(); err != nil {
			return fmt.Errorf("bench: writing the input: %w", err)
		}
		in.records, written = in.records+due-written, due
	}
}

func (f *feeder) stop() error {
	f.cancel()
	return <-f.done
}

// logLength is how many offsets the partitions of a topic have, all together.
func (b *Bench) logLength(ctx context.Context, topic string) (sum int64, err error) {
	ends, err := b.cluster.Admin().ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("bench: end of %q: %w", topic, err)
	}
	ends.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum, nil
}

// generation asks for the group's generation, which nothing tells: a heartbeat in the name of a member is refused under every
// other one.
func (b *Bench) generation(ctx context.Context, group string) (int32, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.cluster.Bootstrap()...))
	if err != nil {
		return 0, fmt.Errorf("bench: generation of %q: %w", group, err)
	}
	defer client.Close()
	const most = 200
	for g := int32(0); g < most; g++ {
		groups, err := kadm.NewClient(client).DescribeGroups(ctx, group)
		if err == nil {
			err = groups.Error()
		}
		if err != nil {
			return 0, fmt.Errorf("bench: generation of %q: %w", group, err)
		}
		members := groups[group].Members
		if len(members) == 0 {
			return 0, fmt.Errorf("bench: generation of %q: the group has no member", group)
		}
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.Generation, req.MemberID, req.InstanceID = group, g, members[0].MemberID, members[0].InstanceID
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return 0, fmt.Errorf("bench: generation of %q: %w", group, err)
		}
		if resp.ErrorCode == 0 {
			return g, nil
		}
	}
	return 0, fmt.Errorf("bench: generation of %q: none below %d", group, most)
}
