package restore

import (
	"context"
	"errors"
	"maps"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/state"
)

// Standby keeps a copy of a task's state level with its changelogs while another instance runs the task. Who takes the task
// over is given its stores as they are ([Standby.Release]), and a [Job] with them reads what is missing.
//
// It owns no goroutine and asks nothing by the clock: after Open, whoever carries it tells it again and again where the
// changelogs end (Look), for many standbys with one request, and lets it read (Read) until it is level. It reads committed
// records only, so it is never ahead of what is decided.
//
// In Kafka Streams: StandbyTask.
type Standby struct {
	job      *Job
	lookedMs int64
	renewMs  int64 // when the stores were last written though nothing had come
	flushMs  int64 // when they were last written
}

// standbyFlushMs is how long records may wait to be written when a standby is level: small writes are gathered.
const standbyFlushMs = 1000

// standbyRenewMs is how often a standby to which nothing comes writes that it is level, so that its stores are not taken for
// old after a crash.
const standbyRenewMs = 600_000

// NewStandby makes a standby that has done nothing yet. Of the configuration it does not use Progress. It owns the set, if it is
// given one.
func NewStandby(cfg Config) *Standby { return &Standby{job: New(cfg)} }

// Open finds out what the stores on disk are worth, and opens them.
func (s *Standby) Open(ctx context.Context) error {
	if err := s.job.describeLogs(ctx); err != nil {
		return err
	}
	s.lookedMs = s.job.levelMs
	return s.job.open(ctx)
}

// Asks names what Look has to be told: the changelogs whose last stable offsets, and the inputs whose committed offsets count.
func (s *Standby) Asks() (logs, inputs []broker.TopicPartition) {
	windowed := false
	for _, l := range s.job.cfg.Logs {
		if l.Reused {
			inputs = append(inputs, l.TopicPartition)
		} else {
			logs = append(logs, l.TopicPartition)
		}
		windowed = windowed || l.Kind != state.KeyValue
	}
	if windowed {
		// What expires goes by the time that stands with the committed offsets.
		inputs = s.job.inputs()
	}
	return logs, inputs
}

// Look takes the ends of the changelogs and the committed offsets, as they were at a time. Offsets that are not among them
// are as they were. A changelog that ends before the copy, and a copy that was not looked at for so long that deletions may be gone
// from its changelog, are errors: close the standby and open another one, which finds out what can be kept.
func (s *Standby) Look(atMs int64, ends map[broker.TopicPartition]int64, committed map[broker.TopicPartition]broker.OffsetMeta) error {
	s.lookedMs = atMs
	if s.job.res.Committed == nil {
		s.job.res.Committed = make(map[broker.TopicPartition]broker.OffsetMeta)
	}
	maps.Copy(s.job.res.Committed, committed)
	for _, l := range s.job.stores {
		if l.restorer == nil {
			if err := l.begin(); err != nil {
				return err
			}
		}
		if reason := l.missed(atMs); reason != "" {
			return s.job.errorf("store %s: %s", l.log.Store, reason)
		}
		if l.log.Reused {
			l.end = max(l.at, s.job.res.Committed[l.log.TopicPartition].Offset)
		} else if end, ok := ends[l.log.TopicPartition]; ok {
			if end < l.at {
				return s.job.errorf("store %s: its changelog %s-%d ends at %d, and its copy stands at %d: the log was truncated",
					l.log.Store, l.log.Topic, l.log.Partition, end, l.at)
			}
			l.end = end
		}
		l.known.EndOffset = max(l.known.EndOffset, l.end)
		if l.log.Kind != state.KeyValue {
			l.restorer.LimitTime(s.job.observed(l.log.Store))
		}
		l.tell(CopyBegun)
	}
	return s.settle(false)
}

// missed tells why a copy that was level before may have missed deletions since: this process stood still, or could not read.
func (s *storeJob) missed(nowMs int64) string {
	if s.levelMs == 0 {
		return ""
	}
	log := state.UnknownChangelog()
	log.DeleteRetentionMs = s.known.DeleteRetentionMs
	return state.CheckStore(s.log.Kind, state.Header{HasPosition: true, LevelMs: s.levelMs}, log, nowMs)
}

// Read reads one chunk of a changelog that goes on, and tells whether there is more to read.
func (s *Standby) Read(ctx context.Context) (more bool, err error) {
	j := s.job
	for range j.stores {
		l := j.stores[j.turn]
		j.turn = (j.turn + 1) % len(j.stores)
		if l.restorer == nil || l.at >= l.end {
			continue
		}
		if err := l.read(ctx); err != nil {
			return false, err
		}
		l.tell(CopyRead)
		break
	}
	if s.Behind() > 0 {
		return true, nil
	}
	return false, s.settle(false)
}

// Behind is how many offsets there are up to the ends of the last Look.
func (s *Standby) Behind() (n int64) {
	for _, l := range s.job.stores {
		n += max(0, l.end-l.at)
	}
	return n
}

// Position is how far the copy is: the sum of the positions in its changelogs.
func (s *Standby) Position() (at int64) {
	for _, l := range s.job.stores {
		at += l.at
	}
	return at
}

// settle writes what was gathered of stores that are level, if it is due, and notes that they are.
func (s *Standby) settle(last bool) error {
	now := s.job.cfg.NowMs()
	due := last || now-s.flushMs >= standbyFlushMs
	renew := now-s.renewMs >= standbyRenewMs
	for _, l := range s.job.stores {
		if l.restorer == nil || l.at < l.end && !last {
			continue
		}
		if l.at >= l.end {
			if err := s.job.res.Set.SetLevel(l.log.Store, s.lookedMs); err != nil {
				return err
			}
			l.levelMs = s.lookedMs
		}
		if renew {
			if err := l.restorer.Apply(nil, state.Position{Offset: l.at, Epoch: l.epoch}); err != nil {
				return err
			}
		}
		if due {
			if err := l.restorer.Flush(); err != nil {
				return err
			}
		}
	}
	if due {
		s.flushMs = now
	}
	if renew {
		s.renewMs = now
	}
	return nil
}

// Release ends the standby and gives its stores, open, to whoever takes the task over. After an error the stores are closed.
func (s *Standby) Release() (*state.Set, error) {
	err := s.settle(true)
	for _, l := range s.job.stores {
		if l.restorer == nil {
			continue
		}
		if _, e := l.restorer.Finish(state.Position{Offset: l.at, Epoch: l.epoch}); e != nil && err == nil {
			err = e
		}
		l.restorer = nil
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.tell(CopyPromoted)
	return s.job.res.Set, nil
}

// Close ends the standby and closes its stores. What was gathered and not written is read again by the next one.
func (s *Standby) Close() error {
	s.tell(CopyEnded)
	if s.job.res.Set == nil {
		s.job.res.Set = s.job.cfg.Set
	}
	s.job.opened = true
	return s.job.Close()
}
