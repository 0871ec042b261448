package restore

import (
	"context"
	"fmt"

	"github.com/millrace-io/millrace/internal/broker"
)

// ResetKind tells where reading of an input begins that has no committed offset.
type ResetKind uint8

// The places to begin.
const (
	ResetEarliest ResetKind = iota
	ResetLatest
	ResetBack // at the records younger than some time
	ResetNone // nowhere: it is an error
)

// Reset is an input's reset policy.
type Reset struct {
	Kind   ResetKind
	BackMs int64 // with ResetBack
}

// NoOffsetError says that an input has no committed offset, or one that is not in its log any more, and that its policy is
// not to choose one.
type NoOffsetError struct {
	broker.TopicPartition
	Offset     int64 // the committed one, -1 if there is none
	Start, End int64 // of the log
}

// Error tells what to do.
func (e *NoOffsetError) Error() string {
	what := "no offset is committed"
	if e.Offset >= 0 {
		what = fmt.Sprintf("the committed offset %d is not in the log, which holds %d to %d", e.Offset, e.Start, e.End)
	}
	return fmt.Sprintf("millrace: %s-%d: %s, and its reset policy is none: set the group's offset by hand, or give the source another policy (millrace.StartEarliest and its kin, auto.offset.reset)",
		e.Topic, e.Partition, what)
}

// TimeLister finds offsets by time. It is a part of an Admin that not every one has.
type TimeLister interface {
	// OffsetsAt gives for each partition the first offset whose record's timestamp is at or after a time; the end of the
	// log where there is none.
	OffsetsAt(ctx context.Context, tsMs int64, tps ...broker.TopicPartition) (map[broker.TopicPartition]int64, error)
}

// positions finds for each input where reading begins and where its log ends.
func (j *Job) positions(ctx context.Context) (start, end map[broker.TopicPartition]int64, err error) {
	start = make(map[broker.TopicPartition]int64, len(j.cfg.Inputs))
	end = make(map[broker.TopicPartition]int64, len(j.cfg.Inputs))
	var committed, uncommitted []broker.TopicPartition
	for _, in := range j.cfg.Inputs {
		if in.Committed {
			committed = append(committed, in.TopicPartition)
		} else {
			uncommitted = append(uncommitted, in.TopicPartition)
		}
	}
	list := func(which broker.ListOffset, into map[broker.TopicPartition]int64, tps []broker.TopicPartition) error {
		if len(tps) == 0 {
			return nil
		}
		m, err := j.cfg.Admin.ListOffsets(ctx, which, tps...)
		if err != nil {
			return j.errorf("offsets of inputs: %w", err)
		}
		for tp, o := range m {
			into[tp] = o
		}
		return nil
	}
	first := make(map[broker.TopicPartition]int64, len(j.cfg.Inputs))
	if err := list(broker.Earliest, first, j.inputs()); err != nil {
		return nil, nil, err
	}
	if err := list(broker.HighWatermark, end, uncommitted); err != nil {
		return nil, nil, err
	}
	if err := list(broker.StableEnd, end, committed); err != nil {
		return nil, nil, err
	}
	for _, in := range j.cfg.Inputs {
		at := j.res.Committed[in.TopicPartition].Offset
		if at >= 0 && at >= first[in.TopicPartition] && at <= end[in.TopicPartition] {
			start[in.TopicPartition] = at
			continue
		}
		if at, err = j.reset(ctx, in, at, first[in.TopicPartition], end[in.TopicPartition]); err != nil {
			return nil, nil, err
		}
		start[in.TopicPartition] = at
	}
	return start, end, nil
}

// reset chooses where to begin by the input's policy.
func (j *Job) reset(ctx context.Context, in Input, committed, first, end int64) (int64, error) {
	if committed >= 0 {
		j.cfg.Logger.Warn("the committed offset is not in the log any more: records were deleted before they were processed, or the log was truncated",
			"task", j.cfg.Task, "topic", in.Topic, "partition", in.Partition, "committed", committed, "log_start", first, "log_end", end)
	}
	switch in.Reset.Kind {
	case ResetLatest:
		return end, nil
	case ResetNone:
		return 0, &NoOffsetError{TopicPartition: in.TopicPartition, Offset: committed, Start: first, End: end}
	case ResetBack:
		lister, ok := j.cfg.Admin.(TimeLister)
		if !ok {
			return 0, j.errorf("%s-%d: the client cannot find offsets by time, which the source's reset policy needs", in.Topic, in.Partition)
		}
		m, err := lister.OffsetsAt(ctx, j.cfg.NowMs()-in.Reset.BackMs, in.TopicPartition)
		if err != nil {
			return 0, j.errorf("offset by time of %s-%d: %w", in.Topic, in.Partition, err)
		}
		return m[in.TopicPartition], nil
	}
	return first, nil
}
