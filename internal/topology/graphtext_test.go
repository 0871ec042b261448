package topology

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// readGraph feeds a builder with a graph in the format of testdata/README.md.
func readGraph(t *testing.T, file string) *Builder {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parseGraph(t, string(text), file)
}

func parseGraph(t *testing.T, text, file string) *Builder {
	t.Helper()
	b := NewBuilder()
	var global GlobalStore
	var globals []GlobalStore
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if line == "" {
			continue
		}
		if err := addLine(b, line, Pos{File: file, Line: i + 1}, &global, &globals); err != nil {
			t.Fatalf("%s:%d: %v", file, i+1, err)
		}
	}
	return b
}

func addLine(b *Builder, line string, pos Pos, global *GlobalStore, globals *[]GlobalStore) error {
	words := strings.Fields(line)
	attr := map[string]string{}
	for _, w := range words[2:] {
		name, value, _ := strings.Cut(w, "=")
		attr[name] = value
	}
	list := func(name string) []string {
		if attr[name] == "" {
			return nil
		}
		return strings.Split(attr[name], ",")
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(attr[name], 10, 64)
		return n
	}
	name := words[1]
	switch words[0] {
	case "source":
		b.AddSource(Source{Name: name, Topics: list("topics"), Pattern: attr["pattern"], Pos: pos})
	case "processor":
		b.AddProcessor(Processor{Name: name, Parents: list("parents"), Stores: list("stores"), Pos: pos})
	case "sink":
		b.AddSink(Sink{Name: name, Topic: attr["topic"], Dynamic: attr["dynamic"], Parents: list("parents"), Pos: pos})
	case "global-source":
		*global = GlobalStore{Source: Source{Name: name, Topics: list("topics"), Pos: pos}}
	case "global-processor":
		global.Processor = Processor{Name: name, Pos: pos}
		global.Store = Store{Name: attr["stores"], Pos: pos}
		b.AddGlobal(*global)
		*globals = append(*globals, *global)
	case "global-store":
		// Java keeps these apart; here they came with their processor.
	case "store":
		s := Store{Name: name, SourceTopic: attr["changelog"], RetentionMs: number("retention"), HistoryMs: number("history"), Pos: pos}
		_, s.Logged = attr["logged"]
		switch attr["kind"] {
		case "window":
			s.Kind = Window
		case "versioned":
			s.Kind = Versioned
		}
		s.JoinWindow = attr["config"] == "{cleanup.policy=delete}"
		b.AddStore(s)
	case "repartition":
		b.InternalTopic(RepartitionTopic{Name: name, Partitions: int32(number("partitions")), Pos: pos})
	case "copartition":
		b.CopartitionSources("join", pos, strings.Split(name, ",")...)
	default:
		return fmt.Errorf("unknown word %q", words[0])
	}
	return nil
}

// graphFiles lists the graphs that Kafka Streams built.
func graphFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/describe/*.graph")
	if err != nil || len(files) == 0 {
		t.Fatalf("no graphs: %v", err)
	}
	return files
}

// buildGraph builds the topology of a graph file of testdata/describe.
func buildGraph(t *testing.T, name string) *Topology {
	t.Helper()
	topo, err := readGraph(t, filepath.Join("testdata/describe", name+".graph")).Build(BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return topo
}
