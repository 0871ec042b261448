package topology

import (
	"cmp"
	"slices"
	"unicode/utf16"
)

// The text of TopologyDescription depends on the order in which Java's HashSet and TreeSet hand out their elements. Both
// are reproduced here as far as that order goes, so that descriptions can be compared byte for byte.

// javaHashSet is a java.util.HashSet of strings: iteration goes by bucket, and within one by age. Buckets that Java would
// turn into trees (eight strings in one of at least 64) keep their order of age, which Java mostly keeps too.
type javaHashSet struct {
	buckets [][]string
	size    int
}

// newJavaHashSet is new HashSet<>().
func newJavaHashSet() *javaHashSet { return &javaHashSet{buckets: make([][]string, 16)} }

// copyJavaHashSet is new HashSet<>(collection).
func copyJavaHashSet(elems []string) *javaHashSet {
	capacity := 16
	// As Java 17 computes it. (Later ones no longer add one, which shows in sets of 12, 24, 48... only.)
	for want := int(float32(len(elems))/0.75) + 1; capacity < want; {
		capacity *= 2
	}
	s := &javaHashSet{buckets: make([][]string, capacity)}
	for _, e := range elems {
		s.add(e)
	}
	return s
}

func (s *javaHashSet) add(elem string) {
	i := s.bucket(elem)
	for _, e := range s.buckets[i] {
		if e == elem {
			return
		}
	}
	s.buckets[i] = append(s.buckets[i], elem)
	// A bucket that grows long makes a small table grow first.
	if len(s.buckets[i]) > 8 && len(s.buckets) < 64 {
		s.grow()
	}
	if s.size++; s.size > len(s.buckets)/4*3 {
		s.grow()
	}
}

func (s *javaHashSet) grow() {
	old := s.buckets
	s.buckets = make([][]string, 2*len(old))
	for _, bucket := range old {
		for _, e := range bucket {
			i := s.bucket(e)
			s.buckets[i] = append(s.buckets[i], e)
		}
	}
}

func (s *javaHashSet) bucket(elem string) int {
	h := javaStringHash(elem)
	return int((h ^ h>>16) & uint32(len(s.buckets)-1))
}

// elems returns the elements in the order of Java's iterator.
func (s *javaHashSet) elems() []string {
	elems := make([]string, 0, s.size)
	for _, bucket := range s.buckets {
		elems = append(elems, bucket...)
	}
	return elems
}

// javaStringHash is String.hashCode.
func javaStringHash(s string) uint32 {
	var h uint32
	for _, unit := range utf16.Encode([]rune(s)) {
		h = 31*h + uint32(unit)
	}
	return h
}

// javaTreeSet is a java.util.TreeSet whose comparator may change its mind between insertions, as the one of
// TopologyDescription does: it compares sizes that still grow. What comes out then depends on the shape of Java's
// red-black tree, so that is built the same way.
type javaTreeSet[T any] struct {
	root    *treeEntry[T]
	compare func(a, b T) int
}

type treeEntry[T any] struct {
	elem                T
	left, right, parent *treeEntry[T]
	black               bool
}

// add is TreeMap.put: it reports whether the element was not found on its way down.
func (s *javaTreeSet[T]) add(elem T) bool {
	var parent *treeEntry[T]
	link := &s.root
	for *link != nil {
		parent = *link
		switch c := s.compare(elem, parent.elem); {
		case c < 0:
			link = &parent.left
		case c > 0:
			link = &parent.right
		default:
			return false
		}
	}
	e := &treeEntry[T]{elem: elem, parent: parent, black: true}
	*link = e
	if parent != nil {
		s.fixAfterInsertion(e)
	}
	return true
}

func (s *javaTreeSet[T]) fixAfterInsertion(x *treeEntry[T]) {
	x.black = false
	for x != nil && x != s.root && !x.parent.black {
		p, g := x.parent, x.parent.parent
		onLeft := p == g.child(true)
		uncle := g.child(!onLeft)
		if uncle != nil && !uncle.black {
			p.black, uncle.black, g.black = true, true, false
			x = g
			continue
		}
		if x == p.child(!onLeft) {
			x = p
			s.rotate(x, onLeft)
			p = x.parent
		}
		p.black, g.black = true, false
		s.rotate(g, !onLeft)
	}
	s.root.black = true
}

// child is the left child or the right one; a missing entry has none.
func (e *treeEntry[T]) child(left bool) *treeEntry[T] {
	switch {
	case e == nil:
		return nil
	case left:
		return e.left
	}
	return e.right
}

func (e *treeEntry[T]) setChild(left bool, c *treeEntry[T]) {
	if left {
		e.left = c
	} else {
		e.right = c
	}
	if c != nil {
		c.parent = e
	}
}

// rotate moves p down to the left or to the right, and its child of the other side into its place.
func (s *javaTreeSet[T]) rotate(p *treeEntry[T], left bool) {
	r := p.child(!left)
	top := p.parent
	p.setChild(!left, r.child(left))
	switch {
	case top == nil:
		s.root, r.parent = r, nil
	default:
		top.setChild(top.left == p, r)
	}
	r.setChild(left, p)
}

// elems returns the elements from left to right.
func (s *javaTreeSet[T]) elems() []T {
	var elems []T
	var walk func(e *treeEntry[T])
	walk = func(e *treeEntry[T]) {
		if e != nil {
			walk(e.left)
			elems = append(elems, e.elem)
			walk(e.right)
		}
	}
	walk(s.root)
	return elems
}

// InJavaOrder orders groups of topics, and the topics of each, as the sets of Kafka Streams hand them out. Brokers that keep the topology of
// a group compare it with the next member's in the order in which it was sent.
func InJavaOrder(groups [][]string) [][]string {
	topics := 0
	for _, g := range groups {
		topics += len(g)
	}
	type placed struct {
		bucket int
		topics []string
	}
	size := len(copyJavaHashSet(make([]string, topics)).buckets) // of a set made of as many references to groups
	all := make([]placed, len(groups))
	for i, g := range groups {
		set, hash := newJavaHashSet(), uint32(0)
		for _, t := range g {
			set.add(t)
			hash += javaStringHash(t)
		}
		all[i] = placed{int((hash ^ hash>>16) & uint32(size-1)), set.elems()}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.bucket, b.bucket) })
	ordered := make([][]string, len(all))
	for i, p := range all {
		ordered[i] = p.topics
	}
	return ordered
}
