package millrace

import (
	"fmt"
	"maps"
	"time"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/store"
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

func (s *step) storeNames() []string {
	names := make([]string, 0, len(s.stores))
	for _, d := range s.stores {
		names = append(names, d.storeName())
	}
	return names
}

func (s *step) connectStores(node string) {
	for _, d := range s.stores {
		if g, ok := d.(interface{ isGlobal() bool }); ok && g.isGlobal() {
			s.errorf("%s: the global store %s is there for every step: leave it out of WithStores", s.verb, d.storeName())
			continue
		}
		if v, ok := d.(interface{ refuses() string }); ok {
			if why := v.refuses(); why != "" {
				s.errorf("%s: store %s: %s", s.verb, d.storeName(), why)
			}
		}
		t := d.declare()
		t.Pos = s.pos
		s.b.t.AddStore(t, node)
	}
}

// storeFrom takes a store of the definition's types from the context of a step.
func storeFrom[S any](ctx processor.StoreContext, name string) (S, error) {
	var none S
	s, err := ctx.StateStore(name)
	if err != nil {
		return none, err
	}
	typed, ok := s.(S)
	if !ok {
		return none, fmt.Errorf("millrace: store %s has other types than its definition; two definitions share the name", name)
	}
	return typed, nil
}

// storeDefinition is a KeyValueStore or a WindowStore.
type storeDefinition interface {
	storeName() string
	declare() topology.Store
}

// KeyValueStore defines a store of one value for each key, for user-written steps. The same definition may be connected to
// several steps, which then share the store of their task.
//
// In Kafka Streams: Stores.keyValueStoreBuilder.
type KeyValueStore[K, V any] struct {
	name  string
	key   serde.Serde[K]
	value serde.Serde[V]
	opts  stepOptions
	// sourceTopic fills the store, which steps cannot write then: see AddReadOnlyStore.
	sourceTopic string
	// global says that it is one store for all steps, which need not be connected with it: see AddGlobalStore.
	global bool
}

// NewKeyValueStore defines a key-value store. It is logged in the changelog topic <application.id>-<name>-changelog.
//
// Options: InMemory, LogConfig, WithoutLog, KeepHeaders.
func NewKeyValueStore[K, V any](name string, key serde.Serde[K], value serde.Serde[V], opts ...StepOption) *KeyValueStore[K, V] {
	return &KeyValueStore[K, V]{name: name, key: key, value: value, opts: collected(opts)}
}

// From takes the store from the context of a step that it is connected to.
func (d *KeyValueStore[K, V]) From(ctx processor.StoreContext) (store.KeyValue[K, V], error) {
	return storeFrom[store.KeyValue[K, V]](ctx, d.name)
}

func (d *KeyValueStore[K, V]) storeName() string { return d.name }
func (d *KeyValueStore[K, V]) isGlobal() bool    { return d.global }

func (d *KeyValueStore[K, V]) declare() topology.Store {
	logged := !d.opts.noLog && d.sourceTopic == ""
	return topology.Store{
		Name: d.name, Kind: topology.KeyValue, Persistent: !d.opts.inMemory, Logged: logged, SourceTopic: d.sourceTopic,
		TopicConfigs: maps.Clone(d.opts.topicConfig), Def: d,
		Op: &op.KVFactory[K, V]{
			Spec: op.StoreSpec{Name: d.name, Logged: logged, Scanned: true, FilledFrom: d.sourceTopic, KeepHeaders: d.opts.keepHeaders}, Key: d.key, Value: d.value,
		},
	}
}

// WindowStore defines a store of one value for each key and window, for user-written steps.
//
// In Kafka Streams: Stores.windowStoreBuilder.
type WindowStore[K, V any] struct {
	name            string
	size, retention time.Duration
	key             serde.Serde[K]
	value           serde.Serde[V]
	opts            stepOptions
}

// NewWindowStore defines a window store for windows of one size. A window is kept until one has been put that starts
// retention later.
//
// Options: InMemory, LogConfig, WithoutLog, KeepHeaders.
func NewWindowStore[K, V any](name string, size, retention time.Duration, key serde.Serde[K], value serde.Serde[V], opts ...StepOption) *WindowStore[K, V] {
	return &WindowStore[K, V]{name: name, size: size, retention: retention, key: key, value: value, opts: collected(opts)}
}

// From takes the store from the context of a step that it is connected to.
func (d *WindowStore[K, V]) From(ctx processor.StoreContext) (store.Window[K, V], error) {
	return storeFrom[store.Window[K, V]](ctx, d.name)
}

func (d *WindowStore[K, V]) storeName() string { return d.name }

func (d *WindowStore[K, V]) declare() topology.Store {
	return topology.Store{
		Name: d.name, Kind: topology.Window, Persistent: !d.opts.inMemory, Logged: !d.opts.noLog,
		TopicConfigs: maps.Clone(d.opts.topicConfig), Def: d,
		RetentionMs: d.retention.Milliseconds(), WindowSizeMs: d.size.Milliseconds(),
		Op: &op.WindowFactory[K, V]{
			Spec: op.StoreSpec{Name: d.name, Logged: !d.opts.noLog, KeepHeaders: d.opts.keepHeaders}, SizeMs: d.size.Milliseconds(), Key: d.key, Value: d.value,
		},
	}
}
