package conformance

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

type textTable = millrace.Table[string, string]

var (
	auto      = millrace.AutoName()
	textKey   = millrace.WithKey(serde.String)
	textValue = millrace.WithValue(serde.String)
)

// rows is a table of a topic, with a store.
func rows(b *millrace.Builder, on storage, topic string) textTable {
	return millrace.TableFrom(b, texts(topic), on(millrace.StoreName(topic+"-rows"))...)
}

// kept names a step and its store.
func kept(on storage, node, store string) []millrace.StepOption {
	return on(millrace.NodeName(node), millrace.StoreName(store), textKey, textValue)
}

func glue(l, r string) string { return l + "/" + r }

// end is the end of a text that only grows.
func end(s string) string { return s[max(0, len(s)-60):] }

func plus(a, v string) string  { return end(a + "+" + v) }
func minus(a, v string) string { return end(a + "-" + v) }

func history(g millrace.GroupedTable[string, string], on storage, name string) textTable {
	return millrace.AggregateTable(g, func() string { return "" },
		func(_, v, a string) string { return plus(a, v) }, func(_, v, a string) string { return minus(a, v) },
		serde.String, kept(on, name, name)...)
}

// join is one of the three joins.
func join(kind string, l, r textTable, opts ...millrace.StepOption) textTable {
	switch kind {
	case "inner":
		return millrace.JoinTables(l, r, glue, opts...)
	case "left":
		return millrace.LeftJoinTables(l, r, func(l, r string, ok bool) string { return glue(l, orNull(r, ok)) }, opts...)
	}
	return millrace.OuterJoinTables(l, r, func(l string, okL bool, r string, okR bool) string {
		return glue(orNull(l, okL), orNull(r, okR))
	}, opts...)
}

var joinKinds = []string{"inner", "left", "outer"}

// TableJoins is joins of tables by key.
func (features) TableJoins(r *registry) {
	r.stores("table-joins", func(b *millrace.Builder, on storage) {
		l, right := rows(b, on, "l"), rows(b, on, "r")
		for _, kind := range joinKinds {
			join(kind, l, right, millrace.NodeName(kind)).ToStream().To(texts(kind + "-out"))
		}
	})
	r.stores("table-joins-kept", func(b *millrace.Builder, on storage) {
		l, right := rows(b, on, "l"), rows(b, on, "r")
		for _, kind := range joinKinds {
			join(kind, l, right, kept(on, kind, kind+"-rows")...).ToStream().To(texts(kind + "-out"))
		}
	})
	r.stores("table-join-unnamed", func(b *millrace.Builder, on storage) {
		l := millrace.TableFrom(b, texts("l"), storageOnly(on)...).Filter(func(_, v string) bool { return v[0] != 'p' })
		right := millrace.MapTableValues(millrace.TableFrom(b, texts("r"), storageOnly(on)...), func(v string) string { return v + "!" })
		millrace.JoinTables(l, right, glue).FilterNot(func(_, v string) bool { return v[0] == 'q' }).ToStream().To(texts("out"))
	})
	r.stores("table-join-of-streams", func(b *millrace.Builder, on storage) {
		latest := millrace.From(b, texts("l")).GroupByKey().Reduce(func(_, v string) string { return v }, on(millrace.StoreName("latest"))...)
		join("outer", latest, millrace.From(b, texts("r")).ToTable(kept(on, "r-table", "r-rows")...), millrace.NodeName("join")).
			ToStream().To(texts("out"))
	})
	r.stores("table-join-derived", func(b *millrace.Builder, on storage) {
		l := rows(b, on, "l")
		mapped := millrace.MapTableValues(l, func(v string) string { return v + "!" })
		join("left", mapped, l, millrace.NodeName("left")).ToStream().To(texts("left-out"))
		join("outer", l, mapped, millrace.NodeName("outer")).ToStream().To(texts("outer-out"))
		few := l.Filter(func(_, v string) bool { return v[0] < 'r' }, kept(on, "few", "few-rows")...)
		join("outer", l, few, millrace.NodeName("kept")).ToStream().To(texts("kept-out"))
	})
	for _, first := range joinKinds {
		for _, second := range joinKinds {
			r.add("table-join-"+first+"-"+second, func(b *millrace.Builder) {
				both := join(first, rows(b, onDisk, "l"), rows(b, onDisk, "r"), millrace.NodeName("first"))
				join(second, both, rows(b, onDisk, "x"), millrace.NodeName("second")).ToStream().To(texts("out"))
			})
		}
	}
	r.stores("table-join-chain-kept", func(b *millrace.Builder, on storage) {
		first := join("left", rows(b, on, "l"), rows(b, on, "r"), kept(on, "first", "first-rows")...)
		upper := millrace.MapTableValues(first, strings.ToUpper, kept(on, "upper", "upper-rows")...)
		join("outer", upper, rows(b, on, "x"), millrace.NodeName("second")).
			Filter(func(_, v string) bool { return len(v) > 5 }, kept(on, "long", "long-rows")...).
			ToStream().To(texts("out"))
	})
}

// storageOnly is the options of a table without a name.
func storageOnly(on storage) []millrace.StepOption { return on(auto) }

func byLetter(_, v string) (string, string) { return v[:1], v }

// group groups the rows of a table of text.
func group(t textTable, f func(k, v string) (string, string), opts ...millrace.StepOption) millrace.GroupedTable[string, string] {
	return millrace.GroupTableBy(t, f, append(opts, textKey, textValue)...)
}

// TableGroups is groups of a table's rows.
func (features) TableGroups(r *registry) {
	r.stores("table-group-count", func(b *millrace.Builder, on storage) {
		millrace.CountTable(group(rows(b, on, "l"), byLetter), on(millrace.StoreName("counts"))...).ToStream().To(numbers("out"))
	})
	r.stores("table-group-aggregate", func(b *millrace.Builder, on storage) {
		history(group(rows(b, on, "l"), byLetter), on, "history").ToStream().To(texts("out"))
	})
	r.stores("table-group-reduce", func(b *millrace.Builder, on storage) {
		nullText := serde.Nullable(serde.String)
		g := millrace.GroupTableBy(rows(b, on, "l"), func(k, v string) (*string, *string) {
			letter, both := v[:1], k+v
			switch letter {
			case "p":
				return nil, &v
			case "q":
				return &letter, nil
			}
			return &letter, &both
		}, millrace.WithKey(nullText), millrace.WithValue(nullText), millrace.RepartitionName("g"))
		g.Reduce(func(a, v *string) *string {
			out := plus(*a, *v)
			return &out
		}, func(a, v *string) *string {
			if len(*v)%2 == 0 {
				return nil
			}
			out := minus(*a, *v)
			return &out
		}, on(millrace.NodeName("n"), millrace.StoreName("reduced"))...).ToStream().To(millrace.NewTopic("out", nullText, nullText))
	})
	r.stores("table-group-twice", func(b *millrace.Builder, on storage) {
		g := group(millrace.TableFrom(b, texts("l"), storageOnly(on)...), func(k, v string) (string, string) { return "all", k + v }, millrace.RepartitionName("g"))
		millrace.CountTable(g, on(auto)...).ToStream().To(numbers("counts"))
		history(g, on, "history").ToStream().To(texts("out"))
	})
	r.stores("table-group-of-filter", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("l"), storageOnly(on)...).Filter(func(_, v string) bool { return v[0] != 'p' })
		history(group(millrace.MapTableValues(t, func(v string) string { return v + "!" }), byLetter), on, "history").ToStream().To(texts("out"))
	})
	r.stores("table-group-of-kept-filter", func(b *millrace.Builder, on storage) {
		t := millrace.TableFrom(b, texts("l"), storageOnly(on)...).
			Filter(func(_, v string) bool { return v[0] != 'p' }, on(millrace.StoreName("filtered"), textKey, textValue)...)
		history(group(t, byLetter), on, "history").ToStream().To(texts("out"))
	})
	for _, kind := range joinKinds {
		r.stores("table-group-of-"+kind+"-join", func(b *millrace.Builder, on storage) {
			joined := join(kind, rows(b, on, "l"), rows(b, on, "r"), millrace.NodeName("join"))
			history(group(joined, func(k, v string) (string, string) { return v[:1], k + v }), on, "history").ToStream().To(texts("out"))
		})
	}
	r.stores("table-group-joined", func(b *millrace.Builder, on storage) {
		joined := join("left", rows(b, on, "l"), rows(b, on, "r"), kept(on, "join", "join-rows")...)
		sums := group(joined, func(k, v string) (string, string) {
			if k == "a" {
				k = "b"
			}
			return k, v
		}).Reduce(plus, minus, on(millrace.StoreName("sums"))...)
		second := join("outer", sums, rows(b, on, "x"), millrace.NodeName("second"))
		all := group(second, func(k, _ string) (string, string) { return "all", k })
		millrace.CountTable(all, on(millrace.StoreName("counts"))...).ToStream().To(numbers("out"))
	})
	r.stores("table-group-of-aggregate", func(b *millrace.Builder, on storage) {
		counts := millrace.Count(millrace.From(b, texts("in")).GroupByKey(), on(millrace.StoreName("counts"))...)
		g := millrace.GroupTableBy(counts, func(k string, n int64) (string, string) {
			parity := "odd"
			if n%2 == 0 {
				parity = "even"
			}
			return parity, fmt.Sprint(k, n)
		}, textKey, textValue)
		g.Reduce(plus, minus, on(millrace.StoreName("sums"))...).ToStream().To(texts("out"))
	})
}

// TableWindows is tables of windows as tables.
func (features) TableWindows(r *registry) {
	counts := func(b *millrace.Builder, on storage, topic, store string) millrace.Table[window.Key[string], int64] {
		w := millrace.From(b, texts(topic)).GroupByKey().WindowBy(window.Tumbling(10 * time.Millisecond).Grace(20 * time.Millisecond))
		t, _ := millrace.CountWindows(w, on(millrace.StoreName(store))...)
		return t
	}
	windowedText := serde.Windowed(serde.String, 10*time.Millisecond)
	r.stores("table-windows-regrouped", func(b *millrace.Builder, on storage) {
		t := counts(b, on, "in", "counts").Filter(func(_ window.Key[string], n int64) bool { return n > 1 })
		g := millrace.GroupTableBy(t, func(k window.Key[string], n int64) (string, string) {
			return k.Key, fmt.Sprint(k.Window.StartMs, "=", n)
		}, textKey, textValue)
		g.Reduce(plus, minus, on(millrace.StoreName("sums"))...).ToStream().To(texts("out"))
	})
	r.stores("table-windows-grouped-by-window", func(b *millrace.Builder, on storage) {
		g := millrace.GroupTableBy(counts(b, on, "in", "counts"), func(k window.Key[string], n int64) (window.Key[string], int64) { return k, n },
			millrace.WithKey(windowedText), millrace.WithValue(serde.Int64))
		millrace.CountTable(g, on(millrace.StoreName("rows"))...).ToStream().To(millrace.NewTopic("out", windowedText, serde.Int64))
	})
	r.stores("table-windows-joined", func(b *millrace.Builder, on storage) {
		l, right := counts(b, on, "l", "l-counts"), counts(b, on, "r", "r-counts")
		few := l.Filter(func(_ window.Key[string], n int64) bool { return n != 2 })
		tens := millrace.MapTableValues(right, func(n int64) int64 { return n * 10 })
		millrace.OuterJoinTables(few, tens, func(x int64, okX bool, y int64, okY bool) string {
			return orNull(fmt.Sprint(x), okX) + "/" + orNull(fmt.Sprint(y), okY)
		}).ToStream().To(windowed("out", 10*ms, serde.String))
		both := millrace.JoinTables(l, right, func(x, y int64) string { return fmt.Sprint(x, "/", y) })
		millrace.ToStreamBy(both, func(k window.Key[string], _ string) string { return k.Key }).To(texts("keys"))
	})
}
