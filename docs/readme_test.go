package docs

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Below is the code of README.md, so that it compiles and runs.

type Click struct {
	URL string
	Bot bool
}

var (
	clicks  = millrace.NewTopic("clicks", serde.String, serde.JSON[Click]())
	counts  = millrace.NewTopic("clicks-per-minute", serde.Windowed(serde.String, time.Minute), serde.Int64)
	tooLate = millrace.NewTopic("clicks-late", serde.String, serde.JSON[window.Late[Click]]())
)

func topology() (*millrace.Topology, error) {
	b := millrace.NewBuilder()
	human := millrace.From(b, clicks).Filter(func(_ string, c Click) bool { return !c.Bot })
	perMinute := human.GroupByKey().WindowBy(window.Tumbling(time.Minute).Grace(10 * time.Second))
	count, late := millrace.CountWindows(perMinute, millrace.As("clicks-per-minute"))
	count.ToStream().To(counts)
	late.To(tooLate)
	return b.Build()
}

func TestBotsDoNotCount(t *testing.T) {
	top, err := topology()
	if err != nil {
		t.Fatal(err)
	}
	d := milltest.New(t, top)
	in, out := milltest.Input(d, clicks), milltest.Output(d, counts)
	in.PipeAt("alice", Click{URL: "/"}, 5*time.Second)
	in.PipeAt("alice", Click{URL: "/", Bot: true}, 6*time.Second)
	in.PipeAt("alice", Click{URL: "/buy"}, 7*time.Second)
	if got := out.ReadValues(); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("counts %v", got)
	}
}

// TestReadmeCode checks that the code of README.md stands in this file.
func TestReadmeCode(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) != 2 {
		t.Errorf("%d blocks of Go in README.md, want 2", len(blocks))
	}
	for _, b := range blocks {
		b, _, _ = strings.Cut(b, "```")
		for _, part := range strings.Split(b, "\n\n") {
			if strings.HasPrefix(part, "func run(") { // needs a broker
				continue
			}
			if !strings.Contains(string(here), strings.TrimSpace(part)) {
				t.Errorf("README.md has code that is not tested here:\n%s", part)
			}
		}
	}
}
