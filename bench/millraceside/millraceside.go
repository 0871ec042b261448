// Package millraceside is millrace's side of the benchmark.
package millraceside

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/internal/side"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// New is the side.
func New() side.Side { return millraceSide{} }

type millraceSide struct{}

// Run runs the scenario's topology until ctx ends.
func (millraceSide) Run(ctx context.Context, c side.Config, p *side.Progress) error {
	guarantee := millrace.AtLeastOnce
	if c.Guarantee == side.ExactlyOnce {
		guarantee = millrace.ExactlyOnceV2
	}
	topology, err := build(c, p)
	if err != nil {
		return err
	}
	opts := []millrace.AppOption{
		millrace.ApplicationID(c.AppID), millrace.Brokers(c.Brokers...), millrace.StateDir(c.StateDir),
		millrace.Guarantee(guarantee), millrace.CommitInterval(c.CommitInterval), millrace.CacheBytes(c.CacheBytes),
		millrace.Standbys(c.Standbys), millrace.OnRestore(restored(p)),
	}
	if c.SessionTimeout > 0 {
		opts = append(opts, millrace.SessionTimeout(c.SessionTimeout))
	}
	if c.Stay {
		opts = append(opts, millrace.StayInGroup())
	}
	app, err := millrace.NewApp(topology, opts...)
	if err != nil {
		return err
	}
	if c.Standbys > 0 {
		p.Copies(func() side.Copies { return copies(app) })
	}
	return app.Run(ctx)
}

// restored adds up the restores that have ended.
func restored(p *side.Progress) func(millrace.RestoreProgress) {
	var began time.Time
	var sum side.Restored
	return func(r millrace.RestoreProgress) {
		now := time.Now()
		if at := now.Add(-r.Elapsed); began.IsZero() || at.Before(began) {
			began = at
		}
		if r.Done {
			sum = side.Restored{Stores: sum.Stores + 1, Records: sum.Records + r.Records, Took: now.Sub(began)}
			p.Restored(sum)
		}
	}
}

// copies are the standbys that are known to be level, or how far they are not. Each task of these topologies has one store.
func copies(app *millrace.App) side.Copies {
	var c side.Copies
	for _, s := range app.Metrics().Standbys {
		if s.Behind >= 0 {
			c.Stores++
			c.Behind += s.Behind
		}
	}
	return c
}

// countedKeys is the string serde that counts each input record as it is decoded, as the Java side's deserializer does.
func countedKeys(p *side.Progress) serde.Serde[string] {
	return serde.Func(serde.String.Append, func(src []byte) (string, error) {
		lane := byte(0)
		if len(src) > 0 {
			lane = src[len(src)-1]
		}
		p.Add(lane, 1)
		return serde.String.Decode(src)
	})
}

func build(c side.Config, p *side.Progress) (*millrace.Topology, error) {
	b := millrace.NewBuilder()
	input := millrace.From(b, millrace.NewTopic(c.Input, countedKeys(p), serde.Bytes))
	bytesOut := millrace.NewTopic(c.Output, serde.String, serde.Bytes)
	switch c.Scenario {
	case side.FilterMap:
		kept := input.Filter(func(k string, _ []byte) bool { return k[len(k)-1] != side.FilterDrops })
		millrace.MapValues(kept, marked).To(bytesOut)
	case side.Count, side.CountNoCache:
		counts := millrace.Count(input.GroupByKey(), millrace.As(c.Scenario.StoreName()), millrace.WithKey(serde.String))
		counts.ToStream().To(millrace.NewTopic(c.Output, serde.String, serde.Int64))
	case side.GroupCount:
		groups := millrace.GroupBy(input, func(k string, _ []byte) string { return k[:side.GroupBytes] },
			millrace.RepartitionName(side.Groups), millrace.WithKey(serde.String))
		millrace.Count(groups, millrace.As(c.Scenario.StoreName())).ToStream().To(millrace.NewTopic(c.Output, serde.String, serde.Int64))
	case side.TumblingCount:
		countWindows(c, input, window.Tumbling(side.WindowSize).Grace(side.WindowGrace))
	case side.HoppingCount:
		countWindows(c, input, window.Hopping(side.WindowSize, side.WindowAdvance).Grace(side.WindowGrace))
	case side.SessionCount:
		sessions := input.GroupByKey(millrace.WithKey(serde.String)).SessionBy(window.Session(side.SessionGap).Grace(side.SessionGrace))
		counts, _ := millrace.CountSessions(sessions, millrace.As(c.Scenario.StoreName()))
		counts.ToStream().To(millrace.NewTopic(c.Output, serde.SessionWindowed(serde.String), serde.Int64))
	case side.StreamTableJoin:
		table := millrace.TableFrom(b, millrace.NewTopic(c.Table, serde.String, serde.Bytes), millrace.As(c.Scenario.StoreName()))
		millrace.JoinTable(input, table, joined).To(bytesOut)
	default:
		return nil, fmt.Errorf("bench: unknown scenario %q", c.Scenario)
	}
	return b.Build()
}

func countWindows(c side.Config, input millrace.Stream[string, []byte], w window.Windows) {
	counts, _ := millrace.CountWindows(input.GroupByKey(millrace.WithKey(serde.String)).WindowBy(w), millrace.As(c.Scenario.StoreName()))
	counts.ToStream().To(millrace.NewTopic(c.Output, serde.Windowed(serde.String, side.WindowSize), serde.Int64))
}

func marked(v []byte) []byte {
	out := append([]byte(nil), v...)
	out[0] = side.MappedMark
	return out
}

func joined(v, row []byte) []byte {
	out := append([]byte(nil), v...)
	copy(out[:side.JoinedBytes], row)
	return out
}
