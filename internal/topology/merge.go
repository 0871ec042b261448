package topology

import "slices"

// Role says what a processor does to the keys and values of a stream, as far as MergeRepartitions must know. Steps without a
// role are never moved.
type Role uint8

const (
	// NoRole is that of steps that change values, keep state, or do what only the user knows.
	NoRole Role = iota
	// KeyRole is that of steps that change keys.
	KeyRole
	// PassRole is that of steps that pass on records as they are, or drop them.
	PassRole
	// UnionRole is that of steps that put streams together.
	UnionRole
)

// repartitionPath is a repartition topic with the steps around it.
type repartitionPath struct {
	topic                string
	filter, sink, source *decl
}

// MergeRepartitions leaves one repartition topic behind each step that changes keys: the mergeable topics behind it become
// one, right behind the step, and what stood between moves behind the topic. So does it for a step that puts streams together
// of which one has a changed key. The topic keeps the name of the first one declared, and its steps are named after it. The
// names returned are the topics that now feed more than what stood behind the topics before.
//
// In Kafka Streams: the optimisation merge.repartition.topics. There a repartition topic may also move in front of a step
// that puts streams together, and a join with a global table moves behind a topic of other values.
func (b *Builder) MergeRepartitions() (wider []string) {
	groups := make(map[*decl][]repartitionPath)
	var anchors []*decl
	for _, t := range b.topics {
		if !t.Mergeable {
			continue
		}
		p := b.path(t.Name)
		anchor := b.anchor(p.filter)
		if anchor == nil {
			continue
		}
		if groups[anchor] == nil {
			anchors = append(anchors, anchor)
		}
		groups[anchor] = append(groups[anchor], p)
	}
	for _, anchor := range anchors {
		if b.mergeBehind(anchor, groups[anchor]) {
			wider = append(wider, groups[anchor][0].topic)
		}
	}
	return wider
}

// path finds the steps around a repartition topic.
func (b *Builder) path(topic string) repartitionPath {
	p := repartitionPath{topic: topic}
	for _, d := range b.nodes {
		switch {
		case d.kind == SinkNode && d.topic == topic:
			p.sink, p.filter = d, b.byName[d.parents[0]]
		case d.kind == SourceNode && slices.Contains(d.source.Topics, topic):
			p.source = d
		}
	}
	return p
}

// anchor finds the step behind which the topic of a path belongs, nil if there is none.
func (b *Builder) anchor(filter *decl) *decl {
	for d := filter; d != nil && len(d.parents) == 1; {
		d = b.byName[d.parents[0]]
		switch {
		case d == nil || d.role == NoRole:
			return nil
		case d.role == KeyRole, d.role == UnionRole && b.changesKeys(d):
			return d
		case d.role == UnionRole:
			return nil
		}
	}
	return nil
}

// changesKeys tells whether one of the streams that a step puts together comes from a step that changes keys.
func (b *Builder) changesKeys(d *decl) bool {
	return slices.ContainsFunc(d.parents, func(name string) bool {
		p := b.byName[name]
		return p.role == KeyRole || p.role != NoRole && b.changesKeys(p)
	})
}

// mergeBehind makes the topics of paths one behind their anchor, and says whether others read it than those behind the topics.
func (b *Builder) mergeBehind(anchor *decl, paths []repartitionPath) (wider bool) {
	first := paths[0]
	filter, sink, source := *first.filter, *first.sink, *first.source
	filter.name, sink.name, source.name = first.topic+"-filter", first.topic+"-sink", first.topic+"-source"
	filter.parents, sink.parents = []string{anchor.name}, []string{filter.name}
	for _, p := range paths {
		// The old source may have the name of the new one: its children leave first.
		if before := p.filter.parents[0]; before != anchor.name {
			wider = true
			b.moveChildren(p.source.name, before)
			b.moveBehind(anchor, b.byName[before], source.name)
		} else {
			b.moveChildren(p.source.name, source.name)
		}
		b.Remove(p.filter.name, p.sink.name, p.source.name)
		for _, group := range b.copart {
			for i, name := range group.sources {
				if name == p.source.name {
					group.sources[i] = source.name
				}
			}
		}
		if p.topic != first.topic {
			b.removeTopic(p.topic)
		}
	}
	b.insertAfter(anchor, &filter, &sink, &source)
	return wider
}

// moveBehind hangs the step under the anchor that leads to d behind the topic; another path may have done so already.
func (b *Builder) moveBehind(anchor, d *decl, source string) {
	for d.parents[0] != anchor.name {
		if d.parents[0] == source {
			return
		}
		d = b.byName[d.parents[0]]
	}
	replaceParent(d, anchor.name, source)
}

func (b *Builder) removeTopic(name string) {
	b.topics = slices.DeleteFunc(b.topics, func(t RepartitionTopic) bool { return t.Name == name })
	clear(b.byTopic)
	for i, t := range b.topics {
		b.byTopic[t.Name] = i
	}
}
