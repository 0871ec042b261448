package integration_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"

	kafkatest "github.com/millrace-io/millrace/test/kafka"
)

func TestC072_DeleteAndReCreateWithinOneRestore(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("c072")
		in, out := kafkatest.CreateTopic(t, b, "in", 1), kafkatest.CreateTopic(t, b, "out", 1)
		bld := millrace.NewBuilder()
		text := serde.Nullable(serde.String)
		agg := millrace.Aggregate(millrace.From(bld, texts(in)).GroupByKey(),
			func() *string { return new(string) },
			func(_, v string, agg *string) *string {
				if v == "del" {
					return nil
				}
				s := *agg + v
				return &s
			}, text, millrace.As("agg"), millrace.WithoutCache())
		agg.ToStream().To(millrace.NewTopic(out, serde.String, text))
		topology := buildTopology(t, bld)
		now := time.Now()

		r := start(t, b, app, topology)
		kafkatest.Load(t, b, in, record("1", "A", now), record("2", "B", now), record("2", "del", now), record("2", "C", now),
			record("3", "X", now), record("3", "del", now))
		awaitCommitted(t, b, app, in, 6)
		r.stop()

		r = start(t, b, app, topology) // in another state directory: everything comes from the changelog
		kafkatest.Load(t, b, in, record("3", "Y", now), record("2", "D", now), record("1", "E", now))
		awaitCommitted(t, b, app, in, 9)
		r.stop()
		want := "1=A 2=B 2=~ 2=C 3=X 3=~ 3=Y 2=CD 1=AE"
		if got := shown(kafkatest.ReadAll(t, b, out, kafkatest.Committed)); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	})
}

// C078: the changelog of a window store carries event times, so a broker deletes old ones by its retention; additional
// retention keeps them.
func TestC078_OldEventTimeAndChangelogRetention(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		app := b.Name("c078")
		in, out := kafkatest.CreateTopic(t, b, "in", 1), kafkatest.CreateTopic(t, b, "out", 1)
		bld := millrace.NewBuilder()
		counts, _ := millrace.CountWindows(
			millrace.From(bld, texts(in)).GroupByKey().WindowBy(window.Tumbling(10*time.Millisecond).Grace(5*time.Millisecond)),
			millrace.As("counts"), millrace.WithoutCache())
		counts.ToStream().To(millrace.NewTopic(out, serde.Windowed(serde.String, 10*time.Millisecond), serde.Int64))
		topology := buildTopology(t, bld)
		keep := millrace.FromProperties(map[string]string{
			"windowstore.changelog.additional.retention.ms": fmt.Sprint(int64(1) << 60),
		})

		r := start(t, b, app, topology, keep)
		kafkatest.Load(t, b, in, record("a", "x", time.UnixMilli(1)), record("a", "x", time.UnixMilli(4)))
		awaitCommitted(t, b, app, in, 2)
		r.stop()
		r = start(t, b, app, topology, keep, millrace.StateDir(filepath.Join(t.TempDir(), "other")))
		kafkatest.Load(t, b, in, record("a", "x", time.UnixMilli(9)))
		awaitCommitted(t, b, app, in, 3)
		r.stop()
		var got []int64
		for _, rec := range kafkatest.ReadAll(t, b, out, kafkatest.Committed) {
			got = append(got, int64(binary.BigEndian.Uint64(rec.Value)))
		}
		if fmt.Sprint(got) != "[1 2 3]" {
			t.Errorf("counts %v, want [1 2 3]", got)
		}
	})
}
