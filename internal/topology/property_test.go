package topology

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// randomGraph draws sources, steps, sinks, stores and global stores.
func randomGraph(t *rapid.T) *Builder {
	b := NewBuilder()
	var parents, steps []string
	n := rapid.IntRange(1, 30).Draw(t, "nodes")
	for i := range n {
		name := fmt.Sprintf("n%d", i)
		kind := rapid.IntRange(0, 9).Draw(t, "kind")
		switch {
		case kind == 0:
			b.AddGlobal(GlobalStore{
				Store:     Store{Name: "store-" + name},
				Source:    Source{Name: name, Topics: []string{"global-" + name}},
				Processor: Processor{Name: name + "-step"},
			})
		case kind < 3 || len(parents) == 0:
			b.AddSource(Source{Name: name, Topics: []string{"topic-" + name}})
			parents = append(parents, name)
		default:
			from := rapid.SliceOfN(rapid.SampledFrom(parents), 1, 3).Draw(t, "parents")
			if kind < 5 {
				b.AddSink(Sink{Name: name, Topic: "out", Parents: from})
				continue
			}
			b.AddProcessor(Processor{Name: name, Parents: from})
			parents = append(parents, name)
			steps = append(steps, name)
		}
	}
	if len(steps) > 0 {
		for i := range rapid.IntRange(0, 5).Draw(t, "stores") {
			b.AddStore(Store{Name: fmt.Sprintf("s%d", i), Logged: true}, rapid.SliceOfN(rapid.SampledFrom(steps), 1, 3).Draw(t, "users")...)
		}
	}
	return b
}

// TestSubtopologyIDs compares the ids with those that one gets by spreading labels until nothing changes.
func TestSubtopologyIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := randomGraph(t)
		topo, err := b.Build(BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		label := map[*Node]int{}
		for i, n := range topo.nodes {
			label[n] = i
		}
		lower := func(a, b *Node) bool {
			l := min(label[a], label[b])
			changed := label[a] != l || label[b] != l
			label[a], label[b] = l, l
			return changed
		}
		for changed := true; changed; {
			changed = false
			for _, n := range topo.nodes {
				for _, c := range n.Children {
					changed = lower(n, c) || changed
				}
				for _, s := range n.Stores {
					for _, u := range s.Users {
						changed = lower(n, u) || changed
					}
				}
			}
		}
		ids := map[int]int{} // the lowest index of a component -> its id
		for _, n := range topo.nodes {
			if _, ok := ids[label[n]]; !ok {
				ids[label[n]] = len(ids)
			}
			if n.Subtopology != ids[label[n]] {
				t.Fatalf("%s is in sub-topology %d, want %d", n.Name, n.Subtopology, ids[label[n]])
			}
		}
		checkStructure(t, topo, len(ids))
	})
}

// checkStructure checks that the views of a topology agree with each other.
func checkStructure(t *rapid.T, topo *Topology, ids int) {
	if got := len(topo.Subtopologies()) + len(topo.Globals()); got != ids {
		t.Fatalf("%d sub-topologies and global stores, want %d", got, ids)
	}
	nodes := 0
	for _, sub := range topo.Subtopologies() {
		if topo.Subtopology(sub.ID) != sub {
			t.Fatalf("sub-topology %d is not found by its id", sub.ID)
		}
		nodes += len(sub.Nodes)
		for i, n := range sub.Nodes {
			if n.Subtopology != sub.ID || n.Global || i > 0 && sub.Nodes[i-1].Index >= n.Index {
				t.Fatalf("%s is misplaced in sub-topology %d", n.Name, sub.ID)
			}
			for _, p := range n.Parents {
				if p.Index >= n.Index || !slices.Contains(p.Children, n) {
					t.Fatalf("%s and its parent %s disagree", n.Name, p.Name)
				}
			}
			if !slices.IsSortedFunc(n.Children, func(a, b *Node) int { return a.Index - b.Index }) {
				t.Fatalf("children of %s are not in the order of declaration", n.Name)
			}
			for _, s := range n.Stores {
				if !slices.Contains(s.Users, n) || !slices.Contains(sub.Stores, s) {
					t.Fatalf("%s and its store %s disagree", n.Name, s.Name)
				}
			}
		}
	}
	for _, g := range topo.Globals() {
		nodes += 2
		if g.Source.Subtopology != g.ID || g.Processor.Subtopology != g.ID || g.Store.Subtopology != g.ID || topo.Subtopology(g.ID) != nil {
			t.Fatalf("global store %s is not of one id", g.Store.Name)
		}
	}
	if nodes != len(topo.nodes) {
		t.Fatalf("%d nodes in sub-topologies, want %d", nodes, len(topo.nodes))
	}
}

// TestSameCallsSameResult builds each graph twice: no order of a map may show.
func TestSameCallsSameResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := randomGraph(t)
		cluster := map[string]int32{}
		var prints [2]string
		for i := range prints {
			topo, err := b.Build(BuildOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, topic := range slices.Concat(topo.SourceTopics(), topo.GlobalTopics()) {
				cluster[topic] = int32(len(topic)%3 + 1)
			}
			plan, err := topo.Resolve("app", cluster, nil, DefaultResolveConfig())
			if err != nil {
				t.Fatal(err)
			}
			prints[i] = topo.Describe() + topo.DOT() + topo.Mermaid() + topo.Shape() + printTasks(plan) + printTopics(plan.Changelogs)
		}
		if diff := cmp.Diff(prints[0], prints[1]); diff != "" {
			t.Fatal(diff)
		}
	})
}

// partGraph is a graph of sub-topologies: what each reads and writes, by numbers of topics.
type partGraph struct {
	user        []int32 // partitions of the user's topics
	given       []int32 // partitions of the repartition topics, 0: derived
	readsUser   [][]int // by sub-topology
	readsInner  [][]int
	writesInner [][]int
}

// drawPartGraph draws sub-topologies that may feed themselves and each other.
func drawPartGraph(t *rapid.T) partGraph {
	var g partGraph
	subs := rapid.IntRange(1, 6).Draw(t, "subs")
	g.readsUser, g.readsInner, g.writesInner = make([][]int, subs), make([][]int, subs), make([][]int, subs)
	sub := rapid.IntRange(0, subs-1)
	for i := range rapid.IntRange(0, 5).Draw(t, "user") {
		g.user = append(g.user, int32(rapid.IntRange(1, 9).Draw(t, "partitions")))
		s := sub.Draw(t, "reader")
		g.readsUser[s] = append(g.readsUser[s], i)
	}
	for i := range rapid.IntRange(1, 8).Draw(t, "inner") {
		given := int32(0)
		if rapid.IntRange(0, 4).Draw(t, "given") == 0 {
			given = int32(rapid.IntRange(1, 9).Draw(t, "partitions"))
		}
		g.given = append(g.given, given)
		r := sub.Draw(t, "reader")
		g.readsInner[r] = append(g.readsInner[r], i)
		for _, w := range rapid.SliceOfNDistinct(sub, 1, min(2, subs), rapid.ID[int]).Draw(t, "writers") {
			g.writesInner[w] = append(g.writesInner[w], i)
		}
	}
	return g
}

func (g partGraph) build() *Builder {
	b := NewBuilder()
	for i, n := range g.given {
		b.InternalTopic(RepartitionTopic{Name: fmt.Sprintf("r%d-repartition", i), Partitions: n})
	}
	for s := range g.readsUser {
		var sources []string
		for _, u := range g.readsUser[s] {
			name := fmt.Sprintf("user-source-%d", u)
			b.AddSource(Source{Name: name, Topics: []string{fmt.Sprintf("t%d", u)}})
			sources = append(sources, name)
		}
		for _, r := range g.readsInner[s] {
			name := fmt.Sprintf("source-%d", r)
			b.AddSource(Source{Name: name, Topics: []string{fmt.Sprintf("r%d-repartition", r)}})
			sources = append(sources, name)
		}
		if len(sources) == 0 { // a sub-topology reads something
			b.AddSource(Source{Name: fmt.Sprintf("nothing-%d", s), Pattern: fmt.Sprintf("nothing-%d", s)})
			sources = append(sources, fmt.Sprintf("nothing-%d", s))
		}
		step := fmt.Sprintf("step-%d", s)
		b.AddProcessor(Processor{Name: step, Parents: sources})
		for _, w := range g.writesInner[s] {
			b.AddSink(Sink{Name: fmt.Sprintf("sink-%d-%d", s, w), Topic: fmt.Sprintf("r%d-repartition", w), Parents: []string{step}})
		}
	}
	return b
}

// upstream is the highest number of partitions that reaches a repartition topic: it looks at every topic from which
// records flow into it, through other repartition topics up to one with a number of its own.
func (g partGraph) upstream(topic int) int32 {
	if g.given[topic] > 0 {
		return g.given[topic]
	}
	var most int32
	seen := map[int]bool{topic: true}
	queue := []int{topic}
	for len(queue) > 0 {
		r := queue[0]
		queue = queue[1:]
		for s, writes := range g.writesInner {
			if !slices.Contains(writes, r) {
				continue
			}
			for _, u := range g.readsUser[s] {
				most = max(most, g.user[u])
			}
			for _, i := range g.readsInner[s] {
				switch {
				case g.given[i] > 0:
					most = max(most, g.given[i])
				case !seen[i]:
					seen[i] = true
					queue = append(queue, i)
				}
			}
		}
	}
	return most
}

// TestRepartitionCounts compares the fixpoint with a search from each topic upwards.
func TestRepartitionCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawPartGraph(t)
		topo, err := g.build().Build(BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cluster := map[string]int32{}
		for i, n := range g.user {
			cluster[fmt.Sprintf("t%d", i)] = n
		}
		want, unknown := map[string]int32{}, false
		for i := range g.given {
			n := g.upstream(i)
			want[fmt.Sprintf("app-r%d-repartition", i)] = n
			unknown = unknown || n == 0
		}
		plan, err := topo.Resolve("app", cluster, nil, DefaultResolveConfig())
		if unknown != (err != nil) {
			t.Fatalf("got error %v, want one: %v", err, unknown)
		}
		if err != nil {
			return
		}
		got := map[string]int32{}
		for _, r := range plan.Repartitions {
			got[r.Name] = r.Partitions
			if r.Fresh != r.Partitions {
				t.Fatalf("%s has %d partitions and would get %d if fresh, but it is", r.Name, r.Partitions, r.Fresh)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-search +fixpoint\n%s", diff)
		}
		checkTasks(t, topo, plan)
	})
}

// checkTasks checks that each partition of each topic is read by exactly one task.
func checkTasks(t *rapid.T, topo *Topology, plan *Plan) {
	reader := map[string]string{}
	tasks := map[int]int32{}
	for _, task := range plan.Tasks {
		if task.Partition != tasks[task.Subtopology] || len(task.Inputs) == 0 {
			t.Fatalf("task %d_%d has %d inputs and follows %d others", task.Subtopology, task.Partition, len(task.Inputs), tasks[task.Subtopology])
		}
		tasks[task.Subtopology]++
		for _, in := range task.Inputs {
			tp := fmt.Sprint(in.TopicPartition)
			if reader[tp] != "" || in.Partition != task.Partition || in.Source.Subtopology != task.Subtopology {
				t.Fatalf("input %s of task %d_%d is misplaced", tp, task.Subtopology, task.Partition)
			}
			reader[tp] = in.Source.Name
		}
	}
	for _, r := range plan.Repartitions {
		for p := range r.Partitions {
			if reader[fmt.Sprintf("{%s %d}", r.Name, p)] == "" {
				t.Fatalf("nobody reads partition %d of %s", p, r.Name)
			}
		}
	}
}

// TestCopartitionGroups joins topics in random groups: all of a group end with one number, or there is an error.
func TestCopartitionGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawPartGraph(t)
		b := g.build()
		var sources []string
		for i := range g.user {
			sources = append(sources, fmt.Sprintf("user-source-%d", i))
		}
		for i := range g.given {
			sources = append(sources, fmt.Sprintf("source-%d", i))
		}
		for range rapid.IntRange(0, 4).Draw(t, "groups") {
			b.CopartitionSources("join", Pos{}, rapid.SliceOfN(rapid.SampledFrom(sources), 1, 3).Draw(t, "group")...)
		}
		topo, err := b.Build(BuildOptions{})
		if err != nil {
			return
		}
		cluster := map[string]int32{}
		for i, n := range g.user {
			cluster[fmt.Sprintf("t%d", i)] = n
		}
		plan, err := topo.Resolve("app", cluster, nil, DefaultResolveConfig())
		if err != nil {
			var ce *CopartitionError
			if errors.As(err, &ce) && (len(ce.Topics) < 2 || ce.Topics[0].Partitions == ce.Topics[len(ce.Topics)-1].Partitions && len(ce.Topics) == 2) {
				t.Fatalf("there is nothing wrong with %v", ce.Topics)
			}
			return
		}
		for _, r := range plan.Repartitions {
			cluster[r.Name] = r.Partitions
		}
		for _, group := range plan.Copartitions {
			for _, topic := range group {
				if cluster[topic] != cluster[group[0]] {
					t.Fatalf("group %v has %d and %d partitions", group, cluster[group[0]], cluster[topic])
				}
			}
		}
		// What has been created is found again as it was planned.
		again, err := topo.Resolve("app", cluster, nil, DefaultResolveConfig())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(printTasks(plan)+printTopics(plan.Repartitions), printTasks(again)+printTopics(again.Repartitions)); diff != "" {
			t.Fatalf("-first start +second start\n%s", diff)
		}
	})
}
