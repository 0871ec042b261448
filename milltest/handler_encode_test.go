package milltest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// picky is a serde of texts that refuses some of them, as JSON refuses a number that is none.
type picky struct{}

func (picky) Append(dst []byte, v string) ([]byte, error) {
	if strings.HasSuffix(v, "!") {
		return dst, errors.New("no exclamations")
	}
	return append(dst, v...), nil
}

func (picky) Decode(b []byte) (string, error) { return string(b), nil }

func passOver(processor.Failure) processor.Response {
	return processor.Response{Action: processor.Continue}
}

// A result that does not encode is a failure of the record that led to it, in each step that keeps results, whether they wait in a
// cache or not: the handler may pass over it, and the result that stood before stays.
func TestHandler_resultThatDoesNotEncode(t *testing.T) {
	init := func() string { return "" }
	add := func(_, v, a string) string { return a + v }
	merge := func(_, a, b string) string { return a + b }
	windowed := func(w window.Windows, opts ...millrace.StepOption) func(stream) stream {
		return func(in stream) stream {
			t, _ := millrace.AggregateWindows(in.GroupByKey(textKey, textValue).WindowBy(w), init, add, picky{}, append(opts, millrace.As("s"))...)
			return millrace.SelectKey(t.ToStream(), func(k window.Key[string], _ string) string { return k.Key })
		}
	}
	sessions := func(opts ...millrace.StepOption) func(stream) stream {
		return func(in stream) stream {
			t, _ := millrace.AggregateSessions(in.GroupByKey(textKey, textValue).SessionBy(window.Session(5*ms)), init, add, merge, picky{}, append(opts, millrace.As("s"))...)
			return millrace.SelectKey(t.ToStream(), func(k window.Key[string], _ string) string { return k.Key })
		}
	}
	table := func(in stream) millrace.Table[string, string] {
		return in.ToTable(millrace.As("rows"), textKey, textValue)
	}
	checked := millrace.WithValue[string](picky{})
	for _, c := range []struct {
		name, last string // the last value of the key a
		drops      int64
		step       func(in stream) stream
	}{
		{"aggregate", "acd", 2, func(in stream) stream {
			return millrace.Aggregate(in.GroupByKey(textKey, textValue), init, add, picky{}, millrace.As("s")).ToStream()
		}},
		{"reduce", "acd", 2, func(in stream) stream {
			return in.GroupByKey(textKey, checked).Reduce(func(a, v string) string { return a + v }, millrace.As("s")).ToStream()
		}},
		{"tumbling", "acd", 2, windowed(window.Tumbling(10 * ms))},
		{"tumbling, on close", "acd", 2, windowed(window.Tumbling(10*ms), millrace.EmitOnClose())},
		{"sliding", "d", 3, windowed(window.Sliding(10 * ms).Grace(20 * ms))},
		{"sessions", "acd", 2, sessions()},
		{"sessions, on close", "acd", 2, sessions(millrace.EmitOnClose())},
		{"table", "d", 2, func(in stream) stream { return in.ToTable(millrace.As("s"), textKey, checked).ToStream() }},
		{"derived table", "d", 2, func(in stream) stream {
			return millrace.MapTableValues(table(in), func(v string) string { return v }, millrace.As("s"), textKey, checked).ToStream()
		}},
		{"joined table", "d+d", 4, func(in stream) stream {
			t := table(in)
			other := millrace.MapTableValues(t, func(v string) string { return v })
			return millrace.JoinTables(t, other, func(l, r string) string { return l + "+" + r }, millrace.As("s"), textKey, checked).ToStream()
		}},
	} {
		for _, cacheBytes := range []int64{0, 1 << 20} {
			t.Run(fmt.Sprintf("%s, cache of %d", c.name, cacheBytes), func(t *testing.T) {
				b := millrace.NewBuilder()
				c.step(millrace.From(b, strTopic)).To(topicNamed("out"))
				d := milltest.New(t, build(t, b), milltest.CacheBytes(cacheBytes), milltest.OnProcessingError(passOver))
				for i, r := range []string{"a=a", "a=b!", "a=c", "b=x!", "a=d"} {
					pipe(t, d, "in", fmt.Sprintf("%s@%d", r, i+10))
				}
				dropped := d.Dropped("s", millrace.DroppedProcessing) + d.Dropped("s-merge", millrace.DroppedProcessing)
				pipe(t, d, "in", "z=z@1000")
				last := make(map[string]string)
				for _, r := range milltest.Output(d, millrace.NewTopic("out", serde.String, serde.String)).ReadAll() {
					if !r.NullValue {
						last[r.Key] = max(last[r.Key], r.Value)
					}
				}
				if last["a"] != c.last || last["b"] != "" {
					t.Errorf("results: %v, want a=%s", last, c.last)
				}
				if dropped != c.drops {
					t.Errorf("%d dropped, want %d", dropped, c.drops)
				}
			})
		}
	}
}
