//go:build unix

package kafkatest_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millrace-io/millrace/test/child"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// The bounds of TestKills. Standstill is how long no result may come from behind the repartition, whatever happens.
const (
	killPartitions = 6
	killSession    = 4 * time.Second
	standstill     = time.Minute
)

// number reads a variable of the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		t.Fatalf("%s=%q: want a number above 0", name, text)
	}
	return n
}

// On a cluster of three brokers instances of an application are killed inside open transactions, with their disk or without,
// others join and leave, and brokers are stopped and killed and come back. A reader of committed records sees every result once
// and in order, and at the end no transaction is open. MILLRACE_KILLS is how many kills there are, MILLRACE_SEED replays the
// choices (what they meet is the machine's); with MILLRACE_STANDBYS the instances keep so many copies of each task.
func TestKills(t *testing.T) {
	standbys := number(t, "MILLRACE_STANDBYS", 0)
	kills, seed := int(number(t, "MILLRACE_KILLS", 1)), number(t, "MILLRACE_SEED", uint64(time.Now().UnixNano()))
	t.Logf("MILLRACE_KILLS=%d MILLRACE_SEED=%d MILLRACE_STANDBYS=%d", kills, seed, standbys)
	for _, protocol := range []string{"classic", "streams"} {
		t.Run(protocol, func(t *testing.T) { killInstances(t, kills, seed, standbys, protocol) })
	}
}

func killInstances(t *testing.T, kills int, seed, standbys uint64, protocol string) {
	d := newDriver(t, seed, standbys, protocol)
	for range 3 {
		d.add()
	}
	d.must(d.run.results(d.ctx, 2*ledgerKeys))
	for n := range kills {
		d.otherEvent(n)
		d.kill()
		d.must(d.run.results(d.ctx, 2*ledgerKeys))
	}
	d.finish(kills)
}

// driver does to an application and its cluster what TestKills is about.
type driver struct {
	t        *testing.T
	protocol string // of the group
	ctx      context.Context
	cancel   context.CancelCauseFunc
	cluster  *kafkatest.Cluster
	broker   kafkatest.Broker
	app      string
	topics   topics
	run      *ledgerRun
	random   *rand.Rand
	began    time.Time

	standbys  uint64
	dirs      string
	started   int
	instances []*instance
	bouncing  chan error // nil, or tells when the broker that was bounced last is back
}

// instance is a process of the application and the directory that it leaves.
type instance struct {
	*child.Process
	dir         string
	transaction string      // its transactional id, once that is known
	ending      atomic.Bool // it is to end
}

func newDriver(t *testing.T, seed, standbys uint64, protocol string) *driver {
	t.Helper()
	c := kafkatest.Start(t, kafkatest.Options{Brokers: 3, HeapMB: 256, Config: map[string]string{
		// What the instances say themselves under the classic protocol.
		"group.streams.session.timeout.ms": fmt.Sprint(killSession.Milliseconds()), "group.streams.num.standby.replicas": fmt.Sprint(standbys),
	}})
	b := kafkatest.OnCluster(t, c)
	ctx, cancel := context.WithCancelCause(t.Context())
	d := &driver{t: t, protocol: protocol, standbys: standbys, ctx: ctx, cancel: cancel, cluster: c, broker: b, app: b.Name("ledger"), random: rand.New(rand.NewPCG(seed, seed)), dirs: t.TempDir(), began: time.Now()}
	d.topics = topics{
		In:     kafkatest.CreateTopic(t, b, "in", killPartitions),
		First:  kafkatest.CreateTopic(t, b, "first", killPartitions),
		Second: kafkatest.CreateTopic(t, b, "second", killPartitions),
	}
	run, err := startLedger(ctx, b, d.topics)
	if err != nil {
		t.Fatal(err)
	}
	d.run = run
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		run.watch(ctx, cancel)
	}()
	t.Cleanup(func() {
		cancel(nil)
		run.stop()
		<-watched
	})
	return d
}

// watch ends everything when no result comes for too long.
func (r *ledgerRun) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.mu.Lock()
		quiet := time.Since(r.last)
		r.mu.Unlock()
		if quiet > standstill {
			cancel(fmt.Errorf("no result has come for %v", quiet.Round(time.Second)))
			return
		}
	}
}

func (d *driver) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// say notes what is done, and when.
func (d *driver) say(format string, args ...any) {
	d.t.Helper()
	d.t.Logf("%6.2fs "+format, append([]any{time.Since(d.began).Seconds()}, args...)...)
}

// add starts an instance with a directory of its own.
func (d *driver) add() {
	d.t.Helper()
	d.instances = append(d.instances, d.start(filepath.Join(d.dirs, strconv.Itoa(d.started))))
}

func (d *driver) start(dir string) *instance {
	d.t.Helper()
	d.started++
	at := &instance{dir: dir, Process: child.Start(d.t, fmt.Sprint("instance-", d.started), child.Spec[topics]{
		Topology: "ledger", Topics: d.topics, Settings: map[string]string{
			"application.id": d.app, "bootstrap.servers": strings.Join(d.cluster.Bootstrap(), ","), "state.dir": dir,
			"processing.guarantee": "exactly_once_v2", "statestore.cache.max.bytes": "0", "replication.factor": "-1", "num.standby.replicas": fmt.Sprint(d.standbys),
			"session.timeout.ms": fmt.Sprint(killSession.Milliseconds()), "group.protocol": d.protocol,
		},
	})}
	go func() {
		<-at.Done()
		if !at.ending.Load() {
			d.cancel(fmt.Errorf("%s has ended by itself: %w", at.Name(), at.Err()))
		}
	}()
	return at
}

// stop has an instance drain.
func (at *instance) stop() {
	at.ending.Store(true)
	at.Stop()
}

// otherEvent does one more thing before the kill number n, so that the kill meets it under way.
func (d *driver) otherEvent(n int) {
	d.t.Helper()
	switch n % 5 {
	case 0:
		d.bounce(d.cluster.Stop, "stopped")
	case 1:
		d.say("an instance is added")
		d.add()
	case 2:
		d.bounce(func(_ context.Context, broker int) error { return d.cluster.Kill(broker) }, "killed")
	case 3:
		i := d.random.IntN(len(d.instances))
		d.say("%s is stopped", d.instances[i].Name())
		d.instances[i].stop()
		d.instances = append(d.instances[:i], d.instances[i+1:]...)
	}
}

// bounce ends a broker and brings it back meanwhile. The one before has to be back first: two of three are needed.
func (d *driver) bounce(end func(context.Context, int) error, how string) {
	d.t.Helper()
	d.awaitBounced()
	broker := d.random.IntN(d.cluster.Size())
	d.say("broker %d is %s", broker, how)
	done := make(chan error, 1)
	d.bouncing = done
	go func() {
		err := end(d.ctx, broker)
		if err == nil {
			err = d.cluster.Restart(d.ctx, broker)
		}
		if err == nil {
			err = d.cluster.AwaitInSync(d.ctx)
		}
		done <- err
	}()
}

func (d *driver) awaitBounced() {
	d.t.Helper()
	if d.bouncing == nil {
		return
	}
	d.must(<-d.bouncing)
	d.bouncing = nil
	d.say("all brokers are back and level")
}

// kill kills an instance while its transaction is open, and starts it again: on its disk, or on an empty one, at once or when
// the others have gone on without it.
func (d *driver) kill() {
	d.t.Helper()
	order := d.random.Perm(len(d.instances))
	course := d.random.IntN(4)
	i := d.killOneInside(order)
	dead := d.instances[i]
	dir := dead.dir
	switch course {
	case 0:
		d.say("%s is killed inside its transaction, and its disk is lost", dead.Name())
		dir = filepath.Join(d.dirs, strconv.Itoa(d.started))
	case 1:
		d.say("%s is killed inside its transaction, and stays away until its partitions have moved", dead.Name())
		d.othersOwnAll(i)
	default:
		d.say("%s is killed inside its transaction", dead.Name())
	}
	d.instances[i] = d.start(dir)
}

// killOneInside kills the first instance, in the given order, that is found inside an open transaction.
func (d *driver) killOneInside(order []int) int {
	d.t.Helper()
	for {
		open, _ := kafkatest.OpenTransactions(d.ctx, d.cluster.Admin(), d.app) // a broker may be away
		for _, i := range order {
			at := d.instances[i]
			id, err := d.transactionOf(at, open)
			d.must(err)
			if id == "" {
				continue
			}
			at.ending.Store(true)
			how, err := killInside(d.ctx, d.cluster.Admin(), at.Process, id)
			d.must(err)
			switch how {
			case aborted:
				return i
			case missed:
				d.say("%s is killed, and what it has sent last has ended its transaction: not counted", at.Name())
				d.instances[i] = d.start(at.dir)
			case spared:
				at.ending.Store(false)
			}
		}
		d.pause(time.Millisecond)
	}
}

// pause lets a moment pass before the cluster is asked again, and fails the test if that is in vain.
func (d *driver) pause(moment time.Duration) {
	d.t.Helper()
	select {
	case <-time.After(moment):
	case <-d.ctx.Done():
		d.t.Fatal(context.Cause(d.ctx))
	}
}

// transactionOf is the id of an instance's transaction if it is among the open ones. What names it is in its directory.
func (d *driver) transactionOf(at *instance, open []kadm.ListedTransaction) (string, error) {
	for _, t := range open {
		if t.State != "Ongoing" {
			continue
		}
		if at.transaction == "" {
			found, err := mentions(at.dir, strings.TrimPrefix(t.TxnID, d.app+"-"))
			if err != nil {
				return "", err
			}
			if found {
				at.transaction = t.TxnID
			}
		}
		if at.transaction == t.TxnID {
			return t.TxnID, nil
		}
	}
	return "", nil
}

// mentions tells whether a file of JSON in a folder holds a text.
func mentions(dir, text string) (bool, error) {
	found := false
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // not made yet, or gone by now
		}
		if err != nil || e.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		content, err := os.ReadFile(path)
		found = found || strings.Contains(string(content), text)
		return err
	})
	return found, err
}

// othersOwnAll waits until the tasks of both sub-topologies run at the instances that live.
func (d *driver) othersOwnAll(dead int) {
	d.t.Helper()
	others := slices.Delete(slices.Clone(d.instances), dead, dead+1)
	for {
		ready := 0
		for _, at := range others {
			ready += at.Status().Ready
		}
		if ready == 2*killPartitions {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-d.ctx.Done():
			d.t.Fatal(context.Cause(d.ctx))
		}
	}
}

// finish lets all results come, stops everything and judges.
func (d *driver) finish(kills int) {
	d.t.Helper()
	d.awaitBounced()
	n, err := d.run.finish(d.ctx)
	d.must(err)
	d.say("%d entries of each of %d keys are processed", n, ledgerKeys)
	for _, at := range d.instances {
		at.stop()
	}
	d.run.stop()

	lost, doubled, wrong := d.run.judge(d.t, d.broker, n)
	open := d.openAtTheEnd()
	for _, t := range open {
		d.t.Errorf("transaction %s is open: %s", t.TxnID, t.State)
	}
	d.t.Logf("the longest time without a result was %v", d.run.longest.Round(time.Millisecond))
	d.t.Logf("kills=%d lost=%d doubled=%d open_transactions=%d", kills, lost, doubled, len(open))
	if lost+doubled+wrong != 0 {
		d.t.Errorf("%d results are lost, %d are there twice, %d are wrong", lost, doubled, wrong)
	}
	unstable, err := kafkatest.UnstablePartitions(d.ctx, d.cluster.Admin(), kafkatest.Topics(d.t, d.broker, "")...)
	d.must(err)
	for _, u := range unstable {
		d.t.Errorf("an open transaction holds up the readers: %s", u)
	}
}

// openAtTheEnd lists the transactions that are open when nobody runs any more. One whose end was asked for is waited for: its
// markers are being written.
func (d *driver) openAtTheEnd() []kadm.ListedTransaction {
	d.t.Helper()
	for end := time.Now().Add(standstill); ; {
		open, err := kafkatest.OpenTransactions(d.ctx, d.cluster.Admin(), "")
		d.must(err)
		ending := slices.ContainsFunc(open, func(t kadm.ListedTransaction) bool { return strings.HasPrefix(t.State, "Prepare") })
		if !ending || time.Now().After(end) {
			return open
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-d.ctx.Done():
			d.t.Fatal(context.Cause(d.ctx))
		}
	}
}
