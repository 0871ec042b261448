package topology

import (
	"maps"
	"strconv"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/millis"
)

// versionedExtraLagMs is how much longer than its history a versioned store's changelog is kept from compaction.
const versionedExtraLagMs = 24 * 60 * 60 * 1000

// Settings go by three levels: what the library asks for, then the application's settings for all internal topics, then
// those of the one store. The age limits that follow from a store (retention.ms of a window store's changelog,
// min.compaction.lag.ms of a versioned one) give way to the store's own settings only, as in Kafka Streams: an
// application-wide limit must not cut windows that are still open.

func (r *resolver) repartitionSpec(sub *Subtopology, raw string) TopicSpec {
	configs := map[string]string{
		configTimestampType: "CreateTime",
		configCleanupPolicy: "delete",
		// Records are deleted when they have been processed, and only then: never by age, and in files of 50 MB because
		// only whole files can go.
		configRetentionMs:  "-1",
		configSegmentBytes: "52428800",
	}
	maps.Copy(configs, r.cfg.TopicConfigs)
	name := r.name(raw)
	return TopicSpec{
		TopicSpec: r.topicSpec(name, r.counts[name], configs), Kind: RepartitionKind,
		Subtopology: sub.ID, Raw: raw, Fresh: r.fresh[name],
	}
}

func (r *resolver) changelogSpec(sub *Subtopology, s *StateStore, tasks int32) TopicSpec {
	spec := TopicSpec{Kind: ChangelogKind, Subtopology: sub.ID, Store: s}
	policy, ageLimit, ageMs := "compact", "", int64(0)
	switch s.Kind {
	case Window, Session:
		spec.Kind = WindowChangelogKind
		policy = "compact,delete"
		ageLimit, ageMs = configRetentionMs, millis.Add(s.RetentionMs, r.cfg.WindowAdditionalRetentionMs)
	case Versioned:
		spec.Kind = VersionedChangelogKind
		ageLimit, ageMs = configMinCompactionLag, millis.Add(s.HistoryMs, versionedExtraLagMs)
	}
	configs := map[string]string{configTimestampType: "CreateTime", configCleanupPolicy: policy}
	maps.Copy(configs, r.cfg.TopicConfigs)
	maps.Copy(configs, s.TopicConfigs)
	if s.JoinWindow {
		// Its keys are unique, each with a number of its own, so compaction would find nothing.
		configs[configCleanupPolicy] = "delete"
	}
	if _, set := s.TopicConfigs[ageLimit]; ageLimit != "" && !set {
		configs[ageLimit] = strconv.FormatInt(ageMs, 10)
	}
	spec.TopicSpec = r.topicSpec(ChangelogTopic(r.appID, s.Name), tasks, configs)
	return spec
}

func (r *resolver) topicSpec(name string, partitions int32, configs map[string]string) broker.TopicSpec {
	replicas := r.cfg.ReplicationFactor
	if replicas == 0 {
		replicas = -1
	}
	return broker.TopicSpec{Name: name, Partitions: partitions, ReplicationFactor: replicas, Configs: configs}
}
