package conformance

import (
	"fmt"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// StreamTable is joins of streams with tables and with global tables.
func (features) StreamTable(r *registry) {
	out := texts("out")
	pair := func(x, y string) string { return x + "/" + y }
	leftPair := func(x, y string, ok bool) string { return x + "/" + orNull(y, ok) }
	key, value := millrace.WithKey(nullText), millrace.WithValue(serde.String)

	r.stores("join-rekeyed", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, millrace.NewTopic("t", nullText, serde.String), on(millrace.StoreName("rows"))...)
		s := millrace.SelectKey(millrace.From(b, free("s")), func(k, v text) text {
			if begins(v, "p") {
				return nil
			}
			return k
		})
		millrace.LeftJoinTable(s, t, func(x text, y string, ok bool) text { return some(or(x) + "/" + orNull(y, ok)) }, millrace.As("j"), key).To(free("out"))
	})

	r.add("join-rekeyed-unnamed", func(b *millrace.Builder) {
		t := millrace.TableFrom(b, millrace.NewTopic("t", nullText, serde.String), millrace.AutoName())
		s := millrace.SelectKey(millrace.From(b, millrace.NewTopic("s", nullText, serde.String)), func(k text, _ string) text { return k })
		millrace.JoinTable(s, t, pair, millrace.AutoName(), key).To(millrace.NewTopic("out", nullText, serde.String))
		millrace.LeftJoinTable(s, t, func(x, y string, ok bool) string { return x + `\` + orNull(y, ok) }, millrace.AutoName(), key).
			To(millrace.NewTopic("left-out", nullText, serde.String))
	})

	r.stores("join-to-null", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(millrace.StoreName("rows"))...)
		j := millrace.LeftJoinTable(millrace.From(b, texts("s")), t, func(x, y string, ok bool) text {
			if !ok {
				return nil
			}
			return some(x + y)
		}, millrace.As("j"))
		j.Filter(func(_ string, v text) bool { return v == nil || len(*v) > 4 }).To(nullable("out"))
	})

	r.stores("join-own-count", func(b *millrace.Builder, on storage) {
		s := millrace.From(b, texts("in"))
		counts := millrace.Count(s.GroupByKey(), on(millrace.StoreName("counts"))...)
		millrace.LeftJoinTable(s, counts, func(v string, n int64, ok bool) string { return v + "/" + orNull(fmt.Sprint(n), ok) }, millrace.As("j")).To(out)
	})

	r.stores("join-own-table", func(b *millrace.Builder, on storage) {
		s := millrace.From(b, nullable("in"))
		t := s.ToTable(on(millrace.StoreName("rows"))...)
		millrace.JoinTable(millrace.MapValues(s, with("!")), t, func(x, y text) text { return some(or(x) + "/" + or(y)) }, millrace.As("j")).
			To(nullable("out"))
	})

	r.stores("join-two-tables", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(millrace.StoreName("t-rows"))...)
		u := millrace.TableFrom(b, texts("u"), on(millrace.StoreName("u-rows"))...)
		one := millrace.JoinTable(millrace.From(b, texts("s")), t, pair, millrace.As("one"))
		millrace.LeftJoinTable(one, u, leftPair, millrace.As("two")).To(out)
	})

	initial := func(_ string, v text) text {
		if v == nil || begins(v, "p") {
			return nil
		}
		return first(v, nil)
	}
	rows := millrace.NewTopic("g", nullText, serde.String)
	r.add("global-join", func(b *millrace.Builder) {
		g := millrace.GlobalTableFrom(b, rows, millrace.StoreName("rows"))
		millrace.JoinGlobal(millrace.From(b, nullable("s")), g, initial, func(x text, y string) text { return some(or(x) + "/" + y) }, millrace.As("j")).
			To(nullable("out"))
	})

	r.add("global-left-join", func(b *millrace.Builder) {
		g := millrace.GlobalTableFrom(b, rows, millrace.AutoName())
		millrace.LeftJoinGlobal(millrace.From(b, nullable("s")), g, initial, func(x text, y string, ok bool) text { return some(or(x) + "/" + orNull(y, ok)) }).
			To(nullable("out"))
	})

	r.stores("joined-then-counted", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(millrace.StoreName("rows"))...)
		j := millrace.LeftJoinTable(millrace.From(b, texts("s")), t, func(_, y string, ok bool) string {
			if !ok {
				return "none"
			}
			return y[:1]
		}, millrace.As("j"))
		g := millrace.GroupBy(j, func(_, v string) string { return v }, millrace.RepartitionName("g"), millrace.WithKey(serde.String), value)
		millrace.Count(g, on(millrace.StoreName("counts"))...).ToStream().To(numbers("out"))
	})
}
