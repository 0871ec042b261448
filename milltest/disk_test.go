package milltest_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
)

// A store without a changelog shows what is kept where: on disk its rows survive a stop in order, and not a crash.
func TestOnDisk_restartKeepsWhatIsOnDisk(t *testing.T) {
	b := millrace.NewBuilder()
	millrace.Count(millrace.From(b, strTopic).GroupByKey(), millrace.As("c"), millrace.WithoutLog()).ToStream().To(countTopic)
	topology := build(t, b)

	d := milltest.New(t, topology, milltest.OnDisk(), milltest.ManualCommit())
	store := func() string { return rows(t, milltest.KeyValue[string, int64](d, "c", 0)) }
	pipe(t, d, "in", "a=x@1")
	pipe(t, d, "in", "a=x@2")
	d.Commit()
	restart(t, d)
	wantText(t, "after a stop in order", store(), "a=2@2")
	pipe(t, d, "in", "a=x@3")
	restart(t, d)
	d.Commit()
	wantText(t, "after a crash, with the record that was not committed", store(), "a=1@3")

	d = milltest.New(t, topology)
	pipe(t, d, "in", "a=x@1")
	restart(t, d)
	wantText(t, "in memory", store(), "")
}

// A crash falls back to what has been flushed, and the changelog fills the gap.
func TestOnDisk_crashReplaysTheGap(t *testing.T) {
	b := millrace.NewBuilder()
	reduced := millrace.From(b, strTopic).GroupByKey().Reduce(func(a, v string) string { return a + v }, millrace.As("r"))
	reduced.ToStream().To(outTopic)
	d := milltest.New(t, build(t, b), milltest.OnDisk(), milltest.ManualCommit(), milltest.CacheBytes(0))
	pipe(t, d, "in", "a=1@1")
	pipe(t, d, "in", "b=1@1")
	d.Commit()
	d.AdvanceTime(time.Minute)
	pipe(t, d, "in", "a=2@2")
	d.Commit() // a minute has passed: what has been committed before goes to disk
	pipe(t, d, "in", "a=3@3")
	d.Commit()
	pipe(t, d, "in", "c=1@4") // not committed, but in the changelog: at least once
	restart(t, d)
	wantText(t, "store", rows(t, milltest.KeyValue[string, string](d, "r", 0)), "a=123@3 b=1@1 c=11@4")
}

// With several partitions each task has its stores to itself.
func TestOnDisk_partitions(t *testing.T) {
	b := millrace.NewBuilder()
	millrace.Count(millrace.From(b, strTopic).GroupByKey(), millrace.As("c")).ToStream().To(countTopic)
	d := milltest.New(t, build(t, b), milltest.OnDisk(), milltest.Partitions(4))
	in := milltest.Input(d, strTopic)
	for i := range 40 {
		in.PipeAt(string(rune('a'+i%10)), "x", time.Duration(i)*ms)
	}
	for range 2 {
		found := 0
		for p := range int32(4) {
			it, err := milltest.KeyValue[string, int64](d, "c", p).All()
			if err != nil {
				t.Fatal(err)
			}
			for it.Next() {
				found++
				if it.Value() != 4 {
					t.Errorf("%s has %d, want 4", it.Key(), it.Value())
				}
			}
			_ = it.Close()
		}
		if found != 10 {
			t.Errorf("%d keys in all partitions, want 10", found)
		}
		restart(t, d)
	}
}
