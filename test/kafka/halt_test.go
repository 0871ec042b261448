//go:build unix

package kafkatest_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/test/child"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// A process that is halted inside an open transaction for longer than the transaction may take goes on when it wakes up, whether it
// is a member of its group still, has been expelled, or has been replaced by another that has done the work meanwhile. No
// result is lost, and none is there twice.
func TestC094_HaltedInsideATransaction(t *testing.T) {
	t.Parallel() // most of it is waiting
	cluster := kafkatest.SharedCluster(t)
	for _, c := range []struct {
		name     string
		session  time.Duration
		replaced bool
	}{
		{"a member still", 45 * time.Second, false},
		{"expelled", 2 * time.Second, false},
		{"replaced", 2 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := kafkatest.OnCluster(t, cluster)
			names := topics{In: kafkatest.CreateTopic(t, b, "in", 2), First: kafkatest.CreateTopic(t, b, "first", 2), Second: kafkatest.CreateTopic(t, b, "second", 2)}
			app := b.Name("ledger")
			start := func(name string) *child.Process {
				return child.Start(t, name, child.Spec[topics]{Topology: "ledger", Topics: names, Settings: map[string]string{
					"application.id": app, "bootstrap.servers": strings.Join(b.Bootstrap(), ","), "state.dir": filepath.Join(t.TempDir(), name),
					"processing.guarantee": "exactly_once_v2", "statestore.cache.max.bytes": "0", "transaction.timeout.ms": "2000",
					"session.timeout.ms": fmt.Sprint(c.session.Milliseconds()),
				}})
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, errors.New("the results do not come"))
			defer cancel()
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			run, err := startLedger(ctx, b, names)
			must(err)
			defer run.stop()
			halted := start("halted")
			must(run.results(ctx, ledgerKeys))
			id := haltAny(ctx, t, cluster, halted, app)
			until(ctx, t, func() bool { return !ongoing(ctx, cluster.Admin(), id) }) // its time is over
			if c.replaced {
				other := start("other")
				must(run.results(ctx, 20*ledgerKeys))
				must(halted.Resume())
				until(ctx, t, func() bool { return halted.Status().Ready > 0 })
				other.Stop()
			} else {
				must(halted.Resume())
			}
			must(run.results(ctx, 20*ledgerKeys))
			n, err := run.finish(ctx)
			must(err)
			halted.Stop()
			run.stop()
			if lost, doubled, wrong := run.judge(t, b, n); lost+doubled+wrong != 0 {
				t.Errorf("%d results are lost, %d are there twice, %d are wrong", lost, doubled, wrong)
			}
		})
	}
}

// haltAny halts the one process of an application inside a transaction, and returns its id.
func haltAny(ctx context.Context, t *testing.T, cluster *kafkatest.Cluster, p *child.Process, app string) string {
	t.Helper()
	for {
		open, err := kafkatest.OpenTransactions(ctx, cluster.Admin(), app)
		if ctx.Err() != nil {
			t.Fatal(context.Cause(ctx), err)
		}
		// A coordinator that has not answered is asked again.
		for _, transaction := range open {
			halted, err := haltInside(ctx, cluster.Admin(), p, transaction.TxnID)
			if err != nil {
				t.Fatal(err)
			}
			if halted {
				return transaction.TxnID
			}
		}
	}
}

// until asks again and again until something is so.
func until(ctx context.Context, t *testing.T, done func() bool) {
	t.Helper()
	for !done() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
}
