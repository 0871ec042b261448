package integration_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"

	"github.com/millrace-io/millrace/test/child"
)

// shortSession is the session timeout, in milliseconds, of a process that is to be killed: others wait for as long.
const shortSession = "3000"

// childSpec is what a child process runs.
type childSpec = child.Spec[childTopics]

// childTopics are the topics of a child's topology.
type childTopics struct{ In, Out, Late string }

// startChild starts a process of an application.
func startChild(t *testing.T, name string, spec childSpec) *child.Process {
	t.Helper()
	return child.Start(t, name, spec)
}

// childTopologies are what a child process can run. Tests run them in their own process too.
var childTopologies = child.Topologies[childTopics]{
	"copy":   copyTopology,
	"count":  countTopology,
	"window": windowTopology,
}

// copyTopology writes what it reads.
func copyTopology(b *millrace.Builder, t childTopics) { millrace.From(b, texts(t.In)).To(texts(t.Out)) }

// countTopology counts records by key in the store "counts".
func countTopology(b *millrace.Builder, t childTopics) {
	counts := millrace.Count(millrace.From(b, texts(t.In)).GroupByKey(), millrace.As("counts"))
	counts.ToStream().To(numbers(t.Out))
}

// windowTopology counts records by key and window of 10 ms without grace, each update a record, and writes the values of
// late ones.
func windowTopology(b *millrace.Builder, t childTopics) {
	const size = 10 * time.Millisecond
	grouped := millrace.From(b, texts(t.In)).GroupByKey().WindowBy(window.Tumbling(size).Grace(0))
	counts, late := millrace.CountWindows(grouped, millrace.As("counts"), millrace.WithoutCache())
	counts.ToStream().To(millrace.NewTopic(t.Out, serde.Windowed(serde.String, size), serde.Int64))
	millrace.MapValues(late, func(l window.Late[string]) string { return l.Value }).To(texts(t.Late))
}
