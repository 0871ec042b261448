package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/broker/brokertest"
	"github.com/millrace-io/millrace/internal/clock"
	"github.com/millrace-io/millrace/internal/runtime"
	"github.com/millrace-io/millrace/internal/topology"
)

// scenario is what a world is about.
type scenario struct {
	workload  Workload
	exactly   bool
	cached    bool
	inMemory  bool
	instances int
	steps     int
	trouble   int    // how often something goes wrong, in 1,000 steps
	deadline  int64  // of one record, in milliseconds
	often     string // a kind of trouble that comes more often than others
	alone     bool   // no other kind comes
	broken    brokenRule
	emitLimit int64 // what one record may send, 0 for no bound
	copies    bool  // instances are asked for standbys and warm-ups
	static    bool  // members have instance ids, and come back under them
	handled   bool  // instances are paused and resumed, and tasks fail for good and are replaced
}

// drawScenario lets a seed choose.
func drawScenario(seed uint64) scenario {
	rng := rand.New(rand.NewPCG(seed, 1))
	all := Workloads()
	return scenario{
		workload: all[rng.IntN(len(all))], exactly: rng.IntN(5) > 0, cached: rng.IntN(3) == 0, inMemory: rng.IntN(4) == 0,
		instances: 2 + rng.IntN(2), steps: 3000, trouble: []int{2, 6, 15}[rng.IntN(3)], deadline: []int64{2_500, 3_600_000}[rng.IntN(2)],
		copies: rng.IntN(4) == 0, static: rng.IntN(3) == 0,
	}
}

func (s scenario) String() string {
	return fmt.Sprintf("%s, exactly once %t, cached %t, in memory %t, copies %t, static %t, handled %t, %d instances, %d steps, trouble %d, %d ms for a record",
		s.workload.Name, s.exactly, s.cached, s.inMemory, s.copies, s.static, s.handled, s.instances, s.steps, s.trouble, s.deadline)
}

// world is the whole of a simulation: a cluster, the instances of an application, the clock, and one source of chance.
type world struct {
	scenario
	seed       uint64
	rng        *rand.Rand
	topology   *topology.Topology
	cluster    *brokertest.Cluster
	group      *brokertest.Group
	coord      *brokertest.Coordinator // nil before the first instance knows the tasks
	clock      *clock.Fake
	places     []*place
	injected   []*brokertest.Injected
	lateProofs []lateProof

	feed   Feed
	oracle Oracle
	fed    map[broker.TopicPartition]int64
	read   map[broker.TopicPartition]int64 // how far the outputs have been looked at

	openSinceMs map[string]int64 // transactions, by id
	taken       int              // steps
	due         bool             // the group has to rebalance
	inside      int              // how deep in records of slow functions
	dead        []func()         // what is left of killed instances, to be closed when nobody is in it
	calm        bool             // nothing goes wrong any more
	setBack     bool             // a plain commit has arrived late: what is committed may be less than what is done
	trace       []string
	faults      []string
	failure     error
}

const appID = "app"

func newWorld(seed uint64, sc scenario) (*world, error) {
	w := &world{
		scenario: sc, seed: seed, rng: rand.New(rand.NewPCG(seed, 2)), cluster: brokertest.New(brokertest.AsyncMarkers()),
		clock: clock.NewFake(time.UnixMilli(startMs)), fed: make(map[broker.TopicPartition]int64), read: make(map[broker.TopicPartition]int64),
		openSinceMs: make(map[string]int64),
	}
	built, err := sc.workload.Topology(Variant{InMemory: sc.inMemory, Cached: sc.cached, Inside: w.insideRecord})
	if err != nil {
		return nil, err
	}
	w.topology = built.Internal()
	for _, t := range slices.Concat(sc.workload.Inputs, sc.workload.Outputs) {
		w.cluster.AddTopic(t.Name, t.Partitions)
	}
	w.group = w.cluster.Group(appID)
	var tasks []broker.TaskID
	for _, s := range w.topology.Subtopologies() {
		for p := range int32(partitions) {
			tasks = append(tasks, broker.TaskID{Subtopology: s.ID, Partition: p})
		}
	}
	w.coord = w.group.Coordinator(tasks...)
	w.feed = sc.workload.NewFeed(rand.New(rand.NewPCG(seed, 3)))
	w.oracle = sc.workload.NewOracle(Expectation{Exactly: sc.exactly, Cached: sc.cached})
	for i := range sc.instances {
		w.places = append(w.places, newPlace(w, i))
	}
	return w, nil
}

// close gives back what the world holds.
func (w *world) close() {
	for _, p := range w.places {
		p.kill()
	}
	w.bury()
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%d ", w.clock.NowMs()-startMs)+fmt.Sprintf(format, args...))
}

// fault notes something that goes wrong on purpose.
func (w *world) fault(format string, args ...any) {
	text := fmt.Sprintf("%d ", w.clock.NowMs()-startMs) + fmt.Sprintf(format, args...)
	w.faults = append(w.faults, text)
	w.trace = append(w.trace, "! "+text)
}

func (w *world) fail(err error) {
	if w.failure == nil && err != nil {
		w.note("FAILED: %v", err)
		w.failure = err
	}
}

// run lets the world go on for its steps, and then lets it come to rest and looks whether all is right.
func (w *world) run() error {
	for range w.steps {
		w.step()
		if w.failure != nil {
			return w.failure
		}
	}
	w.settle()
	return w.failure
}

// step does one thing, of any kind.
func (w *world) step() {
	switch n := w.rng.IntN(1000); {
	case n < 60:
		w.put(w.feed.Next())
	case n < 120:
		w.advance(time.Duration(1+w.rng.IntN(50)) * time.Millisecond)
	case n < 190:
		w.marker()
	case n < 270:
		if !w.groupStep() && w.unowned() {
			w.rebalance()
		}
	case n < 274:
		w.rebalance()
	case n < 274+w.troubleNow():
		w.somethingGoesWrong()
	case w.handled && n < 340:
		w.handle()
	default:
		w.carry(w.places[w.rng.IntN(len(w.places))])
	}
	w.after()
}

// troubleNow is how often something goes wrong now: trouble comes in stretches, so that there is something for it to meet.
func (w *world) troubleNow() int {
	if w.taken++; w.taken/stretch%2 == 0 {
		return w.trouble / 4
	}
	return w.trouble * 2
}

const stretch = 250 // steps

// after does what follows at once from whatever has happened.
func (w *world) after() {
	if w.inside == 0 {
		w.bury()
	}
	w.expireTransactions()
	w.keepZombiesOut()
	w.look()
}

// put writes a record of the input.
func (w *world) put(in Input) {
	tp := broker.TopicPartition{Topic: in.Topic, Partition: in.Partition}
	w.cluster.Append(tp, broker.Record{Key: in.Key, Value: in.Value, TimestampMs: in.TimestampMs})
	w.fed[tp]++
	w.oracle.Fed(in)
	w.note("fed %s-%d %s %s @%d", in.Topic, in.Partition, in.Key, in.Value, in.TimestampMs)
}

func (w *world) advance(d time.Duration) {
	if err := w.clock.Advance(d); err != nil {
		w.fail(err)
	}
	for _, p := range w.places {
		p.tick()
	}
}

// marker brings one marker of a transaction to its partition.
func (w *world) marker() bool {
	all := w.cluster.Markers()
	if len(all) == 0 {
		return false
	}
	m := all[w.rng.IntN(len(all))]
	w.note("marker: %v", m)
	w.cluster.WriteMarker(m)
	return true
}

func (w *world) groupStep() bool {
	if !w.coord.Step() {
		return false
	}
	w.note("group: a step of the rebalance, generation %d", w.group.Generation())
	return true
}

// rebalance begins to give the tasks out anew, at random, among those who are there.
func (w *world) rebalance() {
	members := w.members()
	if len(members) == 0 {
		return
	}
	choose := func(id broker.TaskID) *brokertest.Membership {
		able := slices.DeleteFunc(slices.Clone(members), func(m *brokertest.Membership) bool {
			refused, _ := m.Refused()
			return slices.Contains(refused, id)
		})
		if len(able) == 0 {
			return nil
		}
		return able[w.rng.IntN(len(able))]
	}
	if w.copies && !w.coord.Busy() {
		w.askForCopies(members)
	}
	if w.coord.Rebalance(choose) {
		w.note("group: a rebalance begins")
		w.due = false
		for _, p := range w.places {
			if p.member != nil {
				p.rejoins = p.member.Rejoins()
			}
		}
	}
}

// askForCopies asks each member for copies of any tasks that it does not get.
func (w *world) askForCopies(members []*brokertest.Membership) {
	for _, m := range members {
		var standbys, warmups []broker.TaskID
		for _, id := range w.coord.Tasks() {
			switch w.rng.IntN(4) {
			case 0:
				standbys = append(standbys, id)
			case 1:
				warmups = append(warmups, id)
			}
		}
		m.Copies(standbys, warmups)
	}
}

// members are those that the group has and that have not died.
func (w *world) members() []*brokertest.Membership {
	var all []*brokertest.Membership
	for _, p := range w.places {
		if p.member != nil && p.up {
			all = append(all, p.member)
		}
	}
	return all
}

// carry does one thing that an instance waits for; false if there was nothing.
func (w *world) carry(p *place) bool {
	for range 4 { // a poll may bring nothing
		chores := p.chores()
		if len(chores) == 0 {
			return false
		}
		if chores[w.rng.IntN(len(chores))]() {
			return true
		}
	}
	return false
}

// expireTransactions lets the coordinator give up transactions that are open for too long.
func (w *world) expireTransactions() {
	now, open := w.clock.NowMs(), w.cluster.OpenTxns()
	for _, id := range open {
		since, ok := w.openSinceMs[id]
		if !ok {
			w.openSinceMs[id] = now
			continue
		}
		if now-since >= transactionTimeoutMs {
			w.note("transaction of %s times out", id)
			w.cluster.ExpireTxn(id)
		}
	}
	for id := range w.openSinceMs {
		if !slices.Contains(open, id) {
			delete(w.openSinceMs, id)
		}
	}
}

// keepZombiesOut writes what a task that was taken away has on its way, under at-least-once: there nothing keeps such records
// from reaching a changelog behind those of the next owner, as in Kafka Streams, and that is not what is to be found here.
func (w *world) keepZombiesOut() {
	if w.exactly {
		return
	}
	for _, p := range w.places {
		if p.up && p.started && p.stepper.Lingering() {
			p.producer.Write(-1)
		}
	}
}

// look holds what a reader of committed records finds, and what is committed, against the oracle.
func (w *world) look() {
	hidden := len(w.cluster.Markers()) > 0
	for _, t := range w.workload.Outputs {
		for p := range t.Partitions {
			tp := broker.TopicPartition{Topic: t.Name, Partition: p}
			b := w.cluster.Committed(tp, w.read[tp])
			hidden = hidden || b.StableEnd < b.HighWater
			w.read[tp] = b.Position
			for _, r := range b.Records {
				if err := w.oracle.Result(Result{Topic: tp.Topic, Partition: tp.Partition, Key: r.Key, Value: r.Value, TimestampMs: r.TimestampMs}); err != nil {
					w.fail(fmt.Errorf("%s-%d@%d: %w", tp.Topic, tp.Partition, r.Offset, err))
				}
			}
		}
	}
	if !w.exactly || hidden {
		return
	}
	for _, t := range w.workload.Inputs {
		for p := range t.Partitions {
			n, ok := w.oracle.Answered(t.Name, p)
			if !ok {
				continue
			}
			if c := max(0, w.group.Committed(broker.TopicPartition{Topic: t.Name, Partition: p}).Offset); c != n {
				w.fail(fmt.Errorf("%s-%d: offset %d is committed, and %d records have their results", t.Name, p, c, n))
			}
		}
	}
}

// settle lets everything come to rest without further trouble, and looks whether all is right then.
func (w *world) settle() {
	w.note("--- no more trouble")
	w.calm = true
	for _, f := range w.injected {
		f.Remove()
	}
	for w.cluster.Late() > 0 {
		w.note("late: %v", callText(w.applyLate(0)))
	}
	if w.setBack { // who runs does not read the offsets again
		for _, p := range w.places {
			p.kill()
		}
	}
	for _, p := range w.places {
		if p.up && p.started {
			p.stepper.Step(runtime.GoOn{})
		}
		p.disk.full = false
		if p.disk.bad.laid.Load() && p.up {
			p.kill()
		}
		p.disk.bad.over()
		if p.member != nil && !p.up {
			p.expire()
		}
	}
	w.rest("what was fed")
	for _, in := range w.feed.Last() {
		w.put(in)
	}
	w.rest("the last records")
	if w.failure != nil {
		return
	}
	w.fail(w.oracle.Complete())
	for _, p := range w.places {
		w.fail(p.unnoticed())
	}
	if open := w.cluster.OpenTxns(); len(open) > 0 {
		w.fail(fmt.Errorf("transactions of %v are open at the end", open))
	}
	for _, p := range w.places {
		if done, err := p.stepper.Finished(); done {
			w.fail(fmt.Errorf("instance %d has stopped at the end: %w", p.index, errors.Join(err, errors.New("it should run"))))
		}
	}
}

// rest lets everybody do what they have to do until the whole input is committed and nothing is left to do.
func (w *world) rest(what string) {
	quiet := 0
	for range 3000 {
		for range 20 { // a restore may have to wait for time to pass
			if !w.once() {
				break
			}
			if w.failure != nil {
				return
			}
		}
		if w.processed() {
			quiet++
		} else {
			quiet = 0
		}
		if quiet > 25 {
			return
		}
		w.advance(100 * time.Millisecond)
		w.after()
		if w.failure != nil {
			return
		}
	}
	w.fail(fmt.Errorf("%s is not processed after five minutes without trouble: %v", what, w.unprocessed()))
}

// once lets everybody do one thing; false if nobody had anything to do.
func (w *world) once() (did bool) {
	for _, p := range w.places {
		if w.carryQuietly(p) {
			did = true
		}
	}
	for w.marker() {
		did = true
	}
	if w.groupStep() {
		did = true
	} else if !w.coord.Busy() && w.unowned() {
		w.rebalance()
		did = true
	}
	w.after()
	return did
}

// carryQuietly does what waits in an instance, once each.
func (w *world) carryQuietly(p *place) (did bool) {
	for i := 0; ; i++ {
		chores := p.chores() // another list after each one
		if i >= len(chores) {
			return did
		}
		if chores[i]() {
			did = true
			w.look()
		}
	}
}

// unowned tells whether a task is nobody's, or a member's who has died, or a member asks for it.
func (w *world) unowned() bool {
	members := w.members()
	if len(members) == 0 || w.calm && len(members) < len(w.places) {
		return false
	}
	if w.due || slices.ContainsFunc(w.places, (*place).waitsForGroup) {
		return true
	}
	for _, p := range w.places {
		if w.static && !w.calm && p.former != nil {
			members = append(members, p.former)
		}
	}
	return slices.ContainsFunc(w.coord.Tasks(), func(id broker.TaskID) bool { return !slices.Contains(members, w.coord.Owner(id)) })
}

func (w *world) processed() bool { return len(w.unprocessed()) == 0 }

// unprocessed lists what of the input is not committed, and what else is not done.
func (w *world) unprocessed() []string {
	var all []string
	for _, t := range w.workload.Inputs {
		for p := range t.Partitions {
			tp := broker.TopicPartition{Topic: t.Name, Partition: p}
			if c := w.group.Committed(tp).Offset; c < w.fed[tp] {
				all = append(all, fmt.Sprintf("%s-%d: committed %d of %d", tp.Topic, tp.Partition, c, w.fed[tp]))
			}
		}
	}
	for _, id := range w.cluster.OpenTxns() {
		all = append(all, "transaction of "+id)
	}
	for _, p := range w.places {
		if !p.up || !p.started || p.stepper.State().String() != "running" {
			all = append(all, fmt.Sprintf("instance %d does not run", p.index))
		}
	}
	return all
}

// bury closes what killed instances have left, once nobody is inside it.
func (w *world) bury() {
	for _, f := range w.dead {
		f()
	}
	w.dead = nil
}

// tail is the end of the trace.
func (w *world) tail(n int) string {
	return strings.Join(w.trace[max(0, len(w.trace)-n):], "\n")
}
