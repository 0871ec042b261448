package topology

import (
	"fmt"
	"maps"
	"slices"
)

// Settings of topics that the library itself sets or reads.
const (
	configCleanupPolicy    = "cleanup.policy"
	configRetentionMs      = "retention.ms"
	configRetentionBytes   = "retention.bytes"
	configSegmentBytes     = "segment.bytes"
	configTimestampType    = "message.timestamp.type"
	configMinCompactionLag = "min.compaction.lag.ms"
)

// topicConfigNames are all settings that a topic of Kafka 4.4 has, sorted.
//
// In Kafka: org.apache.kafka.storage.internals.log.LogConfig.configNames.
var topicConfigNames = [...]string{
	"cleanup.policy",
	"compression.gzip.level",
	"compression.lz4.level",
	"compression.type",
	"compression.zstd.level",
	"delete.retention.ms",
	"errors.deadletterqueue.group.enable",
	"file.delete.delay.ms",
	"flush.messages",
	"flush.ms",
	"follower.replication.throttled.replicas",
	"index.interval.bytes",
	"internal.segment.bytes",
	"leader.replication.throttled.replicas",
	"local.retention.bytes",
	"local.retention.ms",
	"max.compaction.lag.ms",
	"max.decompressed.message.bytes",
	"max.message.bytes",
	"message.timestamp.after.max.ms",
	"message.timestamp.before.max.ms",
	"message.timestamp.type",
	"min.cleanable.dirty.ratio",
	"min.compaction.lag.ms",
	"min.insync.replicas",
	"preallocate",
	"remote.copy.lag.bytes",
	"remote.copy.lag.ms",
	"remote.log.copy.disable",
	"remote.log.delete.on.disable",
	"remote.storage.enable",
	"retention.bytes",
	"retention.ms",
	"segment.bytes",
	"segment.index.bytes",
	"segment.jitter.ms",
	"segment.ms",
	"unclean.leader.election.enable",
}

// checkTopicConfigs finds settings that no topic has, sorted by name. Brokers refuse them too, but only when the topic is
// created, and not every broker used in tests does.
func checkTopicConfigs(configs map[string]string) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if _, ok := slices.BinarySearch(topicConfigNames[:], name); !ok {
			errs = append(errs, fmt.Errorf("topics have no setting %q; did you mean %q?", name, nearest(name, topicConfigNames[:])))
		}
	}
	return errs
}

// nearest returns the candidate with the fewest edits from s, the first of several.
func nearest(s string, candidates []string) string {
	best, bestAt := "", -1
	for _, c := range candidates {
		if d := editDistance(s, c); bestAt < 0 || d < bestAt {
			best, bestAt = c, d
		}
	}
	return best
}

// editDistance counts the bytes to insert, delete or replace to get from a to b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
