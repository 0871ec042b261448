package io.millrace.conformance;

import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.WindowStore;

/** Tumbling and hopping windows, results with each update. */
final class ScenariosTimeWindows implements Scenarios {
    static Duration ms(long n) {
        return Duration.ofMillis(n);
    }

    static Serde<Windowed<String>> windows(long size) {
        return WindowedSerdes.timeWindowedSerdeFrom(String.class, size);
    }

    @Override
    public void register(Registry r) {
        TimeWindows hopping = TimeWindows.ofSizeAndGrace(ms(20), ms(5)).advanceBy(ms(7));
        r.stores("hopping-count", Inputs.of(180).topic("in", t -> t.keys("a", "b")).grid(0.3, 7), b ->
            b.<String, String>stream("in").groupByKey().windowedBy(hopping)
                .count(Materialized.as("counts"))
                .toStream().to("out", Produced.with(windows(20), Serdes.Long())));

        r.stores("tumbling-no-grace", Inputs.of(250).topic("in", t -> t.nullValues(0)).disorder(0.4, 15), b ->
            b.<String, String>stream("in").groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(ms(10)))
                .reduce((x, y) -> x + "," + y, Materialized.as("texts"))
                .toStream().to("out", Produced.with(windows(10), Serdes.String())));

        // Nulls count in windows, and a reducer gets them.
        r.stores("tumbling-reduce-nulls", Inputs.of(250).topic("in", t -> t.keys("a", "b").nullValues(0.3)), b ->
            b.<String, String>stream("in").groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(30)))
                .reduce((x, y) -> y == null ? x : x + "," + y, Materialized.as("texts"))
                .toStream().to("out", Produced.with(windows(10), Serdes.String())));

        r.stores("hopping-aggregate-that-deletes", Inputs.of(180).topic("in", t -> t.keys("a", "b")), b ->
            b.<String, String>stream("in").groupByKey().windowedBy(hopping)
                .aggregate(() -> "", (k, v, agg) -> v == null ? null : agg + v.charAt(0),
                    Materialized.<String, String, WindowStore<Bytes, byte[]>>as("texts").withValueSerde(Serdes.String()))
                .toStream().to("out", Produced.with(windows(20), Serdes.String())));

        r.stores("tumbling-sum-group-by", Inputs.of(200).topic("in"), b ->
            b.<String, String>stream("in")
                .groupBy((k, v) -> v == null ? null : v.substring(0, 1), Grouped.as("g"))
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(25), ms(0)))
                .aggregate(() -> 0L, (k, v, agg) -> agg + v.length(),
                    Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("sums").withValueSerde(Serdes.Long()))
                .toStream().to("out", Produced.with(windows(25), Serdes.Long())));

        r.stores("tumbling-retention", Inputs.of(200).topic("in").jumps(0.1, 200).disorder(0.3, 60), b ->
            b.<String, String>stream("in").groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(40)))
                .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts").withRetention(ms(500)))
                .toStream().to("out", Produced.with(windows(10), Serdes.Long())));

        r.add("tumbling-unnamed", Inputs.of(120).topic("in"), b ->
            b.<String, String>stream("in").groupBy((k, v) -> v == null ? "q" : v.substring(0, 1))
                .windowedBy(TimeWindows.ofSizeWithNoGrace(ms(10)))
                .count()
                .toStream().to("out", Produced.with(windows(10), Serdes.Long())));

        // Two windows over one group, one of which is wider than time goes.
        r.stores("two-windows-of-a-group", Inputs.of(150).topic("in").step(6), b -> {
            var g = b.<String, String>stream("in").groupByKey();
            TimeWindowedKStream<String, String> narrow = g.windowedBy(TimeWindows.ofSizeWithNoGrace(ms(1)));
            TimeWindowedKStream<String, String> wide = g.windowedBy(TimeWindows.ofSizeAndGrace(ms(100_000), ms(0)));
            narrow.count(Materialized.as("narrow")).toStream().to("narrow-out", Produced.with(windows(1), Serdes.Long()));
            wide.count(Materialized.as("wide")).toStream().to("wide-out", Produced.with(windows(100_000), Serdes.Long()));
        });

        // A windowed table is filtered and mapped, and its windows leave the key.
        r.stores("tumbling-filter-map-regroup", Inputs.of(200).topic("in"), b -> {
            KTable<Windowed<String>, Long> t = b.<String, String>stream("in").groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(ms(10), ms(5)))
                .count(Materialized.as("counts"));
            t.filter((k, n) -> n % 2 == 1).mapValues(n -> n * 10).toStream()
                .to("odd", Produced.with(windows(10), Serdes.Long()));
            t.toStream()
                .selectKey((k, n) -> k.key())
                .groupByKey(Grouped.<String, Long>as("g").withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
                .reduce(Long::max, Materialized.as("most"))
                .toStream().to("most-out", Produced.with(Serdes.String(), Serdes.Long()));
        });
    }
}
