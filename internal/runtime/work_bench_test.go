package runtime

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/clock"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/state"
	"github.com/millrace-io/millrace/internal/task"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// nullProducer acknowledges at once, or a turn later.
type nullProducer struct {
	offset int64
	later  bool
	wait   []func(int64, error)
	spare  []func(int64, error)
}

func (p *nullProducer) Produce(_ broker.ProduceRecord, done func(int64, error)) {
	if p.later {
		p.wait = append(p.wait, done)
		return
	}
	p.offset++
	done(p.offset, nil)
}

// answer acknowledges what waits.
func (p *nullProducer) answer() {
	p.wait, p.spare = p.spare[:0], p.wait
	for _, done := range p.spare {
		p.offset++
		done(p.offset, nil)
	}
}
func (p *nullProducer) BufferedBytes() int64        { return 0 }
func (p *nullProducer) Flush(context.Context) error { return nil }
func (p *nullProducer) Close()                      {}

func benchmarkWork(b *testing.B, topo *topology.Topology, later bool) {
	sub := topo.Subtopologies()[0]
	specs, err := task.StoreSpecs(sub)
	if err != nil {
		b.Fatal(err)
	}
	set, err := state.NewMemorySet(specs)
	if err != nil {
		b.Fatal(err)
	}
	prod := &nullProducer{later: later}
	sh := &shared{
		clock: clock.System(), producer: prod, maxRecord: func(string) int { return 1 << 20 }, sliceMs: 10, sliceRecords: 4096,
	}
	sh.privateBytes.Store(1 << 30)
	var stores []string
	for _, s := range sub.Stores {
		stores = append(stores, s.Name)
	}
	box := newOutbox(prod, stores, func() {})
	box.ordered, box.total, box.onDue = len(stores) > 0, new(atomic.Int64), (*outbox).release
	l := &life{slot: &slot{}, name: "0_0", set: set, box: box}
	cfg := &task.Config{
		ID: processor.TaskID{}, Sub: sub, Inputs: []broker.TopicPartition{tp("in", 0)}, Set: set, Ctx: context.Background(),
		NowMs: sh.clock.NowMs, Metrics: metrics.New(), Partitions: func(string) (int32, error) { return 4, nil },
		TopicName: func(n string) string { return topology.DecoratedTopic("app", n) }, ReadCacheBytes: 8 << 20,
	}
	if d := (&Work{life: l, shared: sh, open: cfg}).Do(); d.Err != nil {
		b.Fatal(d.Err)
	}
	const size = 4096
	records := make([]broker.Record, size)
	for i := range records {
		records[i] = broker.Record{Key: fmt.Appendf(nil, "key-%08d", i%1000), Value: make([]byte, 100), TimestampMs: int64(i)}
	}
	b.ReportAllocs()
	b.ResetTimer()
	at := int64(0)
	for n := 0; n < b.N; n += size {
		batch := make([]broker.Record, size)
		copy(batch, records)
		for i := range batch {
			batch[i].Offset = at + int64(i)
		}
		at += size
		w := &Work{life: l, shared: sh, process: true, handOver: n/size%16 == 0, batches: []broker.Batch{{
			TopicPartition: tp("in", 0), Records: batch, Position: at, HighWater: at, StableEnd: at}}}
		for {
			d := w.Do()
			if d.Err != nil {
				b.Fatal(d.Err)
			}
			if !d.more {
				break
			}
			w = &Work{life: l, shared: sh, process: true}
		}
		prod.answer()
		_, ready, _, _ := l.box.look()
		for _, u := range ready {
			if err := l.task.Sealed(u.unit, u.positions); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// What a record costs in the engine between fetch and produce, without either.
func BenchmarkWork(b *testing.B) {
	b.Run("copy", func(b *testing.B) { benchmarkWork(b, copyTopology(b), false) })
	b.Run("table", func(b *testing.B) { benchmarkWork(b, countTopology(b), false) })
	b.Run("table answered later", func(b *testing.B) { benchmarkWork(b, countTopology(b), true) })
}
