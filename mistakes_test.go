package millrace_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// What a declaration shows to be wrong is an error of Build with file and line: nothing is left out in silence, and nothing waits
// for the first record.
func TestMistakesOfDeclarations(t *testing.T) {
	in := millrace.NewTopic("in", serde.String, serde.String)
	other := millrace.NewTopic("other", serde.String, serde.String)
	stream := func(b *millrace.Builder) millrace.Stream[string, string] { return millrace.From(b, in) }
	group := func(b *millrace.Builder) millrace.Grouped[string, string] { return stream(b).GroupByKey() }
	join := func(l, _ string) string { return l }
	uses := func(b *millrace.Builder, o millrace.StepOption) {
		millrace.Process(stream(b), func() passThrough { return passThrough{} }, millrace.As("p"), o)
	}
	as, us, hour := millrace.As("x"), time.Microsecond, time.Hour
	var noStore *millrace.KeyValueStore[string, string]
	for _, c := range []struct {
		name, want string
		declare    func(b *millrace.Builder)
	}{
		{"windows kept too short", "retention 60000ms is shorter than size 1h0m0s", func(b *millrace.Builder) {
			millrace.CountWindows(group(b).WindowBy(window.Tumbling(hour)), as, millrace.Retain(time.Minute))
		}},
		{"windows kept for no time", "CountWindows: Retain is given 0s", func(b *millrace.Builder) {
			millrace.CountWindows(group(b).WindowBy(window.Tumbling(hour)), as, millrace.Retain(0))
		}},
		{"windows kept for a part of a millisecond", "Retain takes whole milliseconds", func(b *millrace.Builder) {
			millrace.CountWindows(group(b).WindowBy(window.Tumbling(hour)), as, millrace.Retain(hour+us))
		}},
		{"an unlimited window kept for a time", "kept for ever; leave the retention out", func(b *millrace.Builder) {
			millrace.CountWindows(group(b).WindowBy(window.Unlimited()), as, millrace.Retain(hour))
		}},
		{"sessions kept too short", "less than inactivity gap 3600000 ms", func(b *millrace.Builder) {
			millrace.CountSessions(group(b).SessionBy(window.Session(hour)), as, millrace.Retain(time.Minute))
		}},
		{"sessions kept for less than nothing", "CountSessions: Retain is given -1m0s", func(b *millrace.Builder) {
			millrace.CountSessions(group(b).SessionBy(window.Session(hour)), as, millrace.Retain(-time.Minute))
		}},
		{"join records kept for less than nothing", "JoinStreams: Retain is given -1m0s", func(b *millrace.Builder) {
			millrace.JoinStreams(stream(b), millrace.From(b, other), window.Within(hour), join, as, millrace.Retain(-time.Minute))
		}},
		{"join records kept too short", "shorter than before 1h0m0s plus after 1h0m0s", func(b *millrace.Builder) {
			millrace.JoinStreams(stream(b), millrace.From(b, other), window.Within(hour), join, as, millrace.Retain(hour))
		}},
		{"results of a cogroup on close", "Aggregate has no use for the option EmitOnClose", func(b *millrace.Builder) {
			c := millrace.Cogroup(group(b), func(_, _, a string) string { return a })
			c.SessionBy(window.Session(hour)).Aggregate(func() string { return "" }, func(_, a, _ string) string { return a }, serde.String, as, millrace.EmitOnClose())
		}},
		{"a cogroup of two builders", "AndCogroup: the streams come from different builders", func(b *millrace.Builder) {
			add := func(_, _, a string) string { return a }
			millrace.AndCogroup(millrace.Cogroup(group(b), add), group(millrace.NewBuilder()), add)
		}},
		{"a name twice", "Count: As is given twice", func(b *millrace.Builder) {
			millrace.Count(group(b), as, millrace.As("y"))
		}},
		{"two starts", "From: StartEarliest and StartBack contradict each other", func(b *millrace.Builder) {
			millrace.From(b, in, millrace.StartEarliest(), millrace.StartBack(hour))
		}},
		{"a longer cogroup that is not used", "AndCogroup: the longer cogroup that it returns is not used", func(b *millrace.Builder) {
			add := func(_, _, a string) string { return a }
			c := millrace.Cogroup(group(b), add)
			millrace.AndCogroup(c, millrace.From(b, other).GroupByKey(), add)
			c.Aggregate(func() string { return "" }, serde.String, as)
		}},
		{"a name with a blank", `Count: the name "a b" has the character ' '`, func(b *millrace.Builder) {
			millrace.Count(group(b), millrace.As("a b"))
		}},
		{"windows with a negative grace", "CountWindows: window: grace -1s", func(b *millrace.Builder) {
			millrace.CountWindows(group(b).WindowBy(window.Tumbling(hour).Grace(-time.Second)), as)
		}},
		{"values of a type without a serde", "Reduce does not know the serde of the value (WithValue), which the store x needs", func(b *millrace.Builder) {
			millrace.MapValues(stream(b), func(v string) int { return len(v) }).GroupByKey().Reduce(func(a, _ int) int { return a }, as)
		}},
		{"a store without serdes", "the store st needs serdes for keys and values", func(b *millrace.Builder) {
			uses(b, millrace.WithStores(millrace.NewKeyValueStore[string, string]("st", nil, serde.String)))
		}},
		{"a store with an option of steps", "store st: a key-value store has no use for the option Retain", func(b *millrace.Builder) {
			uses(b, millrace.WithStores(millrace.NewKeyValueStore("st", serde.String, serde.String, millrace.Retain(hour))))
		}},
		{"a key-value store with versions", "store st: a key-value store has no use for the option Versioned", func(b *millrace.Builder) {
			uses(b, millrace.WithStores(millrace.NewKeyValueStore("st", serde.String, serde.String, millrace.Versioned(hour))))
		}},
		{"a window store that keeps less than a window", `store "st" keeps its windows for 60000 ms`, func(b *millrace.Builder) {
			uses(b, millrace.WithStores(millrace.NewWindowStore("st", hour, time.Minute, serde.String, serde.String)))
		}},
		{"a window store with parts of a millisecond", "store st: the size of windows takes whole milliseconds", func(b *millrace.Builder) {
			uses(b, millrace.WithStores(millrace.NewWindowStore("st", us, hour, serde.String, serde.String)))
		}},
		{"a session store that keeps nothing", `store "st" has a negative retention`, func(b *millrace.Builder) {
			uses(b, millrace.WithStores(millrace.NewSessionStore("st", -hour, serde.String, serde.String)))
		}},
		{"a versioned store with parts of a millisecond", "store st: the history takes whole milliseconds", func(b *millrace.Builder) {
			uses(b, millrace.WithStores(millrace.NewVersionedStore("st", us, serde.String, serde.String)))
		}},
		{"a versioned table with parts of a millisecond", "store x takes whole milliseconds", func(b *millrace.Builder) {
			millrace.TableFrom(b, in, as, millrace.Versioned(us))
		}},
		{"a versioned table with less than no history", "negative history retention", func(b *millrace.Builder) {
			millrace.TableFrom(b, in, as, millrace.Versioned(-hour))
		}},
		{"versions of a processed table without a name", "ProcessTableValues makes a versioned store, which needs a name", func(b *millrace.Builder) {
			millrace.ProcessTableValues(millrace.TableFrom(b, in, as), func() *sameValues { return new(sameValues) }, millrace.Versioned(hour))
		}},
		{"no store", "WithStores is given a nil store", func(b *millrace.Builder) { uses(b, millrace.WithStores(nil)) }},
		{"no store of a type", "WithStores is given a nil store", func(b *millrace.Builder) { uses(b, millrace.WithStores(noStore)) }},
		{"settings of a log that is not there", "LogConfig has no use beside WithoutLog", func(b *millrace.Builder) {
			millrace.Count(group(b), as, millrace.WithoutLog(), millrace.LogConfig(map[string]string{"retention.ms": "1"}))
		}},
		{"settings of the log of a read-only store", "leave out LogConfig and WithoutLog", func(b *millrace.Builder) {
			stream(b)
			millrace.AddReadOnlyStore(b, other, millrace.NewKeyValueStore("st", serde.String, serde.String, millrace.WithoutLog()))
		}},
		{"a read-only store that is never idle", "AddReadOnlyStore: an idle timeout of 0s", func(b *millrace.Builder) {
			stream(b)
			millrace.AddReadOnlyStore(b, other, millrace.NewKeyValueStore("st", serde.String, serde.String), millrace.IdleTimeout(0))
		}},
		{"the serde of a table's topic", "TableFrom has no use for the option WithValue", func(b *millrace.Builder) {
			millrace.TableFrom(b, in, as, millrace.WithValue(serde.String))
		}},
		{"no partitions", "Partitions is given 0", func(b *millrace.Builder) { stream(b).Repartition(as, millrace.Partitions(0)).To(other) }},
		{"too many partitions", "a topic has at least one, and at most 2147483647", func(b *millrace.Builder) {
			stream(b).Repartition(as, millrace.Partitions(1<<33)).To(other)
		}},
		{"no extractor", "From is given a nil function", func(b *millrace.Builder) {
			millrace.From(b, in, millrace.Timestamps[string, string](nil))
		}},
		{"no writer", "Print is given no writer", func(b *millrace.Builder) { stream(b).Print(nil, "label") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := millrace.NewBuilder()
			c.declare(b)
			_, err := b.Build()
			var mistake *millrace.BuildError
			if !errors.As(err, &mistake) {
				t.Fatalf("Build returned %v, want a BuildError", err)
			}
			if !strings.Contains(err.Error(), c.want) || mistake.Line == 0 || !strings.HasSuffix(mistake.File, "mistakes_test.go") {
				t.Errorf("Build returned %v (%s:%d), want %q with file and line", err, mistake.File, mistake.Line, c.want)
			}
			if strings.Count(err.Error(), "\n") != 1 {
				t.Errorf("Build returned %v: one mistake is one error", err)
			}
		})
	}
	t.Run("nothing wrong", func(t *testing.T) {
		b := millrace.NewBuilder()
		stream(b).Print(os.Stderr, "label")
		uses(b, millrace.WithStores(
			millrace.NewWindowStore("w", hour, hour, serde.String, serde.String, millrace.KeepHeaders()),
			millrace.NewVersionedStore("v", 0, serde.String, serde.String, millrace.InMemory(), millrace.WithoutLog()),
			millrace.NewSessionStore("s", hour, serde.String, serde.String, millrace.LogConfig(map[string]string{"retention.ms": "-1"})),
		))
		if _, err := b.Build(); err != nil {
			t.Error(err)
		}
	})
}

// sameValues leaves a table as it is.
type sameValues struct{}

func (*sameValues) Init(processor.TableContext) error { return nil }
func (*sameValues) Value(_, v string, ok bool) (string, bool, error) {
	return v, ok, nil
}
func (*sameValues) Close() error { return nil }
