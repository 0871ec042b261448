package conformance

import (
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
}
