package millrace

import (
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/internal/topology"
)

// Optimization is a change of the physical topology that leaves the results as they are. It changes which internal topics
// there are, so an application that has run keeps the ones that it was started with, or begins anew.
//
// In Kafka Streams: the values of topology.optimization.
type Optimization string

const (
	// ReuseSourceTopics makes the source topic of a table its changelog: no changelog topic is made, and a restore reads the
	// source topic up to the committed offset. The topic must be compacted, or keep its records for ever.
	//
	// What the source skipped when it came in, a restore skips too: records that did not decode and that the deserialization
	// handler passed over, and those with a null key or a negative timestamp. In Kafka Streams they come back and break the
	// reader.
	//
	// In Kafka Streams: StreamsConfig.REUSE_KTABLE_SOURCE_TOPICS.
	ReuseSourceTopics Optimization = "reuse.ktable.source.topics"
	// MergeRepartitionTopics sends a stream whose key has changed through one repartition topic for all steps that follow.
	// The topic stands right behind the step that changed the key, or behind a Merge of such a stream, and has the name of the
	// first topic that it replaces. Filter, Peek and Split that stood before a topic come behind it. A step that changes values
	// (MapValues, ProcessValues, JoinGlobal) is not moved, and neither is one behind Process: its topics stay apart, as does that
	// of Repartition.
	//
	// In Kafka Streams: StreamsConfig.MERGE_REPARTITION_TOPICS.
	MergeRepartitionTopics Optimization = "merge.repartition.topics"
	// SingleStoreSelfJoin keeps the records of a stream that JoinStreams joins with itself once: the join has the store of its
	// left side alone. LeftJoinStreams and OuterJoinStreams keep theirs, since records with a null key, or without a match where
	// the window leaves out the record itself, would get lost.
	//
	// In Kafka Streams: StreamsConfig.SINGLE_STORE_SELF_JOIN.
	SingleStoreSelfJoin Optimization = "single.store.self.join"
	// OptimizeAll is all of them.
	//
	// In Kafka Streams: StreamsConfig.OPTIMIZE.
	OptimizeAll Optimization = "all"
)

// Optimize builds a topology with the optimisations given. The steps declared on the builder see them from the start.
//
// In Kafka Streams: topology.optimization in the properties of StreamsBuilder#build.
func Optimize(which ...Optimization) BuildOption {
	return buildOption(func(b *Builder) {
		for _, o := range which {
			switch o {
			case ReuseSourceTopics, MergeRepartitionTopics, SingleStoreSelfJoin:
				b.optimize(o)
			case OptimizeAll:
				b.optimize(ReuseSourceTopics)
				b.optimize(MergeRepartitionTopics)
				b.optimize(SingleStoreSelfJoin)
			default:
				b.t.Errorf(callerPos(), "there is no optimisation %q: use ReuseSourceTopics, MergeRepartitionTopics, SingleStoreSelfJoin or OptimizeAll", o)
			}
		}
	})
}

// OptimizeProperty is Optimize with the value of the property topology.optimization: none, all, or names separated by commas.
// Where an App is given the property too, by FromProperties, NewApp demands that the topology was built with that value.
//
// In Kafka Streams: topology.optimization in the properties of StreamsBuilder#build.
func OptimizeProperty(value string) BuildOption {
	return Optimize(optimizations(strings.Split(value, ","))...)
}

// optimizations reads a list of names.
func optimizations(names []string) []Optimization {
	var which []Optimization
	for _, name := range names {
		if name = strings.TrimSpace(name); name != "" && name != "none" {
			which = append(which, Optimization(name))
		}
	}
	return which
}

func (b *Builder) optimize(o Optimization) {
	if b.optimized == nil {
		b.optimized = make(map[Optimization]bool)
	}
	b.optimized[o] = true
}

// checkOptimization holds the property of an application against what its topology was built with. Nothing was asked for if
// the property is none. A topology is ready when the application is made, and going on with other internal topics than the
// property says would lose what is in those.
func (t *Topology) checkOptimization(property []string) error {
	for _, o := range optimizations(property) {
		each := []Optimization{o}
		if o == OptimizeAll {
			each = []Optimization{ReuseSourceTopics, MergeRepartitionTopics, SingleStoreSelfJoin}
		}
		for _, o := range each {
			if !t.optimized[o] {
				value := strings.Join(property, ",")
				return fmt.Errorf("millrace: setting topology.optimization = %q: the topology was built without %s: give the value to the builder, millrace.NewBuilder(millrace.OptimizeProperty(%q))",
					value, o, value)
			}
		}
	}
	return nil
}

// optimizeGraph returns the graph that is built, and the repartition topics that feed more than they did as declared, so that
// null keys pass them: the steps behind decide as they did before.
func (b *Builder) optimizeGraph() (t *topology.Builder, wider []string) {
	merge, single := b.optimized[MergeRepartitionTopics], b.optimized[SingleStoreSelfJoin]
	if b.t.Failed() || !merge && !single {
		return b.t, nil
	}
	t = b.t.Clone()
	if merge {
		wider = t.MergeRepartitions()
	}
	if single {
		for _, rewrite := range b.selfJoins {
			rewrite(t)
		}
	}
	return t, wider
}
