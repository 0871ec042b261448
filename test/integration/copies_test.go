package integration_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// The cases of rebalances again with state, of which the instances keep copies for each other.

// counting is an application that counts records by key on instances that keep copies of each other's tasks.
type counting struct {
	t        *testing.T
	b        kafkatest.Broker
	app      string
	in, out  string
	seen     func(string, string)
	opts     []millrace.AppOption
	expected map[string]int64
	loaded   int64
}

const countingPartitions = 4

func newCounting(t *testing.T, b kafkatest.Broker, name string, opts ...millrace.AppOption) *counting {
	c := &counting{t: t, b: b, app: b.Name(name), seen: func(string, string) {}, expected: make(map[string]int64)}
	c.in, c.out = kafkatest.CreateTopic(t, b, "in", countingPartitions), kafkatest.CreateTopic(t, b, "out", countingPartitions)
	c.opts = append(opts, millrace.Standbys(1))
	return c
}

func (c *counting) start() *running {
	bld := millrace.NewBuilder()
	in := millrace.From(bld, texts(c.in)).Peek(func(k, v string) { c.seen(k, v) })
	millrace.Count(in.GroupByKey(), millrace.As("counts"), millrace.WithoutCache()).ToStream().To(numbers(c.out))
	return start(c.t, c.b, c.app, buildTopology(c.t, bld), c.opts...)
}

// load adds records of as many keys.
func (c *counting) load(n int) {
	c.t.Helper()
	records := numbered("v", n)
	for _, r := range records {
		c.expected[string(r.Key)]++
	}
	kafkatest.Load(c.t, c.b, c.in, records...)
	c.loaded += int64(n)
}

func (c *counting) await() {
	c.t.Helper()
	awaitCommitted(c.t, c.b, c.app, c.in, c.loaded)
}

// untilCopies waits until an instance runs so many tasks and has level copies of as many others.
func untilCopies(r *running, tasks, copies int) {
	r.t.Helper()
	r.until(fmt.Sprintf("it runs %d tasks and has %d level copies", tasks, copies), func() bool {
		level := 0
		for _, s := range r.app.Metrics().Standbys {
			if s.Behind == 0 {
				level++
			}
		}
		return runningTasks(r.app) == tasks && level == copies
	})
}

// judge looks at all counts: each is there, and under exactly-once each number once, in order.
func (c *counting) judge(exactly bool) {
	c.t.Helper()
	last := make(map[string]int64)
	for _, r := range kafkatest.ReadStable(c.t, c.b, c.out) {
		n, err := serde.Int64.Decode(r.Value)
		if err != nil {
			c.t.Fatal(err)
		}
		key := string(r.Key)
		if exactly && n != last[key]+1 {
			c.t.Errorf("%s: count %d comes after %d", key, n, last[key])
		}
		last[key] = n
	}
	for key, want := range c.expected {
		if n := last[key]; n < want || exactly && n != want {
			c.t.Errorf("%s: counted %d times, want %d", key, n, want)
		}
	}
}

// What was processed and not committed is committed before its task is given away, and its next owner goes on with the copy that it
// has: to an instance that joins, and from one that leaves.
func TestC098_CopiesAreTakenOver(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		underBoth(t, b, func(t *testing.T, b kafkatest.Broker, g millrace.AppOption, _ bool) {
			c := newCounting(t, b, "c098copies", g)
			c.load(200)
			first := c.start()
			first.untilRunning()
			c.await()
			second := c.start()
			untilCopies(first, countingPartitions/2, countingPartitions/2)
			untilCopies(second, countingPartitions/2, countingPartitions/2)
			c.load(200)
			c.await()
			first.stop()
			second.until("it has all tasks", func() bool { return runningTasks(second.app) == countingPartitions })
			c.load(200)
			c.await()
			third := c.start()
			untilCopies(third, countingPartitions/2, countingPartitions/2)
			c.load(200)
			c.await()
			second.stop()
			third.stop()
			c.judge(true) // nothing was lost, so nothing is counted twice under either guarantee
		})
	})
}

// A record that takes longer than max.poll.interval.ms costs its own task only: the other instance, which has a copy, goes on with it.
// What the first makes of the record in the end counts for nothing.
func TestC101_SlowerThanMaxPollIntervalWithCopies(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		underBoth(t, b, func(t *testing.T, b kafkatest.Broker, g millrace.AppOption, exactly bool) {
			c := newCounting(t, b, "c101copies", g, millrace.FromProperties(map[string]string{"max.poll.interval.ms": "3000"}))
			var slow atomic.Bool
			inside, release := make(chan struct{}), make(chan struct{})
			c.seen = func(_, v string) {
				if v == "slow" && slow.CompareAndSwap(false, true) {
					close(inside)
					<-release
				}
			}
			instances := []*running{c.start(), c.start()}
			for _, r := range instances {
				untilCopies(r, countingPartitions/2, countingPartitions/2)
			}
			c.load(200)
			c.await()
			kafkatest.LoadPartition(t, b, c.in, 0, at("slow", "slow", 1))
			c.expected["slow"]++
			c.loaded++
			select {
			case <-inside:
			case <-time.After(patience):
				t.Fatal("nobody has the record")
			}
			c.load(200)
			c.await() // by the other instance, while the record is still being processed
			close(release)
			instances[0].until("every task runs at one of them", func() bool {
				return runningTasks(instances[0].app)+runningTasks(instances[1].app) == countingPartitions
			})
			c.load(200)
			c.await()
			for _, r := range instances {
				r.stop()
			}
			c.judge(exactly)
		})
	})
}

// Two topologies under one application id: the second says so and ends, and the first, whose instances keep copies for each other, goes
// on with its tasks and copies where they are.
func TestC103_TwoTopologiesAndCopies(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		c := newCounting(t, b, "c103copies", millrace.Guarantee(millrace.ExactlyOnceV2))
		instances := []*running{c.start(), c.start()}
		for _, r := range instances {
			untilCopies(r, countingPartitions/2, countingPartitions/2)
		}
		c.load(200)
		c.await()
		err := startKind(t, b, c.app, "copy", childTopics{In: c.in, Out: kafkatest.CreateTopic(t, b, "other", 1)}, c.opts...).fails()
		if !errors.Is(err, millrace.ErrTopologyMismatch) {
			t.Errorf("the error is %v", err)
		}
		for _, r := range instances {
			untilCopies(r, countingPartitions/2, countingPartitions/2)
		}
		c.load(200)
		c.await()
		for _, r := range instances {
			r.stop()
		}
		c.judge(true)
	})
}
