package millrace

import (
	"fmt"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// Cogrouped is several grouped streams with keys of one type, ready to be aggregated into one table: K are the keys, A is
// what all of them are aggregated into. Each stream has values of its own type, and a function of its own that takes them in.
// It costs one store where a table for each stream and a join of the tables would cost several.
//
//	carts := millrace.Cogroup(clicks, addClick)
//	carts = millrace.AndCogroup(carts, orders, addOrder)
//	table := carts.Aggregate(newCart, serde.JSON[Cart](), millrace.As("carts"))
//
// Records are taken in as the task takes them from its topics: by timestamp, as far as they have arrived. A cogroup is
// aggregated as it is (Aggregate), by windows (WindowBy) or by sessions (SessionBy); it always sends every update.
//
// In Kafka Streams: CogroupedKStream.
type Cogrouped[K, A any] struct {
	c *cogrouped[K, A]
}

type cogrouped[K, A any] struct {
	b      *Builder
	used   func() // a call goes on with it
	inputs []coInput[K, A]
}

// coInput is one stream of a cogroup. The type of its values is known to its methods alone.
type coInput[K, A any] interface {
	// ready returns the stream that an aggregation reads, behind a repartition topic if it needs one. name is what its
	// repartition topic is called unless the user named it; taken tells whether it was used.
	ready(s *step, name string, auto bool) (parent string, sources []string, taken bool)
	keys() serde.Serde[K]
	plain(spec *op.TableSpec, init func() A) op.Factory
	coWindowed[K, A]
	// from tells whether the input is a grouped stream, given as its pointer.
	from(group any) bool
}

type cogroupInput[K, V, A any] struct {
	g      *grouped[K, V]
	add    func(k K, v V, agg A) (A, error)
	behind *Stream[K, V] // the stream behind its repartition topic, which several aggregations of the cogroup share
}

// Cogroup begins a cogroup with a grouped stream; add takes a record of it into the aggregate. The aggregate given to add
// belongs to it: it may be changed in place and returned. A nil result of a type that has a nil deletes the row.
//
// In Kafka Streams: KGroupedStream#cogroup.
func Cogroup[K, V, A any](g Grouped[K, V], add func(k K, v V, agg A) A) Cogrouped[K, A] {
	return newCogroup("Cogroup", Cogrouped[K, A]{}, g, infallible(add))
}

// TryCogroup is Cogroup with a function that can fail; its error goes to the processing handler.
func TryCogroup[K, V, A any](g Grouped[K, V], add func(k K, v V, agg A) (A, error)) Cogrouped[K, A] {
	return newCogroup("TryCogroup", Cogrouped[K, A]{}, g, add)
}

// AndCogroup adds another grouped stream to a cogroup, and returns the longer one. All streams need the same number of
// partitions, unless they are repartitioned.
//
// In Kafka Streams: CogroupedKStream#cogroup.
func AndCogroup[K, V, A any](c Cogrouped[K, A], g Grouped[K, V], add func(k K, v V, agg A) A) Cogrouped[K, A] {
	return newCogroup("AndCogroup", c, g, infallible(add))
}

// TryAndCogroup is AndCogroup with a function that can fail; its error goes to the processing handler.
func TryAndCogroup[K, V, A any](c Cogrouped[K, A], g Grouped[K, V], add func(k K, v V, agg A) (A, error)) Cogrouped[K, A] {
	return newCogroup("TryAndCogroup", c, g, add)
}

func infallible[K, V, A any](add func(K, V, A) A) func(K, V, A) (A, error) {
	if add == nil {
		return nil
	}
	return func(k K, v V, a A) (A, error) { return add(k, v, a), nil }
}

func newCogroup[K, V, A any](verb string, c Cogrouped[K, A], g Grouped[K, V], add func(K, V, A) (A, error)) Cogrouped[K, A] {
	b := g.g.in.b
	if c.c != nil {
		b = c.c.b
	}
	s := b.begin(verb, nil)
	s.needs(add != nil)
	out := &cogrouped[K, A]{b: b, used: func() {}}
	if c.c != nil {
		c.c.used()
		if other := g.g.in.b; other != b {
			// Neither may be built: whichever it is, a part is missing.
			for _, t := range []*topology.Builder{b.t, other.t} {
				t.Errorf(s.pos, "%s: the streams come from different builders", verb)
			}
			return c
		}
		out.inputs = append(out.inputs, c.c.inputs...)
		for _, in := range out.inputs {
			if in.from(g.g) {
				s.errorf("%s: the grouped stream is a part of the cogroup already; group the stream again to have its records twice", verb)
				return c
			}
		}
		out.used = b.mustBeUsed(s, "the longer cogroup that it returns is not used, so the stream is in no aggregate; assign it: c = millrace."+verb+"(c, ...)")
	}
	out.inputs = append(out.inputs, &cogroupInput[K, V, A]{g: g.g, add: add})
	return Cogrouped[K, A]{c: out}
}

func (c *cogroupInput[K, V, A]) from(group any) bool {
	g, ok := group.(*grouped[K, V])
	return ok && g == c.g
}

func (c *cogroupInput[K, V, A]) keys() serde.Serde[K] { return c.g.key }

func (c *cogroupInput[K, V, A]) ready(s *step, name string, auto bool) (parent string, sources []string, taken bool) {
	in := c.g.in
	switch {
	case !in.flagged:
	case c.g.name != "":
		in = c.g.ready(s, "", true)
	case c.behind != nil:
		s.b.t.NextName("KSTREAM-SINK-")
		s.b.t.NextName("KSTREAM-FILTER-")
		s.b.t.NextName("KSTREAM-SOURCE-")
		in = *c.behind
	default:
		in, taken = repartition(s, in, name, c.g.key, c.g.value, auto), true
		c.behind = &in
	}
	return in.parent(), in.sources, taken
}

func (c *cogroupInput[K, V, A]) plain(spec *op.TableSpec, init func() A) op.Factory {
	return op.NewAggregate(op.AggregateSpec[K, V, A]{Table: spec, Init: init, Fold: aggregateFold(init, c.add)})
}

// sessionFold adds to what init or merge has made.
func (c *cogroupInput[K, V, A]) sessionFold(r *processor.Record[K, V], agg A, _ bool) (A, bool, error) {
	out, err := c.add(r.Key, r.Value, agg)
	return out, true, err
}

// cogroupNodes are the steps of an aggregation of a cogroup: one for each input, and one that puts their updates together.
type cogroupNodes struct {
	storeName string
	named     bool
	steps     []string   // by input
	sources   [][]string // by input
	merge     string
}

func (n *cogroupNodes) allSources() []string {
	var all []string
	for _, s := range n.sources {
		all = union(all, s)
	}
	return all
}

// cogroupSteps adds the steps of an aggregation. make makes that of an input.
func cogroupSteps[K, A any](s *step, c *cogrouped[K, A], pass op.Factory, make func(in coInput[K, A], i int, node, storeName string) op.Factory) cogroupNodes {
	const prefix = "COGROUPKSTREAM-AGGREGATE-"
	var n cogroupNodes
	c.used()
	n.storeName, n.named = s.storeName(prefix)
	s.requireName(n.named, "a store")
	parents := []string{}
	unnamed := 0
	for i, in := range c.inputs {
		// Kafka Streams takes one repartition topic without a name only; the others get the number of their input.
		name := n.storeName
		if unnamed > 0 {
			name = fmt.Sprintf("%s-%d", n.storeName, i)
		}
		parent, sources, taken := in.ready(s, name, !n.named)
		if taken {
			unnamed++
		}
		parents = append(parents, parent)
		n.sources = append(n.sources, sources)
	}
	for i := range c.inputs {
		n.steps = append(n.steps, s.suffixedName(prefix, fmt.Sprintf("-cogroup-agg-%d", i)))
	}
	n.merge = s.suffixedName("COGROUPKSTREAM-MERGE-", "-cogroup-merge")
	for i, in := range c.inputs {
		s.b.t.AddProcessor(topology.Processor{
			Name: n.steps[i], Parents: []string{parents[i]}, Pos: s.pos, Op: make(in, i, n.steps[i], n.storeName),
		})
	}
	s.b.t.CopartitionSources(s.verb, s.pos, n.allSources()...)
	s.b.t.AddProcessor(topology.Processor{Name: n.merge, Parents: n.steps, Op: pass, Pos: s.pos})
	return n
}

// suffixedName is nodeName for one of several nodes of a step: a given name gets a suffix.
func (s *step) suffixedName(prefix, suffix string) string {
	generated := s.b.t.NextName(prefix)
	if name := s.nodeGiven(); name != "" {
		return name + suffix
	}
	return generated
}

// keySerde returns the serde of the keys of a cogroup: the one given as an option, or the first known.
func (c *cogrouped[K, A]) keySerde(s *step) serde.Serde[K] {
	var known serde.Serde[K]
	for _, in := range c.inputs {
		if known = in.keys(); known != nil {
			break
		}
	}
	return keySerde(s, known)
}

var cogroupOptions = []string{optAs, optNode, optStore, optAuto, optMemory, optLogConfig, optNoLog, optNoCache, optKey, optValue, optHeaders}

// Aggregate combines the records of each key: init makes the first aggregate, and the function of each stream takes its
// records into it. Records with a null key or value are dropped and counted. A row carries the highest timestamp of the
// records in it, and the headers of the last.
//
// Options: As, or StoreName, or AutoName; NodeName, InMemory, LogConfig, WithoutLog, WithoutCache, Versioned, KeepHeaders,
// WithKey, WithValue. It makes a store and a changelog topic, and a repartition topic for each stream whose key may have
// changed. Such a topic is named by RepartitionName of the stream's grouping; one without is named after the store, and if
// there are several, the others are named after the store and the number of their stream, from 0 on.
//
// In Kafka Streams: CogroupedKStream#aggregate. It refuses several streams without a RepartitionName.
func (c Cogrouped[K, A]) Aggregate(init func() A, value serde.Serde[A], opts ...StepOption) Table[K, A] {
	s := c.c.b.begin("Aggregate", given(opts, init != nil), append([]string{optVersioned}, cogroupOptions...)...)
	spec := new(op.TableSpec)
	n := cogroupSteps(s, c.c, op.NewPass[K, op.Change[A]](), func(in coInput[K, A], _ int, _, _ string) op.Factory {
		return in.plain(spec, init)
	})
	key, value := c.c.keySerde(s), valueSerde(s, value)
	for _, node := range n.steps {
		addTableStore(s, node, n.storeName, !n.named, key, value, spec)
	}
	return newTable(s, n.merge, n.allSources(), key, value, spec, n.storeName, false)
}
