package milltest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
	"github.com/millrace-io/millrace/window"
)

// rows reads a store, as text.
func rows[V any](t *testing.T, s store.KeyValue[string, V]) string {
	t.Helper()
	it, err := s.All()
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var out []string
	for it.Next() {
		var v any = it.Value()
		if p, ok := v.(textOf); ok {
			v = *p
		}
		out = append(out, fmt.Sprintf("%s=%v@%d", it.Key(), v, it.TimestampMs()))
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return strings.Join(out, " ")
}

// anywhere runs a test with stores in memory, and on disk over a file system in memory.
func anywhere(t *testing.T, test func(t *testing.T, opts ...milltest.Option)) {
	t.Run("in memory", func(t *testing.T) { test(t) })
	t.Run("on disk", func(t *testing.T) { test(t, milltest.OnDisk()) })
}

func TestC072_DeletedAndMadeAgainInOneRestore(t *testing.T) {
	anywhere(t, func(t *testing.T, opts ...milltest.Option) {
		b := millrace.NewBuilder()
		concat := func(_, v string, a textOf) textOf {
			if v == "del" {
				return nil
			}
			return str(*a + v)
		}
		agg := millrace.Aggregate(millrace.From(b, strTopic).GroupByKey(), func() textOf { return str("") }, concat, nullText, millrace.As("agg"))
		agg.ToStream().To(millrace.NewTopic("out", serde.String, nullText))
		// On disk nothing is flushed before the restart: the times of commits do not move on.
		d := milltest.New(t, build(t, b), append(opts, milltest.ManualCommit(), milltest.CacheBytes(0))...)
		out := reader(d, millrace.NewTopic("out", serde.String, nullText))
		for i, r := range []string{"1=A", "2=B", "2=del", "2=C", "3=X", "3=del"} {
			pipe(t, d, "in", fmt.Sprintf("%s@%d", r, i+1))
		}
		d.Commit()
		wantText(t, "before", out(), "1=A@1 2=B@2 2=~@3 2=C@4 3=X@5 3=~@6")
		restart(t, d)
		wantText(t, "restored", rows(t, milltest.KeyValue[string, textOf](d, "agg", 0)), "1=A@1 2=C@4")
		steps{{"in", "3=Y@7", "3=Y@7"}, {"in", "2=D@8", "2=CD@8"}}.run(t, d, out)
	})
}

func TestC080_TimestampAndContentOfChangelogRecords(t *testing.T) {
	b := millrace.NewBuilder()
	millrace.Count(millrace.From(b, strTopic).GroupByKey(), millrace.As("c")).ToStream().To(countTopic)
	d := milltest.New(t, build(t, b))
	pipe(t, d, "in", "ab=x@1000")
	pipe(t, d, "in", "ab=y@500")
	var got []string
	for _, r := range d.ReadRaw("test-c-changelog") {
		got = append(got, fmt.Sprintf("%s %x ts=%d headers=%d", r.Key, r.Value, r.TimestampMs, len(r.Headers)))
	}
	wantText(t, "changelog", strings.Join(got, ", "), "ab 0000000000000001 ts=1000 headers=0, ab 0000000000000002 ts=1000 headers=0")
	wantText(t, "store", rows(t, milltest.KeyValue[string, int64](d, "c", 0)), "ab=2@1000")
	restart(t, d)
	wantText(t, "restored", rows(t, milltest.KeyValue[string, int64](d, "c", 0)), "ab=2@1000")
}

func TestC121_CachedUpdates(t *testing.T) {
	input := []string{"a=x@0", "b=x@1", "a=x@2", "b=x@3", "a=x@4", "b=x@5"}
	count := func(opts ...millrace.StepOption) *millrace.Topology {
		b := millrace.NewBuilder()
		millrace.Count(millrace.From(b, strTopic).GroupByKey(), append(opts, millrace.As("c"))...).ToStream().To(countTopic)
		return build(t, b)
	}
	for _, c := range []struct {
		name     string
		topology *millrace.Topology
		cache    int64
		want     string
	}{
		{"cache", count(), 1 << 20, "a=3@4 b=3@5"},
		{"no cache", count(), 0, "a=1@0 b=1@1 a=2@2 b=2@3 a=3@4 b=3@5"},
		{"step without cache", count(millrace.WithoutCache()), 1 << 20, "a=1@0 b=1@1 a=2@2 b=2@3 a=3@4 b=3@5"},
	} {
		d := milltest.New(t, c.topology, milltest.ManualCommit(), milltest.CacheBytes(c.cache))
		out := reader(d, countTopic)
		for _, r := range input {
			pipe(t, d, "in", r)
		}
		d.Commit()
		wantText(t, c.name, out(), c.want)
	}
}

// With two stores one behind the other everything reaches the sink in one commit, the parent's flush first.
func TestC121_ChainedStoresComeOutInOneCommit(t *testing.T) {
	b := millrace.NewBuilder()
	counts := millrace.Count(millrace.From(b, strTopic).GroupByKey(), millrace.As("first")).ToStream()
	texts := millrace.MapValues(counts, func(n int64) string { return fmt.Sprint(n) })
	again := texts.GroupByKey(millrace.WithValue(serde.String)).Reduce(func(a, v string) string { return a + "," + v }, millrace.As("second"))
	again.ToStream().To(outTopic)
	third := millrace.Count(again.ToStream().GroupByKey(), millrace.As("third"))
	third.ToStream().To(millrace.NewTopic("third", serde.String, serde.Int64))
	d := milltest.New(t, build(t, b), milltest.ManualCommit())
	out, thirdOut := reader(d, outTopic), reader(d, millrace.NewTopic("third", serde.String, serde.Int64))
	for _, r := range []string{"a=x@0", "b=x@1", "a=x@2"} {
		pipe(t, d, "in", r)
	}
	wantText(t, "before", out()+thirdOut(), "")
	d.Commit()
	wantText(t, "second", out(), "b=1@1 a=2@2") // in the order of the last writes
	wantText(t, "third", thirdOut(), "b=1@1 a=1@2")
	pipe(t, d, "in", "a=x@3")
	d.Commit()
	wantText(t, "second", out(), "a=2,3@3")
	wantText(t, "third", thirdOut(), "a=2@3")
}

// What comes out of a cache carries the time and headers of the key's last write.
func TestCache_contextOfTheLastWrite(t *testing.T) {
	b := millrace.NewBuilder()
	counts := millrace.Count(millrace.From(b, strTopic).GroupByKey(), millrace.As("c")).ToStream()
	var origins []string
	millrace.Process(millrace.MapValues(counts, func(n int64) string { return fmt.Sprint(n) }), func() *timed[string] {
		return &timed[string]{process: func(p *timed[string], r processor.Record[string, string]) error {
			m, ok := p.ctx.Metadata()
			origins = append(origins, fmt.Sprintf("%s from %s-%d@%d %v", r.Key, m.Topic, m.Partition, m.Offset, ok))
			return p.ctx.Forward(r)
		}}
	}, millrace.As("step")).To(outTopic)
	d := milltest.New(t, build(t, b), milltest.ManualCommit())
	pipeWith(t, d, "in", "a", "x", 1*ms, "h=1")
	pipeWith(t, d, "in", "b", "x", 2*ms, "h=2")
	pipeWith(t, d, "in", "a", "x", 7*ms, "h=3")
	pipeWith(t, d, "in", "c", "x", 4*ms, "")
	d.Commit()
	wantText(t, "headers", headersOf(d, "out"), "[h=2] [h=3] []")
	wantText(t, "origins", strings.Join(origins, ", "), "b from in-0@1 true, a from in-0@2 true, c from in-0@3 true")
}

func TestCache_insertAndDeleteInOneInterval(t *testing.T) {
	d, out := resetting(t, milltest.ManualCommit(), milltest.CacheBytes(1<<20))
	pipe(t, d, "in", "k=a@1")
	pipe(t, d, "in", "k=reset@2")
	pipe(t, d, "in", "q=a@3")
	d.Commit()
	wantText(t, "out", out(), "q=inita@3")
	if n := len(d.ReadRaw("test-agg-changelog")); n != 1 {
		t.Errorf("%d changelog records, want one", n)
	}
	pipe(t, d, "in", "q=reset@4")
	pipe(t, d, "in", "q=b@5")
	pipe(t, d, "in", "q=reset@6")
	d.Commit()
	wantText(t, "a row that had been seen", out(), "q=~@6")
}

// A full cache writes everything out, in the order of the last writes.
func TestCache_fullWritesEverythingOut(t *testing.T) {
	b := millrace.NewBuilder()
	millrace.Count(millrace.From(b, strTopic).GroupByKey(), millrace.As("c")).ToStream().To(countTopic)
	d := milltest.New(t, build(t, b), milltest.ManualCommit(), milltest.CacheBytes(3*200))
	out := reader(d, countTopic)
	for _, r := range []string{"a=x@1", "b=x@2", "c=x@3", "a=x@4"} {
		pipe(t, d, "in", r)
	}
	wantText(t, "within the bound", out(), "")
	pipe(t, d, "in", "d=x@5")
	wantText(t, "above it", out(), "b=1@2 c=1@3 a=2@4 d=1@5")
	d.Commit()
	wantText(t, "at the commit", out(), "")
	// What was written out and left the cache counts on.
	pipe(t, d, "in", "b=x@6")
	d.Commit()
	wantText(t, "afterwards", out(), "b=2@6")
}

// A step behind a cached store that reads that store while it is written out sees the update that it is given.
func TestCache_readWhileItIsWrittenOut(t *testing.T) {
	b := millrace.NewBuilder()
	counts := millrace.Count(millrace.From(b, strTopic).GroupByKey(), millrace.As("c"))
	changes := millrace.MapValues(counts.ToStream(), func(n int64) string { return fmt.Sprint(n) })
	millrace.JoinTable(changes, counts, func(v string, row int64) string { return fmt.Sprintf("%s/%d", v, row) }).To(outTopic)
	d := milltest.New(t, build(t, b), milltest.ManualCommit(), milltest.CacheBytes(2*200))
	var want []string
	for i := range 60 {
		key := string(rune('a' + i*7%20))
		pipe(t, d, "in", fmt.Sprintf("%s=x@%d", key, i))
	}
	d.Commit()
	last := make(map[string]string)
	for _, r := range milltest.Output(d, outTopic).ReadAll() {
		v, row, _ := strings.Cut(r.Value, "/")
		if v != row {
			t.Errorf("update %s of %s met the row %s", v, r.Key, row)
		}
		if last[r.Key] >= v {
			t.Errorf("update %s of %s came after %s", v, r.Key, last[r.Key])
		}
		last[r.Key] = v
		want = append(want, r.Key)
	}
	slices.Sort(want)
	if n := len(slices.Compact(want)); n != 20 {
		t.Errorf("%d keys came out, want 20", n)
	}
	for key, v := range last {
		if v != "3" {
			t.Errorf("the last update of %s is %s, want 3", key, v)
		}
	}
}

func TestC122_TwoStoresWithOneName(t *testing.T) {
	g, tt, in := millrace.NewTopic("g", serde.String, serde.String), millrace.NewTopic("t", serde.String, serde.String), strTopic
	kv := func() *millrace.KeyValueStore[string, string] {
		return millrace.NewKeyValueStore("s", serde.String, serde.String)
	}
	step := func() *timed[string] { return &timed[string]{} }
	shared := kv()
	for _, c := range []struct {
		name    string
		declare func(*millrace.Builder)
		refused bool
	}{
		{"two counts", func(b *millrace.Builder) {
			millrace.Count(millrace.From(b, in).GroupByKey(), millrace.StoreName("cnt"))
			millrace.Count(millrace.From(b, tt).GroupByKey(), millrace.StoreName("cnt"))
		}, true},
		{"global table, then table", func(b *millrace.Builder) {
			millrace.GlobalTableFrom(b, g, millrace.StoreName("st"))
			millrace.TableFrom(b, tt, millrace.StoreName("st"))
		}, true},
		{"table, then global table", func(b *millrace.Builder) {
			millrace.TableFrom(b, tt, millrace.StoreName("st"))
			millrace.GlobalTableFrom(b, g, millrace.StoreName("st"))
		}, true},
		{"two definitions", func(b *millrace.Builder) {
			millrace.Process(millrace.From(b, in), step, millrace.WithStores(kv()))
			millrace.Process(millrace.From(b, tt), step, millrace.WithStores(kv()))
		}, true},
		{"one definition twice", func(b *millrace.Builder) {
			millrace.Process(millrace.From(b, in), step, millrace.WithStores(shared))
			millrace.Process(millrace.From(b, tt), step, millrace.WithStores(shared))
		}, false},
	} {
		b := millrace.NewBuilder()
		c.declare(b)
		_, err := b.Build()
		if (err != nil) != c.refused {
			t.Errorf("%s: Build returned %v, want an error: %v", c.name, err, c.refused)
		}
	}
}

func TestTopicReadTwice(t *testing.T) {
	other := millrace.NewTopic("in", serde.String, serde.Int64)
	for _, c := range []struct {
		name    string
		declare func(*millrace.Builder)
		want    string // a part of the error; empty: accepted
	}{
		{"two streams", func(b *millrace.Builder) { millrace.From(b, strTopic); millrace.From(b, strTopic) }, ""},
		{"other types", func(b *millrace.Builder) { millrace.From(b, strTopic); millrace.From(b, other) }, "other types"},
		{"table, then stream", func(b *millrace.Builder) { millrace.TableFrom(b, strTopic); millrace.From(b, strTopic) }, "ToStream"},
		{"stream, then table", func(b *millrace.Builder) { millrace.From(b, strTopic); millrace.TableFrom(b, strTopic) }, "read at"},
		{"two tables", func(b *millrace.Builder) { millrace.TableFrom(b, strTopic); millrace.TableFrom(b, strTopic) }, "read at"},
		{"global table, then stream", func(b *millrace.Builder) {
			millrace.GlobalTableFrom(b, strTopic, millrace.As("g"))
			millrace.From(b, strTopic)
		}, "in"},
		{"two starts", func(b *millrace.Builder) {
			millrace.From(b, strTopic, millrace.StartEarliest())
			millrace.From(b, strTopic, millrace.StartLatest())
		}, "start"},
		{"a start at the second", func(b *millrace.Builder) {
			millrace.From(b, strTopic)
			millrace.From(b, strTopic, millrace.StartLatest())
		}, "start"},
		{"times at the second", func(b *millrace.Builder) {
			millrace.From(b, strTopic)
			millrace.From(b, strTopic, millrace.Timestamps(func(r processor.Record[string, string], _ processor.Metadata, _ int64) (int64, error) {
				return r.TimestampMs, nil
			}))
		}, "Timestamps"},
	} {
		b := millrace.NewBuilder()
		c.declare(b)
		_, err := b.Build()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "cases_state_test.go")):
			t.Errorf("%s: Build returned %v, want an error with %q", c.name, err, c.want)
		}
	}
}

// A query between records shows what waits in a cache and does not make it come out.
func TestWindowStore_fetchShowsWhatWaits(t *testing.T) {
	b := millrace.NewBuilder()
	d, out := countWindows(t, b, millrace.From(b, strTopic), window.Tumbling(10*ms).Grace(90*ms), milltest.ManualCommit())
	pipe(t, d, "in", "a=x@1")
	pipe(t, d, "in", "b=x@2")
	pipe(t, d, "in", "a=x@12")
	d.Commit()
	out()
	for _, r := range []string{"a=x@3", "a=x@25", "c=x@13"} {
		pipe(t, d, "in", r)
	}
	s := milltest.Window[string, int64](d, "counts", 0)
	fetch := func(it store.Iterator[window.Key[string], int64], err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		var got []string
		for it.Next() {
			got = append(got, fmt.Sprintf("%s%d=%d@%d", it.Key().Key, it.Key().Window.StartMs, it.Value(), it.TimestampMs()))
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		return strings.Join(got, " ")
	}
	wantText(t, "a", fetch(s.Fetch("a", 0, 100)), "a0=2@3 a10=1@12 a20=1@25")
	wantText(t, "a from 10 to 10", fetch(s.Fetch("a", 10, 10)), "a10=1@12")
	wantText(t, "all", fetch(s.FetchAll(0, 19)), "a0=2@3 a10=1@12 b0=1@2 c10=1@13")
	wantText(t, "out before the commit", out(), "")
	// A window far ahead waits in the cache; those past the retention of 100 ms are out of sight at once.
	pipe(t, d, "in", "z=x@115")
	wantText(t, "behind the retention", fetch(s.FetchAll(0, 1000)), "a20=1@25 z110=1@115")
	d.Commit()
	wantText(t, "the same when it is written", fetch(s.FetchAll(0, 1000)), "a20=1@25 z110=1@115")
}
