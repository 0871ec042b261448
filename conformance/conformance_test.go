package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/milltest"
)

const committed = "testdata/vectors"

// TestCommittedVectors replays the vectors that are committed.
func TestCommittedVectors(t *testing.T) {
	replayAll(t, committed)
}

// TestVectors replays the vectors of the folder that MILLRACE_VECTORS names.
func TestVectors(t *testing.T) {
	dir := os.Getenv("MILLRACE_VECTORS")
	if dir == "" {
		t.Skip("MILLRACE_VECTORS is not set")
	}
	if !filepath.IsAbs(dir) {
		t.Fatalf("MILLRACE_VECTORS is %q: it has to be an absolute path, since a test runs in the folder of its package", dir)
	}
	replayAll(t, dir)
}

func replayAll(t *testing.T, dir string) {
	r, err := load()
	if err != nil {
		t.Fatal(err)
	}
	folders, err := openFolders(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		for _, err := range missing(r, f) {
			t.Error(err)
		}
		for _, name := range f.scenarios {
			if s := r.scenarios[name]; s != nil {
				t.Run(fmt.Sprintf("seed-%d/%s", f.seed, name), func(t *testing.T) {
					t.Parallel()
					replayOne(t, s, f)
				})
			}
		}
	}
}

// missing tells which scenarios are on one side only.
func missing(r *registry, f folder) []error {
	var errs []error
	there := make(map[string]bool)
	for _, name := range f.scenarios {
		there[name] = true
		if r.scenarios[name] == nil {
			errs = append(errs, fmt.Errorf("%s: scenario %s has no twin in Go", f.dir, name))
		}
	}
	for _, name := range f.same {
		there[name] = true
	}
	for _, name := range r.names() {
		if f.complete && !there[name] {
			errs = append(errs, fmt.Errorf("%s: scenario %s has no vector", f.dir, name))
		}
	}
	return errs
}

// TestDifferencesAreDocumented holds the rules by which scenarios differ on purpose against the list that users read.
func TestDifferencesAreDocumented(t *testing.T) {
	r, err := load()
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../docs/kafka-streams.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(docs), "## Deliberate differences")
	if !ok {
		t.Fatal("docs/kafka-streams.md has no list of deliberate differences")
	}
	for _, name := range r.names() {
		if s := r.scenarios[name]; s.judge != nil && !strings.Contains(list, s.judge.rule) {
			t.Errorf("scenario %s differs by the rule %q, which is not in the list of deliberate differences", name, s.judge.rule)
		}
	}
}

// TestDifferencesShow holds what Kafka Streams gave against the models: a scenario that differs on purpose has to show in at
// least one seed that it does, or it is to be compared like any other.
func TestDifferencesShow(t *testing.T) {
	r, err := load()
	if err != nil {
		t.Fatal(err)
	}
	folders, err := openFolders(committed)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range r.names() {
		s := r.scenarios[name]
		if s.judge == nil {
			continue
		}
		shown := slices.ContainsFunc(folders, func(f folder) bool {
			of := name
			if slices.Contains(f.same, name) {
				of = strings.TrimSuffix(name, "-memory")
			}
			v, err := f.read(of)
			if err != nil {
				t.Fatal(err)
			}
			java := byTopic(v.output)
			for topic, records := range s.judge.model(v.input) {
				if v.failure != "" || diffTopic(topic, "", records, java[topic], v.input) != "" {
					return true
				}
			}
			return false
		})
		if !shown {
			t.Errorf("in no seed does Kafka Streams differ from the model of scenario %s: it does not show the rule %q", name, s.judge.rule)
		}
	}
}

// replayOne replays a vector with stores in memory and on disk.
func replayOne(t *testing.T, s *scenario, f folder) {
	want, err := f.read(s.name)
	if err != nil {
		t.Fatal(err)
	}
	if want.failure != "" && !s.fails && s.judge == nil {
		t.Errorf("Kafka Streams failed, and the scenario does not say that it is meant to: %s", want.failure)
	}
	if len(want.input) > 0 && len(want.output) == 0 && want.failure == "" {
		t.Errorf("Kafka Streams gave nothing at all: the scenario shows nothing")
	}
	for _, engine := range []struct {
		name string
		opts []milltest.Option
	}{{"in memory", nil}, {"on disk", []milltest.Option{milltest.OnDisk()}}} {
		got, err := s.replay(want, engine.opts...)
		if err != nil {
			t.Fatalf("stores %s: %v", engine.name, err)
		}
		if diffs := s.compare(want, got); len(diffs) > 0 {
			t.Errorf("scenario %s, seed %d, stores %s: not what %s says\n%s%s", s.name, f.seed, engine.name, s.says(),
				strings.Join(diffs, "\n"), again(s.name, f.seed))
			return // the other engine would say the same
		}
	}
}

func (s *scenario) says() string {
	if s.judge != nil {
		return "the rule " + s.judge.rule
	}
	return "Kafka Streams"
}

func again(name string, seed int64) string {
	return fmt.Sprintf("\nonce more, from the root of the repository:\n"+
		"  conformance/generate --seed %d --scenario %s --out \"$PWD/out/vectors\"\n"+
		"  MILLRACE_VECTORS=\"$PWD/out/vectors\" go test ./conformance -run '^TestVectors$'\n", seed, name)
}
