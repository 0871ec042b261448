package millrace

import (
	"context"
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
	branches *[]branch[K, V]
	ended    bool
}

// branch is a branch as declared; without a predicate it takes the rest.
type branch[K, V any] struct {
	step string
	when func(context.Context, K, V) (bool, error)
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
	branches := new([]branch[K, V])
	s.b.t.AddProcessor(topology.Processor{Name: name, Parents: []string{s.parent()}, Role: topology.PassRole, Pos: st.pos,
		Op: op.FactoryFunc(func(env *op.Env, step string, children []op.Child) (any, error) {
			var all []op.Branch[K, V]
			for _, b := range *branches {
				out := op.Branch[K, V]{Step: b.step}
				if b.when != nil {
					out.When = func(k K, v V) (bool, error) { return b.when(env.Ctx, k, v) }
				}
				all = append(all, out)
			}
			return op.NewSplit(all).Build(env, step, children)
		})})
	return &Splitting[K, V]{in: s, step: st, name: name, branches: branches}
}

// Branch returns the stream of the records that meet the predicate and none before it. A node is named by the split's name
// and the branch's: As gives it one, otherwise its number counts.
//
// In Kafka Streams: BranchedKStream#branch.
func (s *Splitting[K, V]) Branch(when func(K, V) bool, opts ...StepOption) Stream[K, V] {
	return s.add("Branch", func(_ context.Context, k K, v V) (bool, error) { return when(k, v), nil }, len(*s.branches)+1, given(opts, when != nil))
}

// TryBranch is Branch with a predicate that can fail; its error goes to the processing handler. ctx ends with the
// application.
func (s *Splitting[K, V]) TryBranch(when func(ctx context.Context, k K, v V) (bool, error), opts ...StepOption) Stream[K, V] {
	return s.add("TryBranch", when, len(*s.branches)+1, given(opts, when != nil))
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

func (s *Splitting[K, V]) add(verb string, when func(context.Context, K, V) (bool, error), index int, opts []StepOption) Stream[K, V] {
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
	s.in.b.t.AddProcessor(topology.Processor{Name: name, Parents: []string{s.name}, Op: op.NewPass[K, V](), Role: topology.PassRole, Pos: st.pos})
	*s.branches = append(*s.branches, branch[K, V]{step: name, when: when})
	out := s.in
	out.node, out.branch = name, nil
	return out
}
