package integration_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// What Kafka Streams' own tests ask of exactly-once, beside what the cases and the kills show.

// transactionalWriter writes to a topic in transactions.
type transactionalWriter struct {
	t      *testing.T
	client *kgo.Client
	topic  string
}

func newTransactionalWriter(t *testing.T, b kafkatest.Broker, topic string) *transactionalWriter {
	t.Helper()
	return &transactionalWriter{t, kafkatest.NewClient(t, b, kgo.TransactionalID(b.Name("writer")), kgo.DefaultProduceTopic(topic)), topic}
}

func (w *transactionalWriter) begin(records ...*kgo.Record) {
	w.t.Helper()
	if err := w.client.BeginTransaction(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.ProduceSync(w.t.Context(), records...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *transactionalWriter) end(how kgo.TransactionEndTry) {
	w.t.Helper()
	if err := w.client.EndTransaction(w.t.Context(), how); err != nil {
		w.t.Fatal(err)
	}
}

// Of input that is written in transactions what is committed is processed, what is aborted is not, and what is open is waited
// for. Markers count as done: the lag reaches nothing.
func TestTransactions_inputOfTransactions(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 1), Out: kafkatest.CreateTopic(t, b, "out", 1)}
		w := newTransactionalWriter(t, b, topics.In)
		w.begin(at("a", "1", 1), at("b", "2", 2))
		w.end(kgo.TryCommit)
		w.begin(at("x", "aborted", 3))
		w.end(kgo.TryAbort)
		r := startKind(t, b, b.Name("input"), "copy", topics, millrace.Guarantee(millrace.ExactlyOnceV2))
		readN(t, b, topics.Out, 2)
		w.begin(at("c", "3", 4))
		r.untilDone() // the lag ends at the transaction that is open
		w.end(kgo.TryCommit)
		readN(t, b, topics.Out, 3)
		w.begin(at("x", "aborted too", 5))
		w.end(kgo.TryAbort)
		r.untilDone()
		r.stop()
		equal(t, "out", shown(kafkatest.ReadStable(t, b, topics.Out)), "a=1 b=2 c=3")
	})
}

// A global table holds no row of an aborted transaction, and a topic that ends with markers is read to its end.
func TestTransactions_globalTable(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		in, rows, out := kafkatest.CreateTopic(t, b, "in", 1), kafkatest.CreateTopic(t, b, "rows", 1), kafkatest.CreateTopic(t, b, "out", 1)
		w := newTransactionalWriter(t, b, rows)
		w.begin(at("k", "row", 1))
		w.end(kgo.TryCommit)
		w.begin(at("k", "aborted", 2))
		w.end(kgo.TryAbort)
		bld := millrace.NewBuilder()
		table := millrace.GlobalTableFrom(bld, texts(rows), millrace.As("rows"))
		millrace.JoinGlobal(millrace.From(bld, texts(in)), table, func(k, _ string) string { return k },
			func(v, row string) string { return v + "," + row }).To(texts(out))
		r := start(t, b, b.Name("global"), buildTopology(t, bld), millrace.Guarantee(millrace.ExactlyOnceV2))
		kafkatest.Load(t, b, in, at("k", "one", 3))
		readN(t, b, out, 1)
		w.begin(at("k", "aborted", 4))
		w.end(kgo.TryAbort)
		w.begin(at("k", "row two", 5))
		w.end(kgo.TryCommit)
		// There is no order between the table and the stream, so the stream asks until the table has it.
		want := "k=two,row two"
		for n := 1; ; n++ {
			kafkatest.Load(t, b, in, at("k", "two", int64(5+n)))
			if got := shown(readN(t, b, out, 1+n)[n:]); got == want {
				break
			} else if got != "k=two,row" {
				t.Fatalf("out goes on with %s", got)
			}
		}
		r.stop()
	})
}

// A task that fails once, with a store or without, and is run again by the next start: each record has its result once, those of the
// task beside it too.
func TestTransactions_aTaskFails(t *testing.T) {
	t.Parallel()
	const records = 40
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		for name, stateful := range map[string]bool{"with a store": true, "without": false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := kafkatest.Renamed(t, b)
				app := b.Name("fails")
				in, out := kafkatest.CreateTopic(t, b, "in", 2), kafkatest.CreateTopic(t, b, "out", 2)
				var failed atomic.Bool
				topology := func() *millrace.Topology {
					bld := millrace.NewBuilder()
					values := millrace.From(bld, texts(in))
					if stateful {
						millrace.Count(values.GroupByKey(), millrace.As("counts"), millrace.WithoutCache()).ToStream().To(numbers(out))
					}
					checked := millrace.TryMapValues(values, func(_ context.Context, v string) (string, error) {
						if v == "a-25" && failed.CompareAndSwap(false, true) {
							return "", errors.New("boom")
						}
						return v, nil
					}, millrace.NodeName("checked"))
					if !stateful {
						checked.To(texts(out))
					}
					return buildTopology(t, bld)
				}
				dir := filepath.Join(t.TempDir(), "state")
				opts := []millrace.AppOption{millrace.Guarantee(millrace.ExactlyOnceV2), millrace.StateDir(dir)}
				first := start(t, b, app, topology(), opts...)
				load := func(from, to int) {
					for part, key := range []string{"a", "b"} {
						var rs []*kgo.Record
						for i := from; i < to; i++ {
							rs = append(rs, at(key, fmt.Sprint(key, "-", i), int64(i)))
						}
						kafkatest.LoadPartition(t, b, in, int32(part), rs...)
					}
				}
				load(0, 20)
				awaitCommitted(t, b, app, in, 2*20)
				load(20, records)
				says(t, first.fails(), "boom", "step checked")
				second := start(t, b, app, topology(), opts...)
				second.untilDone()
				second.stop()
				for part, key := range []string{"a", "b"} {
					var want, got []string
					for i := range records {
						if stateful {
							want = append(want, fmt.Sprintf("%s=%d@%d", key, i+1, i))
						} else {
							want = append(want, fmt.Sprintf("%s=%s-%d", key, key, i))
						}
					}
					mine := slices.DeleteFunc(kafkatest.ReadStable(t, b, out), func(r *kgo.Record) bool { return string(r.Key) != key })
					if stateful {
						got = strings.Fields(shownNumbers(t, mine))
					} else {
						got = strings.Fields(shown(mine))
					}
					equal(t, fmt.Sprint("results of partition ", part), strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	})
}

// What is on disk is gone on from after a clean stop, after an error and after a SIGKILL: a restart reads what has come since from
// the changelog, not all of it.
func TestTransactions_stateIsKept(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		const keys = 500
		app := b.Name("kept")
		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 1), Out: kafkatest.CreateTopic(t, b, "out", 1)}
		dir := filepath.Join(t.TempDir(), "state")
		load := func() {
			var rs []*kgo.Record
			for i := range keys {
				rs = append(rs, at(fmt.Sprint("key-", i), "x", int64(i)))
			}
			kafkatest.Load(t, b, topics.In, rs...)
		}
		opts := []millrace.AppOption{millrace.Guarantee(millrace.ExactlyOnceV2), millrace.StateDir(dir), millrace.CacheBytes(0)}
		rounds := 0
		// begin starts the application and tells how many records of its changelog it has read.
		begin := func(name string, atMost int64) *running {
			t.Helper()
			var records atomic.Int64
			records.Store(-1)
			r := startKind(t, b, app, "count", topics, append(opts, millrace.OnRestore(func(p millrace.RestoreProgress) {
				if p.Done {
					records.Store(p.Records)
				}
			}))...)
			r.until("the store is restored", func() bool { return records.Load() >= 0 })
			if n := records.Load(); n > atMost {
				t.Errorf("%s: %d records were restored, want at most %d", name, n, atMost)
			}
			return r
		}
		work := func() {
			load()
			rounds++
			awaitCommitted(t, b, app, topics.In, int64(rounds*keys))
		}
		first := begin("first start", 0)
		work()
		first.stop()

		second := begin("after a stop", 0)
		second.stop()

		killed := startChild(t, "killed", childSpec{Topology: "count", Topics: topics, Settings: map[string]string{
			"application.id": app, "bootstrap.servers": strings.Join(b.Bootstrap(), ","), "state.dir": dir, "session.timeout.ms": shortSession,
			"processing.guarantee": "exactly_once_v2", "statestore.cache.max.bytes": "0",
		}})
		work()
		killed.Kill()
		third := begin("after a kill", keys)
		work()
		third.stop()
		equal(t, "the last count", fmt.Sprint(highest(t, kafkatest.ReadStable(t, b, topics.Out))["key-7"]), fmt.Sprint(rounds))
		if n := len(kafkatest.ReadStable(t, b, topics.Out)); n != rounds*keys {
			t.Errorf("%d results, want %d", n, rounds*keys)
		}
	})
}

// An application that writes nothing commits what it has read all the same, in transactions that are ended, and goes on from there.
func TestTransactions_nothingIsWritten(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app, in := b.Name("silent"), kafkatest.CreateTopic(t, b, "in", 2)
		admin := kadm.NewClient(kafkatest.NewClient(t, b))
		var seen atomic.Int64
		begin := func() *running {
			bld := millrace.NewBuilder()
			millrace.From(bld, texts(in)).ForEach(func(string, string) { seen.Add(1) })
			return start(t, b, app, buildTopology(t, bld), millrace.Guarantee(millrace.ExactlyOnceV2))
		}
		const rounds, each = 5, 20
		loaded := 0
		load := func(round int) {
			var rs []*kgo.Record
			for i := range each {
				rs = append(rs, at(fmt.Sprint("key-", i), fmt.Sprint(round), int64(i)))
			}
			kafkatest.Load(t, b, in, rs...)
			loaded += each
		}
		for range 2 { // lives
			r := begin()
			for round := range rounds {
				load(round)
				awaitCommitted(t, b, app, in, int64(loaded))
			}
			r.stop()
		}
		if n := seen.Load(); n != int64(loaded) {
			t.Errorf("%d records were seen, %d were there: a restart has not gone on from the committed offsets", n, loaded)
		}
		listed, err := admin.ListTransactions(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		committed := 0
		for _, x := range listed.Sorted() {
			if strings.HasPrefix(x.TxnID, app) && strings.HasSuffix(x.TxnID, "-offsets") && x.State == "CompleteCommit" {
				committed++
			}
		}
		if b.Real() && committed == 0 { // the embedded broker does not tell of what has ended
			t.Errorf("no transaction was committed: %v", listed)
		}
		if open, err := kafkatest.OpenTransactions(t.Context(), admin, app); err != nil || len(open) > 0 {
			t.Errorf("open transactions: %v, %v", open, err)
		}
	})
}
