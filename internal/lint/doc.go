// Package lint holds the house rules as tests, so that breaking one fails like any other test: which package may import
// which, who may start goroutines, read the wall clock or panic, and how packages are not called.
//
// The rules are data, in table_test.go; that is the file to change when a package is added or a border moves. The border
// between packages is described in docs/internals.md too: change both in one commit. What each rule looks at is in
// rules_test.go, and rules_self_test.go shows each of them a breach.
package lint
