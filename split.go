package millrace

import (
	"strconv"

	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
)

// Splitting divides a stream: each record goes to the first branch whose predicate it meets. End it with Default or
// NoDefault.
//
// In Kafka Streams: BranchedKStream.
type Splitting[K, V any] struct {
	in       Stream[K, V]
	step     *step
	name     string
	branches *[]op.Branch[K, V]
	ended    bool
}

// Split divides a stream into branches, which Branch names one by one.
//
//	s := orders.Split()
//	large := s.Branch(func(_ string, o Order) bool { return o.Total > 1000 })
//	rest := s.Default()
//
// In Kafka Streams: KStream#split.
func (s Stream[K, V]) Split(opts ...StepOption) *Splitting[K, V] {
	st := s.b.begin("Split", opts, nodeOptions...)
	name := st.nodeName("KSTREAM-BRANCH-")
	branches := new([]op.Branch[K, V])
	s.b.t.AddProcessor(topology.Processor{Name: name, Parents: []string{s.parent()}, Pos: st.pos,
		Op: op.FactoryFunc(func(env *op.Env, step string, children []op.Child) (any, error) {
			return op.NewSplit(*branches).Build(env, step, children)
		})})
	return &Splitting[K, V]{in: s, step: st, name: name, branches: branches}
}

// Branch returns the stream of the records that meet the predicate and none before it. A node is named by the split's name
// and the branch's: As gives it one, otherwise its number counts.
//
// In Kafka Streams: BranchedKStream#branch.
func (s *Splitting[K, V]) Branch(when func(K, V) bool, opts ...StepOption) Stream[K, V] {
	return s.add("Branch", func(k K, v V) (bool, error) { return when(k, v), nil }, len(*s.branches)+1, given(opts, when != nil))
}

// Default returns the stream of the records that met no predicate, and ends the split.
//
// In Kafka Streams: BranchedKStream#defaultBranch.
func (s *Splitting[K, V]) Default(opts ...StepOption) Stream[K, V] {
	out := s.add("Default", nil, 0, opts)
	s.ended = true
	return out
}

// NoDefault ends the split: records that met no predicate are gone.
//
// In Kafka Streams: BranchedKStream#noDefaultBranch.
func (s *Splitting[K, V]) NoDefault() { s.ended = true }

func (s *Splitting[K, V]) add(verb string, when func(K, V) (bool, error), index int, opts []StepOption) Stream[K, V] {
	st := s.in.b.begin(verb, opts, nodeOptions...)
	if s.ended {
		st.errorf("%s: the split was ended by Default or NoDefault already", verb)
	}
	s.in.b.t.NextName("KSTREAM-BRANCH-") // used up, as in Kafka Streams
	suffix := strconv.Itoa(index)
	if st.as != "" {
		suffix = st.as
	}
	if st.node != "" {
		suffix = st.node
	}
	name := s.name + suffix
	s.in.b.t.AddProcessor(topology.Processor{Name: name, Parents: []string{s.name}, Op: op.NewPass[K, V](), Pos: st.pos})
	*s.branches = append(*s.branches, op.Branch[K, V]{Step: name, When: when})
	out := s.in
	out.node, out.branch = name, nil
	return out
}
