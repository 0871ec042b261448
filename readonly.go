package millrace

import (
	"slices"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
)

// AddReadOnlyStore fills a key-value store from a topic, for user-written steps to look things up in: they connect it with
// WithStores, and cannot write it. The topic is the store's changelog: none is made, a restore reads the topic up to the
// committed offset, and skips what the source skipped. So the topic must be compacted, or keep its records for ever.
//
// A record sets the value of its key, whatever its timestamp; a null value deletes it. Records with a null key are dropped
// and counted. A task holds the rows of its own partition of the topic, so a step finds what it looks for if its input is
// partitioned by the same key over the same number of partitions.
//
// Options: As or NodeName, which name the step that fills the store (the store's name and -updates otherwise) and, with
// -source behind it, its source; Timestamps, IdleTimeout, StartEarliest and its kin. Of the store's own options InMemory
// and KeepHeaders have a use.
//
// In Kafka Streams: Topology#addReadOnlyStateStore, with a processor that puts each record.
func AddReadOnlyStore[K, V any](b *Builder, t Topic[K, V], d *KeyValueStore[K, V], opts ...StepOption) {
	s := b.begin("AddReadOnlyStore", opts, sourceOptions...)
	if d == nil {
		s.errorf("AddReadOnlyStore is given no store: define one with NewKeyValueStore")
		return
	}
	node := s.nodeGiven()
	if node == "" {
		node = d.name + "-updates"
	}
	switch {
	case len(t.names) != 1:
		s.errorf("AddReadOnlyStore: store %s is read from one topic; %q stands for several", d.name, t.Name())
		return
	case t.key == nil || t.value == nil:
		s.errorf("AddReadOnlyStore: topic %s has no serde for its key or value", t.Name())
		return
	case d.opts.noLog || slices.Contains(d.opts.set, optLogConfig):
		s.errorf("AddReadOnlyStore: the store %s has no changelog topic of its own: leave out LogConfig and WithoutLog", d.name)
		return
	}
	s.checkSerde("topic "+t.Name(), t.key, t.value)
	if old, ok := b.t.FindSource(t.names, t.pattern); ok {
		s.errorf("AddReadOnlyStore: topic %s is read at %s already; a read-only store has its topic to itself", t.Name(), old.Pos)
		return
	}
	source := node + "-source"
	src := topology.Source{Name: source, Topics: t.names, Pos: s.pos, Op: newSource(s, t)}
	s.setReset(&src)
	s.setIdle(&src)
	b.sources[source] = declaredSource{verb: "AddReadOnlyStore"}
	b.t.AddSource(src)
	b.t.AddProcessor(topology.Processor{Name: node, Parents: []string{source}, Op: op.NewStoreFeed[K, V](d.name), Pos: s.pos})
	// The topic has the bytes of the store: its serdes are the topic's.
	d.key, d.value, d.sourceTopic = t.key, t.value, t.names[0]
	d.check(s)
	st := d.declare()
	st.Pos = s.pos
	b.t.AddStore(st, node)
}
