package conformance

import (
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Cogroups is cogroups of two and three streams: plain, by windows, by sessions, behind repartition topics.
func (features) Cogroups(r *registry) {
	mark := func(topic string) func(_ string, v, a *string) *string {
		return func(_ string, v, a *string) *string {
			switch {
			case v == nil:
				*a += topic + "~"
			case strings.HasPrefix(*v, "s"):
				return nil
			default:
				*a += topic + (*v)[:1]
			}
			return a
		}
	}
	zero := func() *string {
		s := "0"
		return &s
	}
	two := func(b *millrace.Builder) millrace.Cogrouped[string, *string] {
		x, y := millrace.From(b, nullable("x")).GroupByKey(), millrace.From(b, nullable("y")).GroupByKey()
		return millrace.AndCogroup(millrace.Cogroup(x, mark("x")), y, mark("y"))
	}
	text := serde.Nullable(serde.String)
	results, long := millrace.StoreName("results"), millrace.Retain(time.Hour)
	r.stores("cogroup-plain", func(b *millrace.Builder, on storage) {
		two(b).Aggregate(zero, text, on(results)...).ToStream().To(nullable("out"))
	})
	r.stores("cogroup-tumbling", func(b *millrace.Builder, on storage) {
		t, _ := two(b).WindowBy(window.Tumbling(10*ms).Grace(5*ms)).Aggregate(zero, text, on(results, long)...)
		t.ToStream().To(windowed("out", 0, text))
	})
	r.stores("cogroup-sliding", func(b *millrace.Builder, on storage) {
		t, _ := two(b).WindowBy(window.Sliding(10*ms).Grace(5*ms)).Aggregate(zero, text, on(results, long)...)
		t.ToStream().To(windowed("out", 0, text))
	})
	r.stores("cogroup-sessions", func(b *millrace.Builder, on storage) {
		t, _ := two(b).SessionBy(window.Session(5*ms).Grace(5*ms)).Aggregate(zero, joinTexts, text, on(results, long)...)
		t.ToStream().To(sessions("out", text))
	})
	r.stores("cogroup-repartitioned", func(b *millrace.Builder, on storage) {
		x := millrace.GroupBy(millrace.From(b, nullable("x")), firstLetter, millrace.RepartitionName("by-x"), millrace.WithKey(serde.String))
		y := millrace.From(b, nullable("y")).GroupByKey()
		z := millrace.GroupBy(millrace.From(b, nullable("z")), firstLetter, millrace.RepartitionName("by-z"), millrace.WithKey(serde.String))
		c := millrace.AndCogroup(millrace.AndCogroup(millrace.Cogroup(x, mark("x")), y, mark("y")), z, mark("z"))
		c.Aggregate(zero, text, on(results, millrace.NodeName("node"))...).ToStream().To(nullable("out"))
	})
}
