package conformance

import (
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/milltest"
	"github.com/millrace-io/millrace/processor"
	"github.com/millrace-io/millrace/serde"
	"github.com/millrace-io/millrace/window"
)

// Sources is sources, sinks, and records that cannot be read.
func (features) Sources(r *registry) {
	r.add("several-topics", func(b *millrace.Builder) {
		s := millrace.From(b, millrace.NewTopics(serde.String, serde.String, "x", "y", "z"))
		millrace.Count(s.GroupByKey(), millrace.StoreName("counts")).ToStream().To(numbers("out"))
	})

	r.stores("extract-time", func(b *millrace.Builder, on storage) {
		s := millrace.From(b, free("in"), millrace.As("src"), millrace.Timestamps(
			func(r textRecord, _ processor.Metadata, _ int64) (int64, error) {
				if r.Value == nil || strings.HasSuffix(*r.Value, "5") {
					return -1, nil
				}
				return 3 * int64(number(*r.Value)), nil
			}))
		counts, _ := millrace.CountWindows(s.GroupByKey().WindowBy(window.Tumbling(20*ms).Grace(5*ms)), on(millrace.StoreName("counts"))...)
		counts.ToStream().To(millrace.NewTopic("out", serde.Windowed(nullText, 20*ms), serde.Int64))
	})

	r.add("extract-partition-time", func(b *millrace.Builder) {
		millrace.From(b, free("in"), millrace.As("src"), millrace.Timestamps(
			func(r textRecord, _ processor.Metadata, partitionTimeMs int64) (int64, error) {
				if r.Value == nil || begins(r.Value, "p") {
					return max(partitionTimeMs, 0), nil
				}
				return r.TimestampMs, nil
			})).To(free("out"))
	})

	r.add("dynamic-sink", func(b *millrace.Builder) {
		millrace.From(b, free("in")).ToChosen(func(_, v text, m processor.Metadata) string {
			if v == nil {
				return "nulls"
			}
			return m.Topic + "-" + (*v)[:1]
		}, nullText, nullText)
	})

	r.add("poison-continue", func(b *millrace.Builder) {
		millrace.From(b, numbers("in")).GroupByKey().Reduce(func(x, y int64) int64 { return x + y }, millrace.StoreName("sums")).
			ToStream().To(numbers("out"))
	}, driven(milltest.OnDeserializationError(millrace.LogAndContinue())))

	r.add("poison-fail", func(b *millrace.Builder) {
		millrace.From(b, numbers("in")).To(numbers("out"))
	}, failing())

	r.add("topic-read-twice", func(b *millrace.Builder) {
		millrace.MapValues(millrace.From(b, free("in")), with("1")).To(free("out"))
		millrace.MapValues(millrace.From(b, free("in")), with("2")).To(free("out"))
	})
}
