package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Shape prints what all instances of an application must have in common: for each sub-topology its id, the topics and
// patterns that it reads, the repartition topics that it writes, and its stores with their kinds and changelogs. Two
// instances with the same shape may take over each other's tasks.
//
// Steps without state are not in it, and neither are sinks to the user's topics and global stores, so a new version of a
// program may change those while the old one still runs. A generated name that shifts a store's name shows, as it must.
func (t *Topology) Shape() string {
	var sb strings.Builder
	for _, s := range t.subs {
		fmt.Fprintf(&sb, "sub-topology %d\n", s.ID)
		var lines []string
		for _, n := range s.Sources {
			if n.Pattern != "" {
				lines = append(lines, "  reads pattern "+n.Pattern)
			}
			for _, topic := range n.Topics {
				if n.Internal {
					lines = append(lines, "  reads repartition "+topic+t.repartition(topic).shape())
					continue
				}
				lines = append(lines, "  reads "+topic)
			}
		}
		for _, topic := range s.RepartitionOut {
			lines = append(lines, "  writes repartition "+topic)
		}
		for _, store := range s.Stores {
			lines = append(lines, "  store "+store.Name+" "+store.Kind.String()+store.changelogShape())
		}
		slices.Sort(lines)
		for _, line := range slices.Compact(lines) {
			sb.WriteString(line + "\n")
		}
	}
	return sb.String()
}

func (t RepartitionTopic) shape() string {
	if t.Partitions == 0 {
		return ""
	}
	return fmt.Sprintf(" of %d partitions", t.Partitions)
}

func (s *StateStore) changelogShape() string {
	switch {
	case s.SourceTopic != "":
		return " logged by " + s.SourceTopic
	case s.Logged:
		return " logged"
	}
	return ""
}

// Signature is a hash of Shape, 32 hexadecimal digits. Instances that tell each other theirs find out when two different
// topologies run under one application id.
func (t *Topology) Signature() string {
	sum := sha256.Sum256([]byte(t.Shape()))
	return hex.EncodeToString(sum[:16])
}

// ShapeDiff compares two shapes and returns the lines that only one of them has, "- " before those of a and "+ " before
// those of b, each below the heading of its sub-topology. It is empty for equal shapes.
func ShapeDiff(a, b string) string {
	left, right := shapeLines(a), shapeLines(b)
	var sb strings.Builder
	headings := slices.Clone(left.order)
	for _, h := range right.order {
		if !slices.Contains(headings, h) {
			headings = append(headings, h)
		}
	}
	for _, heading := range headings {
		var lines []string
		for _, l := range left.lines[heading] {
			if !slices.Contains(right.lines[heading], l) {
				lines = append(lines, "- "+l)
			}
		}
		for _, l := range right.lines[heading] {
			if !slices.Contains(left.lines[heading], l) {
				lines = append(lines, "+ "+l)
			}
		}
		if len(lines) > 0 {
			sb.WriteString(heading + "\n" + strings.Join(lines, "\n") + "\n")
		}
	}
	return sb.String()
}

type shapeParts struct {
	order []string
	lines map[string][]string
}

func shapeLines(shape string) shapeParts {
	p := shapeParts{lines: map[string][]string{}}
	for line := range strings.Lines(shape) {
		line = strings.TrimSuffix(line, "\n")
		if text, indented := strings.CutPrefix(line, "  "); indented && len(p.order) > 0 {
			heading := p.order[len(p.order)-1]
			p.lines[heading] = append(p.lines[heading], text)
			continue
		}
		p.order = append(p.order, line)
	}
	return p
}
