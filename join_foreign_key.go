package millrace

import (
	"context"
	"slices"

	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/serde"
)

// JoinForeignKey joins each row of the left table with the row of the right table that it refers to: fk finds the right
// row's key in the left one, and returns ok false (or a nil key) where there is none. The result has the left table's keys.
// It is updated when either row changes; many left rows may refer to one right row. A left row that refers to none, or to
// one that is not there, has no result.
//
// fk and join are called again for rows that have not changed, and must give equal results for equal input. Whether a left
// row has changed is told by a hash of its encoded value, so its serde must encode equal values to equal bytes.
//
// The result's timestamp is the larger one of both rows' when the left row changes, and the right row's when that changes.
// A result carries the headers of the update that led to it. Updates of one left row take effect in their order; right rows
// are awaited by nobody, so an answer for a left row that has changed in between is dropped and counted
// (DroppedStaleResponse), and the answer to the newer one follows. A deletion is sent whenever there may have been a result
// before, even if there was none. A left row without a foreign key is counted as DroppedNullForeignKey. Updates that a
// versioned table took out of order are dropped and counted on both sides (DroppedStale).
//
// The tables need not have the same number of partitions. The step makes two internal topics: registrations go to the
// partition of the right row, responses come back to that of the left one. It makes a store of who waits for which right
// row, with a changelog, and both tables keep their rows. An update of a right row costs one message for each left row that
// refers to it.
//
// A foreign key, key or row that does not encode, and an error or panic of fk and join, go to the processing handler.
//
// Options: As, which names everything and keeps the result in a store; or NodeName, which names all but that, and StoreName,
// which names that alone; or AutoName. InMemory goes for the result and for who waits; LogConfig, WithoutLog and WithoutCache
// for the result alone, and so do Versioned and KeepHeaders. WithKey and WithValue give the serdes of the left keys and of the
// results, PartitionLeftBy and PartitionRightBy say how the tables are partitioned where that is not by the bytes of their keys.
//
// In Kafka Streams: KTable#join with a foreignKeyExtractor.
func JoinForeignKey[K, VL, KF, VR, R any](l Table[K, VL], r Table[KF, VR], fk func(k K, v VL) (KF, bool), join func(left VL, right VR) R, opts ...StepOption) Table[K, R] {
	return joinForeignKey(l, r, "JoinForeignKey", false, given(opts, fk != nil, join != nil), plainForeignKey(fk),
		func(_ context.Context, left VL, right VR, _ bool) (R, error) { return join(left, right), nil })
}

// LeftJoinForeignKey is JoinForeignKey with a result for each left row: ok is false where it refers to no right row, or to
// one that is not there.
//
// Options and cost: as JoinForeignKey.
//
// In Kafka Streams: KTable#leftJoin with a foreignKeyExtractor.
func LeftJoinForeignKey[K, VL, KF, VR, R any](l Table[K, VL], r Table[KF, VR], fk func(k K, v VL) (KF, bool), join func(left VL, right VR, ok bool) R, opts ...StepOption) Table[K, R] {
	return joinForeignKey(l, r, "LeftJoinForeignKey", true, given(opts, fk != nil, join != nil), plainForeignKey(fk),
		func(_ context.Context, left VL, right VR, ok bool) (R, error) { return join(left, right, ok), nil })
}

// TryJoinForeignKey is JoinForeignKey with functions that can fail; their errors go to the processing handler. ctx ends with
// the application.
func TryJoinForeignKey[K, VL, KF, VR, R any](l Table[K, VL], r Table[KF, VR], fk func(ctx context.Context, k K, v VL) (KF, bool, error), join func(ctx context.Context, left VL, right VR) (R, error), opts ...StepOption) Table[K, R] {
	return joinForeignKey(l, r, "TryJoinForeignKey", false, given(opts, fk != nil, join != nil), fk,
		func(ctx context.Context, left VL, right VR, _ bool) (R, error) { return join(ctx, left, right) })
}

// TryLeftJoinForeignKey is LeftJoinForeignKey with functions that can fail; their errors go to the processing handler. ctx
// ends with the application.
func TryLeftJoinForeignKey[K, VL, KF, VR, R any](l Table[K, VL], r Table[KF, VR], fk func(ctx context.Context, k K, v VL) (KF, bool, error), join func(ctx context.Context, left VL, right VR, ok bool) (R, error), opts ...StepOption) Table[K, R] {
	return joinForeignKey(l, r, "TryLeftJoinForeignKey", true, given(opts, fk != nil, join != nil), fk, join)
}

// PartitionLeftBy tells a foreign-key join in which partition a row of its left table lies, by its key, where its topic is
// not partitioned by the bytes of the key. It must be the partition that the row is read from. One outside of 0 to
// partitions-1 is an error that goes to the processing handler.
//
// In Kafka Streams: TableJoined.withPartitioner.
func PartitionLeftBy[K any](f func(k K, partitions int32) int32) StepOption {
	return stepOption(func(o *stepOptions) {
		o.partitionLeft = plainPartition(f)
		o.nilFunc = o.nilFunc || f == nil
		o.given(optPartitionLeft)
	})
}

// PartitionRightBy tells a foreign-key join in which partition a row of its right table lies, by its key, where its topic is
// not partitioned by the bytes of the key. It is not asked for left rows without a foreign key. One outside of 0 to
// partitions-1 is an error that goes to the processing handler.
//
// In Kafka Streams: TableJoined.withOtherPartitioner.
func PartitionRightBy[KF any](f func(k KF, partitions int32) int32) StepOption {
	return stepOption(func(o *stepOptions) {
		o.partitionRight = plainPartition(f)
		o.nilFunc = o.nilFunc || f == nil
		o.given(optPartitionRight)
	})
}

func plainPartition[K any](f func(k K, partitions int32) int32) op.PartitionFunc[K] {
	return func(k K, partitions int32) (int32, error) { return f(k, partitions), nil }
}

// partitionFunc returns a partitioner that was given as an option, nil if none was.
func partitionFunc[K any](s *step, option string, given any) op.PartitionFunc[K] {
	if given == nil {
		return nil
	}
	f, ok := given.(op.PartitionFunc[K])
	if !ok {
		s.errorf("%s has keys of type %T on that side, but %s takes others", s.verb, *new(K), option)
	}
	return f
}

func plainForeignKey[K, V, KF any](fk func(K, V) (KF, bool)) func(context.Context, K, V) (KF, bool, error) {
	return func(_ context.Context, k K, v V) (KF, bool, error) {
		key, ok := fk(k, v)
		return key, ok, nil
	}
}

// Parts of generated names.
const (
	fkRegistration = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-"
	fkStore        = "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-"
	fkProcessor    = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"
	fkResponse     = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-"
	fkResolver     = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"
	fkOutput       = "KTABLE-FK-JOIN-OUTPUT-"
	fkTopicSuffix  = "-topic"
)

// suffixed returns the name of one of the nodes that a step makes. A number is used up even where the step is named.
func (s *step) suffixed(suffix, prefix string) string {
	generated := s.b.t.NextName(prefix)
	if name := s.nodeGiven(); name != "" {
		return name + suffix
	}
	return generated
}

func joinForeignKey[K, VL, KF, VR, R any](l Table[K, VL], r Table[KF, VR], verb string, left bool, opts []StepOption, fk func(context.Context, K, VL) (KF, bool, error), join func(context.Context, VL, VR, bool) (R, error)) Table[K, R] {
	s := l.t.b.begin(verb, opts, append(slices.Clone(tableOptions), optPartitionLeft, optPartitionRight)...)
	key, value := keySerde(s, l.t.key), valueSerde[R](s, nil)
	if r.t == nil || r.t.b != s.b {
		s.errorf("%s: the tables come from different builders", verb)
		return newTable(s, l.t.node, l.t.sources, key, value, new(op.TableSpec), "", false)
	}
	leftBy := partitionFunc[K](s, optPartitionLeft, s.partitionLeft)
	rightBy := partitionFunc[KF](s, optPartitionRight, s.partitionRight)
	for _, side := range []struct {
		known bool
		what  string
	}{
		{key != nil, "the left table's keys; give it with WithKey"},
		{l.t.value != nil, "the left table's values, which it hashes; give it with WithValue to the step that made them"},
		{r.t.key != nil, "the foreign keys; give it with WithKey to the step that made the right table"},
		{r.t.value != nil, "the right table's values; give it with WithValue to the step that made them"},
	} {
		if !side.known {
			s.errorf("%s does not know the serde of %s", verb, side.what)
		}
	}
	named := s.nodeGiven() != ""
	s.requireName(named, "two internal topics and a store")

	// Both tables keep their rows, and the left one tells what it had.
	leftRows, leftStores := l.t.lookup(s)
	l.t.sendOld()
	rightRows, rightStores := r.t.lookup(s)

	var topics op.Topics
	topics.Registration = s.suffixed("-subscription-registration", fkRegistration) + fkTopicSuffix
	send := s.suffixed("-subscription-registration-processor", fkRegistration)
	sendSink := s.suffixed("-subscription-registration-sink", "KTABLE-SINK-")
	receiveSource := s.suffixed("-subscription-registration-source", "KTABLE-SOURCE-")
	store := s.suffixed("-subscription-store", fkStore)
	receive := s.suffixed("-subscription-receive", fkProcessor)
	joinForeign := s.suffixed("-subscription-join-foreign", fkProcessor)
	foreignJoin := s.suffixed("-foreign-join-subscription", fkProcessor)
	topics.Response = s.suffixed("-subscription-response", fkResponse) + fkTopicSuffix
	answerSink := s.suffixed("-subscription-response-sink", "KTABLE-SINK-")
	answerSource := s.suffixed("-subscription-response-source", "KTABLE-SOURCE-")
	resolver := s.suffixed("-subscription-response-resolver", fkResolver)
	result := s.suffixed("-result", fkOutput)
	resultStore, kept := s.storeName(fkOutput)

	t := s.b.t
	for _, name := range []string{topics.Registration, topics.Response} {
		t.InternalTopic(topology.RepartitionTopic{Name: name, Auto: !named, Pos: s.pos})
	}
	// The left task: what each row asks for.
	t.AddProcessor(topology.Processor{Name: send, Parents: []string{l.t.node}, Pos: s.pos, Op: withCtx(func(ctx context.Context) op.Factory {
		return op.NewSubscriptionSend(op.SubscriptionSendSpec[K, VL, KF]{
			Topics: topics, Left: left, Key: key, Value: l.t.value, Foreign: r.t.key,
			ForeignKey: func(k K, v VL) (KF, bool, error) { return fk(ctx, k, v) },
		})
	})})
	t.AddSink(topology.Sink{Name: sendSink, Topic: topics.Registration, Parents: []string{send}, Pos: s.pos,
		Op: op.NewRegistrationSink(topics, r.t.key, rightBy)})

	// The right task: who waits for which row, and answers.
	t.AddSource(topology.Source{Name: receiveSource, Topics: []string{topics.Registration}, Pos: s.pos,
		Op: op.NewSource(op.SourceSpec[KF, codec.Subscription]{Key: r.t.key, Value: op.SubscriptionSerde{}})})
	t.CopartitionSources(s.verb, s.pos, union(r.t.sources, []string{receiveSource})...)
	t.AddProcessor(topology.Processor{Name: receive, Parents: []string{receiveSource}, Pos: s.pos,
		Op: op.NewSubscriptionReceive(op.SubscriptionReceiveSpec[KF]{Topics: topics, Store: store, Foreign: r.t.key})})
	t.AddProcessor(topology.Processor{Name: joinForeign, Parents: []string{receive}, Stores: rightStores, Pos: s.pos,
		Op: op.NewSubscriptionJoin(op.SubscriptionJoinSpec[KF, VR]{
			Topics: topics, Left: left, Table: rightRows, Foreign: r.t.key, Value: r.t.value,
		})})
	t.AddProcessor(topology.Processor{Name: foreignJoin, Parents: []string{r.t.node}, Pos: s.pos,
		Op: op.NewForeignJoin(op.ForeignJoinSpec[KF, VR]{
			Topics: topics, Left: left, Store: store, Foreign: r.t.key, Value: r.t.value,
		})})
	t.AddStore(topology.Store{
		Name: store, Kind: topology.KeyValue, Persistent: !s.inMemory, Logged: true, Auto: !named, Pos: s.pos,
		Op: &op.SubscriptionFactory{Spec: op.StoreSpec{Name: store, Logged: true}},
	}, receive, foreignJoin)
	t.AddSink(topology.Sink{Name: answerSink, Topic: topics.Response, Parents: []string{joinForeign, foreignJoin}, Pos: s.pos,
		Op: op.NewResponseSink(topics, key, leftBy)})

	// The left task again: an answer meets the row that asked.
	t.AddSource(topology.Source{Name: answerSource, Topics: []string{topics.Response}, Pos: s.pos,
		Op: op.NewSource(op.SourceSpec[K, op.Answer[VR]]{Key: key, Value: serde.Serde[op.Answer[VR]](op.AnswerSerde[VR]{Value: r.t.value})})})
	sources := union(l.t.sources, []string{answerSource})
	t.CopartitionSources(s.verb, s.pos, sources...)
	t.AddProcessor(topology.Processor{Name: resolver, Parents: []string{answerSource}, Stores: leftStores, Pos: s.pos, Op: withCtx(func(ctx context.Context) op.Factory {
		return op.NewResponseResolver(op.ResponseResolverSpec[K, VL, KF, VR, R]{
			Topics: topics, Left: left, Table: leftRows, Value: l.t.value, Foreign: r.t.key,
			ForeignKey: func(k K, v VL) (KF, bool, error) { return fk(ctx, k, v) },
			Join:       func(v VL, row VR, found bool) (R, error) { return join(ctx, v, row, found) },
		})
	})})
	spec := new(op.TableSpec)
	t.AddProcessor(topology.Processor{Name: result, Parents: []string{resolver}, Op: op.NewTableSource[K, R](spec), Pos: s.pos})
	return newTable(s, result, sources, key, value, spec, resultStore, kept)
}
