package brokertest

import (
	"fmt"
	"slices"
	"sort"

	"github.com/millrace-io/millrace/internal/broker"
)

// partitionLog is the log of one partition. Offsets that are in no entry are gaps left by compaction.
type partitionLog struct {
	entries []entry // by offset
	start   int64
	end     int64
	open    map[string]int64 // transaction -> its first offset
	epoch   int32
	epochs  []epochStart // oldest first; what is before the first one is epoch 0
}

// epochStart is the first offset written under a leader epoch.
type epochStart struct {
	epoch int32
	start int64
}

type entry struct {
	rec     broker.Record
	txn     string // transaction that wrote it, "" if none
	marker  bool
	aborted bool
}

func (l *partitionLog) add(r broker.Record, txn string, marker bool) int64 {
	r.Offset, r.LeaderEpoch = l.end, l.epoch
	l.entries = append(l.entries, entry{rec: r, txn: txn, marker: marker})
	if txn != "" && !marker {
		if l.open == nil {
			l.open = make(map[string]int64)
		}
		if _, ok := l.open[txn]; !ok {
			l.open[txn] = l.end
		}
	}
	l.end++
	return r.Offset
}

// stableEnd is the last stable offset: the first offset of the oldest open transaction.
func (l *partitionLog) stableEnd() int64 {
	end := l.end
	for _, first := range l.open {
		end = min(end, first)
	}
	return end
}

// read gives what lies from offset on: at most limit records if limit is above 0.
func (l *partitionLog) read(tp broker.TopicPartition, offset int64, committed bool, limit int) broker.Batch {
	b := broker.Batch{TopicPartition: tp, Position: offset, LastEpoch: -1, HighWater: l.end, StableEnd: l.stableEnd(), LogStart: l.start}
	if offset < l.start || offset > l.end {
		b.Err = &broker.OffsetRangeError{TopicPartition: tp, Offset: offset, LogStart: l.start, End: l.end}
		return b
	}
	until := l.end
	if committed {
		until = b.StableEnd
	}
	i := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].rec.Offset >= offset })
	for ; i < len(l.entries) && l.entries[i].rec.Offset < until; i++ {
		if limit > 0 && len(b.Records) == limit {
			return b
		}
		e := &l.entries[i]
		b.Position, b.LastEpoch = e.rec.Offset+1, e.rec.LeaderEpoch
		if e.marker || committed && e.aborted {
			continue
		}
		b.Records = append(b.Records, e.rec)
	}
	b.Position = max(b.Position, until)
	return b
}

// epochEnd finds the greatest epoch not above the one given and where it ends.
func (l *partitionLog) epochEnd(epoch int32) broker.EpochEnd {
	if epoch > l.epoch || epoch < 0 {
		return broker.EpochEnd{Epoch: -1, End: -1}
	}
	found := broker.EpochEnd{Epoch: 0, End: l.end}
	for i := len(l.epochs) - 1; i >= 0; i-- {
		if e := l.epochs[i]; e.epoch <= epoch {
			found.Epoch = e.epoch
			break
		} else {
			found.End = e.start
		}
	}
	return found
}

// mustLog is for calls of the test itself, whose mistakes are not errors to handle.
func (c *Cluster) mustLog(tp broker.TopicPartition) *partitionLog {
	l := c.log(tp)
	if l == nil {
		panic(fmt.Sprintf("brokertest: no partition %s-%d: call AddTopic first", tp.Topic, tp.Partition))
	}
	return l
}

// Append writes records outside any transaction and returns the offset of the first. Their Offset and LeaderEpoch are
// set.
func (c *Cluster) Append(tp broker.TopicPartition, recs ...broker.Record) int64 {
	return c.AppendTxn("", tp, recs...)
}

// AppendTxn writes records of an open transaction, which EndTxn ends.
func (c *Cluster) AppendTxn(txn string, tp broker.TopicPartition, recs ...broker.Record) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.mustLog(tp)
	first := l.end
	for _, r := range recs {
		l.add(r, txn, false)
	}
	c.changed.Broadcast()
	return first
}

// EndTxn writes the marker of a transaction into each partition that it has written to, or only into those given: markers
// reach partitions one after the other.
func (c *Cluster) EndTxn(txn string, commit bool, only ...broker.TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endTxn(txn, commit, only...)
	c.changed.Broadcast()
}

func (c *Cluster) endTxn(txn string, commit bool, only ...broker.TopicPartition) {
	for _, t := range c.topics {
		for p, l := range t.logs {
			first, ok := l.open[txn]
			if !ok || len(only) > 0 && !slices.Contains(only, TP(t.name, int32(p))) {
				continue
			}
			for i := range l.entries {
				if e := &l.entries[i]; e.txn == txn && !e.marker && e.rec.Offset >= first {
					e.aborted = !commit
				}
			}
			delete(l.open, txn)
			l.add(broker.Record{}, txn, true)
		}
	}
}

// Remove takes records out of the log and leaves gaps, as compaction does.
func (c *Cluster) Remove(tp broker.TopicPartition, offsets ...int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.mustLog(tp)
	l.entries = slices.DeleteFunc(l.entries, func(e entry) bool { return slices.Contains(offsets, e.rec.Offset) })
}

// Truncate deletes what lies before an offset, as retention does.
func (c *Cluster) Truncate(tp broker.TopicPartition, before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mustLog(tp).truncate(before)
	c.changed.Broadcast()
}

func (l *partitionLog) truncate(before int64) {
	before = min(before, l.end)
	if before <= l.start {
		return
	}
	l.start = before
	l.entries = slices.DeleteFunc(l.entries, func(e entry) bool { return e.rec.Offset < before })
}

// CutEnd drops what lies at and after an offset and raises the leader epoch, as an unclean leader election does.
func (c *Cluster) CutEnd(tp broker.TopicPartition, from int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.mustLog(tp)
	l.entries = slices.DeleteFunc(l.entries, func(e entry) bool { return e.rec.Offset >= from })
	l.end = min(l.end, from)
	for txn, first := range l.open {
		if first >= l.end {
			delete(l.open, txn)
		}
	}
	l.nextEpoch()
	c.changed.Broadcast()
}

// MoveLeader raises the leader epoch of a partition, as an election does that loses nothing.
func (c *Cluster) MoveLeader(tp broker.TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mustLog(tp).nextEpoch()
	c.changed.Broadcast()
}

func (l *partitionLog) nextEpoch() {
	l.epoch++
	for len(l.epochs) > 0 && l.epochs[len(l.epochs)-1].start >= l.end {
		l.epochs = l.epochs[:len(l.epochs)-1]
	}
	l.epochs = append(l.epochs, epochStart{l.epoch, l.end})
}

// Records returns what a reader of committed records finds in a partition.
func (c *Cluster) Records(tp broker.TopicPartition) []broker.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.mustLog(tp)
	return l.read(tp, l.start, true, 0).Records
}

// Committed returns what a reader of committed records finds in a partition from an offset on, with how far it can read and
// where the log ends. No fault strikes it.
func (c *Cluster) Committed(tp broker.TopicPartition, offset int64) broker.Batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mustLog(tp).read(tp, offset, true, 0)
}

// AllRecords returns what a reader of uncommitted records finds in a partition.
func (c *Cluster) AllRecords(tp broker.TopicPartition) []broker.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.mustLog(tp)
	return l.read(tp, l.start, false, 0).Records
}
