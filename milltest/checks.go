package milltest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/internal/topology"
)

// This file refuses names that the topology does not have: what is asked of them would be nothing, and look like a result.

// checkOptions refuses numbers of partitions that no topic can have, and those of topics that the topology does not have.
func (d *Driver) checkOptions() error {
	if d.opts.partitions < 1 {
		return fmt.Errorf("milltest: Partitions is given %d; a topic has at least one", d.opts.partitions)
	}
	for _, topic := range sortedKeys(d.opts.perTopic) {
		if n := d.opts.perTopic[topic]; n < 1 {
			return fmt.Errorf("milltest: TopicPartitions gives topic %s %d partitions; it has at least one", topic, n)
		}
		if !d.mayHave(topic) {
			return fmt.Errorf("milltest: TopicPartitions: %w", d.unknownTopic(topic))
		}
	}
	return nil
}

// mayHave tells whether a topic is one of the topology's, or may be: one that matches a pattern, that a step chooses for a
// record, or that a handler writes dead letters to.
func (d *Driver) mayHave(topic string) bool {
	h := &d.opts.handlers
	if len(d.graph.Patterns()) > 0 || h.Deserialization != nil || h.Processing != nil || h.Production != nil {
		return true
	}
	for _, sub := range d.graph.Subtopologies() {
		for _, n := range sub.Nodes {
			if n.Kind == topology.SinkNode && n.Dynamic != "" {
				return true
			}
		}
	}
	if _, ok := d.topics[topic]; ok {
		return true
	}
	return slices.Contains(d.knownTopics(), topic)
}

func (d *Driver) knownTopics() []string {
	all := append(d.graph.SourceTopics(), d.graph.GlobalTopics()...)
	all = append(append(all, d.graph.SinkTopics()...), d.graph.InternalTopicNames(d.opts.appID)...)
	slices.Sort(all)
	return slices.Compact(all)
}

func (d *Driver) unknownTopic(topic string) error {
	return fmt.Errorf("the topology neither reads nor writes the topic %s; it has %s", topic, strings.Join(d.knownTopics(), ", "))
}

// checkOutput refuses a topic that nothing can be written to.
func (d *Driver) checkOutput(topic string) error {
	if d.mayHave(topic) {
		return nil
	}
	return fmt.Errorf("milltest: %w", d.unknownTopic(topic))
}

// noStore says why there is no store of a name, or none of the kind and types asked for.
func (d *Driver) noStore(name string, partition int32, asked topology.StoreKind) error {
	s := d.graph.Store(name)
	switch {
	case s == nil:
		var names []string
		for _, s := range d.graph.Stores() {
			names = append(names, s.Name)
		}
		slices.Sort(names)
		return fmt.Errorf("milltest: there is no store %s; the topology has %s", name, strings.Join(names, ", "))
	case s.Global:
		return fmt.Errorf("milltest: the store %s is global: use milltest.Global", name)
	case s.JoinWindow:
		return fmt.Errorf("milltest: the store %s holds the records of a join of two streams, which only the join can read; read its changelog with ReadRaw", name)
	case s.Kind == topology.Buffer:
		return fmt.Errorf("milltest: the store %s holds what a step keeps back, which only the step can read; read its changelog with ReadRaw", name)
	case s.Kind != asked:
		accessors := map[topology.StoreKind]string{
			topology.KeyValue: "KeyValue", topology.Window: "Window", topology.Session: "Session", topology.Versioned: "Versioned",
		}
		return fmt.Errorf("milltest: the store %s is a %s store: use milltest.%s", name, s.Kind, accessors[s.Kind])
	}
	for _, t := range d.tasks {
		if t.spec.Partition == partition && t.task.Store(name) != nil {
			return fmt.Errorf("milltest: store %s has other types than those asked for", name)
		}
	}
	return fmt.Errorf("milltest: there is no store %s in partition %d", name, partition)
}
