package kafkatest_test

import (
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/test/child"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
	"github.com/millrace-io/millrace/test/twin"
)

// topics are what a topology of a child process reads and writes.
type topics struct {
	In, First, Second string
	Twin              twin.Topics
}

// topologies are what a child process can run.
var topologies = child.Topologies[topics]{
	"ledger": ledgerTopology,
	"twin":   func(b *millrace.Builder, t topics) { twin.Build(b, t.Twin) },
}

func TestMain(m *testing.M) {
	topologies.Main()
	kafkatest.Main(m)
}

// ledgerTopology keeps the books of each key, writes them after each record, and does so again behind a repartition: the sums
// of the first books are the entries of the second.
func ledgerTopology(b *millrace.Builder, t topics) {
	in := millrace.From(b, millrace.NewTopic(t.In, serde.String, serde.Int64))
	first := millrace.Aggregate(in.GroupByKey(), newBooks, enter, serde.JSON[books](), millrace.As("first")).ToStream()
	first.To(millrace.NewTopic(t.First, serde.String, serde.JSON[books]()))
	again := millrace.GroupBy(first, func(key string, _ books) string { return "again-" + key },
		millrace.RepartitionName("again"), millrace.WithKey(serde.String), millrace.WithValue(serde.JSON[books]()))
	second := millrace.Aggregate(again, newBooks, func(key string, v, agg books) books { return enter(key, v.Sum, agg) },
		serde.JSON[books](), millrace.As("second")).ToStream()
	second.To(millrace.NewTopic(t.Second, serde.String, serde.JSON[books]()))
}

// books are what is kept for a key.
type books struct{ N, Sum, Min, Max int64 }

func newBooks() books { return books{} }

func enter(_ string, v int64, b books) books {
	if b.N == 0 {
		b.Min, b.Max = v, v
	}
	return books{b.N + 1, b.Sum + v, min(b.Min, v), max(b.Max, v)}
}
