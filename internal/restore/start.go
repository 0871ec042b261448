package restore

import (
	"context"
	"fmt"
	"time"

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
	Own    bool  // the source says so itself, not the setting
}

// String names the policy and where it comes from.
func (r Reset) String() string {
	from := "auto.offset.reset"
	if r.Own {
		from = "of the source"
	}
	switch r.Kind {
	case ResetLatest:
		return "latest (" + from + ")"
	case ResetBack:
		return fmt.Sprintf("%v back (%s)", time.Duration(r.BackMs)*time.Millisecond, from)
	case ResetNone:
		return "none (" + from + ")"
	}
	return "earliest (" + from + ")"
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
		from, err := j.reset(ctx, in, at, first[in.TopicPartition], end[in.TopicPartition])
		if err != nil {
			return nil, nil, err
		}
		if at >= 0 {
			j.warnGone(in, at, from, first[in.TopicPartition], end[in.TopicPartition])
		}
		start[in.TopicPartition] = from
	}
	return start, end, nil
}

// warnGone tells of a committed offset that is not in the log: where reading goes on instead, why there, and what that means for
// results and state.
func (j *Job) warnGone(in Input, committed, from, first, end int64) {
	text := "the committed offset is below the start of the log: the records between were deleted before they were processed, and are in no result; if they were deleted for their age, raise the topic's retention.ms"
	if committed > end {
		text = "the committed offset is beyond the end of the log: the topic was made anew, or lost its last records. The reset policy decides where reading goes on; "
		switch {
		case len(j.cfg.Logs) == 0:
			text += "records that were processed before are processed again"
		case from < end:
			text += "the stores keep what they hold, and what is read again comes on top of it: counts and sums take it twice. If the results should be built anew, stop all instances and reset the application (docs/reset.md)"
		default:
			text += "the stores keep what they hold, and the records that are in the log now are not processed. If the results should be built anew, stop all instances and reset the application (docs/reset.md)"
		}
	}
	j.cfg.Logger.Warn(text, "task", j.cfg.Task, "topic", in.Topic, "partition", in.Partition, "committed", committed, "log_start", first, "log_end", end,
		"goes_on_at", from, "reset_policy", in.Reset.String(), "stores", j.storeNames())
}

// storeNames lists the task's stores that have a changelog.
func (j *Job) storeNames() []string {
	names := make([]string, len(j.cfg.Logs))
	for i, l := range j.cfg.Logs {
		names[i] = l.Store
	}
	return names
}

// reset chooses where to begin by the input's policy.
func (j *Job) reset(ctx context.Context, in Input, committed, first, end int64) (int64, error) {
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
