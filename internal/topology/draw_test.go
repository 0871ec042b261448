package topology

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the drawings of testdata/draw anew")

// drawn is a topology with one of everything that looks different.
func drawn(t *testing.T) *Topology {
	t.Helper()
	b := NewBuilder()
	b.AddGlobal(GlobalStore{Store: Store{Name: "countries"}, Source: Source{Name: "countries-source", Topics: []string{"countries"}}, Processor: Processor{Name: "countries-table"}})
	b.AddSource(Source{Name: "read", Topics: []string{"clicks", "views"}})
	b.AddSource(Source{Name: "read-shops", Pattern: `shop-\d+"`})
	b.AddProcessor(Processor{Name: "select-user", Parents: []string{"read", "read-shops"}})
	b.InternalTopic(RepartitionTopic{Name: "by-user-repartition"})
	b.AddSink(Sink{Name: "by-user-repartition-sink", Topic: "by-user-repartition", Parents: []string{"select-user"}})
	b.AddSource(Source{Name: "by-user-repartition-source", Topics: []string{"by-user-repartition"}})
	b.AddProcessor(Processor{Name: "count", Parents: []string{"by-user-repartition-source"}})
	b.AddStore(Store{Name: "counts", Logged: true}, "count")
	b.AddSink(Sink{Name: "write", Topic: "counts", Parents: []string{"count"}})
	b.AddSink(Sink{Name: "write-any", Dynamic: "topicOf[#1]<Click>", Parents: []string{"count"}})
	return mustBuild(t, b)
}

func TestDrawings(t *testing.T) {
	topo := drawn(t)
	for file, got := range map[string]string{
		"testdata/draw/all.dot": topo.DOT(),
		"testdata/draw/all.mmd": topo.Mermaid(),
	} {
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: -want +got\n%s", file, diff)
		}
	}
}

// TestDrawingsAreWhole looks for each part of each topology in its drawings.
func TestDrawingsAreWhole(t *testing.T) {
	for _, file := range graphFiles(t) {
		topo := mustBuild(t, readGraph(t, file))
		for kind, drawing := range map[string]string{"dot": topo.DOT(), "mermaid": topo.Mermaid()} {
			want := append(topo.SourceTopics(), topo.SinkTopics()...)
			want = append(want, topo.GlobalTopics()...)
			edges := 0
			for _, n := range topo.nodes {
				want = append(want, n.Name)
				edges += len(n.Topics) + len(n.Children) + len(n.Stores)
				if n.Pattern != "" || n.Kind == SinkNode {
					edges++
				}
			}
			for _, s := range topo.Stores() {
				want = append(want, s.Name)
			}
			for _, r := range topo.InternalTopics() {
				want = append(want, r.Name)
			}
			for _, label := range want {
				if !strings.Contains(drawing, `"`+label+`"`) {
					t.Errorf("%s: the %s drawing lacks %q", file, kind, label)
				}
			}
			arrows := strings.Count(drawing, " -> ") + strings.Count(drawing, " --> ") + strings.Count(drawing, " -.- ")
			if arrows != edges {
				t.Errorf("%s: the %s drawing has %d arrows, want %d", file, kind, arrows, edges)
			}
		}
	}
}
