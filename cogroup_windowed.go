package millrace

import (
	"github.com/millrace-io/millrace/internal/codec"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// coWindowed is what an input of a cogroup does by windows and sessions.
type coWindowed[K, A any] interface {
	windowed(s *step, w window.Windows, spec *op.TableSpec, init func() A, late *string, timeName string) op.Factory
	sessions(w window.SessionWindows, spec *op.TableSpec, init func() A, merge op.Merge[K, A], late *string, timeName string) op.Factory
}

func (c *cogroupInput[K, V, A]) windowed(s *step, w window.Windows, spec *op.TableSpec, init func() A, late *string, timeName string) op.Factory {
	return windowOp(s, w, op.WindowAggregateSpec[K, V, A]{
		Table: spec, Init: init, Fold: aggregateFold(init, c.add), Late: late, TimeName: timeName,
	})
}

func (c *cogroupInput[K, V, A]) sessions(w window.SessionWindows, spec *op.TableSpec, init func() A, merge op.Merge[K, A], late *string, timeName string) op.Factory {
	return op.NewSessionAggregate(op.SessionAggregateSpec[K, V, A]{
		Table: spec, Windows: w, Init: init, Fold: c.sessionFold, Merge: merge, Late: late, TimeName: timeName,
	})
}

// CogroupedLate are the late records of an aggregation of a cogroup by windows or sessions. Each of its streams has values
// of its own type, so LateOf takes those of one stream out. What is not taken out is only counted.
//
// Kafka Streams has no twin: it drops such records and counts them in dropped-records.
type CogroupedLate[K any] struct {
	l *cogroupedLate[K]
}

type cogroupedLate[K any] struct {
	s      *step
	inputs []lateInput[K]
}

// lateInput is where the late records of one input leave.
type lateInput[K any] struct {
	from    func(group any) bool
	node    string
	sources []string
	key     serde.Serde[K]
	late    *string
}

// LateOf returns the late records of one stream of a cogroup: those that missed at least one window. g is the very grouped
// stream that Cogroup or AndCogroup was given.
//
//	totals, late := carts.WindowBy(perHour).Aggregate(newCart, serde.JSON[Cart](), millrace.As("carts"))
//	millrace.LateOf(late, clicks).To(lateClicks)
func LateOf[K, V any](late CogroupedLate[K], g Grouped[K, V]) Stream[K, window.Late[V]] {
	s := g.g.in.b.begin("LateOf", nil)
	if late.l != nil && late.l.s.b == s.b {
		for _, in := range late.l.inputs {
			if in.from(g.g) {
				return lateStream[K, V](late.l.s, in.sources, in.key, in.node, in.late)
			}
		}
	}
	s.errorf("LateOf: the grouped stream is no part of that cogroup; give it the one that Cogroup or AndCogroup was given")
	return Stream[K, window.Late[V]]{b: s.b, node: g.g.in.parent(), sources: g.g.in.sources, key: g.g.key, origin: "LateOf"}
}

// newLate makes the markers of late records for the inputs of an aggregation.
func newLate[K, A any](s *step, c *cogrouped[K, A], key serde.Serde[K]) *cogroupedLate[K] {
	l := &cogroupedLate[K]{s: s}
	for _, in := range c.inputs {
		l.inputs = append(l.inputs, lateInput[K]{from: in.from, key: key, late: new(string)})
	}
	return l
}

func (l *cogroupedLate[K]) at(n *cogroupNodes) CogroupedLate[K] {
	for i := range l.inputs {
		l.inputs[i].node, l.inputs[i].sources = n.steps[i], n.sources[i]
	}
	return CogroupedLate[K]{l: l}
}

var cogroupWindowOptions = append([]string{optRetain}, cogroupOptions...)

// CogroupedWindows is a cogroup grouped by windows as well as by key.
//
// In Kafka Streams: TimeWindowedCogroupedKStream.
type CogroupedWindows[K, A any] struct {
	c *cogrouped[K, A]
	w window.Windows
}

// WindowBy groups a cogroup by windows as well as by key, of any kind that Grouped.WindowBy takes.
//
// In Kafka Streams: CogroupedKStream#windowedBy.
func (c Cogrouped[K, A]) WindowBy(w window.Windows) CogroupedWindows[K, A] {
	return CogroupedWindows[K, A]{c: c.c, w: w}
}

// Aggregate combines the records of each key and window, as AggregateWindows does for one stream. Each stream of the cogroup
// has an observed time of its own: a window closes for one when that one has come far enough, whatever the others do. The
// windows are in one store, so the records of a stream that lies behind the others by more than the store's retention are late there; Retain keeps
// windows longer. Null values follow the kind of windows: sliding windows drop and count them,
// others pass them on.
//
// Options: as Cogrouped.Aggregate but for Versioned, and Retain. Cost: as Cogrouped.Aggregate.
//
// In Kafka Streams: TimeWindowedCogroupedKStream#aggregate.
func (c CogroupedWindows[K, A]) Aggregate(init func() A, value serde.Serde[A], opts ...StepOption) (Table[window.Key[K], A], CogroupedLate[K]) {
	s := c.c.b.begin("Aggregate", given(opts, init != nil), cogroupWindowOptions...)
	key, value := c.c.keySerde(s), valueSerde(s, value)
	spec := new(op.TableSpec)
	late := newLate(s, c.c, key)
	n := cogroupSteps(s, c.c, op.NewPass[window.Key[K], op.Change[A]](), func(in coInput[K, A], i int, _, storeName string) op.Factory {
		spec.Store = storeName
		return in.windowed(s, c.w, spec, init, late.inputs[i].late, codec.InputTime(storeName, i))
	})
	t := windowTable(s, c.w, n.merge, n.allSources(), n.storeName, n.named, key, value, spec, n.steps...)
	return t, late.at(&n)
}

// CogroupedSessions is a cogroup grouped by sessions as well as by key.
//
// In Kafka Streams: SessionWindowedCogroupedKStream.
type CogroupedSessions[K, A any] struct {
	c *cogrouped[K, A]
	w window.SessionWindows
}

// SessionBy groups a cogroup by sessions as well as by key: a session holds the records of all streams.
//
// In Kafka Streams: CogroupedKStream#windowedBy.
func (c Cogrouped[K, A]) SessionBy(w window.SessionWindows) CogroupedSessions[K, A] {
	return CogroupedSessions[K, A]{c: c.c, w: w}
}

// Aggregate combines the records of each key and session, as AggregateSessions does for one stream. Each stream of the
// cogroup has an observed time of its own, see CogroupedWindows.Aggregate.
//
// Options: as Cogrouped.Aggregate but for Versioned, and Retain. Cost: as CountSessions.
//
// In Kafka Streams: SessionWindowedCogroupedKStream#aggregate.
func (c CogroupedSessions[K, A]) Aggregate(init func() A, merge func(k K, a, b A) A, value serde.Serde[A], opts ...StepOption) (Table[window.Key[K], A], CogroupedLate[K]) {
	return c.aggregate("Aggregate", init, func(k K, a A, _ bool, b A) (A, bool, error) { return merge(k, a, b), true, nil }, value, given(opts, init != nil, merge != nil))
}

// TryAggregate is Aggregate with a function that can fail; its error goes to the processing handler.
func (c CogroupedSessions[K, A]) TryAggregate(init func() A, merge func(k K, a, b A) (A, error), value serde.Serde[A], opts ...StepOption) (Table[window.Key[K], A], CogroupedLate[K]) {
	return c.aggregate("TryAggregate", init, func(k K, a A, _ bool, b A) (A, bool, error) {
		out, err := merge(k, a, b)
		return out, true, err
	}, value, given(opts, init != nil, merge != nil))
}

func (c CogroupedSessions[K, A]) aggregate(verb string, init func() A, merge op.Merge[K, A], value serde.Serde[A], opts []StepOption) (Table[window.Key[K], A], CogroupedLate[K]) {
	s := c.c.b.begin(verb, opts, cogroupWindowOptions...)
	key, value := c.c.keySerde(s), valueSerde(s, value)
	spec := new(op.TableSpec)
	late := newLate(s, c.c, key)
	n := cogroupSteps(s, c.c, op.NewPass[window.Key[K], op.Change[A]](), func(in coInput[K, A], i int, _, storeName string) op.Factory {
		spec.Store = storeName
		return in.sessions(c.w, spec, init, merge, late.inputs[i].late, codec.InputTime(storeName, i))
	})
	addSessionStore(s, c.w, n.storeName, !n.named, key, value, spec, n.steps...)
	return newSessionTable(s, c.w, n.merge, n.allSources(), key, value, spec), late.at(&n)
}
