package conformance

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Sessions is aggregations by sessions, with updates and with results on close.
func (features) Sessions(r *registry) {
	for _, run := range []struct {
		aggregation string
		grace       time.Duration
	}{{"count", 0}, {"sum", 15 * ms}, {"reduce", 7 * ms}, {"aggregate", 15 * ms}, {"aggregate", 0}} {
		w := window.Session(6 * ms).Grace(run.grace)
		name := fmt.Sprintf("session-%s-grace-%d", run.aggregation, run.grace.Milliseconds())
		r.stores(name, func(b *millrace.Builder, on storage) {
			sessionResults(b, run.aggregation, w, on(millrace.StoreName("results"), millrace.Retain(time.Hour)))
		})
		r.add(name+"-close", func(b *millrace.Builder) {
			sessionResults(b, run.aggregation, w, onDisk(millrace.StoreName("results"), millrace.Retain(time.Hour), millrace.EmitOnClose()))
		})
	}
	r.stores("session-regrouped", func(b *millrace.Builder, on storage) {
		byLetter := millrace.SelectKey(millrace.From(b, nullable("in")), firstLetter).
			GroupByKey(millrace.WithKey(serde.String), millrace.WithValue(serde.Nullable(serde.String)))
		first, _ := millrace.CountSessions(byLetter.SessionBy(window.Session(4*ms).Grace(5*ms)),
			on(millrace.StoreName("first"), millrace.Retain(time.Hour))...)
		again := millrace.Map(first.ToStream(), func(k window.Key[string], n int64) (string, string) {
			text := fmt.Sprint(n)
			if n == 0 { // a null: no session is empty
				text = "gone"
			}
			return fmt.Sprint(k.Key, k.Window.StartMs%3), text
		}).GroupByKey(millrace.RepartitionName("again"), millrace.WithKey(serde.String), millrace.WithValue(serde.String))
		second, _ := millrace.ReduceSessions(again.SessionBy(window.Session(8*ms).Grace(10*ms)),
			func(a, v string) string { return a + "," + v }, on(millrace.StoreName("second"), millrace.Retain(time.Hour))...)
		second.ToStream().To(sessions("out", serde.String))
	})
}

func firstLetter(_ string, v *string) string {
	if v == nil {
		return "none"
	}
	return (*v)[:1]
}

func sessions[V any](name string, value serde.Serde[V]) millrace.Topic[window.Key[string], V] {
	return millrace.NewTopic(name, serde.SessionWindowed(serde.String), value)
}

func sessionResults(b *millrace.Builder, aggregation string, w window.SessionWindows, opts []millrace.StepOption) {
	in := millrace.From(b, nullable("in")).GroupByKey().SessionBy(w)
	switch aggregation {
	case "count":
		t, _ := millrace.CountSessions(in, opts...)
		t.ToStream().To(sessions("out", serde.Int64))
	case "sum":
		t, _ := millrace.SumSessions(in, func(v *string) int64 {
			if v == nil {
				return 0
			}
			return int64(len(*v))
		}, serde.Int64, opts...)
		t.ToStream().To(sessions("out", serde.Int64))
	case "reduce":
		t, _ := millrace.ReduceSessions(in, func(a, v *string) *string {
			if v == nil {
				return nil
			}
			sum := *a + *v
			return &sum
		}, opts...)
		t.ToStream().To(sessions("out", serde.Nullable(serde.String)))
	case "aggregate":
		t, _ := millrace.AggregateSessions(in, func() *string { return new(string) }, func(_ string, v, a *string) *string {
			switch {
			case v == nil:
				*a += "~"
			case strings.HasPrefix(*v, "s"):
				return nil
			default:
				*a += (*v)[:1]
			}
			return a
		}, joinTexts, serde.Nullable(serde.String), opts...)
		t.ToStream().To(sessions("out", serde.Nullable(serde.String)))
	}
}

func joinTexts(_ string, a, b *string) *string {
	*a += "|" + *b
	return a
}
