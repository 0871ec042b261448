package topology

import (
	"errors"
	"slices"
	"strings"
)

// copartition makes the topics of each group have the same number of partitions, or says why they cannot. It is done in
// every topology; Kafka Streams skips it in those without repartition topics, which then miss matches in silence.
func (r *resolver) copartition() error {
	r.groups = r.copartitionGroups()
	own := map[string]int32{} // repartition topics by name in the cluster, with the number given in the program or 0
	for _, topic := range r.t.topics {
		own[r.name(topic.Name)] = topic.Partitions
	}
	var errs []error
	for _, group := range r.groups {
		var external, given, exist []string
		for _, topic := range group {
			switch n, internal := own[topic]; {
			case !internal:
				external = append(external, topic)
			case n > 0:
				given = append(given, topic)
			case r.adopt && r.cluster[topic] > 0:
				exist = append(exist, topic)
			}
		}
		partitions, ok := r.decide(group, external, given, exist)
		if !ok {
			errs = append(errs, r.copartitionError(group, "", own))
			continue
		}
		for _, topic := range group {
			switch n, internal := own[topic]; {
			case !internal:
			case n == 0:
				r.counts[topic] = partitions
			case n != partitions:
				errs = append(errs, r.copartitionError(group, topic, own))
			}
		}
	}
	return errors.Join(errs...)
}

// decide returns the number of partitions that a group must have: that of the user's topics, else that given in the
// program, else that of those that exist, else the highest. ok is false if the user's topics or the program contradict
// themselves. Topics that exist with other numbers are a matter of Plan.ValidateExisting.
func (r *resolver) decide(group, external, given, exist []string) (partitions int32, ok bool) {
	judges := external
	if len(judges) == 0 {
		judges = given
	}
	if len(judges) > 0 {
		return r.same(judges)
	}
	if n, ok := r.same(exist); ok {
		return n, true
	}
	for _, topic := range group {
		partitions = max(partitions, r.counts[topic])
	}
	return partitions, true
}

// same returns the number of partitions that all topics have, and whether there is such a number.
func (r *resolver) same(topics []string) (partitions int32, ok bool) {
	if len(topics) == 0 {
		return 0, false
	}
	partitions = r.counts[topics[0]]
	for _, topic := range topics {
		if r.counts[topic] != partitions {
			return 0, false
		}
	}
	return partitions, true
}

// copartitionError lists the topics of a group whose numbers are fixed; those that would follow anyway are left out.
func (r *resolver) copartitionError(group []string, fixed string, own map[string]int32) error {
	e := &CopartitionError{Fixed: fixed}
	for _, topic := range group {
		if n, internal := own[topic]; internal && n == 0 {
			continue
		}
		e.Topics = append(e.Topics, TopicCount{Topic: topic, Partitions: r.counts[topic]})
	}
	for _, c := range r.t.copart {
		step := c.step + " at " + c.pos.String()
		if r.reads(c.sources, group) && !slices.Contains(e.Steps, step) {
			e.Steps = append(e.Steps, step)
		}
	}
	return e
}

// reads tells whether one of the sources reads one of the topics.
func (r *resolver) reads(sources []*Node, topics []string) bool {
	return slices.ContainsFunc(sources, func(n *Node) bool {
		return slices.ContainsFunc(r.topics[n], func(topic string) bool { return slices.Contains(topics, topic) })
	})
}

// copartitionGroups returns the groups of topics by their names in the cluster; groups that share a topic are one. Each is
// sorted, and they are sorted among each other.
func (r *resolver) copartitionGroups() [][]string {
	index := map[string]int{}
	var topics []string
	for _, c := range r.t.copart {
		for _, n := range c.sources {
			for _, topic := range r.topics[n] {
				if _, ok := index[topic]; !ok {
					index[topic] = len(topics)
					topics = append(topics, topic)
				}
			}
		}
	}
	u := newUnionFind(len(topics))
	for _, c := range r.t.copart {
		first := -1
		for _, n := range c.sources {
			for _, topic := range r.topics[n] {
				if first < 0 {
					first = index[topic]
				}
				u.unite(index[topic], first)
			}
		}
	}
	members := make([][]string, len(topics))
	for i, topic := range topics {
		root := u.root(i)
		members[root] = append(members[root], topic)
	}
	var groups [][]string
	for _, group := range members {
		if len(group) > 0 {
			slices.Sort(group)
			groups = append(groups, group)
		}
	}
	slices.SortFunc(groups, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return groups
}
