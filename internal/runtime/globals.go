package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// globals fills the global tables: to the ends of their topics before the first task runs, and on from there.
type globals struct {
	fetcher broker.Fetcher
	admin   broker.Admin
	handler processor.Handler
	metrics *metrics.Registry
	stores  map[string]any
	readers map[broker.TopicPartition][]globalReader
	ends    map[broker.TopicPartition]int64 // to be reached first
}

type globalReader struct {
	store op.GlobalStore
	step  string
}

// newGlobals makes the tables, empty.
func newGlobals(t *topology.Topology, specs []topology.GlobalSpec) (*globals, error) {
	g := &globals{stores: make(map[string]any), readers: make(map[broker.TopicPartition][]globalReader)}
	for _, s := range specs {
		name := s.Global.Store.Name
		f, ok := s.Global.Store.Op.(op.GlobalFactory)
		if !ok {
			return nil, fmt.Errorf("millrace: global table %s cannot be made: it has no factory", name)
		}
		store := f.OpenGlobal()
		g.stores[name] = store
		for _, tp := range s.Inputs {
			g.readers[tp] = append(g.readers[tp], globalReader{store: store, step: s.Global.Processor.Name})
		}
	}
	return g, nil
}

func (g *globals) partitions() []broker.TopicPartition {
	tps := slices.Collect(maps.Keys(g.readers))
	broker.SortPartitions(tps)
	return tps
}

// begin finds where to read from and what to reach first.
func (g *globals) begin(ctx context.Context) error {
	tps := g.partitions()
	if len(tps) == 0 {
		return nil
	}
	starts, err := g.admin.ListOffsets(ctx, broker.Earliest, tps...)
	if err != nil {
		return fmt.Errorf("millrace: global tables: %w", err)
	}
	ends, err := g.admin.ListOffsets(ctx, broker.HighWatermark, tps...)
	if err != nil {
		return fmt.Errorf("millrace: global tables: %w", err)
	}
	g.ends = ends
	for i, tp := range tps {
		if starts[tp] >= ends[tp] {
			delete(g.ends, tp)
		}
		g.fetcher.Assign(tp, starts[tp], uint64(i+1))
	}
	return nil
}

// full tells whether every table has reached the end that its topic had at the beginning.
func (g *globals) full() bool { return len(g.ends) == 0 }

// add takes what was fetched into the tables.
func (g *globals) add(batches []broker.Batch) error {
	for i := range batches {
		b := &batches[i]
		if b.Err != nil {
			// Kafka Streams stops too: a table that misses rows would give wrong results in silence.
			return fmt.Errorf("millrace: global table: fetch %s-%d: %w", b.Topic, b.Partition, b.Err)
		}
		for _, r := range g.readers[b.TopicPartition] {
			for j := range b.Records {
				if _, err := op.ApplyGlobal(op.GlobalApply{
					Store: r.store, Step: r.step, In: b.TopicPartition, Record: &b.Records[j], Handler: g.handler, Metrics: g.metrics,
				}); err != nil {
					return err
				}
			}
		}
		if end, ok := g.ends[b.TopicPartition]; ok && b.Position >= end {
			delete(g.ends, b.TopicPartition)
		}
	}
	return nil
}

// fill reads until the tables are full.
func (g *globals) fill(ctx context.Context) error {
	for !g.full() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := g.add(g.fetcher.Poll(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// follow keeps the tables up to date until the context ends.
func (g *globals) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := g.add(g.fetcher.Poll(ctx)); err != nil {
			return err
		}
	}
	return nil
}
