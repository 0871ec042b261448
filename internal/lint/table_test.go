package lint

// The table of this file is the twin of the one in docs/internals.md. All paths are relative to the module, "." is its root,
// and each stands for the packages below it too, unless those have a line of their own.

const modulePath = "github.com/millrace-io/millrace"

// levels holds each package's level. A package imports packages of lower levels only, those in its own part of the table
// ("internal/broker" and "internal/broker/kgoclient"), and what sameLevel lists. To add a package, put it on the lowest
// level above all that it imports.
var levels = []struct {
	level int
	paths []string
}{
	{0, []string{"serde", "window", "internal/codec", "internal/clock", "internal/nilness", "internal/millis"}},
	{1, []string{"processor", "store", "internal/broker", "internal/config", "internal/metrics"}},
	{2, []string{"internal/topology", "internal/op", "internal/state", "internal/assign", "internal/cache", "internal/connect"}},
	{3, []string{"internal/task", "internal/restore", "internal/txn", "internal/reset"}},
	{4, []string{"internal/runtime"}},
	{5, []string{"."}},
	{6, []string{"milltest", "query", "cep", "sql", "sink", "metrics", "dash", "internal/demo", "internal/devbroker"}},
	{7, []string{"cmd", "internal/cli", "examples"}},
}

// sameLevel holds the imports that are allowed within a level, from the first to the second.
var sameLevel = [][2]string{
	{"serde", "window"},
	{"window", "internal/millis"},
	{"serde", "internal/codec"},
	{"serde", "internal/nilness"},
	{"processor", "store"},
	{"internal/metrics", "processor"},
	{"internal/cache", "internal/state"},
	{"internal/op", "internal/cache"},
	{"internal/op", "internal/state"},
	{"internal/demo", "internal/devbroker"},
	{"cmd", "internal/cli"},
	{"dash", "metrics"},
	{"dash", "query"},
}

// beside holds packages that stand beside the levels: they import what they like, and nobody but tests and each other
// imports them.
var beside = []string{"internal/sim", "internal/lint", "conformance", "bench", "test"}

// publicOnly holds packages that are written on the public API, as a user's would be, and import nothing internal. What
// they lack is missing from the API and is added there.
var publicOnly = []string{"cep", "sql", "sink"}

// importers names who, apart from tests, may import what a path prefix stands for.
var importers = []struct {
	prefix string
	by     []string
	why    string
}{
	{"github.com/twmb/franz-go",
		[]string{"internal/broker/kgoclient", "internal/demo", "internal/devbroker", "internal/cli", "cmd", "bench", "test"},
		"the engine talks to Kafka through internal/broker"},
	{"github.com/cockroachdb/pebble",
		[]string{"internal/state"},
		"the engine talks to Pebble through internal/state"},
	{modulePath + "/internal/broker/brokertest",
		[]string{"milltest", "internal/sim", "conformance", "bench", "test"},
		"a fake does not belong into a program"},
}

// commandLike holds what is a program, or a part of one, and not of the engine.
var commandLike = []string{"cmd", "internal/cli", "examples", "bench", "test", "conformance", "internal/demo", "internal/devbroker"}

// testTools holds what only tests run. A tool used wrongly may panic, where its user would call t.Fatal.
var testTools = []string{"milltest", "internal/broker/brokertest"}

// goroutines holds, beside what is command-like, the packages that own goroutines. Everything else is stepped by its
// caller, so that a test runs it in any order and replays it exactly. The test driver runs tasks side by side on demand, to
// show the race detector what they share.
var goroutines = []string{"internal/runtime", "internal/broker/kgoclient", "internal/broker/brokertest", "milltest"}

// wallClock holds, beside what is command-like, the readers of the wall clock.
var wallClock = []string{"internal/clock"}

// networkWaits holds what pauses between two requests over a network. It may wait by the timers of package time, since no
// test can move the time of a network, but not read the time, and not sleep, which nothing could interrupt.
var networkWaits = []string{"internal/broker/kgoclient", "internal/config"}

// emptyNames are names that say nothing of what a package holds.
var emptyNames = []string{"util", "utils", "common", "types", "manager", "managers", "helper", "helpers", "misc", "shared", "lib"}

// exceptions lets one file break one rule. Each needs a reason, and goes when the breach has gone.
var exceptions = []exception{}

type exception struct {
	rule string // the name of the rule: imports, goroutines, clock, names, panics
	file string // relative to the module
	why  string
}
