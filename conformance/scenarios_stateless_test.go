package conformance

import (
	"strconv"
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
)

// text is text or null, as every String of Java is.
type text = *string

var nullText = serde.Nullable(serde.String)

func some(s string) text { return &s }

// or is what a text is in a concatenation of Java.
func or(t text) string {
	if t == nil {
		return "null"
	}
	return *t
}

// begins tells whether a text is there and begins so.
func begins(t text, with string) bool { return t != nil && strings.HasPrefix(*t, with) }

// first is the first letter of a text, or something else for null.
func first(t, otherwise text) text {
	if t == nil {
		return otherwise
	}
	return some((*t)[:1])
}

// free is a topic of keys and values that may be null.
func free(name string) millrace.Topic[text, text] { return millrace.NewTopic(name, nullText, nullText) }

// with is a mapper that appends.
func with(suffix string) func(text) text { return func(v text) text { return some(or(v) + suffix) } }

// Stateless is steps without state.
func (features) Stateless(r *registry) {
	r.add("filter-not", func(b *millrace.Builder) {
		millrace.From(b, free("in")).FilterNot(func(_, v text) bool { return v == nil || strings.HasSuffix(*v, "3") }).
			Peek(func(text, text) {}).To(free("out"))
	})

	r.add("map", func(b *millrace.Builder) {
		millrace.Map(millrace.From(b, free("in")), func(k, v text) (text, text) { return v, k }).To(free("out"))
	})

	r.add("flat-map", func(b *millrace.Builder) {
		millrace.FlatMap(millrace.From(b, free("in")), func(k, v text, emit func(text, text)) {
			for i := range or(v) {
				switch {
				case v == nil:
				case i == 1:
					emit(some((*v)[1:2]), nil)
				default:
					emit(some((*v)[i:i+1]), k)
				}
			}
		}).To(free("out"))
	})

	r.add("flat-map-values", func(b *millrace.Builder) {
		millrace.FlatMapValues(millrace.From(b, free("in")), func(v text, emit func(text)) {
			switch {
			case v == nil:
				emit(some("none"))
			case !begins(v, "p"):
				emit(v)
				emit(some(*v + "+"))
			}
		}).To(free("out"))
	})

	r.add("map-values-of-nulls", func(b *millrace.Builder) {
		millrace.MapValuesWithKey(millrace.From(b, free("in")), func(k, v text) text { return some(or(k) + ":" + or(v)) }).
			To(free("out"))
	})

	r.add("split", func(b *millrace.Builder) {
		s := millrace.From(b, free("in")).Split(millrace.As("s-"))
		nulls := s.Branch(func(_, v text) bool { return v == nil }, millrace.As("null"))
		p := s.Branch(func(_, v text) bool { return begins(v, "p") }, millrace.As("p"))
		q := s.Branch(func(_, v text) bool { return *v < "r" }, millrace.As("q"))
		rest := s.Default(millrace.As("rest"))
		nulls.To(free("nulls"))
		millrace.MapValues(p, with("1")).To(free("out"))
		millrace.MapValues(q, with("2")).To(free("out"))
		rest.To(free("rest"))
	})

	r.add("split-no-default", func(b *millrace.Builder) {
		s := millrace.From(b, free("in")).Split(millrace.As("s-"))
		p := s.Branch(func(_, v text) bool { return begins(v, "p") }, millrace.As("p"))
		q := s.Branch(func(_, v text) bool { return begins(v, "q") }, millrace.As("q"))
		s.NoDefault()
		q.Merge(p).To(free("out"))
	})

	r.add("merge", func(b *millrace.Builder) {
		x := millrace.From(b, free("x"))
		y := millrace.MapValues(millrace.From(b, free("y")), with("y"))
		xy := x.Merge(y)
		xy.Merge(millrace.From(b, free("z")).Filter(func(k, _ text) bool { return k != nil })).To(free("out"))
	})

	r.add("merge-with-itself", func(b *millrace.Builder) {
		x := millrace.From(b, free("x"))
		millrace.MapValues(x, with("1")).Merge(x).To(free("out"))
	})

	r.add("diamond", func(b *millrace.Builder) {
		s := millrace.From(b, free("in"))
		one := millrace.MapValues(s, with("1"))
		two := millrace.FlatMapValues(s, func(v text, emit func(text)) {
			emit(some(or(v) + "2"))
			emit(some(or(v) + "3"))
		})
		s.To(free("out"))
		two.To(free("out"))
		one.Merge(two).To(free("out"))
	})

	r.add("repartition-beside-direct", func(b *millrace.Builder) {
		s := millrace.FlatMapValues(millrace.From(b, free("in")), func(v text, emit func(text)) {
			emit(some(or(v) + "1"))
			emit(some(or(v) + "2"))
		})
		rekeyed := millrace.SelectKey(s, func(_, v text) text { return v }).Repartition(millrace.As("r"), millrace.WithKey(nullText), millrace.WithValue(nullText))
		millrace.MapValues(rekeyed, with("R")).To(free("out"))
		millrace.MapValues(s, with("D")).To(free("out"))
	})

	r.add("loop", func(b *millrace.Builder) {
		s := millrace.From(b, free("loop"))
		s.To(free("out"))
		millrace.FlatMapValues(s.Filter(func(_, v text) bool { return len(*v) < 5 }), func(v text, emit func(text)) {
			emit(some(*v + "x"))
			emit(some(*v + "yy"))
		}).To(free("loop"))
	})

	r.add("serdes", func(b *millrace.Builder) {
		s := millrace.From(b, millrace.NewTopic("in", nullText, nullText)).Filter(func(_, v text) bool { return v != nil })
		toSerde(s, "longs", serde.Int64, func(v string) int64 { return int64(number(v)) - 50 })
		toSerde(s, "ints", serde.Int32, func(v string) int32 { return int32(number(v)) * -7 })
		toSerde(s, "shorts", serde.Int16, func(v string) int16 { return int16(number(v)) })
		toSerde(s, "doubles", serde.Float64, func(v string) float64 { return float64(number(v)) / 3 })
		toSerde(s, "floats", serde.Float32, func(v string) float32 { return float32(number(v)) / 7 })
		toSerde(s, "booleans", serde.Bool, func(v string) bool { return strings.HasPrefix(v, "p") })
		toSerde(s, "lists", serde.List(serde.String), func(v string) []string { return []string{v, "x"} })
	})

	r.add("map-then-count", func(b *millrace.Builder) {
		s := millrace.Map(millrace.From(b, free("in")), func(k, v text) (text, text) { return first(v, nil), k })
		g := s.Filter(func(k, _ text) bool { return k == nil || *k != "s" }).
			GroupByKey(millrace.RepartitionName("g"), millrace.WithKey(nullText), millrace.WithValue(nullText))
		millrace.Count(g, millrace.StoreName("counts")).ToStream().To(millrace.NewTopic("out", nullText, serde.Int64))
	})
}

// number reads the number of a value such as q17.
func number(v string) int {
	n, err := strconv.Atoi(v[1:])
	if err != nil {
		return -1
	}
	return n
}

func toSerde[V any](s millrace.Stream[text, text], topic string, to serde.Serde[V], f func(string) V) {
	millrace.MapValues(s, func(v text) V { return f(*v) }).To(millrace.NewTopic(topic, nullText, to))
}
