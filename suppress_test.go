package millrace_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// What the declaration shows to be wrong is told at build time, with file and line.
func TestSuppress_buildErrors(t *testing.T) {
	limit := func(d time.Duration, b millrace.Buffer) func(*millrace.Builder) {
		return func(b2 *millrace.Builder) {
			tableOf(b2, "in", millrace.As("rows")).Suppress(millrace.UntilTimeLimit(d, b), millrace.As("s"))
		}
	}
	closes := func(b millrace.Buffer) func(*millrace.Builder) {
		return func(b2 *millrace.Builder) {
			counts, _ := millrace.CountWindows(windowed(from(b2, "in")), millrace.As("c"))
			counts.Suppress(millrace.UntilWindowCloses(b), millrace.As("s"))
		}
	}
	for _, c := range []struct {
		name    string
		declare func(*millrace.Builder)
		want    string
	}{
		{"plain table", func(b *millrace.Builder) {
			tableOf(b, "in", millrace.As("rows")).Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("s"))
		}, "keys have windows"},
		{"windowed keys without a windowed step", func(b *millrace.Builder) {
			rows := millrace.NewTopic("in", serde.Windowed(serde.String, time.Minute), serde.String)
			millrace.TableFrom(b, rows, millrace.As("rows")).Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("s"))
		}, "no windowed aggregation stands before rows-source -> rows"},
		{"a window without an end", func(b *millrace.Builder) {
			counts, _ := millrace.CountWindows(from(b, "in").GroupByKey().WindowBy(window.Unlimited()), millrace.As("c"))
			counts.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("s"))
		}, "an unlimited window never closes"},
		{"no name", func(b *millrace.Builder) {
			tableOf(b, "in", millrace.As("rows")).Suppress(millrace.UntilTimeLimit(time.Second, millrace.Unbounded()))
		}, "needs a name"},
		{"no name of the table before", func(b *millrace.Builder) {
			tableOf(b, "in").Suppress(millrace.UntilTimeLimit(time.Second, millrace.Unbounded()), millrace.As("s"))
		}, "Suppress needs the rows of the table of TableFrom"},
		{"no serde", func(b *millrace.Builder) {
			millrace.MapTableValues(tableOf(b, "in", millrace.As("rows")), same).Suppress(millrace.UntilTimeLimit(time.Second, millrace.Unbounded()), millrace.As("s"))
		}, "does not know the serde of the value (WithValue)"},
		{"no suppression", func(b *millrace.Builder) {
			tableOf(b, "in", millrace.As("rows")).Suppress(millrace.Suppression{}, millrace.As("s"))
		}, "say for how long"},
		{"an option without use", func(b *millrace.Builder) {
			tableOf(b, "in", millrace.As("rows")).Suppress(millrace.UntilTimeLimit(time.Second, millrace.Unbounded()), millrace.As("s"), millrace.WithoutCache())
		}, "no use for the option WithoutCache"},
		{"no buffer", limit(time.Second, millrace.Buffer{}), "needs a buffer"},
		{"negative time", limit(-time.Second, millrace.Unbounded()), "negative time, -1s"},
		{"below a millisecond", limit(time.Microsecond, millrace.Unbounded()), "whole milliseconds"},
		{"negative bound", limit(time.Second, millrace.MaxRecords(-1)), "MaxRecords(-1) has a negative bound"},
		{"negative bytes", limit(time.Second, millrace.MaxRecords(1).AndMaxBytes(-1)), "MaxRecords(1).MaxBytes(-1) has a negative bound"},
		{"two policies", limit(time.Second, millrace.MaxRecords(1).EmitEarlyWhenFull().FailWhenFull()), "to emit early and to fail"},
		{"bounded and not", limit(time.Second, millrace.Unbounded().AndMaxRecords(1)), "both bounded and not"},
		{"never full", limit(time.Second, millrace.Unbounded().FailWhenFull()), "never full"},
		{"no room for a row", limit(time.Second, millrace.MaxRecords(0).FailWhenFull()), "holds no row"},
		{"no room for the bytes of a row", limit(time.Second, millrace.MaxBytes(27).FailWhenFull()), "too small for any row"},
		{"final without a policy", closes(millrace.MaxRecords(1)), "before it is final"},
		{"final that emits early", closes(millrace.MaxBytes(1).EmitEarlyWhenFull()), "before it is final"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := millrace.NewBuilder()
			c.declare(b)
			_, err := b.Build()
			var mistake *millrace.BuildError
			if !errors.As(err, &mistake) {
				t.Fatalf("Build returned %v, want a BuildError", err)
			}
			if !strings.Contains(err.Error(), c.want) || mistake.Line == 0 {
				t.Errorf("the error is %q at line %d, want %q with its line", err, mistake.Line, c.want)
			}
		})
	}
	for name, declare := range map[string]func(*millrace.Builder){
		"final, failing": closes(millrace.MaxRecords(1).FailWhenFull()),
		"limit, early":   limit(0, millrace.MaxBytes(0)),
		"final behind other steps": func(b *millrace.Builder) {
			w := from(b, "in").GroupByKey().WindowBy(window.Tumbling(time.Minute).Grace(time.Minute))
			counts, _ := millrace.CountWindows(w, millrace.As("c"))
			kept := millrace.MapTableValues(counts.Filter(func(windowKey, int64) bool { return true }), func(n int64) int64 { return -n }, millrace.WithValue[int64](serde.Int64))
			again := kept.ToStream().Repartition(millrace.As("r"), millrace.WithValue[int64](serde.Int64)).ToTable(millrace.As("again"), millrace.WithValue[int64](serde.Int64))
			again.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("s"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := millrace.NewBuilder()
			declare(b)
			if _, err := b.Build(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What a join with a grace period asks of its table is told at build time.
func TestJoinGrace_buildErrors(t *testing.T) {
	versioned := func(history time.Duration) millrace.StepOption { return millrace.Versioned(history) }
	for _, c := range []struct {
		name  string
		table []millrace.StepOption
		join  []millrace.StepOption
		want  string
	}{
		{"plain table", nil, []millrace.StepOption{millrace.As("j"), millrace.JoinGrace(time.Second)}, "needs a versioned table"},
		{"short history", []millrace.StepOption{versioned(time.Second)}, []millrace.StepOption{millrace.As("j"), millrace.JoinGrace(2 * time.Second)}, "a history of 1s, which is less than the grace period of 2s"},
		{"negative", []millrace.StepOption{versioned(time.Second)}, []millrace.StepOption{millrace.As("j"), millrace.JoinGrace(-time.Second)}, "negative time"},
		{"no name", []millrace.StepOption{versioned(time.Second)}, []millrace.StepOption{millrace.JoinGrace(time.Second)}, "needs a name"},
		{"store options without it", nil, []millrace.StepOption{millrace.As("j"), millrace.InMemory()}, "unless JoinGrace is given"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := millrace.NewBuilder()
			joinedWith(from(b, "s"), tableOf(b, "t", append(c.table, millrace.As("rows"))...), c.join...)
			_, err := b.Build()
			var mistake *millrace.BuildError
			if !errors.As(err, &mistake) || !strings.Contains(err.Error(), c.want) || mistake.Line == 0 {
				t.Errorf("Build returned %v, want a BuildError with %q", err, c.want)
			}
		})
	}
}
