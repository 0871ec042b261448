package kgoclient

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/broker"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// kafkaPlace is a place on a real Kafka, with names of its own.
func kafkaPlace(t *testing.T, cluster *kafkatest.Cluster) (place, Config) {
	b := kafkatest.OnCluster(t, cluster)
	cfg := Config{
		Bootstrap: b.Bootstrap(), ClientID: t.Name(), MetadataMinAge: 10 * time.Millisecond,
		RetryBackoff: 5 * time.Millisecond, RetryBackoffMax: 20 * time.Millisecond,
		Fetch: FetchConfig{MaxWait: 50 * time.Millisecond}, Produce: ProduceConfig{Linger: -1},
	}
	return placeOn(t, cfg, names{
		in: kafkatest.CreateTopic(t, b, "in", 1), out: kafkatest.CreateTopic(t, b, "out", 2), group: b.Name("app"), txn: b.Name("x"),
	}), cfg
}

// What is asked of both implementations of transactions is so with a real Kafka, and no transaction is left open. Copies of the
// offsets of a transaction without records that reach it late are refused.
func TestTransactions_kafka(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{})
	for _, what := range slices.Sorted(maps.Keys(contract)) {
		t.Run(what, func(t *testing.T) {
			p, _ := kafkaPlace(t, cluster)
			contract[what](t, p)
			x := p.open(t, p.txn)
			proved(t, x) // ends what the case has left
			open, err := kafkatest.OpenTransactions(testCtx(t), cluster.Admin(), p.txn)
			if err != nil || len(open) > 0 {
				t.Errorf("open transactions: %v, %v", open, err)
			}
		})
	}
	t.Run("late copies of offsets", func(t *testing.T) {
		p, cfg := kafkaPlace(t, cluster)
		id := p.rebalance(t)
		txn := newTransactions(t, cfg, p.txn)
		proved(t, txn)
		p.begunBare(t, txn, id, 1)
		old := txn.only.pid
		copyOf := func() error {
			return txn.sendOffsets(testCtx(t), txn.p.Load().c, txn.only.id, old, p.group, id, p.offsetsTo(1))
		}
		ended(t, txn, true)
		p.begunBare(t, txn, id, 2)
		wantCourse(t, "a copy while the next one is open", copyOf(), broker.CourseRebuild)
		ended(t, txn, true)
		p.shows(t, 2)
		wantCourse(t, "a copy with nothing open", copyOf(), broker.CourseRebuild)
		p.shows(t, 2)
	})
}
