package integration_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// onlyTrace is a serde that removes the header "ref" when it decodes, and then fails.
type onlyTrace struct{ serde.Serde[string] }

var errNoTrace = errors.New("there is no trace in it")

func (onlyTrace) DecodeWithHeaders(_ []byte, h *serde.Headers) (string, error) {
	*h = h.Without("ref")
	return "", errNoTrace
}

// A dead letter has the original bytes and headers, whatever the decoding has done to them.
func TestC116_DeadLettersCarryTheOriginal(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("c116")
		in, out := kafkatest.CreateTopic(t, b, "in", 1), kafkatest.CreateTopic(t, b, "out", 1)
		dead := kafkatest.CreateTopic(t, b, "dead", 1)
		bld := millrace.NewBuilder()
		millrace.From(bld, millrace.NewTopic(in, serde.String, serde.Serde[string](onlyTrace{serde.String})), millrace.NodeName("source")).To(texts(out))
		bad := &kgo.Record{Key: []byte("k"), Value: []byte{1, 2}, Timestamp: at("", "", 7).Timestamp, Headers: headers("ref", "7", "tr", "9")}
		kafkatest.Load(t, b, in, bad)
		r := start(t, b, app, buildTopology(t, bld), millrace.OnDeserializationError(millrace.DeadLetters(dead)))
		r.untilDone()
		r.stop()
		got := kafkatest.ReadAll(t, b, dead, kafkatest.Committed)
		if len(got) != 1 {
			t.Fatalf("%d dead letters, want 1", len(got))
		}
		equal(t, "dead letter", shownBytes([]*kgo.Record{{Key: got[0].Key, Value: got[0].Value, Timestamp: got[0].Timestamp, Headers: got[0].Headers[:2]}}),
			"6b=0102@7[ref=7,tr=9]")
		added := make(map[string]string)
		for _, h := range got[0].Headers[2:] {
			added[strings.TrimPrefix(h.Key, "__streams.errors.")] = string(h.Value)
		}
		for name, want := range map[string]string{"topic": in, "partition": "0", "offset": "0"} {
			equal(t, "header "+name, added[name], want)
		}
		if !strings.Contains(added["message"], errNoTrace.Error()) {
			t.Errorf("the message is %q", added["message"])
		}
		equal(t, "drops", drops(r), "source dead-letter 1, source deserialization 1")
	})
}

// Headers stay with a record through stateless steps and a repartition topic.
func TestC117a_HeadersThroughARepartition(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("c117a")
		in, out := kafkatest.CreateTopic(t, b, "in", 2), kafkatest.CreateTopic(t, b, "out", 1)
		bld := millrace.NewBuilder()
		kept := millrace.From(bld, texts(in)).Filter(func(_, v string) bool { return v != "drop" })
		keyed := millrace.SelectKey(millrace.MapValues(kept, strings.ToUpper), func(_, v string) string { return v + v })
		keyed.Repartition(millrace.As("moved"), millrace.Partitions(3), millrace.WithKey(serde.String), millrace.WithValue(serde.String)).To(texts(out))
		rec := at("k", "a", 1)
		rec.Headers = headers("tr", "77", "lang", "de")
		kafkatest.Load(t, b, in, rec)
		r := start(t, b, app, buildTopology(t, bld))
		got := readN(t, b, out, 1)
		r.untilDone()
		r.stop()
		equal(t, "out", shown(got)+" "+shownHeaders(got[0]), "AA=A tr=77,lang=de")
		moved := kafkatest.ReadAll(t, b, app+"-moved-repartition", kafkatest.Uncommitted)
		for _, m := range moved { // unless they are purged already
			equal(t, "repartition topic", shownHeaders(m), "tr=77,lang=de")
		}
	})
}

// The result of an aggregation has the headers of the record that led to it, its changelog none.
func TestC117b_HeadersOfACount(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("c117b")
		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 1), Out: kafkatest.CreateTopic(t, b, "out", 1)}
		first, second, third := at("k", "a", 1), at("k", "b", 2), at("k", "c", 3)
		first.Headers, third.Headers = headers("tr", "1"), headers("tr", "3")
		kafkatest.Load(t, b, topics.In, first, second, third)
		r := startKind(t, b, app, "count", topics, millrace.CacheBytes(0))
		r.untilDone()
		r.stop()
		var got []string
		for _, rec := range kafkatest.ReadAll(t, b, topics.Out, kafkatest.Committed) {
			got = append(got, "["+shownHeaders(rec)+"]")
		}
		equal(t, "counts", strings.Join(got, " "), "[tr=1] [] [tr=3]")
		for _, rec := range kafkatest.ReadAll(t, b, app+"-counts-changelog", kafkatest.Committed) {
			equal(t, "changelog", shownHeaders(rec), "")
		}
	})
}

// The result of a join of a stream with a table has the headers of the stream's record.
func TestC117d_HeadersOfAJoin(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("c117d")
		stream, table, out := kafkatest.CreateTopic(t, b, "s", 1), kafkatest.CreateTopic(t, b, "t", 1), kafkatest.CreateTopic(t, b, "out", 1)
		bld := millrace.NewBuilder()
		tab := millrace.TableFrom(bld, texts(table), millrace.As("table"))
		millrace.JoinTable(millrace.From(bld, texts(stream)), tab, func(s, r string) string { return s + "," + r }).To(texts(out))
		row, rec := at("k", "t", 1), at("k", "s", 2)
		row.Headers, rec.Headers = headers("h", "tab"), headers("h", "str")
		kafkatest.Load(t, b, table, row)
		kafkatest.Load(t, b, stream, rec)
		r := start(t, b, app, buildTopology(t, bld))
		got := readN(t, b, out, 1)
		r.stop()
		equal(t, "joined", shown(got)+" "+shownHeaders(got[0]), "k=s,t h=str")
	})
}
