package runtime

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/internal/broker"
)

// fetched takes what a poll returned to the inputs. What belongs to an older assignment of a partition is dropped.
func (m *Machine) fetched(e Fetched) {
	for i := range e.Batches {
		b := &e.Batches[i]
		in := m.byEpoch[b.Epoch]
		if in == nil || in.tp != b.TopicPartition {
			continue
		}
		if b.Err != nil {
			m.fetchFailed(in, b)
			continue
		}
		in.badMs = 0
		if !m.readsCommitted(in) {
			b.StableEnd = -1 // what is read ends at the high watermark, and the task must wait for it
		}
		in.position = b.Position
		if end := m.endOf(in, b); end >= 0 {
			in.end = end
			in.stale = in.paused // paused already: the answer was under way
		}
		in.queue = append(in.queue, *b)
		in.records += len(b.Records)
		in.bytes += batchBytes(b)
		m.throttle(in)
		m.advance(in.slot)
	}
	if e.Taken != nil {
		m.do(Call{Func: e.Taken})
	}
}

func (m *Machine) endOf(in *input, b *broker.Batch) int64 {
	if m.readsCommitted(in) && b.StableEnd >= 0 {
		return b.StableEnd
	}
	return b.HighWater
}

// fetchFailed deals with an error of a partition. The fetcher shows nothing more of it until it is assigned again.
func (m *Machine) fetchFailed(in *input, b *broker.Batch) {
	err := fmt.Errorf("millrace: task %s: fetch %s-%d@%d: %w", in.slot.name, in.tp.Topic, in.tp.Partition, in.position, b.Err)
	if errors.Is(b.Err, broker.ErrOffsetOutOfRange) || errors.Is(b.Err, broker.CodeUnknownTopicID) || !passing(b.Err) {
		// Where to go on is decided as for a new task, by the committed offset if there is one, else by the reset policy of the
		// source. That goes for a topic that was deleted and created again too: the position means nothing in the new one.
		m.trouble(in.slot, err)
		return
	}
	if in.badMs == 0 {
		in.badMs = m.nowMs
	}
	if m.nowMs-in.badMs >= m.set.TaskTimeoutMs {
		err = fmt.Errorf("millrace: %s-%d could not be read for %d s (task.timeout.ms = %d): %w", in.tp.Topic, in.tp.Partition,
			(m.nowMs-in.badMs)/1000, m.set.TaskTimeoutMs, err)
		in.badMs = 0
		m.uncaught(in.slot, closeClean, "an input cannot be read", err)
		return
	}
	m.log.Error("a partition cannot be read, it is tried again", "task", in.slot.name, "topic", in.tp.Topic, "partition", in.tp.Partition, "error", b.Err)
	delete(m.byEpoch, in.epoch)
	in.epoch = 0
	in.retryMs = m.nowMs + m.set.BackoffMs
}

// retryFetches assigns partitions again whose error is some time ago.
func (m *Machine) retryFetches(s *slot) {
	if s.phase != phaseRunning || s.closing != closeNot {
		return
	}
	for _, in := range s.inputs {
		if in.retryMs > 0 && m.nowMs >= in.retryMs {
			in.retryMs = 0
			paused := in.paused
			m.assign(in)
			if paused {
				m.do(Pause{Partitions: []broker.TopicPartition{in.tp}})
				in.paused = true
			}
		}
	}
}

// throttle pauses a partition of which enough waits, and lets it go on when there is room again.
func (m *Machine) throttle(in *input) {
	if in.epoch == 0 {
		return
	}
	records, bytes := in.records+in.inTask.records, in.bytes+in.inTask.bytes
	switch {
	case !in.paused && (records > m.set.HighRecords || bytes > m.set.HighBytes):
		// From now on nothing is heard of it. Were its end still believed when its records are used up, the task would go on
		// without it, while other inputs are read far ahead.
		in.paused, in.stale = true, true
		m.do(Pause{Partitions: []broker.TopicPartition{in.tp}})
	case in.paused && records <= m.set.HighRecords/2 && bytes <= m.set.HighBytes/2:
		in.paused = false
		m.do(Resume{Partitions: []broker.TopicPartition{in.tp}})
	}
}

// takeBatches moves what was fetched into a turn.
func (m *Machine) takeBatches(s *slot, w *Work) {
	for _, in := range s.inputs {
		if len(in.queue) == 0 {
			continue
		}
		w.batches = append(w.batches, in.queue...)
		in.inTask.records += in.records
		in.inTask.bytes += in.bytes
		in.queue, in.records, in.bytes = nil, 0, 0
	}
	for _, in := range s.inputs {
		if in.stale {
			w.stale = append(w.stale, in.tp)
		}
	}
}
