package runtime

import (
	"context"
	"errors"
	"slices"

	"github.com/millrace-io/millrace/internal/broker"
)

// Offsets is how far the application is in one input partition.
type Offsets struct {
	broker.TopicPartition
	Committed, Start, End int64
}

// ErrNotStarted says that the instance does not know its inputs yet.
var ErrNotStarted = errors.New("the application has not found its topics yet")

// Offsets asks how far the application is in all partitions that its topology reads, in its other instances too. What is
// committed is asked for first, so that what comes in meanwhile shows as not processed. It may be called by any goroutine.
func (r *Runner) Offsets(ctx context.Context, admin broker.Admin) ([]Offsets, error) {
	plan := r.current.Load()
	if plan == nil {
		return nil, ErrNotStarted
	}
	var user, internal, all []broker.TopicPartition
	for _, t := range plan.Tasks {
		for _, in := range t.Inputs {
			all = append(all, in.TopicPartition)
			if in.Source.Internal || r.cfg.Settings.ReadCommitted {
				internal = append(internal, in.TopicPartition)
			} else {
				user = append(user, in.TopicPartition)
			}
		}
	}
	broker.SortPartitions(all)
	all = slices.Compact(all)
	committed, err := admin.CommittedOffsets(ctx, r.cfg.AppID, all...)
	if err != nil {
		return nil, err
	}
	starts, err := admin.ListOffsets(ctx, broker.Earliest, all...)
	if err != nil {
		return nil, err
	}
	ends := make(map[broker.TopicPartition]int64, len(all))
	for _, part := range []struct {
		which broker.ListOffset
		tps   []broker.TopicPartition
	}{{broker.HighWatermark, user}, {broker.StableEnd, internal}} {
		if len(part.tps) == 0 {
			continue
		}
		m, err := admin.ListOffsets(ctx, part.which, part.tps...)
		if err != nil {
			return nil, err
		}
		for tp, o := range m {
			ends[tp] = o
		}
	}
	out := make([]Offsets, 0, len(all))
	for _, tp := range all {
		out = append(out, Offsets{TopicPartition: tp, Committed: committed[tp].Offset, Start: starts[tp], End: ends[tp]})
	}
	return out, nil
}
