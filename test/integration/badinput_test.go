package integration_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

// A record without a key does not stop a step that needs one. Each step counts what it skips, and the others get the record.
func TestBadInput_nullKeys(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("nullkeys")
		in, rows, out := kafkatest.CreateTopic(t, b, "in", 1), kafkatest.CreateTopic(t, b, "rows", 1), kafkatest.CreateTopic(t, b, "out", 1)
		bld := millrace.NewBuilder()
		src := millrace.From(bld, texts(in))
		millrace.Count(src.GroupByKey(), millrace.As("counted"))
		millrace.CountWindows(src.GroupByKey().WindowBy(window.Tumbling(time.Second).Grace(time.Hour)), millrace.As("windowed"))
		src.ToTable(millrace.As("totable"))
		table := millrace.TableFrom(bld, texts(rows), millrace.As("rows"))
		join := func(v, r string) string { return v + "," + r }
		millrace.JoinTable(src, table, join, millrace.NodeName("inner")).To(texts(out), millrace.NodeName("inner-out"))
		left := func(v, _ string, _ bool) string { return v + ",left" }
		millrace.LeftJoinTable(src, table, left, millrace.NodeName("left")).To(texts(out), millrace.NodeName("left-out"))
		kafkatest.Load(t, b, rows, at("k", "row", 1), &kgo.Record{Value: []byte("x"), Timestamp: time.UnixMilli(2)})
		kafkatest.Load(t, b, in, &kgo.Record{Value: []byte("none"), Timestamp: time.UnixMilli(10)}, at("k", "one", 11))
		r := start(t, b, app, buildTopology(t, bld))
		r.untilDone()
		r.stop()
		equal(t, "out", shown(kafkatest.ReadAll(t, b, out, kafkatest.Committed)), "~=none,left k=one,row k=one,left")
		equal(t, "drops", drops(r), "counted null-key 1, inner null-key 1, rows null-key 1, totable null-key 1, windowed null-key 1")
	})
}

// A record whose timestamp is negative, and which no extractor gives another one, ends the application or is skipped, as the
// handler says.
func TestBadInput_negativeTimestamp(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		in, out := kafkatest.CreateTopic(t, b, "in", 1), kafkatest.CreateTopic(t, b, "out", 1)
		kafkatest.Load(t, b, in, at("k", "good", 5), at("k", "bad", -1), at("k", "good too", 6))
		topology := func() *millrace.Topology {
			bld := millrace.NewBuilder()
			millrace.From(bld, texts(in), millrace.NodeName("source")).To(texts(out))
			return buildTopology(t, bld)
		}
		err := start(t, b, b.Name("fail"), topology()).fails()
		var at *millrace.RecordError
		if !errors.As(err, &at) || at.Stage != processor.Deserializing || at.Origin != (processor.Metadata{Topic: in, Offset: 1}) {
			t.Errorf("the error is %v", err)
		}
		says(t, err, in+"-0@1", "step source", "negative timestamp", "use a timestamp extractor", "the deserialization error handler decides")

		app := b.Name("continue")
		r := start(t, b, app, topology(), millrace.OnDeserializationError(millrace.LogAndContinue()))
		r.untilDone()
		r.stop()
		equal(t, "drops", drops(r), "source deserialization 1")
		if !r.logged("WARN", "topic="+in, "offset=1", "negative timestamp") {
			t.Error("the log does not name the record that was skipped")
		}
		got := shown(kafkatest.ReadAll(t, b, out, kafkatest.Committed))
		if !strings.HasSuffix(got, "k=good k=good too") || strings.Contains(got, "bad") {
			t.Errorf("out holds %s", got)
		}
		if o := kafkatest.GroupOffsets(t, b, app)[in][0]; o.At != 3 {
			t.Errorf("the committed offset is %d, want 3", o.At)
		}
	})
}

// Source topics that do not exist are named, all of them, with the place in the program; once they exist, all is well.
func TestBadInput_missingSourceTopics(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, b kafkatest.Broker, p millrace.GroupProtocolKind) {
		here, gone, away := kafkatest.CreateTopic(t, b, "here", 1), b.Name("gone"), b.Name("away")
		out := kafkatest.CreateTopic(t, b, "out", 1)
		topology := func() *millrace.Topology {
			bld := millrace.NewBuilder()
			millrace.From(bld, texts(here)).To(texts(out))
			millrace.From(bld, texts(gone)).To(texts(out))
			millrace.GlobalTableFrom(bld, texts(away), millrace.As("global"))
			return buildTopology(t, bld)
		}
		err := start(t, b, b.Name("missing"), topology(), millrace.GroupProtocol(p)).fails()
		var missing *millrace.MissingTopicsError
		if !errors.As(err, &missing) || len(missing.Topics) != 2 {
			t.Errorf("the error is %v", err)
		}
		says(t, err, gone, away, "badinput_test.go:", "create")
		if strings.Contains(err.Error(), here) {
			t.Errorf("the error names a topic that exists: %v", err)
		}
		kafkatest.CreateTopicNamed(t, b, gone, 1)
		kafkatest.CreateTopicNamed(t, b, away, 1)
		r := start(t, b, b.Name("missing"), topology(), millrace.GroupProtocol(p))
		r.untilRunning()
		r.stop()
	})
}

// A changelog with another number of partitions than there are tasks would lose or mix up state.
func TestBadInput_changelogWithOtherPartitions(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("changelog")
		topics := childTopics{In: kafkatest.CreateTopic(t, b, "in", 3), Out: kafkatest.CreateTopic(t, b, "out", 1)}
		kafkatest.CreateTopicNamed(t, b, app+"-counts-changelog", 2)
		err := startKind(t, b, app, "count", topics).fails()
		says(t, err, app+"-counts-changelog", "2 partitions", "needs 3", `the store "counts"`, "reset the application")
	})
}

// A repartition topic that exists keeps its number of partitions, with a warning, where nothing but the input speaks for
// another one; in a join it has to have those of the other side.
func TestBadInput_repartitionTopicWithOtherPartitions(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		in, rows := kafkatest.CreateTopic(t, b, "in", 3), kafkatest.CreateTopic(t, b, "rows", 3)
		out := kafkatest.CreateTopic(t, b, "out", 1)
		keyed := func(bld *millrace.Builder) millrace.Stream[string, string] {
			return millrace.SelectKey(millrace.From(bld, texts(in)), func(_, v string) string { return v })
		}
		kafkatest.Load(t, b, in, at("1", "a", 1), at("2", "b", 2), at("3", "a", 3))

		app := b.Name("kept")
		kafkatest.CreateTopicNamed(t, b, app+"-counts-repartition", 2)
		bld := millrace.NewBuilder()
		millrace.Count(keyed(bld).GroupByKey(millrace.WithKey(serde.String)), millrace.As("counts"), millrace.WithoutCache()).ToStream().To(numbers(out))
		r := start(t, b, app, buildTopology(t, bld))
		readN(t, b, out, 3)
		r.untilDone()
		r.stop()
		if !r.logged("WARN", app+"-counts-repartition", "2 partitions", "would get 3") {
			t.Error("the log does not warn of the repartition topic")
		}
		if got := highest(t, kafkatest.ReadAll(t, b, out, kafkatest.Committed)); got["a"] != 2 || got["b"] != 1 {
			t.Errorf("counts are %v", got)
		}

		app = b.Name("joined")
		kafkatest.CreateTopicNamed(t, b, app+"-moved-repartition", 2)
		bld = millrace.NewBuilder()
		table := millrace.TableFrom(bld, texts(rows), millrace.As("rows"))
		millrace.JoinTable(keyed(bld), table, func(v, r string) string { return v + r }, millrace.As("moved"), millrace.WithKey(serde.String)).To(texts(out))
		says(t, start(t, b, app, buildTopology(t, bld)).fails(), app+"-moved-repartition", "2 partitions", "needs 3", "reset the application")
	})
}

// Settings that cannot be are refused before anything is started, all of them in one error.
func TestBadInput_settings(t *testing.T) {
	bld := millrace.NewBuilder()
	copyTopology(bld, childTopics{In: "in", Out: "out"})
	topology := buildTopology(t, bld)
	refused := func(opts ...millrace.AppOption) error {
		t.Helper()
		_, err := millrace.NewApp(topology, opts...)
		return err
	}
	both := []millrace.AppOption{millrace.ApplicationID("app"), millrace.Brokers("127.0.0.1:9092")}
	properties := func(p map[string]string) error { return refused(append(both, millrace.FromProperties(p))...) }

	says(t, refused(), "application.id", "must be set", "bootstrap.servers", "host:port")
	err := properties(map[string]string{"comit.interval.ms": "1", "consumer.fetch.max.byte": "2"})
	says(t, err, "comit.interval.ms", "the nearest known setting is commit.interval.ms", "consumer.fetch.max.byte", "consumer.fetch.max.bytes")
	var setting *millrace.SettingError
	if !errors.As(err, &setting) || setting.Name == "" {
		t.Errorf("the error is no SettingError: %#v", err)
	}
	says(t, properties(map[string]string{"commit.interval.ms": "soon"}), "commit.interval.ms", "soon", "milliseconds")
	says(t, properties(map[string]string{"processing.guarantee": "exactly_once"}), "processing.guarantee", "exactly_once_v2", "at_least_once")
	says(t, properties(map[string]string{"processing.guarantee": "exactly_once_v2", "commit.interval.ms": "10001"}),
		"transaction.timeout.ms", "commit.interval.ms", "10001")
	says(t, properties(map[string]string{"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}), "sasl.mechanism", "GSSAPI", "SCRAM-SHA-512")
	says(t, properties(map[string]string{"bootstrap.servers": "localhost"}), "bootstrap.servers", "localhost", "host:port")
	says(t, refused(append(both, millrace.ApplicationID("no blanks"))...), "application.id", "no blanks", "letters, digits")
	says(t, refused(append(both, millrace.FromProperties(map[string]string{"heartbeat.interval.ms": "9000", "session.timeout.ms": "6000"}))...),
		"heartbeat.interval.ms", "below session.timeout.ms")

	app, err := millrace.NewApp(topology, append(both, millrace.FromProperties(map[string]string{
		"security.protocol": "SSL", "ssl.truststore.location": "/no/such/ca.pem"}))...)
	if err == nil {
		err = app.Run(t.Context())
	}
	says(t, err, "ssl.truststore.location", "/no/such/ca.pem", "cannot be read")
}
