package millrace_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-io/millrace"
)

// The topologies of this file are built with the DSL and described; testdata/describe/topologies.txt and
// internal/topology/testdata/describe hold what Kafka Streams 4.4.0 says of the same ones. Names stand for each other so:
// As is every name of a step at once, StoreName is Materialized.as, NodeName is Named.as, RepartitionName is Grouped.as,
// Joined.as and Repartitioned.as, and an option that speaks of the store without naming it is a Materialized without name.
func TestDescribeEqualsJava(t *testing.T) {
	compareDescriptions(t, "testdata/describe/topologies.txt", describedTopologies)
}

// TestDescribeEqualsJava_streamJoins is the same for joins of two streams.
func TestDescribeEqualsJava_streamJoins(t *testing.T) {
	compareDescriptions(t, "testdata/describe/stream-joins.txt", describedStreamJoins)
}

func compareDescriptions(t *testing.T, file string, twins map[string]func(*millrace.Builder), opts ...millrace.BuildOption) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	for _, part := range strings.Split(string(text), "== ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		want[name] = body
	}
	for _, name := range sorted(want) {
		t.Run(name, func(t *testing.T) {
			declare := twins[name]
			if declare == nil {
				t.Fatalf("there is no twin of topology %s", name)
			}
			compareDescription(t, want[name], declare, opts...)
		})
	}
	for name := range twins {
		if _, ok := want[name]; !ok {
			t.Errorf("topology %s has no description by Java", name)
		}
	}
}

// TestDescribeEqualsJava_ofTheGraph is the same for the topologies by which the graph itself is tested.
func TestDescribeEqualsJava_ofTheGraph(t *testing.T) {
	for name, declare := range describedGraphs {
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile("internal/topology/testdata/describe/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			compareDescription(t, string(want), declare)
		})
	}
}

func compareDescription(t *testing.T, want string, declare func(*millrace.Builder), opts ...millrace.BuildOption) {
	t.Helper()
	b := millrace.NewBuilder(opts...)
	declare(b)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, topology.Describe()); diff != "" {
		t.Errorf("-java +ours:\n%s", diff)
	}
}

func built(t *testing.T, declare func(*millrace.Builder)) *millrace.Topology {
	t.Helper()
	b := millrace.NewBuilder()
	declare(b)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func TestC064_ChangingTheKeyTwiceNeedsOneRepartitionTopic(t *testing.T) {
	for name, want := range map[string]string{
		"c064-select-key-twice": "KSTREAM-AGGREGATE-STATE-STORE-0000000004-repartition",
		"c064-group-twice":      "KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition",
	} {
		topology := built(t, describedGraphs[name])
		internal := topology.Internal().InternalTopics()
		if len(internal) != 1 || internal[0].Name != want {
			t.Errorf("%s: repartition topics %v, want %s alone", name, internal, want)
		}
		if n := strings.Count(topology.Describe(), "Sub-topology:"); n != 2 {
			t.Errorf("%s: %d sub-topologies, want 2", name, n)
		}
	}
}

func TestC123_GeneratedNamesDependOnPosition(t *testing.T) {
	for name, want := range map[string][]string{
		"c123-count":        {"KSTREAM-AGGREGATE-0000000002", "KSTREAM-AGGREGATE-STATE-STORE-0000000001", "KSTREAM-SINK-0000000004"},
		"c123-filter-count": {"KSTREAM-AGGREGATE-0000000003", "KSTREAM-AGGREGATE-STATE-STORE-0000000002", "KSTREAM-SINK-0000000005"},
		// A name given by the user uses up no number.
		"c123-filter-count-named": {"KSTREAM-AGGREGATE-0000000002", "cnt", "KSTREAM-SINK-0000000004"},
	} {
		graph := built(t, describedGraphs[name]).Internal()
		if graph.Node(want[0]) == nil || graph.Store(want[1]) == nil || graph.Node(want[2]) == nil {
			t.Errorf("%s: want %v in\n%s", name, want, graph.Describe())
		}
	}
}
