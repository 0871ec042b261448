package topology

import (
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/internal/config"
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

// checkTopicConfigs finds settings that no topic has, sorted by name. Brokers refuse them too, but only when the topic is
// created, and not every broker used in tests does.
func checkTopicConfigs(configs map[string]string) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if nearest, ok := config.TopicConfig(name); !ok {
			errs = append(errs, fmt.Errorf("topics have no setting %q; did you mean %q?", name, nearest))
		}
	}
	return errs
}
