package restore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/state"
)

// storeJob replays the changelog of one store.
type storeJob struct {
	j        *Job
	log      Log
	known    state.Changelog
	restorer *state.Restorer
	start    int64
	at       int64
	end      int64
	epoch    int32
	sinceMs  int64
	levelMs  int64 // of a copy: when it was last level, 0 never
	done     bool
	buf      []state.RestoreRecord
	replayer op.Replayer // of a source topic
	skipped  int
	applied  int  // records of the last read
	copying  bool // a Standby has told of it
}

// step begins, reads one chunk, or ends.
func (s *storeJob) step(ctx context.Context) error {
	if s.restorer == nil {
		if err := s.begin(); err != nil {
			return err
		}
	}
	if s.at < s.end {
		if err := s.read(ctx); err != nil {
			return err
		}
	}
	if s.at >= s.end {
		return s.finish()
	}
	s.report()
	return nil
}

// begin decides from where to where to read.
func (s *storeJob) begin() error {
	set := s.j.res.Set
	s.end = s.known.EndOffset
	if s.log.Reused {
		// What lies behind the committed offset comes in as input.
		s.end = max(0, min(s.end, s.j.res.Committed[s.log.TopicPartition].Offset))
	}
	s.at, s.epoch = s.known.StartOffset, -1
	if p, ok := set.Position(s.log.Store); ok {
		if reason := s.unusable(); reason != "" {
			if err := set.Reset(s.log.Store, s.known, reason); err != nil {
				return err
			}
		} else {
			s.at, s.epoch = max(p.Offset, s.known.StartOffset), p.Epoch
			if s.j.cfg.SkipGap {
				s.at = max(s.at, s.end)
			}
		}
	}
	s.warnEmpty()
	var err error
	if s.replayer = nil; s.log.Source != nil {
		if s.replayer, err = s.log.Source.NewReplayer(s.log.TopicPartition); err != nil {
			return err
		}
	}
	if s.restorer, err = set.BeginRestore(s.log.Store); err != nil {
		return err
	}
	if s.log.Kind != state.KeyValue {
		s.restorer.LimitTime(s.j.observed(s.log.Store))
	}
	s.start, s.sinceMs = s.at, s.j.cfg.NowMs()
	return nil
}

// warnEmpty tells of a changelog from which everything was deleted although the task has processed input: what the store held
// is lost, and results go on as if it had never been. A broker deletes by the time of the records, which are those of events.
func (s *storeJob) warnEmpty() {
	if s.log.Reused || s.known.EndOffset == 0 || s.known.StartOffset < s.known.EndOffset {
		return
	}
	if _, stored := s.j.res.Set.Position(s.log.Store); stored {
		return
	}
	for _, in := range s.j.cfg.Inputs {
		if c := s.j.res.Committed[in.TopicPartition]; c.Offset > 0 {
			s.j.cfg.Logger.Warn("the changelog of a store held records and is empty now, although input has been processed: the store begins without what it held; if the records were deleted for their age, raise windowstore.changelog.additional.retention.ms or the topic's retention.ms",
				"task", s.j.cfg.Task, "store", s.log.Store, "topic", s.log.Topic, "partition", s.log.Partition, "end_offset", s.known.EndOffset,
				"input", in.Topic, "committed", c.Offset)
			return
		}
	}
}

// observed is how far the time of a store's step was when the task's offsets were committed.
func (j *Job) observed(store string) int64 {
	var texts []string
	for _, in := range j.cfg.Inputs {
		if c := j.res.Committed[in.TopicPartition]; c.Offset >= 0 {
			texts = append(texts, c.Metadata)
		}
	}
	return codec.ObservedAt(store, texts)
}

// unusable tells why a store cannot go on from its position. Sets that were opened for this job have been asked before; this is for
// those that were open already: over a failure, or as a copy of the task.
func (s *storeJob) unusable() string {
	h, log := s.j.res.Set.Header(s.log.Store), s.known
	if h.LevelMs == state.NoTime {
		log.DeleteRetentionMs = 0 // nobody else has written the changelog, or nothing was missed so far
	}
	return state.CheckStore(s.log.Kind, h, log, s.j.cfg.NowMs())
}

func (s *storeJob) read(ctx context.Context) error {
	s.applied = 0
	b, err := s.j.cfg.Reader.Read(ctx, s.log.TopicPartition, s.at, s.j.cfg.MaxBytes, s.j.cfg.Wait)
	if err != nil {
		if errors.Is(err, broker.ErrOffsetOutOfRange) {
			return s.outOfRange(err)
		}
		return s.j.errorf("store %s: restore from %s-%d@%d: %w", s.log.Store, s.log.Topic, s.log.Partition, s.at, err)
	}
	s.buf = slices.Grow(s.buf[:0], len(b.Records))
	for i := range b.Records {
		r := &b.Records[i]
		if r.Offset >= s.end {
			break // behind the mark: input of the task, or newer than what is asked for
		}
		rec, err := s.log.Record(r)
		if err != nil {
			return s.j.errorf("%w", err)
		}
		if s.replayer != nil {
			was, ok := s.replayer.Replay(r)
			if !ok {
				s.skipped++
				continue
			}
			if rec.TimestampMs, rec.Headers = was.TimestampMs, was.Headers; was.Null {
				rec.Value = nil
			}
		}
		s.buf = append(s.buf, rec)
	}
	next := min(b.Position, s.end)
	if b.LastEpoch >= 0 {
		// Not that of the last record: the position may be behind a marker that another leader has written, and would lie
		// behind the end of the record's epoch, as if the log had been truncated.
		s.epoch = b.LastEpoch
	}
	if err := s.restorer.Apply(s.buf, state.Position{Offset: next, Epoch: s.epoch}); err != nil {
		return err
	}
	s.applied = len(s.buf)
	clear(s.buf)
	s.at = next
	return nil
}

// outOfRange goes on after the changelog was cut or truncated while it was read: a window store keeps what it has, because
// only expired windows are cut; any other is built anew from what is there.
func (s *storeJob) outOfRange(cause error) error {
	var at *broker.OffsetRangeError
	known := errors.As(cause, &at) && at.LogStart >= 0
	s.j.cfg.Logger.Warn("a changelog was cut while it was restored", "task", s.j.cfg.Task, "store", s.log.Store, "error", cause)
	if known && at.LogStart > s.at && s.log.Kind.Cut() {
		s.at = min(at.LogStart, s.end)
		return nil
	}
	if !known {
		return s.j.errorf("store %s: restore: %w", s.log.Store, cause)
	}
	s.restorer.Stop()
	s.restorer = nil
	set := s.j.res.Set
	s.known.StartOffset = at.LogStart
	if at.End >= 0 {
		s.known.EndOffset = min(s.known.EndOffset, at.End)
	}
	if err := set.Reset(s.log.Store, s.known, "its changelog was cut while it was restored"); err != nil {
		return err
	}
	return s.begin()
}

func (s *storeJob) finish() error {
	sum, err := s.restorer.Finish(state.Position{Offset: s.at, Epoch: s.epoch})
	if err != nil {
		return err
	}
	s.j.sawTimestamp(s.log.Store, sum.HighestTimestampMs)
	s.done = true
	if s.skipped > 0 {
		s.j.cfg.Logger.Info("a restore passed over records of a source topic that were skipped when they came in", "task", s.j.cfg.Task,
			"store", s.log.Store, "topic", s.log.Topic, "records", s.skipped)
	}
	if s.at >= s.known.EndOffset {
		if err := s.j.res.Set.SetLevel(s.log.Store, s.j.levelMs); err != nil {
			return err
		}
	}
	s.report()
	return nil
}

// sawTimestamp notes the highest timestamp of changelog records of a store.
func (j *Job) sawTimestamp(store string, ms int64) {
	if ms == state.NoTime {
		return
	}
	if j.res.HighestTimestampMs == nil {
		j.res.HighestTimestampMs = make(map[string]int64)
	}
	was, ok := j.res.HighestTimestampMs[store]
	if !ok || ms > was {
		j.res.HighestTimestampMs[store] = ms
	}
}

func (s *storeJob) report() {
	if s.j.cfg.Progress == nil {
		return
	}
	s.j.cfg.Progress(Progress{
		Task: s.j.cfg.Task, Store: s.log.Store, Log: s.log.TopicPartition,
		Start: s.start, At: s.at, End: s.end, Records: s.restorer.Summary().Records,
		Elapsed: time.Duration(s.j.cfg.NowMs()-s.sinceMs) * time.Millisecond, Done: s.done,
	})
}

// deleteRetention reads how long a topic keeps deletions; 0 where it keeps them as long as its records.
func deleteRetention(configs map[string]string) int64 {
	if !strings.Contains(configs["cleanup.policy"], "compact") {
		return 0
	}
	ms, err := strconv.ParseInt(configs["delete.retention.ms"], 10, 64)
	if err != nil {
		return 0
	}
	return ms
}
