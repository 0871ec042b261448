package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// clockStep writes the time that it is told, and what it has observed is committed.
type clockStep struct{ observedMs int64 }

func (c *clockStep) Process(r *processor.Record[string, string]) error {
	c.observedMs = max(c.observedMs, r.TimestampMs)
	return nil
}

func clockFactory() op.Factory {
	return op.FactoryFunc(func(env *op.Env, step string, _ []op.Child) (any, error) {
		c := new(clockStep)
		env.ObserveTime(step, &c.observedMs)
		env.OnAdvance(step, func(toMs int64) error {
			if toMs <= c.observedMs {
				return nil
			}
			c.observedMs = toMs
			_, hasOrigin := env.Origin()
			env.Emit(op.Output{ProduceRecord: broker.ProduceRecord{
				Topic: "out", Value: fmt.Appendf(nil, "%s@%d", step, toMs), TimestampMs: env.TimestampMs(),
			}, Step: step})
			if hasOrigin {
				return fmt.Errorf("step %s: there is a record in process", step)
			}
			return nil
		})
		return c, nil
	})
}

// idling has a step behind each topic and one behind all of them.
func idling(timeouts map[string]time.Duration) *topology.Builder {
	b := topology.NewBuilder()
	var sources []string
	for _, name := range []string{"a", "b"} {
		d, ok := timeouts[name]
		if !ok {
			continue
		}
		b.AddSource(topology.Source{Name: "source-" + name, Topics: []string{name}, Op: text(), IdleTimeout: d})
		b.AddProcessor(topology.Processor{Name: "of-" + name, Parents: []string{"source-" + name}, Op: clockFactory()})
		sources = append(sources, "source-"+name)
	}
	b.AddProcessor(topology.Processor{Name: "all", Parents: sources, Op: clockFactory()})
	return b
}

const day = 86_400_000

// at moves the wall clock and returns what came out.
func (x *bench) at(nowMs int64) string {
	x.Helper()
	x.nowMs = nowMs
	x.process()
	x.next() // as the runtime asks after each turn
	if err := x.task.Punctuate(nowMs); err != nil {
		x.Fatal(err)
	}
	return x.process()
}

func (x *bench) next() int64 {
	ms, ok := x.task.NextTimerMs()
	if !ok {
		return -1
	}
	return ms
}

func TestQuiet_timeRunsOnFromTheTimeout(t *testing.T) {
	x := open(t, idling(map[string]time.Duration{"a": 10 * time.Second}), nil, "a")
	x.nowMs = day
	x.add("a", record(0, "v", day-5000))
	x.process()
	x.next() // as the runtime asks after each turn
	if got := x.next(); got != day+10_000 {
		t.Fatalf("next look at %d, want %d", got, day+10_000)
	}
	x.offset("a")
	x.want("before the timeout", x.at(day+9999), "")
	x.want("nothing to commit", x.offset("a"), "nothing")
	x.want("at the timeout", x.at(day+10_000), fmt.Sprintf("of-a@%d all@%d", day+5000, day+5000))
	if got := x.task.StreamTimeMs(); got != day+5000 {
		t.Errorf("stream time %d", got)
	}
	x.want("the advance is committed", x.offset("a")[:2], "1 ")
	if got := x.next(); got != day+11_000 {
		t.Errorf("next look at %d, want a second later", got)
	}
	x.want("between two looks", x.at(day+10_500), "")
	x.want("a second later", x.at(day+11_000), fmt.Sprintf("of-a@%d all@%d", day+6000, day+6000))

	// A record ends the quiet; the timeout begins anew.
	x.add("a", record(1, "v", day-4000))
	x.want("a record", x.process(), "")
	x.want("not idle", x.at(day+12_000), "")
	x.want("again", x.at(day+21_999), "")
	x.want("its own time is behind what the steps know", x.at(day+22_000), "")
	x.want("until it has caught up", x.at(day+29_000), fmt.Sprintf("of-a@%d all@%d", day+13_000, day+13_000))
}

func TestQuiet_neverBeyondThePresent(t *testing.T) {
	x := open(t, idling(map[string]time.Duration{"a": 10 * time.Second}), nil, "a")
	x.nowMs = day
	x.add("a", record(0, "v", day-1000))
	x.process()
	x.next() // as the runtime asks after each turn
	x.at(day)
	x.nowMs = day
	// The clock of the machine was set back meanwhile: what has passed is what is left of it.
	x.add("a", record(1, "v", day+60_000))
	x.process()
	x.next() // as the runtime asks after each turn
	x.want("the future is not moved", x.at(day+20_000), "")
	if got := x.task.StreamTimeMs(); got != day+60_000 {
		t.Errorf("stream time %d", got)
	}
	x.want("and goes on once the present is there", x.at(day+70_000), fmt.Sprintf("of-a@%d all@%d", day+70_000, day+70_000))
}

func TestQuiet_withSeveralSources(t *testing.T) {
	x := open(t, idling(map[string]time.Duration{"a": 10 * time.Second, "b": 20 * time.Second}), nil, "a", "b")
	x.nowMs = day
	x.task.SetPosition(in("b"), 0, 0)
	x.add("a", record(0, "v", day-1000))
	x.process()
	x.next() // as the runtime asks after each turn
	x.want("a alone is idle", x.at(day+10_000), fmt.Sprintf("of-a@%d", day+9000))
	// b has never had a record: it has no time of its own, and holds nothing up once it is idle.
	x.want("both are", x.at(day+20_000), fmt.Sprintf("of-a@%d all@%d", day+19_000, day+19_000))
	x.add("b", record(0, "v", day))
	x.process()
	x.next() // as the runtime asks after each turn
	x.want("b is not any more", x.at(day+31_000), fmt.Sprintf("of-a@%d", day+30_000))

	// A source without a timeout is never idle, and what it leads to moves by records alone.
	y := open(t, idling(map[string]time.Duration{"a": 10 * time.Second, "b": 0}), nil, "a", "b")
	y.nowMs = day
	y.task.SetPosition(in("b"), 0, 0)
	y.add("a", record(0, "v", day-1000))
	y.process()
	y.next()
	y.want("only of a", y.at(day+100_000), fmt.Sprintf("of-a@%d", day+99_000))

	// None at all: there is nothing to look at.
	z := open(t, idling(map[string]time.Duration{"a": 0}), nil, "a")
	z.add("a", record(0, "v", day))
	z.process()
	if got := z.next(); got != -1 {
		t.Errorf("looks at %d", got)
	}
}

func TestQuiet_onlyWhatIsKnownToBeEmpty(t *testing.T) {
	start := func() *bench {
		x := open(t, idling(map[string]time.Duration{"a": 10 * time.Second}), nil, "a")
		x.nowMs = day
		x.add("a", record(0, "v", day-1000))
		x.process()
		x.next() // as the runtime asks after each turn
		return x
	}
	x := start()
	x.addBatch(broker.Batch{TopicPartition: in("a"), Position: 1, HighWater: 7, StableEnd: 7})
	x.want("there is more to fetch", x.at(day+100_000), "")
	x.addBatch(broker.Batch{TopicPartition: in("a"), Position: 7, HighWater: 7, StableEnd: 7})
	x.want("level from now on", x.at(day+100_000), "")
	x.want("and idle later", x.at(day+110_000), fmt.Sprintf("of-a@%d all@%d", day+9000, day+9000))

	x = start()
	x.task.SetHeard(in("a"), false)
	x.want("nobody knows", x.at(day+10_000), "")
	x.task.SetHeard(in("a"), true)
	x.want("heard of again", x.at(day+11_000), fmt.Sprintf("of-a@%d all@%d", day+10_000, day+10_000))
}

func TestQuiet_boundsTheWaitForRecords(t *testing.T) {
	b := topology.NewBuilder()
	b.AddSource(topology.Source{Name: "source-a", Topics: []string{"a"}, Op: text()})
	b.AddSource(topology.Source{Name: "source-b", Topics: []string{"b"}, Op: text(), IdleTimeout: 20 * time.Millisecond})
	b.AddSink(topology.Sink{Name: "sink", Topic: "out", Parents: []string{"source-a", "source-b"}, Op: sink()})
	x := open(t, b, func(c *Config) { c.MaxIdleMs = 50 }, "a", "b")
	x.task.SetPosition(in("b"), 0, 0)
	x.add("a", record(0, "a1", 1))
	x.want("at first", x.process(), "")
	x.nowMs = 1019
	x.want("not idle yet", x.process(), "")
	x.nowMs = 1020
	x.want("b is idle", x.process(), "a1")
}
