package integration_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// A record that takes longer than max.poll.interval.ms costs its own task only: the task is released and run by the other instance
// (under the streams protocol it waits where it is),
// and what the first makes of it in the end counts for nothing. Everything else of the instance goes on, and the group settles.
func TestC101_SlowerThanMaxPollInterval(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, b kafkatest.Broker, p millrace.GroupProtocolKind) {
		underBoth(t, b, func(t *testing.T, b kafkatest.Broker, g millrace.AppOption, exactly bool) {
			const partitions, records = 4, 50
			app := b.Name("c101")
			in, out := kafkatest.CreateTopic(t, b, "in", partitions), kafkatest.CreateTopic(t, b, "out", partitions)
			var slow atomic.Bool
			inside, release := make(chan struct{}), make(chan struct{})
			instance := func() *running {
				bld := millrace.NewBuilder()
				millrace.From(bld, texts(in)).Peek(func(_, v string) {
					if v == "slow" && slow.CompareAndSwap(false, true) {
						close(inside)
						<-release
					}
				}).To(texts(out))
				return start(t, b, app, buildTopology(t, bld), g, millrace.GroupProtocol(p), millrace.FromProperties(map[string]string{"max.poll.interval.ms": "3000"}))
			}
			instances := []*running{instance(), instance()}
			both := func(ready int) func() bool {
				return func() bool { return runningTasks(instances[0].app)+runningTasks(instances[1].app) == ready }
			}
			for _, r := range instances {
				r.until("it has its share", func() bool { return runningTasks(r.app) == partitions/2 })
			}
			kafkatest.LoadPartition(t, b, in, 0, at("slow", "slow", 1))
			select {
			case <-inside:
			case <-time.After(patience):
				t.Fatal("nobody has the record")
			}
			for part := range int32(partitions) {
				for i := range records {
					kafkatest.LoadPartition(t, b, in, part, at(fmt.Sprint("part-", part), fmt.Sprint(i), int64(2+i)))
				}
			}
			// All is done, by the other instance, while the record is still being processed. Brokers that assign the tasks cannot be told
			// that an instance does not run one: its partition waits there, and it alone.
			others := int64(partitions*records + 1)
			if p == millrace.Streams {
				others = (partitions - 1) * records
			}
			awaitCommitted(t, b, app, in, others)
			close(release)
			instances[0].until("every task runs at one of them", both(partitions))
			kafkatest.LoadPartition(t, b, in, 0, at("last", "last", 1000))
			awaitCommitted(t, b, app, in, partitions*records+2)
			for _, r := range instances {
				r.stop()
			}
			times := make(map[string]int)
			for _, r := range kafkatest.ReadStable(t, b, out) {
				times[string(r.Key)+" "+string(r.Value)]++
			}
			check := func(what string) {
				if n := times[what]; n < 1 || exactly && n > 1 {
					t.Errorf("%q is there %d times", what, n)
				}
			}
			check("slow slow")
			check("last last")
			for part := range partitions {
				for i := range records {
					check(fmt.Sprintf("part-%d %d", part, i))
				}
			}
		})
	})
}
