package milltest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
)

// textOf is a type with a nil, for results that delete.
type textOf = *string

var nullText = serde.Nullable(serde.String)

func str(s string) textOf { return &s }

// orText prints a side of a join that may be missing.
func orText(v string, ok bool) string {
	if !ok {
		return "null"
	}
	return v
}

var outTopic = millrace.NewTopic("out", serde.String, serde.String)

// streamTable joins topic S with the table of topic T and writes to out.
func streamTable(t *testing.T, left bool, join func(l, r string) string) (*milltest.Driver, func() string) {
	t.Helper()
	b := millrace.NewBuilder()
	table := millrace.TableFrom(b, millrace.NewTopic("T", serde.String, serde.String), millrace.As("table"))
	s := millrace.From(b, millrace.NewTopic("S", serde.String, serde.String))
	if left {
		millrace.LeftJoinTable(s, table, func(l, r string, ok bool) string { return join(l, orText(r, ok)) }, millrace.NodeName("join")).To(outTopic)
	} else {
		millrace.JoinTable(s, table, join, millrace.NodeName("join")).To(outTopic)
	}
	d := milltest.New(t, build(t, b))
	return d, reader(d, outTopic)
}

func TestC038_ATableUpdateIsNotRetroactive(t *testing.T) {
	pair := func(l, r string) string { return "(" + l + "," + r + ")" }
	d, out := streamTable(t, true, pair)
	steps{
		{"S", "k=s1@10", "k=(s1,null)@10"},
		{"T", "k=t1@5", ""},
		{"S", "k=s2@3", "k=(s2,t1)@3"},
		{"T", "k=t2@100", ""},
		{"S", "k=s3@4", "k=(s3,t2)@4"},
		{"T", "k=~@101", ""},
		{"S", "k=s4@102", "k=(s4,null)@102"},
		{"S", "~=s5@103", "~=(s5,null)@103"},
		{"S", "k=~@104", ""},
	}.run(t, d, out)
	wantDropped(t, d, "join", millrace.DroppedNullValue, 1)

	d, out = streamTable(t, false, pair)
	steps{
		{"S", "k=s1@10", ""},
		{"T", "k=t1@5", ""},
		{"S", "k=s2@3", "k=(s2,t1)@3"},
		{"T", "k=t2@100", ""},
		{"S", "k=s3@4", "k=(s3,t2)@4"},
		{"T", "k=~@101", ""},
		{"S", "k=s4@102", ""},
		{"S", "~=s5@103", ""},
		{"S", "k=~@104", ""},
	}.run(t, d, out)
	wantDropped(t, d, "join", millrace.DroppedNullKey, 1)
	wantDropped(t, d, "join", millrace.DroppedNullValue, 1)
}

// joinInput is the input that the join tests of Kafka Streams share: a side, a value and a timestamp.
const joinInput = `L null 1, R null 2, L A 3, R a 4, L B 5, R b 6, L null 7, R null 8, L C 9, R c 10, R null 11, L null 12,
	R null 13, R d 7, L D 6, L null 2, R null 3, R e 14, L E 15, L null 10, R null 9, L F 4, R f 3`

// joinTable runs the shared input through a join; want is "n:value@ts" of what comes out after the n-th record.
func joinTable(t *testing.T, left bool, want string) {
	t.Helper()
	d, out := streamTable(t, left, func(l, r string) string { return l + "-" + r })
	var got []string
	for i, record := range strings.Split(joinInput, ",") {
		var side, value, at string
		if _, err := fmt.Sscan(record, &side, &value, &at); err != nil {
			t.Fatal(err)
		}
		if value == "null" {
			value = "~"
		}
		pipe(t, d, map[string]string{"L": "S", "R": "T"}[side], "k="+value+"@"+at)
		if s := out(); s != "" {
			got = append(got, fmt.Sprintf("%d:%s", i+1, strings.ReplaceAll(s, "k=", "")))
		}
	}
	wantText(t, "join", strings.Join(got, "; "), want)
}

func TestStreamTableJoin_table(t *testing.T) {
	joinTable(t, false, "5:B-a@5; 15:D-d@6; 19:E-e@15")
	joinTable(t, true, "3:A-null@3; 5:B-a@5; 9:C-null@9; 15:D-d@6; 19:E-e@15; 22:F-null@4")
}

func TestC043_OneTopicFeedingBothSides(t *testing.T) {
	pair := func(l, r string, ok bool) string { return "(" + l + "," + orText(r, ok) + ")" }
	t.Run("table first", func(t *testing.T) {
		b := millrace.NewBuilder()
		s := millrace.From(b, strTopic)
		latest := s.GroupByKey().Reduce(func(_, v string) string { return v }, millrace.As("latest"))
		millrace.LeftJoinTable(s, latest, pair).To(outTopic)
		d := milltest.New(t, build(t, b))
		steps{
			{"in", "k=v1@1", "k=(v1,v1)@1"},
			{"in", "k=v2@2", "k=(v2,v2)@2"},
		}.run(t, d, reader(d, outTopic))
	})
	t.Run("stream first", func(t *testing.T) {
		b := millrace.NewBuilder()
		s := millrace.From(b, strTopic)
		mapped := millrace.MapValues(s, func(v string) string { return v })
		table := s.ToTable(millrace.As("latest"))
		millrace.LeftJoinTable(mapped, table, pair).To(outTopic)
		d := milltest.New(t, build(t, b))
		steps{
			{"in", "k=v1@1", "k=(v1,null)@1"},
			{"in", "k=v2@2", "k=(v2,v1)@2"},
		}.run(t, d, reader(d, outTopic))
	})
}

// The results of Kafka Streams 4.4.0. Whether a deletion of a row that the result never had is sent depends on whether the
// table before keeps its rows.
func TestC049_FilterOnATable(t *testing.T) {
	spurious := steps{
		{"in", "k=5@1", "k=~@1"},
		{"in", "k=12@2", "k=12@2"},
		{"in", "k=3@3", "k=~@3"},
		{"in", "k=4@4", "k=~@4"},
		{"in", "k=~@5", "k=~@5"},
		{"in", "q=~@6", "q=~@6"},
		{"in", "k=13@7", "k=13@7"},
		{"in", "k=14@8", "k=14@8"},
	}
	exact := steps{
		{"in", "k=5@1", ""},
		{"in", "k=12@2", "k=12@2"},
		{"in", "k=3@3", "k=~@3"},
		{"in", "k=4@4", ""},
		{"in", "k=~@5", ""},
		{"in", "q=~@6", ""},
		{"in", "k=13@7", "k=13@7"},
		{"in", "k=14@8", "k=14@8"},
	}
	type table = millrace.Table[string, string]
	above := func(_, v string) bool { return len(v) > 1 }
	there := func(string, string) bool { return true }
	for _, c := range []struct {
		name    string
		declare func(*millrace.Builder) table
		want    steps
	}{
		{"plain", func(b *millrace.Builder) table { return millrace.TableFrom(b, strTopic).Filter(above) }, spurious},
		{"stored", func(b *millrace.Builder) table {
			return millrace.TableFrom(b, strTopic).Filter(above, millrace.As("st"))
		}, spurious},
		{"stored behind a plain filter", func(b *millrace.Builder) table {
			return millrace.TableFrom(b, strTopic).Filter(there).Filter(above, millrace.As("st"))
		}, spurious},
		{"of a kept table", func(b *millrace.Builder) table {
			return millrace.TableFrom(b, strTopic, millrace.As("src")).Filter(above)
		}, exact},
		{"stored, of a kept table", func(b *millrace.Builder) table {
			return millrace.TableFrom(b, strTopic, millrace.As("src")).Filter(above, millrace.As("st"))
		}, exact},
		{"of a kept filter", func(b *millrace.Builder) table {
			return millrace.TableFrom(b, strTopic).Filter(there, millrace.As("st")).Filter(above)
		}, exact},
		{"of a mapped kept table", func(b *millrace.Builder) table {
			return millrace.MapTableValues(millrace.TableFrom(b, strTopic, millrace.As("src")), func(v string) string { return v }).Filter(above)
		}, exact},
		{"of a stream's table", func(b *millrace.Builder) table {
			return millrace.From(b, strTopic).ToTable(millrace.As("src")).Filter(above)
		}, exact},
		{"of a table that a join keeps", func(b *millrace.Builder) table {
			src := millrace.TableFrom(b, strTopic, millrace.AutoName())
			millrace.JoinTable(millrace.From(b, millrace.NewTopic("z", serde.String, serde.String)), src, func(a, _ string) string { return a })
			return src.Filter(above)
		}, exact},
		{"declared before the join", func(b *millrace.Builder) table {
			src := millrace.TableFrom(b, strTopic, millrace.AutoName())
			f := src.Filter(above)
			millrace.JoinTable(millrace.From(b, millrace.NewTopic("z", serde.String, serde.String)), src, func(a, _ string) string { return a })
			return f
		}, spurious},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := millrace.NewBuilder()
			c.declare(b).ToStream().To(outTopic)
			d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
			c.want.run(t, d, reader(d, outTopic))
		})
	}
}

// A count starts from 0, which is the value before its first one. A cache and a store of the filter's own do not know of it.
func TestFilterOfACount(t *testing.T) {
	for _, c := range []struct {
		cache int64
		opts  []millrace.StepOption
		first string
	}{
		{0, nil, "k=~@1"},
		{1 << 20, nil, ""},
		{0, []millrace.StepOption{millrace.As("st")}, ""},
		{1 << 20, []millrace.StepOption{millrace.As("st")}, ""},
	} {
		b := millrace.NewBuilder()
		counts := millrace.Count(millrace.From(b, strTopic).GroupByKey(), millrace.As("c"))
		counts.Filter(func(_ string, n int64) bool { return n%2 == 0 }, c.opts...).ToStream().To(countTopic)
		d := milltest.New(t, build(t, b), milltest.CacheBytes(c.cache))
		steps{
			{"in", "k=a@1", c.first},
			{"in", "k=a@2", "k=2@2"},
			{"in", "k=a@3", "k=~@3"},
			{"in", "k=a@4", "k=4@4"},
		}.run(t, d, reader(d, countTopic))
	}
}

func TestC060_NullInputIsSkipped_NullAggregateDeletes(t *testing.T) {
	t.Run("reduce", func(t *testing.T) {
		b := millrace.NewBuilder()
		millrace.From(b, strTopic).GroupByKey().Reduce(func(a, v string) string { return a + v }, millrace.As("r")).ToStream().To(outTopic)
		d := milltest.New(t, build(t, b))
		steps{
			{"in", "k=a@1", "k=a@1"},
			{"in", "k=~@2", ""},
			{"in", "k=b@3", "k=ab@3"},
		}.run(t, d, reader(d, outTopic))
		wantDropped(t, d, "r", millrace.DroppedNullValue, 1)
	})
	t.Run("aggregate", func(t *testing.T) {
		d, out := resetting(t)
		steps{
			{"in", "k=a@1", "k=inita@1"},
			{"in", "k=reset@2", "k=~@2"},
			{"in", "k=reset@3", "k=~@3"},
			{"in", "k=b@4", "k=initb@4"},
		}.run(t, d, out)
	})
	t.Run("toTable", func(t *testing.T) {
		b := millrace.NewBuilder()
		millrace.From(b, strTopic).ToTable(millrace.As("t")).ToStream().To(outTopic)
		// Without a cache: a deletion of a row that was never there is then sent on.
		d := milltest.New(t, build(t, b), milltest.CacheBytes(0))
		steps{
			{"in", "k=a@1", "k=a@1"},
			{"in", "k=~@2", "k=~@2"},
			{"in", "~=q@3", ""},
			{"in", "k=~@4", "k=~@4"},
		}.run(t, d, reader(d, outTopic))
		wantDropped(t, d, "t", millrace.DroppedNullKey, 1)
	})
}

// resetting concatenates values behind "init", and deletes at "reset".
func resetting(t *testing.T, opts ...milltest.Option) (*milltest.Driver, func() string) {
	t.Helper()
	b := millrace.NewBuilder()
	add := func(_, v string, a textOf) textOf {
		if v == "reset" {
			return nil
		}
		return str(*a + v)
	}
	a := millrace.Aggregate(millrace.From(b, strTopic).GroupByKey(), func() textOf { return str("init") }, add, nullText, millrace.As("agg"))
	out := millrace.NewTopic("out", serde.String, nullText)
	a.ToStream().To(out)
	d := milltest.New(t, build(t, b), append([]milltest.Option{milltest.CacheBytes(0)}, opts...)...)
	return d, reader(d, out)
}

// A deletion is logged under the time of the record that led to it. It is sent on under the time of the aggregate, or, by
// way of a cache, under that of the record. So does Kafka Streams.
func TestAggregate_timeOfADeletion(t *testing.T) {
	for cache, sent := range map[int64]string{0: "k=~@100", 1 << 20: "k=~@50"} {
		d, out := resetting(t, milltest.CacheBytes(cache))
		steps{
			{"in", "k=a@100", "k=inita@100"},
			{"in", "k=reset@50", sent},
			{"in", "k=b@60", "k=initb@60"},
		}.run(t, d, out)
		log := reader(d, millrace.NewTopic("test-agg-changelog", serde.String, nullText))
		wantText(t, "changelog", log(), "k=inita@100 k=~@50 k=initb@60")
	}
}

func TestC063_CountingUpdates(t *testing.T) {
	b := millrace.NewBuilder()
	millrace.Count(millrace.TableFrom(b, strTopic, millrace.As("t")).ToStream().GroupByKey(), millrace.As("c")).ToStream().To(countTopic)
	d := milltest.New(t, build(t, b))
	steps{
		{"in", "k=a@1", "k=1@1"},
		{"in", "k=a@2", "k=2@2"},
		{"in", "k=~@3", ""},
		{"in", "k=b@4", "k=3@4"},
	}.run(t, d, reader(d, countTopic))
}

func TestCount_nullValue(t *testing.T) {
	b := millrace.NewBuilder()
	millrace.Count(millrace.From(b, strTopic).GroupByKey(), millrace.As("c")).ToStream().To(countTopic)
	d := milltest.New(t, build(t, b))
	steps{
		{"in", "a=x@1", "a=1@1"},
		{"in", "a=~@2", ""},
		{"in", "a=c@3", "a=2@3"},
	}.run(t, d, reader(d, countTopic))
	wantDropped(t, d, "c", millrace.DroppedNullValue, 1)
}

func TestC095_EqualUpdatesAreSent(t *testing.T) {
	for _, opts := range [][]millrace.StepOption{nil, {millrace.As("t")}, {millrace.As("t"), millrace.WithoutCache()}} {
		b := millrace.NewBuilder()
		millrace.TableFrom(b, strTopic, opts...).ToStream().To(outTopic)
		d := milltest.New(t, build(t, b))
		steps{
			{"in", "k=a@1", "k=a@1"},
			{"in", "k=a@1", "k=a@1"},
			{"in", "k=a@2", "k=a@2"},
		}.run(t, d, reader(d, outTopic))
	}
	// A row that was stored and not sent before a crash is sent when its record is processed again.
	b := millrace.NewBuilder()
	millrace.TableFrom(b, strTopic, millrace.As("t")).ToStream().To(outTopic)
	d := milltest.New(t, build(t, b), milltest.ManualCommit())
	out := reader(d, outTopic)
	pipe(t, d, "in", "k=a@1")
	wantText(t, "before the crash", out(), "")
	restart(t, d)
	d.Commit()
	wantText(t, "after it", out(), "k=a@1")
}
