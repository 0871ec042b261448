package state

import "fmt"

// Changelog is what is known of a store's changelog partition when the store is opened.
type Changelog struct {
	// TopicID is the topic's id, zero if it is not known or the store has none.
	TopicID [16]byte
	// DeleteRetentionMs is the topic's delete.retention.ms: how long deletions stay in it. Zero or less: deletions stay as
	// long as the records (a topic that is not compacted), or it is not known.
	DeleteRetentionMs int64
	// StartOffset and EndOffset are the first offset kept and the high watermark, -1 if not known.
	StartOffset, EndOffset int64
	// EpochEnd is where the epoch of the store's position ends in the log as it is now, -1 if not known.
	EpochEnd int64
}

// UnknownChangelog is a changelog of which nothing is known yet.
func UnknownChangelog() Changelog { return Changelog{StartOffset: -1, EndOffset: -1, EpochEnd: -1} }

// CheckStore tells why a store cannot be continued from what is on disk: "" if it can. The store alone is then rebuilt
// from the start of its changelog.
func CheckStore(kind Kind, h Header, log Changelog, nowMs int64) (reason string) {
	if !h.HasPosition {
		return ""
	}
	at := h.Position.Offset
	var zero [16]byte
	switch {
	case h.TopicID != zero && log.TopicID != zero && h.TopicID != log.TopicID:
		return fmt.Sprintf("the changelog topic was created anew: its id is %x, the store was built from %x", log.TopicID, h.TopicID)
	case log.EpochEnd >= 0 && h.Position.Epoch >= 0 && at > log.EpochEnd:
		return fmt.Sprintf("the changelog was truncated: leader epoch %d ends at offset %d, the store stands at %d",
			h.Position.Epoch, log.EpochEnd, at)
	case log.EndOffset >= 0 && at > log.EndOffset:
		return fmt.Sprintf("the changelog ends at offset %d, before the store's position %d", log.EndOffset, at)
	case log.StartOffset >= 0 && at < log.StartOffset && !kind.Cut():
		// A windowed changelog is cut by retention: what it has lost is expired, or kept here alone.
		return fmt.Sprintf("the changelog starts at offset %d, behind the store's position %d", log.StartOffset, at)
	}
	if log.DeleteRetentionMs <= 0 {
		return ""
	}
	if h.LevelMs == NoTime {
		return "it is not known when the store was last level with its changelog"
	}
	age := nowMs - h.LevelMs
	switch {
	case !tooOld(h.LevelMs, nowMs, log.DeleteRetentionMs):
	case age < 0:
		return fmt.Sprintf("the store was last level with its changelog %d s in the future: the clock of this machine is wrong, or was", -age/1000)
	default:
		return fmt.Sprintf("the store was last level with its changelog %d s ago, and the changelog keeps deletions for %d s only",
			age/1000, log.DeleteRetentionMs/1000)
	}
	return ""
}

// tooOld tells whether deletions may be missed by who goes on from where a store was last level. A time that lies in the future by as
// much says nothing either.
func tooOld(levelMs, nowMs, deleteRetentionMs int64) bool {
	age := nowMs - levelMs
	return deleteRetentionMs > 0 && (age > deleteRetentionMs/2 || age < -deleteRetentionMs/2)
}
