package millrace_test

import (
	"context"
	"slices"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/metrics"
	"github.com/millrace-io/millrace/internal/op"
	"github.com/millrace-io/millrace/internal/topology"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
)

// counted takes what comes out of a chain of steps.
type counted[K, V any] struct{ n int }

func (c *counted[K, V]) Process(*processor.Record[K, V]) error {
	c.n++
	return nil
}

// chain wires the steps of a topology behind its one source, with end in the place of each sink, as a task does.
func chain[K, V any](tb testing.TB, declare func(b *millrace.Builder), end any) op.Sink[K, V] {
	tb.Helper()
	b := millrace.NewBuilder()
	declare(b)
	built, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	env := &op.Env{
		Ctx: context.Background(), Metrics: metrics.New(), NowMs: func() int64 { return 0 },
		Partitions: func(string) (int32, error) { return 1, nil }, TopicName: func(s string) string { return s },
	}
	made := make(map[*topology.Node]any)
	sub := built.Internal().Subtopologies()[0]
	for _, n := range slices.Backward(sub.Nodes) {
		if n.Kind == topology.SinkNode {
			made[n] = end
			continue
		}
		var children []op.Child
		for _, c := range n.Children {
			children = append(children, op.Child{Step: c.Name, Sink: made[c]})
		}
		if n.Kind == topology.SourceNode {
			first, err := op.Downstream[K, V](n.Name, children)
			if err != nil {
				tb.Fatal(err)
			}
			if err := env.Init(); err != nil {
				tb.Fatal(err)
			}
			return first
		}
		if made[n], err = n.Op.(op.Factory).Build(env, n.Name, children); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Fatal("there is no source")
	return nil
}

// hops are the stateless steps, each once behind a source.
var hops = map[string]func(s text) text{
	"Filter":    func(s text) text { return s.Filter(func(_, v string) bool { return len(v) > 0 }) },
	"FilterNot": func(s text) text { return s.FilterNot(func(_, v string) bool { return len(v) == 0 }) },
	"TryFilter": func(s text) text {
		return s.TryFilter(func(context.Context, string, string) (bool, error) { return true, nil })
	},
	"MapValues":        func(s text) text { return millrace.MapValues(s, same) },
	"MapValuesWithKey": func(s text) text { return millrace.MapValuesWithKey(s, byValue) },
	"Map":              func(s text) text { return millrace.Map(s, swap) },
	"SelectKey":        func(s text) text { return millrace.SelectKey(s, byValue) },
	"FlatMap":          func(s text) text { return millrace.FlatMap(s, each) },
	"FlatMapValues":    func(s text) text { return millrace.FlatMapValues(s, once) },
	"Peek":             func(s text) text { return s.Peek(pass) },
	"Merge":            func(s text) text { return s.Merge(s.Filter(func(string, string) bool { return false })) },
	"Process":          func(s text) text { return millrace.Process(s, newForwarder) },
	"ProcessValues":    func(s text) text { return millrace.ProcessValues(s, newValueForwarder) },
	"ToStream":         func(s text) text { return s.ToTable().ToStream() },
	"Branch": func(s text) text {
		split := s.Split()
		split.Branch(func(_, v string) bool { return len(v) > 100 })
		out := split.Branch(func(_, v string) bool { return len(v) > 0 })
		split.NoDefault()
		return out
	},
}

func TestHop_allocatesNothing(t *testing.T) {
	r := &processor.Record[string, string]{Key: "key", Value: "value", TimestampMs: 1, Headers: serde.Headers{{Key: "h"}}}
	for _, name := range sorted(hops) {
		end := &counted[string, string]{}
		first := chain[string, string](t, func(b *millrace.Builder) { to(hops[name](from(b, "in")), "out") }, end)
		if n := testing.AllocsPerRun(200, func() {
			if err := first.Process(r); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times for each record", name, n)
		}
		if end.n != 201 {
			t.Errorf("%s: %d records came out, want 201", name, end.n)
		}
	}
	// All of them one behind the other, three times side by side.
	end := &counted[string, string]{}
	first := chain[string, string](t, func(b *millrace.Builder) {
		s := from(b, "in")
		for _, out := range []string{"a", "b", "c"} {
			to(allHops(s), out)
		}
	}, end)
	if n := testing.AllocsPerRun(200, func() {
		if err := first.Process(r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 || end.n != 3*201 {
		t.Errorf("all steps: %v allocations for each record, %d records came out, want %d", n, end.n, 3*201)
	}
}

func allHops(s text) text {
	s = hops["ToStream"](s) // while the key is as it was
	for _, name := range sorted(hops) {
		if name != "ToStream" {
			s = hops[name](s)
		}
	}
	return s
}

// BenchmarkHop measures a chain of 20 stateless steps; ns/hop is the cost of one. The bar is 50 ns.
func BenchmarkHop(b *testing.B) {
	mixed := func(s text) text {
		for range 4 {
			s = s.Filter(func(_, v string) bool { return len(v) > 0 })
			s = millrace.MapValues(s, same)
			s = s.Peek(pass)
			s = hops["Branch"](s)
			s = millrace.SelectKey(s, byValue)
		}
		return s
	}
	b.Run("mixed", func(b *testing.B) { benchmarkHops(b, 20, mixed) })
	for _, name := range sorted(hops) {
		b.Run(name, func(b *testing.B) {
			benchmarkHops(b, 20, func(s text) text {
				for range 20 {
					s = hops[name](s)
				}
				return s
			})
		})
	}
}

func benchmarkHops(b *testing.B, n int, declare func(text) text) {
	end := &counted[string, string]{}
	first := chain[string, string](b, func(builder *millrace.Builder) { to(declare(from(builder, "in")), "out") }, end)
	r := &processor.Record[string, string]{Key: "key", Value: "value", TimestampMs: 1}
	b.ReportAllocs()
	for b.Loop() {
		if err := first.Process(r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/hop")
}
