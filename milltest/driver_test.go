package milltest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

func TestDriver_refusesTopicsThatNobodyReads(t *testing.T) {
	b := millrace.NewBuilder()
	millrace.From(b, strTopic).To(outTopic)
	millrace.GlobalTableFrom(b, topicNamed("g"), millrace.As("g"))
	d := milltest.New(t, build(t, b), milltest.Partitions(2))
	for _, c := range []struct {
		topic     string
		partition int32
		want      string // a part of the error; empty: accepted
	}{
		{"in", 1, ""}, {"g", 0, ""}, {"inn", 0, "does not read the topic inn; it reads in, g"}, {"out", 0, "does not read"},
		{"in", 2, "no partition 2"}, {"in", -1, "no partition -1"},
	} {
		err := d.PipeRaw(c.topic, c.partition, []byte("k"), []byte("v"), nil, 0)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s-%d: %v, want %q", c.topic, c.partition, err, c.want)
		}
	}
}

// A topic that a pattern matches comes into being while the topology runs.
func TestDriver_patterns(t *testing.T) {
	pattern := millrace.NewTopicPattern("orders-[a-z]+", serde.String, serde.String)
	b := millrace.NewBuilder()
	millrace.Count(millrace.From(b, pattern).GroupByKey(), millrace.As("c")).ToStream().To(countTopic)
	d := milltest.New(t, build(t, b))
	out := reader(d, countTopic)
	milltest.InputNamed(d, "orders-dk", pattern).PipeAt("k", "x", 1*ms)
	wantText(t, "first topic", out(), "k=1@1")
	milltest.InputNamed(d, "orders-de", pattern).PipeAt("k", "x", 2*ms)
	wantText(t, "second topic", out(), "k=2@2")
	if err := d.PipeRaw("orders-1", 0, []byte("k"), []byte("v"), nil, 0); err == nil {
		t.Error("a topic that does not match was taken")
	}
}

// Records of one key meet in one task, whatever the number of partitions, and joined topics are partitioned alike.
func TestDriver_partitions(t *testing.T) {
	s, rows := topicNamed("s"), topicNamed("rows")
	b := millrace.NewBuilder()
	table := millrace.TableFrom(b, rows, millrace.As("rows"))
	millrace.JoinTable(millrace.From(b, s), table, func(v, row string) string { return v + row }).To(outTopic)
	d := milltest.New(t, build(t, b), milltest.Partitions(5))
	in, row := milltest.Input(d, s), milltest.Input(d, rows)
	for i := range 20 {
		row.PipeAt(fmt.Sprint("k", i), "r", 0)
		in.PipeAt(fmt.Sprint("k", i), "s", 1*ms)
	}
	partitions := make(map[int32]bool)
	for _, r := range d.Written("out") {
		partitions[r.Partition] = true
	}
	if n := len(d.Written("out")); n != 20 || len(partitions) < 3 {
		t.Errorf("%d records came out in %d partitions", n, len(partitions))
	}

	// Topics that are joined must have the same number of partitions.
	b = millrace.NewBuilder()
	table = millrace.TableFrom(b, rows, millrace.As("rows"))
	millrace.JoinTable(millrace.From(b, s), table, func(v, row string) string { return v + row }).To(outTopic)
	_, err := milltest.NewDriver(build(t, b), milltest.Partitions(5), milltest.TopicPartitions("rows", 3))
	if err == nil || !strings.Contains(err.Error(), "rows") || !strings.Contains(err.Error(), "5") {
		t.Errorf("a join of 5 and 3 partitions gave %v", err)
	}
}

// With an idle time the driver waits for records that may be older, until its clock has passed it.
func TestDriver_maxTaskIdle(t *testing.T) {
	b := millrace.NewBuilder()
	millrace.From(b, topicNamed("a")).Merge(millrace.From(b, topicNamed("b"))).To(outTopic)
	d := milltest.New(t, build(t, b), milltest.MaxTaskIdle(100*ms))
	out := reader(d, outTopic)
	steps{
		{"a", "k=1@10", ""},
		{"b", "k=2@5", "k=2@5"},
	}.run(t, d, out)
	d.AdvanceTime(99 * ms)
	wantText(t, "a millisecond early", out(), "")
	d.AdvanceTime(1 * ms)
	wantText(t, "in time", out(), "k=1@10")
}

func TestBuild_mistakesNameTheirPlace(t *testing.T) {
	other := millrace.NewTopics(serde.String, serde.String, "x", "y")
	for name, declare := range map[string]func(b *millrace.Builder){
		"global table of several topics": func(b *millrace.Builder) { millrace.GlobalTableFrom(b, other, millrace.As("g")) },
		"table of several topics":        func(b *millrace.Builder) { millrace.TableFrom(b, other, millrace.As("g")) },
		"sink of several topics":         func(b *millrace.Builder) { millrace.From(b, strTopic).To(other) },
		"option without use":             func(b *millrace.Builder) { millrace.From(b, strTopic, millrace.InMemory()) },
		"store without a name":           func(b *millrace.Builder) { millrace.Count(millrace.From(b, strTopic).GroupByKey()) },
		"global table without a name":    func(b *millrace.Builder) { millrace.GlobalTableFrom(b, strTopic) },
		"repartition without a name":     func(b *millrace.Builder) { millrace.From(b, strTopic).Repartition() },
		"branch after the end": func(b *millrace.Builder) {
			s := millrace.From(b, strTopic).Split()
			s.NoDefault()
			s.Branch(func(string, string) bool { return true })
		},
		"serde of another type": func(b *millrace.Builder) {
			millrace.From(b, strTopic).GroupByKey(millrace.WithKey(serde.Int64))
		},
		"two builders": func(b *millrace.Builder) {
			millrace.From(b, strTopic).Merge(millrace.From(millrace.NewBuilder(), strTopic))
		},
		"a join that would keep a table without a name": func(b *millrace.Builder) {
			t := millrace.TableFrom(b, topicNamed("t"))
			millrace.JoinTable(millrace.From(b, strTopic), t, func(v, _ string) string { return v })
		},
	} {
		b := millrace.NewBuilder()
		declare(b)
		_, err := b.Build()
		if err == nil || !strings.Contains(err.Error(), "driver_test.go:") {
			t.Errorf("%s: Build returned %v", name, err)
		}
	}
	// All mistakes at once.
	b := millrace.NewBuilder()
	millrace.From(b, strTopic).Repartition()
	millrace.Count(millrace.From(b, strTopic).GroupByKey())
	_, err := b.Build()
	if err == nil || strings.Count(err.Error(), "driver_test.go:") != 2 {
		t.Errorf("two mistakes gave %v", err)
	}
	// AutoName is refused where names are demanded.
	b = millrace.NewBuilder(millrace.RequireNames())
	millrace.Count(millrace.From(b, strTopic).GroupByKey(), millrace.AutoName())
	if _, err := b.Build(); err == nil {
		t.Error("a numbered name was accepted")
	}
}
