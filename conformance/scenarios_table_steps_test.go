package conformance

import (
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// TableSteps is steps of tables that need no other table.
func (features) TableSteps(r *registry) {
	isP := func(_, v string) bool { return strings.HasPrefix(v, "p") }
	notP := func(_, v string) bool { return !strings.HasPrefix(v, "p") }
	out := texts("out")
	pair := func(x, y string) string { return x + "/" + y }

	r.add("table-to-stream", func(b *millrace.Builder) {
		millrace.TableFrom(b, texts("t"), millrace.AutoName()).ToStream().To(out)
	})
	r.stores("table-stored-to-stream", func(b *millrace.Builder, on storage) {
		millrace.TableFrom(b, texts("t"), on(millrace.StoreName("rows"))...).ToStream().To(out)
	})
	r.add("table-filter", func(b *millrace.Builder) {
		millrace.TableFrom(b, texts("t"), millrace.AutoName()).Filter(isP).ToStream().To(out)
	})
	r.stores("table-stored-filter", func(b *millrace.Builder, on storage) {
		millrace.TableFrom(b, texts("t"), on(millrace.StoreName("rows"))...).
			Filter(isP, on(millrace.StoreName("kept"))...).ToStream().To(out)
	})
	r.stores("table-filter-stored", func(b *millrace.Builder, on storage) {
		millrace.TableFrom(b, texts("t"), millrace.AutoName()).
			FilterNot(isP, on(millrace.StoreName("kept"))...).ToStream().To(out)
	})
	r.stores("table-map-values", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(millrace.StoreName("rows"))...)
		millrace.MapTableValues(t, func(v string) string { return v[:1] }).ToStream().To(out)
		mapped := millrace.MapTableValues(t, func(v string) string { return v + "!" }, on(millrace.StoreName("mapped"), millrace.WithValue(serde.String))...)
		mapped.Filter(func(_, v string) bool { return len(v) != 3 }).ToStream().To(texts("stored"))
	})
	r.stores("to-table", func(b *millrace.Builder, on storage) {
		millrace.From(b, texts("t")).ToTable(on(millrace.StoreName("rows"))...).ToStream().To(out)
	})
	r.stores("to-table-rekeyed", func(b *millrace.Builder, on storage) {
		s := millrace.SelectKey(millrace.From(b, free("t")), func(k, v text) text { return first(v, k) }, millrace.As("rekey"))
		t := s.ToTable(on(millrace.NodeName("tabled"), millrace.StoreName("rows"), millrace.AutoName(), millrace.WithKey(nullText))...)
		t.Filter(func(_, v text) bool { return !strings.HasSuffix(*v, "1") }).ToStream().To(free("out"))
	})
	r.stores("join-through-filter", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("t"), on(millrace.StoreName("rows"))...)
		view := millrace.MapTableValues(t.Filter(notP), func(v string) string { return v + "!" })
		millrace.LeftJoinTable(millrace.From(b, texts("s")), view, func(x, y string, ok bool) string { return pair(x, orNull(y, ok)) }, millrace.As("j")).To(out)
	})
	r.stores("join-through-stored-filter", func(b *millrace.Builder, on storage) {
		view := millrace.TableFrom(b, texts("t"), millrace.AutoName()).Filter(notP, on(millrace.StoreName("kept"))...)
		millrace.JoinTable(millrace.From(b, texts("s")), view, pair, millrace.As("j")).To(out)
		view.ToStream().To(texts("kept-out"))
	})
}
