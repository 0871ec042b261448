package runtime

import "github.com/millrace-io/millrace/internal/broker"

// Broken names rules that an instance breaks on purpose: a simulation shows with it that it would find an engine out that did
// not keep them. Nothing but tests sets one, and the zero value breaks none. Each is asked for where something has gone wrong
// or changes hands, never on the way of a record.
type Broken struct {
	// StableEnd restores to the last stable offset of a changelog in place of its high watermark.
	StableEnd bool
	// SkipGap takes what is on disk for level with its changelog.
	SkipGap bool
	// Remember goes on after trouble behind the last record that was read, in place of the committed offset.
	Remember bool
	// KeepStaged keeps the writes of an aborted transaction.
	KeepStaged bool
	// SealEarly makes writes part of the state when their records are acknowledged, before they are committed.
	SealEarly bool
	// TrustIdentity commits under whatever member id the group client has now.
	TrustIdentity bool
	// KeepReleased leaves the part of a task that was taken away in the transaction.
	KeepReleased bool
	// SendAhead sends what belongs to the next transaction before the end of this one is known.
	SendAhead bool
	// UnknownIsCommitted takes the end of a transaction that got no answer for a commit.
	UnknownIsCommitted bool
	// PlainCommits commits offsets without results by themselves under exactly-once, and once more if there is no answer.
	PlainCommits bool
	// Unacknowledged commits before all records have their acknowledgement.
	Unacknowledged bool
	// Together sends changelog records with the outputs of their turn.
	Together bool
	// ForgetTimes begins without the times of the committed offsets.
	ForgetTimes bool
	// IgnoreTwins goes on although another process has the identity of this one.
	IgnoreTwins bool
	// Unsettled begins anew while what the task has handed over is undecided.
	Unsettled bool
}

// withoutTimes are committed offsets as if they had no metadata.
func withoutTimes(all map[broker.TopicPartition]broker.OffsetMeta) map[broker.TopicPartition]broker.OffsetMeta {
	bare := make(map[broker.TopicPartition]broker.OffsetMeta, len(all))
	for tp, o := range all {
		bare[tp] = broker.OffsetMeta{Offset: o.Offset, Epoch: o.Epoch}
	}
	return bare
}

// sealNow makes units part of a task's state whose commit has not been answered.
func (s *slot) sealNow(units []readyUnit) {
	for _, u := range units {
		s.toSeal = append(s.toSeal, sealing{unit: u.unit, positions: u.positions})
	}
}

// sendAhead sends what tasks of a round have handed over since it was claimed.
func (m *Machine) sendAhead(c *commitRound) {
	for _, s := range c.slots {
		if s.unclaimed == 0 || !s.claimed || s.closing == closeRetry || s.closing == closeDirty {
			continue
		}
		s.unclaimed = 0
		n, records := s.life.box.claim()
		c.claimed = append(c.claimed, records...)
		s.awaiting += n
		m.lookAt(s)
	}
	m.sendClaimed(c)
}
