package millrace_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/task"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// BenchmarkCount measures a whole task, from fetched batches to outputs: 100,000 keys, a commit every 10,000 records.
func BenchmarkCount(b *testing.B) {
	plain := func(builder *millrace.Builder) {
		millrace.Count(from(builder, "in").GroupByKey(), millrace.As("c")).ToStream().ForEach(func(string, int64) {})
	}
	windows := func(builder *millrace.Builder) {
		c, _ := millrace.CountWindows(windowed(from(builder, "in")), millrace.As("c"))
		c.ToStream().ForEach(func(windowKey, int64) {})
	}
	copied := func(builder *millrace.Builder) {
		millrace.MapValues(from(builder, "in").Filter(yes), same).To(topicOf("out"))
	}
	for _, c := range []struct {
		name       string
		declare    func(*millrace.Builder)
		cacheBytes int64
		readBytes  int64
	}{
		{"filter map", copied, 0, 0},
		{"cache", plain, 64 << 20, 0},
		{"no cache", plain, 0, 0},
		{"read cache", plain, 0, 64 << 20},
		{"windows cache", windows, 64 << 20, 0},
		{"windows no cache", windows, 0, 0},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkTask(b, c.declare, c.cacheBytes, c.readBytes) })
	}
}

func benchmarkTask(b *testing.B, declare func(*millrace.Builder), cacheBytes, readBytes int64) {
	builder := millrace.NewBuilder()
	declare(builder)
	built, err := builder.Build()
	if err != nil {
		b.Fatal(err)
	}
	sub := built.Internal().Subtopologies()[0]
	specs, err := task.StoreSpecs(sub)
	if err != nil {
		b.Fatal(err)
	}
	set, err := state.NewMemorySet(specs)
	if err != nil {
		b.Fatal(err)
	}
	in := broker.TopicPartition{Topic: "in"}
	t, err := task.New(task.Config{
		ID: processor.TaskID{}, Sub: sub, Inputs: []broker.TopicPartition{in}, Set: set, Ctx: context.Background(),
		NowMs: func() int64 { return 0 }, Metrics: metrics.New(),
		Partitions: func(string) (int32, error) { return 1, nil },
		TopicName:  func(name string) string { return topology.DecoratedTopic("bench", name) },
		CacheBytes: cacheBytes, ReadCacheBytes: readBytes,
	})
	if err != nil {
		b.Fatal(err)
	}
	t.SetPosition(in, 0, 0)
	const keyCount, batch, commit = 100_000, 500, 10_000
	keys := make([][]byte, keyCount)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key-%08d", i)
	}
	value := make([]byte, 100)
	offset := int64(0)
	next := func() broker.Batch {
		records := make([]broker.Record, batch)
		for i := range records {
			binary.BigEndian.PutUint64(value, uint64(offset))
			n := (offset * 2654435761) % keyCount
			records[i] = broker.Record{Offset: offset, Key: keys[n], Value: value, TimestampMs: offset / 1000}
			offset++
		}
		return broker.Batch{TopicPartition: in, Records: records, Position: offset, HighWater: offset, StableEnd: offset}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += batch {
		if err := t.Add(next()); err != nil {
			b.Fatal(err)
		}
		if _, err := t.Process(batch); err != nil {
			b.Fatal(err)
		}
		t.ReuseOutputs(t.TakeOutputs())
		if done%commit == 0 {
			u, err := t.HandOver()
			if err != nil {
				b.Fatal(err)
			}
			if err := t.Sealed(u, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
