package io.millrace.conformance;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/** Tables whose updates are held back. */
final class ScenariosSuppress implements Scenarios {
    @Override
    public void register(Registry r) {
        limits(r);
        windows(r);
        neighbours(r);
    }

    private static Inputs rows(int n) {
        return Inputs.of(n).topic("in", t -> t.keys("a", "b", "c", "d", "ab")).last("in", "a", "end", 100).last("in", "z", "end", 200);
    }

    private static KTable<String, String> table(org.apache.kafka.streams.StreamsBuilder b) {
        return b.table("in", Materialized.as("rows"));
    }

    private static Duration ms(long n) {
        return Duration.ofMillis(n);
    }

    private void limits(Registry r) {
        r.add("suppress-limit", rows(200), b ->
            table(b).suppress(Suppressed.<String>untilTimeLimit(ms(15), BufferConfig.unbounded()).withName("held"))
                .toStream().to("out"));
        r.add("suppress-limit-auto", rows(200), b ->
            b.<String, String>table("in").mapValues(v -> v + "!").filter((k, v) -> !v.startsWith("p"))
                .suppress(Suppressed.untilTimeLimit(ms(7), BufferConfig.unbounded()))
                .toStream().to("out"));
        r.add("suppress-limit-zero", rows(100), b ->
            table(b).suppress(Suppressed.<String>untilTimeLimit(ms(0), BufferConfig.unbounded()).withName("held"))
                .toStream().to("out"));
        r.add("suppress-limit-records", rows(200), b ->
            table(b).suppress(Suppressed.<String>untilTimeLimit(ms(30), BufferConfig.maxRecords(2).emitEarlyWhenFull()).withName("held"))
                .toStream().to("out"));
        r.add("suppress-limit-no-records", rows(100), b ->
            table(b).suppress(Suppressed.<String>untilTimeLimit(ms(30), BufferConfig.maxRecords(0)).withName("held"))
                .toStream().to("out"));
        r.add("suppress-limit-bytes", rows(250).headers(0.5), b ->
            table(b).suppress(Suppressed.<String>untilTimeLimit(ms(40), BufferConfig.maxBytes(100)).withName("held"))
                .toStream().to("out"));
        r.add("suppress-limit-both", rows(250).headers(0.5), b ->
            table(b).suppress(Suppressed.<String>untilTimeLimit(ms(40), BufferConfig.maxRecords(4).withMaxBytes(150)).withName("held"))
                .toStream().to("out"));
        r.add("suppress-limit-strict", rows(200), b ->
            table(b).suppress(Suppressed.<String>untilTimeLimit(ms(12), BufferConfig.maxRecords(3).shutDownWhenFull()).withName("held"))
                .toStream().to("out"));
        r.add("suppress-limit-strict-bytes", rows(200), b ->
            table(b).suppress(Suppressed.<String>untilTimeLimit(ms(12), BufferConfig.maxBytes(150).shutDownWhenFull()).withName("held"))
                .toStream().to("out"));
        r.add("suppress-limit-strict-continue", rows(200), b ->
            table(b).suppress(Suppressed.<String>untilTimeLimit(ms(12), BufferConfig.maxRecords(2).shutDownWhenFull()).withName("held"))
                .toStream().to("out"),
            Map.of("processing.exception.handler", "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler"));
        // The second buffer has no log: it would show the old values that come to it, which are a deliberate difference.
        r.add("suppress-limit-twice", rows(200), b ->
            table(b).suppress(Suppressed.<String>untilTimeLimit(ms(5), BufferConfig.unbounded()).withName("first"))
                .suppress(Suppressed.<String>untilTimeLimit(ms(10), BufferConfig.maxRecords(2).withLoggingDisabled()).withName("second"))
                .toStream().to("out"));
    }

    private void windows(Registry r) {
        r.add("suppress-tumbling", rows(250), b ->
            b.<String, String>stream("in").groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5)))
                .count(Materialized.as("counts"))
                .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("final"))
                .toStream().to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 10), Serdes.Long())));
        r.add("suppress-hopping", rows(200).disorder(0.4, 40), b ->
            b.<String, String>stream("in").groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(20), ms(12)).advanceBy(ms(7)))
                .reduce((x, y) -> x + y, Materialized.as("rows"))
                .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("final"))
                .toStream().to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 20), Serdes.String())));
        r.add("suppress-windows-limit", rows(200), b ->
            b.<String, String>stream("in").groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(20)))
                .count(Materialized.as("counts"))
                .suppress(Suppressed.<Windowed<String>>untilTimeLimit(ms(6), BufferConfig.maxRecords(5)).withName("held"))
                .toStream().to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 10), Serdes.Long())));
        r.add("suppress-windows-deletions", rows(250), b ->
            b.<String, String>stream("in").groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5)))
                .aggregate(() -> "", (k, v, agg) -> v == null || v.startsWith("p") ? null : agg + v, Materialized.as("rows"))
                .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("final"))
                .toStream().to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 10), Serdes.String())));
        r.add("suppress-windows-strict", rows(200), b ->
            b.<String, String>stream("in").groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5)))
                .count(Materialized.as("counts"))
                .suppress(Suppressed.untilWindowCloses(BufferConfig.maxRecords(7).shutDownWhenFull()).withName("final"))
                .toStream().to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 10), Serdes.Long())));
        r.add("suppress-windows-filtered", rows(200), b ->
            b.<String, String>stream("in").groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5)))
                .count(Materialized.as("counts"))
                .filter((k, n) -> n > 1)
                .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("final"))
                .mapValues(n -> -n)
                .toStream().to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 10), Serdes.Long())));
    }

    private void neighbours(Registry r) {
        r.add("suppress-regroup", rows(250), b ->
            b.<String, String>stream("in").groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5)))
                .count(Materialized.as("counts"))
                .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()).withName("final"))
                .toStream()
                .map((k, n) -> KeyValue.pair("all", n))
                .groupByKey(Grouped.with("by-all", Serdes.String(), Serdes.Long()))
                .reduce(Long::sum, Materialized.<String, Long, org.apache.kafka.streams.state.KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>as("sums")
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
                .toStream().to("out", Produced.with(Serdes.String(), Serdes.Long())));
        r.add("suppress-joined", rows(200).topic("s", t -> t.keys("a", "b", "c", "d", "ab")).topic("s2", t -> t.keys("a", "b", "c", "d", "ab")), b -> {
            KTable<String, String> held = table(b).suppress(Suppressed.<String>untilTimeLimit(ms(12), BufferConfig.unbounded()).withName("held"));
            b.<String, String>stream("s").leftJoin(held, (x, y) -> x + "/" + y, Joined.as("with-held")).to("joined");
            b.<String, String>stream("s2").join(held.filter((k, v) -> !v.startsWith("q")), (x, y) -> x + "/" + y, Joined.as("with-filtered")).to("joined");
        });
        // The other rows are always there: where they are not, a deletion of a row that was never sent is a deliberate difference.
        r.add("suppress-table-join", rows(200).first("other", "a", "p", 0).first("other", "b", "q", 0).first("other", "c", "r", 0)
            .first("other", "d", "p", 0).first("other", "ab", "q", 0)
            .topic("other", t -> t.keys("a", "b", "c", "d", "ab").nullValues(0)), b -> {
            KTable<String, String> held = table(b).suppress(Suppressed.<String>untilTimeLimit(ms(12), BufferConfig.unbounded()).withName("held"));
            KTable<String, String> other = b.table("other", Materialized.as("others"));
            held.join(other, (x, y) -> x + "/" + y).toStream().to("inner");
            held.outerJoin(other, (x, y) -> x + "/" + y, Materialized.as("outer")).toStream().to("outer");
        });
    }
}
