package conformance

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Windows is aggregations by tumbling, hopping, sliding and unlimited windows, with updates and with results on close.
func (features) Windows(r *registry) {
	kinds := []struct {
		name string
		of   func(grace time.Duration) window.Windows
	}{
		{"tumbling", func(g time.Duration) window.Windows { return window.Tumbling(10 * ms).Grace(g) }},
		{"hopping", func(g time.Duration) window.Windows { return window.Hopping(20*ms, 5*ms).Grace(g) }},
		{"uneven", func(g time.Duration) window.Windows { return window.Hopping(10*ms, 4*ms).Grace(g) }},
		{"sliding", func(g time.Duration) window.Windows { return window.Sliding(10 * ms).Grace(g) }},
	}
	type run struct {
		aggregation string
		grace       time.Duration
	}
	for _, kind := range kinds {
		for _, u := range []run{{"count", 0}, {"sum", 15 * ms}, {"reduce", 7 * ms}, {"aggregate", 15 * ms}} {
			windowResults(r, "window-"+kind.name+"-"+u.aggregation, kind.of(u.grace), u.aggregation)
		}
		for _, c := range []run{{"count", 0}, {"reduce", 7 * ms}, {"aggregate", 15 * ms}} {
			windowResults(r, "window-"+kind.name+"-"+c.aggregation+"-close", kind.of(c.grace), c.aggregation,
				millrace.EmitOnClose(), millrace.Retain(time.Hour))
		}
	}
	unlimited := window.Unlimited().StartingAt(time.UnixMilli(30))
	windowResults(r, "window-unlimited-count", unlimited, "count")
	windowResults(r, "window-unlimited-aggregate", unlimited, "aggregate")
	windowResults(r, "window-sliding-wide", window.Sliding(60*ms).Grace(20*ms), "aggregate")

	r.stores("window-regrouped", func(b *millrace.Builder, on storage) {
		byLetter := millrace.SelectKey(millrace.From(b, nullable("in")), func(_ string, v *string) string {
			if v == nil {
				return "none"
			}
			return (*v)[:1]
		}).GroupByKey(millrace.WithKey(serde.String), millrace.WithValue(serde.Nullable(serde.String)))
		perWindow, _ := millrace.CountWindows(byLetter.WindowBy(window.Tumbling(10*ms).Grace(5*ms)),
			on(millrace.StoreName("first"))...)
		again := millrace.Map(perWindow.ToStream(), func(k window.Key[string], n int64) (string, string) {
			return fmt.Sprint(k.Key, k.Window.StartMs%3), fmt.Sprint(n)
		}).GroupByKey(millrace.RepartitionName("again"), millrace.WithKey(serde.String), millrace.WithValue(serde.String))
		out, _ := millrace.ReduceWindows(again.WindowBy(window.Sliding(30*ms).Grace(10*ms)),
			func(a, v string) string { return a + "," + v }, on(millrace.StoreName("second"))...)
		out.ToStream().To(windowed("out", 30*ms, serde.String))
	})

	r.add("window-names", func(b *millrace.Builder) {
		g := millrace.From(b, texts("in")).GroupByKey()
		auto := millrace.AutoName()
		first := func(a, _ string) string { return a }
		millrace.CountWindows(g.WindowBy(window.Sliding(10*ms)), auto)
		millrace.CountWindows(g.WindowBy(window.Sliding(10*ms)), millrace.StoreName("sliding-close"), millrace.EmitOnClose())
		millrace.CountWindows(g.WindowBy(window.Tumbling(10*ms)), auto, millrace.EmitOnClose())
		millrace.ReduceWindows(g.WindowBy(window.Tumbling(10*ms)), first, auto, millrace.EmitOnClose())
		millrace.CountWindows(g.WindowBy(window.Unlimited()), auto)
		millrace.AggregateWindows(g.WindowBy(window.Unlimited()), func() string { return "" },
			func(_, v, a string) string { return a + v }, serde.String, millrace.StoreName("unlimited"))
		millrace.ReduceWindows(g.WindowBy(window.Sliding(10*ms)), first, auto)
		byValue := millrace.GroupBy(millrace.From(b, texts("other")), func(_, v string) string { return v }, millrace.WithKey(serde.String))
		millrace.CountWindows(byValue.WindowBy(window.Sliding(time.Hour).Grace(5*ms)), auto)
	})
}

// windowResults registers one aggregation by windows, into the store results.
func windowResults(r *registry, name string, w window.Windows, aggregation string, more ...millrace.StepOption) {
	r.stores(name, func(b *millrace.Builder, on storage) {
		in := millrace.From(b, nullable("in")).GroupByKey().WindowBy(w)
		opts := on(append([]millrace.StepOption{millrace.StoreName("results")}, more...)...)
		switch aggregation {
		case "count":
			t, _ := millrace.CountWindows(in, opts...)
			t.ToStream().To(windowed("out", 0, serde.Int64))
		case "sum":
			t, _ := millrace.SumWindows(in, func(v *string) int64 {
				if v == nil {
					return 0
				}
				return int64(len(*v))
			}, serde.Int64, opts...)
			t.ToStream().To(windowed("out", 0, serde.Int64))
		case "reduce":
			t, _ := millrace.ReduceWindows(in, func(a, v *string) *string {
				if v == nil {
					return nil
				}
				sum := *a + *v
				return &sum
			}, opts...)
			t.ToStream().To(windowed("out", 0, serde.Nullable(serde.String)))
		case "aggregate":
			t, _ := millrace.AggregateWindows(in, func() *string { return new(string) }, func(_ string, v, a *string) *string {
				switch {
				case v == nil:
					*a += "~"
				case strings.HasPrefix(*v, "s"):
					return nil
				default:
					*a += (*v)[:1]
				}
				return a
			}, serde.Nullable(serde.String), opts...)
			t.ToStream().To(windowed("out", 0, serde.Nullable(serde.String)))
		}
	})
}
