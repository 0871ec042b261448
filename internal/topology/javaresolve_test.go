package topology

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPartitionsEqualJava resolves random topologies for which Kafka Streams gave the partitions of the repartition
// topics, or an error.
func TestPartitionsEqualJava(t *testing.T) {
	text, err := os.ReadFile("testdata/resolve.txt")
	if err != nil {
		t.Fatal(err)
	}
	counted, refused := 0, 0
	for _, section := range strings.Split(string(text), "=== ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		graph, cluster, want := splitResolveCase(t, body)
		got := resolveToText(parseGraph(t, graph, name), cluster)
		if want == "error" {
			refused++
		} else {
			counted++
		}
		if !sameCounts(got, want) {
			t.Errorf("case %s: got %s, Java has %s; topology:\n%s\ncluster: %v", name, got, want, graph, cluster)
		}
	}
	if counted == 0 || refused == 0 {
		t.Errorf("%d cases with counts and %d with errors, want some of both", counted, refused)
	}
}

// sameCounts compares "a=1 b=2" with what Java has, where "b=2|3" says that Java's answer depends on hashes of names.
func sameCounts(got, want string) bool {
	g, w := strings.Fields(got), strings.Fields(want)
	return slices.EqualFunc(g, w, func(g, w string) bool {
		name, n, _ := strings.Cut(g, "=")
		wantName, wantN, _ := strings.Cut(w, "=")
		return name == wantName && slices.Contains(strings.Split(wantN, "|"), n)
	})
}

func splitResolveCase(t *testing.T, body string) (graph string, cluster map[string]int32, want string) {
	t.Helper()
	cluster = map[string]int32{}
	var counts []string
	for line := range strings.Lines(body) {
		words := strings.Fields(line)
		switch words[0] {
		case "cluster":
			n, err := strconv.Atoi(words[2])
			if err != nil {
				t.Fatal(err)
			}
			cluster[words[1]] = int32(n)
		case "count":
			counts = append(counts, words[1]+"="+words[2])
		case "error":
			return graph, cluster, "error"
		default:
			graph += line
		}
	}
	return graph, cluster, strings.Join(counts, " ")
}

func resolveToText(b *Builder, cluster map[string]int32) string {
	topo, err := b.Build(BuildOptions{})
	if err != nil {
		return "error"
	}
	plan, err := topo.Resolve("app", cluster, nil, DefaultResolveConfig())
	if err != nil {
		return "error"
	}
	counts := map[string]int32{}
	for _, spec := range plan.Repartitions {
		counts[spec.Name] = spec.Partitions
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s=%d", name, counts[name]))
	}
	return strings.Join(list, " ")
}
