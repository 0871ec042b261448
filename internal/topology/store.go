package topology

import (
	"fmt"
	"maps"
	"reflect"

	"github.com/millrace-io/millrace/internal/millis"
)

// StoreKind tells the kinds of stores apart. It decides the settings of the changelog topic.
type StoreKind uint8

const (
	KeyValue  StoreKind = iota
	Window              // one value for each key and window start
	Session             // one value for each key and session
	Versioned           // several versions of a value for each key
	Buffer              // the updates that a suppression holds back, one for each key
)

// String names the kind in lower case.
func (k StoreKind) String() string {
	switch k {
	case KeyValue:
		return "key-value"
	case Window:
		return "window"
	case Session:
		return "session"
	case Versioned:
		return "versioned"
	case Buffer:
		return "buffer"
	}
	return fmt.Sprintf("StoreKind(%d)", uint8(k))
}

// Store declares a state store. Times are in milliseconds.
type Store struct {
	Name       string
	Kind       StoreKind
	Persistent bool // on disk
	Logged     bool // backed by a changelog topic

	RetentionMs  int64 // Window, Session: how long a window is kept after it has passed
	WindowSizeMs int64 // Window: its size (before + after for a join); Session: the gap of inactivity
	GraceMs      int64 // Window, Session: for how long late records still change a window
	HistoryMs    int64 // Versioned: for how long an old version is kept
	JoinWindow   bool  // the store holds records of a stream-stream join; its changelog is deleted and not compacted

	// HoldsBack says that the rows are results that leave later, once, and never again when input is processed anew: those of a
	// suppression, of a grace buffer, of an outer join.
	HoldsBack bool

	// TopicConfigs are settings of the changelog topic; they win over all others.
	TopicConfigs map[string]string
	// SourceTopic is a topic that the sub-topology reads and that serves as the changelog: none is made then, Logged or
	// not.
	SourceTopic string

	Op any // what the engine makes the store from
	// Def tells definitions apart: a store that is added twice under one name is accepted if both times Def is the same
	// object (not only an equal one) and not nil. It should be a pointer.
	Def any

	Auto bool // the name was generated, see BuildOptions.RequireNames
	Pos  Pos
}

// GlobalStore declares a store that every instance fills from all partitions of a topic. It has a source and one
// processor of its own, and no changelog: the topic is it.
type GlobalStore struct {
	Store     Store
	Source    Source    // of exactly one topic
	Processor Processor // Parents and Stores are filled in
	Reprocess bool      // a restore runs the processor again instead of copying records
}

// AddStore adds a store and connects processors to it; both may come before or after. Adding the same definition (Def)
// again only connects the processors.
func (b *Builder) AddStore(s Store, processors ...string) {
	s.TopicConfigs = maps.Clone(s.TopicConfigs)
	b.checkStore(&s)
	old := b.byStore[s.Name]
	if old != nil && (old.global != nil || !sameDef(old.Def, s.Def)) {
		b.duplicateStore(&s, old)
		return
	}
	for _, p := range processors {
		b.connectAt(s.Pos, p, []string{s.Name})
	}
	if old == nil {
		b.register(&storeDecl{Store: s})
	}
}

// AddGlobal adds a global store with its source and processor. It takes an id among the sub-topologies, as in Kafka
// Streams, but makes no tasks.
func (b *Builder) AddGlobal(g GlobalStore) {
	if g.Store.Pos.IsZero() {
		g.Store.Pos = g.Source.Pos
	}
	g.Store.TopicConfigs = nil
	g.Store.Logged = false
	g.Store.SourceTopic = ""
	g.Processor.Parents = []string{g.Source.Name}
	g.Processor.Stores = []string{g.Store.Name}

	b.checkStore(&g.Store)
	if g.Store.Kind == Versioned {
		b.Errorf(g.Store.Pos, "global store %q is versioned, which a global store cannot be", g.Store.Name)
	}
	if g.Source.Pattern != "" || len(g.Source.Topics) != 1 {
		b.Errorf(g.Source.Pos, "global store %q must read exactly one topic by its name", g.Store.Name)
	}
	if old := b.byStore[g.Store.Name]; old != nil {
		b.duplicateStore(&g.Store, old)
		return
	}
	b.register(&storeDecl{Store: g.Store, global: &g})
	first := len(b.nodes)
	b.AddSource(g.Source)
	b.add(&decl{kind: ProcessorNode, name: g.Processor.Name, parents: g.Processor.Parents, op: g.Processor.Op, pos: g.Processor.Pos})
	for _, n := range b.nodes[first:] {
		n.global = true
	}
}

func (b *Builder) register(s *storeDecl) {
	b.byStore[s.Name] = s
	b.stores = append(b.stores, s)
}

func (b *Builder) duplicateStore(s *Store, old *storeDecl) {
	kind := "store"
	if old.global != nil {
		kind = "global store"
	}
	b.Errorf(s.Pos, "a different %s named %q exists already, declared at %s; give one of them another name", kind, s.Name, old.Pos)
}

// sameDef compares two identities. Values that Go cannot compare are never the same.
func sameDef(a, b any) bool {
	return a != nil && b != nil && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// checkStore checks what can be said about a store alone.
func (b *Builder) checkStore(s *Store) {
	if err := CheckName(s.Name); err != nil {
		b.Errorf(s.Pos, "store: %w", err)
	}
	if s.SourceTopic != "" {
		if err := CheckTopicName(s.SourceTopic); err != nil {
			b.Errorf(s.Pos, "store %q: changelog %w", s.Name, err)
		}
	}
	for _, f := range []struct {
		name string
		ms   int64
	}{{"retention", s.RetentionMs}, {"window size", s.WindowSizeMs}, {"grace", s.GraceMs}, {"history retention", s.HistoryMs}} {
		if f.ms < 0 {
			b.Errorf(s.Pos, "store %q has a negative %s: %d ms", s.Name, f.name, f.ms)
			return
		}
	}
	if s.Kind == Window || s.Kind == Session {
		size := "window size"
		if s.Kind == Session {
			size = "inactivity gap"
		}
		if need := millis.Add(s.WindowSizeMs, s.GraceMs); need > s.RetentionMs {
			b.Errorf(s.Pos, "store %q keeps its windows for %d ms (retention), which is less than %s %d ms plus grace %d ms; set a retention of at least %d ms",
				s.Name, s.RetentionMs, size, s.WindowSizeMs, s.GraceMs, need)
		}
	}
	if s.JoinWindow && s.Kind != Window {
		b.Errorf(s.Pos, "store %q is a join window but of kind %s", s.Name, s.Kind)
	}
	for _, err := range checkTopicConfigs(s.TopicConfigs) {
		b.Errorf(s.Pos, "store %q: changelog settings: %w", s.Name, err)
	}
}
