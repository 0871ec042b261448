package topology

import (
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Builder collects the parts of a topology. Its methods never fail by themselves: faults are collected, each with the
// place of the call, and Build returns all of them. A Builder is for one goroutine.
//
// Nodes are added parents first, as in Kafka Streams, so the order of the calls is a topological order; the ids of the
// sub-topologies follow from it.
type Builder struct {
	next int // the one counter behind all generated names

	nodes    []*decl // in the order of the calls
	byName   map[string]*decl
	stores   []*storeDecl // local ones, in the order of the calls
	byStore  map[string]*storeDecl
	topics   []RepartitionTopic
	byTopic  map[string]int // index into topics
	copart   []copartition
	connects []connection
	errs     []error
}

// decl is a node as declared.
type decl struct {
	index   int
	kind    NodeKind
	name    string
	parents []string
	op      any
	pos     Pos
	source  *Source        // of a source
	re      *regexp.Regexp // of a pattern source
	topic   string         // of a sink
	dynamic string         // of a sink
	global  bool           // of a global store: no tasks
	role    Role           // of a processor
}

type storeDecl struct {
	Store
	global *GlobalStore // nil for a local store
}

type connection struct {
	processor string
	stores    []string
	pos       Pos
}

// NewBuilder returns an empty Builder.
func NewBuilder() *Builder {
	return &Builder{
		byName:  map[string]*decl{},
		byStore: map[string]*storeDecl{},
		byTopic: map[string]int{},
	}
}

// NextName returns prefix and the next number as ten digits, such as "KSTREAM-FILTER-0000000001". All generated names of
// a builder share one counter, so a DSL call that throws a name away ("burns" it) still moves the later ones, as in Kafka
// Streams.
func (b *Builder) NextName(prefix string) string {
	n := b.next
	b.next++
	return fmt.Sprintf("%s%010d", prefix, n)
}

// NextStoreName is NextName for a store: prefix, "STATE-STORE-" and the next number.
func (b *Builder) NextStoreName(prefix string) string {
	return b.NextName(prefix + "STATE-STORE-")
}

// Parents names the nodes that a node declared so far gets its records from. A source of a repartition topic has the sinks
// that write the topic; any other source has none.
func (b *Builder) Parents(name string) []string {
	d := b.byName[name]
	if d == nil {
		return nil
	}
	if d.source == nil {
		return slices.Clone(d.parents)
	}
	var sinks []string
	for _, n := range b.nodes {
		if n.kind == SinkNode && n.topic != "" && slices.Contains(d.source.Topics, n.topic) {
			if _, internal := b.byTopic[n.topic]; internal {
				sinks = append(sinks, n.name)
			}
		}
	}
	return sinks
}

// OffsetReset says where a source starts in a partition without a committed offset.
//
// In Kafka Streams: AutoOffsetReset.
type OffsetReset uint8

const (
	ResetDefault    OffsetReset = iota // what the application's settings say
	ResetEarliest                      // the oldest record
	ResetLatest                        // records written from now on
	ResetNone                          // an error
	ResetByDuration                    // records younger than Source.ResetBack
)

// String prints the policy as Kafka's settings spell it.
func (r OffsetReset) String() string {
	switch r {
	case ResetDefault:
		return "default"
	case ResetEarliest:
		return "earliest"
	case ResetLatest:
		return "latest"
	case ResetNone:
		return "none"
	case ResetByDuration:
		return "by_duration"
	}
	return fmt.Sprintf("OffsetReset(%d)", uint8(r))
}

// Source declares a node that reads topics, given by name or by one pattern.
type Source struct {
	Name   string
	Topics []string // names; none if Pattern is set
	// Pattern is a regular expression in Go's syntax (RE2) that must match the whole name of a topic. Java's look-around,
	// back-references and possessive quantifiers do not exist in it; a pattern that uses them is a build error.
	Pattern   string
	Op        any
	Reset     OffsetReset
	ResetBack time.Duration // for ResetByDuration
	// IdleTimeout is after how long without records the source counts as idle, and its time runs on by the wall clock; 0:
	// never. That of the source of a repartition topic follows from the sources that lead to it.
	IdleTimeout time.Duration
	Pos         Pos
}

// Processor declares a node that handles records of its parents.
type Processor struct {
	Name    string
	Parents []string // a parent that is named twice hands each record over twice
	Stores  []string // stores to connect; they may be added later
	Role    Role
	Op      any
	Pos     Pos
}

// Sink declares a node that writes to a topic.
type Sink struct {
	Name    string
	Topic   string // the topic's name; that of an internal topic without the application id. Empty if Dynamic is set
	Dynamic string // what Describe prints for a sink that chooses the topic for each record
	Parents []string
	Op      any
	Pos     Pos
}

// RepartitionTopic declares an internal topic between two sub-topologies: a sink writes it and a source reads it, both
// under Name.
type RepartitionTopic struct {
	// Name is the topic's name without the application id and with its suffix, such as "clicks-repartition" or
	// "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic".
	Name       string
	Partitions int32 // 0: derived from the topics upstream and from co-partitioning
	Auto       bool  // the name was generated, see BuildOptions.RequireNames
	Mergeable  bool  // it may become one with others, see MergeRepartitions
	Pos        Pos
}

// AddSource adds a source node.
func (b *Builder) AddSource(s Source) {
	d := &decl{kind: SourceNode, name: s.Name, op: s.Op, pos: s.Pos}
	b.checkSource(&s, d)
	s.Topics = slices.Clone(s.Topics)
	d.source = &s
	b.add(d)
}

// AddProcessor adds a processor node. Its parents must have been added before.
func (b *Builder) AddProcessor(p Processor) {
	d := &decl{kind: ProcessorNode, name: p.Name, parents: slices.Clone(p.Parents), op: p.Op, pos: p.Pos, role: p.Role}
	b.add(d)
	if len(p.Stores) > 0 {
		b.connectAt(p.Pos, p.Name, p.Stores)
	}
}

// AddSink adds a sink node. Its parents must have been added before.
//
// As in Kafka Streams a topology may write a topic that it also reads; only records then go round in a circle, not calls.
func (b *Builder) AddSink(s Sink) {
	switch {
	case s.Topic == "" && s.Dynamic == "":
		b.Errorf(s.Pos, "sink %q has no topic", s.Name)
	case s.Topic != "" && s.Dynamic != "":
		b.Errorf(s.Pos, "sink %q has both the topic %q and a choice per record", s.Name, s.Topic)
	case s.Topic != "":
		if err := CheckTopicName(s.Topic); err != nil {
			b.Errorf(s.Pos, "sink %q: %w", s.Name, err)
		}
	}
	b.add(&decl{kind: SinkNode, name: s.Name, parents: slices.Clone(s.Parents), op: s.Op, pos: s.Pos,
		topic: s.Topic, dynamic: s.Dynamic})
}

// add registers a node after checking its name and its parents.
func (b *Builder) add(d *decl) {
	if err := CheckName(d.name); err != nil {
		b.Errorf(d.pos, "%s: %w", d.kind, err)
	}
	if d.kind != SourceNode && len(d.parents) == 0 {
		b.Errorf(d.pos, "%s %q has no parent, so no record would ever reach it", d.kind, d.name)
	}
	if old, ok := b.byName[d.name]; ok {
		b.Errorf(d.pos, "a step named %q exists already, declared at %s; step names must be unique", d.name, old.pos)
		return
	}
	d.index = len(b.nodes)
	b.nodes = append(b.nodes, d)
	b.byName[d.name] = d
}

// Connect lets a processor use stores. Both may be added before or after.
func (b *Builder) Connect(processor string, stores ...string) {
	b.connectAt(Pos{}, processor, stores)
}

func (b *Builder) connectAt(pos Pos, processor string, stores []string) {
	b.connects = append(b.connects, connection{processor: processor, stores: slices.Clone(stores), pos: pos})
}

// InternalTopic declares a repartition topic. Declaring the same one again is allowed.
func (b *Builder) InternalTopic(t RepartitionTopic) {
	if err := CheckTopicName(t.Name); err != nil {
		b.Errorf(t.Pos, "repartition topic: %w", err)
	}
	if t.Partitions < 0 {
		b.Errorf(t.Pos, "repartition topic %q has %d partitions; give a positive number, or none to derive it", t.Name, t.Partitions)
		t.Partitions = 0
	}
	if i, ok := b.byTopic[t.Name]; ok {
		if old := b.topics[i]; old.Partitions != t.Partitions {
			b.Errorf(t.Pos, "repartition topic %q is declared with %d partitions here and with %d at %s", t.Name, t.Partitions, old.Partitions, old.Pos)
		}
		return
	}
	b.byTopic[t.Name] = len(b.topics)
	b.topics = append(b.topics, t)
}

// copartition is a demand for the same number of partitions: the step that makes it, where it stands, and source nodes.
type copartition struct {
	step    string
	pos     Pos
	sources []string
}

// CopartitionSources demands that all topics of these source nodes have the same number of partitions, as a join does.
// Groups that share a topic are one group. step is what errors call the step, such as JoinTable.
func (b *Builder) CopartitionSources(step string, pos Pos, sourceNames ...string) {
	b.copart = append(b.copart, copartition{step, pos, slices.Clone(sourceNames)})
}

// FindSource returns the declared source that reads exactly this set of topics, or this pattern. The DSL hangs a second
// stream of the same topics under the same source node, as Kafka Streams does; a source whose topics overlap but are not
// the same set is a build error.
func (b *Builder) FindSource(topics []string, pattern string) (s Source, ok bool) {
	want := sortedSet(topics)
	for _, d := range b.nodes {
		if d.kind != SourceNode || d.global || d.source.Pattern != pattern {
			continue
		}
		if slices.Equal(sortedSet(d.source.Topics), want) {
			return *d.source, true
		}
	}
	return Source{}, false
}

// Errorf collects an error of a DSL call. %w keeps the cause.
func (b *Builder) Errorf(pos Pos, format string, args ...any) {
	err := fmt.Errorf(format, args...)
	b.errs = append(b.errs, &BuildError{Pos: pos, Msg: err.Error(), Err: err})
}

func sortedSet(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return slices.Compact(s)
}
