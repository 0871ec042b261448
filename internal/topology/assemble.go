package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// assemble makes the topology of a graph without faults.
func assemble(b *Builder, users map[*storeDecl][]*decl) *Topology {
	t := &Topology{
		byName:  make(map[string]*Node, len(b.nodes)),
		byStore: make(map[string]*StateStore, len(b.stores)),
		topics:  slices.Clone(b.topics),
		byTopic: maps.Clone(b.byTopic),
	}
	for i, d := range b.nodes {
		n := newNode(d)
		n.Index = i
		t.nodes = append(t.nodes, n)
		t.byName[n.Name] = n
		for _, name := range d.parents {
			p := t.byName[name]
			n.Parents = append(n.Parents, p)
			p.Children = append(p.Children, n)
		}
		n.Internal = t.isInternal(n)
	}
	for _, s := range b.stores {
		store := &StateStore{Store: s.Store, Global: s.global != nil}
		store.TopicConfigs = maps.Clone(s.TopicConfigs)
		t.stores = append(t.stores, store)
		t.byStore[s.Name] = store
		for _, d := range users[s] {
			store.Users = append(store.Users, t.nodes[d.index])
		}
		if s.global != nil {
			store.Users = append(store.Users, t.byName[s.global.Processor.Name])
		}
	}
	// A processor lists its stores in the order in which they were connected, not in which they were added.
	for _, conn := range b.connects {
		n := t.byName[conn.processor]
		for _, name := range conn.stores {
			if s := t.byStore[name]; !slices.Contains(n.Stores, s) {
				n.Stores = append(n.Stores, s)
			}
		}
	}
	for _, s := range b.stores {
		if s.global != nil {
			n := t.byName[s.global.Processor.Name]
			n.Stores = append(n.Stores, t.byStore[s.Name])
		}
	}
	t.split()
	for _, g := range t.globals {
		g.Reprocess = b.byStore[g.Store.Name].global.Reprocess
	}
	for _, group := range b.copart {
		var sources []*Node
		for _, name := range group.sources {
			sources = append(sources, t.byName[name])
		}
		t.copart = append(t.copart, copartitioned{group.step, group.pos, sources})
	}
	t.inheritIdle()
	return t
}

func newNode(d *decl) *Node {
	n := &Node{Name: d.name, Kind: d.kind, Op: d.op, Pos: d.pos, Topic: d.topic, Dynamic: d.dynamic, Global: d.global, re: d.re}
	if d.source != nil {
		n.Topics = slices.Clone(d.source.Topics)
		n.Pattern = d.source.Pattern
		n.Reset = d.source.Reset
		n.ResetBackMs = d.source.ResetBack.Milliseconds()
		n.IdleMs = d.source.IdleTimeout.Milliseconds()
	}
	return n
}

func (t *Topology) isInternal(n *Node) bool {
	topic := n.Topic
	if n.Kind == SourceNode && len(n.Topics) == 1 {
		topic = n.Topics[0]
	}
	_, ok := t.byTopic[topic]
	return ok
}

// split finds the sub-topologies: nodes belong together if one is the other's parent or if they share a store. Ids follow
// the order in which the first node of each was declared, and global stores are counted with them.
func (t *Topology) split() {
	u := newUnionFind(len(t.nodes))
	for _, n := range t.nodes {
		for _, p := range n.Parents {
			u.unite(n.Index, p.Index)
		}
	}
	for _, s := range t.stores {
		for _, n := range s.Users {
			u.unite(n.Index, s.Users[0].Index)
		}
	}
	ids := map[int]int{} // root -> id
	subs := map[int]*Subtopology{}
	globals := map[int]*Global{}
	for _, n := range t.nodes {
		root := u.root(n.Index)
		id, ok := ids[root]
		if !ok {
			id = len(ids)
			ids[root] = id
		}
		n.Subtopology = id
		switch {
		case n.Global && n.Kind == SourceNode:
			globals[id] = &Global{ID: id, Source: n}
			t.globals = append(t.globals, globals[id])
		case n.Global:
			globals[id].Processor = n
			globals[id].Store = n.Stores[0]
		default:
			s := subs[id]
			if s == nil {
				s = &Subtopology{ID: id}
				subs[id] = s
				t.subs = append(t.subs, s)
			}
			s.addNode(n)
		}
	}
	for _, s := range t.stores {
		s.Subtopology = s.Users[0].Subtopology
		if !s.Global {
			sub := subs[s.Subtopology]
			sub.Stores = append(sub.Stores, s)
		}
	}
}

func (s *Subtopology) addNode(n *Node) {
	s.Nodes = append(s.Nodes, n)
	switch n.Kind {
	case SourceNode:
		s.Sources = append(s.Sources, n)
		if n.Internal {
			s.RepartitionIn = append(s.RepartitionIn, n.Topics[0])
		}
	case SinkNode:
		if n.Internal && !slices.Contains(s.RepartitionOut, n.Topic) {
			s.RepartitionOut = append(s.RepartitionOut, n.Topic)
		}
	}
}

// reuseErrors finds stores whose changelog is to be a source topic that their sub-topology does not read, or that is
// purged while it is read.
func (t *Topology) reuseErrors() []error {
	var errs []error
	for _, sub := range t.subs {
		topics := sub.Topics()
		for _, s := range sub.Stores {
			if s.SourceTopic == "" {
				continue
			}
			if _, internal := t.byTopic[s.SourceTopic]; internal || !slices.Contains(topics, s.SourceTopic) {
				errs = append(errs, &BuildError{Pos: s.Pos, Msg: fmt.Sprintf("the store %q has the source topic %q as its changelog, but that is not one of the user's topics that its sub-topology reads by name", s.Name, s.SourceTopic)})
			}
		}
	}
	return errs
}

// partitionList prints topics with their numbers of partitions, by number.
func partitionList(topics map[int32]RepartitionTopic) string {
	var list []string
	for _, n := range slices.Sorted(maps.Keys(topics)) {
		list = append(list, fmt.Sprintf("%q has %d", topics[n].Name, n))
	}
	return strings.Join(list, ", ")
}
