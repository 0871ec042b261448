package millrace

import (
	"github.com/millrace-io/millrace/internal/topology"
)

// Topology is a checked graph of steps, ready to run. It never changes and may be run by several apps and test drivers.
//
// In Kafka Streams: Topology.
type Topology struct {
	t *topology.Topology
	// optimized are the optimisations that it was built with.
	optimized map[Optimization]bool
}

// Describe prints the topology as Kafka Streams does: sub-topologies with their sources, steps, stores and sinks. Names of
// internal topics are printed without the application id.
//
// In Kafka Streams: Topology#describe.
func (t *Topology) Describe() string { return t.t.Describe() }

// DOT prints the topology in the language of Graphviz.
func (t *Topology) DOT() string { return t.t.DOT() }

// Mermaid prints the topology in the language of Mermaid, which Markdown pages on many sites draw.
func (t *Topology) Mermaid() string { return t.t.Mermaid() }

// Internal returns the graph itself, for millrace's own packages.
func (t *Topology) Internal() *topology.Topology { return t.t }
