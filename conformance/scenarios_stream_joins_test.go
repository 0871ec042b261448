package conformance

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// StreamJoins is the joins of two streams.
func (features) StreamJoins(r *registry) {
	windows := func(before, after, grace int) window.JoinWindows {
		return window.Within(0).Before(time.Duration(before) * ms).After(time.Duration(after) * ms).Grace(time.Duration(grace) * ms)
	}
	pair := func(l, r string) string { return l + "/" + r }
	inner := func(name string, w window.JoinWindows) {
		r.stores(name, func(b *millrace.Builder, on storage) {
			l := millrace.From(b, texts("l"))
			out, _ := millrace.JoinStreams(l, millrace.From(b, texts("r")), w, pair, on(millrace.As("j"))...)
			out.To(texts("out"))
		})
	}
	inner("stream-join-inner", windows(15, 15, 12))
	inner("stream-join-inner-asymmetric", windows(20, 14, 30))
	r.stores("stream-join-left", func(b *millrace.Builder, on storage) {
		l := millrace.From(b, texts("l"))
		out, _ := millrace.LeftJoinStreams(l, millrace.From(b, texts("r")), windows(15, 15, 100_000), func(l, r string, ok bool) string {
			return l + "/" + orNull(r, ok)
		}, on(millrace.As("j"))...)
		out.To(texts("out"))
	})
	r.stores("stream-join-outer", func(b *millrace.Builder, on storage) {
		l := millrace.From(b, texts("l"))
		out, _ := millrace.OuterJoinStreams(l, millrace.From(b, texts("r")), windows(13, 25, 100_000), func(l string, okL bool, r string, okR bool) string {
			return orNull(l, okL) + "/" + orNull(r, okR)
		}, on(millrace.As("j"))...)
		out.To(texts("out"))
	})
	r.stores("stream-join-self", func(b *millrace.Builder, on storage) {
		l := millrace.From(b, texts("l"))
		out, _ := millrace.JoinStreams(l, l, windows(13, 13, 50), pair, on(millrace.As("j"))...)
		out.To(texts("out"))
	})
	r.stores("stream-join-chain", func(b *millrace.Builder, on storage) {
		l, other := millrace.From(b, texts("l")), millrace.From(b, texts("r"))
		one, _ := millrace.JoinStreams(l, other, windows(13, 13, 50), pair, on(millrace.As("one"))...)
		two, _ := millrace.JoinStreams(one, other, windows(13, 20, 50), pair, on(millrace.As("two"), millrace.WithValue(serde.String))...)
		two.To(texts("out"))
	})
	oneStore := builtWith(millrace.Optimize(millrace.SingleStoreSelfJoin))
	self := func(name string, w window.JoinWindows) {
		r.stores(name, func(b *millrace.Builder, on storage) {
			l := millrace.From(b, texts("l"))
			out, _ := millrace.JoinStreams(l, l, w, pair, on(millrace.As("j"))...)
			out.To(texts("out"))
		}, oneStore)
	}
	self("stream-join-self-one-store", windows(13, 13, 50))
	self("stream-join-self-one-store-asymmetric", windows(20, 14, 50))
	// A null value has no initial: its record ends here.
	byInitial := func(b *millrace.Builder, topic string) millrace.Stream[string, string] {
		given := millrace.From(b, texts(topic)).Filter(func(_, v string) bool { return v != "" })
		return millrace.SelectKey(given, func(_, v string) string { return v[:1] })
	}
	texting := []millrace.StepOption{millrace.As("j"), millrace.WithKey(serde.String), millrace.WithValue(serde.String), millrace.WithOtherValue(serde.String)}
	r.stores("stream-join-inner-repartitioned", func(b *millrace.Builder, on storage) {
		l := byInitial(b, "l")
		out, _ := millrace.JoinStreams(l, byInitial(b, "r"), windows(15, 15, 100), pair, on(texting...)...)
		out.To(texts("out"))
	})
	r.stores("stream-join-left-repartitioned", func(b *millrace.Builder, on storage) {
		l := byInitial(b, "l")
		out, _ := millrace.LeftJoinStreams(l, byInitial(b, "r"), windows(15, 15, 100_000), func(l, r string, ok bool) string {
			return l + "/" + orNull(r, ok)
		}, on(texting...)...)
		out.To(texts("out"))
	})
	r.stores("stream-join-outer-repartitioned", func(b *millrace.Builder, on storage) {
		l := byInitial(b, "l")
		out, _ := millrace.OuterJoinStreams(l, millrace.From(b, texts("r")), windows(15, 15, 100_000), func(l string, okL bool, r string, okR bool) string {
			return orNull(l, okL) + "/" + orNull(r, okR)
		}, on(texting...)...)
		out.To(texts("out"))
	})
	r.stores("stream-join-merged-repartitions", func(b *millrace.Builder, on storage) {
		l := byInitial(b, "l")
		out, _ := millrace.JoinStreams(l, millrace.From(b, texts("r")), windows(15, 15, 100), pair, on(texting...)...)
		out.To(texts("out"))
		some := l.Filter(func(_, v string) bool { return v[len(v)-1] != '1' }).GroupByKey(millrace.WithKey(serde.String))
		millrace.Count(some, on(millrace.As("n"))...).ToStream().To(millrace.NewTopic("counts", serde.String, serde.Int64))
	}, builtWith(millrace.Optimize(millrace.MergeRepartitionTopics)))
	r.stores("stream-join-count-suppress", func(b *millrace.Builder, on storage) {
		l := millrace.From(b, texts("l"))
		joined, _ := millrace.JoinStreams(l, millrace.From(b, texts("r")), windows(15, 15, 50), pair, on(millrace.As("j"))...)
		w := joined.GroupByKey(millrace.WithValue(serde.String)).WindowBy(window.Tumbling(20 * ms).Grace(30 * ms))
		counts, _ := millrace.CountWindows(w, on(millrace.As("n"))...)
		final := counts.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("s")).ToStream()
		millrace.SelectKey(final, func(k window.Key[string], _ int64) string { return fmt.Sprintf("%s@%d", k.Key, k.Window.StartMs) }).
			To(millrace.NewTopic("out", serde.String, serde.Int64))
	})
}
