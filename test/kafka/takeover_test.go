//go:build unix

package kafkatest_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace/test/child"
	"github.com/millrace-io/millrace/test/twin"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// An application of Java Kafka Streams is stopped half-way and its twin goes on under the same application id, and the other way
// round: after a clean stop, after one of a static member, and after a SIGKILL, which under exactly-once falls inside an open
// transaction; under both guarantees; and under the streams group protocol, where brokers keep the topology of the first and hold that of
// the second against it. The results are those of a Java application that runs without an interruption.
func TestTakeover(t *testing.T) {
	t.Parallel() // most of it is waiting
	cluster := kafkatest.SharedCluster(t)
	for _, direction := range []struct{ from, to string }{{"java", "millrace"}, {"millrace", "java"}} {
		t.Run(direction.from+" to "+direction.to, func(t *testing.T) {
			t.Parallel()
			// A window that was closed before the takeover stays closed under millrace. Java forgets it.
			input := newTwinInput(time.Now().Add(-time.Hour), direction.to == "millrace")
			want := newTwins(t, cluster, input, "at_least_once", "").uninterrupted()
			for _, guarantee := range []string{"at_least_once", "exactly_once_v2"} {
				for _, how := range []string{"stopped", "static", "killed"} {
					t.Run(guarantee+" "+how, func(t *testing.T) {
						t.Parallel()
						w := newTwins(t, cluster, input, guarantee, how)
						first := w.start(direction.from)
						w.firstHalf()
						rest := w.interrupt(first, how == "killed")
						if direction.to == "java" {
							// A Java application does not wait for members of another kind.
							kafkatest.AwaitGroupEmpty(t, w.broker, w.app)
						}
						second := w.start(direction.to)
						w.load(w.topics.In, rest...)
						w.awaitAll()
						second.Stop()
						if d := cmp.Diff(want, w.results()); d != "" {
							t.Errorf("the results are not those of one uninterrupted run (-want +got):\n%s", d)
						}
					})
				}
			}
		})
	}
}

// The keys of the input, and how many records each half has.
const (
	twinKeys = 8
	twinHalf = 400
)

// twinInput is what twins process: rows of a table, each half's before its records.
type twinInput struct{ rows, values [2][]*kgo.Record }

// newTwinInput makes the input. Records come half a second apart; some are out of order within the grace of the windows, and
// some are too late. With lateAfter the second half has late ones too, its first records among them.
func newTwinInput(from time.Time, lateAfter bool) twinInput {
	var in twinInput
	from = from.Truncate(time.Minute)
	for i := range 2 * twinHalf {
		half := i / twinHalf
		at := from.Add(time.Duration(i) * 500 * time.Millisecond)
		if i%twinHalf == 0 {
			for k := range twinKeys {
				in.rows[half] = append(in.rows[half], &kgo.Record{Key: twinKey(k), Value: fmt.Appendf(nil, "row-%d-%d", k, half), Timestamp: at.Add(-time.Minute)})
			}
		}
		late := i%twinHalf > 100 && i%10 == 3 || half == 1 && i%twinHalf < twinKeys
		switch {
		case late && (half == 0 || lateAfter):
			at = at.Add(-40 * time.Second)
		case i%6 == 5:
			at = at.Add(-4 * time.Second)
		}
		in.values[half] = append(in.values[half], &kgo.Record{Key: twinKey(i % twinKeys), Value: binary.BigEndian.AppendUint64(nil, uint64(i)), Timestamp: at})
	}
	return in
}

func twinKey(k int) []byte { return fmt.Appendf(nil, "key-%d", k) }

// twins are an application of both kinds, one after the other, under one application id.
type twins struct {
	t         *testing.T
	cluster   *kafkatest.Cluster
	broker    kafkatest.Broker
	app       string
	topics    twin.Topics
	input     twinInput
	guarantee string
	how       string
}

func newTwins(t *testing.T, cluster *kafkatest.Cluster, input twinInput, guarantee, how string) *twins {
	t.Helper()
	b := kafkatest.OnCluster(t, cluster)
	w := &twins{t: t, cluster: cluster, broker: b, app: b.Name("app"), input: input, guarantee: guarantee, how: how}
	w.topics = twin.Topics{
		In: kafkatest.CreateTopic(t, b, "in", 2), Rows: kafkatest.CreateTopic(t, b, "rows", 2), Sums: kafkatest.CreateTopic(t, b, "sums", 2),
		Windows: kafkatest.CreateTopic(t, b, "windows", 2), Joined: kafkatest.CreateTopic(t, b, "joined", 2),
	}
	return w
}

// start starts the application of a kind. Its place in the group, and its transaction, are held for a short time when it is gone.
func (w *twins) start(kind string) *child.Process {
	w.t.Helper()
	settings := map[string]string{
		"application.id": w.app, "bootstrap.servers": strings.Join(w.broker.Bootstrap(), ","), "state.dir": filepath.Join(w.t.TempDir(), kind),
		"processing.guarantee": w.guarantee, "commit.interval.ms": "100", "statestore.cache.max.bytes": "0", "auto.offset.reset": "earliest",
		"session.timeout.ms": "3000", "heartbeat.interval.ms": "500", "producer.transaction.timeout.ms": "4000",
	}
	if w.how == "static" {
		settings["group.instance.id"] = "instance-" + kind
	}
	if kind == "millrace" {
		return child.Start(w.t, kind, child.Spec[topics]{Topology: "twin", Topics: topics{Twin: w.topics}, Settings: settings})
	}
	cmd, err := twin.Command(w.t.Context(), w.topics, settings)
	if err != nil {
		w.t.Fatal(err)
	}
	return child.StartCommand(w.t, kind, cmd)
}

// load writes copies of records, since the client fills in where they have got to.
func (w *twins) load(topic string, records ...*kgo.Record) {
	w.t.Helper()
	var copies []*kgo.Record
	for _, r := range records {
		copies = append(copies, &kgo.Record{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp})
	}
	kafkatest.Load(w.t, w.broker, topic, copies...)
}

// awaitCommitted waits until the application has committed n records of a topic that was not written in transactions.
func (w *twins) awaitCommitted(topic string, n int64) {
	w.t.Helper()
	late := time.After(2 * time.Minute)
	for {
		sum := int64(0)
		for _, o := range kafkatest.GroupOffsets(w.t, w.broker, w.app)[topic] {
			sum += o.At
		}
		if sum >= n {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-w.t.Context().Done():
			w.t.Fatalf("%d of %d records of %s are committed", sum, n, topic)
		case <-late:
			w.t.Fatalf("%d of %d records of %s are committed after two minutes", sum, n, topic)
		}
	}
}

// awaitSums waits until n results have come from behind the repartition.
func (w *twins) awaitSums(n int) {
	w.t.Helper()
	kafkatest.ReadUntil(w.t, w.broker, w.topics.Sums, kafkatest.Committed, func(rs []*kgo.Record) bool { return len(rs) >= n })
}

// firstHalf has the first half processed and committed, and then the second half of the table.
func (w *twins) firstHalf() {
	w.t.Helper()
	w.load(w.topics.Rows, w.input.rows[0]...)
	w.awaitCommitted(w.topics.Rows, twinKeys)
	w.load(w.topics.In, w.input.values[0]...)
	w.awaitCommitted(w.topics.In, twinHalf)
	w.load(w.topics.Rows, w.input.rows[1]...)
	w.awaitCommitted(w.topics.Rows, 2*twinKeys)
	w.awaitSums(twinHalf)
}

// interrupt ends the application within the second half and returns the records that were not written by then.
func (w *twins) interrupt(p *child.Process, kill bool) (rest []*kgo.Record) {
	w.t.Helper()
	records := w.input.values[1]
	switch {
	case !kill:
		w.load(w.topics.In, records[:twinHalf/4]...)
		p.Stop()
		return records[twinHalf/4:]
	case w.guarantee == "at_least_once":
		// What is not committed would be processed twice, as it may be.
		repartition := w.app + "-by-owner-repartition"
		sum := int64(0)
		for _, end := range kafkatest.EndOffsets(w.t, w.broker, repartition, kafkatest.Uncommitted) {
			sum += end
		}
		w.awaitCommitted(repartition, sum)
		p.Kill()
		return records
	}
	for chunk := range slices.Chunk(records, 5) {
		w.load(w.topics.In, chunk...)
		records = records[len(chunk):]
		for range 5 {
			if w.killedInside(p) {
				return records
			}
		}
	}
	w.t.Fatal("the application was never found inside a transaction")
	return nil
}

// killedInside kills the application if it is inside a transaction.
func (w *twins) killedInside(p *child.Process) bool {
	w.t.Helper()
	open, err := kafkatest.OpenTransactions(w.t.Context(), w.cluster.Admin(), w.app)
	if err != nil {
		w.t.Logf("the open transactions are not known, and asked for again: %v", err)
	}
	for _, transaction := range open {
		how, err := killInside(w.t.Context(), w.cluster.Admin(), p, transaction.TxnID)
		if err != nil {
			w.t.Fatal(err)
		}
		if how != spared {
			return true // a kill that comes while a transaction ends is one as well
		}
	}
	return false
}

// awaitAll waits until everything is processed.
func (w *twins) awaitAll() {
	w.t.Helper()
	w.awaitCommitted(w.topics.In, 2*twinHalf)
	w.awaitSums(2 * twinHalf)
}

// uninterrupted is what a Java application makes of the input.
func (w *twins) uninterrupted() map[string]map[string][]string {
	w.t.Helper()
	java := w.start("java")
	w.firstHalf()
	w.load(w.topics.In, w.input.values[1]...)
	w.awaitAll()
	java.Stop()
	return w.results()
}

// results are the values of each key of each topic in their order. All records of a key are in one partition.
func (w *twins) results() map[string]map[string][]string {
	w.t.Helper()
	out := make(map[string]map[string][]string)
	for name, topic := range map[string]string{"sums": w.topics.Sums, "windows": w.topics.Windows, "joined": w.topics.Joined} {
		out[name] = make(map[string][]string)
		for _, r := range kafkatest.ReadStable(w.t, w.broker, topic) {
			value := string(r.Value)
			if name != "joined" {
				value = fmt.Sprint(binary.BigEndian.Uint64(r.Value))
			}
			key := fmt.Sprintf("%q in partition %d", r.Key, r.Partition)
			out[name][key] = append(out[name][key], fmt.Sprint(value, "@", r.Timestamp.UnixMilli()))
		}
	}
	return out
}
