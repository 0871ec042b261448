package conformance

import (
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// foreign is what stands before the colon of a value; "-" is none.
func foreign(_, v string) (string, bool) {
	key, _, _ := strings.Cut(v, ":")
	return key, key != "-"
}

func slash(x, y string) string              { return x + "/" + y }
func leftSlash(x, y string, ok bool) string { return x + "/" + orNull(y, ok) }

// ForeignKey is joins of tables by a foreign key.
func (features) ForeignKey(r *registry) {
	tables := func(b *millrace.Builder, on storage) (left, right millrace.Table[string, string]) {
		return millrace.TableFrom(b, texts("l"), on(millrace.StoreName("left"))...),
			millrace.TableFrom(b, texts("r"), on(millrace.StoreName("right"))...)
	}

	r.stores("foreign-key-join", func(b *millrace.Builder, on storage) {
		left, right := tables(b, on)
		millrace.JoinForeignKey(left, right, foreign, slash, on(millrace.NodeName("fj"))...).ToStream().To(texts("out"))
	})

	r.stores("foreign-key-left-join", func(b *millrace.Builder, on storage) {
		left, right := tables(b, on)
		millrace.LeftJoinForeignKey(left, right, foreign, leftSlash, on(millrace.NodeName("fj"))...).ToStream().To(texts("out"))
	})

	r.stores("foreign-key-join-kept", func(b *millrace.Builder, on storage) {
		left, right := tables(b, on)
		millrace.LeftJoinForeignKey(left, right, foreign, func(x, y string, ok bool) *string {
			if !ok {
				return nil
			}
			out := slash(x, y)
			return &out
		}, on(millrace.As("fj"), millrace.WithValue(serde.Nullable(serde.String)))...).
			Filter(func(_ string, v *string) bool { return !strings.Contains(*v, "x") }).
			ToStream().To(nullable("out"))
	})

	r.add("foreign-key-join-numbered", func(b *millrace.Builder) {
		auto := millrace.AutoName()
		left := millrace.TableFrom(b, texts("l"), auto)
		right := millrace.TableFrom(b, texts("r"), auto)
		kept := left.Filter(func(_, v string) bool { return !strings.HasSuffix(v, "7") })
		loud := millrace.MapTableValues(right, func(v string) string { return v + "!" }, auto, millrace.WithValue(serde.String))
		millrace.JoinForeignKey(kept, loud, foreign, slash, auto).ToStream().To(texts("out"))
	})

	r.stores("foreign-key-join-chain", func(b *millrace.Builder, on storage) {
		left, right := tables(b, on)
		third := millrace.TableFrom(b, texts("q"), on(millrace.StoreName("third"))...)
		text := millrace.WithValue(serde.String)
		one := millrace.JoinForeignKey(left, right, foreign, slash, on(millrace.As("one"), text)...)
		millrace.LeftJoinForeignKey(one, third, foreign, leftSlash, on(millrace.As("two"), text)...).ToStream().To(texts("out"))
	})

	r.stores("foreign-key-join-itself", func(b *millrace.Builder, on storage) {
		left := millrace.TableFrom(b, texts("l"), on(millrace.StoreName("left"))...)
		millrace.LeftJoinForeignKey(left, left, foreign, leftSlash, on(millrace.NodeName("boss"))...).ToStream().To(texts("out"))
	})
}
