package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
)

// globals fills the global stores: to the ends of their topics before the first task runs, and on from there.
type globals struct {
	fetcher broker.Fetcher
	admin   broker.Admin
	env     *op.Env
	stores  map[string]any
	feeds   map[broker.TopicPartition][]op.GlobalFeed
	ends    map[broker.TopicPartition]int64 // to be reached first
	started bool
}

// newGlobals makes the stores, empty.
func newGlobals(cfg op.GlobalConfig, specs []topology.GlobalSpec) (*globals, error) {
	g := &globals{stores: make(map[string]any), feeds: make(map[broker.TopicPartition][]op.GlobalFeed)}
	cfg.GlobalStores = g.stores
	g.env = op.NewGlobalEnv(cfg)
	for _, s := range specs {
		name := s.Global.Store.Name
		f, ok := s.Global.Store.Op.(op.GlobalFactory)
		if !ok {
			return nil, fmt.Errorf("millrace: global store %s cannot be made: it has no factory", name)
		}
		feed, err := f.OpenGlobal(g.env, s.Global.Processor.Name)
		if err != nil {
			return nil, err
		}
		g.stores[name] = feed.Store()
		for _, tp := range s.Inputs {
			g.feeds[tp] = append(g.feeds[tp], feed)
		}
	}
	return g, nil
}

// start calls Init of the processors that fill stores.
func (g *globals) start() error {
	g.started = true
	return g.env.Init()
}

// close closes the processors that fill stores, once nothing does any more.
func (g *globals) close() error {
	if !g.started {
		return nil
	}
	return g.env.Close()
}

func (g *globals) partitions() []broker.TopicPartition {
	tps := slices.Collect(maps.Keys(g.feeds))
	broker.SortPartitions(tps)
	return tps
}

// begin finds where to read from and what to reach first.
func (g *globals) begin(ctx context.Context) error {
	tps := g.partitions()
	starts, err := g.admin.ListOffsets(ctx, broker.Earliest, tps...)
	if err != nil {
		return fmt.Errorf("millrace: global stores: %w", err)
	}
	ends, err := g.admin.ListOffsets(ctx, broker.HighWatermark, tps...)
	if err != nil {
		return fmt.Errorf("millrace: global stores: %w", err)
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

// full tells whether every store has reached the end that its topic had at the beginning.
func (g *globals) full() bool { return len(g.ends) == 0 }

// add takes what was fetched into the stores.
func (g *globals) add(batches []broker.Batch) error {
	for i := range batches {
		b := &batches[i]
		if b.Err != nil {
			// Kafka Streams stops too: a store that misses rows would give wrong results in silence.
			return fmt.Errorf("millrace: global store: fetch %s-%d: %w", b.Topic, b.Partition, b.Err)
		}
		for _, feed := range g.feeds[b.TopicPartition] {
			for j := range b.Records {
				if err := feed.Take(&b.TopicPartition, &b.Records[j]); err != nil {
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

// fill reads until the stores are full.
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

// follow keeps the stores up to date until the context ends.
func (g *globals) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := g.add(g.fetcher.Poll(ctx)); err != nil {
			return err
		}
	}
	return nil
}
