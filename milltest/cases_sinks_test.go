package milltest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// headed pipes a record of text with headers, given as "name=value,…".
func headed(t *testing.T, d *milltest.Driver, topic, record, headers string) {
	t.Helper()
	key, rest, _ := strings.Cut(record, "=")
	value, at, _ := strings.Cut(rest, "@")
	var ms int64
	fmt.Sscan(at, &ms)
	var hs serde.Headers
	for _, h := range strings.FieldsFunc(headers, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(h, "=")
		hs = append(hs, serde.Header{Key: name, Value: []byte(value)})
	}
	if err := d.PipeRaw(topic, 0, orNull(key), orNull(value), hs, time.Duration(ms)*time.Millisecond); err != nil {
		t.Fatal(err)
	}
}

// withHeaders reads what has come out of a topic as "key=value@ts[headers]".
func withHeaders(d *milltest.Driver, topic string) string {
	var out []string
	for _, r := range d.ReadRaw(topic) {
		var hs []string
		for _, h := range r.Headers {
			hs = append(hs, fmt.Sprintf("%s=%s", h.Key, h.Value))
		}
		out = append(out, fmt.Sprintf("%s=%s@%d[%s]", r.Key, orTildeBytes(r.Value), r.TimestampMs, strings.Join(hs, ",")))
	}
	return strings.Join(out, " ")
}

func orTildeBytes(b []byte) string {
	if b == nil {
		return "~"
	}
	return string(b)
}

// A result of tables carries the headers of the record that led to it, through groups too.
func TestC117_tables(t *testing.T) {
	b := millrace.NewBuilder()
	joined := pairTables.join(textTable(b, "A"), textTable(b, "B"), millrace.As("join"), textValue)
	joined.ToStream().To(millrace.NewTopic("joined", serde.String, serde.String))
	history(groupTexts(joined, func(k, v string) (string, string) { return v[1:2], k }), millrace.As("history")).ToStream().To(outTopic)
	d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
	headed(t, d, "A", "k=a@1", "h=1")
	headed(t, d, "B", "k=b@2", "h=2")
	headed(t, d, "A", "k=c@3", "h=3")
	headed(t, d, "B", "k=~@4", "h=4")
	wantText(t, "joined", withHeaders(d, "joined"), "k=(a,b)@2[h=2] k=(c,b)@3[h=3] k=~@4[h=4]")
	wantText(t, "groups", withHeaders(d, "out"), "a=+k@2[h=2] a=+k-k@3[h=3] c=+k@3[h=3] c=+k-k@4[h=4]")
}

func TestPartitionBy(t *testing.T) {
	b := millrace.NewBuilder()
	choose := func(topic string, r processor.Record[string, string], partitions int) (int, error) {
		switch {
		case r.Value == "bad":
			return 0, errors.New("no partition for it")
		case r.Value == "by key":
			return -1, nil
		case r.Value == "outside":
			return partitions, nil
		}
		return len(r.Value) % partitions, nil
	}
	s := millrace.From(b, strTopic)
	s.To(outTopic, millrace.PartitionBy(choose), millrace.As("sink"))
	s.Repartition(millrace.As("again"), millrace.Partitions(3), millrace.PartitionBy(choose)).To(millrace.NewTopic("again", serde.String, serde.String))
	d := milltest.New(t, build(t, b), milltest.TopicPartitions("out", 4), milltest.OnProcessingError(millrace.LogAndContinue()))
	for i, v := range []string{"a", "bb", "ccc", "dddd", "by key", "bad", "outside"} {
		pipe(t, d, "in", fmt.Sprintf("k%d=%s@%d", i, v, i))
	}
	read := func(topic string) string {
		var got []string
		for _, r := range d.ReadRaw(topic) {
			got = append(got, fmt.Sprintf("%s:%d", r.Value, r.Partition))
		}
		return strings.Join(got, " ")
	}
	byKey := func(n int) string { return fmt.Sprintf("by key:%d", partitionOf("k4", n)) }
	wantText(t, "out", read("out"), "a:1 bb:2 ccc:3 dddd:0 "+byKey(4))
	wantText(t, "repartition topic", read("test-again-repartition"), "a:1 bb:2 ccc:0 dddd:1 "+byKey(3))
	wantDropped(t, d, "sink", millrace.DroppedProcessing, 2)

	for name, opt := range map[string]millrace.StepOption{
		"other types": millrace.PartitionBy(func(string, processor.Record[int64, string], int) (int, error) { return 0, nil }),
		"a nil":       millrace.PartitionBy[string, string](nil),
	} {
		b := millrace.NewBuilder()
		millrace.From(b, strTopic).To(outTopic, opt)
		if _, err := b.Build(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// partitionOf is the partition of a key by Java's hash.
func partitionOf(key string, partitions int) int {
	d, err := milltest.NewDriver(passThrough(), milltest.TopicPartitions("out", partitions))
	if err != nil {
		return -1
	}
	defer d.Close()
	if err := d.PipeRaw("in", 0, []byte(key), []byte("v"), nil, 0); err != nil {
		return -1
	}
	return int(d.ReadRaw("out")[0].Partition)
}

func passThrough() *millrace.Topology {
	b := millrace.NewBuilder()
	millrace.From(b, strTopic).To(outTopic)
	t, err := b.Build()
	if err != nil {
		return nil
	}
	return t
}

// The choice sees the whole record, and where it came from.
func TestTryToChosen(t *testing.T) {
	b := millrace.NewBuilder()
	millrace.From(b, strTopic).TryToChosen(func(r processor.Record[string, string], m processor.Metadata) (string, error) {
		if r.NullValue {
			return "", errors.New("no topic for a null")
		}
		return fmt.Sprintf("%s-%d-%s-%d", r.Headers[0].Value, r.TimestampMs, m.Topic, m.Offset), nil
	}, serde.String, serde.String, millrace.As("sink"))
	d := milltest.New(t, build(t, b), milltest.OnProcessingError(millrace.LogAndContinue()))
	headed(t, d, "in", "k=a@7", "to=x")
	headed(t, d, "in", "k=~@8", "to=x")
	headed(t, d, "in", "k=b@9", "to=y")
	wantText(t, "x", withHeaders(d, "x-7-in-0"), "k=a@7[to=x]")
	wantText(t, "y", withHeaders(d, "y-9-in-2"), "k=b@9[to=y]")
	wantDropped(t, d, "sink", millrace.DroppedProcessing, 1)
}

func TestTryBranch(t *testing.T) {
	b := millrace.NewBuilder()
	split := millrace.From(b, strTopic).Split(millrace.As("split"))
	split.TryBranch(func(ctx context.Context, _, v string) (bool, error) {
		if v == "bad" {
			return false, errors.New("cannot tell")
		}
		return v < "m", ctx.Err()
	}).To(outTopic)
	split.Default().To(millrace.NewTopic("rest", serde.String, serde.String))
	d := milltest.New(t, build(t, b), milltest.OnProcessingError(millrace.LogAndContinue()))
	for _, r := range []string{"k=a@1", "k=z@2", "k=bad@3"} {
		pipe(t, d, "in", r)
	}
	wantText(t, "branch", withHeaders(d, "out"), "k=a@1[]")
	wantText(t, "rest", withHeaders(d, "rest"), "k=z@2[]")
	wantDropped(t, d, "split", millrace.DroppedProcessing, 1)
}

// beats notes when an anchored timer was called.
type beats struct {
	start, interval int64
	kind            processor.TimeKind
	late            bool // set the timer at the first record from 9 on, not at the beginning
	ctx             processor.Context[string, string]
	log             *[]string
}

func (p *beats) set() error {
	_, err := p.ctx.ScheduleAt(time.UnixMilli(p.start), time.Duration(p.interval)*ms, p.kind, func(now time.Time) error {
		*p.log = append(*p.log, fmt.Sprint("fire@", now.UnixMilli()))
		return nil
	})
	return err
}

func (p *beats) Init(ctx processor.Context[string, string]) error {
	p.ctx = ctx
	if p.late {
		return nil
	}
	return p.set()
}

func (p *beats) Process(r processor.Record[string, string]) error {
	*p.log = append(*p.log, fmt.Sprint("r", r.TimestampMs))
	if p.late && r.TimestampMs >= 9 {
		p.late = false
		return p.set()
	}
	return nil
}

func (p *beats) Close() error { return nil }

// The beats of Kafka Streams 4.4.0.
func TestScheduleAt(t *testing.T) {
	run := func(t *testing.T, start, interval int64, kind processor.TimeKind, late bool, wall int64, times []int64) string {
		var log []string
		b := millrace.NewBuilder()
		millrace.Process[string, string, string, string](millrace.From(b, strTopic), func() *beats {
			return &beats{start: start, interval: interval, kind: kind, late: late, log: &log}
		})
		d := milltest.New(t, build(t, b), milltest.StartAt(time.UnixMilli(wall)))
		for _, at := range times {
			if kind == processor.StreamTime {
				pipe(t, d, "in", fmt.Sprintf("k=v@%d", at))
			} else {
				log = append(log, fmt.Sprint("+", at))
				d.JumpTime(time.Duration(at) * ms)
			}
		}
		return strings.Join(log, " ")
	}
	stream := []int64{0, 3, 7, 9, 10, 11, 25, 26, 30, 31}
	wall := []int64{1, 2, 3, 4, 5, 6, 20, 1, 1}
	for _, c := range []struct {
		start, interval int64
		kind            processor.TimeKind
		wall            int64
		want            string
	}{
		{7, 10, processor.StreamTime, 0, "r0 r3 r7 fire@7 r9 r10 r11 r25 fire@25 r26 r30 fire@30 r31"},
		{0, 10, processor.StreamTime, 0, "r0 fire@0 r3 r7 r9 r10 fire@10 r11 r25 fire@25 r26 r30 fire@30 r31"},
		{27, 10, processor.StreamTime, 0, "r0 r3 r7 r9 r10 r11 r25 r26 r30 fire@30 r31"},
		{7, 10, processor.WallClock, 0, "+1 +2 +3 +4 fire@10 +5 +6 fire@21 +20 fire@41 +1 +1"},
		{7, 10, processor.WallClock, 7, "+1 fire@8 +2 +3 +4 fire@17 +5 +6 fire@28 +20 fire@48 +1 +1"},
		{7, 10, processor.WallClock, 17, "+1 +2 +3 +4 fire@27 +5 +6 fire@38 +20 fire@58 +1 +1"},
		{7, 10, processor.WallClock, 20, "+1 +2 +3 +4 fire@30 +5 +6 fire@41 +20 fire@61 +1 +1"},
		{1000, 10, processor.WallClock, 20, "+1 +2 +3 +4 +5 +6 +20 +1 +1"},
	} {
		times := stream
		if c.kind == processor.WallClock {
			times = wall
		}
		wantText(t, fmt.Sprintf("%+v", c), run(t, c.start, c.interval, c.kind, false, c.wall, times), c.want)
	}
	wantText(t, "set on the way, start past", run(t, 2, 10, processor.StreamTime, true, 0, stream), "r0 r3 r7 r9 r10 r11 r25 fire@25 r26 r30 r31")
}
