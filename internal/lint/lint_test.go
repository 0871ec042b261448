package lint

import (
	"slices"
	"testing"
)

// TestHouseRules applies every rule to every file of the module. A failure names file, line and remedy.
func TestHouseRules(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(files, func(s *source) bool { return s.path == "internal/lint/doc.go" }) {
		t.Fatalf("%d files below %s, and not even this package is among them", len(files), root)
	}
	found := run(files, exceptions)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, b := range found {
				if b.rule == r.name {
					t.Error(b)
				}
			}
		})
	}
}

// TestTable checks that the table itself makes sense.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range levels {
		for _, p := range l.paths {
			if seen[p] {
				t.Errorf("%s stands in the table twice", p)
			}
			seen[p] = true
			if under(p, beside) {
				t.Errorf("%s has a level and stands beside the levels", p)
			}
		}
	}
	for _, e := range sameLevel {
		from, level, ok := place(e[0])
		to, level2, ok2 := place(e[1])
		if !ok || !ok2 || from != e[0] || to != e[1] || level != level2 || from == to {
			t.Errorf("sameLevel: %s and %s are not two lines of one level", e[0], e[1])
		}
		if slices.Contains(sameLevel, [2]string{e[1], e[0]}) {
			t.Errorf("sameLevel: %s and %s import each other", e[0], e[1])
		}
	}
	for _, e := range exceptions {
		if e.why == "" || !slices.ContainsFunc(rules, func(r rule) bool { return r.name == e.rule }) {
			t.Errorf("exception %+v: unknown rule, or no reason", e)
		}
	}
}
