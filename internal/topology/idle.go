package topology

// inheritIdle gives the sources of repartition topics their idle timeouts: a topic between two sub-topologies is quiet as
// soon as all sources that lead to it are, so it takes the longest of their timeouts, and none if one of them has none.
func (t *Topology) inheritIdle() {
	sinks := make(map[string][]*Node)
	for _, n := range t.nodes {
		if n.Kind == SinkNode && n.Internal {
			sinks[n.Topic] = append(sinks[n.Topic], n)
		}
	}
	for _, n := range t.nodes {
		if n.Kind == SourceNode && n.Internal {
			n.IdleMs = t.idleBefore(n, sinks)
		}
	}
}

// idleBefore is the longest timeout of the user's sources that lead to a source of a repartition topic, 0 if one of them
// never counts as idle.
func (t *Topology) idleBefore(source *Node, sinks map[string][]*Node) int64 {
	seen := make(map[*Node]bool)
	longest, never := int64(0), false
	var up func(n *Node)
	up = func(n *Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		if n.Kind == SourceNode && !n.Internal {
			longest, never = max(longest, n.IdleMs), never || n.IdleMs == 0
			return
		}
		for _, topic := range n.Topics {
			for _, sink := range sinks[topic] {
				up(sink)
			}
		}
		for _, p := range n.Parents {
			up(p)
		}
	}
	up(source)
	if never {
		return 0
	}
	return longest
}
