//go:build synctests

package sim_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace-io/millrace"
)

// everyCall makes each call of the user's function take a while.
func everyCall(calls int, d time.Duration) *slowness {
	s := &slowness{takes: make(map[int64]time.Duration)}
	for i := range calls {
		s.takes[int64(i+1)] = d
	}
	return s
}

// Records that were fetched and not processed when a transaction is aborted are thrown away, and fetched again: ten thousand
// records, every third transaction with records aborted, and the group rebalanced within transactions. (Were those counted that
// hold offsets alone, a task with one of records and two of offsets in each life would never get on.)
func TestC092_abortsAndRebalancesWithFullBuffers(t *testing.T) {
	under(t, millrace.ExactlyOnceV2, func(b *bubble, w *numbered) {
		const records = 10_000
		w.slow = everyCall(2*records, time.Millisecond)
		b.properties["commit.interval.ms"] = "50"
		o, end := b.watch()
		defer end()
		if err := b.feed(records); err != nil {
			b.t.Fatal(err)
		}
		ends := 0
		abort := b.k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.TransactionAbortable, Count: -1, When: func(r kmsg.Request) bool {
			if end := r.(*kmsg.EndTxnRequest); !end.Commit || strings.HasSuffix(end.TransactionalID, "-offsets") {
				return false
			}
			ends++
			return ends%3 == 0
		}})
		defer abort.Remove()
		p := b.start("first", b.newDir())
		for i := range 3 {
			time.Sleep(700 * time.Millisecond)
			q := b.start(fmt.Sprint("second-", i), b.newDir())
			time.Sleep(900 * time.Millisecond)
			b.stop(q)
		}
		if b.work.complete() == nil {
			b.t.Fatal("everything was done before the last rebalance")
		}
		b.untilComplete(o, 3*time.Minute) // each abort costs a task half a second and more
		if abort.Hits() == 0 {
			b.t.Error("no transaction was aborted")
		}
		b.stop(p)
		b.checkEnd()
	})
}

// What is buffered when the group rebalances is not lost, where the partition stays and where it moves, and no record is
// processed before the one ahead of it was.
func TestC096_rebalancesWithFullBuffers(t *testing.T) {
	eachGuarantee(t, func(b *bubble, w *numbered) {
		const records = 2000
		w.slow = everyCall(2*records, 5*time.Millisecond)
		o, end := b.watch()
		defer end()
		if err := b.feed(records); err != nil {
			b.t.Fatal(err)
		}
		p := b.start("first", b.newDir())
		for i := range 3 {
			time.Sleep(600 * time.Millisecond)
			q := b.start(fmt.Sprint("second-", i), b.newDir())
			time.Sleep(600 * time.Millisecond)
			b.stop(q)
		}
		b.untilComplete(o, 60*time.Second)
		b.stop(p)
		b.checkEnd()
	})
}

// What a task has done is committed before its partitions are given away: the next owner does nothing again.
func TestC098_commitBeforeHandOver(t *testing.T) {
	eachGuarantee(t, func(b *bubble, w *numbered) {
		b.properties["commit.interval.ms"] = "60000"
		b.properties["transaction.timeout.ms"] = "120000"
		const records = 100
		o, end := b.watch()
		defer end()
		p := b.start("first", b.newDir())
		if err := b.feed(records); err != nil {
			b.t.Fatal(err)
		}
		b.until("everything is processed", 30*time.Second, func() bool { return w.processed() == records })
		time.Sleep(5 * time.Second)
		q := b.start("second", b.newDir())
		b.until("the second instance has tasks", 30*time.Second, func() bool { return q.app.State() == millrace.Running && b.assigned(q) > 0 })
		b.stop(p)
		b.untilComplete(o, 90*time.Second) // counts behind the repartition topic wait for a commit of the second instance
		time.Sleep(5 * time.Second)
		for name, n := range w.callsOf() {
			if n != 1 {
				b.t.Errorf("%s was processed %d times", name, n)
			}
		}
		b.stop(q)
		b.checkEnd()
	})
}

// A second instance comes and goes twenty times, at any moment of a rebalance. Results never stop for long, and every Run
// returns in time.
func TestC100_progressThroughRebalances(t *testing.T) {
	eachGuarantee(t, func(b *bubble, w *numbered) {
		b.properties["commit.interval.ms"] = "50"
		o, end := b.watch()
		defer end()
		rng := rand.New(rand.NewPCG(b.seed, 5))
		p := b.start("first", b.newDir())
		for i := range 20 {
			if err := b.feed(20); err != nil {
				b.t.Fatal(err)
			}
			q := b.start(fmt.Sprint("second-", i), b.newDir())
			time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
			begin := time.Now()
			b.stop(q)
			if took := time.Since(begin); took > 30*time.Second {
				b.t.Errorf("Run took %v to return", took)
			}
			fed := time.Now()
			n, _ := o.results()
			if err := b.feed(20); err != nil {
				b.t.Fatal(err)
			}
			b.until("there are results again", 30*time.Second, func() bool { m, _ := o.results(); return m > n })
			b.trace.note("results again after %v", time.Since(fed))
		}
		b.untilComplete(o, 30*time.Second)
		b.stop(p)
		b.checkEnd()
	})
}

// A record that takes longer than max.poll.interval.ms costs its own task only: it is given up and run by the other instance,
// the results of the others go on, and nothing is committed for the task by the instance that was too slow.
func TestC101_slowerThanMaxPollInterval(t *testing.T) {
	eachGuarantee(t, func(b *bubble, w *numbered) {
		const slow = 8 * time.Second
		b.properties["max.poll.interval.ms"] = "3000"
		w.slow = &slowness{takes: map[int64]time.Duration{57: slow}}
		o, end := b.watch()
		defer end()
		p, q := b.start("first", b.newDir()), b.start("second", b.newDir())
		b.until("both have tasks", 30*time.Second, func() bool {
			return b.assigned(p) > 0 && b.assigned(q) > 0 && p.app.State() == millrace.Running && q.app.State() == millrace.Running
		})
		var longest time.Duration
		for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(100 * time.Millisecond) {
			if err := b.feed(4); err != nil {
				b.t.Fatal(err)
			}
			_, last := o.results()
			longest = max(longest, time.Since(last))
		}
		if w.slow.calls.Load() < 57 {
			b.t.Fatal("no record was slow")
		}
		if longest > 2*time.Second {
			b.t.Errorf("there was no result for %v while one task was inside a slow record", longest)
		}
		b.untilComplete(o, 30*time.Second)
		b.stop(p)
		b.stop(q)
		b.checkEnd()
	})
}

// processed tells how many different records were processed.
func (w *numbered) processed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.calls)
}

// callsOf tells how often each record was processed.
func (w *numbered) callsOf() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.calls)
}

// assigned tells how many partitions a process has.
func (b *bubble) assigned(p *process) (n int) {
	info := b.k.GroupInfo(appID)
	if info == nil {
		return 0
	}
	for _, m := range info.Members {
		if strings.HasPrefix(m.ClientID, p.name+"-") {
			n += m.NumAssigned()
		}
	}
	return n
}
