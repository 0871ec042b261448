package topology

import (
	"maps"
	"slices"
)

// Clone returns a copy that can be rewritten without a trace in the original.
func (b *Builder) Clone() *Builder {
	c := &Builder{
		next: b.next, byName: make(map[string]*decl, len(b.nodes)), stores: slices.Clone(b.stores), byStore: maps.Clone(b.byStore),
		topics: slices.Clone(b.topics), byTopic: maps.Clone(b.byTopic), connects: slices.Clone(b.connects), errs: slices.Clone(b.errs),
	}
	for _, d := range b.nodes {
		d := *d
		d.parents = slices.Clone(d.parents)
		c.nodes = append(c.nodes, &d)
		c.byName[d.name] = &d
	}
	for _, group := range b.copart {
		group.sources = slices.Clone(group.sources)
		c.copart = append(c.copart, group)
	}
	return c
}

// Failed tells whether a mistake has been collected, after which nothing needs to be rewritten.
func (b *Builder) Failed() bool { return len(b.errs) > 0 }

// Remove takes nodes out. What they were connected to is forgotten; their children are the caller's to move.
func (b *Builder) Remove(names ...string) {
	gone := func(name string) bool { return slices.Contains(names, name) }
	b.nodes = slices.DeleteFunc(b.nodes, func(d *decl) bool { return gone(d.name) })
	b.connects = slices.DeleteFunc(b.connects, func(c connection) bool { return gone(c.processor) })
	for _, name := range names {
		delete(b.byName, name)
	}
	b.renumber()
}

// RemoveStore takes a local store out, which no node may be connected to any more.
func (b *Builder) RemoveStore(name string) {
	b.stores = slices.DeleteFunc(b.stores, func(s *storeDecl) bool { return s.Name == name })
	delete(b.byStore, name)
}

// Rewire gives a processor other parents and, unless it is nil, another operator.
func (b *Builder) Rewire(name string, op any, parents ...string) {
	d := b.byName[name]
	if d == nil {
		return
	}
	d.parents = slices.Clone(parents)
	if op != nil {
		d.op = op
	}
}

// insertAfter puts nodes behind a node in the order of declaration.
func (b *Builder) insertAfter(anchor *decl, nodes ...*decl) {
	b.nodes = slices.Insert(b.nodes, anchor.index+1, nodes...)
	for _, d := range nodes {
		b.byName[d.name] = d
	}
	b.renumber()
}

func (b *Builder) renumber() {
	for i, d := range b.nodes {
		d.index = i
	}
}

// moveChildren hangs the children of one node under another.
func (b *Builder) moveChildren(from, to string) {
	for _, d := range b.nodes {
		replaceParent(d, from, to)
	}
}

func replaceParent(d *decl, from, to string) {
	for i, p := range d.parents {
		if p == from {
			d.parents[i] = to
		}
	}
}
