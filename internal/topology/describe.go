package topology

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Describe prints the topology byte for byte as TopologyDescription.toString of Kafka Streams does: sub-topologies by id,
// in each the nodes with the most nodes below them first. Topics are printed without application id, patterns as they
// were written.
//
// The order of topics and stores inside brackets, and of the names behind arrows, is that of Java's hash and tree sets.
func (t *Topology) Describe() string {
	var sb strings.Builder
	sb.WriteString("Topologies:\n ")
	subs, globals := t.subs, t.globals
	for len(subs) > 0 || len(globals) > 0 {
		sb.WriteString("  ")
		if len(globals) == 0 || len(subs) > 0 && subs[0].ID < globals[0].ID {
			describeSubtopology(&sb, subs[0])
			subs = subs[1:]
			continue
		}
		describeGlobal(&sb, globals[0])
		globals = globals[1:]
	}
	return sb.String()
}

func describeSubtopology(sb *strings.Builder, s *Subtopology) {
	sb.WriteString("Sub-topology: " + strconv.Itoa(s.ID) + "\n")
	for _, n := range describeNodes(s) {
		sb.WriteString("    ")
		n.print(sb)
		sb.WriteByte('\n')
	}
	sb.WriteByte('\n')
}

func describeGlobal(sb *strings.Builder, g *Global) {
	source := &describedNode{Node: g.Source, successors: newNodeSet()}
	step := &describedNode{Node: g.Processor, predecessors: newNodeSet()}
	source.successors.add(step)
	step.predecessors.add(source)
	step.successors = newNodeSet()
	sb.WriteString("Sub-topology: " + strconv.Itoa(g.ID) + " for global store (will not generate tasks)\n    ")
	source.print(sb)
	sb.WriteString("\n    ")
	step.print(sb)
	sb.WriteByte('\n')
}

// describedNode is a node with what decides its place in the text.
type describedNode struct {
	*Node
	// size counts the ways down from the node, the empty one included: a node below that is reached twice counts twice.
	size                     int32
	predecessors, successors *javaTreeSet[*describedNode]
}

func newNodeSet() *javaTreeSet[*describedNode] {
	return &javaTreeSet[*describedNode]{compare: compareDescribed}
}

func compareDescribed(a, b *describedNode) int {
	switch {
	case a == b:
		return 0
	case a.size != b.size:
		return int(b.size - a.size)
	}
	return cmp.Compare(a.Name, b.Name)
}

// describeNodes connects the nodes in the same order as Java does, because the sets of neighbours are ordered by sizes
// that are not final yet, and returns the nodes in the order of printing.
func describeNodes(s *Subtopology) []*describedNode {
	names := newJavaHashSet()
	byName := make(map[string]*describedNode, len(s.Nodes))
	for _, n := range s.Nodes {
		names.add(n.Name)
		byName[n.Name] = &describedNode{Node: n, size: 1, predecessors: newNodeSet(), successors: newNodeSet()}
	}
	nodes := make([]*describedNode, 0, len(s.Nodes))
	for _, name := range names.elems() {
		n := byName[name]
		nodes = append(nodes, n)
		for _, parent := range n.Parents {
			p := byName[parent.Name]
			n.predecessors.add(p)
			p.successors.add(n)
			growAbove(s, byName, p, n.size)
		}
	}
	slices.SortFunc(nodes, compareDescribed)
	return nodes
}

// growAbove adds delta to the size of a node and, once for each way up, to those above it. Java walks every way; here the
// ways are counted, since their number may double with each diamond in the graph.
func growAbove(s *Subtopology, byName map[string]*describedNode, start *describedNode, delta int32) {
	grow := map[*describedNode]int32{start: delta}
	last, _ := slices.BinarySearchFunc(s.Nodes, start.Index, func(n *Node, index int) int { return n.Index - index })
	for i := last; i >= 0; i-- { // children stand behind their parents
		n := byName[s.Nodes[i].Name]
		d := grow[n]
		if d == 0 {
			continue
		}
		n.size += d
		for _, p := range n.predecessors.elems() {
			grow[p] += d
		}
	}
}

func (n *describedNode) print(sb *strings.Builder) {
	switch n.Kind {
	case SourceNode:
		topics := n.Pattern
		if topics == "" {
			topics = bracketed(copyJavaHashSet(n.Topics))
		}
		sb.WriteString("Source: " + n.Name + " (topics: " + topics + ")\n      --> " + nodeNames(n.successors))
	case ProcessorNode:
		stores := newJavaHashSet()
		for _, s := range n.Stores {
			stores.add(s.Name)
		}
		sb.WriteString("Processor: " + n.Name + " (stores: " + bracketed(copyJavaHashSet(stores.elems())) +
			")\n      --> " + nodeNames(n.successors) + "\n      <-- " + nodeNames(n.predecessors))
	case SinkNode:
		if n.Dynamic != "" {
			sb.WriteString("Sink: " + n.Name + " (extractor class: " + n.Dynamic + ")\n      <-- " + nodeNames(n.predecessors))
			return
		}
		sb.WriteString("Sink: " + n.Name + " (topic: " + n.Topic + ")\n      <-- " + nodeNames(n.predecessors))
	}
}

func bracketed(s *javaHashSet) string { return "[" + strings.Join(s.elems(), ", ") + "]" }

func nodeNames(nodes *javaTreeSet[*describedNode]) string {
	var names []string
	for _, n := range nodes.elems() {
		names = append(names, n.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
