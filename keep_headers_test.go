package millrace_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// passThrough is a processor that does nothing.
type passThrough struct{}

func (passThrough) Init(processor.Context[string, string]) error   { return nil }
func (passThrough) Process(processor.Record[string, string]) error { return nil }
func (passThrough) Close() error                                   { return nil }

// KeepHeaders where it makes no sense is a mistake of the declaration.
func TestKeepHeaders_mistakes(t *testing.T) {
	in := millrace.NewTopic("in", serde.String, serde.String)
	other := millrace.NewTopic("other", serde.String, serde.String)
	keep := millrace.KeepHeaders()
	for name, c := range map[string]struct {
		declare func(b *millrace.Builder)
		want    string
	}{
		"versioned table": {func(b *millrace.Builder) {
			millrace.TableFrom(b, in, millrace.As("t"), keep, millrace.Versioned(time.Hour))
		}, "TableFrom: a versioned store keeps no headers"},
		"versioned store": {func(b *millrace.Builder) {
			d := millrace.NewVersionedStore("v", time.Hour, serde.String, serde.String, keep)
			millrace.Process(millrace.From(b, in), func() passThrough { return passThrough{} }, millrace.As("p"), millrace.WithStores(d))
		}, "Process: store v: a versioned store keeps no headers"},
		"a table without a name": {func(b *millrace.Builder) { millrace.TableFrom(b, in, keep) }, "a store that keeps headers, which needs a name"},
		"a filter without a name": {func(b *millrace.Builder) {
			millrace.TableFrom(b, in).Filter(func(string, string) bool { return true }, keep)
		}, "Filter has no store that could keep headers unless it is named"},
		"a join without a name": {func(b *millrace.Builder) {
			l, r := millrace.TableFrom(b, in, millrace.As("l")), millrace.TableFrom(b, other, millrace.As("r"))
			millrace.JoinTables(l, r, func(l, _ string) string { return l }, keep)
		}, "JoinTables has no store that could keep headers unless it is named"},
		"a step without a store": {func(b *millrace.Builder) {
			millrace.MapValues(millrace.From(b, in), func(v string) string { return v }, keep)
		}, "MapValues has no use for the option KeepHeaders"},
		"a global table": {func(b *millrace.Builder) {
			millrace.GlobalTableFrom(b, in, millrace.As("g"), keep)
		}, "GlobalTableFrom has no use for the option KeepHeaders"},
	} {
		t.Run(name, func(t *testing.T) {
			b := millrace.NewBuilder()
			c.declare(b)
			_, err := b.Build()
			var mistake *millrace.BuildError
			if !errors.As(err, &mistake) || !strings.Contains(err.Error(), c.want) || mistake.Line == 0 {
				t.Errorf("Build returned %v, want %q with file and line", err, c.want)
			}
		})
	}
}
