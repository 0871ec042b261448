package topology

import (
	"fmt"
	"slices"
	"testing"
)

func TestJavaStringHash(t *testing.T) {
	// Values of String.hashCode, as unsigned numbers.
	for s, want := range map[string]uint32{"": 0, "a": 97, "Aa": 2112, "BB": 2112, "hello": 99162322, "polygenelubricants": 1 << 31} {
		if got := javaStringHash(s); got != want {
			t.Errorf("%q: got %d, want %d", s, got, want)
		}
	}
}

func TestJavaHashSetOrder(t *testing.T) {
	// What Java 17 prints for these sets. The strings n0, n37, n74... fill a set of 12, the largest with 16 buckets; its
	// copy has 32.
	var twelve []string
	for i := range 12 {
		twelve = append(twelve, fmt.Sprintf("n%d", i*37))
	}
	grown := newJavaHashSet()
	for _, e := range append(twelve, twelve...) {
		grown.add(e)
	}
	for _, tt := range []struct {
		set  *javaHashSet
		want string
	}{
		{copyJavaHashSet([]string{"BB", "b", "Aa", "a", "c"}), "[BB, Aa, a, b, c]"}, // BB and Aa have one hash
		{copyJavaHashSet([]string{"Aa", "b", "BB", "a", "c"}), "[Aa, BB, a, b, c]"},
		{copyJavaHashSet(twelve), "[n0, n74, n370, n111, n185, n37, n296, n148, n222, n333, n259, n407]"},
		{grown, "[n111, n0, n185, n37, n296, n148, n222, n333, n74, n259, n370, n407]"},
	} {
		if got := bracketed(tt.set); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

func TestJavaTreeSetIsATreeSet(t *testing.T) {
	// With an honest comparator it is a sorted set.
	s := &javaTreeSet[int]{compare: func(a, b int) int { return a - b }}
	seen := map[int]bool{}
	x := uint32(1)
	for range 1000 {
		x = x*1664525 + 1013904223
		v := int(x >> 22)
		if added := s.add(v); added == seen[v] {
			t.Fatalf("add(%d) = %v, seen before: %v", v, added, seen[v])
		}
		seen[v] = true
	}
	if got := s.elems(); len(got) != len(seen) || !slices.IsSorted(got) {
		t.Errorf("got %d elements, sorted %v, want %d", len(got), slices.IsSorted(got), len(seen))
	}
	checkRedBlack(t, s.root)
}

// checkRedBlack returns the number of black entries on each way down.
func checkRedBlack(t *testing.T, e *treeEntry[int]) int {
	t.Helper()
	if e == nil {
		return 0
	}
	for _, c := range []*treeEntry[int]{e.left, e.right} {
		if c != nil && (c.parent != e || !c.black && !e.black) {
			t.Fatalf("entry %d below %d: wrong parent, or red below red", c.elem, e.elem)
		}
	}
	l, r := checkRedBlack(t, e.left), checkRedBlack(t, e.right)
	if l != r {
		t.Fatalf("%d and %d black entries below %d", l, r, e.elem)
	}
	if e.black {
		l++
	}
	return l
}

// What Java 17 prints for new HashSet<>(map.values()), where the map has the group of each topic.
func TestInJavaOrder(t *testing.T) {
	got := InJavaOrder([][]string{{"a", "b"}, {"c", "p"}, {"q", "r"}})
	if want := "[[a b] [p c] [q r]]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if got := InJavaOrder(nil); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
