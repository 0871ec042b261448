package lint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// breaches applies the rules to one file of that name and text.
func breaches(t *testing.T, file, text string, allowed ...exception) []breach {
	t.Helper()
	s, err := parse("", file, text)
	if err != nil {
		t.Fatal(err)
	}
	return run([]*source{s}, allowed)
}

// Each rule is shown what breaks it and what does not. A breach is given as "line rule: part of the text".
func TestRules(t *testing.T) {
	const kgo, pebble = `"github.com/twmb/franz-go/pkg/kgo"`, `"github.com/cockroachdb/pebble/v2"`
	own := func(p string) string { return `"` + modulePath + "/" + p + `"` }
	for _, c := range []struct {
		name string
		file string
		text string
		want []string
	}{
		{"down", "internal/op/x.go", "package op\nimport " + own("serde"), nil},
		{"down from the root", "x.go", "package millrace\nimport " + own("internal/runtime"), nil},
		{"up", "serde/x.go", "package serde\n\nimport " + own("processor"), []string{"3 imports: serde (level 0) imports processor (level 1)"}},
		{"up to the root", "internal/runtime/x.go", "package runtime\nimport \"" + modulePath + "\"", []string{"2 imports: imports . (level 5)"}},
		{"up in a test", "serde/x_test.go", "package serde\nimport " + own("milltest"), nil},
		{"up behind a build tag", "serde/x.go", "//go:build synctests\n\npackage serde\nimport " + own("store"), []string{"4 imports: level 1"}},
		{"level of a package below a line", "internal/broker/kgoclient/x.go", "package kgoclient\nimport " + own("internal/state"),
			[]string{"2 imports: internal/broker/kgoclient (level 1) imports internal/state (level 2)"}},
		{"listed edge", "serde/x.go", "package serde\nimport " + own("window"), nil},
		{"the other way", "window/x.go", "package window\nimport " + own("serde"), []string{"2 imports: own level 0"}},
		{"unlisted edge", "internal/assign/x.go", "package assign\nimport " + own("internal/state"), []string{"2 imports: sameLevel"}},
		{"one line of the table", "internal/broker/kgoclient/x.go", "package kgoclient\nimport " + own("internal/broker"), nil},
		{"a name that only begins alike", "internal/broker/x.go", "package broker\nimport " + own("internal/brokerage"), nil},
		{"unlisted package", "internal/brokerage/x.go", "package brokerage", []string{"1 imports: package internal/brokerage is not in the table"}},
		{"beside", "internal/sim/x.go", "package sim\nimport " + own("internal/runtime"), nil},
		{"beside each other", "bench/x.go", "package bench\nimport " + own("test/kafka"), nil},
		{"engine imports what stands beside", "milltest/x.go", "package milltest\nimport " + own("internal/sim"), []string{"2 imports: beside"}},
		{"test imports what stands beside", "internal/runtime/x_test.go", "package runtime\nimport " + own("test/kafka"), nil},
		{"public only", "cep/x.go", "package cep\nimport (\n\"" + modulePath + "\"\n" + own("internal/op") + "\n)", []string{"4 imports: public API"}},
		{"not public only", "milltest/x.go", "package milltest\nimport " + own("internal/task"), nil},

		{"kgo in the engine", "internal/txn/x.go", "package txn\nimport " + kgo, []string{"2 imports: through internal/broker"}},
		{"kgo in the package above its importer", "internal/broker/x.go", "package broker\nimport " + kgo, []string{"2 imports: through internal/broker"}},
		{"kgo in its importer", "internal/broker/kgoclient/x.go", "package kgoclient\nimport " + kgo, nil},
		{"kgo in a command", "cmd/millrace/x.go", "package main\nimport " + kgo, nil},
		{"kgo in a test", "internal/txn/x_test.go", "package txn\nimport " + kgo, nil},
		{"pebble in the engine", "internal/restore/x.go", "package restore\nimport " + pebble, []string{"2 imports: through internal/state"}},
		{"pebble in a command", "cmd/millrace/x.go", "package main\nimport " + pebble, []string{"2 imports: through internal/state"}},
		{"pebble in its importer", "internal/state/x.go", "package state\nimport " + pebble, nil},
		{"a fake in the engine", "internal/runtime/x.go", "package runtime\nimport " + own("internal/broker/brokertest"), []string{"2 imports: a fake"}},
		{"a fake in itself", "internal/broker/brokertest/y/x.go", "package y\nimport " + own("internal/broker/brokertest"), nil},
		{"a fake in the test driver", "milltest/x.go", "package milltest\nimport " + own("internal/broker/brokertest"), nil},

		{"go statement", "internal/task/x.go", "package task\nfunc f() {\n\tgo f()\n}", []string{"3 goroutines: internal/task starts"}},
		{"go statement in a closure", "internal/task/x.go", "package task\nvar f = func() { go println() }", []string{"2 goroutines: "}},
		{"WaitGroup.Go", "internal/task/x.go", "package task\nimport \"sync\"\nfunc f(wg *sync.WaitGroup) { wg.Go(func() {}) }", []string{"3 goroutines: "}},
		{"context.AfterFunc", "internal/task/x.go", "package task\nimport \"context\"\nfunc f(c context.Context) { context.AfterFunc(c, func() {}) }",
			[]string{"3 goroutines: "}},
		{"go statement in the runtime", "internal/runtime/x.go", "package runtime\nfunc f() { go f() }", nil},
		{"go statement in a client", "internal/broker/kgoclient/x.go", "package kgoclient\nfunc f() { go f() }", nil},
		{"go statement in a command", "cmd/millrace/x.go", "package main\nfunc f() { go f() }", nil},
		{"go statement in a test", "internal/task/x_test.go", "package task\nfunc f() { go f() }", nil},

		{"time.Now", "internal/runtime/x.go", "package runtime\nimport \"time\"\nvar _ = time.Now()", []string{"3 clock: time.Now"}},
		{"time.Now as a value", "internal/task/x.go", "package task\nimport \"time\"\nvar now = time.Now", []string{"3 clock: time.Now"}},
		{"under another name", "internal/task/x.go", "package task\nimport t \"time\"\nfunc f() { t.Sleep(1) }", []string{"3 clock: time.Sleep"}},
		{"with a dot", "internal/task/x.go", "package task\nimport . \"time\"\nvar _ = Now()", []string{"2 clock: with a dot"}},
		{"every reader", "serde/x.go", "package serde\nimport \"time\"\nvar _ = []any{\ntime.Since,\ntime.Until,\ntime.After,\ntime.Tick,\ntime.NewTimer,\ntime.NewTicker}",
			[]string{"4 clock: ", "5 clock: ", "6 clock: ", "7 clock: ", "8 clock: ", "9 clock: "}},
		{"other parts of time", "serde/x.go", "package serde\nimport \"time\"\nvar _ = time.UnixMilli(5).Add(time.Second).After(time.Time{})", nil},
		{"a variable called time", "serde/x.go", "package serde\nimport \"time\"\nfunc f(time struct{ Now func() }) { time.Now() }\nvar _ time.Time", nil},
		{"another package called time", "serde/x.go", "package serde\nimport \"example.org/time\"\nvar _ = time.Now()", nil},
		{"time.Now in the clock", "internal/clock/x.go", "package clock\nimport \"time\"\nvar _ = time.Now()", nil},
		{"time.Now in a command", "internal/demo/live/x.go", "package live\nimport \"time\"\nvar _ = time.Now()", nil},
		{"a timer in a client", "internal/broker/kgoclient/x.go", "package kgoclient\nimport \"time\"\nvar _ = time.NewTimer(1)", nil},
		{"time.Now in a client", "internal/broker/kgoclient/x.go", "package kgoclient\nimport \"time\"\nvar _ = time.Now()", []string{"3 clock: "}},
		{"time.Sleep in a client", "internal/config/x.go", "package config\nimport \"time\"\nfunc f() { time.Sleep(1) }", []string{"3 clock: "}},
		{"time.Now in a test", "serde/x_test.go", "package serde\nimport \"time\"\nvar _ = time.Now()", nil},

		{"name of the directory", "internal/op/util/x.go", "package strings", []string{"1 names: package util"}},
		{"name in the file", "internal/op/x.go", "package common", []string{"1 names: package common"}},
		{"name in a command", "cmd/helpers/x.go", "package helpers", []string{"1 names: package helpers"}},

		{"panic", "internal/op/x.go", "package op\nfunc f() { panic(1) }", []string{"2 panics: internal/op panics"}},
		{"panic in the root", "x.go", "package millrace\nfunc f() { panic(1) }", []string{"2 panics: . panics"}},
		{"a function called panic", "internal/op/x.go", "package op\nfunc f(panic func(int)) { panic(1) }", nil},
		{"a method called panic", "internal/op/x.go", "package op\nfunc f(x interface{ panic(int) }) { x.panic(1) }", nil},
		{"os.Exit", "internal/op/x.go", "package op\nimport \"os\"\nfunc f() { os.Exit(1) }", []string{"3 panics: os.Exit"}},
		{"log.Fatal", "internal/op/x.go", "package op\nimport \"log\"\nfunc f() { log.Fatalf(\"\") }", []string{"3 panics: log.Fatalf"}},
		{"panic in a command", "bench/x.go", "package bench\nimport \"os\"\nfunc f() { os.Exit(1); panic(1) }", nil},
		{"panic in a test tool", "milltest/x.go", "package milltest\nfunc f() { panic(1) }", nil},
		{"panic in a test", "internal/op/x_test.go", "package op\nfunc f() { panic(1) }", nil},
	} {
		got := breaches(t, c.file, c.text)
		ok := len(got) == len(c.want)
		for i := range min(len(got), len(c.want)) {
			head, part, _ := strings.Cut(c.want[i], ": ")
			line, rule, _ := strings.Cut(head, " ")
			ok = ok && got[i].at == c.file+":"+line && got[i].rule == rule && strings.Contains(got[i].text, part)
		}
		if !ok {
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		}
	}
}

func TestExceptions(t *testing.T) {
	const text = "package op\nfunc f() { panic(1) }"
	allow := exception{"panics", "internal/op/x.go", "for the test"}
	if got := breaches(t, "internal/op/x.go", text, allow); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := breaches(t, "internal/op/y.go", text, allow); len(got) != 2 { // the panic, and an exception without use
		t.Errorf("%v", got)
	}
	allow.rule = "clock"
	if got := breaches(t, "internal/op/x.go", text, allow); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

func TestLoad_takesWhatBelongsToTheModule(t *testing.T) {
	root := t.TempDir()
	for _, f := range []string{"a.go", "x/b.go", "x/tagged.go", "x/b_test.go", "x/testdata/c.go", ".git/d.go", "_old/e.go", "x/_f.go",
		"vendor/v/g.go", "nested/go.mod", "nested/h.go", "x/text.md"} {
		p := filepath.Join(root, filepath.FromSlash(f))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		text := "package p\n"
		if f == "x/tagged.go" {
			text = "//go:build never\n\npackage p\n"
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range files {
		got = append(got, s.dir+" "+s.path)
	}
	want := []string{". a.go", "x x/b.go", "x x/b_test.go", "x x/tagged.go"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
