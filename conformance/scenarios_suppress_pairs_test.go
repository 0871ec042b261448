package conformance

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// SuppressPairs is suppressions and joins with a grace period beside every other operation, and longer chains of operations.
func (features) SuppressPairs(r *registry) {
	joinsWithGrace(r)
	suppressBehind(r)
	suppressBefore(r)
	suppressChains(r)
}

func tableOf(b *millrace.Builder, topic, name string, on storage) millrace.Table[string, string] {
	return millrace.TableFrom(b, texts(topic), on(millrace.StoreName(name))...)
}

func untilClosed[V any](t millrace.Table[window.Key[string], V]) millrace.Table[window.Key[string], V] {
	return t.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("closed"))
}

// unloggedUntilClosed is untilClosed for sessions and sliding windows. The buffer has no log: it would show which old values
// come to it (that of a session of one moment, that of a sliding window), which is a deliberate difference.
func unloggedUntilClosed[V any](t millrace.Table[window.Key[string], V]) millrace.Table[window.Key[string], V] {
	return t.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("closed"), millrace.WithoutLog())
}

func held(t millrace.Table[string, string]) millrace.Table[string, string] {
	return t.Suppress(millrace.UntilTimeLimit(12*ms, millrace.Unbounded()), millrace.As("held"))
}

func countedInTens(s millrace.Stream[string, string], on storage) millrace.Table[window.Key[string], int64] {
	t, _ := millrace.CountWindows(s.GroupByKey().WindowBy(window.Tumbling(10*ms).Grace(5*ms)), on(millrace.StoreName("counts"))...)
	return t
}

func countedInSessions(b *millrace.Builder, on storage) millrace.Table[window.Key[string], int64] {
	w := millrace.From(b, texts("in")).GroupByKey().SessionBy(window.Session(6 * ms).Grace(5 * ms))
	t, _ := millrace.CountSessions(w, on(millrace.StoreName("counts"), millrace.Retain(time.Hour))...)
	return t
}

func regrouped(t millrace.Table[window.Key[string], int64], on storage) millrace.Table[string, int64] {
	s := millrace.SelectKey(t.ToStream(), func(k window.Key[string], _ int64) string { return k.Key })
	return s.GroupByKey(millrace.RepartitionName("g"), millrace.WithKey(serde.String), millrace.WithValue(serde.Int64)).
		Reduce(func(x, y int64) int64 { return x + y }, on(millrace.StoreName("sums"))...)
}

func lettersOfTwo(b *millrace.Builder) millrace.Cogrouped[string, string] {
	mark := func(topic string) func(_, v, a string) string {
		return func(_, v, a string) string { return a + topic + v[:1] }
	}
	x, y := millrace.From(b, texts("x")).GroupByKey(), millrace.From(b, texts("y")).GroupByKey()
	return millrace.AndCogroup(millrace.Cogroup(x, mark("x")), y, mark("y"))
}

func noText() string { return "" }

func plusMinus(g millrace.GroupedTable[string, string], on storage) millrace.Table[string, string] {
	return millrace.AggregateTable(g, noText, func(_, v, a string) string { return a + "+" + v },
		func(_, v, a string) string { return a + "-" + v }, serde.String, on(millrace.StoreName("all"))...)
}

func byFirstLetter(t millrace.Table[string, string]) millrace.GroupedTable[string, string] {
	return millrace.GroupTableBy(t, func(_, v string) (string, string) { return v[:1], v }, millrace.RepartitionName("g"), textKey, textValue)
}

func joinsWithGrace(r *registry) {
	versioned := func(b *millrace.Builder, history time.Duration) millrace.Table[string, string] {
		return millrace.TableFrom(b, texts("t"), millrace.StoreName("rows"), millrace.Versioned(history))
	}
	for _, history := range []time.Duration{25 * ms, time.Hour} {
		r.add(fmt.Sprintf("join-grace-inner-%d", history.Milliseconds()), func(b *millrace.Builder) {
			t := versioned(b, history)
			millrace.JoinTable(millrace.From(b, texts("s")), t, slash, millrace.As("j"), millrace.JoinGrace(12*ms)).To(texts("out"))
		})
		r.add(fmt.Sprintf("join-grace-left-%d", history.Milliseconds()), func(b *millrace.Builder) {
			t := versioned(b, history)
			millrace.LeftJoinTable(millrace.From(b, texts("s")), t, leftSlash, millrace.As("j"), millrace.JoinGrace(12*ms)).To(texts("out"))
		})
	}
	r.add("join-grace-counted", func(b *millrace.Builder) {
		t := versioned(b, time.Hour)
		j := millrace.JoinTable(millrace.From(b, texts("s")), t, func(x, y string) string { return x[:1] + y[:1] }, millrace.As("j"), millrace.JoinGrace(9*ms))
		g := millrace.GroupBy(j, func(_, v string) string { return v }, millrace.RepartitionName("g"), millrace.WithKey(serde.String), millrace.WithValue(serde.String))
		millrace.Count(g, millrace.StoreName("counts")).ToStream().To(numbers("out"))
	})
}

// suppressBehind is suppressions of every kind of result.
func suppressBehind(r *registry) {
	r.stores("suppress-sliding", func(b *millrace.Builder, on storage) {
		w := millrace.From(b, texts("in")).GroupByKey().WindowBy(window.Sliding(10 * ms).Grace(5 * ms))
		t, _ := millrace.CountWindows(w, on(millrace.StoreName("counts"))...)
		unloggedUntilClosed(t).ToStream().To(windowed("out", 10*ms, serde.Int64))
	})
	r.stores("suppress-sessions", func(b *millrace.Builder, on storage) {
		unloggedUntilClosed(countedInSessions(b, on)).ToStream().To(sessions("out", serde.Int64))
	})
	r.stores("suppress-cogroup-tumbling", func(b *millrace.Builder, on storage) {
		t, _ := lettersOfTwo(b).WindowBy(window.Tumbling(10*ms).Grace(5*ms)).
			Aggregate(noText, serde.String, on(millrace.StoreName("all"), millrace.Retain(time.Hour))...)
		untilClosed(t).ToStream().To(windowed("out", 10*ms, serde.String))
	})
	r.stores("suppress-cogroup-sessions", func(b *millrace.Builder, on storage) {
		t, _ := lettersOfTwo(b).SessionBy(window.Session(6*ms).Grace(5*ms)).
			Aggregate(noText, func(_, x, y string) string { return x + "|" + y }, serde.String, on(millrace.StoreName("all"), millrace.Retain(time.Hour))...)
		unloggedUntilClosed(t).ToStream().To(sessions("out", serde.String))
	})
	r.stores("suppress-cogroup", func(b *millrace.Builder, on storage) {
		held(lettersOfTwo(b).Aggregate(noText, serde.String, on(millrace.StoreName("all"))...)).ToStream().To(texts("out"))
	})
	r.stores("suppress-table-groups", func(b *millrace.Builder, on storage) {
		millrace.CountTable(byFirstLetter(tableOf(b, "in", "rows", on)), on(millrace.StoreName("counts"))...).
			Suppress(millrace.UntilTimeLimit(12*ms, millrace.MaxRecords(2)), millrace.As("held")).
			ToStream().To(numbers("out"))
	})
}

// suppressBefore is what reads a suppressed table.
func suppressBefore(r *registry) {
	r.stores("suppress-right-of-join", func(b *millrace.Builder, on storage) {
		t := held(tableOf(b, "in", "rows", on))
		other := tableOf(b, "s", "others", on)
		millrace.LeftJoinTables(other, t, leftSlash,
			on(millrace.NodeName("j"), millrace.StoreName("joined"), millrace.WithValue(serde.String))...).ToStream().To(texts("left"))
		millrace.OuterJoinTables(t, other, func(x string, okX bool, y string, okY bool) string {
			return orNull(x, okX) + "/" + orNull(y, okY)
		}, on(millrace.NodeName("k"), millrace.StoreName("joined-too"), millrace.WithValue(serde.String))...).ToStream().To(texts("outer"))
	})
	r.stores("suppress-foreign-key-right", func(b *millrace.Builder, on storage) {
		left := tableOf(b, "l", "left", on)
		right := held(tableOf(b, "r", "right", on))
		millrace.JoinForeignKey(left, right, foreign, slash, on(millrace.NodeName("fj"))...).ToStream().To(texts("out"))
	})
}

func suppressChains(r *registry) {
	r.stores("window-suppress-regroup-join", func(b *millrace.Builder, on storage) {
		sums := regrouped(untilClosed(countedInTens(millrace.From(b, texts("in")), on)), on)
		millrace.LeftJoinTable(millrace.From(b, texts("s")), sums, func(v string, n int64, ok bool) string { return leftSlash(v, fmt.Sprint(n), ok) },
			millrace.As("j")).To(texts("out"))
	})
	r.stores("join-streams-window-suppress", func(b *millrace.Builder, on storage) {
		right := millrace.From(b, texts("r"))
		j, _ := millrace.JoinStreams(millrace.From(b, texts("l")), right, window.Within(6*ms).Grace(time.Hour), slash, on(millrace.As("j"))...)
		untilClosed(countedInTens(j, on)).ToStream().To(windowed("out", 10*ms, serde.Int64))
	})
	r.stores("foreign-key-grouped", func(b *millrace.Builder, on storage) {
		left, right := tableOf(b, "l", "left", on), tableOf(b, "r", "right", on)
		j := millrace.JoinForeignKey(left, right, foreign, slash,
			on(millrace.NodeName("fj"), millrace.StoreName("joined"), millrace.WithValue(serde.String))...)
		g := millrace.GroupTableBy(j, func(_, v string) (string, string) {
			at := strings.Index(v, "/") + 1
			return v[at : at+1], v
		}, millrace.RepartitionName("g"), textKey, textValue)
		plusMinus(g, on).ToStream().To(texts("out"))
	})
	r.stores("cogroup-join", func(b *millrace.Builder, on storage) {
		all := lettersOfTwo(b).Aggregate(noText, serde.String, on(millrace.StoreName("all"))...)
		millrace.LeftJoinTable(millrace.From(b, texts("s")), all, leftSlash, millrace.As("j")).To(texts("out"))
	})
	r.stores("session-regroup-count", func(b *millrace.Builder, on storage) {
		there := countedInSessions(b, on).ToStream().Filter(func(_ window.Key[string], n int64) bool { return n != 0 }) // no session is empty
		again := millrace.Map(there, func(k window.Key[string], n int64) (string, string) {
			return fmt.Sprint(k.Key, n%3), fmt.Sprint(k.Window.EndMs)
		}).GroupByKey(millrace.RepartitionName("g"), millrace.WithKey(serde.String), millrace.WithValue(serde.String))
		millrace.Count(again, on(millrace.StoreName("again"))...).ToStream().To(numbers("out"))
	})
	r.stores("session-suppress-regroup", func(b *millrace.Builder, on storage) {
		regrouped(unloggedUntilClosed(countedInSessions(b, on)), on).ToStream().To(numbers("out"))
	})
}
