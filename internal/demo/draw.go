package demo

import (
	"fmt"
	"strings"
	"time"
)

// DrawFormats are the formats that [Draw] knows.
func DrawFormats() []string { return []string{"text", "dot", "mermaid"} }

// Draw returns the topology as text in the form of Kafka Streams, as a graph for Graphviz, or as one for Mermaid.
func Draw(format string, grace time.Duration) (string, error) {
	t, err := Topology(grace)
	if err != nil {
		return "", err
	}
	var text string
	switch format {
	case "text":
		text = t.Describe()
	case "dot":
		text = t.DOT()
	case "mermaid":
		text = t.Mermaid()
	default:
		return "", fmt.Errorf("millrace: demo: no drawing in format %q; choose one of %s", format, strings.Join(DrawFormats(), ", "))
	}
	return strings.TrimRight(text, "\n") + "\n", nil
}
