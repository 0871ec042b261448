package conformance

import (
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

const ms = time.Millisecond

// texts is a topic of text.
func texts(name string) millrace.Topic[string, string] {
	return millrace.NewTopic(name, serde.String, serde.String)
}

// numbers is a topic of numbers by text.
func numbers(name string) millrace.Topic[string, int64] {
	return millrace.NewTopic(name, serde.String, serde.Int64)
}

// windowed is a topic with the keys of windows.
func windowed[V any](name string, size time.Duration, value serde.Serde[V]) millrace.Topic[window.Key[string], V] {
	return millrace.NewTopic(name, serde.Windowed(serde.String, size), value)
}

// Basic is one scenario for each basic kind of step.
func (features) Basic(r *registry) {
	r.add("filter-map", func(b *millrace.Builder) {
		kept := millrace.From(b, nullable("in")).Filter(func(_ string, v *string) bool { return v != nil && (*v)[0] != 'p' })
		millrace.MapValues(kept, func(v *string) string { return *v + "!" }).To(texts("out"))
	})

	r.stores("count", func(b *millrace.Builder, on storage) {
		millrace.Count(millrace.From(b, texts("in")).GroupByKey(), on(millrace.StoreName("counts"))...).
			ToStream().To(numbers("out"))
	})

	r.stores("count-tumbling", func(b *millrace.Builder, on storage) {
		w := millrace.From(b, texts("in")).GroupByKey().WindowBy(window.Tumbling(10 * ms).Grace(5 * ms))
		counts, _ := millrace.CountWindows(w, on(millrace.StoreName("counts"))...)
		counts.ToStream().To(windowed("out", 10*ms, serde.Int64))
	})

	r.stores("stream-table-join", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(millrace.StoreName("rows"))...)
		s := millrace.From(b, texts("s"))
		millrace.JoinTable(s, t, func(x, y string) string { return x + "/" + y }).To(texts("joined"))
		millrace.LeftJoinTable(s, t, func(x, y string, ok bool) string { return x + "/" + orNull(y, ok) }, millrace.As("left")).
			To(texts("left-joined"))
	})

	r.add("repartition", func(b *millrace.Builder) {
		s := millrace.SelectKey(millrace.From(b, nullable("in")), func(_ string, v *string) *string {
			if v == nil {
				return nil
			}
			first := (*v)[:1]
			return &first
		})
		s.Repartition(millrace.As("r"), millrace.WithKey(serde.Nullable(serde.String))).
			To(millrace.NewTopic("out", serde.Nullable(serde.String), serde.Nullable(serde.String)))
	})
}

// nullable is a topic of text that may be null.
func nullable(name string) millrace.Topic[string, *string] {
	return millrace.NewTopic(name, serde.String, serde.Nullable(serde.String))
}

// orNull is what Java makes of a missing side in a concatenation.
func orNull(v string, ok bool) string {
	if !ok {
		return "null"
	}
	return v
}
