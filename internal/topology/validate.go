package topology

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ExistingTopic is what the cluster has under the name of an internal topic.
type ExistingTopic struct {
	Partitions int32
	Configs    map[string]string // nil if they are not known: then nothing is said of them
}

// ValidateExisting compares the internal topics of the plan with those that exist, by name. It returns those that must be
// created, and warnings about settings that would lose data; existing topics are never altered.
//
// The error joins one for each topic with another number of partitions than the plan needs: its records would then be
// in the wrong tasks, and there is no repair but a reset. existing may hold source topics too, which are looked at where
// they serve as changelogs.
func (p *Plan) ValidateExisting(existing map[string]ExistingTopic) (create []TopicSpec, warnings []string, err error) {
	var errs []error
	for _, spec := range slices.Concat(p.Repartitions, p.Changelogs) {
		have, ok := existing[spec.Name]
		switch {
		case !ok:
			create = append(create, spec)
		case have.Partitions != spec.Partitions:
			errs = append(errs, spec.partitionError(have.Partitions))
		default:
			if spec.Fresh > 0 && spec.Fresh != spec.Partitions {
				warnings = append(warnings, fmt.Sprintf("the repartition topic %q exists with %d partitions and keeps them; a new one would get %d, and as many tasks behind it", spec.Name, spec.Partitions, spec.Fresh))
			}
			warnings = append(warnings, spec.compare(have.Configs)...)
		}
	}
	warnings = append(warnings, p.compareReused(existing)...)
	return create, warnings, errors.Join(errs...)
}

func (s TopicSpec) partitionError(have int32) error {
	what, needs := "repartition topic", fmt.Sprintf("which sub-topology %d reads", s.Subtopology)
	if s.Kind != RepartitionKind {
		what, needs = "changelog", fmt.Sprintf("one for each task of sub-topology %d, to which the store %q belongs", s.Subtopology, s.Store.Name)
	}
	return fmt.Errorf("millrace: the %s %q exists with %d partitions, but the topology needs %d (%s); if source topics were given more partitions, that changes which task a key belongs to: stop all instances and reset the application, which deletes its internal topics and state, or use another application id",
		what, s.Name, have, s.Partitions, needs)
}

// compare warns about settings of an existing topic that differ from the planned ones in a way that loses data.
func (s TopicSpec) compare(have map[string]string) []string {
	if have == nil {
		return nil
	}
	var warnings []string
	warn := func(config, have, want, why string) {
		warnings = append(warnings, fmt.Sprintf("the internal topic %q has %s=%s, not %s: %s", s.Name, config, have, want, why))
	}
	policy, known := have[configCleanupPolicy]
	if want := s.Configs[configCleanupPolicy]; known && !slices.Equal(policies(policy), policies(want)) {
		warn(configCleanupPolicy, policy, want, s.policyRisk(policies(policy)))
	}
	if slices.Contains(policies(policy), "delete") {
		if age, want := have[configRetentionMs], s.Configs[configRetentionMs]; shorter(age, want) {
			warn(configRetentionMs, age, want+" or more", "records that are still needed are deleted")
		}
		if size, want := have[configRetentionBytes], s.Configs[configRetentionBytes]; shorter(size, orUnlimited(want)) {
			warn(configRetentionBytes, size, orUnlimited(want), "records that are still needed are deleted when the topic grows")
		}
	}
	if lag, want := have[configMinCompactionLag], s.Configs[configMinCompactionLag]; shorter(lag, want) {
		warn(configMinCompactionLag, lag, want+" or more", "versions that the store still has are compacted away")
	}
	if kind, want := have[configTimestampType], s.Configs[configTimestampType]; kind != "" && kind != want {
		warn(configTimestampType, kind, want, "the broker replaces the times of the records")
	}
	return warnings
}

func (s TopicSpec) policyRisk(have []string) string {
	deletes, compacts := slices.Contains(have, "delete"), slices.Contains(have, "compact")
	switch {
	case s.Kind == RepartitionKind && compacts:
		return "records of one key that have not been processed yet replace each other"
	case s.Kind != RepartitionKind && deletes && s.Kind != WindowChangelogKind:
		return "values that have not changed for long are deleted, and a restore misses them"
	case s.Kind != RepartitionKind && !compacts:
		return "it keeps every change for as long as the store lives, and a restore reads them all"
	}
	return "it keeps records for another time than planned"
}

// compareReused warns about source topics that serve as changelogs and lose old records.
func (p *Plan) compareReused(existing map[string]ExistingTopic) []string {
	var warnings []string
	seen := map[string]bool{}
	for _, task := range p.Tasks {
		for _, c := range task.Changelogs {
			if !c.Reused || seen[c.Topic] {
				continue
			}
			seen[c.Topic] = true
			policy, known := existing[c.Topic].Configs[configCleanupPolicy]
			if have := policies(policy); known && (slices.Contains(have, "delete") || !slices.Contains(have, "compact")) {
				warnings = append(warnings, fmt.Sprintf("the source topic %q serves as the changelog of store %q but has %s=%s, not compact: values that have not changed for long are deleted, and a restore misses them", c.Topic, c.Store.Name, configCleanupPolicy, policy))
			}
		}
	}
	return warnings
}

// policies splits a cleanup policy into its sorted parts.
func policies(s string) []string {
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return sortedSet(parts)
}

// shorter reports whether a limit of a topic is lower than the wanted one; -1 is no limit. What is missing or no number
// is not compared.
func shorter(have, want string) bool {
	h, err := strconv.ParseInt(have, 10, 64)
	if err != nil || h == -1 {
		return false
	}
	w, err := strconv.ParseInt(want, 10, 64)
	return err == nil && (w == -1 || h < w)
}

func orUnlimited(s string) string {
	if s == "" {
		return "-1"
	}
	return s
}
