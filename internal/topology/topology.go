package topology

import (
	"fmt"
	"regexp"
	"slices"
)

// NodeKind tells the kinds of nodes apart.
type NodeKind uint8

const (
	SourceNode NodeKind = iota
	ProcessorNode
	SinkNode
)

// String names the kind in lower case.
func (k NodeKind) String() string {
	switch k {
	case SourceNode:
		return "source"
	case ProcessorNode:
		return "step"
	case SinkNode:
		return "sink"
	}
	return fmt.Sprintf("NodeKind(%d)", uint8(k))
}

// Topology is a checked graph. It never changes, and may be read by several goroutines; nobody may change what its
// methods return.
type Topology struct {
	subs    []*Subtopology // ids ascending, without those of global stores
	globals []*Global      // ids ascending
	nodes   []*Node        // all, in the order of declaration
	byName  map[string]*Node
	stores  []*StateStore // all, in the order of declaration
	byStore map[string]*StateStore
	topics  []RepartitionTopic // in the order of declaration
	byTopic map[string]int
	copart  []copartitioned
}

// copartitioned is sources whose topics must have the same number of partitions, and the step that demands it.
type copartitioned struct {
	step    string
	pos     Pos
	sources []*Node
}

// Node is a source, a processor or a sink.
type Node struct {
	Name        string
	Kind        NodeKind
	Op          any
	Pos         Pos
	Index       int     // position among all nodes of the topology, in the order of declaration
	Subtopology int     // id
	Parents     []*Node // in the order of declaration
	Children    []*Node // in the order in which they were declared; one that names this parent twice stands twice

	// Of a source.
	Topics      []string // without application id if Internal
	Pattern     string   // empty if Topics is set
	Reset       OffsetReset
	ResetBackMs int64 // for ResetByDuration
	IdleMs      int64 // after how long without records it is idle; 0 never. See Source.IdleTimeout
	re          *regexp.Regexp

	// Of a sink.
	Topic   string // without application id if Internal
	Dynamic string // set if the topic is chosen for each record

	Stores   []*StateStore // of a processor, in the order of connecting
	Internal bool          // a source or sink of a repartition topic
	Global   bool          // belongs to a global store
}

// Matches reports whether a pattern source would read a topic of that name. It is false for other nodes.
func (n *Node) Matches(topic string) bool { return n.re != nil && n.re.MatchString(topic) }

// SinkTopic returns the name in the cluster of the topic that a sink writes; it is empty if it is chosen for each record.
func (n *Node) SinkTopic(appID string) string {
	if n.Internal && n.Kind == SinkNode {
		return DecoratedTopic(appID, n.Topic)
	}
	return n.Topic
}

// StateStore is a store with the processors that use it.
type StateStore struct {
	Store
	Users       []*Node // in the order of connecting
	Subtopology int     // id
	Global      bool
}

// Subtopology is a connected part of the graph. Its tasks are numbered by partition.
type Subtopology struct {
	ID      int
	Nodes   []*Node       // parents before children, in the order of declaration
	Sources []*Node       // those of Nodes that are sources
	Stores  []*StateStore // in the order in which they were added
	// RepartitionIn and RepartitionOut are the names, without application id, of the repartition topics that it reads
	// and writes, in the order of Nodes.
	RepartitionIn  []string
	RepartitionOut []string
}

// Topics returns the names of all topics that the sub-topology reads by name, those of repartition topics without the
// application id, in the order of declaration. Patterns are not in it.
func (s *Subtopology) Topics() []string {
	var topics []string
	for _, n := range s.Sources {
		topics = append(topics, n.Topics...)
	}
	return topics
}

// Global is a global store with its source and processor.
type Global struct {
	ID        int // among those of the sub-topologies
	Source    *Node
	Processor *Node
	Store     *StateStore
	Reprocess bool
}

// Topic returns the topic that fills the store.
func (g *Global) Topic() string { return g.Source.Topics[0] }

// Subtopologies returns the sub-topologies by ascending id. Ids of global stores are left out, so they may have gaps.
func (t *Topology) Subtopologies() []*Subtopology { return t.subs }

// Subtopology returns the one of that id, or nil.
func (t *Topology) Subtopology(id int) *Subtopology {
	i, ok := slices.BinarySearchFunc(t.subs, id, func(s *Subtopology, id int) int { return s.ID - id })
	if !ok {
		return nil
	}
	return t.subs[i]
}

// Globals returns the global stores by ascending id.
func (t *Topology) Globals() []*Global { return t.globals }

// Node returns the node of that name, or nil.
func (t *Topology) Node(name string) *Node { return t.byName[name] }

// Writers returns the sinks that write a topic of the topology's own.
func (t *Topology) Writers(topic string) (sinks []*Node) {
	for _, n := range t.nodes {
		if n.Kind == SinkNode && n.Internal && n.Topic == topic {
			sinks = append(sinks, n)
		}
	}
	return sinks
}

// Store returns the store of that name, global or not, or nil.
func (t *Topology) Store(name string) *StateStore { return t.byStore[name] }

// Stores returns all stores, global ones too, in the order in which they were added.
func (t *Topology) Stores() []*StateStore { return t.stores }

// SourceTopics returns the user's topics that tasks read by name, sorted. Repartition topics, topics of global stores and
// those that only match a pattern are not in it.
func (t *Topology) SourceTopics() []string {
	var topics []string
	for _, s := range t.subs {
		for _, n := range s.Sources {
			if !n.Internal {
				topics = append(topics, n.Topics...)
			}
		}
	}
	return sortedSet(topics)
}

// GlobalTopics returns the topics of the global stores, sorted.
func (t *Topology) GlobalTopics() []string {
	var topics []string
	for _, g := range t.globals {
		topics = append(topics, g.Topic())
	}
	return sortedSet(topics)
}

// SinkTopics returns the user's topics that sinks write by name, sorted.
func (t *Topology) SinkTopics() []string {
	var topics []string
	for _, n := range t.nodes {
		if n.Kind == SinkNode && !n.Internal && n.Topic != "" {
			topics = append(topics, n.Topic)
		}
	}
	return sortedSet(topics)
}

// Patterns returns the patterns of pattern sources, in the order of declaration.
func (t *Topology) Patterns() []string {
	var patterns []string
	for _, n := range t.nodes {
		if n.Pattern != "" {
			patterns = append(patterns, n.Pattern)
		}
	}
	return patterns
}

// Sources returns the nodes by which records enter tasks, in the order of sub-topologies and declaration.
func (t *Topology) Sources() (sources []*Node) {
	for _, s := range t.subs {
		sources = append(sources, s.Sources...)
	}
	return sources
}

// InternalTopics returns the repartition topics in the order of declaration.
func (t *Topology) InternalTopics() []RepartitionTopic { return t.topics }
