package millrace

import (
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/processor"
)

// Process runs each record through a user-written processor, of which newP makes one for each task. It sees whole records,
// keeps state in the stores that WithStores connects, sets timers, and forwards any number of records with any key, so a
// later step by key sends the stream through a repartition topic first.
//
// Options: As or NodeName, WithStores.
//
// In Kafka Streams: KStream#process.
func Process[K, V, K2, V2 any, P processor.Processor[K, V, K2, V2]](s Stream[K, V], newP func() P, opts ...StepOption) Stream[K2, V2] {
	st := s.b.begin("Process", opts, optAs, optNode, optStores)
	st.needs(newP != nil)
	f := op.NewProcess[K, V, K2, V2](func() (processor.Processor[K, V, K2, V2], error) { return newP(), nil }, st.storeNames())
	out := thenNamed[K, V, K2, V2](st, s, st.processorName("KSTREAM-PROCESSOR-"), f, true, nil, nil)
	st.connectStores(out.node)
	return out
}

// ProcessValues is Process with a processor that cannot change the key, so nothing is repartitioned.
//
// In Kafka Streams: KStream#processValues.
func ProcessValues[K, V, V2 any, P processor.ValueProcessor[K, V, V2]](s Stream[K, V], newP func() P, opts ...StepOption) Stream[K, V2] {
	st := s.b.begin("ProcessValues", opts, optAs, optNode, optStores)
	st.needs(newP != nil)
	f := op.NewProcessValues[K, V, V2](func() (processor.ValueProcessor[K, V, V2], error) { return newP(), nil }, st.storeNames())
	out := thenNamed[K, V, K, V2](st, s, st.processorName("KSTREAM-PROCESSVALUES-"), f, s.flagged, s.key, nil)
	st.connectStores(out.node)
	return out
}

// processorName is nodeName for a user-written step: it alone uses up no number where it is named, as in Kafka Streams.
func (s *step) processorName(prefix string) string {
	if name := s.nodeGiven(); name != "" {
		return name
	}
	return s.nodeName(prefix)
}
