package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/internal/broker"
)

// ResolveConfig are the settings of an application that decide how its internal topics are made.
type ResolveConfig struct {
	// TopicConfigs are settings for all internal topics: the keys of "topic.*" without that prefix.
	TopicConfigs map[string]string
	// ReplicationFactor of internal topics; 0 and -1 leave it to the broker.
	ReplicationFactor int16
	// WindowAdditionalRetentionMs is added to the retention of window and session stores for that of their changelogs,
	// against clocks that differ. Kafka Streams: windowstore.changelog.additional.retention.ms.
	WindowAdditionalRetentionMs int64
}

// DefaultResolveConfig returns the defaults of Kafka Streams: a day of additional retention, all else left to the broker.
func DefaultResolveConfig() ResolveConfig {
	return ResolveConfig{ReplicationFactor: -1, WindowAdditionalRetentionMs: 24 * 60 * 60 * 1000}
}

// MissingTopic is a topic that the topology reads and the cluster does not have.
type MissingTopic struct {
	Topic  string
	Source string // the node that reads it
	Pos    Pos
}

// MissingTopicsError names all topics that are missing. The library creates internal topics only.
//
// In Kafka Streams: MissingSourceTopicException.
type MissingTopicsError struct {
	Topics []MissingTopic // in the order of the source nodes
}

func (e *MissingTopicsError) Error() string {
	list := make([]string, len(e.Topics))
	for i, m := range e.Topics {
		list[i] = fmt.Sprintf("%q", m.Topic)
		if !m.Pos.IsZero() {
			list[i] += " (" + m.Pos.String() + ")"
		}
	}
	return "millrace: the cluster does not have the source topics " + strings.Join(list, ", ") +
		"; create them with the partitions that you want (the library creates internal topics only), or correct the names; if they do exist, check that this principal may describe them"
}

// TopicCount is a topic with its number of partitions.
type TopicCount struct {
	Topic      string
	Partitions int32
}

// CopartitionError says that topics which are joined do not have the same number of partitions, so that records of one
// key would be in tasks that never meet.
type CopartitionError struct {
	Topics []TopicCount // all of the group, sorted by name
	Fixed  string       // the repartition topic whose own number of partitions is in the way, if it is that
	Steps  []string     // the steps that demand it, with their places, in the order of declaration
}

func (e *CopartitionError) Error() string {
	list := make([]string, len(e.Topics))
	for i, c := range e.Topics {
		list[i] = fmt.Sprintf("%q has %d", c.Topic, c.Partitions)
	}
	help := "give the topics the same number of partitions, or call Repartition on all of them but one before the join"
	if e.Fixed != "" {
		help = fmt.Sprintf("%q was given its number of partitions in the program: leave that out or make it fit", e.Fixed)
	}
	return "millrace: topics that are joined must have the same number of partitions, but " + strings.Join(list, ", ") +
		" (" + strings.Join(e.Steps, ", ") + "); " + help
}

// Resolve works out the tasks and internal topics of the topology in a cluster. It is a pure function of its arguments.
//
// clusterTopics holds the number of partitions of each topic that exists: those that the topology reads, and its internal
// ones (InternalTopicNames); others may be in it. matched holds for each of Patterns the names of existing topics that it
// may match; internal topics of this application among them are left out. A pattern that matches nothing makes no tasks.
//
// Partitions of a repartition topic are, in this order: those given in the program; those of the topics of the user that
// it is joined with; those that it has, if it exists; the highest number among the topics that the sub-topologies writing
// it read. Kafka Streams refuses an existing topic where the last two differ. Here it is kept, because nothing depends on
// the number, so a topology keeps running when its input gets more partitions; and because what Kafka Streams takes for
// the highest number sometimes depends on the order of a hash table.
//
// The error is a *MissingTopicsError, a *CopartitionError, or joins several.
func (t *Topology) Resolve(appID string, clusterTopics map[string]int32, matched map[string][]string, cfg ResolveConfig) (*Plan, error) {
	r := &resolver{t: t, appID: appID, cluster: clusterTopics, cfg: cfg, counts: map[string]int32{}, topics: map[*Node][]string{}}
	for _, step := range []func() error{
		r.checkConfig,
		func() error { return r.findTopics(matched) },
		r.checkMissing,
		r.countFresh,
		r.countRepartitions,
		r.copartition,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r.plan(), nil
}

// InternalTopicNames returns the names in the cluster of all internal topics of the application: repartition topics, then
// changelogs, in the order of declaration.
func (t *Topology) InternalTopicNames(appID string) []string {
	var names []string
	for _, topic := range t.topics {
		names = append(names, DecoratedTopic(appID, topic.Name))
	}
	for _, s := range t.stores {
		if s.ownChangelog() {
			names = append(names, ChangelogTopic(appID, s.Name))
		}
	}
	return names
}

type resolver struct {
	t       *Topology
	appID   string
	cluster map[string]int32
	cfg     ResolveConfig

	topics map[*Node][]string // what each source of tasks reads, by names in the cluster
	counts map[string]int32   // partitions by names in the cluster, repartition topics included once known
	fresh  map[string]int32   // counts as they would be if no internal topic existed
	adopt  bool               // internal topics that exist count
	groups [][]string         // co-partitioned topics
}

func (r *resolver) name(raw string) string { return DecoratedTopic(r.appID, raw) }

func (r *resolver) checkConfig() error {
	if err := CheckName(r.appID); err != nil {
		return fmt.Errorf("millrace: application id: %w", err)
	}
	var errs []error
	if r.cfg.ReplicationFactor < -1 {
		errs = append(errs, fmt.Errorf("millrace: replication factor %d of internal topics: give a positive number, or -1 for the broker's default", r.cfg.ReplicationFactor))
	}
	if r.cfg.WindowAdditionalRetentionMs < 0 {
		errs = append(errs, fmt.Errorf("millrace: additional retention of %d ms for changelogs of windows: it cannot be negative", r.cfg.WindowAdditionalRetentionMs))
	}
	for _, err := range checkTopicConfigs(r.cfg.TopicConfigs) {
		errs = append(errs, fmt.Errorf("millrace: settings of internal topics: %w", err))
	}
	for _, name := range r.t.InternalTopicNames(r.appID) {
		if len(name) > maxNameLength {
			errs = append(errs, fmt.Errorf("millrace: the internal topic %q would have a name of %d characters, and %d are allowed; shorten the application id or the name of the step or store", name, len(name), maxNameLength))
		}
	}
	return errors.Join(errs...)
}

// ownChangelog reports whether a topic must be made for the store.
func (s *StateStore) ownChangelog() bool { return !s.Global && s.Logged && s.SourceTopic == "" }

// findTopics fills in what each source reads.
func (r *resolver) findTopics(matched map[string][]string) error {
	internal := r.t.InternalTopicNames(r.appID)
	slices.Sort(internal)
	readBy := map[string]*Node{}
	var errs []error
	for _, sub := range r.t.subs {
		for _, n := range sub.Sources {
			switch {
			case n.Internal:
				r.topics[n] = []string{r.name(n.Topics[0])}
			case n.Pattern == "":
				r.topics[n] = n.Topics
			default:
				for _, topic := range sortedSet(matched[n.Pattern]) {
					if _, own := slices.BinarySearch(internal, topic); own || !n.Matches(topic) {
						continue
					}
					if other, ok := readBy[topic]; ok {
						errs = append(errs, fmt.Errorf("millrace: the topic %q matches the pattern %q (%s) and the pattern %q (%s); make one of them narrower", topic, other.Pattern, other.Pos, n.Pattern, n.Pos))
						continue
					}
					readBy[topic] = n
					r.topics[n] = append(r.topics[n], topic)
				}
			}
		}
	}
	return errors.Join(errs...)
}

// checkMissing finds user topics that do not exist, and notes the partitions of the others.
func (r *resolver) checkMissing() error {
	var missing []MissingTopic
	for _, n := range r.t.nodes {
		if n.Kind != SourceNode || n.Internal {
			continue
		}
		topics := r.topics[n]
		if n.Global {
			topics = n.Topics
		}
		for _, topic := range topics {
			if r.cluster[topic] <= 0 {
				missing = append(missing, MissingTopic{Topic: topic, Source: n.Name, Pos: n.Pos})
				continue
			}
			r.counts[topic] = r.cluster[topic]
		}
	}
	if len(missing) > 0 {
		return &MissingTopicsError{Topics: missing}
	}
	return nil
}

// countFresh finds out what the repartition topics would get in a cluster that has none of them. It reports no errors:
// those that matter come up again when the topics that exist are counted in.
func (r *resolver) countFresh() error {
	f := *r
	f.counts = maps.Clone(r.counts)
	f.flow()
	if f.copartition() == nil {
		r.fresh = f.counts
	}
	return nil
}

// countRepartitions gives the repartition topics their numbers as far as co-partitioning does not decide.
func (r *resolver) countRepartitions() error {
	r.adopt = true
	for _, topic := range r.t.topics {
		if name := r.name(topic.Name); r.cluster[name] > 0 {
			r.counts[name] = r.cluster[name]
		}
	}
	r.flow()
	var errs []error
	for _, topic := range r.t.topics {
		if r.counts[r.name(topic.Name)] == 0 {
			errs = append(errs, fmt.Errorf("millrace: the repartition topic %q (%s) has no known number of partitions, because nothing that is written to it comes from a topic that exists; create a topic that matches its patterns, or give the number in the program", r.name(topic.Name), topic.Pos))
		}
	}
	return errors.Join(errs...)
}

// flow gives each repartition topic whose number is open the highest one among the topics that its writers read, going
// round until nothing changes. The numbers only grow, and to one of those that are there already, so it ends; where
// repartition topics feed each other, all of them take the highest number that flows in.
//
// As in Kafka Streams, what co-partitioning makes of a topic afterwards does not flow further down.
func (r *resolver) flow() {
	fixed := map[string]bool{}
	for _, topic := range r.t.topics {
		name := r.name(topic.Name)
		if topic.Partitions > 0 {
			r.counts[name] = topic.Partitions
		}
		fixed[name] = r.counts[name] > 0
	}
	for changed := true; changed; {
		changed = false
		for _, sub := range r.t.subs {
			most := r.most(sub)
			for _, raw := range sub.RepartitionOut {
				if name := r.name(raw); !fixed[name] && most > r.counts[name] {
					r.counts[name] = most
					changed = true
				}
			}
		}
	}
}

// most is the highest number of partitions among the topics that a sub-topology reads, as far as they are known.
func (r *resolver) most(sub *Subtopology) int32 {
	var most int32
	for _, n := range sub.Sources {
		for _, topic := range r.topics[n] {
			most = max(most, r.counts[topic])
		}
	}
	return most
}

// repartition returns a repartition topic by its name without the application id.
func (t *Topology) repartition(raw string) RepartitionTopic { return t.topics[t.byTopic[raw]] }

// plan puts the result together.
func (r *resolver) plan() *Plan {
	p := &Plan{AppID: r.appID, Copartitions: r.groups}
	for _, sub := range r.t.subs {
		tasks := r.most(sub)
		for partition := range tasks {
			p.Tasks = append(p.Tasks, r.task(sub, partition))
		}
		for _, raw := range sub.RepartitionIn {
			p.Repartitions = append(p.Repartitions, r.repartitionSpec(sub, raw))
		}
		for _, s := range sub.Stores {
			if s.ownChangelog() && tasks > 0 {
				p.Changelogs = append(p.Changelogs, r.changelogSpec(sub, s, tasks))
			}
		}
	}
	for _, g := range r.t.globals {
		spec := GlobalSpec{Global: g}
		for partition := range r.counts[g.Topic()] {
			spec.Inputs = append(spec.Inputs, broker.TopicPartition{Topic: g.Topic(), Partition: partition})
		}
		p.Globals = append(p.Globals, spec)
	}
	return p
}

func (r *resolver) task(sub *Subtopology, partition int32) TaskSpec {
	task := TaskSpec{Subtopology: sub.ID, Partition: partition}
	for _, n := range sub.Sources {
		for _, topic := range r.topics[n] {
			if partition < r.counts[topic] {
				tp := broker.TopicPartition{Topic: topic, Partition: partition}
				task.Inputs = append(task.Inputs, Input{TopicPartition: tp, Source: n})
			}
		}
	}
	for _, s := range sub.Stores {
		switch {
		case s.SourceTopic != "":
			// A task may have a partition that this topic lacks, because another one has more; no record of the table
			// ever reaches it.
			if partition < r.counts[s.SourceTopic] {
				tp := broker.TopicPartition{Topic: s.SourceTopic, Partition: partition}
				task.Changelogs = append(task.Changelogs, Changelog{TopicPartition: tp, Store: s, Reused: true})
			}
		case s.Logged:
			tp := broker.TopicPartition{Topic: ChangelogTopic(r.appID, s.Name), Partition: partition}
			task.Changelogs = append(task.Changelogs, Changelog{TopicPartition: tp, Store: s})
		}
	}
	return task
}
