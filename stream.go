package millrace

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// Stream is a stream of records in which every record counts. It is a value that stands for a place in a topology: it may
// be used several times, and each use gets every record, in the order in which the uses were declared.
//
// In Kafka Streams: KStream.
type Stream[K, V any] struct {
	b    *Builder
	node string
	// branch names the node when it is first used, for outputs that exist only if something follows them.
	branch func() string
	// sources are the source nodes that it comes from, for the check of partition counts.
	sources []string
	// flagged says that the key may have changed, so that a step by key must repartition first.
	flagged bool
	key     serde.Serde[K] // nil: not known
	value   serde.Serde[V] // nil: not known
	origin  string         // the step that dropped a serde, for errors
}

func (s Stream[K, V]) parent() string {
	if s.branch != nil {
		return s.branch()
	}
	return s.node
}

// From reads a topic, several topics or a pattern as one stream. Records of one partition keep their order; between
// partitions of one task the order is by timestamp.
//
// Options: As or NodeName, StartEarliest, StartLatest, StartBack, NoStart, Timestamps, IdleTimeout.
//
// In Kafka Streams: StreamsBuilder#stream.
func From[K, V any](b *Builder, t Topic[K, V], opts ...StepOption) Stream[K, V] {
	s := b.begin("From", opts, sourceOptions...)
	name := s.nodeName("KSTREAM-SOURCE-")
	if t.key == nil || t.value == nil {
		s.errorf("From: topic %s has no serde for its key or value", t.Name())
	}
	s.checkSerde("topic "+t.Name(), t.key, t.value)
	src := topology.Source{Name: name, Topics: t.names, Pattern: t.pattern, Pos: s.pos, Op: newSource(s, t)}
	s.setReset(&src)
	s.setIdle(&src)
	declared := declaredSource{verb: "From", types: fmt.Sprintf("%T", t), extracts: s.extract != nil, idle: s.idle}
	if old, ok := b.t.FindSource(t.names, t.pattern); ok {
		// One source node for one set of topics, as in Kafka Streams.
		s.checkSameSource(t.Name(), declared, src, old)
		return Stream[K, V]{b: b, node: old.Name, sources: []string{old.Name}, key: t.key, value: t.value}
	}
	b.sources[name] = declared
	b.t.AddSource(src)
	return Stream[K, V]{b: b, node: name, sources: []string{name}, key: t.key, value: t.value}
}

// checkSameSource refuses a second stream of topics that are read otherwise already.
func (s *step) checkSameSource(topic string, now declaredSource, src, old topology.Source) {
	before := s.b.sources[old.Name]
	switch {
	case before.verb != "From":
		s.errorf("From: topic %s is read as a table at %s; take that table's ToStream, or read it here and make the table of the stream with ToTable", topic, old.Pos)
	case before.types != now.types:
		s.errorf("From: topic %s is read with other types at %s", topic, old.Pos)
	case src.Reset != old.Reset || src.ResetBack != old.ResetBack:
		s.errorf("From: topic %s starts elsewhere at %s; both streams of a topic must start alike", topic, old.Pos)
	case now.idle != 0 && now.idle != before.idle:
		s.errorf("From: topic %s is read at %s already, and when it counts as idle is decided there: give IdleTimeout there", topic, old.Pos)
	case now.extracts:
		s.errorf("From: topic %s is read at %s already, and the times of its records are decided there: give Timestamps there", topic, old.Pos)
	}
}

func newSource[K, V any](s *step, t Topic[K, V]) op.Factory {
	spec := op.SourceSpec[K, V]{Key: t.key, Value: t.value}
	if s.extract != nil {
		e, ok := s.extract.(Extractor[K, V])
		if !ok {
			s.errorf("%s: the extractor of Timestamps has other types than the topic %s", s.verb, t.Name())
		} else {
			spec.Extract = func(r *processor.Record[K, V], m processor.Metadata, partitionTimeMs int64) (int64, error) {
				return e(*r, m, partitionTimeMs)
			}
		}
	}
	return op.NewSource(spec)
}

func (s *step) setReset(src *topology.Source) {
	switch s.reset {
	case resetEarliest:
		src.Reset = topology.ResetEarliest
	case resetLatest:
		src.Reset = topology.ResetLatest
	case resetNone:
		src.Reset = topology.ResetNone
	case resetBack:
		src.Reset, src.ResetBack = topology.ResetByDuration, s.resetBack
	}
}

// setIdle takes over the idle timeout. One that is not above zero would switch it off in silence.
func (s *step) setIdle(src *topology.Source) {
	if slices.Contains(s.set, optIdle) && s.idle < time.Millisecond {
		s.errorf("%s: an idle timeout of %v; it is at least 1ms, and without the option a source never counts as idle", s.verb, s.idle)
		return
	}
	src.IdleTimeout = s.idle
}

// then adds a step behind a stream.
func then[K, V, K2, V2 any](s *step, in Stream[K, V], prefix string, f op.Factory, flagged bool, key serde.Serde[K2], value serde.Serde[V2]) Stream[K2, V2] {
	s.role = roles[prefix]
	return thenNamed(s, in, s.nodeName(prefix), f, flagged, key, value)
}

// roles are those of steps that a repartition topic may move over, or stands behind, by the beginning of their names.
var roles = map[string]topology.Role{
	"KSTREAM-KEY-SELECT-": topology.KeyRole, "KSTREAM-MAP-": topology.KeyRole, "KSTREAM-FLATMAP-": topology.KeyRole,
	"KSTREAM-FILTER-": topology.PassRole, "KSTREAM-PEEK-": topology.PassRole,
}

func thenNamed[K, V, K2, V2 any](s *step, in Stream[K, V], name string, f op.Factory, flagged bool, key serde.Serde[K2], value serde.Serde[V2]) Stream[K2, V2] {
	s.b.t.AddProcessor(topology.Processor{Name: name, Parents: []string{in.parent()}, Op: f, Role: s.role, Pos: s.pos})
	out := Stream[K2, V2]{b: in.b, node: name, sources: in.sources, flagged: flagged, key: key, value: value, origin: in.origin}
	if key == nil || value == nil {
		if in.key != nil && in.value != nil {
			out.origin = s.verb
		}
	}
	return out
}

// withCtx makes the operator of a step whose user function takes the application's context.
func withCtx(f func(ctx context.Context) op.Factory) op.Factory {
	return op.FactoryFunc(func(env *op.Env, step string, children []op.Child) (any, error) {
		return f(env.Ctx).Build(env, step, children)
	})
}

// Filter keeps the records for which keep returns true.
//
// In Kafka Streams: KStream#filter.
func (s Stream[K, V]) Filter(keep func(K, V) bool, opts ...StepOption) Stream[K, V] {
	st := s.b.begin("Filter", opts, nodeOptions...)
	st.needs(keep != nil)
	return then(st, s, "KSTREAM-FILTER-", op.NewFilter(func(k K, v V) (bool, error) { return keep(k, v), nil }), s.flagged, s.key, s.value)
}

// FilterNot drops the records for which drop returns true.
//
// In Kafka Streams: KStream#filterNot.
func (s Stream[K, V]) FilterNot(drop func(K, V) bool, opts ...StepOption) Stream[K, V] {
	st := s.b.begin("FilterNot", opts, nodeOptions...)
	st.needs(drop != nil)
	return then(st, s, "KSTREAM-FILTER-", op.NewFilter(func(k K, v V) (bool, error) { return !drop(k, v), nil }), s.flagged, s.key, s.value)
}

// TryFilter is Filter with a function that can fail; its error goes to the processing handler. ctx ends with the
// application.
func (s Stream[K, V]) TryFilter(keep func(ctx context.Context, k K, v V) (bool, error), opts ...StepOption) Stream[K, V] {
	st := s.b.begin("TryFilter", opts, nodeOptions...)
	st.needs(keep != nil)
	f := withCtx(func(ctx context.Context) op.Factory {
		return op.NewFilter(func(k K, v V) (bool, error) { return keep(ctx, k, v) })
	})
	return then(st, s, "KSTREAM-FILTER-", f, s.flagged, s.key, s.value)
}

// Peek calls f for each record and passes it on.
//
// In Kafka Streams: KStream#peek.
func (s Stream[K, V]) Peek(f func(K, V), opts ...StepOption) Stream[K, V] {
	st := s.b.begin("Peek", opts, nodeOptions...)
	st.needs(f != nil)
	return then(st, s, "KSTREAM-PEEK-", op.NewPeek(func(r *processor.Record[K, V]) error {
		f(r.Key, r.Value)
		return nil
	}), s.flagged, s.key, s.value)
}

// ForEach calls f for each record and ends the path. Under at-least-once f is called again for records that are processed
// again after a failure.
//
// In Kafka Streams: KStream#foreach.
func (s Stream[K, V]) ForEach(f func(K, V), opts ...StepOption) {
	st := s.b.begin("ForEach", opts, nodeOptions...)
	st.needs(f != nil)
	then(st, s, "KSTREAM-FOREACH-", op.NewPeek(func(r *processor.Record[K, V]) error {
		f(r.Key, r.Value)
		return nil
	}), s.flagged, s.key, s.value)
}

// TryForEach is ForEach with a function that can fail; its error goes to the processing handler. ctx ends with the
// application.
func (s Stream[K, V]) TryForEach(f func(ctx context.Context, k K, v V) error, opts ...StepOption) {
	st := s.b.begin("TryForEach", opts, nodeOptions...)
	st.needs(f != nil)
	factory := withCtx(func(ctx context.Context) op.Factory {
		return op.NewPeek(func(r *processor.Record[K, V]) error { return f(ctx, r.Key, r.Value) })
	})
	then(st, s, "KSTREAM-FOREACH-", factory, s.flagged, s.key, s.value)
}

// Print writes each record as a line "[label]: key, value" and ends the path.
//
// In Kafka Streams: KStream#print.
func (s Stream[K, V]) Print(w io.Writer, label string, opts ...StepOption) {
	st := s.b.begin("Print", opts, nodeOptions...)
	if w == nil {
		st.errorf("Print is given no writer")
	}
	var mu sync.Mutex // tasks print side by side
	then(st, s, "KSTREAM-PRINTER-", op.NewPeek(func(r *processor.Record[K, V]) error {
		mu.Lock()
		defer mu.Unlock()
		var key, value any = r.Key, r.Value
		if r.NullKey {
			key = "null"
		}
		if r.NullValue {
			value = "null"
		}
		_, err := fmt.Fprintf(w, "[%s]: %v, %v\n", label, key, value)
		return err
	}), s.flagged, s.key, s.value)
}

// Merge puts two streams together. The order within each is kept, between them there is none. The merged stream has no
// serdes of its own, since the topics behind it may be encoded differently: a step that needs them is told by WithKey and
// WithValue.
//
// In Kafka Streams: KStream#merge.
func (s Stream[K, V]) Merge(other Stream[K, V], opts ...StepOption) Stream[K, V] {
	st := s.b.begin("Merge", opts, nodeOptions...)
	if other.b != s.b {
		st.errorf("Merge: the streams come from different builders")
		return s
	}
	name := st.nodeName("KSTREAM-MERGE-")
	parents := union([]string{s.parent()}, []string{other.parent()}) // a stream merged with itself counts once
	s.b.t.AddProcessor(topology.Processor{Name: name, Parents: parents, Op: op.NewPass[K, V](), Role: topology.UnionRole, Pos: st.pos})
	return Stream[K, V]{
		b: s.b, node: name, sources: union(s.sources, other.sources), flagged: s.flagged || other.flagged, origin: "Merge",
	}
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// Repartition sends the stream through a topic of its own, so that records of one key meet in one task again. Records with
// a null key are dropped and counted, since they belong to no partition, unless a left join follows, which keeps them.
//
// Options: As (the topic becomes <application.id>-<name>-repartition) or AutoName, Partitions, PartitionBy, WithKey, WithValue.
//
// In Kafka Streams: KStream#repartition.
func (s Stream[K, V]) Repartition(opts ...StepOption) Stream[K, V] {
	st := s.b.begin("Repartition", opts, optAs, optRepartition, optAuto, optPartitions, optPartitionBy, optKey, optValue)
	name := st.repartitionName()
	st.requireName(name != "", "a repartition topic")
	auto := name == ""
	if auto {
		name = s.b.t.NextName("KSTREAM-REPARTITION-")
	}
	st.ownTopic = true
	return repartition(st, s, name, keySerde(st, s.key), valueSerde(st, s.value), auto)
}

// To writes the stream to a topic. Timestamps and headers are written as they are; the partition follows from the key as
// in Java's client, for a windowed key from the key inside it.
//
// Options: As or NodeName, PartitionBy.
//
// In Kafka Streams: KStream#to.
func (s Stream[K, V]) To(t Topic[K, V], opts ...StepOption) {
	st := s.b.begin("To", opts, optAs, optNode, optPartitionBy)
	name := st.nodeName("KSTREAM-SINK-")
	if len(t.names) != 1 {
		st.errorf("To: a stream is written to one topic; %q stands for several", t.Name())
		return
	}
	if t.key == nil || t.value == nil {
		st.errorf("To: topic %s has no serde for its key or value", t.Name())
		return
	}
	st.checkSerde("topic "+t.Name(), t.key, t.value)
	t.key = fitKey(st, t.Name(), s.key, t.key)
	s.b.t.AddSink(topology.Sink{Name: name, Topic: t.names[0], Parents: []string{s.parent()}, Pos: st.pos,
		Op: op.NewSink(op.SinkSpec[K, V]{Topic: t.names[0], Partition: partitioner[K, V](st), Key: t.key, Value: t.value})})
}

// ToChosen writes each record to the topic that choose names, which must exist. An empty name is an error.
//
// Options: As or NodeName, PartitionBy.
//
// In Kafka Streams: KStream#to(TopicNameExtractor).
func (s Stream[K, V]) ToChosen(choose func(k K, v V, m processor.Metadata) string, key serde.Serde[K], value serde.Serde[V], opts ...StepOption) {
	s.toChosen("ToChosen", func(r *processor.Record[K, V], m processor.Metadata) (string, error) {
		return choose(r.Key, r.Value, m), nil
	}, key, value, given(opts, choose != nil))
}

// TryToChosen is ToChosen with a function that sees the whole record, its timestamp, headers and nulls too, and that can
// fail; its error goes to the processing handler.
//
// In Kafka Streams: KStream#to(TopicNameExtractor), whose RecordContext has timestamp and headers.
func (s Stream[K, V]) TryToChosen(choose func(r processor.Record[K, V], m processor.Metadata) (string, error), key serde.Serde[K], value serde.Serde[V], opts ...StepOption) {
	s.toChosen("TryToChosen", func(r *processor.Record[K, V], m processor.Metadata) (string, error) { return choose(*r, m) }, key, value, given(opts, choose != nil))
}

func (s Stream[K, V]) toChosen(verb string, choose func(r *processor.Record[K, V], m processor.Metadata) (string, error), key serde.Serde[K], value serde.Serde[V], opts []StepOption) {
	st := s.b.begin(verb, opts, optAs, optNode, optPartitionBy)
	name := st.nodeName("KSTREAM-SINK-")
	if key == nil || value == nil {
		st.errorf("%s: needs serdes for key and value", verb)
		return
	}
	s.b.t.AddSink(topology.Sink{Name: name, Dynamic: "func", Parents: []string{s.parent()}, Pos: st.pos,
		Op: op.NewSink(op.SinkSpec[K, V]{
			Choose: choose, Partition: partitioner[K, V](st), Key: key, Value: value,
		})})
}
