package topology

import (
	"fmt"
	"slices"
	"strings"
)

// boxKind decides how a part of the topology looks in a drawing.
type boxKind uint8

const (
	topicBox boxKind = iota
	patternBox
	dynamicBox // the topics that a sink chooses for each record
	internalTopicBox
	sourceBox
	stepBox
	sinkBox
	storeBox
)

// drawing is a topology as boxes and arrows, for the printers below.
type drawing struct {
	topics   []box // outside of the sub-topologies
	clusters []cluster
	edges    []edge
}

type cluster struct {
	sub       int // id of the sub-topology
	id, title string
	boxes     []box
}

type box struct {
	id, label string
	kind      boxKind
}

type edge struct {
	from, to string
	store    bool // between a step and a store: no records flow along the graph
}

// draw lays out sub-topologies and global stores by id, then the topics between and around them.
func (t *Topology) draw() drawing {
	var d drawing
	topicID := map[string]string{}
	topic := func(name string, kind boxKind) string {
		key := fmt.Sprint(kind, name)
		id, ok := topicID[key]
		if !ok {
			id = fmt.Sprintf("topic%d", len(topicID))
			topicID[key] = id
			d.topics = append(d.topics, box{id: id, label: name, kind: kind})
		}
		return id
	}
	node := func(n *Node) string { return fmt.Sprintf("node%d", n.Index) }
	storeID := map[*StateStore]string{}
	for i, s := range t.stores {
		storeID[s] = fmt.Sprintf("store%d", i)
	}

	addNodes := func(c *cluster, nodes []*Node, stores []*StateStore) {
		for _, n := range nodes {
			kind := stepBox
			switch n.Kind {
			case SourceNode:
				kind = sourceBox
			case SinkNode:
				kind = sinkBox
			}
			c.boxes = append(c.boxes, box{id: node(n), label: n.Name, kind: kind})
		}
		for _, s := range stores {
			c.boxes = append(c.boxes, box{id: storeID[s], label: s.Name, kind: storeBox})
		}
	}
	for _, s := range t.subs {
		c := cluster{sub: s.ID, id: fmt.Sprintf("sub%d", s.ID), title: fmt.Sprintf("Sub-topology %d", s.ID)}
		addNodes(&c, s.Nodes, s.Stores)
		d.clusters = append(d.clusters, c)
	}
	for _, g := range t.globals {
		c := cluster{sub: g.ID, id: fmt.Sprintf("sub%d", g.ID), title: fmt.Sprintf("Sub-topology %d (global store)", g.ID)}
		addNodes(&c, []*Node{g.Source, g.Processor}, []*StateStore{g.Store})
		d.clusters = append(d.clusters, c)
	}

	userKind := func(n *Node) boxKind {
		if n.Internal {
			return internalTopicBox
		}
		return topicBox
	}
	for _, n := range t.nodes {
		for _, name := range n.Topics {
			d.edges = append(d.edges, edge{from: topic(name, userKind(n)), to: node(n)})
		}
		if n.Pattern != "" {
			d.edges = append(d.edges, edge{from: topic(n.Pattern, patternBox), to: node(n)})
		}
		for _, c := range n.Children {
			d.edges = append(d.edges, edge{from: node(n), to: node(c)})
		}
		for _, s := range n.Stores {
			d.edges = append(d.edges, edge{from: node(n), to: storeID[s], store: true})
		}
		switch {
		case n.Topic != "":
			d.edges = append(d.edges, edge{from: node(n), to: topic(n.Topic, userKind(n))})
		case n.Dynamic != "":
			d.edges = append(d.edges, edge{from: node(n), to: topic(n.Dynamic, dynamicBox)})
		}
	}
	slices.SortFunc(d.clusters, func(a, b cluster) int { return a.sub - b.sub })
	return d
}

// DOT prints the topology for Graphviz: sub-topologies are framed, stores are cylinders, repartition topics are dashed.
func (t *Topology) DOT() string {
	shape := map[boxKind]string{
		topicBox:         `shape=cds, style=filled, fillcolor="#dbeafe"`,
		patternBox:       `shape=cds, style=filled, fillcolor="#dbeafe"`,
		dynamicBox:       `shape=cds, style="filled,dotted", fillcolor="#dbeafe"`,
		internalTopicBox: `shape=cds, style="filled,dashed", fillcolor="#fef3c7"`,
		sourceBox:        `shape=box, style="rounded,filled", fillcolor="#ecfdf5"`,
		stepBox:          `shape=box`,
		sinkBox:          `shape=box, style="rounded,filled", fillcolor="#ecfdf5"`,
		storeBox:         `shape=cylinder, style=filled, fillcolor="#ede9fe"`,
	}
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
	}
	d := t.draw()
	var sb strings.Builder
	sb.WriteString("digraph topology {\n  rankdir=TB;\n  node [fontname=\"Helvetica\", fontsize=11];\n")
	for _, c := range d.clusters {
		fmt.Fprintf(&sb, "  subgraph cluster_%s {\n    label=%s;\n    style=rounded;\n", c.id, quote(c.title))
		for _, b := range c.boxes {
			fmt.Fprintf(&sb, "    %s [label=%s, %s];\n", b.id, quote(b.label), shape[b.kind])
		}
		sb.WriteString("  }\n")
	}
	for _, b := range d.topics {
		fmt.Fprintf(&sb, "  %s [label=%s, %s];\n", b.id, quote(b.label), shape[b.kind])
	}
	for _, e := range d.edges {
		attr := ""
		if e.store {
			attr = ` [dir=none, style=dotted]`
		}
		fmt.Fprintf(&sb, "  %s -> %s%s;\n", e.from, e.to, attr)
	}
	sb.WriteString("}\n")
	return sb.String()
}

// Mermaid prints the topology as a Mermaid flowchart, which GitHub and many editors draw: sub-topologies are framed,
// stores are cylinders, repartition topics are dashed.
func (t *Topology) Mermaid() string {
	shape := map[boxKind][2]string{
		topicBox:         {"([", "])"},
		patternBox:       {"([", "])"},
		dynamicBox:       {"([", "])"},
		internalTopicBox: {"([", "])"},
		sourceBox:        {"(", ")"},
		stepBox:          {"[", "]"},
		sinkBox:          {"(", ")"},
		storeBox:         {"[(", ")]"},
	}
	class := map[boxKind]string{
		topicBox: "topic", patternBox: "topic", dynamicBox: "topic", internalTopicBox: "internal", storeBox: "store",
	}
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`#`, `#35;`, `"`, `#quot;`, `<`, `#lt;`, `>`, `#gt;`, "\n", ` `).Replace(s) + `"`
	}
	write := func(sb *strings.Builder, indent string, b box) {
		s := shape[b.kind]
		fmt.Fprintf(sb, "%s%s%s%s%s", indent, b.id, s[0], quote(b.label), s[1])
		if c := class[b.kind]; c != "" {
			sb.WriteString(":::" + c)
		}
		sb.WriteByte('\n')
	}
	d := t.draw()
	var sb strings.Builder
	sb.WriteString("flowchart TD\n")
	for _, c := range d.clusters {
		fmt.Fprintf(&sb, "  subgraph %s[%s]\n", c.id, quote(c.title))
		for _, b := range c.boxes {
			write(&sb, "    ", b)
		}
		sb.WriteString("  end\n")
	}
	for _, b := range d.topics {
		write(&sb, "  ", b)
	}
	for _, e := range d.edges {
		arrow := "-->"
		if e.store {
			arrow = "-.-"
		}
		fmt.Fprintf(&sb, "  %s %s %s\n", e.from, arrow, e.to)
	}
	sb.WriteString("  classDef topic fill:#dbeafe,stroke:#1d4ed8,color:#111\n")
	sb.WriteString("  classDef internal fill:#fef3c7,stroke:#b45309,color:#111,stroke-dasharray:4 3\n")
	sb.WriteString("  classDef store fill:#ede9fe,stroke:#6d28d9,color:#111\n")
	return sb.String()
}
