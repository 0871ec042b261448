//go:build unix

package kafkatest_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/test/child"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// A second instance comes and goes twenty times, at any moment of its own start and of the rebalances that it causes, under load and
// with a commit every 50 ms. It always stops when it is told to, results never stay away for long, and each is there once.
func TestC100_RebalancesAndEndsOfTransactions(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]struct{ protocol, standbys string }{
		"without copies": {"classic", "0"}, "with copies": {"classic", "1"}, "streams": {"streams", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			comeAndGo(t, is.protocol, is.standbys)
		})
	}
}

func comeAndGo(t *testing.T, protocol, standbys string) {
	const limit = time.Minute
	seed := number(t, "MILLRACE_SEED", uint64(time.Now().UnixNano()))
	t.Logf("MILLRACE_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	b := kafkatest.Renamed(t, kafkatest.Shared(t))
	names := topics{In: kafkatest.CreateTopic(t, b, "in", 2), First: kafkatest.CreateTopic(t, b, "first", 2), Second: kafkatest.CreateTopic(t, b, "second", 2)}
	app, dirs := b.Name("ledger"), t.TempDir()
	start := func(name string) *child.Process {
		return child.Start(t, name, child.Spec[topics]{Topology: "ledger", Topics: names, Settings: map[string]string{
			"application.id": app, "bootstrap.servers": strings.Join(b.Bootstrap(), ","), "state.dir": filepath.Join(dirs, name),
			"processing.guarantee": "exactly_once_v2", "statestore.cache.max.bytes": "0", "commit.interval.ms": "50",
			"num.standby.replicas": standbys, "group.protocol": protocol,
		}})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	run, err := startLedger(ctx, b, names)
	if err != nil {
		t.Fatal(err)
	}
	defer run.stop()
	go run.watch(ctx, cancel)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	first := start("first")
	must(run.results(ctx, 1))
	for range 20 {
		second := start("second")
		if random.IntN(4) > 0 { // else it may not have got to its topology yet
			until(ctx, t, func() bool { return second.Status().State != "created" })
		}
		must(run.results(ctx, random.IntN(5*ledgerKeys)))
		second.Stop()
	}
	must(run.results(ctx, ledgerKeys))
	n, err := run.finish(ctx)
	must(err)
	first.Stop()
	run.stop()
	if lost, doubled, wrong := run.judge(t, b, n); lost+doubled+wrong != 0 {
		t.Errorf("%d results are lost, %d are there twice, %d are wrong", lost, doubled, wrong)
	}
	if run.longest > limit {
		t.Errorf("no result came for %v", run.longest)
	}
	t.Logf("%d entries of each key, the longest time without a result was %v", n, run.longest.Round(time.Millisecond))
}
