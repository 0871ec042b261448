package conformance

import (
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Suppress is tables whose updates are held back.
func (features) Suppress(r *registry) {
	suppressLimits(r)
	suppressWindows(r)
	suppressNeighbours(r)
}

func rowsOf(b *millrace.Builder) millrace.Table[string, string] {
	return millrace.TableFrom(b, texts("in"), millrace.StoreName("rows"))
}

func suppressLimits(r *registry) {
	held := func(name string, d time.Duration, buffer millrace.Buffer, settings ...setting) {
		r.add(name, func(b *millrace.Builder) {
			rowsOf(b).Suppress(millrace.UntilTimeLimit(d, buffer), millrace.As("held")).ToStream().To(texts("out"))
		}, settings...)
	}
	held("suppress-limit", 15*ms, millrace.Unbounded())
	r.add("suppress-limit-auto", func(b *millrace.Builder) {
		t := millrace.MapTableValues(millrace.TableFrom(b, texts("in"), millrace.AutoName()), func(v string) string { return v + "!" })
		t.Filter(func(_, v string) bool { return v[0] != 'p' }).
			Suppress(millrace.UntilTimeLimit(7*ms, millrace.Unbounded()), millrace.AutoName(), millrace.WithValue[string](serde.String)).
			ToStream().To(texts("out"))
	})
	held("suppress-limit-zero", 0, millrace.Unbounded())
	held("suppress-limit-records", 30*ms, millrace.MaxRecords(2).EmitEarlyWhenFull())
	held("suppress-limit-no-records", 30*ms, millrace.MaxRecords(0))
	held("suppress-limit-bytes", 40*ms, millrace.MaxBytes(100))
	held("suppress-limit-both", 40*ms, millrace.MaxRecords(4).AndMaxBytes(150))
	held("suppress-limit-strict", 12*ms, millrace.MaxRecords(3).FailWhenFull(), failing())
	held("suppress-limit-strict-bytes", 12*ms, millrace.MaxBytes(150).FailWhenFull(), failing())
	held("suppress-limit-strict-continue", 12*ms, millrace.MaxRecords(2).FailWhenFull(), driven(milltest.OnProcessingError(millrace.LogAndContinue())))
	r.add("suppress-limit-twice", func(b *millrace.Builder) {
		rowsOf(b).Suppress(millrace.UntilTimeLimit(5*ms, millrace.Unbounded()), millrace.As("first")).
			Suppress(millrace.UntilTimeLimit(10*ms, millrace.MaxRecords(2)), millrace.As("second"), millrace.WithoutLog()). // as unloggedUntilClosed
			ToStream().To(texts("out"))
	})
}

func suppressWindows(r *registry) {
	final := millrace.UntilWindowCloses(millrace.Unbounded())
	by := func(b *millrace.Builder, w window.Time) millrace.Windowed[string, string] {
		return millrace.From(b, texts("in")).GroupByKey().WindowBy(w)
	}
	counts := func(b *millrace.Builder, w window.Time) millrace.Table[window.Key[string], int64] {
		t, _ := millrace.CountWindows(by(b, w), millrace.StoreName("counts"))
		return t
	}
	tens := window.Tumbling(10 * ms).Grace(5 * ms)

	r.add("suppress-tumbling", func(b *millrace.Builder) {
		counts(b, tens).Suppress(final, millrace.As("final")).ToStream().To(windowed("out", 10*ms, serde.Int64))
	})
	r.add("suppress-hopping", func(b *millrace.Builder) {
		w := millrace.From(b, nullable("in")).GroupByKey().WindowBy(window.Hopping(20*ms, 7*ms).Grace(12 * ms))
		t, _ := millrace.ReduceWindows(w, func(x, y *string) *string {
			both := orNone(x) + orNone(y)
			return &both
		}, millrace.StoreName("rows"))
		t.Suppress(final, millrace.As("final")).ToStream().To(windowed("out", 20*ms, serde.Nullable(serde.String)))
	})
	r.add("suppress-windows-limit", func(b *millrace.Builder) {
		counts(b, window.Tumbling(10*ms).Grace(20*ms)).
			Suppress(millrace.UntilTimeLimit(6*ms, millrace.MaxRecords(5)), millrace.As("held")).
			ToStream().To(windowed("out", 10*ms, serde.Int64))
	})
	r.add("suppress-windows-deletions", func(b *millrace.Builder) {
		w := millrace.From(b, nullable("in")).GroupByKey().WindowBy(tens)
		t, _ := millrace.AggregateWindows(w, func() *string { return new(string) }, func(_ string, v, agg *string) *string {
			if v == nil || (*v)[0] == 'p' {
				return nil
			}
			both := orNone(agg) + *v
			return &both
		}, serde.Nullable(serde.String), millrace.StoreName("rows"))
		t.Suppress(final, millrace.As("final")).ToStream().To(windowed("out", 10*ms, serde.Nullable(serde.String)))
	})
	r.add("suppress-windows-strict", func(b *millrace.Builder) {
		counts(b, tens).Suppress(millrace.UntilWindowCloses(millrace.MaxRecords(7).FailWhenFull()), millrace.As("final")).
			ToStream().To(windowed("out", 10*ms, serde.Int64))
	}, failing())
	r.add("suppress-windows-filtered", func(b *millrace.Builder) {
		many := counts(b, tens).Filter(func(_ window.Key[string], n int64) bool { return n > 1 })
		millrace.MapTableValues(many.Suppress(final, millrace.As("final")), func(n int64) int64 { return -n }).
			ToStream().To(windowed("out", 10*ms, serde.Int64))
	})
}

// orNone is what Java makes of a null in a concatenation.
func orNone(v *string) string {
	if v == nil {
		return "null"
	}
	return *v
}

func suppressNeighbours(r *registry) {
	join := func(x, y string, ok bool) string { return x + "/" + orNull(y, ok) }
	held := func(b *millrace.Builder) millrace.Table[string, string] {
		return rowsOf(b).Suppress(millrace.UntilTimeLimit(12*ms, millrace.Unbounded()), millrace.As("held"))
	}

	r.add("suppress-regroup", func(b *millrace.Builder) {
		w := millrace.From(b, texts("in")).GroupByKey().WindowBy(window.Tumbling(10 * ms).Grace(5 * ms))
		t, _ := millrace.CountWindows(w, millrace.StoreName("counts"))
		all := millrace.Map(t.Suppress(millrace.UntilWindowCloses(millrace.Unbounded()), millrace.As("final")).ToStream(),
			func(_ window.Key[string], n int64) (string, int64) { return "all", n })
		all.GroupByKey(millrace.RepartitionName("by-all"), millrace.WithKey[string](serde.String), millrace.WithValue[int64](serde.Int64)).
			Reduce(func(x, y int64) int64 { return x + y }, millrace.StoreName("sums")).
			ToStream().To(numbers("out"))
	})
	r.add("suppress-joined", func(b *millrace.Builder) {
		t := held(b)
		millrace.LeftJoinTable(millrace.From(b, texts("s")), t, join, millrace.As("with-held")).To(texts("joined"))
		s := millrace.From(b, texts("s2"))
		kept := t.Filter(func(_, v string) bool { return v[0] != 'q' })
		millrace.JoinTable(s, kept, func(x, y string) string { return x + "/" + y }, millrace.As("with-filtered")).
			To(texts("joined"))
	})
	r.add("suppress-table-join", func(b *millrace.Builder) {
		t, other := held(b), millrace.TableFrom(b, texts("other"), millrace.StoreName("others"))
		millrace.JoinTables(t, other, func(x, y string) string { return x + "/" + y }, millrace.AutoName()).ToStream().To(texts("inner"))
		millrace.OuterJoinTables(t, other, func(x string, okX bool, y string, okY bool) string {
			return orNull(x, okX) + "/" + orNull(y, okY)
		}, millrace.StoreName("outer"), millrace.WithValue[string](serde.String)).ToStream().To(texts("outer"))
	})
}
