package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/broker"
	"github.com/millrace-io/millrace/internal/topology"
)

// planner works out what the topology comes to in the cluster, and makes its internal topics.
type planner struct {
	appID    string
	topology *topology.Topology
	resolve  topology.ResolveConfig
	admin    broker.Admin
	log      *slog.Logger
	created  map[string]bool // internal topics
}

// look resolves the topology against the topics that exist.
func (p *planner) look(ctx context.Context) (Plan, error) {
	counts, matched, err := p.topics(ctx)
	if err != nil {
		return Plan{}, err
	}
	plan, err := p.topology.Resolve(p.appID, counts, matched, p.resolve)
	if err != nil {
		return Plan{}, err
	}
	return Plan{Plan: plan, Group: p.group(plan)}, nil
}

// topics asks for all topics that the topology reads and for its internal ones.
func (p *planner) topics(ctx context.Context) (counts map[string]int32, matched map[string][]string, err error) {
	names := slices.Concat(p.topology.SourceTopics(), p.topology.GlobalTopics(), p.topology.InternalTopicNames(p.appID))
	infos, err := p.admin.Topics(ctx, slices.Compact(slices.Sorted(slices.Values(names)))...)
	if err != nil {
		return nil, nil, err
	}
	counts = make(map[string]int32)
	for _, n := range names {
		switch i := infos[n]; {
		case i.Err != nil:
			return nil, nil, i.Err
		case i.Exists:
			counts[n] = i.Partitions
		}
	}
	matched = make(map[string][]string)
	for _, pattern := range p.topology.Patterns() {
		found, err := p.admin.MatchTopics(ctx, pattern)
		if err != nil {
			return nil, nil, err
		}
		matched[pattern] = nil
		for _, i := range found {
			if i.Err != nil {
				return nil, nil, i.Err
			}
			matched[pattern] = append(matched[pattern], i.Name)
			counts[i.Name] = i.Partitions
		}
	}
	return counts, matched, nil
}

// group is what the members of the group agree on.
func (p *planner) group(plan *topology.Plan) broker.GroupTopology {
	g := broker.GroupTopology{Signature: p.topology.Signature(), Shape: p.topology.Shape()}
	topics := make(map[int]map[string]bool)
	changelogs := make(map[int]map[broker.GroupChangelog]bool)
	for _, t := range plan.Tasks {
		if changelogs[t.Subtopology] == nil {
			changelogs[t.Subtopology] = make(map[broker.GroupChangelog]bool)
		}
		for _, c := range t.Changelogs {
			changelogs[t.Subtopology][broker.GroupChangelog{Topic: c.Topic, Input: c.Reused}] = true
		}
		if topics[t.Subtopology] == nil {
			topics[t.Subtopology] = make(map[string]bool)
		}
		for _, in := range t.Inputs {
			topics[t.Subtopology][in.Topic] = true
		}
	}
	for _, s := range p.topology.Subtopologies() {
		sub := broker.Subtopology{ID: s.ID, Stateful: len(s.Stores) > 0}
		for t := range topics[s.ID] {
			sub.Topics = append(sub.Topics, t)
		}
		slices.Sort(sub.Topics)
		for c := range changelogs[s.ID] {
			sub.Changelogs = append(sub.Changelogs, c)
		}
		slices.SortFunc(sub.Changelogs, func(a, b broker.GroupChangelog) int { return strings.Compare(a.Topic, b.Topic) })
		sub.Told = p.told(s, plan)
		g.Subtopologies = append(g.Subtopologies, sub)
	}
	return g
}

// told is how brokers that assign the tasks are told of a sub-topology: as Kafka Streams tells them, so that a group that it
// has left can be gone on with. A changelog that is an input is left out: it is not made for the store.
func (p *planner) told(s *topology.Subtopology, plan *topology.Plan) (t broker.ToldTopics) {
	for _, n := range s.Sources {
		if !n.Internal {
			t.Sources = append(t.Sources, n.Topics...)
		}
	}
	given := make(map[string]int32) // numbers of partitions that stand in the program, by raw name
	for _, topic := range p.topology.InternalTopics() {
		given[topic.Name] = topic.Partitions
	}
	for _, spec := range plan.Repartitions {
		if slices.Contains(s.RepartitionIn, spec.Raw) {
			told := spec.TopicSpec
			told.Partitions = given[spec.Raw]
			t.Repartitions = append(t.Repartitions, told)
		}
	}
	for _, raw := range s.RepartitionOut {
		t.Sinks = append(t.Sinks, topology.DecoratedTopic(p.appID, raw))
	}
	for _, spec := range plan.Changelogs {
		if spec.Subtopology == s.ID {
			told := spec.TopicSpec
			told.Partitions = 0
			t.Changelogs = append(t.Changelogs, told)
		}
	}
	reads := func(name string) bool {
		return slices.Contains(t.Sources, name) || slices.ContainsFunc(t.Repartitions, func(r broker.TopicSpec) bool { return r.Name == name })
	}
	for _, group := range topology.InJavaOrder(plan.Copartitions) {
		if !slices.ContainsFunc(group, func(name string) bool { return !reads(name) }) {
			t.Copartitions = append(t.Copartitions, group)
		}
	}
	return t
}

// make validates the internal topics that exist and creates the others. Other instances may do the same at the same time.
func (p *planner) make(ctx context.Context, plan Plan) error {
	for attempt := 1; ; attempt++ {
		existing, err := p.existing(ctx, plan)
		if err != nil {
			return err
		}
		create, warnings, err := plan.ValidateExisting(existing)
		if err != nil {
			return err
		}
		if attempt == 1 {
			for _, w := range warnings {
				p.log.Warn(w)
			}
		}
		lostRace := false
		for _, spec := range create {
			err := p.admin.CreateTopic(ctx, spec.TopicSpec)
			switch {
			case errors.Is(err, broker.ErrTopicExists):
				lostRace = true
			case err != nil:
				return fmt.Errorf("millrace: the internal topic %q (%d partitions, replication factor %d) cannot be created: %w",
					spec.Name, spec.Partitions, spec.ReplicationFactor, err)
			default:
				if p.created == nil {
					p.created = make(map[string]bool)
				}
				p.created[spec.Name] = true
				p.log.Info("created internal topic", "topic", spec.Name, "partitions", spec.Partitions)
			}
		}
		// What another instance has made is looked at like any topic that was there.
		if !lostRace || attempt > 3 {
			return nil
		}
	}
}

func (p *planner) existing(ctx context.Context, plan Plan) (map[string]topology.ExistingTopic, error) {
	var names []string
	for _, s := range slices.Concat(plan.Repartitions, plan.Changelogs) {
		names = append(names, s.Name)
	}
	for _, t := range plan.Tasks {
		for _, c := range t.Changelogs {
			if c.Reused {
				names = append(names, c.Topic)
			}
		}
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) == 0 {
		return nil, nil
	}
	infos, err := p.admin.Topics(ctx, names...)
	if err != nil {
		return nil, err
	}
	var there []string
	for _, n := range names {
		if i := infos[n]; i.Err != nil {
			return nil, i.Err
		} else if i.Exists {
			there = append(there, n)
		}
	}
	existing := make(map[string]topology.ExistingTopic, len(there))
	if len(there) == 0 {
		return existing, nil
	}
	configs, err := p.admin.TopicConfigs(ctx, there...)
	if errors.Is(err, broker.ErrUnauthorized) {
		p.log.Warn("the settings of internal topics cannot be checked", "error", err)
		configs = nil
	} else if err != nil {
		return nil, err
	}
	for _, n := range there {
		existing[n] = topology.ExistingTopic{Partitions: infos[n].Partitions, Configs: configs[n]}
	}
	return existing, nil
}

// foreignGroup tells that a group has members that those of this library cannot share it with. Java's consumer protocol is "consumer"
// with the assignor "stream". brokers says that this instance is to have its tasks assigned by brokers: the type "streams".
func foreignGroup(g broker.GroupInfo, ours string, brokers bool) error {
	if len(g.Members) == 0 {
		return nil
	}
	if brokers && g.ProtocolType == "streams" && g.Protocol == ours || !brokers && g.ProtocolType == "consumer" && (g.Protocol == ours || g.Protocol == "") {
		return nil
	}
	what := "type " + g.ProtocolType
	if g.Protocol != "" {
		what += ", assignor " + g.Protocol
	}
	hint := "stop the other application, or choose another application id"
	switch {
	case g.Protocol == ours && brokers:
		hint = "they run with group.protocol=classic: stop them all before the first one is started with group.protocol=streams"
	case g.Protocol == ours:
		hint = "they run with group.protocol=streams: stop them all before the first one is started with group.protocol=classic"
	case g.Protocol == "stream" || g.ProtocolType == "streams":
		hint = "it is a Kafka Streams application: stop all its instances; if it was just stopped, its members stay until their session timeout (45 s by default)"
	}
	return fmt.Errorf("%w: %d members of another kind (%s): %s: %s", broker.ErrMixedGroup, len(g.Members), what, strings.Join(g.Members, ", "), hint)
}

// newStoresWait is how long the start waits to tell of new stores.
const newStoresWait = 3 * time.Second

// warnNewStores tells of stores whose changelog had to be made although input of their tasks has been processed: they were added
// or renamed, or the topic was deleted, and begin empty behind what is committed. Asking is best effort: it holds nothing up.
func (p *planner) warnNewStores(ctx context.Context, plan Plan) {
	inputs := make(map[string][]broker.TopicPartition) // by store
	var all []broker.TopicPartition
	for _, t := range plan.Tasks {
		for _, c := range t.Changelogs {
			if !p.created[c.Topic] {
				continue
			}
			for _, in := range t.Inputs {
				inputs[c.Store.Name] = append(inputs[c.Store.Name], in.TopicPartition)
				all = append(all, in.TopicPartition)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	broker.SortPartitions(all)
	ctx, cancel := context.WithTimeout(ctx, newStoresWait) // an open transaction would hold the answer up
	defer cancel()
	committed, err := p.admin.CommittedOffsets(ctx, p.appID, slices.Compact(all)...)
	if err != nil {
		p.log.Debug("whether new stores begin behind committed input is not known", "error", err)
		return
	}
	var stores, changelogs []string
	behind := make(map[string]bool)
	for _, store := range slices.Sorted(maps.Keys(inputs)) {
		committedTo := false
		for _, tp := range inputs[store] {
			if o, ok := committed[tp]; ok && o.Offset > 0 {
				behind[tp.Topic] = true
				committedTo = true
			}
		}
		if committedTo {
			stores, changelogs = append(stores, store), append(changelogs, topology.ChangelogTopic(p.appID, store))
		}
	}
	if len(stores) > 0 {
		p.log.Warn("stores are new to this application id, and begin empty behind input that has been processed: they were added or renamed, or their changelogs were deleted. What was processed before is not in them; if they should be built from the beginning, stop all instances and reset the application (docs/reset.md)",
			"stores", stores, "changelogs", changelogs, "input_topics", slices.Sorted(maps.Keys(behind)))
	}
}
