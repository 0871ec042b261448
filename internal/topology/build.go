package topology

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"
)

// BuildOptions are the choices of Build.
type BuildOptions struct {
	// RequireNames refuses stores and internal topics with generated names.
	//
	// In Kafka Streams: ensure.explicit.internal.resource.naming.
	RequireNames bool
}

// Build checks the graph and returns it. The error joins all faults, those collected by Errorf first, in the order of the
// calls; each is a *BuildError. The Builder is not changed and may be built again.
func (b *Builder) Build(opts BuildOptions) (*Topology, error) {
	c := &checker{b: b, errs: slices.Clone(b.errs)}
	c.parents()
	c.sources()
	c.internalTopics()
	c.connections()
	c.copartition()
	if opts.RequireNames {
		c.explicitNames()
	}
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	t := assemble(b, c.users)
	if errs := t.reuseErrors(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return t, nil
}

// compilePattern compiles a pattern so that it must match the whole name of a topic.
func compilePattern(pattern string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err // with the user's pattern in its text, not ours
	}
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}

// checkSource checks what can be said about a source alone and compiles its pattern.
func (b *Builder) checkSource(s *Source, d *decl) {
	switch {
	case s.Pattern != "" && len(s.Topics) > 0:
		b.Errorf(s.Pos, "source %q has both topics and a pattern", s.Name)
	case s.Pattern != "":
		re, err := compilePattern(s.Pattern)
		if err != nil {
			b.Errorf(s.Pos, "source %q: the pattern %q does not compile: %w; patterns are written in Go's syntax (RE2), which has no look-around, back-references or possessive quantifiers", s.Name, s.Pattern, err)
			return
		}
		d.re = re
	case len(s.Topics) == 0:
		b.Errorf(s.Pos, "source %q has no topics", s.Name)
	}
	seen := map[string]bool{}
	for _, topic := range s.Topics {
		if err := CheckTopicName(topic); err != nil {
			b.Errorf(s.Pos, "source %q: %w", s.Name, err)
		}
		if seen[topic] {
			b.Errorf(s.Pos, "source %q names the topic %q twice", s.Name, topic)
		}
		seen[topic] = true
	}
	if s.IdleTimeout != 0 && s.IdleTimeout < time.Millisecond {
		b.Errorf(s.Pos, "source %q: idle timeout %v; it is at least 1ms", s.Name, s.IdleTimeout)
	}
	if (s.Reset == ResetByDuration) != (s.ResetBack > 0) {
		b.Errorf(s.Pos, "source %q: offset reset %s with duration %v; a positive duration belongs to by_duration and to no other", s.Name, s.Reset, s.ResetBack)
	}
}

// checker runs the checks that need the whole graph.
type checker struct {
	b     *Builder
	errs  []error
	users map[*storeDecl][]*decl // connected processors
}

func (c *checker) errorf(pos Pos, format string, args ...any) {
	var b Builder
	b.Errorf(pos, format, args...)
	c.errs = append(c.errs, b.errs...)
}

// parents checks that parents exist, come first, and are no sinks.
func (c *checker) parents() {
	inCycle := c.cycles()
	for _, d := range c.b.nodes {
		for _, name := range d.parents {
			p, ok := c.b.byName[name]
			switch {
			case !ok:
				c.errorf(d.pos, "%s %q: its parent %q does not exist", d.kind, d.name, name)
			case p.kind == SinkNode:
				c.errorf(d.pos, "%s %q: its parent %q is a sink, and nothing can follow a sink", d.kind, d.name, name)
			case p.global:
				if !d.global {
					c.errorf(d.pos, "%s %q: its parent %q belongs to a global store, and nothing can follow it", d.kind, d.name, name)
				}
			case p.index >= d.index && !inCycle[d]:
				c.errorf(d.pos, "%s %q: its parent %q is added after it, at %s; add parents first", d.kind, d.name, name, p.pos)
			}
		}
	}
}

// cycles reports each cycle of nodes once, at the node that was declared first, and returns all their members.
func (c *checker) cycles() map[*decl]bool {
	const (
		onPath = 1
		done   = 2
	)
	state := map[*decl]int{}
	inCycle := map[*decl]bool{}
	var path []*decl
	var visit func(d *decl)
	visit = func(d *decl) {
		state[d] = onPath
		path = append(path, d)
		for _, name := range d.parents {
			p, ok := c.b.byName[name]
			if !ok {
				continue
			}
			switch state[p] {
			case 0:
				visit(p)
			case onPath:
				cycle := path[slices.Index(path, p):]
				c.reportCycle(cycle)
				for _, m := range cycle {
					inCycle[m] = true
				}
			}
		}
		path = path[:len(path)-1]
		state[d] = done
	}
	for _, d := range c.b.nodes {
		if state[d] == 0 {
			visit(d)
		}
	}
	return inCycle
}

// reportCycle prints a cycle that is given from child to parent in the direction of the records.
func (c *checker) reportCycle(cycle []*decl) {
	first := 0
	for i, d := range cycle {
		if d.index < cycle[first].index {
			first = i
		}
	}
	var names []string
	for i := range cycle {
		names = append(names, cycle[(first+len(cycle)-i)%len(cycle)].name)
	}
	names = append(names, cycle[first].name)
	c.errorf(cycle[first].pos, "the steps go round in a circle: %s", strings.Join(names, " -> "))
}

// sources checks that no topic is read twice. Kafka Streams merges streams of the same set of topics before this point;
// Builder.FindSource helps with it.
func (c *checker) sources() {
	reader := map[string]*decl{}
	for _, d := range c.b.nodes {
		if d.kind != SourceNode {
			continue
		}
		for _, topic := range sortedSet(d.source.Topics) {
			if old, ok := reader[topic]; ok {
				c.topicReadTwice(topic, d, old)
				continue
			}
			reader[topic] = d
		}
	}
	for i, p := range c.b.nodes {
		if p.re == nil {
			continue
		}
		for _, d := range c.b.nodes {
			if d.kind != SourceNode {
				continue
			}
			for _, topic := range d.source.Topics {
				// A pattern is matched against names in the cluster, and that of an internal topic is not known here:
				// Resolve keeps those out.
				if _, internal := c.b.byTopic[topic]; !internal && p.re.MatchString(topic) {
					c.errorf(p.pos, "the pattern %q of source %q matches the topic %q, which source %q reads already, declared at %s; make the pattern narrower", p.source.Pattern, p.name, topic, d.name, d.pos)
				}
			}
		}
		for _, q := range c.b.nodes[:i] {
			if q.re != nil && q.source.Pattern == p.source.Pattern {
				c.errorf(p.pos, "the pattern %q is read by source %q already, declared at %s; use one stream of it for both", p.source.Pattern, q.name, q.pos)
			}
		}
	}
}

func (c *checker) topicReadTwice(topic string, d, old *decl) {
	switch {
	case d.global != old.global:
		c.errorf(d.pos, "the topic %q is read by source %q at %s already; it cannot fill a global store and be read by tasks too", topic, old.name, old.pos)
	case !slices.Equal(sortedSet(d.source.Topics), sortedSet(old.source.Topics)):
		c.errorf(d.pos, "the topics %v of source %q overlap with the topics %v of source %q, declared at %s, and are not the same set (both have %q); read them as separate streams and merge those", d.source.Topics, d.name, old.source.Topics, old.name, old.pos, topic)
	default:
		c.errorf(d.pos, "the topic %q is read by source %q already, declared at %s; use one stream or table of it for both", topic, old.name, old.pos)
	}
}

// internalTopics checks that each repartition topic is written and read.
func (c *checker) internalTopics() {
	written, read := map[string]bool{}, map[string]bool{}
	for _, d := range c.b.nodes {
		switch d.kind {
		case SinkNode:
			written[d.topic] = true
		case SourceNode:
			for _, topic := range d.source.Topics {
				read[topic] = true
				if _, internal := c.b.byTopic[topic]; internal && (len(d.source.Topics) > 1 || d.global) {
					c.errorf(d.pos, "source %q reads the repartition topic %q together with others or for a global store; it needs a source of its own", d.name, topic)
				}
			}
		}
	}
	for _, t := range c.b.topics {
		switch {
		case !written[t.Name]:
			c.errorf(t.Pos, "no sink writes the repartition topic %q", t.Name)
		case !read[t.Name]:
			c.errorf(t.Pos, "no source reads the repartition topic %q", t.Name)
		}
	}
}

// connections joins processors and stores.
func (c *checker) connections() {
	c.users = map[*storeDecl][]*decl{}
	for _, conn := range c.b.connects {
		d, ok := c.b.byName[conn.processor]
		pos := conn.pos
		if ok && pos.IsZero() {
			pos = d.pos
		}
		for _, name := range conn.stores {
			s := c.b.byStore[name]
			switch {
			case s == nil:
				c.errorf(pos, "%q uses the store %q, which does not exist; add it to the builder", conn.processor, name)
			case !ok:
				c.errorf(pos, "the store %q is connected to %q, which does not exist", name, conn.processor)
			case s.global != nil:
				c.errorf(pos, "%q is connected to the global store %q; every step may use a global store without that", conn.processor, name)
			case d.kind != ProcessorNode:
				c.errorf(pos, "the store %q is connected to the %s %q; only a step between source and sink can use a store", name, d.kind, d.name)
			case d.global:
				c.errorf(pos, "the store %q is connected to %q, which belongs to a global store", name, d.name)
			case !slices.Contains(c.users[s], d):
				c.users[s] = append(c.users[s], d)
			}
		}
	}
	reused := map[string]*storeDecl{}
	for _, s := range c.b.stores {
		if s.global != nil {
			continue
		}
		if len(c.users[s]) == 0 && !c.mentioned(s.Name) {
			c.errorf(s.Pos, "no step uses the store %q; connect one or leave the store out", s.Name)
		}
		if s.SourceTopic == "" {
			continue
		}
		if old, ok := reused[s.SourceTopic]; ok {
			c.errorf(s.Pos, "the stores %q and %q (%s) have the same changelog, the source topic %q", s.Name, old.Name, old.Pos, s.SourceTopic)
		}
		reused[s.SourceTopic] = s
	}
}

// mentioned tells a store that nobody asked for from one whose connection was refused above.
func (c *checker) mentioned(store string) bool {
	return slices.ContainsFunc(c.b.connects, func(conn connection) bool { return slices.Contains(conn.stores, store) })
}

// copartition checks that groups name sources, and that repartition topics with a number of their own agree where no
// other topic decides.
func (c *checker) copartition() {
	for _, group := range c.b.copart {
		given := map[int32]RepartitionTopic{}
		open := false
		for _, name := range group.sources {
			d, ok := c.b.byName[name]
			switch {
			case !ok:
				c.errorf(group.pos, "the source %q, whose topics must have as many partitions as others, does not exist", name)
				open = true
				continue
			case d.kind != SourceNode || d.global:
				c.errorf(d.pos, "%q is no source of tasks, so its partitions cannot be compared with those of others", name)
				open = true
				continue
			}
			if d.re != nil {
				open = true
			}
			for _, topic := range d.source.Topics {
				i, internal := c.b.byTopic[topic]
				if !internal || c.b.topics[i].Partitions == 0 {
					open = true
					continue
				}
				t := c.b.topics[i]
				if _, ok := given[t.Partitions]; !ok {
					given[t.Partitions] = t
				}
			}
		}
		if !open && len(given) > 1 {
			c.errorf(c.b.byName[group.sources[0]].pos, "repartition topics that are joined have different numbers of partitions: %s", partitionList(given))
		}
	}
}

// explicitNames refuses generated names of what outlives the program.
func (c *checker) explicitNames() {
	for _, s := range c.b.stores {
		if s.Auto {
			c.errorf(s.Pos, "the store %q has a generated name, which changes when steps are added before it; name it", s.Name)
		}
	}
	for _, t := range c.b.topics {
		if t.Auto {
			c.errorf(t.Pos, "the repartition topic %q has a generated name, which changes when steps are added before it; name it", t.Name)
		}
	}
}
