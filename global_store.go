package millrace

import (
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
)

// AddGlobalStore fills a key-value store of each instance from all partitions of a topic, by a user-written processor: it
// alone writes the store, with whatever keys and values it makes of the records. Every user-written step of the application
// can read the store, under the definition's From, and need not be connected with it. A topic that is taken as it is is a
// GlobalTableFrom.
//
// The store is filled before processing starts, and kept up afterwards without regard to the time of streams; there is no
// order between it and other topics. Records of one partition keep their order, between partitions there is none. It is held
// in memory and has no changelog: each start runs all records of the topic through a new processor again. So the topic must
// be compacted, or keep its records for ever, and the processor must give equal results for equal input.
//
// The processor gets null keys and null values too, at each start as well. It cannot forward or set timers. Put stamps a
// value with the time of the record in process. A record that does not decode, or that has a negative timestamp, goes to the
// deserialization handler, an error of the processor to the processing handler; what they drop is counted. Dead letters are
// not written. Without a handler the application ends.
//
// Options: As or NodeName, which name the processor and, with -source behind it, the source of its own that it reads from.
//
// In Kafka Streams: StreamsBuilder#addGlobalStore.
func AddGlobalStore[K, V, KS, VS any, P processor.Processor[K, V, struct{}, struct{}]](b *Builder, t Topic[K, V], d *KeyValueStore[KS, VS], newP func() P, opts ...StepOption) {
	s := b.begin("AddGlobalStore", opts, nodeOptions...)
	s.needs(newP != nil)
	source, node := b.t.NextName("KSTREAM-SOURCE-"), b.t.NextName("KTABLE-SOURCE-")
	if name := s.nodeGiven(); name != "" {
		source, node = name+"-source", name
	}
	switch {
	case d == nil:
		s.errorf("AddGlobalStore is given no store: define one with NewKeyValueStore")
		return
	case len(t.names) != 1:
		s.errorf("AddGlobalStore: store %s is filled from one topic; %q stands for several", d.name, t.Name())
		return
	case t.key == nil || t.value == nil:
		s.errorf("AddGlobalStore: topic %s has no serde for its key or value", t.Name())
		return
	case d.key == nil || d.value == nil:
		s.errorf("AddGlobalStore: the store %s needs serdes for keys and values", d.name)
		return
	case d.opts.keepHeaders:
		s.errorf("AddGlobalStore: the global store %s keeps no headers: leave out KeepHeaders", d.name)
		return
	case len(d.opts.topicConfig) > 0:
		s.errorf("AddGlobalStore: the store %s has no changelog topic that LogConfig could set up: the topic %s is it", d.name, t.Name())
		return
	}
	s.checkSerde("topic "+t.Name(), t.key, t.value)
	d.check(s)
	d.global = true
	b.t.AddGlobal(topology.GlobalStore{
		Store: topology.Store{Name: d.name, Kind: topology.KeyValue, Pos: s.pos, Def: d, Op: &op.GlobalProcessFactory[K, V, KS, VS]{
			Name: d.name, Source: op.SourceSpec[K, V]{Key: t.key, Value: t.value}, Key: d.key, Value: d.value,
			New: func() (processor.Processor[K, V, struct{}, struct{}], error) { return newP(), nil },
		}},
		Source:    topology.Source{Name: source, Topics: t.names, Pos: s.pos},
		Processor: topology.Processor{Name: node, Pos: s.pos},
		Reprocess: true,
	})
}
