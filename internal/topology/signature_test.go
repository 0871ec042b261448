package topology

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestC103_TwoTopologiesUnderOneApplicationID(t *testing.T) {
	reading := func(topics ...string) *Topology {
		b := NewBuilder()
		for _, topic := range topics {
			b.AddSource(Source{Name: topic + "-source", Topics: []string{topic}})
			b.AddSink(Sink{Name: topic + "-sink", Topic: "out", Parents: []string{topic + "-source"}})
		}
		return mustBuild(t, b)
	}
	one, two := reading("t1", "t2"), reading("t3")
	if one.Signature() == two.Signature() {
		t.Error("topologies of different topics have the same signature")
	}
	want := `sub-topology 0
- reads t1
+ reads t3
sub-topology 1
- reads t2
`
	if diff := cmp.Diff(want, ShapeDiff(one.Shape(), two.Shape())); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if ShapeDiff(one.Shape(), reading("t1", "t2").Shape()) != "" || one.Signature() != reading("t1", "t2").Signature() {
		t.Error("the same topology built twice differs")
	}
	if ShapeDiff("  headless\n", "  headless\n") != "" {
		t.Error("a shape without a heading differs from itself")
	}
}

func TestShape(t *testing.T) {
	const want = `sub-topology 0
  reads a
  reads b
  writes repartition five-repartition
  writes repartition g-repartition
  writes repartition gs-repartition
  writes repartition gw-repartition
sub-topology 1
  reads repartition g-repartition
  store cnt key-value logged
sub-topology 2
  reads repartition gw-repartition
  store wcnt window logged
sub-topology 3
  reads repartition gs-repartition
  store scnt window logged
sub-topology 4
  reads t
  store ver versioned logged
sub-topology 5
  reads repartition five-repartition of 5 partitions
`
	if diff := cmp.Diff(want, buildGraph(t, "c070-internal-topics").Shape()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := buildGraph(t, "optimized").Shape(); !strings.Contains(got, "  store users-store key-value logged by users\n") {
		t.Errorf("got\n%s", got)
	}
}

// TestSignatureOfChanges tells changes that a running application can live with from those that it cannot.
func TestSignatureOfChanges(t *testing.T) {
	build := func(change func(b *Builder)) string {
		b := NewBuilder()
		b.AddSource(Source{Name: "in", Topics: []string{"t"}})
		b.AddProcessor(Processor{Name: "step", Parents: []string{"in"}})
		b.AddStore(Store{Name: "s", Logged: true}, "step")
		change(b)
		return mustBuild(t, b).Signature()
	}
	base := build(func(*Builder) {})
	for name, tt := range map[string]struct {
		change func(b *Builder)
		same   bool
	}{
		"a step without state": {func(b *Builder) { b.AddProcessor(Processor{Name: "x", Parents: []string{"step"}}) }, true},
		"a sink":               {func(b *Builder) { b.AddSink(Sink{Name: "x", Topic: "o", Parents: []string{"step"}}) }, true},
		"a global store": {func(b *Builder) {
			b.AddGlobal(GlobalStore{Store: Store{Name: "g"}, Source: Source{Name: "gs", Topics: []string{"gt"}}, Processor: Processor{Name: "gp"}})
		}, true},
		"a store":   {func(b *Builder) { b.AddStore(Store{Name: "r", Logged: true}, "step") }, false},
		"a source":  {func(b *Builder) { b.AddSource(Source{Name: "x", Topics: []string{"u"}}) }, false},
		"a pattern": {func(b *Builder) { b.AddSource(Source{Name: "x", Pattern: "u.*"}) }, false},
	} {
		if got := build(tt.change) == base; got != tt.same {
			t.Errorf("%s: same signature is %v, want %v", name, got, tt.same)
		}
	}
}
