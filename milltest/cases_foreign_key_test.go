package milltest_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

var (
	topicA = millrace.NewTopic("A", serde.String, serde.String)
	topicB = millrace.NewTopic("B", serde.String, serde.String)
)

// before is the foreign key of a row of the cases: what stands before the colon, "-" for none.
func before(_, v string) (string, bool) {
	key, _, _ := strings.Cut(v, ":")
	return key, key != "-"
}

func joinedText(l, r string) string              { return "(" + l + "," + r + ")" }
func leftJoinedText(l, r string, ok bool) string { return joinedText(l, orText(r, ok)) }
func foreignTables(b *millrace.Builder) (a, o millrace.Table[string, string]) {
	return millrace.TableFrom(b, topicA, millrace.As("a")), millrace.TableFrom(b, topicB, millrace.As("b"))
}

// foreignJoin joins A with B by the foreign key in front of A's values, and writes to out. The join is named fj.
func foreignJoin(t *testing.T, left bool, opts ...milltest.Option) (*milltest.Driver, func() string) {
	t.Helper()
	b := millrace.NewBuilder()
	foreignJoinOf(b, left, millrace.NodeName("fj")).ToStream().To(outTopic)
	d := milltest.New(t, build(t, b), opts...)
	return d, reader(d, outTopic)
}

func foreignJoinOf(b *millrace.Builder, left bool, opts ...millrace.StepOption) millrace.Table[string, string] {
	l, r := foreignTables(b)
	if left {
		return millrace.LeftJoinForeignKey(l, r, before, leftJoinedText, opts...)
	}
	return millrace.JoinForeignKey(l, r, before, joinedText, opts...)
}

func TestC050_AForeignKeyThatLeadsNowhereAndBack(t *testing.T) {
	inner := steps{
		{"B", "d1=depot1@1", ""},
		{"A", "p1=d1:x@2", "p1=(d1:x,depot1)@2"},
		{"A", "p1=d9:x@3", "p1=~@3"},
		{"A", "p1=d1:y@4", "p1=(d1:y,depot1)@4"},
		{"B", "d9=depot9@5", ""},
		{"A", "p1=d9:z@6", "p1=(d9:z,depot9)@6"},
		{"B", "d9=~@7", "p1=~@7"},
		{"A", "p1=~@8", "p1=~@8"},
		{"B", "d1=depot1b@9", ""},
	}
	left := steps{
		{"B", "d1=depot1@1", ""},
		{"A", "p1=d1:x@2", "p1=(d1:x,depot1)@2"},
		{"A", "p1=d9:x@3", "p1=(d9:x,null)@3"},
		{"A", "p1=d1:y@4", "p1=(d1:y,depot1)@4"},
		{"B", "d9=depot9@5", ""},
		{"A", "p1=d9:z@6", "p1=(d9:z,depot9)@6"},
		{"B", "d9=~@7", "p1=(d9:z,null)@7"},
		{"A", "p1=~@8", "p1=~@8"},
		{"B", "d1=depot1b@9", ""},
	}
	for name, opts := range map[string][]milltest.Option{"memory": nil, "disk": {milltest.OnDisk()}} {
		t.Run(name, func(t *testing.T) {
			d, out := foreignJoin(t, false, opts...)
			inner.run(t, d, out)
			d, out = foreignJoin(t, true, opts...)
			left.run(t, d, out)
		})
	}
}

func TestC051_NullForeignKeys(t *testing.T) {
	d, out := foreignJoin(t, false)
	steps{
		{"A", "p1=-:x@1", ""},
		{"B", "d1=depot1@2", ""},
		{"A", "p1=d1:x@3", "p1=(d1:x,depot1)@3"},
		{"A", "p1=-:y@4", "p1=~@4"},
		{"A", "p1=-:w@5", ""},
		{"A", "p1=~@6", ""},
		{"A", "p2=~@7", ""},
	}.run(t, d, out)
	wantDropped(t, d, "fj-subscription-registration-processor", millrace.DroppedNullForeignKey, 3)

	d, out = foreignJoin(t, true)
	steps{
		{"A", "p1=-:x@1", "p1=(-:x,null)@1"},
		{"B", "d1=depot1@2", ""},
		{"A", "p1=d1:x@3", "p1=(d1:x,depot1)@3"},
		{"A", "p1=-:y@4", "p1=(-:y,null)@4"},
		{"A", "p1=-:w@5", "p1=(-:w,null)@5"},
		{"A", "p1=~@6", "p1=~@6"},
		{"A", "p2=~@7", ""},
	}.run(t, d, out)
	wantDropped(t, d, "fj-subscription-registration-processor", millrace.DroppedNullForeignKey, 0)
}

func TestC054_TheResultHasTheTimeOfTheNewerRow(t *testing.T) {
	d, out := foreignJoin(t, false)
	steps{
		{"B", "d1=one@100", ""},
		{"A", "p1=d1:x@3", "p1=(d1:x,one)@100"},
		{"B", "d1=uno@50", "p1=(d1:x,uno)@50"},
		{"A", "p1=d1:y@70", "p1=(d1:y,uno)@70"},
	}.run(t, d, out)
}

// response is an answer to a left row that had a value.
func response(leftValue, rightValue string) []byte {
	r := codec.SubscriptionResponse{HasHash: true, Hash: codec.Murmur3([]byte(leftValue)), Value: []byte(rightValue)}
	return codec.AppendSubscriptionResponse(nil, &r)
}

func TestC056_AStaleResponseIsDropped(t *testing.T) {
	d, out := foreignJoin(t, false)
	answer := func(value []byte, want string) {
		t.Helper()
		if err := d.PipeRaw("test-fj-subscription-response-topic", 0, []byte("p1"), value, nil, 9*ms); err != nil {
			t.Fatal(err)
		}
		wantText(t, "after a response", out(), want)
	}
	steps{{"A", "p1=d1:x@1", ""}, {"A", "p1=d2:x@2", "p1=~@2"}}.run(t, d, out)
	answer(response("d1:x", "one"), "")
	wantDropped(t, d, "fj-subscription-response-resolver", millrace.DroppedStaleResponse, 1)
	answer(response("d2:x", "two"), "p1=(d2:x,two)@9")
	wantDropped(t, d, "fj-subscription-response-resolver", millrace.DroppedStaleResponse, 1)
	// A row that is again what it was takes the answer to what it was.
	steps{{"A", "p1=d1:x@3", "p1=~@3"}}.run(t, d, out)
	answer(response("d1:x", "one"), "p1=(d1:x,one)@9")
}

// A row that has lost its foreign key is changed or deleted before the answer to that is there: the result goes all the same.
func TestForeignKeyJoin_aRowWithoutForeignKeyChangesBeforeItsAnswer(t *testing.T) {
	for _, record := range []string{"p1=-:z@4", "p1=~@4"} {
		d, out := foreignJoin(t, false)
		steps{{"B", "d1=one@1", ""}, {"A", "p1=d1:x@2", "p1=(d1:x,one)@2"}, {"A", "p1=-:y@3", "p1=~@3"}, {"A", record, ""}}.run(t, d, out)
		for value, want := range map[string]string{"": "p1=~@9", "one": ""} {
			if err := d.PipeRaw("test-fj-subscription-response-topic", 0, []byte("p1"), response("-:y", value), nil, 9*ms); err != nil {
				t.Fatal(err)
			}
			wantText(t, record+", then the answer "+value, out(), want)
		}
		wantDropped(t, d, "fj-subscription-response-resolver", millrace.DroppedStaleResponse, 1)
	}
}

// A row changes while the news that its right row is gone is under way. Where there is no right row the change is not
// answered, so the news must not be dropped; the news of another right row must.
func TestForeignKeyJoin_aRowChangesBeforeItHearsOfADeletion(t *testing.T) {
	const topic = "test-fj-subscription-response-topic"
	d, out := foreignJoin(t, false)
	steps{{"B", "d1=one@1", ""}, {"A", "p1=d1:x@2", "p1=(d1:x,one)@2"}}.run(t, d, out)
	d.ReadRaw(topic)
	steps{{"B", "d1=~@3", "p1=~@3"}, {"A", "p1=d1:y@4", ""}}.run(t, d, out)
	news := d.ReadRaw(topic)
	if len(news) != 1 || len(news[0].Headers) != 1 || string(news[0].Headers[0].Value) != "d1" {
		t.Fatalf("the news of the deletion: %+v", news)
	}
	late := func(headers serde.Headers, want string) {
		t.Helper()
		if err := d.PipeRaw(topic, 0, news[0].Key, news[0].Value, headers, 9*ms); err != nil {
			t.Fatal(err)
		}
		wantText(t, "after the news", out(), want)
	}
	late(news[0].Headers, "p1=~@9")
	late(nil, "") // Java's does not say which row is gone
	steps{{"B", "d2=two@5", ""}, {"A", "p1=d2:z@6", "p1=(d2:z,two)@6"}}.run(t, d, out)
	late(news[0].Headers, "")
	wantDropped(t, d, "fj-subscription-response-resolver", millrace.DroppedStaleResponse, 2)

	// Nobody behind the join sees the header.
	d, _ = foreignJoin(t, false)
	for _, s := range []struct{ topic, key, value string }{{"B", "d1", "one"}, {"A", "p1", "d1:x"}, {"B", "d1", ""}} {
		var value []byte
		if s.value != "" {
			value = []byte(s.value)
		}
		if err := d.PipeRaw(s.topic, 0, []byte(s.key), value, serde.Headers{{Key: "h", Value: []byte("1")}}, ms); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range d.ReadRaw(outTopic.Name()) {
		if len(r.Headers) != 1 || r.Headers[0].Key != "h" {
			t.Errorf("%s has the headers %v", r.Key, r.Headers)
		}
	}
}

// A right row is deleted and the left one changed within one commit interval: their messages cross.
func TestForeignKeyJoin_bothSidesChangeInOneCommitInterval(t *testing.T) {
	d, out := foreignJoin(t, false, milltest.ManualCommit(), milltest.CacheBytes(1<<20))
	steps{{"B", "d1=one@1", ""}, {"A", "p1=d1:x@2", ""}}.run(t, d, out)
	d.Commit()
	d.Commit()
	wantText(t, "at first", out(), "p1=(d1:x,one)@2")
	steps{{"B", "d1=~@3", ""}, {"A", "p1=d1:y@4", ""}}.run(t, d, out)
	d.Commit()
	d.Commit()
	wantText(t, "in the end", out(), "p1=~@3")
}

func hexes(rs []milltest.Raw) string {
	var out []string
	for _, r := range rs {
		value := "~"
		if r.Value != nil {
			value = hex.EncodeToString(r.Value)
		}
		out = append(out, fmt.Sprintf("%x=%s@%d-%d", r.Key, value, r.TimestampMs, r.Partition))
	}
	return strings.Join(out, " ")
}

func TestC129_MessagesAreThoseOfJava(t *testing.T) {
	d, out := foreignJoin(t, false)
	steps{{"A", "p1=d1:x@10", ""}, {"B", "d1=one@20", "p1=(d1:x,one)@20"}}.run(t, d, out)
	const sub = "0103485e7277833407e5d01eec785e73f124703100000000"
	wantText(t, "registration", hexes(d.ReadRaw("test-fj-subscription-registration-topic")), "6431="+sub+"@10-0")
	wantText(t, "store", hexes(d.ReadRaw("test-fj-subscription-store-changelog")), "0000000264317031="+sub+"@10-0")
	wantText(t, "response", hexes(d.ReadRaw("test-fj-subscription-response-topic")), "7031=00485e7277833407e5d01eec785e73f1246f6e65@20-0")
	steps{{"A", "p1=~@30", "p1=~@30"}}.run(t, d, out)
	wantText(t, "registration", hexes(d.ReadRaw("test-fj-subscription-registration-topic")), "6431=8101703100000000@30-0")
	wantText(t, "store", hexes(d.ReadRaw("test-fj-subscription-store-changelog")), "0000000264317031=~@30-0")
	wantText(t, "response", hexes(d.ReadRaw("test-fj-subscription-response-topic")), "7031=80@30-0")
}

// A subscription that a release before 3.2 wrote says nothing of the left row's partition: the key decides.
func TestForeignKeyJoin_anOldSubscriptionIsAnswered(t *testing.T) {
	d, out := foreignJoin(t, false, milltest.Partitions(3))
	l := milltest.Input(d, topicA)
	l.PipeAt("p1", "d1:x", 1*ms)
	row := d.Written("A")[0]
	old := codec.Subscription{Instruction: codec.SubscribeAndAnswerIfFound, HasHash: true, Hash: codec.Murmur3([]byte("d1:x")), PrimaryKey: []byte("p1")}
	d1 := codec.Partition([]byte("d1"), 3)
	if err := d.PipeRaw("test-fj-subscription-registration-topic", d1, []byte("d1"), codec.AppendSubscription(nil, &old), nil, 2*ms); err != nil {
		t.Fatal(err)
	}
	milltest.Input(d, topicB).PipeAt("d1", "one", 3*ms)
	wantText(t, "result", out(), "p1=(d1:x,one)@3")
	answers := d.ReadRaw("test-fj-subscription-response-topic")
	if len(answers) != 1 || answers[0].Partition != row.Partition {
		t.Errorf("answers %v, want one in partition %d", answers, row.Partition)
	}
	log := d.ReadRaw("test-fj-subscription-store-changelog")
	if got := log[len(log)-1].Value; got[0] != 0 {
		t.Errorf("the subscription is stored as %x, want it as it came", got)
	}
}

func TestForeignKeyJoin_fixtureOfTheReference(t *testing.T) {
	d, out := foreignJoin(t, false)
	steps{
		{"A", "l1=f1:a@1", ""},
		{"B", "f1=X@2", "l1=(f1:a,X)@2"},
		{"A", "l1=f1:b@3", "l1=(f1:b,X)@3"},
		{"A", "l1=f2:b@4", "l1=~@4"},
		{"B", "f2=Y@5", "l1=(f2:b,Y)@5"},
		{"B", "f1=X2@6", ""},
		{"A", "l1=~@7", "l1=~@7"},
		{"B", "f2=~@8", ""},
	}.run(t, d, out)
}

func TestC117_AForeignKeyJoinPassesHeadersOn(t *testing.T) {
	b := millrace.NewBuilder()
	foreignJoinOf(b, true, millrace.As("fj"), millrace.WithValue(serde.String)).ToStream().To(outTopic)
	d := milltest.New(t, build(t, b))
	out := milltest.Output(d, outTopic)
	l, r := milltest.Input(d, topicA), milltest.Input(d, topicB)
	want := func(tag string) {
		t.Helper()
		rec, ok := out.Read()
		if !ok || len(rec.Headers) != 1 || string(rec.Headers[0].Value) != tag {
			t.Errorf("result %+v, want the header %s alone", rec, tag)
		}
	}
	tagged := func(k, v, tag string, at int64) processor.Record[string, string] {
		return processor.Record[string, string]{Key: k, Value: v, TimestampMs: at, Headers: serde.Headers{{Key: "tr", Value: []byte(tag)}}}
	}
	l.PipeRecord(tagged("p1", "d1:x", "left", 1))
	want("left")
	r.PipeRecord(tagged("d1", "one", "right", 2))
	want("right")
	r.PipeRecord(tagged("d1", "", "empty", 3)) // a row of no bytes is a row
	want("empty")
	for _, raw := range d.Written("test-fj-changelog") {
		if len(raw.Headers) != 0 {
			t.Errorf("changelog record with headers %v", raw.Headers)
		}
	}
	// Kafka Streams 4.4 logs a subscription with the headers of the left row's update, and so do we.
	for _, raw := range d.Written("test-fj-subscription-store-changelog") {
		if v, _ := raw.Headers.Last("tr"); string(v) != "left" {
			t.Errorf("subscription logged with headers %v", raw.Headers)
		}
	}
}

func TestForeignKeyJoin_aRightRowOfNoBytesIsARow(t *testing.T) {
	for _, left := range []bool{false, true} {
		d, out := foreignJoin(t, left)
		pipe(t, d, "A", "p1=d1:x@1")
		out()
		for i, want := range []string{"p1=(d1:x,)@2", "p1=(d1:y,)@3"} {
			topic, record := "B", "d1=@2"
			if i == 1 {
				topic, record = "A", "p1=d1:y@3"
			}
			pipe(t, d, topic, record)
			wantText(t, record, out(), want)
		}
	}
}

// keyOf is a type of foreign keys of which one does not encode.
var errNoKey = errors.New("no such key")

var pickyKeys = serde.Func(
	func(dst []byte, k string) ([]byte, error) {
		if strings.HasPrefix(k, "bad") {
			return nil, errNoKey
		}
		return append(dst, k...), nil
	},
	func(src []byte) (string, error) { return string(src), nil },
)

func pickyJoin(b *millrace.Builder) {
	l := millrace.TableFrom(b, topicA, millrace.As("a"))
	r := millrace.TableFrom(b, millrace.NewTopic("B", pickyKeys, serde.String), millrace.As("b"))
	millrace.JoinForeignKey(l, r, before, joinedText, millrace.NodeName("fj")).ToStream().To(outTopic)
}

func TestForeignKeyJoin_aForeignKeyThatDoesNotEncode(t *testing.T) {
	b := millrace.NewBuilder()
	pickyJoin(b)
	d := milltest.New(t, build(t, b))
	pipe(t, d, "A", "p1=d1:x@1")
	err := tryPipe(d, "A", "p2=bad:x@2")
	if !errors.Is(err, errNoKey) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"fj-subscription-registration-processor", "p2", "A-0@1", "foreign key bad"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %s", err, want)
		}
	}

	b = millrace.NewBuilder()
	pickyJoin(b)
	d = milltest.New(t, build(t, b), milltest.OnProcessingError(func(processor.Failure) processor.Response {
		return processor.Response{Action: processor.Continue}
	}))
	out := reader(d, outTopic)
	steps{
		{"B", "d1=one@1", ""},
		{"A", "p1=bad:x@2", ""},
		{"A", "p2=d1:x@3", "p2=(d1:x,one)@3"},
	}.run(t, d, out)
	wantDropped(t, d, "fj-subscription-registration-processor", millrace.DroppedProcessing, 1)
}

func TestTryForeignKeyJoin_failures(t *testing.T) {
	errFK, errJoin := errors.New("no key"), errors.New("no join")
	b := millrace.NewBuilder()
	l, r := foreignTables(b)
	tries := 0
	millrace.TryLeftJoinForeignKey(l, r, func(ctx context.Context, k, v string) (string, bool, error) {
		if ctx.Err() != nil || k == "bad" {
			return "", false, errFK
		}
		key, ok := before(k, v)
		return key, ok, nil
	}, func(_ context.Context, a, o string, ok bool) (string, error) {
		switch o {
		case "bad":
			return "", errJoin
		case "panic":
			panic("no such row")
		case "retry":
			if tries++; tries < 3 {
				return "", errJoin
			}
		}
		return leftJoinedText(a, o, ok), nil
	}, millrace.NodeName("fj")).ToStream().To(outTopic)
	d := milltest.New(t, build(t, b), milltest.OnProcessingError(func(f processor.Failure) processor.Response {
		if tries > 0 && tries < 3 {
			return processor.Response{Action: processor.Retry}
		}
		return processor.Response{Action: processor.Continue}
	}))
	out := reader(d, outTopic)
	steps{
		{"A", "bad=d1:x@1", ""},
		{"A", "p1=d1:x@2", "p1=(d1:x,null)@2"},
		{"B", "d1=bad@3", ""},
		{"B", "d1=panic@4", ""},
		{"B", "d1=retry@5", "p1=(d1:x,retry)@5"},
	}.run(t, d, out)
	wantDropped(t, d, "fj-subscription-registration-processor", millrace.DroppedProcessing, 1)
	wantDropped(t, d, "fj-subscription-response-resolver", millrace.DroppedProcessing, 2)
}

func TestForeignKeyJoin_partitioners(t *testing.T) {
	last := func(k string, n int32) int32 { return int32(k[len(k)-1]-'0') % n }
	b := millrace.NewBuilder()
	l, r := foreignTables(b)
	millrace.LeftJoinForeignKey(l, r, before, leftJoinedText, millrace.As("fj"), millrace.WithValue(serde.String),
		millrace.PartitionLeftBy(last), millrace.PartitionRightBy(func(k string, n int32) int32 {
			if k == "out9" {
				return n
			}
			return last(k, n)
		})).ToStream().To(outTopic)
	d := milltest.New(t, build(t, b), milltest.TopicPartitions("A", 3), milltest.TopicPartitions("B", 4),
		milltest.OnProcessingError(func(processor.Failure) processor.Response {
			return processor.Response{Action: processor.Continue}
		}))
	out := reader(d, outTopic)
	put := func(topic string, partition int32, k, v string, want string) {
		t.Helper()
		if err := d.PipeRaw(topic, partition, []byte(k), []byte(v), nil, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		wantText(t, k+"="+v, out(), want)
	}
	put("A", 2, "p2", "d3:x", "p2=(d3:x,null)@1")
	put("B", 3, "d3", "three", "p2=(d3:x,three)@1")
	put("A", 1, "p1", "d3:y", "p1=(d3:y,three)@1")
	put("A", 1, "p4", "-:y", "p4=(-:y,null)@1")
	put("A", 0, "p0", "out9:y", "")
	wantDropped(t, d, "fj-subscription-registration-sink", millrace.DroppedProcessing, 1)
	for topic, want := range map[string]int{"registration": 4, "response": 3} {
		if got := d.Written("test-fj-subscription-" + topic + "-topic"); len(got) == 0 {
			t.Errorf("nothing in the %s topic", topic)
		} else {
			for _, raw := range got {
				if raw.Partition >= int32(want) {
					t.Errorf("%s in partition %d of %d", topic, raw.Partition, want)
				}
			}
		}
	}
}
